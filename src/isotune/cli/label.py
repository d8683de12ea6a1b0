"""`isotune label`: score pairs of your own sentences, to choose between encoders by them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import COLUMNS, Name, within

FILE = (
    "The sentences: a file (.txt, .csv, .tsv, .jsonl or .parquet, also .gz), a file pattern or a named dataset. Of "
    "more than 5,000 sentences, a random sample is used."
)
OUT = (
    "The file of scored pairs (.tsv), which isotune train --dev and isotune evaluate --tasks take. If the file exists, "
    "the session goes on where it ended."
)
ENCODERS = (
    "The encoders between which the scores are to decide: the pairs are those on which the encoders differ most. With "
    "one encoder, the pairs are spread over its similarities. Unset: the bundled model."
)
BROWSER = "Show the pairs on a page, which answers to the same keys."
HOST = (
    "Serve the page at this address of the machine, such as its address in your network, to score on a phone. Whoever "
    "can read the traffic of this network can read the sentences. Unset: 127.0.0.1, for this machine alone."
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
    """The pairs are shown in the terminal, or on a page of the browser. Every score is written at once. With several
    encoders the session ends by itself when the scores say which one is best.
    """
    import shlex
    import webbrowser
    from threading import Thread

    from isotune.bundled import BUNDLED_MODEL
    from isotune.cli.tables import print_whole
    from isotune.console import PlainConsole
    from isotune.data import ScoredPair, Sentence, read
    from isotune.encoder.encoder import Encoder
    from isotune.encoder.finished import MODULES
    from isotune.errors import InputError, counted
    from isotune.evaluation import (
        compare_measured,
        comparison_tables,
        difference_table,
        load_tasks,
        measure,
    )
    from isotune.evaluation.labelling.choose import choose_pairs, surely_best
    from isotune.evaluation.labelling.session import FEWEST, Session, read_labels, score_in_terminal
    from isotune.use.label_page import score_in_browser

    if out.suffix != ".tsv":
        raise InputError(f"--out {out}: scored pairs are written as .tsv")
    read_labels(out)  # an unusable file is refused before anything is encoded
    rows = read(file, Sentence, columns)
    # A line break would end the line of the file, and many programs read no further than to a NUL.
    sentences = [" ".join(row.sentence.replace("\0", " ").split()) for row in rows]
    with PlainConsole(stderr=True).status("choosing the pairs"):
        loaded = [Encoder.load(encoder) for encoder in encoders or (BUNDLED_MODEL,)]
        chosen = choose_pairs(sentences, loaded, pairs)
    if not chosen:
        raise InputError(f"{file}: at least two different sentences are needed")

    def enough(labels: Sequence[ScoredPair]) -> str:
        best = surely_best(labels, loaded) if len(loaded) > 1 else None
        return (
            ""
            if best is None
            else f"these scores are enough: {encoders[best]} is ahead by more than chance"
        )

    def show(address: str) -> None:
        print(
            f"score the pairs in a browser, at {address}\nCtrl-C ends the session; every score is saved",
            flush=True,
        )
        Thread(
            target=webbrowser.open, args=[address], daemon=True
        ).start()  # a text browser ends with the page

    session = Session(chosen, out, enough)
    if (browser or host) and session.pair:
        score_in_browser(session, show, host or "127.0.0.1")
    else:
        score_in_terminal(session, input, print)
    if not (labels := session.labels):
        print("\nno pair is scored")
        return
    if len(loaded) > 1 and len(labels) >= FEWEST:
        tasks, both = load_tasks([str(out)]), zip(encoders, loaded, strict=True)
        comparison = compare_measured(measure(tasks, model, name) for name, model in both)
        tables = comparison_tables(comparison.evaluations)
        print()
        for table in (*tables, difference_table(comparison)):
            print_whole(table)
        if all(difference.tied for difference in comparison.differences):
            shown = 50 * max(
                difference.high - difference.low for difference in comparison.differences
            )
            print(
                f"\nThese {len(labels)} scores can't tell which encoder is better: they show differences of more than "
                f"{shown:.0f} points. Four times as many show half of that; --pairs chooses more"
            )
    named = ["--columns", *map("=".join, columns.items())] if columns else []
    model = ["--model", encoders[0]] if encoders else []
    command = shlex.join(["isotune", "train", file, *named, *model, "--dev", str(out)])
    print(f"\n{out}: {counted(len(labels), 'scored pair')}. Choose by them: {command}")
    kept, *_ = [
        encoder for encoder in reversed(encoders) if (Path(encoder) / MODULES).exists()
    ] or ["ENCODER"]
    command = shlex.join(["isotune", "evaluate", kept, "--tasks", str(out), "--calibrate"])
    print(f"Learn which cosines mean the same: {command}")
