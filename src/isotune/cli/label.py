"""`isotune label`: score pairs of your own sentences, to choose between encoders by them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter

from isotune.cli.parameters import COLUMNS, Name, within

if TYPE_CHECKING:
    from isotune.data import ScoredPair
    from isotune.encoder.encoder import Encoder
    from isotune.evaluation.labelling.session import Session
    from isotune.evaluation.vectors import Floats

FILE = (
    "The sentences: a file (.txt, .csv, .tsv, .jsonl or .parquet, also .gz), a file pattern or a "
    "named dataset. Of more than 5,000 sentences, a random sample is used. Or the folder of a run: "
    "its text, and as --encoders its start, its teachers and its encoder, each different one once."
)
OUT = (
    "The file of scored pairs (.tsv), which isotune train --dev and isotune evaluate --tasks "
    "take. If the file exists, the session goes on where it ended."
)
ENCODERS = (
    "The encoders between which the scores are to decide: the pairs are those on which the "
    "encoders differ most. With one encoder, the pairs are spread over its similarities. Unset: "
    "the bundled model."
)
BROWSER = "Show the pairs on a page, which answers to the same keys."
HOST = (
    "Serve the page at this address of the machine, such as its address in your network, to score "
    "on a phone. Whoever can read the traffic of this network can read the sentences. Unset: "
    "127.0.0.1, for this machine alone."
)
ONE_ENCODER = (
    "50 scores show a difference of four to ten points between two encoders, and four times as "
    "many half of that; with both in --encoders, this line says what your scores can show"
)


def label(
    file: Annotated[Name, Parameter(help=FILE)],
    /,
    *,
    out: Annotated[Path, Parameter(help=OUT, metavar="FILE")] = Path("pairs.tsv"),
    encoders: Annotated[
        tuple[Name, ...], Parameter(help=ENCODERS, consume_multiple=1, metavar="ENCODER...")
    ] = (),
    pairs: Annotated[int, Parameter(help="How many pairs to choose."), within(1, 1e6)] = 50,
    browser: Annotated[bool, Parameter(help=BROWSER, negative="")] = False,
    host: Annotated[str | None, Parameter(help=HOST)] = None,
    columns: Annotated[dict[str, str] | None, COLUMNS] = None,
) -> None:
    """The pairs are shown in the terminal, or on a page of the browser. Every score is written at
    once. With several encoders the session ends by itself when the scores say which one is best.
    """
    from isotune.console import waiting
    from isotune.errors import InputError, counted
    from isotune.evaluation.labelling.choose import chosen_pairs, encode_texts
    from isotune.evaluation.labelling.session import Session, read_labels

    if out.suffix != ".tsv":
        raise InputError(f"--out {out}: scored pairs are written as .tsv")
    # An unusable file is refused before anything is encoded.
    read_labels(out)
    asked = _asked(file, encoders, columns or {})
    with waiting(f"reading {', '.join(asked.sources)}"):
        sentences = _read_sentences(asked)
    by_name = _load_encoders(asked)
    asked = asked._replace(encoders=tuple(by_name))
    names = asked.encoders
    loaded = list(by_name.values())
    of_sentences = f"pairs of {counted(len(sentences), 'sentence')} by {', '.join(names)}"
    with waiting(f"choosing {of_sentences}"):
        encoded = encode_texts(sentences, loaded)
        chosen = chosen_pairs(encoded, pairs)
    if not chosen:
        raise InputError(f"{file}: at least two different sentences are needed")
    enough = partial(_why_enough, names=names, encoders=loaded)
    session = Session(chosen, out, enough)
    if session.pair:
        with waiting("forecasting what the scores can show"):
            lines = list(_what_scores_show(encoded.vectors, len(chosen), names))
        for line in lines:
            print(line)
    _score(session, browser, host)
    _end(session, out, asked, loaded)


def _end(session: Session, out: Path, asked: Asked, loaded: Sequence[Encoder]) -> None:
    """Says what the scores tell of the encoders, and what to do with them."""
    from isotune.errors import counted

    count = len(session.labels)
    lack = _lack(session.labels)
    if not count:
        print("\nno pair is scored")
    elif lack:
        print(f"\n{out}: {counted(count, 'scored pair')}{lack}")
    else:
        if len(loaded) > 1:
            _compare(out, count, asked.encoders, loaded)
        _say_what_next(count, out, asked)


class Asked(NamedTuple):
    """What pairs are to be chosen of, and by which encoders."""

    sources: Sequence[str]
    columns: Mapping[str, str]
    encoders: Sequence[str]

    run: str = ""
    """The run folder that was given in place of the sentences; empty if none was."""

    dev_chooses: bool = True
    """Whether scored pairs would choose the step of a run like this one."""

    are_of_run: bool = False
    """Whether the encoders are the start of this run, its teachers and its encoder."""


def _asked(file: str, encoders: Sequence[str], columns: Mapping[str, str]) -> Asked:
    """What the command line asks for; a run folder stands for its text and its encoders."""
    from isotune.bundled import BUNDLED_MODEL
    from isotune.errors import InputError
    from isotune.training.plan import start_of
    from isotune.training.run_folder import RECIPE, is_finished, resume_command, started_recipe
    from isotune.training.what_next import sources_of, text_column

    folder = Path(file)
    if not (folder / RECIPE).exists():
        return Asked([file], columns, encoders or [BUNDLED_MODEL])
    recipe = started_recipe(folder)
    sources = sources_of(recipe)
    if not sources:
        raise InputError(
            f"{file}: this run has read its text from Python or standard input; name a file of it, "
            "and the encoders by --encoders"
        )
    kept = folder / "encoder"
    if not kept.exists():
        raise InputError(f"{file}: this run has no encoder yet; let it end first")
    if not is_finished(folder):
        print(
            f"{file}: this run has not ended, so its encoder may change: {resume_command(folder)}",
            file=sys.stderr,
        )
    column = text_column(recipe)
    if column and not columns:
        columns = {"sentence": column}
    chooses = not all(stage.options.keeps_last for stage in recipe.stages)
    if encoders:
        return Asked(sources, columns, encoders, file, chooses)
    of_run = [start_of(recipe, folder), *recipe.teachers, str(kept)]
    return Asked(sources, columns, of_run, file, chooses, are_of_run=True)


def _load_encoders(asked: Asked) -> dict[str, Encoder]:
    """The encoders by their names; of equal encoders of a run, the first alone."""
    from isotune.console import waiting
    from isotune.encoder.encoder import Encoder

    with waiting(f"loading {', '.join(asked.encoders)}"):
        encoders = {name: Encoder.load(name) for name in asked.encoders}
    if asked.are_of_run:
        return _different(asked, encoders)
    return encoders


def _different(asked: Asked, encoders: Mapping[str, Encoder]) -> dict[str, Encoder]:
    """The different ones of a run's encoders; no score tells an encoder from its copy."""
    from isotune.errors import InputError

    fingerprints = [encoder.fingerprint() for encoder in encoders.values()]
    different: dict[str, tuple[str, Encoder]] = {}
    for fingerprint, named in zip(fingerprints, encoders.items(), strict=True):
        different.setdefault(fingerprint, named)
    if len(different) == 1:
        raise InputError(
            f"{asked.run}: this run has kept its start, so there is nothing to choose between; "
            "name other encoders by --encoders"
        )
    # The start is the first encoder of a run, and the kept one the last.
    if fingerprints[0] == fingerprints[-1]:
        print(
            f"{asked.run}: this run has kept its start, so the copy of it is left out",
            file=sys.stderr,
        )
    return dict(different.values())


