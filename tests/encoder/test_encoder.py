"""The encoder: encoding, saving and loading, and the same vectors in sentence-transformers."""

import json
import pickle
import re
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from isotune.data.packed import pack
from isotune.encoder.encoder import INSTEAD, Encoder
from isotune.encoder.heads import Dense, Normalize
from isotune.encoder.pooling import Pooling, TokenStates
from isotune.errors import InputError
from tests.conftest import reopened

OPTIONS: list[dict[str, Any]] = [
    {},
    {"pooling": "cls"},
    {"pooling": "max", "layers": (1, -1)},
    {"pooling": "weightedmean", "layers": (0, -1), "prompt": "the big dog "},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_saved_encoder_gives_the_same_vectors_here_and_in_sentence_transformers(
    options: dict[str, Any], tiny_model: Path, sentences: list[str], tmp_path: Path
) -> None:
    reopened(Encoder.load(tiny_model, **options), tmp_path / "saved", sentences)


def test_heads_and_max_length_are_kept(
    encoder: Encoder, sentences: list[str], tmp_path: Path
) -> None:
    heads = [Dense(32, 16), Dense(16, 8, bias=False, activation="Identity"), Normalize()]
    encoder = Encoder(
        encoder.backbone, encoder.pooling, heads, encoder.tokenizer, max_length=6
    ).eval()
    loaded = reopened(encoder, tmp_path / "saved", sentences)
    assert (loaded.dimension, loaded.max_length) == (8, 6)


@torch.no_grad()
def test_pool_gives_the_vectors_that_the_heads_get(encoder: Encoder, sentences: list[str]) -> None:
    tokens = pack(encoder.tokenize(sentences))
    states = encoder.backbone(tokens, layers=range(4))
    mean = Pooling("mean", (1,))
    assert torch.equal(encoder.pool(tokens, pooling=mean), tokens.restore(mean(states, tokens)))
    both = encoder.pool(tokens, pooling=Pooling("mean", (1, 3), each=True))  # [N, 2, d]
    assert torch.equal(both[:, 0], encoder.pool(tokens, pooling=mean))
    assert torch.equal(both[:, 1], encoder.pool(tokens))
    places = torch.tensor([40, 2, 300])
    assert torch.equal(encoder.pool(tokens, pooling=TokenStates(places)), states[3][places])


def test_other_settings_of_a_folder_are_kept(
    tiny_model: Path, sentences: list[str], tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    Encoder.load(tiny_model).save(first)
    (first / "SHA256SUMS").unlink()
    (first / "sentence_bert_config.json").unlink()
    (first / "sentence_roberta_config.json").write_text(
        '{"max_seq_length": 7, "do_lower_case": true}'
    )
    settings = {"prompts": {"query": "a dog ", "passage": "a cat "}, "default_prompt_name": "query"}
    (first / "config_sentence_transformers.json").write_text(
        json.dumps({**settings, "similarity_fn_name": "dot"})
    )
    encoder = Encoder.load(first)
    assert (encoder.max_length, encoder.lowercase, encoder.prompt) == (7, True, "a dog ")
    encoder.save(second)
    kept = json.loads((second / "config_sentence_transformers.json").read_text())
    assert {**kept, **settings, "similarity_fn_name": "dot"} == kept
    upper = [sentence.upper() for sentence in sentences]
    for folder in (first, second):
        st_vectors = SentenceTransformer(str(folder)).encode(upper)
        np.testing.assert_allclose(st_vectors, encoder.encode(upper), atol=1e-5)


@pytest.fixture
def with_roles(tiny_model: Path, tmp_path: Path) -> Path:
    """An encoder with a prompt for queries and one for documents."""
    folder = tmp_path / "roles"
    Encoder.load(tiny_model).save(folder)
    (folder / "SHA256SUMS").unlink()
    settings = {"prompts": {"query": "a dog ", "document": "a cat "}, "default_prompt_name": None}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return folder


def test_queries_and_documents_have_prompts(
    with_roles: Path, sentences: list[str], tmp_path: Path
) -> None:
    encoder, st = Encoder.load(with_roles), SentenceTransformer(str(with_roles))
    queries, documents = encoder.encode_query(sentences), encoder.encode_document(sentences)
    np.testing.assert_allclose(queries, st.encode_query(sentences), atol=1e-5)
    np.testing.assert_allclose(documents, st.encode_document(sentences), atol=1e-5)
    np.testing.assert_allclose(encoder.encode(sentences), st.encode(sentences), atol=1e-5)
    assert np.abs(queries - documents).max() > 0.01
    np.testing.assert_allclose(
        encoder.similarity(queries, documents), st.similarity(queries, documents), atol=1e-5
    )
    encoder.save(tmp_path / "again")
    assert (
        Encoder.load(tmp_path / "again").roles
        == encoder.roles
        == {"query": "a dog ", "document": "a cat "}
    )


def test_the_prompts_of_roles_decide_the_fingerprint_and_give_way(
    with_roles: Path, tiny_model: Path
) -> None:
    """A prompt that is given is that of all texts; a prompt named passage is that of documents."""
    encoder, given = Encoder.load(with_roles), Encoder.load(with_roles, prompt="a man ")
    assert encoder.fingerprint() != Encoder.load(tiny_model).fingerprint()
    assert given.roles == {}
    np.testing.assert_array_equal(given.encode_query("a dog"), given.encode("a dog"))
    encoder.settings = {"prompts": {"passage": "a cat ", "query": None}}
    assert encoder.roles == {"query": "", "document": "a cat "}


def test_heads_have_to_fit_and_no_folder_is_overwritten(encoder: Encoder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a Dense head takes 16 features and gets 32"):
        Encoder(encoder.backbone, encoder.pooling, [Dense(16, 8)], encoder.tokenizer, 32)
    for activation in (
        "",
        "ReLU",
        "acme.nn.Tanh",
        "torch.nn.Linear",
    ):  # which sentence-transformers reads as others
        with pytest.raises(InputError, match="only the activations of torch"):
            Dense.from_config(
                {"in_features": 1, "out_features": 1, "activation_function": activation}
            )
    with pytest.raises(InputError, match="exists already"):
        encoder.save(tmp_path)


def test_encode_keeps_order_shape_and_mode(tiny_model: Path, sentences: list[str]) -> None:
    encoder = Encoder.load(tiny_model).train()
    vectors = encoder.encode(sentences)
    assert encoder.training
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors[7], encoder.encode(sentences[7]), atol=1e-5)
    assert np.array_equal(encoder.encode(iter(sentences)), vectors)
    assert encoder.encode([]).shape == (0, 32)
    assert encoder.encode("").shape == (32,)
    np.testing.assert_allclose(
        np.linalg.norm(encoder.encode(sentences, normalize=True), axis=1), 1, atol=1e-6
    )


class Frame(dict[str, list[str]]):
    columns = ("text",)


@pytest.mark.parametrize(
    "wrong", [None, 5, True, b"a dog", Path("a.txt"), {"text": ["a dog"]}, Frame(), [b"a"], [5]]
)
def test_what_is_no_sentence_is_refused(wrong: Any, encoder: Encoder) -> None:
    for encode in (encoder.encode, lambda x: list(encoder.encode_parts(x))):
        with pytest.raises(
            InputError, match=r"sentences are a|sentence 0 is|name the column or key"
        ):
            encode(wrong)


def test_an_argument_of_sentence_transformers_is_answered_with_its_counterpart(
    encoder: Encoder,
) -> None:
    theirs = signature(SentenceTransformer.encode).parameters.keys()
    assert INSTEAD.keys() < theirs
    for name, instead in {**INSTEAD, "misspelt": "it takes normalize and show_progress"}.items():
        with pytest.raises(InputError, match=rf"^encode takes no {name}: {re.escape(instead)}$"):
            encoder.encode("a dog", **{name: 1})


@pytest.mark.parametrize("given", ["my-encoder", Path("my-encoder")])
def test_the_constructor_says_how_a_folder_is_read(given: Any) -> None:
    message = (
        "Encoder('my-encoder'): the constructor takes the parts of an encoder; "
        "write Encoder.load('my-encoder')"
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        Encoder(given)
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        Encoder(model=given)  # type: ignore[call-arg]


def test_the_similarity_of_sentences_says_what_to_write(encoder: Encoder) -> None:
    vectors = encoder.encode(["a dog", "a cat"])
    for first, second in (
        (["a"], ["b"]),
        ("a", "b"),
        (vectors, ["a"]),
        ([[1.0], [1.0, 2.0]], vectors),
    ):
        with pytest.raises(InputError, match="similarity compares arrays of vectors"):
            encoder.similarity(first, second)
    with pytest.raises(InputError, match=r"write encoder\.similarity"):
        encoder.similarity(["a"], ["b"])
    with pytest.raises(InputError, match="vectors with 32 and with 3 features"):
        encoder.similarity(vectors, vectors[:, :3])
    lists = encoder.similarity(vectors.tolist(), [[1] * 32])
    np.testing.assert_allclose(lists, encoder.similarity(vectors, np.ones(32)), atol=1e-6)


def test_numpys_strings_are_sentences(encoder: Encoder) -> None:
    text = ["a dog", "a cat"]
    for given in np.array(text), np.array(text, object), tuple(text), dict.fromkeys(text).keys():
        assert np.array_equal(encoder.encode(given), encoder.encode(text))
    assert encoder.encode(np.str_("a dog")).shape == (32,)


@pytest.mark.parametrize(
    "options",
    [
        *(
            {"precision": "float16"},
            {"device": "gpu"},
            {"device": "cuda:99"},
            {"device": 5.5},
            {"pooling": "meann"},
        ),
        *(
            {"pooling": "pooler", "layers": []},
            {"layers": 5},
            {"layers": ["x"]},
            {"layers": [9]},
            {"prompt": 5},
        ),
        *({"model": None}, {"model": 5}),
    ],
    ids=str,
)
def test_an_option_that_cannot_be_is_refused_at_once(
    options: dict[str, Any], tiny_model: Path
) -> None:
    with pytest.raises(InputError):
        Encoder.load(**{"model": tiny_model, **options})


def test_bfloat16_is_the_type_of_the_weights(tiny_model: Path, sentences: list[str]) -> None:
    encoder = Encoder.load(tiny_model, precision="bfloat16")
    assert {parameter.dtype for parameter in encoder.backbone.parameters()} == {torch.bfloat16}
    exact = Encoder.load(tiny_model).encode(sentences, normalize=True)
    assert (exact * encoder.encode(sentences, normalize=True)).sum(1).min() > 0.999


def test_an_encoder_is_a_step_of_a_scikit_learn_pipeline(
    tiny_model: Path, sentences: list[str]
) -> None:
    labels = ["dog" if "dog" in sentence else "none" for sentence in sentences]
    pipeline = make_pipeline(
        FunctionTransformer(Encoder.load(tiny_model).encode), LogisticRegression(max_iter=1000)
    )
    search = GridSearchCV(pipeline, {"logisticregression__C": [1, 1000]}, cv=2, error_score="raise")
    search.fit(np.array(sentences), labels)
    assert list(pickle.loads(pickle.dumps(search)).predict(sentences)) == list(
        search.predict(sentences)
    )


@pytest.mark.parametrize("name", ["bert-tiny", "all-minilm"])
def test_a_published_folder_and_one_of_sentence_transformers(
    name: str, real_models: Path, tmp_path: Path
) -> None:
    if not (real_models / name).exists():
        pytest.skip(f"{name} is not among the models")
    theirs = SentenceTransformer(str(real_models / name))
    text = [
        "A plane is taking off.",
        "An air plane is taking off, and a very long clause follows it.",
        "No.",
    ]
    np.testing.assert_allclose(
        Encoder.load(real_models / name).encode(text), theirs.encode(text), atol=1e-5
    )
    theirs.max_seq_length = 8
    theirs.save(str(tmp_path / "st"))
    loaded = Encoder.load(tmp_path / "st")
    assert loaded.max_length == 8
    np.testing.assert_allclose(loaded.encode(text), theirs.encode(text), atol=1e-5)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize(
    "text",
    [
        "a dog runs " * 500,
        "a dog runs " * 500 + "a man",
        "a" + " " * 5000 + "dog runs " * 10,
        "a dog " + "x" * 5000 + " runs a dog runs",
        " " * 5000 + "a dog",
        "a dog",
    ],
)
def test_a_long_text_has_the_tokens_of_its_whole(tiny_model: Path, text: str, side: str) -> None:
    encoder = Encoder.load(tiny_model)
    encoder.tokenizer.truncation_side = side
    (whole,) = encoder.prompts.prepared("", 8).encode([text])
    assert encoder.tokenize([text, "a"], 8)[0] == whole.ids
