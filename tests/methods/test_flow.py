"""MirrorBERT, BERT-flow and BERT-CF: their views, their losses, and what each of them trains."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import Generator, Tensor

from isotune.data.packed import pack
from isotune.data.rows import Sentence
from isotune.data.tokens import TokenDataset, Tokenized
from isotune.encoder.encoder import Encoder
from isotune.engine.loader import StepLoader
from isotune.errors import InputError
from isotune.methods.flow import BERTCF, BERTFlow
from isotune.methods.method import ROWS, Batch, Feed, Method
from isotune.methods.mirror import Mirror
from isotune.methods.options import BERTCFOptions, FlowOptions, MirrorOptions
from isotune.recipes import TrainingOptions
from tests.conftest import attached, encode_views, trained
from tests.data.test_packed import unpack
from tests.reference import flow as flow_reference
from tests.reference import losses as losses_reference

MASK = 4


@pytest.fixture
def batch(encoder: Encoder, sentences: list[str]) -> Batch:
    return make_batch(encoder, sentences[:9])


@pytest.fixture
def vectors(encoder: Encoder, batch: Batch) -> Tensor:
    return encoder.pool(batch.texts[0]).detach()


def make_batch(encoder: Encoder, sentences: list[str], seed: int = 0) -> Batch:
    tokens = pack(encoder.tokenize(sentences))
    return Batch((tokens,), sentences=(sentences,), generator=Generator().manual_seed(seed))


def gradients(
    method: Method, encoder: Encoder, batch: Batch, term: str | None = None
) -> dict[str, Tensor]:
    """The gradient, of one term or of all, at each weight of the encoder that has one."""
    encoder.requires_grad_(False)
    for parameter in trained(method, encoder):
        parameter.requires_grad_(True)
    encoder.train()
    terms = method.loss(encode_views(encoder, method.views(method.draw(batch))), batch)
    (sum(terms.values()) if term is None else terms[term]).backward()  # type: ignore[union-attr]
    return {key: value.grad for key, value in encoder.named_parameters() if value.grad is not None}


def test_mirror_masks_characters_on_one_side_only(encoder: Encoder, batch: Batch) -> None:
    method = Mirror(MirrorOptions(), encoder)
    assert method.needs_text
    plain, masked = method.views(method.draw(batch))
    assert plain.tokens is batch.texts[0]
    for text, whole, cut in zip(
        batch.sentences[0], unpack(plain.tokens), unpack(masked.tokens), strict=True
    ):
        assert MASK not in whole
        assert cut.count(MASK) == (len(text) >= 30)
        assert cut[0] == whole[0] == 2
        assert cut[-1] == whole[-1] == 3
    again = method.views(method.draw(replace(batch, generator=Generator().manual_seed(0))))[
        1
    ].tokens
    assert torch.equal(again.ids, masked.tokens.ids)  # type: ignore[union-attr]


def test_a_mask_takes_no_token_from_the_end_but_at_the_limit_of_the_stage(encoder: Encoder) -> None:
    text = f"a man {'o' * 40} house"
    whole = encoder.tokenize([text])[0]
    for max_length, ends_whole in ((len(whole) + 4, True), (len(whole), False)):
        tokenize = lambda columns, n=max_length: Tokenized([encoder.tokenize(columns[0], n)])  # noqa: E731
        store = TokenDataset.build(
            [Sentence(text)] * 40, Sentence, tokenize, max_length, keep_text=True
        )
        batch = StepLoader(
            {ROWS: store}, {ROWS: Feed(Sentence, batch_size=40)}, TrainingOptions(), 0, 0
        ).batch(0)
        mirror = Mirror(MirrorOptions(), encoder)
        plain, masked = (view.tokens for view in mirror.views(mirror.draw(batch)))
        assert plain.lengths.tolist() == [len(whole)] * 40
        assert masked.lengths.max() == min(
            max_length, len(whole) + 2
        )  # a word cut in two, and the mask between
        ends = {ids[-2] for ids in unpack(masked) if len(ids) == masked.lengths.max()}
        assert (ends == {whole[-2]}) == ends_whole


def test_mirror_can_mask_tokens_or_nothing(encoder: Encoder, batch: Batch) -> None:
    method = Mirror(MirrorOptions(spans="tokens"), encoder)
    assert not method.needs_text
    plain, masked = (view.tokens for view in method.views(method.draw(batch)))
    assert torch.equal(masked.lengths, plain.lengths)
    assert 9 <= (masked.ids == MASK).sum() <= 45
    again = method.views(method.draw(Batch(batch.texts, generator=Generator().manual_seed(0))))[
        1
    ].tokens
    assert torch.equal(again.ids, masked.ids)  # the batch's generator decides

    for spans in ("characters", "tokens"):
        method = Mirror(MirrorOptions.model_validate({"spans": spans, "span_length": 0}), encoder)
        assert not method.needs_text
        assert {view.tokens for view in method.views(method.draw(batch))} == set(batch.texts)


@pytest.mark.parametrize("symmetric", [True, False])
def test_mirrors_loss_is_nt_xent_or_bert_cfs(
    symmetric: bool, encoder: Encoder, batch: Batch
) -> None:
    method = Mirror(MirrorOptions(temperature=0.07, symmetric=symmetric), encoder)
    encoded = encode_views(encoder.eval(), method.views(method.draw(batch)))
    a, b = (vectors.double() for vectors in encoded)
    formula = losses_reference.nt_xent if symmetric else losses_reference.mirror_info_nce
    torch.testing.assert_close(
        method.loss(encoded, batch)["mirror"].double(), formula(a, b, 0.07), rtol=1e-4, atol=0
    )


def test_what_mirror_cannot_mask_is_refused(encoder: Encoder) -> None:
    encoder.lowercase = True
    with pytest.raises(
        InputError, match="this encoder lowercases its text, the mask token too; use spans tokens"
    ):
        Mirror(MirrorOptions(), encoder)
    Mirror(MirrorOptions(spans="tokens"), encoder)
    encoder.tokenizer.mask_token = None
    with pytest.raises(
        InputError, match="tokenizer has no mask token; choose a span_length of 0, or another model"
    ):
        Mirror(MirrorOptions(spans="tokens"), encoder)
    Mirror(MirrorOptions(span_length=0), encoder)


def test_flows_loss_is_the_likelihood_of_the_vectors(encoder: Encoder, vectors: Tensor) -> None:
    method, batch = (
        attached(BERTFlow(FlowOptions(depth=1), encoder), encoder),
        Batch(vectors=(vectors,)),
    )
    encode_views(encoder.train(), method.views(method.draw(batch)))  # which initialises it
    flow = encoder.heads[0]
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    encoded = encode_views(encoder.eval(), method.views(method.draw(batch)))
    z = flow(vectors)
    expected = flow_reference.bits_per_dimension(
        z.double(), [flow.log_determinant().item()] * len(z)
    )
    assert method.loss(encoded, batch)["bits_per_dimension"].item() == pytest.approx(
        expected, rel=1e-4
    )


def test_bert_cfs_terms_are_those_of_its_parts(
    encoder: Encoder, batch: Batch, vectors: Tensor
) -> None:
    method = attached(
        BERTCF(BERTCFOptions(contrastive_weight=0.3, temperature=0.07), encoder), encoder
    )
    assert len(method.views(method.draw(batch))) == 2
    masked = vectors + 0.1 * torch.randn_like(vectors)
    terms = method.train().loss([vectors, masked], batch)
    flow = encoder.heads[0]
    z, z_masked = flow(vectors), flow(masked)
    expected = 0.3 * losses_reference.mirror_info_nce(z.double(), z_masked.double(), 0.07)
    torch.testing.assert_close(terms["mirror"].double(), expected, rtol=1e-4, atol=0)
    bits = flow_reference.bits_per_dimension(z.double(), [flow.log_determinant().item()] * len(z))
    assert terms["bits_per_dimension"].item() == pytest.approx(bits, rel=1e-4)


@pytest.mark.parametrize("joint", [False, True])
def test_in_the_ablation_alone_the_contrastive_term_trains_the_encoder(
    joint: bool, encoder: Encoder, batch: Batch
) -> None:
    method = attached(BERTCF(BERTCFOptions(train_encoder=joint), encoder), encoder)
    for term in ("mirror", "bits_per_dimension"):
        parts = {"heads", "backbone"} if joint and term == "mirror" else {"heads"}
        assert {key.split(".")[0] for key in gradients(method, encoder, batch, term)} == parts
        encoder.zero_grad()


def test_bert_cf_is_mirror_and_then_flow_whatever_is_masked(encoder: Encoder, batch: Batch) -> None:
    assert BERTCF(BERTCFOptions(spans="characters"), copy.deepcopy(encoder)).needs_text
    method = attached(BERTCF(BERTCFOptions(), encoder), encoder)
    assert not method.needs_text
    assert not method.cached
    mirror = Mirror(MirrorOptions(spans="tokens", symmetric=False), encoder)
    again = Batch(batch.texts, generator=Generator().manual_seed(0))
    for view, expected in zip(
        method.views(method.draw(batch)), mirror.views(mirror.draw(again)), strict=True
    ):
        assert torch.equal(view.tokens.ids, expected.tokens.ids)
        assert not view.heads