def _read_sentences(asked: Asked) -> list[str]:
    """The sentences of the sources, each in one line."""
    from isotune.data import Sentence, read

    rows = read(asked.sources, Sentence, asked.columns)
    # A line break would end the line of the file, and many programs read no further than to a NUL.
    return [" ".join(row.sentence.replace("\0", " ").split()) for row in rows]


def _what_scores_show(vectors: Sequence[Floats], count: int, names: Sequence[str]) -> Iterator[str]:
    """Says how many scores tell two encoders apart, and what the recipe of a run gained.

    The encoders have vectors [N, d] of the sentences, of which `count` pairs were chosen.
    """
    from isotune.evaluation.labelling.choose import chosen_agreement
    from isotune.evaluation.labelling.needed import forecast_lines
    from isotune.evaluation.labelling.session import FEWEST

    if len(vectors) == 1:
        yield ONE_ENCODER
    elif count >= FEWEST:
        # The last encoder is the new one, where the end of a run suggests the command.
        usual = _recipe_of(names[-1]).get("usual_gain")
        yield from forecast_lines(chosen_agreement(vectors, count), usual, count)
    for name in names:
        gained = _recipe_of(name).get("gained")
        if gained:
            yield f"what runs of the recipe of {name} gained: {gained}"


def _recipe_of(encoder: str) -> dict[str, Any]:
    """The table of a run's recipe, if the encoder is in a run folder; else empty."""
    from isotune.errors import InputError
    from isotune.recipes import read_recipe
    from isotune.training.run_folder import RECIPE

    folder = Path(encoder)
    recipe = folder.parent / RECIPE
    if not folder.is_dir() or not recipe.exists():
        return {}
    # The session needs no recipe.
    with suppress(InputError):
        return read_recipe(recipe)
    return {}


