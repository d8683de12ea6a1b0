"""The packed forward pass against transformers' padded one, for every model type.

States, gradients and augmentations are compared.
"""

import logging
from typing import Any

import pytest
import torch
import transformers
from transformers import PreTrainedModel

from isotune.data.packed import Packed, pack
from isotune.encoder.backbone import Backbone, _warn_once
from isotune.encoder.kinds import KINDS, kind_of
from isotune.errors import InputError
from isotune.views.augmentation import Augmentation, FeatureCutoff, Shuffle
from tests.conftest import seeded

WORDS: dict[str, Any] = {"vocab_size": 50, "max_position_embeddings": 48}
SMALL = WORDS | {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
SPECIAL = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
}
GEMMA = SMALL | {
    "num_key_value_heads": 2,
    "head_dim": 16,
    "query_pre_attn_scalar": 16,
    "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
ARCHITECTURES: dict[str, tuple[type[PreTrainedModel], dict[str, Any]]] = {
    "bert": (transformers.BertModel, SMALL),
    "roberta": (transformers.RobertaModel, SMALL),
    "xlm-roberta": (transformers.XLMRobertaModel, SMALL),
    "camembert": (transformers.CamembertModel, SMALL),
    "distilbert": (
        transformers.DistilBertModel,
        {**WORDS, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48},
    ),
    "albert": (transformers.AlbertModel, {**SMALL, "embedding_size": 16}),
    "electra": (transformers.ElectraModel, {**SMALL, "embedding_size": 16}),
    "ernie": (transformers.ErnieModel, SMALL),
    "data2vec-text": (transformers.Data2VecTextModel, SMALL),
    "xlm-roberta-xl": (transformers.XLMRobertaXLModel, SMALL),
    "modernbert": (
        transformers.ModernBertModel,
        {**SMALL, **SPECIAL, "local_attention": 8, "global_attn_every_n_layers": 2},
    ),
    "mpnet": (transformers.MPNetModel, SMALL),
    "nomic_bert": (transformers.NomicBertModel, SMALL),
    "gte": (transformers.GteModel, SMALL),
    "jina_embeddings_v3": (transformers.JinaEmbeddingsV3Model, SMALL),
    "eurobert": (
        transformers.EuroBertModel,
        {**SMALL, **SPECIAL, "num_key_value_heads": 2, "mask_token_id": 4},
    ),
    "qwen3": (transformers.Qwen3Model, {**SMALL, "num_key_value_heads": 2, "head_dim": 16}),
    "qwen3, with a window": (
        transformers.Qwen3Model,
        {
            **SMALL,
            "num_key_value_heads": 2,
            "use_sliding_window": True,
            "sliding_window": 5,
            "max_window_layers": 1,
        },
    ),
    "qwen3, bidirectional": (
        transformers.Qwen3Model,
        {**SMALL, "num_key_value_heads": 2, "is_causal": False},
    ),
    "gemma3_text": (transformers.Gemma3TextModel, GEMMA),
    "gemma3_text, bidirectional": (
        transformers.Gemma3TextModel,
        {**GEMMA, "use_bidirectional_attention": True},
    ),
    "embedding_gemma2_text": (
        transformers.EmbeddingGemma2TextModel,
        {
            **GEMMA,
            "sliding_window": 3,
            "layer_types": ["sliding_attention", "full_attention", "full_attention"],
            "num_key_value_heads": 2,
            "global_head_dim": 32,
            "hidden_size_per_layer_input": 8,
            "embedding_dim": 24,
        },
    ),
    "rembert": (transformers.RemBertModel, {**SMALL, "input_embedding_size": 16}),
    "megatron-bert": (transformers.MegatronBertModel, SMALL),
    "deberta": (transformers.DebertaModel, SMALL),
    "deberta-v2": (
        transformers.DebertaV2Model,
        {
            **SMALL,
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": True,
        },
    ),
}

# The difference of gradients that rounding makes, as a share of the largest gradient. This model
# doesn't scale its logits: transformers' own gradients of texts alone and in a batch differ by
# 5e-6.
GRADIENT_NOISE = {"embedding_gemma2_text": 1e-5}
PACKED = [name for name, kind in KINDS.items() if kind.packed]


def make(name: str) -> PreTrainedModel:
    """A model with random weights, which are large enough for attention to matter."""
    torch.manual_seed(0)
    cls, options = ARCHITECTURES[name]
    model = cls(cls.config_class(**options))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def batch() -> tuple[Packed, torch.Tensor, torch.Tensor]:
    """Ten sentences of 3 to 20 tokens: packed, and padded with a mask."""
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(3, 21, (10,), generator=generator).tolist()
    sentences = [
        torch.randint(5, 50, (length,), generator=generator).tolist() for length in lengths
    ]
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.ones(
        mask.shape, dtype=torch.long
    )  # 1 is the padding of RoBERTa and its kin; the mask hides it
    ids[mask] = torch.tensor([token for sentence in sentences for token in sentence])
    return pack(sentences), ids, mask


def in_order(tokens: Packed, state: torch.Tensor) -> list[torch.Tensor]:
    """Splits packed states [T, d] into a tensor for each sentence, in the caller's order."""
    parts = state.split(tokens.lengths.tolist())
    return [parts[i] for i in tokens.order.argsort().tolist()]


def readable(backbone: Backbone) -> list[int]:
    """The layers whose states can be asked for."""
    if backbone.dimension != backbone.model.config.hidden_size:
        return [backbone.layers]
    return list(range(backbone.layers + 1))


def last(
    backbone: Backbone, tokens: Packed, augmentation: Augmentation | None = None
) -> torch.Tensor:
    """The last hidden state [T, d]."""
    (state,) = backbone(tokens, augmentation).values()
    return state


@pytest.mark.filterwarnings(
    "ignore:`torch.jit.script`:DeprecationWarning"
)  # inside transformers' DeBERTa
@pytest.mark.parametrize("name", ARCHITECTURES)
@torch.no_grad()
def test_no_block_above_the_highest_layer_is_run(name: str) -> None:
    tokens, _, _ = batch()
    backbone = Backbone(make(name)).eval()
    states = backbone(tokens, layers=readable(backbone))
    runs = []
    feed_forward = max(
        (module for module in backbone.modules() if isinstance(module, torch.nn.Linear)), key=width
    )
    for module in backbone.modules():
        if isinstance(module, torch.nn.Linear) and width(module) == width(feed_forward):
            module.register_forward_hook(lambda *_: runs.append(1))
    last(backbone, tokens)
    whole = len(runs)
    for highest in readable(backbone)[:-1]:
        runs.clear()
        for layers in ((highest,), (0, highest)):
            reached = backbone(tokens, layers=layers)
            assert reached.keys() == set(layers)
            assert all(torch.equal(state, states[layer]) for layer, state in reached.items())
        assert len(runs) == 2 * whole * highest // backbone.layers
    assert torch.equal(
        last(backbone, tokens), states[backbone.layers]
    )  # a pass that ended early leaves nothing behind


def width(linear: torch.nn.Linear) -> int:
    return linear.out_features


@pytest.mark.filterwarnings(
    "ignore:`torch.jit.script`:DeprecationWarning"
)  # inside transformers' DeBERTa
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_states_and_gradients_equal_the_padded_models(name: str) -> None:
    tokens, ids, mask = batch()
    reference, model = make(name), make(name)
    # The reference makes its own positions, so that isotune's are tested too.
    expected = reference(
        input_ids=ids, attention_mask=mask.long(), output_hidden_states=True
    ).hidden_states
    backbone = Backbone(model)
    states = backbone(tokens, layers=readable(backbone))

    assert backbone.padded != backbone.kind.packed
    assert len(expected) == backbone.layers + 1
    for layer, packed in states.items():
        torch.testing.assert_close(
            torch.cat(in_order(tokens, packed)),
            expected[layer][mask],
            atol=1e-5,
            rtol=1e-5,
            msg=lambda m, at=layer: f"layer {at}: {m}",
        )

    weight = torch.randn(expected[-1][mask].shape)
    (expected[-1][mask] * weight).sum().backward()
    (torch.cat(in_order(tokens, states[backbone.layers])) * weight).sum().backward()
    gradients = {
        key: (p.grad, q.grad)
        for (key, p), q in zip(reference.named_parameters(), model.parameters(), strict=True)
        if p.grad is not None
    }
    assert len(gradients) > 10
    # One scale for all: some gradients are 0 but for rounding, such as those of the keys' biases.
    largest = max(float(wanted.abs().max()) for wanted, _ in gradients.values())
    noise = GRADIENT_NOISE.get(name, 1e-6)
    for key, (wanted, actual) in gradients.items():
        torch.testing.assert_close(
            actual, wanted, atol=noise * largest, rtol=1e-4, msg=lambda m, at=key: f"{at}: {m}"
        )


@pytest.mark.parametrize("name", PACKED)
def test_bfloat16_is_close_and_dropout_draws_anew_in_every_pass(name: str) -> None:
    tokens, _, _ = batch()
    backbone = Backbone(make(name))
    exact = last(backbone, tokens)
    with torch.autocast("cpu", torch.bfloat16):
        state = last(backbone, tokens)
    assert torch.cosine_similarity(state.float(), exact).min() > 0.99
    backbone.train()
    with backbone.dropout(0.5):
        torch.manual_seed(0)
        first, second = last(backbone, tokens), last(backbone, tokens)
        torch.manual_seed(0)
        again = last(backbone, tokens)
    assert not torch.equal(first, second)
    assert torch.equal(first, again)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
@pytest.mark.parametrize("name", ["bert", "roberta", "modernbert", "mpnet"])
def test_augmentations_reach_packed_and_padded_models_alike(name: str) -> None:
    tokens, _, _ = batch()
    backbone = Backbone(make(name))
    packed = {}
    for padded in (False, True):
        if padded:
            backbone.pad()
        for augmentation in (Shuffle(), FeatureCutoff(0.5)):
            state = last(backbone, seeded(tokens), augmentation)
            before = packed.setdefault(augmentation, state)
            torch.testing.assert_close(state, before, atol=2e-5, rtol=1e-4)
    plain = last(backbone, tokens)
    for state in packed.values():
        assert (state - plain).abs().max() > 1e-2


@pytest.mark.parametrize("name", ["bert", "modernbert"])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_dropout_is_applied_for_a_block_only(name: str, rate: float) -> None:
    backbone = Backbone(make(name)).train()
    modules = [module for module in backbone.modules() if isinstance(module, torch.nn.Dropout)]
    modernbert = [layer.attn for layer in backbone.model.layers] if name == "modernbert" else []

    def rates() -> list[float]:
        return [
            *(module.p for module in modules),
            *(attention.attention_dropout for attention in modernbert),
        ]

    tokens, before = batch()[0], rates()
    with backbone.dropout(rate):
        assert torch.equal(last(backbone, tokens), last(backbone, tokens)) == (rate == 0.0)
        assert set(rates()) == {rate}
    assert rates() == before


@pytest.mark.parametrize("name", PACKED)
def test_attention_weights_may_have_another_dropout_rate(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = batch()[0]
    backbone = Backbone(make(name)).train()
    with backbone.dropout(0.0, of_attention=0.5):
        assert not torch.equal(last(backbone, tokens), last(backbone, tokens))
    with backbone.dropout(0.0):
        assert torch.equal(
            last(backbone, tokens), last(backbone, tokens)
        )  # the rate was that of the block above
    monkeypatch.delattr(
        "isotune.kernels.cpu.attention._dropout_factors"
    )  # what drops attention weights
    # Decoders and EuroBERT have no other layers that drop.
    others = any(isinstance(module, torch.nn.Dropout) for module in backbone.modules())
    with backbone.dropout(0.5, of_attention=0.0):
        assert torch.equal(last(backbone, tokens), last(backbone, tokens)) != others


def test_every_known_type_is_tested_here() -> None:
    assert {cls.config_class.model_type for cls, _ in ARCHITECTURES.values()} == {*KINDS}


def test_a_layer_of_other_features_than_the_last_is_refused() -> None:
    backbone = Backbone(make("embedding_gemma2_text"))
    with pytest.raises(InputError, match=r"layers \[0, 3\]: .* 24 features .* last layer and 32"):
        backbone(batch()[0], layers=[0, 3])


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        (
            "gemma3_text",
            {"is_causal": False},
            "is_causal false, with a sliding window: .* not supported",
        ),
        (
            "qwen3",
            {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}},
            "rope_parameters dynamic: the positions change with the longest text of a batch",
        ),
        ("modernbert", {"rope_scaling": {"type": "longrope"}}, "rope_scaling longrope: .* change"),
        ("gte", {"rope_scaling": "yarn"}, "rope_scaling 'yarn': it has to be a table"),
        ("qwen3", {"is_causal": 0}, "is_causal 0: it has to be true or false"),
    ],
)
def test_a_setting_that_is_not_tested_here_is_refused(
    name: str, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        kind_of({"model_type": name, **config})


# The proportions of the smallest public model of a type, where the configuration has others.
PROPORTIONS: dict[str, dict[str, Any]] = {
    "eurobert": {"bos_token_id": 1, "eos_token_id": 2, "mask_token_id": 4},
    "gemma3_text": {
        "hidden_size": 768,
        "intermediate_size": 1152,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
    },
    "modernbert": SPECIAL | {"intermediate_size": 1152},
    "qwen3": {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
    },
}
KEEPING = ["bert", *(name for name in KINDS if KINDS[name].positions == "rotary")]


@pytest.mark.parametrize("name", KEEPING)
def test_a_block_keeps_what_its_kind_says(name: str) -> None:
    cls, _ = ARCHITECTURES[name]
    options = {"vocab_size": 50, "num_hidden_layers": 2, "pad_token_id": 0}
    config = cls.config_class(**(options | PROPORTIONS.get(name, {})))
    backbone = Backbone(cls(config)).train()
    weights = {weight.untyped_storage().data_ptr() for weight in backbone.parameters()}
    kept = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            # The tensor is kept too, so that no other gets its address.
            kept[storage.data_ptr()] = storage.nbytes(), tensor
        return tensor

    tokens, _, _ = batch()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x), backbone.dropout(0.1):
        state = last(backbone, tokens)
    assert state.requires_grad
    of_block = sum(size for size, _ in kept.values()) / 2
    numbers = of_block / 4 / len(tokens.ids) / config.hidden_size
    assert numbers < backbone.kind.kept < 1.5 * numbers


def test_a_padded_model_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    models = [make("rembert") for _ in range(2)]
    caplog.clear()  # of what transformers says of the first such model of a process
    with caplog.at_level(logging.WARNING):
        _warn_once.cache_clear()
        for model in models:
            Backbone(model)
    (message,) = caplog.messages
    assert "rembert" in message


@pytest.mark.parametrize(("name", "tokens"), [("bert", 48), ("roberta", 46), ("mpnet", 46)])
def test_max_tokens_is_the_longest_sentence_with_positions(name: str, tokens: int) -> None:
    backbone = Backbone(make(name))
    assert backbone.max_tokens == tokens
    backbone(pack([[5] * tokens]))
    with pytest.raises((IndexError, RuntimeError)):
        backbone(pack([[5] * (tokens + 1)]))


def test_a_padded_model_keeps_its_rate_of_attention_weights() -> None:
    backbone = Backbone(make("rembert"))
    backbone.check_attention_dropout(None)
    backbone.check_attention_dropout(0.0)  # of a run on a GPU
    with pytest.raises(
        InputError, match=r"attention_dropout 0\.1: models of type rembert keep their own attention"
    ):
        backbone.check_attention_dropout(0.1)
