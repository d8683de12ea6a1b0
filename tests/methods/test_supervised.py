"""The methods with labels: what they ask for, and that their losses are the papers'."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import BertModel

from isotune.data.packed import Packed, pack, shortest_first
from isotune.data.rows import LabelledSentence, ScoredPair
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import Pooling
from isotune.methods.consert import ConSERTJoint
from isotune.methods.finetune import FinetunePair, FinetuneSentence
from isotune.methods.method import ROWS, Batch
from isotune.methods.multitask import Multitask
from isotune.methods.nli import NLI
from isotune.methods.options import (
    ConSERTJointOptions,
    FinetunePairOptions,
    FinetuneSentenceOptions,
    MultitaskOptions,
    NLIOptions,
    SimCSESupervisedOptions,
)
from isotune.methods.simcse import SimCSESupervised
from isotune.views.adversarial import Adversarial
from isotune.views.augmentation import Augmentation, FeatureCutoff, Shuffle
from tests.conftest import attached, encode_views
from tests.reference import losses as plain
from tests.reference import supervised as reference

CLASSES = torch.tensor([0, 1, 2, 1, 0, 2, 1])


@pytest.fixture
def encoder(tiny_model: Path) -> Encoder:
    return Encoder.load(tiny_model, layers=(0, -1))


@pytest.fixture
def columns(encoder: Encoder, sentences: list[str]) -> list[Packed]:
    """Three batches of seven sentences."""
    return [pack(encoder.tokenize(sentences[i : i + 7])) for i in (0, 7, 14)]


def double(vectors: Sequence[Tensor]) -> list[Tensor]:
    return [v.detach().double() for v in vectors]


def close(got: Tensor, expected: Tensor | float) -> None:
    torch.testing.assert_close(
        got.detach().double(), torch.as_tensor(expected).double(), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("max_square", [False, True])
def test_nli_classifies_the_last_layers_vectors(
    encoder: Encoder, columns: list[Packed], max_square: bool
) -> None:
    method = NLI(NLIOptions(max_square=max_square), encoder)
    batch = Batch(tuple(columns[:2]), CLASSES)
    assert [view.pooling for view in method.views(batch)] == [Pooling("mean", (-1,))] * 2
    assert method.classes == ("contradiction", "entailment", "neutral")
    encoded = encode_views(encoder, method.views(batch))
    linear = method.classifier
    expected = reference.pair_cross_entropy(
        *double(encoded), linear.weight.double(), linear.bias.double(), CLASSES.tolist(), max_square
    )
    close(method.loss(encoded, batch)["cross_entropy"], expected)


@pytest.mark.parametrize("first", ["none", "feature_cutoff"])
def test_consert_joint_adds_the_contrast_of_each_side(
    encoder: Encoder, columns: list[Packed], first: str
) -> None:
    """Where T1 changes nothing, the plain views are also those of T1."""
    options = ConSERTJointOptions(augmentations=(first, "shuffle"), alpha=0.4, temperature=0.2)
    method = ConSERTJoint(options, encoder)
    batch = Batch(tuple(columns[:2]), CLASSES)
    views = method.views(batch)
    changes = [Augmentation(), FeatureCutoff(0.2), Shuffle()]
    assert [view.augmentation for view in views[::2]] == (
        changes if first != "none" else changes[::2]
    )
    assert [view.tokens for view in views] == columns[:2] * (len(views) // 2)
    encoded = encode_views(encoder, views)
    a, b, *_ = double(encoded)
    *_, a1, b1, a2, b2 = double(encoded)
    linear = method.classifier
    terms = method.loss(encoded, batch)
    supervised = reference.pair_cross_entropy(
        a, b, linear.weight.double(), linear.bias.double(), CLASSES.tolist(), max_square=False
    )
    close(terms["cross_entropy"], supervised)
    close(terms["nt_xent"], 0.4 * (plain.nt_xent(a1, a2, 0.2) + plain.nt_xent(b1, b2, 0.2)))


@pytest.mark.parametrize("embeddings_are_trained", [True, False])
def test_consert_joints_adversarial_views_are_harder_to_classify(
    embeddings_are_trained: bool, encoder: Encoder, columns: list[Packed]
) -> None:
    encoder.backbone.model.get_submodule("embeddings").requires_grad_(embeddings_are_trained)
    options = ConSERTJointOptions(augmentations=("none", "adversarial"), adversarial_norm=0.3)
    method = ConSERTJoint(options, encoder)
    batch = Batch(tuple(columns[:2]), CLASSES)
    views = method.views(batch)
    assert [view.augmentation for view in views[2:]] == [Adversarial(0, 0.3), Adversarial(1, 0.3)]
    encoded = encode_views(encoder, views, partial(method.adversary, batch=batch))
    clean, attacked = method.adversary(encoded, batch), method.adversary(encoded[2:], batch)
    assert attacked > clean + 0.01
    assert all(torch.isfinite(term) for term in method.loss(encoded, batch).values())


def test_supervised_simcse_is_infonce_with_hard_negatives_on_vectors_that_stay(
    encoder: Encoder, columns: list[Packed], sentences: list[str], tmp_path: Path
) -> None:
    options = SimCSESupervisedOptions(temperature=0.07)
    method = attached(SimCSESupervised(options, encoder), encoder)
    batch = Batch(tuple(columns))
    encoded = encode_views(encoder, method.views(batch))
    expected = plain.info_nce(*double(encoded[:2]), 0.07, double(encoded[2:])[0])
    close(method.loss(encoded, batch)["info_nce"], expected)
    assert list(method.parameters()) == []  # the projection is the encoder's

    encoder.save(tmp_path / "kept")
    kept = Encoder.load(tmp_path / "kept")
    np.testing.assert_allclose(kept.encode(sentences[7:14]), encoded[1].detach(), atol=1e-5)
    assert np.abs(kept.encode(sentences[7:14])).max() < 1  # of a tanh
    assert len(kept.heads) == 1


@pytest.fixture
def tasks(columns: list[Packed], encoder: Encoder, sentences: list[str]) -> Batch:
    more = [pack(encoder.tokenize(sentences[i : i + 7])) for i in (21, 28)]
    feeds = {
        "sentiment": Batch((columns[0],), torch.tensor([4, 0, 2, 2, 1, 3, 0])),
        "paraphrase": Batch(tuple(columns[1:]), torch.tensor([1, 0, 1, 0, 0, 1, 1])),
        "similarity": Batch(tuple(more), torch.tensor([0.0, 5.0, 2.5, 4.0, 1.0, 3.2, 0.4])),
    }
    return Batch.of_feeds(feeds, torch.Generator())


def test_multitask_weighs_three_losses(encoder: Encoder, tasks: Batch) -> None:
    method = Multitask(MultitaskOptions(projection=16, paraphrase_hinge=0.2), encoder).eval()
    views = method.views(tasks)
    assert [view.tokens for view in views] == [
        text for feed in tasks.feeds.values() for text in feed.texts
    ]
    encoded = encode_views(encoder, views)
    terms = method.loss(encoded, tasks)
    sentence, p1, p2, s1, s2 = encoded

    def target(name: str) -> list[float]:
        values = tasks.feeds[name].targets
        assert values is not None
        return values.tolist()

    linear = method.sentiment[1]
    logits = sentence.double() @ linear.weight.double().T + linear.bias.double()
    close(
        terms["sentiment"],
        5 * reference.cross_entropy(logits, [int(y) for y in target("sentiment")]),
    )
    signs = [1 if y else -1 for y in target("paraphrase")]
    projected = double([method.paraphrase(p1), method.paraphrase(p2)])
    close(terms["paraphrase"], 20 * reference.paraphrase(*projected, signs, 0.2))
    projected = double([method.similarity(s1), method.similarity(s2)])
    close(terms["similarity"], reference.similarity(*projected, target("similarity"), 0.0))


def test_multitask_trains_everything_and_drops_out_what_the_paper_says(
    encoder: Encoder, tasks: Batch
) -> None:
    options = MultitaskOptions(projection=16, paraphrase_hinge=-1)
    method = Multitask(options, encoder)
    encoded = encode_views(encoder, method.views(tasks))
    first, second = method.loss(encoded, tasks), method.loss(encoded, tasks)
    assert first["sentiment"] != second["sentiment"]
    assert first["paraphrase"] == second["paraphrase"]
    assert first["similarity"] != second["similarity"]
    torch.stack(list(first.values())).sum().backward()
    unused = [
        name
        for name, parameter in [*encoder.named_parameters(), *method.named_parameters()]
        if parameter.grad is None
    ]
    assert unused == []


def test_multitask_predicts_a_class_a_paraphrase_and_a_score(encoder: Encoder) -> None:
    options = MultitaskOptions(projection=2)
    method = Multitask(options, encoder).eval()
    for layer in (method.paraphrase, method.similarity[1]):
        torch.nn.init.zeros_(layer.bias)
        torch.nn.init.zeros_(layer.weight)
        layer.weight.data[:, :2] = torch.eye(2)
    first = torch.zeros(4, 32)
    first[:, 0] = 1
    second = torch.zeros(4, 32)
    second[:, :2] = torch.tensor(
        [[0.86, np.sqrt(1 - 0.86**2)], [0.84, np.sqrt(1 - 0.84**2)], [-1, 0], [1, 0]]
    )
    assert method.predict("paraphrase", [first, second]).tolist() == [
        1,
        0,
        0,
        1,
    ]  # at (1 + 0.7) / 2
    method.options = MultitaskOptions(paraphrase_hinge=-1)
    assert method.predict("paraphrase", [first[:1], first[:1].roll(1, 1)]).tolist() == [
        1
    ]  # halfway is a paraphrase
    assert method.predict("similarity", [first, second]).tolist() == pytest.approx(
        [4.3, 4.2, 0.0, 5.0]
    )
    method.sentiment[1].bias.data = torch.tensor([0.0, 0, 0, 99, 0])
    assert method.predict("sentiment", [first]).tolist() == [3] * 4
    metrics = {"sentiment": "accuracy", "paraphrase": "accuracy", "similarity": "pearson"}
    assert [feed.metrics for feed in method.scored("dev").values()] == [
        {name: metrics[name]} for name in metrics
    ]


def joint(encoder: Encoder, first: Sequence[str], second: Sequence[str]) -> Packed:
    ids, firsts = encoder.tokenize_pairs(first, second)
    types = [int(i >= n) for tokens, n in zip(ids, firsts, strict=True) for i in range(len(tokens))]
    flat = torch.tensor([token for tokens in ids for token in tokens])
    return shortest_first(flat, torch.tensor([len(tokens) for tokens in ids]), torch.tensor(types))


def test_a_pair_is_one_sequence_as_transformers_pads_it(
    encoder: Encoder, tiny_model: Path, sentences: list[str]
) -> None:
    method = FinetunePair(FinetunePairOptions(), encoder).eval()
    first, second = [s[:40] for s in sentences[:7]], [s[:40] for s in sentences[7:14]]
    tokens = joint(encoder, first, second)
    batch = Batch((tokens,), torch.tensor([0, 1, 1, 0, 1, 0, 0]))
    encoded = encode_views(encoder, method.views(batch))
    loss = method.loss(encoded, batch)["cross_entropy"]
    loss.backward()

    model = BertModel.from_pretrained(tiny_model, add_pooling_layer=False).eval()
    padded = encoder.tokenizer(
        first, second, padding=True, return_token_type_ids=True, return_tensors="pt"
    )
    assert padded["token_type_ids"].sum() > 7 * 2
    states = model(**padded).last_hidden_state[:, 0]
    logits = states @ method.linear.weight.detach().T + method.linear.bias.detach()
    close(loss, reference.cross_entropy(logits.detach().double(), batch.targets.tolist()))  # type: ignore[union-attr]
    torch.nn.functional.cross_entropy(logits, batch.targets).backward()  # type: ignore[arg-type]
    assert (method.predict("accuracy", encoded) == logits.argmax(1)).all()
    types = "embeddings.token_type_embeddings.weight"
    for name, parameter in encoder.backbone.model.named_parameters():
        torch.testing.assert_close(
            parameter.grad, model.get_parameter(name).grad, rtol=1e-3, atol=1e-6, msg=name
        )
    assert encoder.backbone.model.get_parameter(types).grad.abs().sum(1).min() > 0  # type: ignore[union-attr]


def test_scores_are_predicted_where_there_are_no_classes(
    encoder: Encoder, sentences: list[str]
) -> None:
    method = FinetunePair(
        FinetunePairOptions(classes=(), metrics=("pearson", "spearman"), dev_data=("dev",)), encoder
    ).eval()
    assert method.rows is ScoredPair
    batch = Batch((joint(encoder, sentences[:3], sentences[3:6]),), torch.tensor([1.0, 4.0, 2.5]))
    encoded = encode_views(encoder, method.views(batch))
    scores = method.predict(ROWS, encoded)
    assert scores.shape == (3,)
    close(
        method.loss(encoded, batch)["squared_error"],
        ((scores - batch.targets) ** 2).mean().detach(),
    )  # type: ignore[operator]
    assert list(method.scored("dev")[ROWS].metrics) == ["pearson", "spearman"]


def test_a_sentence_is_classified_by_its_first_token(
    encoder: Encoder, columns: list[Packed]
) -> None:
    method = FinetuneSentence(
        FinetuneSentenceOptions(classes=("a", "b", "c"), dropout=0.5), encoder
    )
    batch = Batch((columns[0],), CLASSES)
    (view,) = method.views(batch)
    assert view.pooling == Pooling("cls", (-1,))
    assert not view.heads
    encoded = encode_views(encoder, [view])
    assert method.loss(encoded, batch) != method.loss(encoded, batch)
    method.eval()
    logits = encoded[0].double() @ method.linear.weight.double().T + method.linear.bias.double()
    close(
        method.loss(encoded, batch)["cross_entropy"],
        reference.cross_entropy(logits, CLASSES.tolist()),
    )


def test_with_heads_berts_own_pooler_stands_before_the_classifier(
    with_pooler: Path, sentences: list[str]
) -> None:
    encoder = Encoder.load(with_pooler, pooling="pooler")
    method = FinetuneSentence(FinetuneSentenceOptions(heads=True), encoder).eval()
    batch = Batch((pack(encoder.tokenize(sentences[:7])),), torch.tensor([0, 1, 1, 0, 1, 0, 0]))
    (vectors,) = encode_views(encoder, method.views(batch))
    padded = encoder.tokenizer(sentences[:7], padding=True, return_tensors="pt")
    close(vectors, BertModel.from_pretrained(with_pooler).eval()(**padded).pooler_output.detach())
    method.loss([vectors], batch)["cross_entropy"].backward()
    assert all(parameter.grad is not None for parameter in encoder.heads.parameters())


def test_rare_classes_weigh_as_scikit_learn_says(encoder: Encoder, columns: list[Packed]) -> None:
    """Of seven rows to train on, two have the first label, and one has the third."""
    labels = np.array(["a", "a", "b", "b", "b", "b", "c"])
    options = FinetuneSentenceOptions(classes=("a", "b", "c"), class_weights="balanced")
    method = FinetuneSentence(options, encoder).eval()
    list(method.prepare([LabelledSentence("text", label) for label in labels], None, print))
    vectors = torch.randn(7, encoder.backbone.dimension)
    batch = Batch((columns[0],), CLASSES)
    weights = compute_class_weight("balanced", classes=np.array(["a", "b", "c"]), y=labels)
    losses = cross_entropy(method.linear(vectors), CLASSES, reduction="none")
    of_rows = torch.from_numpy(weights)[CLASSES]
    expected = (of_rows * losses).sum() / of_rows.sum()
    close(method.loss([vectors], batch)["cross_entropy"], expected)
