"""The papers' methods, one file each. Importing this package loads no torch; making a method does."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from isotune.errors import unknown
from isotune.methods.options.back_translation import BackTranslationOptions, SelfGuidedBackTranslationOptions
from isotune.methods.options.base import MethodOptions
from isotune.methods.options.clsr import CLSROptions
from isotune.methods.options.consert import ConSERTJointOptions, ConSERTOptions
from isotune.methods.options.finetune import FinetunePairOptions, FinetuneSentenceOptions
from isotune.methods.options.flow import BERTCFOptions, FlowOptions
from isotune.methods.options.mirror import MirrorOptions
from isotune.methods.options.mlm import MLMOptions
from isotune.methods.options.multitask import MultitaskOptions
from isotune.methods.options.nli import NLIOptions
from isotune.methods.options.self_guided import SelfGuidedOptions
from isotune.methods.options.simcse import SimCSEOptions, SimCSESupervisedOptions
from isotune.methods.options.sncse import SNCSEOptions
from isotune.methods.options.whitening import WhiteningOptions

if TYPE_CHECKING:
    from isotune.methods.method import Method


class MethodEntry(NamedTuple):
    """A method's options, and its class as "module:class", which is only imported when it is made."""

    options: type[MethodOptions]
    location: str


METHODS = {
    "back-translation": MethodEntry(BackTranslationOptions, "isotune.methods.back_translation:BackTranslation"),
    "bert-cf": MethodEntry(BERTCFOptions, "isotune.methods.flow:BERTCF"),
    "clsr": MethodEntry(CLSROptions, "isotune.methods.clsr:CLSR"),
    "consert": MethodEntry(ConSERTOptions, "isotune.methods.consert:ConSERT"),
    "consert-joint": MethodEntry(ConSERTJointOptions, "isotune.methods.consert_joint:ConSERTJoint"),
    "finetune-pair": MethodEntry(FinetunePairOptions, "isotune.methods.finetune:FinetunePair"),
    "finetune-sentence": MethodEntry(FinetuneSentenceOptions, "isotune.methods.finetune:FinetuneSentence"),
    "flow": MethodEntry(FlowOptions, "isotune.methods.flow:Flow"),
    "mirror": MethodEntry(MirrorOptions, "isotune.methods.mirror:Mirror"),
    "mlm": MethodEntry(MLMOptions, "isotune.methods.mlm:MLM"),
    "multitask": MethodEntry(MultitaskOptions, "isotune.methods.multitask:Multitask"),
    "nli": MethodEntry(NLIOptions, "isotune.methods.nli:NLI"),
    "self-guided": MethodEntry(SelfGuidedOptions, "isotune.methods.self_guided:SelfGuided"),
    "self-guided-bt": MethodEntry(
        SelfGuidedBackTranslationOptions, "isotune.methods.back_translation:SelfGuidedBackTranslation"
    ),
    "simcse": MethodEntry(SimCSEOptions, "isotune.methods.simcse:SimCSE"),
    "simcse-sup": MethodEntry(SimCSESupervisedOptions, "isotune.methods.simcse:SimCSESupervised"),
    "sncse": MethodEntry(SNCSEOptions, "isotune.methods.sncse:SNCSE"),
    "whitening": MethodEntry(WhiteningOptions, "isotune.methods.whitening:Whitening"),
}


def method_class(name: str) -> type[Method]:
    """The class of a method; it takes its options and the encoder it trains.

    Raises:
        InputError: there is no method of that name.
    """
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    module, _, attribute = METHODS[name].location.partition(":")
    found: type[Method] = getattr(import_module(module), attribute)
    return found
