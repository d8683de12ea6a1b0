from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from isotune.data import LabelledSentence
from isotune.errors import InputError
from isotune.evaluation import GROUPS, classifiers, evaluation_of, load_tasks, transfer
from isotune.evaluation.classifiers import ClassifierResult, Logistic, Rows, SentEval
from isotune.evaluation.transfer import TransferTask
from tests.reference import senteval as reference


def labelled(count: int, features: int = 6, classes: int = 3, seed: int = 0) -> Rows:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (count,), generator=generator)
    x = torch.randn(count, features, generator=generator) + torch.nn.functional.one_hot(y, features)
    return x.double(), y.numpy()


@pytest.mark.parametrize(("hidden", "seed"), [(0, 1111), (4, 7)])
def test_without_a_split_the_folds_are_sentevals_nested_ones(
    hidden: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classifiers, "FOLDS", 3)
    train = labelled(75)
    outcome = SentEval(hidden, seed)({"train": train})
    predictions, decays = reference.by_folds(
        train[0], torch.from_numpy(train[1]), 3, hidden, 3, seed
    )
    assert outcome.predictions.tolist() == predictions
    assert outcome.regularisation == tuple(decays)
    assert outcome.protocol == "weight decay chosen by 3 folds, tested by 3 folds around these"


def test_with_test_rows_the_folds_are_sentevals(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = 7
    monkeypatch.setattr(classifiers, "FOLDS", 3)
    train, test = labelled(75), labelled(20, seed=1)
    outcome = SentEval(seed=seed)({"train": train, "test": test})
    x, y = train[0], torch.from_numpy(train[1])
    decay = reference.best_by_folds(x, y, 3, 0, 3, seed, shuffled=seed)
    model, _ = reference.fit(x, y, decay, 3, 0, seed=seed)
    assert outcome.predictions.tolist() == model(test[0]).argmax(1).tolist()
    assert outcome.regularisation == (decay,)
    assert outcome.protocol == "weight decay chosen by 3 folds, tested on test"


def test_the_seed_is_that_of_sentevals_classifier_alone() -> None:
    task = TransferTask("toy", SentEval(hidden=50), {}).with_seed(3)
    assert task.classifier == SentEval(hidden=50, seed=3)
    assert task.classifier.title == "SentEval's classifier, 50 hidden units, seed 3"
    assert SentEval(hidden=50).title == "SentEval's classifier, 50 hidden units"
    fast = TransferTask("toy", Logistic(), {})
    assert fast.with_seed(3) is fast


def test_with_dev_rows_senteval_chooses_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"train": labelled(75), "dev": labelled(30, seed=1), "test": labelled(20, seed=2)}
    outcome = SentEval()(parts)
    x, y = parts["train"][0], torch.from_numpy(parts["train"][1])
    dev = parts["dev"][0], torch.from_numpy(parts["dev"][1])
    fits = [reference.fit(x, y, decay, 3, 0, dev) for decay in reference.DECAYS]
    decay = reference.chosen([accuracy for _, accuracy in fits])
    model, accuracy = fits[reference.DECAYS.index(decay)]
    assert outcome.predictions.tolist() == model(parts["test"][0]).argmax(1).tolist()
    assert outcome.regularisation == (decay,)
    assert outcome.dev_accuracy == pytest.approx(
        accuracy, abs=1e-4
    )  # in per cent with two decimals


def test_the_fast_default_is_a_logistic_regression_on_standardised_features() -> None:
    train, test = labelled(80), labelled(30, seed=1)
    outcome = Logistic(c=0.5)({"train": train, "dev": labelled(9), "test": test})
    x, held = train[0].numpy(), test[0].numpy()
    mean, deviation = x.mean(0), x.std(0)
    model = LogisticRegression(C=0.5, max_iter=1000).fit((x - mean) / deviation, train[1])
    assert outcome.predictions.tolist() == model.predict((held - mean) / deviation).tolist()
    assert (outcome.dev_accuracy, outcome.regularisation) == (None, (0.5,))


