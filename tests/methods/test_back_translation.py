"""Learning from paraphrases: where they are from, and where each text of a pair goes."""

from pathlib import Path
from typing import Any

import pytest
import torch

import isotune
from isotune.data.packed import pack
from isotune.data.rows import Pair, Row, Sentence
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.methods import back_translation
from isotune.methods.back_translation import BackTranslation, SelfGuidedBackTranslation
from isotune.methods.method import Batch
from isotune.methods.options import BackTranslationOptions, SelfGuidedBackTranslationOptions
from isotune.methods.self_guided import SelfGuided
from isotune.report.text_changes import CHANGES
from tests.conftest import encode_views
from tests.reference import losses as reference

N = 6


@pytest.fixture
def encoder(tiny_model: Path) -> Encoder:
    return Encoder.load(tiny_model, pooling="cls")


@pytest.fixture
def batch(encoder: Encoder, sentences: list[str]) -> Batch:
    return Batch((pack(encoder.tokenize(sentences[:N])), pack(encoder.tokenize(sentences[N : 2 * N]))))


class Reversing:
    """Stands in for the translation: the words in reverse order, and nothing for what begins with "nothing"."""

    models = ("x", "y")

    def __init__(self) -> None:
        self.settings = {"models": ["x", "y"]}
        self.seen: list[str] = []

    def __call__(self, texts: list[str]) -> list[str]:
        self.seen += texts
        return ["" if text.startswith("nothing") else " ".join(reversed(text.split())) for text in texts]


def make(encoder: Encoder, **options: object) -> BackTranslation:
    return BackTranslation(BackTranslationOptions.model_validate({"projection": False, **options}), encoder)


def test_a_sentence_and_its_paraphrase_are_compared_by_nt_xent(
    encoder: Encoder, batch: Batch, sentences: list[str]
) -> None:
    method = make(encoder, temperature=0.05)
    first, second = encode_views(encoder, method.views(batch))
    torch.testing.assert_close(first, torch.from_numpy(encoder.encode(sentences[:N])))
    torch.testing.assert_close(second, torch.from_numpy(encoder.encode(sentences[N : 2 * N])))
    assert first.requires_grad
    assert second.requires_grad
    expected = reference.nt_xent(first.double(), second.double(), 0.05)
    loss = method.loss([first, second], batch)
    torch.testing.assert_close(loss["nt_xent"].double(), expected, rtol=1e-4, atol=0)


def test_it_shares_all_else_with_self_guidance(encoder: Encoder) -> None:
    method = make(encoder, regularizer=0.2, projection=True)
    guided = SelfGuidedBackTranslation(SelfGuidedBackTranslationOptions(regularizer=0.2), encoder)
    assert isinstance(guided, SelfGuided)
    with torch.no_grad():
        next(encoder.backbone.parameters()).add_(1.0)
    torch.testing.assert_close(method.penalty(encoder), guided.penalty(encoder))
    assert list(map(id, method.trained(encoder))) == list(map(id, guided.trained(encoder)))
    assert [p.shape for p in method.projection.parameters()] == [p.shape for p in guided.projection.parameters()]


def test_a_head_of_another_dimension_is_projected(encoder: Encoder) -> None:
    encoder = Encoder(encoder.backbone, encoder.pooling, [Dense(32, 8)], encoder.tokenizer, 32)
    first, second = torch.randn(2, N, 8).unbind()
    assert torch.isfinite(make(encoder, projection=True).loss([first, second], Batch())["nt_xent"])


def test_with_self_guidance_the_fixed_copy_sees_the_paraphrase(
    encoder: Encoder, batch: Batch, sentences: list[str]
) -> None:
    method = SelfGuidedBackTranslation(SelfGuidedBackTranslationOptions(projection=False, view_pooling="cls"), encoder)
    c, h = encode_views(encoder, method.views(batch))
    torch.testing.assert_close(c, torch.from_numpy(encoder.encode(sentences[:N])))
    torch.testing.assert_close(h[:, -1], torch.from_numpy(encoder.encode(sentences[N : 2 * N])))
    expected = reference.self_guided_opt3(c.double(), h.double(), 0.01)
    torch.testing.assert_close(method.loss([c, h], batch)["opt3"].double(), expected, rtol=1e-3, atol=1e-6)


def test_pairs_are_taken_as_they_are(encoder: Encoder) -> None:
    method = make(encoder)
    rows = [Pair("a cat", "the cat"), Pair("a dog", "a dog")]
    assert (method.reads, method.rows) == (None, Pair)
    assert list(method.prepare(rows, None, pytest.fail)) == rows


def test_paraphrases_of_sentences_are_made_once(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(back_translation, "BATCH", 2)
    method = make(encoder, translate=("x", "y"))
    assert (method.reads, method.rows) == (Sentence, Pair)
    rows: list[Row] = [Sentence(text) for text in ("a cat", "the dog", "nothing", "a cat", "red ball")]
    expected = [("a cat", "cat a"), ("the dog", "dog the"), ("a cat", "cat a"), ("red ball", "ball red")]
    for made in (4, 0):
        translator, said = Reversing(), []
        method.translator = translator  # type: ignore[assignment]
        assert list(method.prepare(rows, tmp_path / "cache", said.append)) == expected
        assert len(translator.seen) == made
        assert said[0] == f"back-translation: by x and y, kept in {tmp_path}/cache/back-translation.sqlite"
        assert said[1:] == [f"back-translation: {count} made" for count in (2, 3, 4)[: 3 * (made > 0)]]


def run(method: str, source: Path, tiny_model: Path, pairs: Path, out: Path, **options: Any) -> isotune.Result:
    return isotune.train(
        source,
        out=out,
        model=str(tiny_model),
        method=method,
        projection=False,
        dev=str(pairs),
        tasks=[str(pairs)],
        batch_size=8,
        steps=4,
        learning_rate=1e-3,
        quiet=True,
        **options,
    )


@pytest.mark.parametrize("method", ["back-translation", "self-guided-bt"])
def test_a_run_translates_its_sentences_and_keeps_what_was_made(
    method: str, tiny_model: Path, translators: tuple[str, str], text: Path, pairs: Path, tmp_path: Path
) -> None:
    options = {"translate": translators, "beams": 2}
    first = run(method, text, tiny_model, pairs, tmp_path / "first", **options)
    assert (text.parent / ".isotune" / "back-translation.sqlite").is_file()
    for folder in translators:
        Path(folder, "model.safetensors").unlink()  # the second run needs no model
    second = run(method, text, tiny_model, pairs, tmp_path / "second", **options)
    data = [(result.folder / "data.json").read_text() for result in (first, second)]
    assert data[0] == data[1]
    assert '"rows": 32' in data[0]  # what 4 steps of 8 rows take
    assert (first.folder / CHANGES).exists()  # the two encoders are compared on the sentences that were translated


def test_a_run_takes_a_file_of_pairs(tiny_model: Path, sentences: list[str], pairs: Path, tmp_path: Path) -> None:
    source = tmp_path / "paraphrases.csv"
    lines = [f"{a},{b}" for a, b in zip(sentences[:30], sentences[30:], strict=True)]
    source.write_text("\n".join(["sentence1,sentence2", *lines]))
    result = run("back-translation", source, tiny_model, pairs, tmp_path / "run")
    assert '"rows": 30' in (result.folder / "data.json").read_text()
