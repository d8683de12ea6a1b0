"""The masked-language-model head of a pretrained model.

It maps the states of tokens to scores of all words.

It is transformers' head for the model's type, built around the encoder's model. Where the type ties
the head's decoder to the word embeddings, they stay tied. The encoder's model and the head are
saved as one ordinary masked language model. Only weights that the encoder's model doesn't have are
registered here, so that a tied weight is trained and saved once.
"""

from pathlib import Path

from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, PreTrainedModel

from isotune.encoder.format.pretrained import load_weights
from isotune.encoder.kinds import KINDS
from isotune.errors import InputError


class LanguageHead(nn.Module):
    """States of tokens [M, d] -> scores of words [M, V]."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Makes the head for a base model, with weights from the folder of that model."""
        super().__init__()
        model_type = model.config.model_type
        if not KINDS[model_type].language_head:
            raise InputError(
                f"masked language modelling: models of type {model_type} have no head for it; "
                "choose another method or model"
            )
        whole, info = load_weights(AutoModelForMaskedLM, Path(str(model.name_or_path)), model.dtype)
        prefix = f"{whole.base_model_prefix}."
        lost = set(info["missing_keys"])
        lost.update(key for key, *_ in info["mismatched_keys"])
        # The names of the weights that the model's folder didn't have; they start at random.
        self.fresh = sorted(key for key in lost if not key.startswith(prefix))
        setattr(whole, whole.base_model_prefix, model)
        whole.config = model.config
        whole.tie_weights()
        # torch doesn't look into a tuple. The encoder's model is a part of the whole, and is
        # registered by the encoder.
        self._whole: tuple[PreTrainedModel] = (whole,)
        shared = {id(parameter) for parameter in model.parameters()}
        self.weights = nn.ParameterList(p for p in whole.parameters() if id(p) not in shared)

    @property
    def language_model(self) -> PreTrainedModel:
        """The encoder's model with this head, which transformers can save and load."""
        return self._whole[0]

    def forward(self, states: Tensor) -> Tensor:
        """[M, d] -> [M, V]."""
        for name in KINDS[self.language_model.config.model_type].language_head:
            states = self.language_model.get_submodule(name)(states)
        return states
