"""Tables of scores as CSV, LaTeX or Markdown, for a paper or another program.

Each row has a mark, a letter. The best score of a column is bold. The marks above a score name the
rows that it beats by more than chance. The same scores give the same bytes.
"""

import csv
import io
import re
import string
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

Format: TypeAlias = Literal["csv", "latex", "markdown"]

LATEX_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
}
"""What is written for a sign that has a meaning in LaTeX."""


class CellMarks(NamedTuple):
    """How a format marks what a cell says. A %s stands for the text."""

    best: str
    beaten: str
    deviation: str


LATEX = CellMarks(r"\textbf{%s}", r"\textsuperscript{%s}", r" {\scriptsize $\pm$ %s}")
MARKDOWN = CellMarks("**%s**", "<sup>%s</sup>", " ± %s")


@dataclass(frozen=True)
class Cell:
    """A score of a row."""

    value: str = ""
    """The score as it is printed; empty if the row has none."""

    deviation: str = ""
    """The standard deviation as it is printed; empty if there is none."""

    is_best: bool = False
    """Whether the score is the best of its column."""

    beaten: tuple[str, ...] = ()
    """The names of the rows that the score beats by more than chance."""


@dataclass(frozen=True)
class ScoreTable:
    """A table of scores, in any format."""

    title: str
    """What the table shows."""

    note: str
    """What the marks above a score say."""

    columns: Sequence[str]
    """The headings of the scores."""

    rows: Mapping[str, Sequence[Cell]]
    """By the name of each row, its scores in the order of the columns."""

    compared: Collection[str] = ()
    """The headings of the scores by which rows are compared."""

    def text(self, form: Format) -> str:
        """The table in a format, with a line break at its end."""
        write: Mapping[Format, Callable[[], str]] = {
            "csv": self._csv,
            "latex": self._latex,
            "markdown": self._markdown,
        }
        return write[form]()

    @property
    def marks(self) -> dict[str, str]:
        """The mark of each row, by the name of the row: letters, or numbers if there are more."""
        marks: Sequence[str] = string.ascii_lowercase
        if len(self.rows) > len(marks):
            marks = [str(number) for number in range(1, len(self.rows) + 1)]
        return dict(zip(self.rows, marks, strict=False))

    def _beaten(self, cell: Cell) -> str:
        """The marks of the rows that a score beats, in the order of the rows."""
        marks = [mark for name, mark in self.marks.items() if name in cell.beaten]
        separator = "" if len(self.rows) <= len(string.ascii_lowercase) else ","
        return separator.join(marks)

    def _csv(self) -> str:
        """Scores, deviations and the marks of a compared score stand in columns of their own."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        header = ["mark", "name"]
        for column in self.columns:
            header += [column, f"{column}, standard deviation"]
            if column in self.compared:
                header.append(f"{column}, beats")
        writer.writerow(header)
        for name, cells in self.rows.items():
            line = [self.marks[name], name]
            for column, cell in zip(self.columns, cells, strict=True):
                line += [_number(cell.value), _number(cell.deviation)]
                if column in self.compared:
                    line.append(self._beaten(cell))
            writer.writerow(line)
        return file.getvalue()

    def _latex(self) -> str:
        """A tabular in the style of the package booktabs."""
        lines = [f"% {self.title}", f"% {self.note}", r"% It needs \usepackage{booktabs}."]
        lines.append(rf"\begin{{tabular}}{{ll{'r' * len(self.columns)}}}")
        lines.append(r"\toprule")
        lines.append(_latex_line(["", "", *map(_latex_text, self.columns)]))
        lines.append(r"\midrule")
        lines += map(_latex_line, self._texts(_latex_text, LATEX))
        lines += [r"\bottomrule", r"\end{tabular}"]
        return "\n".join(lines) + "\n"

    def _markdown(self) -> str:
        """A table of GitHub's Markdown, with its title above and its note below."""
        headings = ["", "", *map(_markdown_text, self.columns)]
        lines = [self.title, "", _markdown_line(headings)]
        lines.append(_markdown_line(["---", "---", *["---:" for _ in self.columns]]))
        lines += map(_markdown_line, self._texts(_markdown_text, MARKDOWN))
        lines += ["", self.note]
        return "\n".join(lines) + "\n"

    def _texts(self, as_text: Callable[[str], str], marks: CellMarks) -> Iterator[list[str]]:
        """The texts of each row: its mark, its name and its scores."""
        for name, cells in self.rows.items():
            scores = [self._cell(cell, marks) for cell in cells]
            yield [self.marks[name], as_text(name), *scores]

    def _cell(self, cell: Cell, marks: CellMarks) -> str:
        """A score, its marks and its deviation."""
        text = cell.value
        if cell.is_best:
            text = marks.best % text
        beaten = self._beaten(cell)
        if beaten:
            text += marks.beaten % beaten
        if cell.deviation:
            text += marks.deviation % cell.deviation
        return text


def _number(text: str) -> str:
    """A printed number without the commas between its thousands."""
    return text.replace(",", "")


def _latex_line(texts: Sequence[str]) -> str:
    return " & ".join(texts) + r" \\"


def _latex_text(text: str) -> str:
    """A text in which no sign has a meaning for LaTeX."""
    return re.sub(r"[\\~^&%$#_{}]", lambda sign: LATEX_SIGNS[sign[0]], text)


def _markdown_line(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _markdown_text(text: str) -> str:
    """A text in which no sign ends the cell of a table."""
    return text.replace("|", r"\|")
