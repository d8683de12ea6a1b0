"""The papers' methods, one file each.

Importing this package loads neither torch nor the option models: a method's classes are imported when they are used.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, NamedTuple

from isotune.registry import Registry

if TYPE_CHECKING:
    from isotune.methods.method import Method
    from isotune.methods.options import MethodOptions


class MethodEntry(NamedTuple):
    """A method's option model and its class; isotune's own are each written as "module:class" in `isotune.methods`."""

    model: type[MethodOptions] | str
    code: type[Method] | str

    @property
    def options(self) -> type[MethodOptions]:
        """The option model; it is imported on first use and loads no torch."""
        model: type[MethodOptions] = _imported(self.model)
        return model


METHODS: Registry[MethodEntry] = Registry(
    "method",
    {
        "back-translation": MethodEntry("options:BackTranslationOptions", "back_translation:BackTranslation"),
        "bert-cf": MethodEntry("options:BERTCFOptions", "flow:BERTCF"),
        "clsr": MethodEntry("options:CLSROptions", "clsr:CLSR"),
        "consert": MethodEntry("options:ConSERTOptions", "consert:ConSERT"),
        "consert-joint": MethodEntry("options:ConSERTJointOptions", "consert:ConSERTJoint"),
        "cosent": MethodEntry("options:CoSENTOptions", "cosent:CoSENT"),
        "finetune-pair": MethodEntry("options:FinetunePairOptions", "finetune:FinetunePair"),
        "finetune-sentence": MethodEntry("options:FinetuneSentenceOptions", "finetune:FinetuneSentence"),
        "flow": MethodEntry("options:FlowOptions", "flow:BERTFlow"),
        "mirror": MethodEntry("options:MirrorOptions", "mirror:Mirror"),
        "mlm": MethodEntry("options:MLMOptions", "mlm:MLM"),
        "multitask": MethodEntry("options:MultitaskOptions", "multitask:Multitask"),
        "neighbours": MethodEntry("options:PairsOptions", "pairs:Neighbours"),
        "nli": MethodEntry("options:NLIOptions", "nli:NLI"),
        "pairs": MethodEntry("options:PairsOptions", "pairs:Pairs"),
        "self-guided": MethodEntry("options:SelfGuidedOptions", "self_guided:SelfGuided"),
        "self-guided-bt": MethodEntry(
            "options:SelfGuidedBackTranslationOptions", "back_translation:SelfGuidedBackTranslation"
        ),
        "sif": MethodEntry("options:SIFOptions", "sif:SIF"),
        "simcse": MethodEntry("options:SimCSEOptions", "simcse:SimCSE"),
        "simcse-sup": MethodEntry("options:SimCSESupervisedOptions", "simcse:SimCSESupervised"),
        "sncse": MethodEntry("options:SNCSEOptions", "sncse:SNCSE"),
        "whitening": MethodEntry("options:WhiteningOptions", "whitening:Whitening"),
    },
)
"""The methods by name."""


def method_class(name: str) -> type[Method]:
    """The class of a method; it takes its options and the encoder it trains."""
    code: type[Method] = _imported(METHODS[name].code)
    return code


def _imported(code: type | str) -> type:
    return resolve_name(f"{__name__}.{code}") if isinstance(code, str) else code
