"""Batches are filled by tokens from all requests in turn, and each request gets its own vectors."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from isotune.encoder.encoder import Encoder
from isotune.use.serve import batcher
from isotune.use.serve.batcher import Batcher


class Recorder(Batcher):
    """A batcher whose workers take nothing before `go`; the batches are recorded."""

    def __init__(self, encoders: list[Encoder]) -> None:
        self.held, self.batches = True, []
        super().__init__(encoders)

    def _next_batch(self) -> batcher._Batch:
        batch = [] if self.held else super()._next_batch()
        if batch:
            self.batches.append([job.ids for job, _ in batch])
        return batch

    def go(self) -> None:
        with self._changed:
            self.held = False
            self._changed.notify_all()


def asked(
    encoder: Encoder, requests: list[list[list[int]]], gone: int = 0
) -> tuple[list[Any], list[list[int]]]:
    """Asks for all requests at once, and cancels the first ones.

    Gives the answers, and the requests of each batch.
    """

    async def run() -> tuple[list[Any], list[list[int]]]:
        recorder = Recorder([encoder])
        tasks = [asyncio.create_task(recorder.encode(encoder, ids)) for ids in requests]
        await asyncio.sleep(0.01)
        for task in tasks[:gone]:
            task.cancel()
        await asyncio.wait(tasks[:gone] or [asyncio.create_task(asyncio.sleep(0))])
        recorder.go()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(recorder.close)
        numbers = {id(ids): number for number, ids in enumerate(requests)}
        return answers, [[numbers[id(ids)] for ids in batch] for batch in recorder.batches]

    return asyncio.run(run())


def test_a_small_request_is_in_the_first_batch_beside_a_large_one(
    tiny: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "isotune.encoder.model.BATCH_BYTES", {"cpu": 4 * 32 * 4 * 100, "cuda": 1}
    )  # 100 tokens
    _, batches = asked(tiny, [[[2, 6, 7, 3]] * 200, [[2, 6, 7, 3]] * 2])
    assert batches[0][:4] == [0, 1, 0, 1]
    assert {len(batch) for batch in batches[:-1]} == {25}
    assert sum(map(len, batches)) == 202


def test_texts_of_several_requests_and_encoders_come_back_in_order(
    tiny: Encoder, tiny_model: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotune.encoder.model.BATCH_BYTES", {"cpu": 4 * 32 * 4 * 64, "cuda": 1})
    other = Encoder.load(tiny_model, pooling="cls")

    async def run() -> None:
        filled = Batcher([tiny, other])

        async def check(encoder: Encoder, texts: list[str]) -> None:
            ids = [
                tokens
                async for part in filled.tokenize(encoder, texts)
                for tokens in part.columns[0]
            ]
            encoded = await filled.encode(encoder, ids)
            np.testing.assert_allclose(
                encoded.vectors, encoder.encode(texts, normalize=True), atol=1e-6
            )
            assert encoded.tokens == sum(map(len, encoder.tokenize(texts)))

        parts = [sentences[i::7] for i in range(7)]
        await asyncio.gather(*(check(encoder, part) for part in parts for encoder in (tiny, other)))
        await asyncio.to_thread(filled.close)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("tokens", "read", "encoded", "excess"),
    [
        (None, 999, 0, "it has 1,000 characters, and the server read 999 ("),
        (None, 1000, 0, ""),
        (300, 5000, 299, "it has 300 tokens, and the server encoded 299 ("),
        (300, 5000, 300, ""),
    ],
)
def test_a_request_is_too_much_if_it_has_more_than_the_server_did_since_it_came(
    tokens: int | None, read: int, encoded: int, excess: str
) -> None:
    done: Any = SimpleNamespace(characters_read=70, tokens_encoded=30)
    work = batcher.Work(done, ["a" * 400, "b" * 600])
    work.tokens = tokens
    done.characters_read += read
    done.tokens_encoded += encoded
    assert work.excess().startswith(excess)
    assert bool(work.excess()) == bool(excess)


def test_a_cancelled_request_leaves_nothing_behind(tiny: Encoder) -> None:
    assert asked(tiny, [[[2, 6, 3]] * 50, [[2, 6, 3]]], gone=1)[1] == [[1]]


@pytest.mark.parametrize("culprits", [1, 3])
def test_a_text_that_fails_its_batch_harms_no_other_request(
    tiny: Encoder, monkeypatch: pytest.MonkeyPatch, culprits: int
) -> None:
    encode = batcher._encode
    fails = lambda batch: 1 / (not any(9 in job.ids[i] for job, i in batch)) and encode(batch)  # noqa: E731
    monkeypatch.setattr(batcher, "_encode", fails)
    ids = [[2, 6, 3]] * 5 + [[2, 9, 3]] * culprits + [[2, 7, 3]] * 4
    answers, batches = asked(tiny, [[tokens] for tokens in ids])
    assert len(batches) == 1
    wrong = [isinstance(answer, ZeroDivisionError) for answer in answers]
    assert wrong == [False] * 5 + [True] * culprits + [False] * 4


def test_short_texts_are_first_and_long_ones_wait_for_a_bounded_time(
    tiny: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "isotune.encoder.model.BATCH_BYTES", {"cpu": 4 * 32 * 4 * 30, "cuda": 1}
    )  # 30 tokens

    _, batches = asked(tiny, [*([[2] + [6] * 28 + [3]] for _ in range(20)), [[2, 6, 3]] * 2000])
    sizes = [len(batch) for batch in batches]
    assert sizes[0] == 10  # short ones
    assert 0 < sizes.index(1) <= batcher.PATIENCE
