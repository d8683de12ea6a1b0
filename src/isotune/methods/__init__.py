"""The papers' methods, one file each.

Importing this package loads neither torch nor the option models: a method's classes are imported when they are used.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, NamedTuple

from isotune.errors import unknown

if TYPE_CHECKING:
    from isotune.methods.method import Method
    from isotune.methods.options.base import MethodOptions


class MethodEntry(NamedTuple):
    """Where a method's option model and its class are, each as "module:class" inside `isotune.methods`."""

    options_path: str
    class_path: str

    @property
    def options(self) -> type[MethodOptions]:
        """The option model; it is imported on first use and loads no torch."""
        options: type[MethodOptions] = resolve_name(f"{__name__}.{self.options_path}")
        return options


METHODS = {
    "back-translation": MethodEntry("options.unlabelled:BackTranslationOptions", "back_translation:BackTranslation"),
    "bert-cf": MethodEntry("options.frozen:BERTCFOptions", "flow:BERTCF"),
    "clsr": MethodEntry("options.labelled:CLSROptions", "clsr:CLSR"),
    "consert": MethodEntry("options.unlabelled:ConSERTOptions", "consert:ConSERT"),
    "consert-joint": MethodEntry("options.labelled:ConSERTJointOptions", "consert:ConSERTJoint"),
    "finetune-pair": MethodEntry("options.labelled:FinetunePairOptions", "finetune:FinetunePair"),
    "finetune-sentence": MethodEntry("options.labelled:FinetuneSentenceOptions", "finetune:FinetuneSentence"),
    "flow": MethodEntry("options.frozen:FlowOptions", "flow:BERTFlow"),
    "mirror": MethodEntry("options.unlabelled:MirrorOptions", "mirror:Mirror"),
    "mlm": MethodEntry("options.unlabelled:MLMOptions", "mlm:MLM"),
    "multitask": MethodEntry("options.labelled:MultitaskOptions", "multitask:Multitask"),
    "nli": MethodEntry("options.labelled:NLIOptions", "nli:NLI"),
    "self-guided": MethodEntry("options.unlabelled:SelfGuidedOptions", "self_guided:SelfGuided"),
    "self-guided-bt": MethodEntry(
        "options.unlabelled:SelfGuidedBackTranslationOptions", "back_translation:SelfGuidedBackTranslation"
    ),
    "sif": MethodEntry("options.frozen:SIFOptions", "sif:SIF"),
    "simcse": MethodEntry("options.unlabelled:SimCSEOptions", "simcse:SimCSE"),
    "simcse-sup": MethodEntry("options.labelled:SimCSESupervisedOptions", "simcse:SimCSESupervised"),
    "sncse": MethodEntry("options.unlabelled:SNCSEOptions", "sncse:SNCSE"),
    "whitening": MethodEntry("options.frozen:WhiteningOptions", "whitening:Whitening"),
}


def method_class(name: str) -> type[Method]:
    """The class of a method; it takes its options and the encoder it trains.

    Raises:
        InputError: there is no method of that name.
    """
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    method: type[Method] = resolve_name(f"{__name__}.{METHODS[name].class_path}")
    return method
