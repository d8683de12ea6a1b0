"""The papers' methods, one file each.

Importing this package loads neither torch nor the option models: both are imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from isotune.registry import Registry

if TYPE_CHECKING:
    from isotune.methods.method import Method
    from isotune.methods.options import MethodOptions

# The option model of each method, and its class.
_OWN = {
    "back-translation": ("BackTranslationOptions", "back_translation:BackTranslation"),
    "bert-cf": ("BERTCFOptions", "flow:BERTCF"),
    "clsr": ("CLSROptions", "clsr:CLSR"),
    "consert": ("ConSERTOptions", "consert:ConSERT"),
    "consert-joint": ("ConSERTJointOptions", "consert:ConSERTJoint"),
    "cosent": ("CoSENTOptions", "cosent:CoSENT"),
    "crops": ("NeighboursOptions", "pairs:Crops"),
    "distil": ("DistilOptions", "distil:Distil"),
    "finetune-pair": ("FinetunePairOptions", "finetune:FinetunePair"),
    "finetune-sentence": ("FinetuneSentenceOptions", "finetune:FinetuneSentence"),
    "flow": ("FlowOptions", "flow:BERTFlow"),
    "mirror": ("MirrorOptions", "mirror:Mirror"),
    "mlm": ("MLMOptions", "mlm:MLM"),
    "multitask": ("MultitaskOptions", "multitask:Multitask"),
    "neighbours": ("NeighboursOptions", "pairs:Neighbours"),
    "nli": ("NLIOptions", "nli:NLI"),
    "pairs": ("PairsOptions", "pairs:Pairs"),
    "self-guided": ("SelfGuidedOptions", "self_guided:SelfGuided"),
    "self-guided-bt": ("SelfGuidedBackTranslationOptions", "back_translation:SelfGuidedBackTranslation"),
    "sif": ("SIFOptions", "sif:SIF"),
    "simcse": ("SimCSEOptions", "simcse:SimCSE"),
    "simcse-sup": ("SimCSESupervisedOptions", "simcse:SimCSESupervised"),
    "sncse": ("SNCSEOptions", "sncse:SNCSE"),
    "whitening": ("WhiteningOptions", "whitening:Whitening"),
}

METHODS: Registry[type[Method]] = Registry("method", {name: f"methods.{code}" for name, (_, code) in _OWN.items()})
"""The classes of the methods by name; each takes its options and the encoder that it trains."""

OPTIONS: Registry[type[MethodOptions]] = Registry(
    "method", {name: f"methods.options:{model}" for name, (model, _) in _OWN.items()}
)
"""The option models of the methods by name; they load no torch."""
