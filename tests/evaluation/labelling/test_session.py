"""A session of scoring pairs: answers, undo, and going on later."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from isotune.data import ScoredPair
from isotune.errors import InputError
from isotune.evaluation.labelling.session import Enough, Session, read_labels, score_in_terminal

Ask, Say = Callable[[str], str], Callable[[str], None]
PAIRS = [("a cat", "a dog"), ("a car", "the car"), ("rain", "a stone")]


def answers(*given: str) -> Ask:
    """Gives one answer after the other, and then ends the input."""
    rest = iter(given)

    def ask(prompt: str) -> str:
        try:
            return next(rest)
        except StopIteration:
            raise EOFError from None

    return ask


def score_pairs(
    pairs: list[tuple[str, str]], path: Path, ask: Ask, say: Say, **enough: Enough
) -> list[ScoredPair]:
    session = Session(pairs, path, **enough)
    score_in_terminal(session, ask, say)
    return session.labels


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pairs.tsv"


@pytest.mark.parametrize("end", [EOFError, KeyboardInterrupt])
def test_every_answer_is_written_at_once_and_a_session_goes_on_where_it_ended(
    path: Path, end: type[BaseException]
) -> None:
    seen = []

    def ask(prompt: str) -> str:
        seen.append(len(read_labels(path)))
        if len(seen) == 2:
            raise end
        return "2"

    score_pairs(PAIRS, path, ask, print)
    assert seen == [0, 1]
    said: list[str] = []
    labels = score_pairs(PAIRS, path, answers("u", "5", "q"), said.append)
    assert [label.score for label in labels] == [2, 5]
    assert "1 of 3 pairs scored\n  a car" in said[1]
    assert "nothing to undo" in said[2]


def test_two_sessions_in_one_file_lose_no_answer(path: Path) -> None:
    def another(prompt: str) -> str:
        path.write_text("sentence1\tsentence2\tscore\na\tb\t4\n")
        return "3"

    with pytest.raises(InputError, match="another session writes into it"):
        score_pairs(PAIRS, path, another, print)
    assert path.read_text().endswith("a\tb\t4\n")


def test_a_session_ends_when_its_scores_are_enough(path: Path) -> None:
    many = [(f"a {number}", f"b {number}") for number in range(50)]
    seen: list[int] = []

    def enough(labels: Sequence[ScoredPair]) -> str:
        assert labels == read_labels(path)
        seen.append(len(labels))
        return "enough" if len(seen) == 2 else ""

    said: list[str] = []
    labels = score_pairs(many, path, answers(*"2" * 50), said.append, enough=enough)
    assert seen == [20, 30]
    assert len(labels) == 30
    assert said[-1] == "\nenough"


def test_undo_takes_answers_and_skips_back(path: Path) -> None:
    labels = score_pairs(PAIRS, path, answers("2", "s", "u", "u", "1", "4.5", "0"), print)
    assert (
        [label.score for label in labels]
        == [label.score for label in read_labels(path)]
        == [1, 4.5, 0]
    )


def test_skipped_pairs_come_again_in_the_next_session(path: Path) -> None:
    score_pairs(PAIRS, path, answers("1", "s", "3"), print)
    assert [label[:2] for label in score_pairs(PAIRS, path, answers("2"), print)] == [
        PAIRS[0],
        PAIRS[2],
        PAIRS[1],
    ]


@pytest.mark.parametrize("answer", ["", "6", "-1", "nan", "inf", "three", "3,5"])
def test_other_answers_are_asked_for_again(path: Path, answer: str) -> None:
    said: list[str] = []
    assert [
        label.score for label in score_pairs(PAIRS[:1], path, answers(answer, "3"), said.append)
    ] == [3]
    assert "from 0 to 5" in " ".join(said)


def test_a_sentence_cannot_steer_the_terminal(path: Path) -> None:
    said: list[str] = []
    score_pairs([("\x1b[2Jwiped", "b")], path, answers(), said.append)
    assert said[1].endswith("wiped\n  b")
    assert "\x1b" not in said[1]


def test_of_a_long_text_the_beginning_is_shown_and_the_whole_is_written(path: Path) -> None:
    long = "word " * 1000 + "end"
    short = "w" * 600
    said: list[str] = []
    score_pairs([(long, short)], path, answers("3"), said.append)
    _, first, second = said[1].strip().splitlines()
    assert first == f"  {long[:600]} ... (4,403 characters more; --browser shows all)"
    assert second == f"  {short}"
    (label,) = read_labels(path)
    assert label[:2] == (long, short)


@pytest.mark.parametrize(
    "text", ["name\tage\nx\t3\n", "sentence1\tsentence2\tscore\tby\na cat\ta dog\t3\tAnn\n"]
)
def test_a_file_of_something_else_is_refused_and_kept(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(InputError, match=r"sentence1.*(age|by, and sentence1)"):
        score_pairs(PAIRS, path, answers("1"), print)
    assert path.read_text() == text
