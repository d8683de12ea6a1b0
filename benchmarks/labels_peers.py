"""The labels that a peer predicts, for labels.py: JSON on standard input, JSON on standard output.

This file runs in the environment of the peers, and imports nothing of isotune.
"""

import json
import sys
import tempfile
import time
from typing import Any


def setfit(given: dict[str, Any]) -> list[str]:
    """SetFit with its defaults: pairs of equal and different labels, then a regression."""
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    names = sorted(set(given["labels"]))
    numbers = [names.index(label) for label in given["labels"]]
    data = Dataset.from_dict({"text": given["texts"], "label": numbers})
    model = SetFitModel.from_pretrained(given["model"])
    with tempfile.TemporaryDirectory() as folder:
        # num_iterations is the paper's R: so many pairs of each kind for a text.
        options = TrainingArguments(folder, num_iterations=20, seed=given["seed"], report_to="none")
        Trainer(model=model, args=options, train_dataset=data).train()
    return [names[int(number)] for number in model.predict(given["new"])]


def model2vec(given: dict[str, Any]) -> list[str]:
    """model2vec's classifier, which fine-tunes a static model of the encoder's tokens."""
    from model2vec.distill import distill
    from model2vec.train import StaticModelForClassification

    static = distill(model_name=given["model"])
    classifier = StaticModelForClassification.from_static_model(model=static)
    classifier.fit(given["texts"], given["labels"])
    return [str(label) for label in classifier.predict(given["new"])]


def main() -> None:
    """Answers for the peer that the first argument names."""
    given = json.load(sys.stdin)
    peer = {"setfit": setfit, "model2vec": model2vec}[sys.argv[1]]
    began = time.perf_counter()
    labels = peer(given)
    print(json.dumps({"labels": labels, "seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
