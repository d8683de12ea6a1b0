"""The session in which a person scores pairs of sentences, and its questions in a terminal.

Every answer is written at once, so that a session may end at any moment. The file is always one that `--dev` takes: the
columns sentence1, sentence2 and score, separated by tabs.
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
FEWEST, ASK_EVERY = (
    20,
    10,
)  # scores before the first question whether they are enough, and between two
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
            f"{path}: its columns are {', '.join(columns)}, and {needed} are needed; name a new file"
        )
    return labels


class Session:
    """Pairs to score, and the file of scored pairs: those that the file has already are not asked for again.

    The session ends after the last pair and at the answer q. It ends too where `enough`, which is asked after every ten
    scores from the twentieth on, says why no more are needed. Skipped pairs come again in the next session.
    """

    def __init__(
        self, pairs: Sequence[tuple[str, str]], path: Path, enough: Enough = lambda _: ""
    ) -> None:
        self.path, self.labels = path, read_labels(path)
        known = {label[:2] for label in self.labels}
        self.open_pairs = [pair for pair in pairs if pair not in known]
        self.place = 0  # of the pair that is asked for
        self.end = (
            ""
            if self.open_pairs
            else f"{counted(len(pairs), 'pair')} scored, none left; --pairs chooses more"
        )
        self._most, self._enough = len(self.labels) + len(self.open_pairs), enough

    @property
    def pair(self) -> tuple[str, str] | None:
        """The pair to score; None after the end."""
        return (
            self.open_pairs[self.place]
            if self.place < len(self.open_pairs) and not self.end
            else None
        )

    @property
    def progress(self) -> str:
        """Says how many pairs are scored."""
        return f"{len(self.labels)} of {counted(self._most, 'pair')} scored"

    def answer(self, answer: str) -> str:
        """Takes a score or one of the letters, writes the scores, and says what is wrong with the answer, if anything.

        Raises:
            InputError: another session writes into the file.
        """
        answer, saved = answer.strip().lower(), self.labels
        if answer == "q":
            self.end = "stopped"
            return ""
        if answer == "s":
            self.place += 1
            return ""
        if answer == "u":
            if not self.place:
                return "this is the first pair of the session: nothing to undo"
            self.place -= 1
            self.labels = [label for label in saved if label[:2] != self.open_pairs[self.place]]
        else:
            try:
                score = float(answer)
            except ValueError:
                score = -1.0
            if not 0 <= score <= HIGHEST_SCORE:
                return f"{answer!r}: write a number from 0 to 5, such as 3 or 3.5, or one of the letters"
            self.labels = [*saved, ScoredPair(*self.open_pairs[self.place], score)]
            self.place += 1
        if read_labels(self.path) != saved:
            raise InputError(
                f"{self.path}: another session writes into it; name another file, or end that session"
            )
        if self.labels:
            lines = [
                HEADER,
                *(
                    f"{label.sentence1}\t{label.sentence2}\t{label.score:g}"
                    for label in self.labels
                ),
            ]
            write_text(self.path, "\n".join(lines) + "\n")
        else:  # a file without rows is none of scored pairs
            self.path.unlink(missing_ok=True)
        if len(self.labels) >= FEWEST and len(self.labels) % ASK_EVERY == 0:
            self.end = self._enough(self.labels)
        return ""


def score_in_terminal(
    session: Session, ask: Callable[[str], str], say: Callable[[str], None]
) -> None:
    """Asks for the score of each pair until the session, the input or Ctrl-C ends it."""
    say(session.end or SCALE)
    while pair := session.pair:
        say("\n".join(["", session.progress, *(f"  {printable(sentence)}" for sentence in pair)]))
        try:
            said = session.answer(ask(KEYS))
        except (EOFError, KeyboardInterrupt):
            break
        if said or session.end:
            say(said or f"\n{session.end}")
