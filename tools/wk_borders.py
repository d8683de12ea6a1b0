"""Measure what the border layers are worth in WK pooling: STS by the weights of SBERT-WK's text and of its code.

    ISOTUNE_DATA=... python tools/wk_borders.py MODEL...

The text weighs a layer by the two layers on each side, or by those that there are. The authors' code (utils.py) takes
no lower layer for the second layer; it multiplies a layer's mean cosine by the size of the window, so that a layer with
few others around it weighs more; and it compares the others with the layer's projection on all of them.
"""

import argparse

import torch
from torch import Tensor
from torch.nn.functional import normalize

from isotune import Encoder, evaluate
from isotune.encoder import wk_pooling

TASKS = ("sts",)


def code_weights(x: Tensor) -> tuple[Tensor, Tensor]:
    """What `wk_pooling._weights` returns, by the code: shares [T, L] and importance [T], from [T, L, d]."""
    _, columns = torch.linalg.qr(x.double().mT, mode="r")  # [T, L, L]
    unit = normalize(columns, dim=1)  # [T, L, L]
    cosines = unit.mT @ unit  # [T, L, L]
    layers = range(x.shape[1])
    alignment, novelty = [], []
    for layer in layers:
        around = [k for k in (layer - 2, layer - 1) if layer > 1] + [k for k in (layer + 1, layer + 2) if k in layers]
        _, r = torch.linalg.qr(unit[:, :, [*around, layer]], mode="r")  # [T, n + 1, n + 1]
        outside = r[:, -1, -1].abs()  # [T], of a state of length 1
        inside = (1 - outside**2).sqrt()  # [T], the length of its projection
        alignment.append(inside / cosines[:, layer, around].mean(1) / (len(around) + 1))  # [T]
        novelty.append(outside)
    shares = [normalize(torch.stack(parts, dim=1), p=1, dim=1) for parts in (alignment, novelty)]  # [T, L] each
    return normalize(shares[0] + shares[1], p=1, dim=1), cosines.diagonal(1, 1, 2).var(1, correction=0)


def main() -> None:
    """Print the STS average of each model by both weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    text_weights = wk_pooling._weights
    for model in parser.parse_args().models:
        encoder = Encoder.load(model, pooling="wk")
        for name, weights in (("text", text_weights), ("code", code_weights)):
            wk_pooling._weights = weights
            print(f"{model}, {name}: {100 * evaluate(encoder, TASKS).scores()['sts']:.2f}", flush=True)


if __name__ == "__main__":
    main()