def test_no_row_is_tested_by_a_classifier_that_has_seen_it() -> None:
    noise = np.random.default_rng(0).integers(0, 2, 60)
    wide = torch.randn(60, 200), noise  # enough features to learn every row by heart
    seen = Logistic(c=100)({"train": wide, "test": wide}).predictions
    unseen = Logistic(c=100)({"train": wide}).predictions
    assert (seen == noise).mean() == 1
    assert (unseen == noise).mean() < 0.7


class Keeper:
    """A classifier that predicts class 1 for every row, and keeps the parts that it was given."""

    title = "constant"

    def __call__(self, parts: Mapping[str, Rows]) -> ClassifierResult:
        self.parts = parts
        last = list(parts.values())[-1]
        return ClassifierResult(np.ones(len(last[1]), np.int64), "none", None, (1.0,))


class Letters:
    """An encoder that counts the letters a and b, and keeps the sentences that it was given."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        self.asked += sentences
        return np.array(
            [[sentence.count("a"), sentence.count("b")] for sentence in sentences], np.float64
        )


TRAIN = ([("aaa", "b"), ("a", "b")], np.array([0, 1]))
TEST = ([("ab", "aab", "b"), ("b", "bb", "ab")], np.array([1, 0, 1]))


def test_the_features_of_a_pair() -> None:
    classifier = Keeper()
    TransferTask("toy", classifier, {"train": TRAIN, "test": TEST}).score(Letters())
    # They are |u - v| and u * v.
    assert classifier.parts["train"][0].tolist() == [[2, 0, 3, 0], [0, 0, 0, 1]]
    assert classifier.parts["test"][0].dtype == torch.float32


def test_each_distinct_sentence_of_all_splits_is_encoded_once() -> None:
    encoder = Letters()
    TransferTask("toy", Keeper(), {"train": TRAIN, "test": TEST}).score(encoder)
    assert sorted(encoder.asked) == ["a", "aaa", "aab", "ab", "b", "bb"]


def test_a_task_of_pairs_has_an_accuracy_and_f1_of_the_test_rows() -> None:
    task = TransferTask("toy", Keeper(), {"train": TRAIN, "test": TEST}, f1=True)
    result, _ = task.score(Letters())
    assert result.rows == 3
    assert result.accuracy == pytest.approx(2 / 3)
    assert result.f1 == pytest.approx(0.8)
    assert result.largest_class == pytest.approx(2 / 3)
    assert result.scores() == {"toy": result.accuracy, "toy-f1": result.f1}


def test_rows_are_in_sentevals_order(real_data: Path) -> None:
    (task,) = load_tasks(["senteval-cr"])
    (sentences,), targets = task.parts["train"]
    keys = [(len(text.split()), target) for text, target in zip(sentences, targets, strict=True)]
    assert keys == sorted(keys)
    assert sentences.count(".") == 4  # blank lines


def test_labels_that_train_lacks_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(source: str, *_: object) -> list[LabelledSentence]:
        label = "negative" if source.endswith("train") else "neutral"
        return [LabelledSentence("a text", label)]

    monkeypatch.setattr(transfer, "read", read)
    with pytest.raises(InputError, match=r"sst2:\w+: its labels are not in train: 'neutral'"):
        transfer.load_transfer("sst2", "sst2", classifier=Logistic())


def test_a_group_has_an_average_if_all_its_tasks_were_evaluated() -> None:
    def task(name: str, *targets: int) -> TransferTask:
        part = ([tuple("ab"[target] for target in targets)], np.array(targets))
        return TransferTask(name, Keeper(), {"train": part})

    first, *others = GROUPS["transfer"]
    tasks = [task(first, 1, 0), *(task(name, 1, 1) for name in others)]
    results = [each.score(Letters())[0] for each in tasks]
    evaluated = evaluation_of(results, "letters")
    assert evaluated.scores() == {
        first: 0.5,
        **dict.fromkeys(others, 1.0),
        "transfer": pytest.approx(6.5 / 7),
    }
    assert "transfer" not in evaluation_of(results[1:], "letters").scores()
