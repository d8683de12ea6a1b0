"""The session in which a person scores pairs of sentences, and its questions in a terminal.

Every answer is written at once, so that a session may end at any moment. The file is always one
that `--dev` takes: the columns sentence1, sentence2 and score, separated by tabs.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from isotune.data import HIGHEST_SCORE, ScoredPair, read
from isotune.errors import InputError, counted, printable
from isotune.files import write_text

HEADER = "\t".join(ScoredPair._fields)
SCALE = """\
5  the same meaning
4  the same but for unimportant details
3  roughly the same; something important differs
2  different, with some details in common
1  different, on the same topic
0  nothing in common"""
"""The scale of the STS tasks (Agirre et al. 2012, section 4)."""
KEYS = "0 to 5, s to skip, u to undo, q to stop; then Enter: "

FEWEST = 20
"""So many scores there are before the first question whether they are enough."""

ASK_EVERY = 10
"""So many scores lie between two such questions."""

SHOWN = 600
"""So many characters of a text the terminal shows: two texts leave room for the scale."""

Enough = Callable[[Sequence[ScoredPair]], str]
"""Says why the scores are enough; empty if they are not."""


def read_labels(path: Path) -> list[ScoredPair]:
    """The pairs that were scored in earlier sessions."""
    if not path.exists():
        return []
    labels = list(read(path, ScoredPair))
    with path.open(encoding="utf-8-sig") as file:
        columns = tuple(column.strip() for column in file.readline().split("\t"))
    if columns != ScoredPair._fields:
        needed = ", ".join(ScoredPair._fields)
        raise InputError(
            f"{path}: its columns are {', '.join(columns)}, and {needed} are needed; "
            "name a new file"
        )
    return labels


class Session:
    """Pairs to score, and the file of scored pairs.

    Pairs that the file has already are not asked for again.

    The session ends after the last pair and at the answer q. It ends too where `enough`, which is
    asked after every ten scores from the twentieth on, says why no more are needed. Skipped pairs
    come again in the next session.
    """

    def __init__(
        self, pairs: Sequence[tuple[str, str]], path: Path, enough: Enough = lambda _: ""
    ) -> None:
        self.path = path
        self.labels = read_labels(path)
        scored = {label[:2] for label in self.labels}
        self.open_pairs = [pair for pair in pairs if pair not in scored]
        # The number of the open pair that is asked for.
        self.place = 0
        self.end = ""
        if not self.open_pairs:
            self.end = f"{counted(len(pairs), 'pair')} scored, none left; --pairs chooses more"
        self._most = len(self.labels) + len(self.open_pairs)
        self._enough = enough

    @property
    def pair(self) -> tuple[str, str] | None:
        """The pair to score; None after the end."""
        if self.end or self.place >= len(self.open_pairs):
            return None
        return self.open_pairs[self.place]

    @property
    def progress(self) -> str:
        """Says how many pairs are scored."""
        return f"{len(self.labels)} of {counted(self._most, 'pair')} scored"

    def answer(self, answer: str) -> str:
        """Takes a score or one of the letters, and writes the scores.

        Returns what is wrong with the answer; empty if nothing is.

        Raises:
            InputError: another session writes into the file.
        """
        answer = answer.strip().lower()
        if answer == "q":
            self.end = "stopped"
            return ""
        if answer == "s":
            self.place += 1
            return ""
        if answer == "u":
            return self._undo()
        score = _read_score(answer)
        if score is None:
            return (
                f"{answer!r}: write a number from 0 to 5, such as 3 or 3.5, or one of the letters"
            )
        label = ScoredPair(*self.open_pairs[self.place], score)
        self._change_labels([*self.labels, label], self.place + 1)
        return ""

    def _undo(self) -> str:
        """Goes back to the pair before, without its score; says so if there is none."""
        if not self.place:
            return "this is the first pair of the session: nothing to undo"
        pair = self.open_pairs[self.place - 1]
        others = [label for label in self.labels if label[:2] != pair]
        self._change_labels(others, self.place - 1)
        return ""

    def _change_labels(self, labels: list[ScoredPair], place: int) -> None:
        """Goes on with other scores at another place.

        The scores are written, and it is asked whether they are enough.
        """
        saved = self.labels
        self.labels = labels
        self.place = place
        if read_labels(self.path) != saved:
            raise InputError(
                f"{self.path}: another session writes into it; name another file, or end that "
                "session"
            )
        self._write_labels()
        if len(labels) >= FEWEST and len(labels) % ASK_EVERY == 0:
            self.end = self._enough(labels)

    def _write_labels(self) -> None:
        """Writes the file, or removes it where there are no scores.

        `--dev` takes no file without rows.
        """
        if not self.labels:
            self.path.unlink(missing_ok=True)
            return
        lines = [HEADER]
        for label in self.labels:
            lines.append(f"{label.sentence1}\t{label.sentence2}\t{label.score:g}")
        write_text(self.path, "\n".join(lines) + "\n")


def _read_score(answer: str) -> float | None:
    """The score that an answer is; None if it is not a score on the scale."""
    try:
        score = float(answer)
    except ValueError:
        return None
    return score if 0 <= score <= HIGHEST_SCORE else None


def score_in_terminal(
    session: Session, ask: Callable[[str], str], say: Callable[[str], None]
) -> None:
    """Asks for the score of each pair until the session, the input or Ctrl-C ends it."""
    say(session.end or SCALE)
    while pair := session.pair:
        first, second = pair
        say(f"\n{session.progress}\n  {_shown(first)}\n  {_shown(second)}")
        try:
            problem = session.answer(ask(KEYS))
        except (EOFError, KeyboardInterrupt):
            break
        if problem:
            say(problem)
        elif session.end:
            say(f"\n{session.end}")


def _shown(text: str) -> str:
    """The text as the terminal shows it: of a long one, the beginning."""
    beginning = printable(text[:SHOWN])
    left = len(text) - SHOWN
    if left <= 0:
        return beginning
    return f"{beginning} ... ({counted(left, 'character')} more; --browser shows all)"
