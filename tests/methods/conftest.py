"""Small random translation models."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

from tests.conftest import WORDS


@pytest.fixture
def translators(tmp_path: Path) -> tuple[str, str]:
    """Two folders: the tiny vocabulary's words in, other ones of its words out, for each sentence others."""
    folders = [tmp_path / name for name in ("there", "back")]
    vocabulary = {word: i for i, word in enumerate(["<pad>", "</s>", "<unk>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    for seed, folder in enumerate(folders):
        torch.manual_seed(seed)
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            pad_token="<pad>",
            eos_token="</s>",
            unk_token="<unk>",
            model_max_length=32,
            model_input_names=["input_ids", "attention_mask"],
        ).save_pretrained(folder)
        config = MarianConfig(
            vocab_size=len(vocabulary),
            d_model=16,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=16,
            decoder_ffn_dim=16,
            max_position_embeddings=64,
            pad_token_id=0,
            eos_token_id=1,
            forced_eos_token_id=1,
            decoder_start_token_id=0,
            init_std=1.0,
        )
        model = MarianMTModel(config)
        model.generation_config.max_length = 10
        model.save_pretrained(folder)
    there, back = map(str, folders)
    return there, back
