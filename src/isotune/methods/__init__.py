"""The papers' methods, one file each.

Importing this package loads neither torch nor the option models: both are imported when they are
used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from isotune.registry import Registry

if TYPE_CHECKING:
    from isotune.methods.method import Method
    from isotune.methods.options import MethodOptions

# The option model of each method, and its class; what more people need comes first.
_OWN = {
    "consert": ("ConSERTOptions", "consert:ConSERT"),
    "simcse": ("SimCSEOptions", "simcse:SimCSE"),
    "pairs": ("PairsOptions", "pairs:Pairs"),
    "crops": ("CropsOptions", "pairs:Crops"),
    "simcse-sup": ("SimCSESupervisedOptions", "simcse:SimCSESupervised"),
    "consert-joint": ("ConSERTJointOptions", "consert:ConSERTJoint"),
    "nli": ("NLIOptions", "nli:NLI"),
    "classifier": ("ClassifierOptions", "classifier:LinearClassifier"),
    "supcon": ("SupConOptions", "supcon:SupCon"),
    "cosent": ("CoSENTOptions", "cosent:CoSENT"),
    "distil": ("DistilOptions", "distil:Distil"),
    "sif": ("SIFOptions", "sif:SIF"),
    "whitening": ("WhiteningOptions", "whitening:Whitening"),
    "linear-map": ("LinearMapOptions", "linear_map:LinearMap"),
    "pca": ("PCAOptions", "pca:PCA"),
    "mlm": ("MLMOptions", "mlm:MLM"),
    "mirror": ("MirrorOptions", "mirror:Mirror"),
    "self-guided": ("SelfGuidedOptions", "self_guided:SelfGuided"),
    "self-guided-bt": (
        "SelfGuidedBackTranslationOptions",
        "back_translation:SelfGuidedBackTranslation",
    ),
    "back-translation": ("BackTranslationOptions", "back_translation:BackTranslation"),
    "sncse": ("SNCSEOptions", "sncse:SNCSE"),
    "clsr": ("CLSROptions", "clsr:CLSR"),
    "flow": ("FlowOptions", "flow:BERTFlow"),
    "bert-cf": ("BERTCFOptions", "flow:BERTCF"),
    "multitask": ("MultitaskOptions", "multitask:Multitask"),
    "finetune-sentence": ("FinetuneSentenceOptions", "finetune:FinetuneSentence"),
    "finetune-pair": ("FinetunePairOptions", "finetune:FinetunePair"),
}

METHODS: Registry[type[Method]] = Registry(
    "method", {name: f"methods.{code}" for name, (_, code) in _OWN.items()}
)
"""The classes of the methods by name; each takes its options and the encoder that it trains."""

OPTIONS: Registry[type[MethodOptions]] = Registry(
    "method", {name: f"methods.options:{model}" for name, (model, _) in _OWN.items()}
)
"""The option models of the methods by name; they load no torch."""
