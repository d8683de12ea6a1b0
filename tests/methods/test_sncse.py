"""SNCSE: prompts, negations, and the two losses added."""

from pathlib import Path

import pytest
import torch

from isotune.data.packed import pack
from isotune.data.rows import Sentence, Triplet
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.methods.method import Batch
from isotune.methods.options import SNCSEOptions
from isotune.methods.sncse import ANCHOR, SNCSE
from tests.conftest import attached, encode_views, reopened
from tests.reference import losses


@pytest.fixture
def encoder(tiny_model: Path) -> Encoder:
    return Encoder.load(tiny_model, pooling="cls")


def sncse_batch(method: SNCSE, encoder: Encoder, sentences: list[str]) -> Batch:
    rows = list(method.prepare(map(Sentence, sentences), None, lambda text: None))
    columns = [list(column) for column in zip(*rows, strict=True)]
    return Batch(tuple(map(pack, method.tokenize(encoder, columns, encoder.max_length).columns)))


@pytest.mark.parametrize("prompts", [True, False])
def test_the_loss_is_info_nce_and_the_weighted_margin(
    prompts: bool, encoder: Encoder, sentences: list[str]
) -> None:
    options = SNCSEOptions(
        temperature=0.2,
        margin_weight=0.5,
        alpha=0.2,
        beta=0.25,
        prompts=prompts,
        projection=False,
        parser="words",
    )
    method = attached(SNCSE(options, encoder), encoder)
    batch = sncse_batch(method, encoder, sentences[:9])
    encoded = encode_views(encoder, method.views(batch))
    assert [vectors.shape for vectors in encoded] == [(9, 32)] * 3
    terms = {name: term.double() for name, term in method.loss(encoded, batch).items()}
    first, second, soft = (vectors.double() for vectors in encoded)
    margin = 0.5 * losses.bidirectional_margin(first, second, soft, 0.2, 0.25)
    assert margin > 0
    expected = {"info_nce": losses.info_nce(first, second, 0.2), "margin": margin}
    torch.testing.assert_close(terms, expected, rtol=1e-5, atol=1e-6)
    assert prompts or torch.equal(
        first, second
    )  # without dropout and prompts, nothing tells them apart


def test_pure_negatives_are_hard_negatives_of_all_anchors(encoder: Encoder) -> None:
    options = SNCSEOptions(
        temperature=0.2, pure_negatives=True, prompts=False, projection=False, parser="words"
    )
    vectors = torch.randn(3, 5, 32, generator=torch.Generator().manual_seed(0))
    terms = SNCSE(options, encoder).loss(list(vectors), Batch())
    first, second, negations = vectors.double()
    expected = {"info_nce": losses.info_nce(first, second, 0.2, negations)}
    terms = {name: term.double() for name, term in terms.items()}
    torch.testing.assert_close(terms, expected, rtol=1e-5, atol=1e-6)


def test_the_projection_is_trained_on_all_three_views(encoder: Encoder) -> None:
    method = SNCSE(SNCSEOptions(parser="words"), encoder)
    vectors = torch.randn(3, 5, 32)
    projected = [torch.tanh(x @ method.projection.linear.weight.T).double() for x in vectors]
    expected = losses.info_nce(
        projected[0], projected[1], 0.05
    ) + 1e-3 * losses.bidirectional_margin(*projected, 0.1, 0.3)
    loss = torch.stack(list(method.loss(list(vectors), Batch()).values())).sum()
    torch.testing.assert_close(loss.double(), expected, rtol=1e-4, atol=1e-6)


def test_the_prompts_are_the_authors() -> None:
    encoder = Encoder.load("bert-tiny")
    method = attached(SNCSE(SNCSEOptions(parser="words"), encoder), encoder)
    batch = sncse_batch(method, encoder, ["He was here"])
    tokens = [
        " ".join(encoder.tokenizer.convert_ids_to_tokens(tokens.ids.tolist()))
        for tokens in batch.texts
    ]
    assert tokens == [
        '[CLS] this sentence : " he was here . " means [MASK] . [SEP]',
        '[CLS] this sentence of " he was here . " means [MASK] . [SEP]',
        '[CLS] this sentence of " he was not here . " means [MASK] . [SEP]',
    ]


def test_with_prompts_the_encoder_keeps_the_anchors(
    encoder: Encoder, sentences: list[str], tmp_path: Path
) -> None:
    attached(SNCSE(SNCSEOptions(parser="words"), encoder), encoder)
    assert (encoder.prompt, encoder.pooling.mode) == (ANCHOR, "mask")
    again = reopened(encoder, tmp_path / "saved", sentences)
    SNCSE(SNCSEOptions(parser="words"), again)  # it may be trained on
    assert again.tokenize(sentences) == encoder.tokenize(sentences)


def test_without_prompts_the_encoder_stays_as_it_is(encoder: Encoder) -> None:
    method = attached(SNCSE(SNCSEOptions(prompts=False, parser="words"), encoder), encoder)
    assert (encoder.prompt, encoder.pooling.mode) == ("", "cls")
    columns = [["a man"], ["a man"], ["not a man"]]
    assert method.tokenize(encoder, columns, 16).columns == [
        encoder.tokenize(texts) for texts in columns
    ]


def test_encoders_that_cannot_take_the_prompts(tiny_model: Path) -> None:
    with pytest.raises(InputError, match="prompt 'a dog ': method sncse sets its own prompt"):
        SNCSE(SNCSEOptions(parser="words"), Encoder.load(tiny_model, prompt="a dog "))
    with pytest.raises(InputError, match="pooling mask without a prompt that brings a mask"):
        SNCSE(SNCSEOptions(parser="words"), Encoder.load(tiny_model, pooling="mask"))
    encoder = Encoder.load(tiny_model)
    encoder.tokenizer.mask_token = None
    with pytest.raises(InputError, match="no mask token"):
        SNCSE(SNCSEOptions(parser="words"), encoder)


def test_negations_are_made_once_and_their_rules_are_told(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = SNCSE(SNCSEOptions(parser="words"), encoder)
    sentences = ["He is here\tnow", "I can see", "A dog", "I do not know"]
    negated = ["He is not here\tnow", "I can not see", "Not A dog", "I do know"]
    for _ in range(2):
        said: list[str] = []
        rows = list(method.prepare(map(Sentence, sentences), tmp_path, said.append))
        assert rows == [Triplet(a, a, b) for a, b in zip(sentences, negated, strict=True)]
        assert said == [
            f"soft negatives: by a word list, kept in {tmp_path / 'negations.sqlite'}",
            "soft negatives: 4; by the rules removed 25.0%, auxiliary 50.0%, verb 0.0%, "
            "prefix 25.0%",
        ]
        # What is kept is found by the key, and nothing is made again.
        monkeypatch.setattr(
            method,
            "parser",
            method.parser._replace(parse=lambda _: pytest.fail("it was made before")),
        )


def test_alpha_is_not_above_beta() -> None:
    with pytest.raises(ValueError, match=r"alpha 0.4 is above beta 0.3"):
        SNCSEOptions(alpha=0.4)
