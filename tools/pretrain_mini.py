"""Makes a BERT-mini from scratch with the recipe mini-pretrain, and measures it on sentences it has not seen.

    ISOTUNE_DATA=... python tools/pretrain_mini.py OUT

The text is `$ISOTUNE_DATA`/wiki, less 2,000 sentences. The run is OUT/run; started again, the tool goes on with it.
It takes about an hour on 2 CPU cores.
"""

from __future__ import annotations

import argparse
import os
import random
from pathlib import Path

import isotune
from isotune.bundled import BUNDLED_MODEL
from isotune.data import Sentence, read
from isotune.encoder.encoder import Encoder
from isotune.evaluation.masked import masked_lm_loss

FILES = ("enwiki_1m.txt.gz", "simplewiki_500k.txt.gz")
HELD_OUT = 2000


def split(data: Path, out: Path) -> None:
    """Writes OUT/held-out.txt, drawn with seed 0, and OUT/train.txt, all others."""
    text = [row.sentence for row in read([data / "wiki" / name for name in FILES], Sentence)]
    held_out = dict.fromkeys(random.Random(0).sample(text, HELD_OUT))
    (out / "train.txt").write_text("".join(f"{sentence}\n" for sentence in text if sentence not in held_out), "utf-8")
    (out / "held-out.txt").write_text("".join(f"{sentence}\n" for sentence in held_out), "utf-8")


def main() -> None:
    """Splits, trains, measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    run = out / "run"
    if not (run / "recipe.toml").exists():
        out.mkdir(parents=True, exist_ok=True)
        split(Path(os.environ["ISOTUNE_DATA"]), out)
        isotune.train(out / "train.txt", out=run, recipe="mini-pretrain")
    elif not (run / "report.html").exists():
        isotune.train(out=run, resume=True)
    held_out = (out / "held-out.txt").read_text("utf-8").splitlines()
    # The bundled model saw most of these sentences, and has pieces of its own: its loss is only about comparable.
    for model in (run / "start", run / "encoder", BUNDLED_MODEL):
        print(f"{model}: masked-LM loss {masked_lm_loss(Encoder.load(model), held_out):.3f}", flush=True)


if __name__ == "__main__":
    main()
