"""The flow: its Jacobian, that it can be inverted, its start, and saving and loading."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from isotune.encoder.encoder import Encoder
from isotune.encoder.heads.flow import ActNorm, LinearLU, Mixing, NormalizingFlow
from isotune.errors import InputError
from tests.conftest import reopened
from tests.reference import flow as reference

# BERT-flow's and BERT-CF's shapes, with even and odd dimensions.
SHAPES: list[tuple[int, Mixing, int, int]] = [
    (16, "reversal", 3, 3),
    (13, "reversal", 2, 2),
    (8, "lu", 1, 3),
    (7, "lu", 2, 1),
]
shapes = pytest.mark.parametrize(("d", "mixing", "levels", "depth"), SHAPES)


def trained(
    x: Tensor, mixing: Mixing, levels: int, depth: int, width: int = 5, change: float = 0.05
) -> NormalizingFlow:
    """A flow that x has initialised, with changed weights.

    The couplings of a new flow are the identity.
    """
    flow = NormalizingFlow(x.shape[1], mixing, levels, depth, width).train()
    with torch.no_grad():
        flow(x)
        for parameter in flow.parameters():
            parameter.add_(change * torch.randn_like(parameter))
    return flow.eval()


@shapes
def test_the_flow_equals_its_transcription(d: int, mixing: Mixing, levels: int, depth: int) -> None:
    x = torch.randn(20, d)
    flow, x = trained(x, mixing, levels, depth).double(), x[:4].double()
    expected = [reference.flow(row, flow.state_dict(), levels, depth) for row in x.tolist()]
    torch.testing.assert_close(
        flow(x), torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-12
    )


@shapes
def test_the_log_determinant_is_that_of_the_jacobian(
    d: int, mixing: Mixing, levels: int, depth: int
) -> None:
    points = 3 * torch.randn(20, d) + 1
    flow = trained(points, mixing, levels, depth).double()
    for x in points[:3].double():
        jacobian = torch.autograd.functional.jacobian(lambda v: flow(v[None])[0], x)
        assert (jacobian - torch.eye(d)).abs().max() > 0.1
        _, expected = torch.linalg.slogdet(jacobian)
        torch.testing.assert_close(flow.log_determinant(), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("mixing", "levels"), [("reversal", 3), ("lu", 1)])
def test_a_flow_of_a_models_width_can_be_inverted_in_float32(mixing: Mixing, levels: int) -> None:
    x = 0.3 + 0.5 * torch.randn(100, 256)
    flow = trained(x, mixing, levels, 3, width=32, change=0.002)
    assert (flow(x) - x).abs().max() > 0.1
    jacobian = torch.autograd.functional.jacobian(lambda v: flow(v[None])[0], x[0])
    assert torch.linalg.cond(jacobian) < 100  # of the 10^7 that float32 can tell apart


def test_the_first_training_batch_sets_the_scales() -> None:
    flow, x = NormalizingFlow(16), 5 * torch.randn(200, 16) + torch.arange(16.0)
    reversed_halves = flow.eval()(x)
    assert torch.equal(
        reversed_halves.sort(1).values, x.sort(1).values
    )  # until then it only moves features
    z = flow.train()(x)
    torch.testing.assert_close(z.mean(0), torch.zeros(16), atol=1e-5, rtol=0)
    torch.testing.assert_close(z.std(0, correction=0), torch.ones(16), atol=1e-5, rtol=0)
    assert all(module.initialised for module in flow.modules() if isinstance(module, ActNorm))
    before = {key: value.clone() for key, value in flow.state_dict().items()}
    flow(x + 100)
    assert all(torch.equal(value, before[key]) for key, value in flow.state_dict().items())
    loaded = NormalizingFlow(16).train()
    loaded.load_state_dict(before)
    assert torch.equal(loaded(x + 100), flow(x + 100))
    # The hidden layers of the couplings too: their outputs are standardised before the ReLU.
    coupling = flow.steps[0].coupling
    hidden = coupling.shift[:2](flow.steps[0].norm(x).flip(-1)[:, :8])
    torch.testing.assert_close(hidden.mean(0), torch.zeros(32), atol=1e-4, rtol=0)
    torch.testing.assert_close(hidden.std(0, correction=0), torch.ones(32), atol=1e-3, rtol=0)


def test_the_matrix_starts_as_a_rotation() -> None:
    mixing = LinearLU(24)
    w = mixing(torch.eye(24)).T.double()
    torch.testing.assert_close(w @ w.T, torch.eye(24, dtype=torch.float64), atol=1e-5, rtol=0)
    assert mixing.log_determinant().item() == pytest.approx(0, abs=1e-5)
    assert not torch.allclose(LinearLU(24)(torch.eye(24)), mixing(torch.eye(24)))


def test_the_flow_computes_in_float32_under_autocast() -> None:
    x = torch.randn(9, 16)
    flow = trained(x, "lu", 1, 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(flow(x), flow(x.float()))
        assert flow(x).dtype == torch.float32


def test_too_few_features_are_refused() -> None:
    with pytest.raises(
        InputError, match="flow of 3 levels needs vectors of 8 or more features, not 7"
    ):
        NormalizingFlow(7)
    NormalizingFlow(8)


@pytest.mark.parametrize(("mixing", "levels"), [("reversal", 3), ("lu", 1)])
def test_a_saved_flow_gives_the_same_vectors_here_and_in_sentence_transformers(
    mixing: Mixing, levels: int, encoder: Encoder, sentences: list[str], tmp_path: Path
) -> None:
    plain = encoder.encode(sentences)
    encoder.heads.append(trained(torch.from_numpy(plain), mixing, levels, 3))
    vectors = reopened(encoder, tmp_path / "saved", sentences, trust_remote_code=True).encode(
        sentences
    )
    assert np.abs(vectors - plain).max() > 0.1
    SentenceTransformer(str(tmp_path / "saved"), trust_remote_code=True).save(str(tmp_path / "st"))
    assert np.array_equal(Encoder.load(tmp_path / "st").encode(sentences), vectors)
    # Without permission to import isotune's module, sentence-transformers refuses the folder.
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        SentenceTransformer(str(tmp_path / "saved"))


def test_a_constant_feature_is_not_scaled() -> None:
    x = torch.randn(50, 8)
    x[:, 3] = 0.0
    flow = NormalizingFlow(8, "reversal", 1, depth=2).train()
    z = flow(x)
    assert torch.isfinite(z).all()
    assert (flow(x + 0.1 * torch.eye(8)[3]) - z).abs().max() < 1
