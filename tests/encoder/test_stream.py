"""Streams in parts: the same vectors in order, read one part ahead, by one thread or several."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread, current_thread, main_thread

import numpy as np
import pytest
import torch

from isotune.data.packed import Packed
from isotune.encoder import model as encoder_module
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import encode_stream
from isotune.errors import InputError, UselessVectors


@pytest.fixture
def encoder(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Encoder:
    """An encoder with parts of 7 sentences, and batches of about 20 tokens."""
    monkeypatch.setattr("isotune.encoder.stream.PART", 7)
    monkeypatch.setitem(encoder_module.BATCH_BYTES, "cpu", 20 * 32 * 4)
    return Encoder.load(tiny_model)


@pytest.fixture
def two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def test_each_thread_gets_equally_many_batches(encoder: Encoder) -> None:
    lengths = [7, 3] * 15  # 150 tokens
    for threads, count in ((1, 8), (3, 9), (4, 8), (5, 10)):
        batches = encoder.batches(lengths, threads)
        assert len(batches) == count
        assert sorted(np.concatenate(batches)) == list(range(30))
        assert max(sum(lengths[i] for i in batch) for batch in batches) <= 20 + 7
    assert len(encoder.batches([7, 7], 4)) == 1
    assert len(encoder.batches([100, 100], 4)) == 2


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.usefixtures("two_threads")  # which puts the number back
def test_the_parts_make_up_the_stream(threads: int, encoder: Encoder, sentences: list[str]) -> None:
    torch.set_num_threads(threads)
    expected = np.stack([encoder.encode(sentence) for sentence in sentences])
    done: list[int] = []
    parts = list(encoder.encode_parts(iter(sentences), advance=done.append))
    assert [len(texts) for texts, _ in parts] == [7] * 8 + [4]
    assert [text for texts, _ in parts for text in texts] == sentences
    np.testing.assert_allclose(
        np.concatenate([vectors for _, vectors in parts]), expected, atol=1e-5
    )
    assert sum(done) == 60
    assert len(done) > 9  # within a part too
    np.testing.assert_allclose(encoder.encode(sentences), expected, atol=1e-5)
    assert list(encoder.encode_parts([])) == []


def test_a_stream_is_read_one_part_ahead(encoder: Encoder, sentences: list[str]) -> None:
    read = 0

    def stream() -> Iterator[str]:
        nonlocal read
        for sentence in sentences * 1000:
            read += 1
            yield sentence

    parts = encoder.encode_parts(stream())
    for number in range(1, 4):
        next(parts)
        assert read == 7 * (number + 1)
    parts.close()


@pytest.mark.usefixtures("two_threads")
def test_calls_that_overlap_leave_torch_its_threads(encoder: Encoder, sentences: list[str]) -> None:
    """Many new threads begin and end at other moments, as those of a web server."""
    seen: list[int] = []

    def encode(count: int) -> None:
        encoder.encode(sentences[:count])
        seen.append(torch.get_num_threads())

    for _ in range(2):
        calls = [Thread(target=encode, args=(9 + 6 * number,)) for number in range(8)]
        calls.append(Thread(target=lambda: seen.append(torch.get_num_threads())))
        for call in calls[:-1]:
            call.start()
        for call in calls[:-1]:
            call.join()
        calls[-1].start()
        calls[-1].join()
    assert seen == [2] * 18


def test_calls_that_overlap_share_the_mode_of_the_encoder(
    encoder: Encoder, sentences: list[str]
) -> None:
    encoder.train()
    first, second = encoder.encode_parts(sentences), encoder.encode_parts(sentences)
    made = [next(first), next(second), next(first)]
    first.close()
    assert not encoder.training
    made += [next(second)]
    second.close()
    assert encoder.training
    expected = encoder.encode(sentences[:14])
    for part, start in zip(made, (0, 0, 7, 7), strict=True):
        np.testing.assert_allclose(part[1], expected[start : start + 7], atol=1e-5)


def test_no_dropout_where_another_encoder_of_the_same_weights_is_trained(
    encoder: Encoder, sentences: list[str]
) -> None:
    expected = encoder.encode(sentences)
    encoder.with_parts(pooling=encoder.pooling).train()
    assert not encoder.training
    np.testing.assert_array_equal(encoder.encode(sentences), expected)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_vector_that_is_no_number_is_refused(
    encoder: Encoder, sentences: list[str], number: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, seventh = encoder.forward, torch.from_numpy(encoder.encode(sentences[7]))

    def wrong(tokens: Packed) -> torch.Tensor:
        vectors = forward(tokens)
        is_seventh = (vectors - seventh).abs().amax(1, keepdim=True) < 1e-4
        return torch.where(is_seventh & (torch.arange(vectors.shape[1]) == 3), number, vectors)

    monkeypatch.setattr(encoder, "forward", wrong)
    assert len(encoder.encode(sentences[:7])) == 7
    with pytest.raises(
        UselessVectors,
        match=rf"^row '{sentences[7]}': its vector has NaN .* give --precision float32",
    ):
        encoder.encode(sentences[:8])


def test_texts_that_are_cut_are_counted_and_told_once(
    encoder: Encoder, caplog: pytest.LogCaptureFixture
) -> None:
    encoder.max_length = 5
    encoder.encode(["a man", "a dog"])
    assert not caplog.messages
    encoder.prompted("query").encode(["a man", "a man and a dog"] * 10)
    encoder.encode(["a man and a dog"])
    assert caplog.messages == [
        "10 of 20 texts reach the encoder's limit of 5 tokens; what goes beyond it is cut off"
    ]


def test_the_parts_of_a_stream_tell_how_many_texts_were_cut(encoder: Encoder) -> None:
    encoder.max_length = 5
    texts = ["a man", "a man and a dog", "a cat", "a dog and a cat"] * 2
    parts = list(encode_stream(encoder, texts, False, None))
    assert [(len(part.sentences), part.cut) for part in parts] == [(7, 3), (1, 1)]


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    ("texts", "threads", "where"),
    [
        (["a dog"], 1, "another thread"),
        (["a dog", "a cat"], 1, "another thread"),
        (["a dog runs " * 8], 2, "this thread"),
    ],
    ids=["a short text", "two short texts", "a long text"],
)
def test_one_thread_encodes_what_is_short_and_all_threads_together_what_is_long(
    texts: list[str],
    threads: int,
    where: str,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Threads that share a short text would wait for each other: beside busy processes, long."""
    encoder = Encoder.load(tiny_model)
    monkeypatch.setattr("isotune.encoder.stream.SHORT", 20 * encoder.backbone.multiplications)
    forward = encoder.forward
    ways = []

    def watched(tokens: Packed) -> torch.Tensor:
        in_this_thread = current_thread() is main_thread()
        ways.append(
            (torch.get_num_threads(), "this thread" if in_this_thread else "another thread")
        )
        return forward(tokens)

    monkeypatch.setattr(encoder, "forward", watched)
    vectors = encoder.encode(texts)
    assert ways == [(threads, where)]
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    np.testing.assert_allclose(encoder.encode(texts), vectors, atol=1e-6)
    if where == "another thread":
        assert np.array_equal(encoder.encode(texts), vectors)
    assert ways[1] == (1, "this thread")


@pytest.mark.parametrize(
    ("wrong", "message"), [(7, "is int, not a string"), ("a \ud800", "half a surrogate pair")]
)
def test_an_error_names_the_number_of_a_sentence_that_is_none(
    wrong: object, message: str, encoder: Encoder, sentences: list[str]
) -> None:
    with pytest.raises(InputError, match=f"sentence 16 .*{message}"):
        encoder.encode([*sentences[:16], wrong, *sentences])  # type: ignore[list-item]
