"""The passes of a step: the gradient is that of the whole batch, however they are cut."""

import re
import weakref
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import torch
from torch import Tensor

from isotune.data.packed import pack
from isotune.encoder.encoder import Encoder
from isotune.engine.forward import Pass, StepEncoding, bytes_for_weights, chunk_that_fits
from isotune.engine.workers import Workers
from isotune.methods import mlm
from isotune.methods.method import Batch, View
from tests.engine.steps import STEPS, assert_same, gradient, in_one_row, make
from tests.training.conftest import Train, metrics, resume, stopped_at, weights

CHUNK_SIZES = (None, 2)


pytestmark = pytest.mark.usefixtures("small_projection")


@pytest.fixture(scope="module")
def threads() -> Iterator[Workers]:
    with closing(Workers(3)) as made:
        yield made


@pytest.mark.parametrize("name", STEPS)
def test_every_cut_gives_the_gradient_of_one_graph(
    name: str, tiny_model: Path, sentences: list[str], threads: Workers
) -> None:
    """With dropout and augmentations: random numbers belong to the sentences."""
    run = make(name, tiny_model, sentences)
    expected = gradient(*run)
    for workers, chunk_size in ((threads, None), (None, 1), (None, 4), (threads, 2)):
        assert_same(gradient(*run, workers, chunk_size), expected)
    if any(weight.requires_grad for weight in run[0].backbone.parameters()):
        with run[0].backbone.dropout(0.0):
            assert gradient(*run)[0] != expected[0]


@pytest.mark.parametrize(("shares", "threads_of_each"), [(3, 1), (2, 1), (1, 3)])
def test_a_small_batch_has_fewer_shares_and_each_has_more_threads(
    shares: int,
    threads_of_each: int,
    tiny_model: Path,
    sentences: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, used = make("simcse", tiny_model, sentences), []
    expected = gradient(*run)
    forward = Pass.forward

    def watched(made: Pass) -> Tensor:
        used.append(torch.get_num_threads())
        return forward(made)

    monkeypatch.setattr(Pass, "forward", watched)
    monkeypatch.setattr(
        "isotune.engine.workers.SMALLEST", 2 * len(run[2].texts[0].ids) // shares
    )  # the batch has two views
    torch.set_num_threads(3)
    try:
        with closing(Workers(3)) as threads:
            assert_same(gradient(*run, threads), expected)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)
    assert used == [threads_of_each] * shares


def test_the_gradient_is_that_of_a_loss_with_an_unbroken_graph(
    tiny_model: Path, sentences: list[str]
) -> None:
    encoder, objectives, batch = make("simcse", tiny_model, sentences)
    with encoder.backbone.dropout(0.0):
        found = gradient(encoder, objectives, batch)
        views, terms_of, _ = objectives.views_and_losses(batch, encoder.device)
        (loss,) = terms_of(
            [encoder(view.tokens) for view in views if isinstance(view, View)]
        ).values()
    loss.backward()
    weights = [
        weight
        for module in (encoder, objectives)
        for weight in module.parameters()
        if weight.requires_grad
    ]
    assert_same(found, in_one_row(loss, weights))


@pytest.mark.parametrize("name", ["simcse", "mlm"])
def test_sparse_gradients_of_the_word_embeddings_are_the_dense_ones(
    name: str, tiny_model: Path, sentences: list[str], threads: Workers
) -> None:
    run = make(name, tiny_model, sentences)
    dense = [gradient(*run, threads, chunk_size) for chunk_size in CHUNK_SIZES]
    run[0].backbone.model.get_input_embeddings().sparse = True
    for chunk_size, expected in zip(CHUNK_SIZES, dense, strict=True):
        assert_same(gradient(*run, threads, chunk_size), expected)


@pytest.mark.parametrize("chunk_size", CHUNK_SIZES)
def test_more_workers_than_sentences(
    tiny_model: Path, sentences: list[str], chunk_size: int | None
) -> None:
    encoder, objectives, _ = make("simcse", tiny_model, sentences)
    batch = Batch((pack(encoder.tokenize(sentences[:2])),))
    with closing(Workers(6)) as many:
        assert_same(
            gradient(encoder, objectives, batch, many, chunk_size),
            gradient(encoder, objectives, batch),
        )


@pytest.mark.parametrize("chunk_size", CHUNK_SIZES)
def test_bfloat16_is_made_again(
    tiny_model: Path, sentences: list[str], threads: Workers, chunk_size: int | None
) -> None:
    run = make("simcse", tiny_model, sentences)
    run[0].float(), run[1].float()
    whole = gradient(*run, half=True)
    assert_same(gradient(*run, threads, chunk_size, half=True), whole, 1e-2)
    assert not torch.allclose(whole, gradient(*run), rtol=1e-3, equal_nan=True)


