import importlib
from pathlib import Path

import numpy as np
import pytest
import torch


def test_the_weights_are_those_of_the_authors_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer at a time, in numpy: windows are slices, of which a negative start is empty."""
    states = np.random.default_rng(0).standard_normal((6, 16)).cumsum(0) + 3  # [L, d], of one token
    alignment, novelty = [], []
    for k, v in enumerate(states):
        context = [*(states[k - 2 : k] if k >= 2 else ()), *states[k + 1 : k + 3]]
        basis = np.linalg.qr(np.array(context).T)[0]  # [d, n]
        inside = basis @ (basis.T @ v)
        cosines = [c @ inside / np.linalg.norm(c) / np.linalg.norm(inside) for c in context]
        alignment.append(1 / (np.mean(cosines) * (len(context) + 1) * 2))
        novelty.append(np.linalg.norm(v - inside) / np.linalg.norm(v))
    expected = (np.array(alignment) / sum(alignment) + np.array(novelty) / sum(novelty)) / 2
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "tools")
    shares, _ = importlib.import_module("wk_borders").code_weights(torch.from_numpy(states)[None])
    np.testing.assert_allclose(shares[0], expected, rtol=1e-9)
