"""Batches are filled by tokens from all requests in turn, and every request gets its own vectors."""

import asyncio
import os
import random
from pathlib import Path

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
        if self.held:
            return []
        batch = super()._next_batch()
        if batch:
            self.batches.append([(id(job), i) for job, i in batch])
        return batch

    def go(self) -> None:
        with self._changed:
            self.held = False
            self._changed.notify_all()


def test_a_small_request_is_in_the_first_batch_beside_a_large_one(
    tiny: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotune.encoder.encoder.BATCH_BYTES", {"cpu": 4 * 32 * 4 * 100, "cuda": 1})  # 100 tokens

    async def run() -> list[list[int]]:
        recorder = Recorder([tiny])
        large = asyncio.create_task(recorder.encode(tiny, [[2, 6, 7, 3]] * 200))
        small = asyncio.create_task(recorder.encode(tiny, [[2, 6, 7, 3]] * 2))
        await asyncio.sleep(0.01)
        recorder.go()
        await asyncio.gather(large, small)
        await asyncio.to_thread(recorder.close)
        jobs = {job: name for name, job in enumerate(dict.fromkeys(job for job, _ in recorder.batches[0]))}
        return [[jobs[job] for job, _ in batch] for batch in recorder.batches]

    batches = asyncio.run(run())
    assert batches[0][:4] == [0, 1, 0, 1]
    assert {len(batch) for batch in batches[:-1]} == {25}
    assert sum(map(len, batches)) == 202


def test_texts_of_several_requests_and_encoders_come_back_in_order(
    tiny: Encoder, tiny_model: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotune.encoder.encoder.BATCH_BYTES", {"cpu": 4 * 32 * 4 * 64, "cuda": 1})
    other = Encoder.load(tiny_model, pooling="cls")

    async def run() -> None:
        filled = Batcher([tiny, other])

        async def check(encoder: Encoder, texts: list[str]) -> None:
            ids = [tokens async for part in filled.tokenize(encoder, texts) for tokens in part]
            encoded = await filled.encode(encoder, ids)
            np.testing.assert_allclose(encoded.vectors, encoder.encode(texts, normalize=True), atol=1e-6)
            assert encoded.tokens == sum(map(len, encoder.tokenize(texts)))

        parts = [sentences[i::7] for i in range(7)]
        await asyncio.gather(*(check(encoder, part) for part in parts for encoder in (tiny, other)))
        await asyncio.to_thread(filled.close)

    asyncio.run(run())


def test_an_error_in_a_batch_leaves_the_batcher_working(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        filled = Batcher([tiny])
        with monkeypatch.context() as patch:
            patch.setattr(batcher, "_encode", lambda batch: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await filled.encode(tiny, [[2, 6, 3]])
        assert (await filled.encode(tiny, [[2, 6, 3]])).vectors.shape == (1, 32)
        await asyncio.to_thread(filled.close)

    asyncio.run(run())


def test_a_cancelled_request_leaves_nothing_behind(tiny: Encoder) -> None:
    async def run() -> None:
        recorder = Recorder([tiny])
        task = asyncio.create_task(recorder.encode(tiny, [[2, 6, 3]] * 50))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        recorder.go()
        await recorder.encode(tiny, [[2, 6, 3]])
        await asyncio.to_thread(recorder.close)
        assert sum(map(len, recorder.batches)) == 1

    asyncio.run(run())


def test_long_lists_are_tokenised_in_parts_of_some_thousand_characters() -> None:
    parts = list(batcher._parts(["a" * 2000] * 9 + ["b" * 9000, "c"]))
    assert [len(part) for part in parts] == [4, 4, 1, 1, 1]


@pytest.mark.parametrize("model", ["bert-tiny", "all-minilm", "all-mpnet", "mini"])
def test_the_beginning_of_a_long_text_has_the_ids_of_the_whole(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(os.environ.get("ISOTUNE_MODELS", "")) / model
    if model != "bert-tiny" and not folder.exists():
        pytest.skip("$ISOTUNE_MODELS lacks the model")
    encoder = Encoder.load(model if model == "bert-tiny" else folder)
    monkeypatch.setattr(batcher, "PART_CHARACTERS", 300)
    chance, tokenised = random.Random(0), []
    tokenize = encoder.tokenize
    monkeypatch.setattr(encoder, "tokenize", lambda texts: tokenised.append(sum(map(len, texts))) or tokenize(texts))
    signs = ["xq" * 30, "  ", "\n", "\t", "\u00a0", "\u0301", "犬", ".", "don't", "[SEP]", "\u200b", "Σ", "\0", "🎈"]
    texts = ["".join(chance.choices([*signs, *" " * 9], k=chance.randint(1, 6000))) for _ in range(60)]
    texts.append("word " * 13_000)

    async def run() -> list[list[int]]:
        filled = Batcher([encoder])
        ids = [tokens async for part in filled.tokenize(encoder, texts) for tokens in part]
        await asyncio.to_thread(filled.close)
        return ids

    assert asyncio.run(run()) == tokenize(texts)
    assert max(tokenised) < 65_000  # not the whole of the last


@pytest.mark.parametrize("culprits", [1, 3])
def test_a_text_that_fails_its_batch_harms_no_other_request(
    tiny: Encoder, monkeypatch: pytest.MonkeyPatch, culprits: int
) -> None:
    async def run() -> list[object]:
        recorder = Recorder([tiny])
        ids = [[2, 6, 3]] * 5 + [[2, 9, 3]] * culprits + [[2, 7, 3]] * 4
        asked = [asyncio.create_task(recorder.encode(tiny, [tokens])) for tokens in ids]
        await asyncio.sleep(0.01)
        recorder.go()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        await asyncio.to_thread(recorder.close)
        assert len(recorder.batches[0]) == len(ids)
        return answers

    encode = batcher._encode
    fails = lambda batch: 1 / (not any(9 in job.ids[i] for job, i in batch)) and encode(batch)  # noqa: E731
    monkeypatch.setattr(batcher, "_encode", fails)
    answers = asyncio.run(run())
    wrong = [isinstance(answer, ZeroDivisionError) for answer in answers]
    assert wrong == [False] * 5 + [True] * culprits + [False] * 4


def test_short_texts_are_first_and_long_ones_wait_for_a_bounded_time(
    tiny: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotune.encoder.encoder.BATCH_BYTES", {"cpu": 4 * 32 * 4 * 30, "cuda": 1})  # 30 tokens

    async def run() -> tuple[int, int]:
        recorder = Recorder([tiny])
        asked = [asyncio.create_task(recorder.encode(tiny, [[2] + [6] * 28 + [3]])) for _ in range(20)]
        asked += [asyncio.create_task(recorder.encode(tiny, [[2, 6, 3]] * 2000))]
        await asyncio.sleep(0.01)
        recorder.go()
        await asyncio.gather(*asked)
        await asyncio.to_thread(recorder.close)
        sizes = [len(batch) for batch in recorder.batches]
        return sizes[0], next(number for number, size in enumerate(sizes) if size == 1)

    first, waited = asyncio.run(run())
    assert first == 10  # short ones
    assert 0 < 30 * waited <= 30 * batcher.PATIENCE