def test_masked_tokens_in_blocks_lose_the_same(
    tiny_model: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make("mlm", tiny_model, sentences)
    expected = gradient(*run)
    monkeypatch.setattr(mlm, "BLOCK_TOKENS", 2)
    assert_same(gradient(*run), expected)


def test_what_is_kept_for_the_backward_pass_is_that_of_a_pass(
    tiny_model: Path, sentences: list[str]
) -> None:
    encoder = Encoder.load(tiny_model).train()
    ids = encoder.tokenize(sentences)

    def peak(copies: int, chunk_size: int) -> int:
        """The most bytes that graphs hold at once."""
        held, most = 0, 0

        def let_go(size: int) -> None:
            nonlocal held
            held -= size

        class Held:
            def __init__(self, tensor: Tensor) -> None:
                nonlocal held, most
                self.tensor = tensor
                held += tensor.nbytes
                most = max(most, held)
                weakref.finalize(self, let_go, tensor.nbytes)

        encoding = StepEncoding(encoder, Workers(), 0, chunk_size)
        with torch.autograd.graph.saved_tensors_hooks(Held, lambda held: held.tensor):
            encoding.encode([View(pack(ids * copies))])[0].sum().backward()
            encoding.backward()
        return most

    whole, chunked, of_more = peak(1, 60), peak(1, 6), peak(8, 6)
    assert chunked < whole / 4
    assert of_more < 1.2 * chunked


def test_a_run_in_chunks_is_the_run(train: Train) -> None:
    runs = [
        train(
            str(chunk_size),
            method="mirror",
            span_length=2,
            spans="tokens",
            model_dropout=0.0,
            chunk_size=chunk_size,
        )
        for chunk_size in (None, 3)
    ]
    losses = [[record["loss"] for record in metrics(run.folder, "train")] for run in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0] != losses[1]  # rounding


def test_a_step_takes_as_many_rows_at_a_time_as_fit(tiny_model: Path, sentences: list[str]) -> None:
    encoder = Encoder.load(tiny_model)
    views = [View(pack(encoder.tokenize(sentences[:32])))] * 2

    def rows(free: int, workers: Workers) -> int:
        return chunk_that_fits(encoder, views, workers, free) or 32

    alone = [rows(free, Workers()) for free in (2**40, 2**24, 2**23, 2**22, 0)]
    assert alone == sorted(alone, reverse=True)
    assert len(set(alone)) > 2
    assert (alone[0], alone[-1]) == (32, 1)
    with closing(Workers(2)) as two:
        assert rows(2**23, two) == alone[2] // 2  # each thread holds the rows of a pass
    many = Workers()
    many.world_size = 2
    assert rows(2**23, many) == alone[2]  # a pass is a part of the whole row, whoever makes it
    many.world_size = 4
    assert rows(2**23, many) == 32  # each makes a quarter of the row


def test_frozen_blocks_need_less_memory(tiny_model: Path, sentences: list[str]) -> None:
    encoder = Encoder.load(tiny_model)
    views = [View(pack(encoder.tokenize(sentences[:32])))] * 2
    every = bytes_for_weights(encoder)
    assert every == 12 * sum(weight.numel() for weight in encoder.backbone.parameters())
    rows = chunk_that_fits(encoder, views, Workers(), 2**23) or 32
    encoder.requires_grad_(False)
    top = encoder.backbone.blocks[2].requires_grad_(True)
    assert bytes_for_weights(encoder) == 12 * sum(weight.numel() for weight in top.parameters())
    assert (chunk_that_fits(encoder, views, Workers(), 2**23) or 32) > 2 * rows


def test_a_run_with_little_memory_is_the_run_and_goes_on_with_its_chunks(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"method": "simcse", "steps": 6, "eval_every": 2}
    plenty = train("plenty", **options)
    monkeypatch.setattr("isotune.training.stage.free_memory", lambda: 0)
    little = train("little", **options)
    log = (little.folder / "train.log").read_text()
    assert "0 MB of memory are free; rows that are encoded at a time (chunk_size): 1" in log
    assert re.search(
        r"averages of 0\.\d million trained weights take \d MB of memory, and 0 MB are free; "
        "frozen_blocks makes it less",
        log,
    )
    assert "trained weights take" not in (plenty.folder / "train.log").read_text()
    with stopped_at(3):
        stopped = train("stopped", **options)
    monkeypatch.setattr("isotune.training.stage.free_memory", lambda: 2**50)
    resumed = resume(stopped.folder)
    for name, weight in weights(little.folder).items():
        torch.testing.assert_close(weight, weights(plenty.folder)[name], rtol=1e-3, atol=1e-5)
        assert torch.equal(weight, weights(resumed.folder)[name])
