"""The session in which a person scores pairs of sentences in a terminal.

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
KEYS = "0 to 5, s to skip, u to undo, q to stop: "
FEWEST, ASK_EVERY = 20, 10  # scores before the first question whether they are enough, and between two


def read_labels(path: Path) -> list[ScoredPair]:
    """The pairs that were scored in earlier sessions."""
    if not path.exists():
        return []
    labels = list(read(path, ScoredPair))
    with path.open(encoding="utf-8-sig") as file:
        columns = tuple(column.strip() for column in file.readline().split("\t"))
    if columns != ScoredPair._fields:
        needed = ", ".join(ScoredPair._fields)
        raise InputError(f"{path}: its columns are {', '.join(columns)}, and {needed} are needed; name a new file")
    return labels


def score_pairs(
    pairs: Sequence[tuple[str, str]],
    path: Path,
    ask: Callable[[str], str] = input,
    say: Callable[[str], None] = print,
    enough: Callable[[Sequence[ScoredPair]], str | None] = lambda labels: None,
) -> list[ScoredPair]:
    """Asks for the score of each pair that the file does not have yet, and returns all scored pairs.

    The session ends after the last pair, at the answer q, at the end of the input, and at Ctrl-C. Skipped pairs are
    asked for again in the next session. It ends too where `enough`, which is asked after every ten scores from the
    twentieth on, says why no more are needed.
    """
    labels = read_labels(path)
    known = {label[:2] for label in labels}
    open_pairs = [pair for pair in pairs if pair not in known]
    earlier, place, saved = len(labels), 0, list(labels)
    say(SCALE if open_pairs else f"{counted(len(pairs), 'pair')} scored, none left; --pairs chooses more")
    while place < len(open_pairs):
        first, second = open_pairs[place]
        scored = f"{len(labels)} of {counted(earlier + len(open_pairs), 'pair')} scored"
        say(f"\n{scored}\n  {printable(first)}\n  {printable(second)}")
        try:
            answer = ask(KEYS).strip().lower()
        except (EOFError, KeyboardInterrupt):
            break
        if answer == "q":
            break
        if answer == "u" and place:
            place -= 1
            labels = [label for label in labels if label[:2] != open_pairs[place]]
        elif answer == "s":
            place += 1
            continue
        elif (score := _score(answer)) is not None:
            labels.append(ScoredPair(first, second, score))
            place += 1
        elif answer == "u":
            say("this is the first pair of the session: nothing to undo")
            continue
        else:
            say(f"{answer!r}: write a number from 0 to 5, such as 3 or 3.5, or one of the letters")
            continue
        if read_labels(path) != saved:
            raise InputError(f"{path}: another session writes into it; name another file, or end that session")
        if labels:
            lines = [HEADER, *(f"{label.sentence1}\t{label.sentence2}\t{label.score:g}" for label in labels)]
            write_text(path, "\n".join(lines) + "\n")
        else:  # a file without rows is none of scored pairs
            path.unlink(missing_ok=True)
        saved = list(labels)
        if len(labels) >= FEWEST and len(labels) % ASK_EVERY == 0 and (reason := enough(labels)):
            say(f"\n{reason}")
            break
    return labels


def _score(answer: str) -> float | None:
    try:
        score = float(answer)
    except ValueError:
        return None
    return score if 0 <= score <= HIGHEST_SCORE else None
