"""Small random translation models."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

from tests.conftest import WORDS

SIZES = {"layers": 1, "attention_heads": 2, "ffn_dim": 16}  # of the encoder and of the decoder


@pytest.fixture
def translators(tmp_path: Path) -> tuple[str, str]:
    """Two folders: the tiny vocabulary's words in, and other words of it out."""
    folders = [tmp_path / name for name in ("there", "back")]
    vocabulary = {word: i for i, word in enumerate(["<pad>", "</s>", "<unk>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    for seed, folder in enumerate(folders):
        torch.manual_seed(seed)
        special = {
            "pad_token": "<pad>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "model_max_length": 32,
        }
        inputs = ["input_ids", "attention_mask"]
        fast = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, model_input_names=inputs, **special
        )
        fast.save_pretrained(folder)
        sides = {f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in SIZES.items()}
        ids = {
            "pad_token_id": 0,
            "decoder_start_token_id": 0,
            "eos_token_id": 1,
            "forced_eos_token_id": 1,
        }
        sizes = {"vocab_size": len(vocabulary), "d_model": 16, "max_position_embeddings": 64}
        model = MarianMTModel(MarianConfig(**sizes, **sides, **ids, init_std=1.0))
        model.generation_config.max_length = 10
        model.save_pretrained(folder)
    there, back = map(str, folders)
    return there, back
