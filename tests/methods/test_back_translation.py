"""Learning from paraphrases: where they are from, and where each text of a pair goes."""

from pathlib import Path

import pytest
import torch

from isotune.data.packed import pack
from isotune.data.rows import Pair, Row, Sentence
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.evaluation.text_changes import CHANGES
from isotune.methods import back_translation
from isotune.methods.back_translation import BackTranslation, SelfGuidedBackTranslation
from isotune.methods.method import Batch
from isotune.methods.options import BackTranslationOptions, SelfGuidedBackTranslationOptions
from tests.conftest import encode_views
from tests.reference import losses as reference
from tests.training.conftest import Train

N = 6


@pytest.fixture
def batch(encoder: Encoder, sentences: list[str]) -> Batch:
    return Batch(
        (pack(encoder.tokenize(sentences[:N])), pack(encoder.tokenize(sentences[N : 2 * N])))
    )


class Reversing:
    """Stands in for the translation: the words in reverse order.

    What begins with "nothing" becomes nothing.
    """

    models = ("x", "y")

    def __init__(self) -> None:
        self.settings = {"models": ["x", "y"]}
        self.seen: list[str] = []

    def __call__(self, texts: list[str]) -> list[str]:
        self.seen += texts
        return [
            "" if text.startswith("nothing") else " ".join(reversed(text.split())) for text in texts
        ]


def make(encoder: Encoder, **options: object) -> BackTranslation:
    return BackTranslation(
        BackTranslationOptions.model_validate({"projection": False, **options}), encoder
    )


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


def test_a_head_of_another_dimension_is_projected(encoder: Encoder) -> None:
    encoder = Encoder(encoder.backbone, encoder.pooling, [Dense(32, 8)], encoder.tokenizer, 32)
    first, second = torch.randn(2, N, 8).unbind()
    assert torch.isfinite(make(encoder, projection=True).loss([first, second], Batch())["nt_xent"])


def test_with_self_guidance_the_fixed_copy_sees_the_paraphrase(
    encoder: Encoder, batch: Batch, sentences: list[str]
) -> None:
    method = SelfGuidedBackTranslation(
        SelfGuidedBackTranslationOptions(projection=False, view_pooling="mean"), encoder
    )
    c, h = encode_views(encoder, method.views(batch))
    torch.testing.assert_close(c, torch.from_numpy(encoder.encode(sentences[:N])))
    torch.testing.assert_close(h[:, -1], torch.from_numpy(encoder.encode(sentences[N : 2 * N])))
    expected = reference.self_guided_opt3(c.double(), h.double(), 0.01)
    torch.testing.assert_close(
        method.loss([c, h], batch)["opt3"].double(), expected, rtol=1e-3, atol=1e-6
    )


def test_paraphrases_of_sentences_are_made_once(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(back_translation, "BATCH", 2)
    method = make(encoder, translate=("x", "y"))
    assert (method.reads, method.rows) == (Sentence, Pair)
    rows: list[Row] = [
        Sentence(text) for text in ("a cat", "the dog", "nothing", "a cat", "red ball")
    ]
    expected = [
        ("a cat", "cat a"),
        ("the dog", "dog the"),
        ("a cat", "cat a"),
        ("red ball", "ball red"),
    ]
    for made in (4, 0):
        translator, said = Reversing(), []
        method.translator = translator  # type: ignore[assignment]
        assert list(method.prepare(rows, tmp_path / "cache", said.append)) == expected
        assert len(translator.seen) == made
        assert (
            said[0]
            == f"back-translation: by x and y, kept in {tmp_path}/cache/back-translation.sqlite"
        )
        assert said[1:] == [
            f"back-translation: {count} made" for count in (2, 3, 4)[: 3 * (made > 0)]
        ]


@pytest.mark.parametrize("method", ["back-translation", "self-guided-bt"])
def test_a_run_translates_its_sentences_and_keeps_what_was_made(
    method: str, train: Train, translators: tuple[str, str], text: Path
) -> None:
    options = {
        "method": method,
        "translate": translators,
        "beams": 2,
        "projection": False,
        "steps": 4,
    }
    first = train("first", **options)
    assert (text.parent / ".isotune" / "back-translation.sqlite").is_file()
    for folder in translators:
        Path(folder, "model.safetensors").unlink()  # the second run needs no model
    second = train("second", **options)
    read, again = ((result.folder / "data.json").read_text() for result in (first, second))
    assert read == again
    assert '"rows": 32' in read  # what 4 steps of 8 rows take
    assert (
        first.folder / CHANGES
    ).exists()  # the two encoders are compared on the sentences that were translated