def _why_enough(
    labels: Sequence[ScoredPair], names: Sequence[str], encoders: Sequence[Encoder]
) -> str:
    """Says which encoder is best by the scores so far; empty if they don't tell."""
    from isotune.evaluation.labelling.choose import surely_best

    if len(encoders) < 2:
        return ""
    best = surely_best(labels, encoders)
    if best is None:
        return ""
    return f"these scores are enough: {names[best]} is ahead by more than chance"


def _score(session: Session, browser: bool, host: str | None) -> None:
    """Has the pairs scored, on a page if that is asked for and a pair is left."""
    from isotune.evaluation.labelling.session import score_in_terminal
    from isotune.use.label_page import score_in_browser

    if (browser or host) and session.pair:
        score_in_browser(session, _show_page, host or "127.0.0.1")
    else:
        score_in_terminal(session, input, print)


def _show_page(address: str) -> None:
    """Says where the page is, and opens it."""
    import webbrowser
    from threading import Thread

    print(f"score the pairs in a browser, at {address}")
    print("Ctrl-C ends the session; every score is saved", flush=True)
    # A browser in the terminal ends with the page.
    Thread(target=webbrowser.open, args=[address], daemon=True).start()


def _lack(labels: Sequence[ScoredPair]) -> str:
    """Why nothing can be chosen by the scores, as the end of a line; empty if they are enough."""
    from isotune.evaluation.labelling.session import FEWEST

    if len(labels) < FEWEST:
        return f". {FEWEST} or more are needed to choose by them; the same command goes on"
    if len({label.score for label in labels}) == 1:
        return ", all with one score. Nothing can be chosen by them; score others too"
    return ""


def _compare(pairs: Path, count: int, names: Sequence[str], encoders: Sequence[Encoder]) -> None:
    """Prints the scores of the encoders on the pairs, and what the pairs can't tell."""
    from isotune.cli.tables import print_whole
    from isotune.evaluation import (
        compare_resampled,
        comparison_tables,
        difference_table,
        load_tasks,
        resampled_scores,
    )

    tasks = load_tasks([str(pairs)])
    evaluations = [
        resampled_scores(tasks, encoder, name)
        for name, encoder in zip(names, encoders, strict=True)
    ]
    comparison = compare_resampled(evaluations)
    print()
    for table in comparison_tables(comparison.evaluations):
        print_whole(table)
    print_whole(difference_table(comparison))
    differences = comparison.differences
    if all(difference.tied for difference in differences):
        # Scores are x 100, and an interval reaches half of its width to each side.
        shown = 50 * max(difference.high - difference.low for difference in differences)
        print(
            f"\nThese {count} scores can't tell which encoder is better: they show "
            f"differences of more than {shown:.0f} points. Four times as many show half of that; "
            "--pairs chooses more"
        )


def _say_what_next(count: int, pairs: Path, asked: Asked) -> None:
    """Prints the commands that use the scores."""
    import shlex

    from isotune.encoder.finished import MODULES
    from isotune.errors import counted

    use = "Judge encoders by them"
    words = ["isotune", "evaluate", *asked.encoders, "--tasks", str(pairs)]
    if asked.dev_chooses:
        use = "Choose by them"
        words = ["isotune", "train", *_repeated(asked), "--dev", str(pairs)]
    print(f"\n{pairs}: {counted(count, 'scored pair')}. {use}: {shlex.join(words)}")
    # The last of the encoders that have a folder can keep what is learnt.
    keeper = "ENCODER"
    for encoder in asked.encoders:
        if (Path(encoder) / MODULES).exists():
            keeper = encoder
    evaluate = ["isotune", "evaluate", keeper, "--tasks", str(pairs), "--calibrate"]
    print(f"Learn which cosines mean the same: {shlex.join(evaluate)}")


def _repeated(asked: Asked) -> list[str]:
    """The words of isotune train for a run in which the scores choose."""
    from isotune.bundled import BUNDLED_MODEL
    from isotune.training.run_folder import RECIPE

    if asked.run:
        # All steps and shares of the way that such a run has are judged by the same scores.
        return ["--recipe", str(Path(asked.run) / RECIPE)]
    words = list(asked.sources)
    if asked.columns:
        columns = [f"{field}={column}" for field, column in asked.columns.items()]
        words += ["--columns", *columns]
    if asked.encoders[0] != BUNDLED_MODEL:
        words += ["--model", asked.encoders[0]]
    return words
