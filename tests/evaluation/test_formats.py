"""Tables for papers: the same bytes each time, and every sign of a name as it is."""

import csv
import io

from isotune.evaluation.formats import Cell, ScoreTable

TABLE = ScoreTable(
    "Two methods",
    "A letter names a row that is worse.",
    ["STS x 100", "steps"],
    {
        "plain": [Cell("31.20"), Cell()],
        "50 % of A|B & C_1": [
            Cell("45.10", "0.31", is_best=True, beaten=("plain",)),
            Cell("1,190"),
        ],
    },
    compared=["STS x 100"],
)

MARKDOWN = r"""Two methods

|  |  | STS x 100 | steps |
| --- | --- | ---: | ---: |
| a | plain | 31.20 |  |
| b | 50 % of A\|B & C_1 | **45.10**<sup>a</sup> ± 0.31 | 1,190 |

A letter names a row that is worse.
"""

LATEX = r"""% Two methods
% A letter names a row that is worse.
% It needs \usepackage{booktabs}.
\begin{tabular}{llrr}
\toprule
 &  & STS x 100 & steps \\
\midrule
a & plain & 31.20 &  \\
b & 50 \% of A|B \& C\_1 & \textbf{45.10}\textsuperscript{a} {\scriptsize $\pm$ 0.31} & 1,190 \\
\bottomrule
\end{tabular}
"""


def test_markdown_and_latex_have_the_best_in_bold_and_the_rows_that_it_beats() -> None:
    assert TABLE.text("markdown") == MARKDOWN
    assert TABLE.text("latex") == LATEX


def test_csv_has_a_column_for_each_number_and_for_the_marks_of_a_compared_score() -> None:
    header, plain, best = csv.reader(io.StringIO(TABLE.text("csv")))
    assert header == ["mark", "name", "STS x 100", "STS x 100, standard deviation",
                      "STS x 100, beats", "steps", "steps, standard deviation"]  # fmt: skip
    assert plain == ["a", "plain", "31.20", "", "", "", ""]
    assert best == ["b", "50 % of A|B & C_1", "45.10", "0.31", "a", "1190", ""]


def test_more_rows_than_letters_have_numbers() -> None:
    rows = {f"row {number}": [Cell("1")] for number in range(27)}
    rows["row 26"] = [Cell("2", beaten=("row 1", "row 0"))]
    text = ScoreTable("t", "n", ["x"], rows).text("markdown")
    assert "| 27 | row 26 | 2<sup>1,2</sup> |" in text
