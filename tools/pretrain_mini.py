"""Pretrain a BERT-mini from scratch by the recipe mini-pretrain, and measure its masked-LM loss on held-out sentences.

    ISOTUNE_DATA=... python tools/pretrain_mini.py OUT

The text is `$ISOTUNE_DATA`/wiki, of which 2,000 sentences are held out. The run is OUT/run; if the tool is started
again, it resumes that run. It takes about an hour on 2 CPU cores.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Generator
from torch.nn.functional import cross_entropy

import isotune
from isotune.bundled import BUNDLED_MODEL
from isotune.data import Sentence, read
from isotune.data.packed import pack
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads.language import LanguageHead
from isotune.views.masking import Masking

FILES = ("enwiki_1m.txt.gz", "simplewiki_500k.txt.gz")
HELD_OUT = 2000
BATCH_SENTENCES = 128


def split(data: Path, out: Path) -> None:
    """Write OUT/held-out.txt, sentences drawn with seed 0, and OUT/train.txt, all other sentences."""
    text = [row.sentence for row in read([data / "wiki" / name for name in FILES], Sentence)]
    held_out = dict.fromkeys(random.Random(0).sample(text, HELD_OUT))
    (out / "train.txt").write_text("".join(f"{sentence}\n" for sentence in text if sentence not in held_out), "utf-8")
    (out / "held-out.txt").write_text("".join(f"{sentence}\n" for sentence in held_out), "utf-8")


@torch.no_grad()
def masked_lm_loss(encoder: Encoder, sentences: Sequence[str], rate: float = 0.15, seed: int = 7) -> float:
    """Return the mean cross entropy of the masked tokens of all sentences, in nats.

    The losses of models with different vocabularies cannot be compared exactly.

    Args:
        encoder: a model with a language head; if it has none, that of the folder it was loaded from is used.
        sentences: sentences that the model was not trained on.
        rate: the probability that a token is masked.
        seed: the seed of the masks, so that every model gets the same masks.
    """
    head = (encoder.language_head or LanguageHead(encoder.backbone.model)).to(encoder.device)
    masking, generator = Masking(encoder.tokenizer, rate), Generator().manual_seed(seed)
    encoder.eval()
    total, count = 0.0, 0
    for start in range(0, len(sentences), BATCH_SENTENCES):
        tokens = pack(encoder.tokenize(sentences[start : start + BATCH_SENTENCES]))
        masked = masking(tokens.to(encoder.device), generator)
        (states,) = encoder.backbone(masked.tokens)  # [T, d]
        scores = head(states[masked.places]).float()  # [M, V]
        total += cross_entropy(scores, masked.targets, reduction="sum").item()
        count += len(masked.targets)
    return total / count


def main() -> None:
    """Split the text, train the model, and measure it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    isotune.tune_process()
    run = out / "run"
    if not (run / "recipe.toml").exists():
        out.mkdir(parents=True, exist_ok=True)
        split(Path(os.environ["ISOTUNE_DATA"]), out)
        isotune.train(out / "train.txt", out=run, recipe="mini-pretrain")
    elif not (run / "report.html").exists():
        isotune.train(out=run, resume=True)
    held_out = (out / "held-out.txt").read_text("utf-8").splitlines()
    # The bundled model saw most of these sentences, and has another vocabulary: its loss is only about comparable.
    for model in (run / "start", run / "encoder", BUNDLED_MODEL):
        print(f"{model}: masked-LM loss {masked_lm_loss(Encoder.load(model), held_out):.3f}", flush=True)


if __name__ == "__main__":
    main()
