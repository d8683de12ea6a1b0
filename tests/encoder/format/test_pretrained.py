"""Names and folders of models.

An unusable folder gives an error of one clear line; nothing is newly initialised.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from isotune.bundled import MODEL_FOLDER, local_model
from isotune.encoder.calibration import Calibration
from isotune.encoder.encoder import Encoder
from isotune.encoder.format.pretrained import load_errors, local_folder
from isotune.encoder.heads import Dense
from isotune.encoder.language import LanguageHead
from isotune.errors import InputError
from isotune.recipes import recipe_of_model
from tests.conftest import reopened


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy of the model, which a test may damage."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def weights(change: Callable[[dict[str, torch.Tensor]], None]) -> Callable[[Path], None]:
    """Changes the tensors of a folder."""

    def apply(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})

    return apply


def pickled(
    change: Callable[[dict[str, Any]], object] = lambda tensors: None,
    zipped: bool = True,
    delete: bool = True,
) -> Callable[[Path], None]:
    """Puts the tensors into pytorch_model.bin, in place of model.safetensors."""

    def apply(folder: Path) -> None:
        tensors: dict[str, Any] = load_file(folder / "model.safetensors")
        change(tensors)
        torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
        if delete:
            (folder / "model.safetensors").unlink()

    return apply


class Code:
    """Makes a folder when it is read from a pickle."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("it-ran",)


def configured(**changes: object) -> Callable[[Path], object]:
    """Changes settings of a folder."""

    def apply(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **changes}))

    return apply


def without(*names: str) -> Callable[[Path], object]:
    """Removes files of a folder."""
    return lambda folder: [(folder / name).unlink() for name in names]


def with_text(name: str, text: str) -> Callable[[Path], object]:
    """Puts a file into a folder."""
    return lambda folder: (folder / name).write_text(text)


def instead(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    """Removes a file, and makes something else of its name."""
    return lambda folder: [(folder / name).unlink(), make(folder / name)]


def zip_bomb(path: Path) -> None:
    with ZipFile(path, "w", ZIP_DEFLATED) as parts:
        parts.writestr("archive/data.pkl", bytes(10**7))


KEY = "encoder.layer.1.output.dense.weight"
CODE, NAN = Code(), float("nan")
EVIL = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no weights": (
        without("model.safetensors"),
        "no file named model.safetensors, or pytorch_model.bin",
    ),
    "code": (pickled(lambda t: t.update(x=CODE)), "restricted reader refuses .* posix.mkdir"),
    "old code": (
        pickled(lambda t: t.update(x=CODE), zipped=False),
        "restricted reader refuses .* posix.mkdir",
    ),
    "a pickle of nothing": (
        lambda m: [pickled()(m), (m / "pytorch_model.bin").write_bytes(b"")],
        "loaded: EOFError",
    ),
    "another shape in a pickle": (
        pickled(lambda t: t.update({KEY: torch.zeros(3, 3)})),
        f"another shape for {KEY}",
    ),
    "weights cut short": (
        lambda m: os.truncate(m / "model.safetensors", 40_000),
        "can't be loaded",
    ),
    "a weight missing": (weights(lambda t: t.pop(KEY)), f"its weight file lacks {KEY}"),
    "a weight too many": (
        weights(lambda t: t.update({"foo.weight": t[KEY] + 1})),
        "doesn't know foo.weight",
    ),
    "another shape": (
        weights(lambda t: t.update({KEY: torch.zeros(3, 3)})),
        f"another shape for {KEY}",
    ),
    "a weight that is no number": (
        weights(lambda t: t.update({KEY: t[KEY] * NAN})),
        "its weights have NaN",
    ),
    "no config": (without("config.json"), "there is no config.json"),
    "a broken config": (with_text("config.json", "{"), "config.json: it can't be read as JSON"),
    "a config without end": (
        instead("config.json", lambda path: path.symlink_to("/dev/zero")),
        "it is no file, but",
    ),
    "a pipe": (instead("tokenizer.json", os.mkfifo), "tokenizer.json: it is no file, but"),
    "a tokenizer of 100 GB": (
        lambda m: os.truncate(m / "tokenizer.json", 10**11),
        "100,000,000,000 bytes, where",
    ),
    "a pickle that grows": (
        lambda m: [pickled()(m), zip_bomb(m / "pytorch_model.bin")],
        "it can't be of a model",
    ),
    "too many layers": (
        configured(num_hidden_layers=10**6),
        "num_hidden_layers 1000000 is impossible",
    ),
    "heads below 0": (configured(num_attention_heads=-1), "num_attention_heads -1 is impossible"),
    "too many words": (
        configured(vocab_size=10**9),
        "describes 32,0.* weights, and the weight files have",
    ),
    "a T5": (
        configured(model_type="t5", architectures=["T5EncoderModel"]),
        "T5EncoderModel: unknown model type 't5'. Known: albert, bert",
    ),
    "a decoder": (configured(add_cross_attention=True), "set up as a decoder"),
    "other positions": (
        configured(position_embedding_type="relative_key"),
        "position_embedding_type 'relative_key'",
    ),
    "SimCSE's output": (
        weights(lambda t: t.update({"mlp.dense.bias": t[KEY][0] * 1})),
        "output of SimCSE's code",
    ),
    "a tokenizer of another kind": (
        with_text("tokenizer_config.json", '{"tokenizer_class": "RagTokenizer"}'),
        "Rag",
    ),
    "half a length": (
        with_text("tokenizer_config.json", '{"model_max_length": 2.5}'),
        "maximum length is 2.5",
    ),
    "no tokenizer": (without("tokenizer.json", "tokenizer_config.json"), "there is no tokenizer"),
    "a broken tokenizer": (with_text("tokenizer.json", "{"), "tokenizer can't be loaded"),
    "an adapter": (
        with_text("adapter_config.json", "{}"),
        "an adapter .* of another model; merge it",
    ),
    "only an adapter": (
        lambda m: (m / "config.json").rename(m / "adapter_config.json"),
        "an adapter .* merge it",
    ),
    "shards elsewhere": (
        with_text(
            "model.safetensors.index.json", '{"weight_map": {"x": "../other/x.safetensors"}}'
        ),
        "a file in it names '../other/x.safetensors', which is outside of this folder",
    ),
    "a kernel on the hub": (
        configured(attn_implementation="some/kernel"),
        "'some/kernel' is not allowed",
    ),
    "a program": (
        lambda m: [
            with_text("evil.py", "raise SystemExit('it ran')")(m),
            configured(model_type="evil", auto_map=EVIL)(m),
        ],
        "it can't be loaded",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_folder_is_refused_in_one_line(
    name: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage, message = DAMAGES[name]
    damage(model)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message) as caught:
        Encoder.load(model)
    assert not (tmp_path / "it-ran").exists()
    assert str(model) in str(caught.value)


def shards(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    index = {name: f"pytorch_model-0000{1 + i % 2}-of-00002.bin" for i, name in enumerate(names)}
    for file in set(index.values()):
        torch.save({name: tensors[name] for name in names if index[name] == file}, folder / file)
    (folder / "pytorch_model.bin.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": index})
    )
    (folder / "model.safetensors").unlink()


def old_names(tensors: dict[str, torch.Tensor]) -> None:
    """The names of 2018 to 2020, with the buffer and the task heads that such files have."""
    for key in list(tensors):
        old = key.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        )
        tensors[f"bert.{old}"] = tensors.pop(key)
    tensors["bert.embeddings.position_ids"] = torch.arange(32)[None]
    tensors["cls.predictions.bias"], tensors["cls.seq_relationship.bias"] = (
        torch.ones(28),
        torch.ones(2),
    )


@pytest.mark.parametrize(
    "change",
    [
        pickled(),
        pickled(zipped=False),
        shards,
        pickled(old_names),
        pickled(old_names, zipped=False),
    ],
    ids=["zip", "no zip", "shards", "old names", "old names, no zip"],
)
def test_a_pickle_gives_the_same_vectors_and_says_so_once(
    change: Callable[[Path], None],
    model: Path,
    caplog: pytest.LogCaptureFixture,
    sentences: list[str],
) -> None:
    # Layer norms that can't be taken for new ones.
    weights(
        lambda t: t.update({key: torch.randn_like(x) for key, x in t.items() if "LayerNorm" in key})
    )(model)
    expected = Encoder.load(model).encode(sentences)
    config = json.loads((model / "config.json").read_text())
    del config["dtype"]  # as of 2020
    (model / "config.json").write_text(json.dumps(config))
    change(model)
    caplog.clear()
    encoder = Encoder.load(model)
    assert [record.getMessage() for record in caplog.records] == [
        f"Model {model}: its weights are read from pytorch_model.bin, by torch's restricted "
        "reader, which runs no code."
    ]
    encoder.language_head = LanguageHead(encoder.backbone.model)
    assert len(caplog.records) == 1
    assert (reopened(encoder, model / "saved", sentences).encode(sentences) == expected).all()


def test_safetensors_are_preferred_to_a_pickle(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = Encoder.load(model).encode("a dog")
    pickled(lambda tensors: tensors.update(x=Code()), delete=False)(model)
    assert (Encoder.load(model).encode("a dog") == expected).all()
    assert not caplog.records


def test_heads_in_pickles_are_read(encoder: Encoder, tmp_path: Path, sentences: list[str]) -> None:
    encoder.heads.append(Dense(32, 8))
    encoder.save(tmp_path / "saved")
    (tmp_path / "saved" / "SHA256SUMS").unlink()
    pickled()(tmp_path / "saved" / "2_Dense")
    assert (Encoder.load(tmp_path / "saved").encode(sentences) == encoder.encode(sentences)).all()
    pickled_head = tmp_path / "saved" / "2_Dense" / "pytorch_model.bin"
    torch.save({"linear.weight": Code()}, pickled_head)
    with pytest.raises(InputError, match=r"2_Dense: .* restricted reader refuses"):
        Encoder.load(tmp_path / "saved")


def test_a_name_that_is_no_folder_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (tmp_path / "here" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here" / "below")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="this is a file"):
        Encoder.load(tmp_path / "file")
    for name in ("nobody/nothing", str(tmp_path / "missing"), "../../x"):
        with pytest.raises(InputError, match="there is no such folder") as caught:
            Encoder.load(name)
        assert ("can't be a name on the Hugging Face hub" in str(caught.value)) == (
            name != "nobody/nothing"
        )


@pytest.mark.parametrize(
    "name",
    [
        "~nobody-of-this-name/model",
        "a name\nwith a line feed",
        "C:\\models\\x",
        "C:/models/x",
        "models/",
        "a\0b",
        "x" * 5000,
        "x/" * 3000,
        "a/b/c",
        "\ud800",
        "bert-tiny\n",
    ],
    ids=lambda name: repr(name[:20]),
)
@pytest.mark.parametrize("use", [Encoder.load, recipe_of_model])
def test_a_text_that_can_be_no_name_gets_one_line(
    name: str, use: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError) as caught:
        use(name)
    message = str(caught.value)
    assert "there is no such folder: this can't be a name on the Hugging Face hub" in message
    assert "sentence-transformers/" not in message
    assert message.isprintable()


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("https://huggingface.co/google-bert/bert-base-uncased", "write google-bert/bert-base-un"),
        ("hub:google-bert/bert-base-uncased", "write google-bert/bert-base-uncased"),
        (" ", "model ' ': give a folder or a name"),
        ("", "model '': give a folder or a name"),
    ],
)
def test_an_address_of_a_model_says_its_name(name: str, advice: str) -> None:
    with pytest.raises(InputError, match=advice):
        Encoder.load(name)


def test_a_name_without_its_owner_is_told_to_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="write its owner too: sentence-transformers/all-Mini"):
        Encoder.load("all-MiniLM-L6-v2")


LOGIN_PAGE = "<html>Welcome to this hotel's network"
NO_ANSWERS = {
    "no network": (ConnectionError("Name or service not known"), "Name or service not known"),
    "a proxy that is silent": (TimeoutError("timed out"), "timed out"),
    "a login page": (
        json.JSONDecodeError("Expecting value", LOGIN_PAGE, 0),
        "a page for a browser",
    ),
}


@pytest.mark.parametrize("kind", NO_ANSWERS)
@pytest.mark.parametrize("use", [Encoder.load, recipe_of_model])
def test_a_hub_that_gives_no_answer_says_what_to_do(
    kind: str,
    use: Callable[[str], object],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    error, reason = NO_ANSWERS[kind]

    def fail(name: str, timeout: float) -> None:
        time.sleep(0.2)
        raise error

    monkeypatch.setattr("huggingface_hub.model_info", fail)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("isotune.data.hub.PATIENCE", 0.01)
    with pytest.raises(InputError) as caught:
        use("nobody/of-this-name")
    message = str(caught.value)
    assert re.search(rf"can't be read from the Hugging Face hub \(.*{reason}", message)
    assert "check the network and its proxy" in message
    assert "HF_ENDPOINT" in message
    assert "HF_HUB_OFFLINE=1" in message
    (waiting,) = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(r"waiting for an answer of http.*, for at most 10 seconds", waiting)


def modules(*types: str) -> Callable[[Path], object]:
    """Puts a modules.json with modules of these types into a folder."""
    table = [
        {"idx": number, "name": str(number), "path": "", "type": name}
        for number, name in enumerate(types)
    ]
    return with_text("modules.json", json.dumps(table))


ROUTER_MODULE = "sentence_transformers.models.Router"
NEWER_ROUTER_MODULE = "sentence_transformers.base.modules.router.Router"
STATIC_MODULE = "sentence_transformers.models.StaticEmbedding"
SPARSE_MODULES = (
    "sentence_transformers.sparse_encoder.models.MLMTransformer",
    "sentence_transformers.sparse_encoder.models.SpladePooling",
)
UNSUPPORTED_FOLDERS = {
    "a router": (modules(ROUTER_MODULE), r"two encoders \(Router\).*; give one of its folders$"),
    "a newer router": (modules(NEWER_ROUTER_MODULE, "x.Normalize"), r"two encoders \(Router\)"),
    "a router with its folders": (
        lambda folder: [
            modules(ROUTER_MODULE)(folder),
            shutil.copytree(folder, folder / "query_0_Transformer"),
        ],
        "two encoders .* give one of its folders: .*/model/query_0_Transformer$",
    ),
    "a static table": (
        modules(STATIC_MODULE),
        "a table of static vectors,.* give a language model",
    ),
    "a table of model2vec": (configured(model_type="model2vec"), "a table of static vectors"),
    "a model of GTE's own code": (
        configured(model_type="new", auto_map={"AutoModel": "new-impl--modeling.NewModel"}),
        "made for code of its own .* alibaba-nlp-community/gte-multilingual-base",
    ),
    "a model of texts and images": (
        configured(model_type="embedding_gemma2"),
        "a model of texts, images and sound .* give the model of texts in it",
    ),
    "a sparse encoder": (
        modules(*SPARSE_MODULES),
        "a sparse encoder .* give an encoder with dense",
    ),
    "an adapter": (
        with_text("adapter_config.json", "{}"),
        "an adapter .* merge it into that model",
    ),
    "an adapter alone": (
        lambda folder: (folder / "config.json").rename(folder / "adapter_config.json"),
        "an adapter .* merge it into that model",
    ),
}


@pytest.mark.parametrize("kind", UNSUPPORTED_FOLDERS)
@pytest.mark.parametrize("use", [Encoder.load, recipe_of_model])
def test_a_folder_that_is_no_model_of_this_kind_says_what_it_is(
    kind: str, use: Callable[[Path], object], model: Path
) -> None:
    change, message = UNSUPPORTED_FOLDERS[kind]
    change(model)
    with pytest.raises(InputError, match=rf"^model {model}: it (holds|is) {message}"):
        use(model)


def renamed(prefix: str) -> Callable[[Path], None]:
    """Puts a prefix before the names of a folder's weights."""

    def apply(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        other = {f"{prefix}{name}": tensor for name, tensor in tensors.items()}
        save_file(other, folder / "model.safetensors", {"format": "pt"})

    return apply


@pytest.mark.parametrize("prefix", ["model.", "module.", "0.auto_model.", "model.encoder_q.bert."])
def test_weights_under_another_prefix_are_told(prefix: str, model: Path) -> None:
    renamed(prefix)(model)
    with pytest.raises(
        InputError, match=f"names of its weights begin with '{prefix}'.* by its save_pretrained"
    ):
        Encoder.load(model)


def test_weights_of_a_models_own_code_are_told(model: Path) -> None:
    """As jina-embeddings-v3 has them, whose config.json says xlm-roberta."""
    renamed("roberta.mixer.lora_")(model)
    configured(auto_map={"AutoModel": "acme--modeling.Model"})(model)
    with pytest.raises(InputError, match="code of its own, which never runs here; look for a ver"):
        Encoder.load(model)


def test_adapters_beside_a_model_are_told(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("retrieval", "classification"):
        (model / name).mkdir()
        (model / name / "adapter_config.json").write_text("{}")
    Encoder.load(model)
    assert "is used without its adapters (classification, retrieval); to use one" in caplog.text


def test_weights_inside_an_adapter_are_told(model: Path) -> None:
    renamed("base_model.model.lora_")(model)
    with pytest.raises(InputError, match=r"it holds an adapter .* merge it into that model"):
        Encoder.load(model)


def test_the_folder_of_a_run_is_no_model(tiny_model: Path, tmp_path: Path) -> None:
    Encoder.load(tiny_model).save(tmp_path / "encoder")
    for use in (Encoder.load, recipe_of_model):
        with pytest.raises(
            InputError,
            match=f"no config.json in this folder; give {tmp_path}/encoder, the encoder of",
        ):
            use(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"type": "sentence_transformers.models.LSTM"},
            "a module sentence_transformers.models.LSTM",
        ),
        ({"pooling_mode_max_tokens": True}, r"pooling mean \+ max"),
        ({"pooling_mode_mean_tokens": False}, "supported is one of cls, mean, max, weightedmean"),
        ({"type": None}, "its sentence-transformers files can't be understood"),
        ({"path": "5_Pooling"}, "modules.json names 5_Pooling, which is no folder"),
        *(
            ({"path": path}, "outside of this folder; it is not read")
            for path in ("../x", "1_Pooling/../../x", "/tmp")
        ),
        ({"truncate_dim": 0}, "truncate_dim 0 in config_sentence_transformers.json"),
        ({"truncate_dim": "8"}, "truncate_dim '8' in config_sentence_transformers.json"),
        ({"default_prompt_name": "web"}, "default_prompt_name 'web' names no text"),
        (
            {"prompts": {"q": "a " * 10**6}, "default_prompt_name": "q"},
            "prompt 'a a .* has 2,000,000 characters",
        ),
        (
            {"prompts": {"q": "\ud800"}, "default_prompt_name": "q"},
            "prompt .* half a surrogate pair",
        ),
    ],
)
def test_an_unsupported_module_or_setting_is_refused(
    change: dict[str, object], message: str, tiny_model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "saved"
    Encoder.load(tiny_model).save(folder)
    (folder / "SHA256SUMS").unlink()
    path = (
        folder / "1_Pooling" / "config.json"
        if "pooling_mode" in str(change)
        else folder / "modules.json"
    )
    if not change.keys() & {"type", "path"} and path.name == "modules.json":
        path = folder / "config_sentence_transformers.json"
    content = json.loads(path.read_text())
    (content[1] if isinstance(content, list) else content).update(change)
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        Encoder.load(folder).encode("a dog")


@pytest.mark.parametrize(
    ("name", "change", "warning"),
    [
        ("config.json", {"return_dict": False, "chunk_size_feed_forward": 4}, None),
        (
            "config.json",
            {"auto_map": {"AutoModel": "acme.Model"}},
            "its own code .* is not run; it is read as bert",
        ),
        (
            "config_sentence_transformers.json",
            {"similarity_fn_name": "dot"},
            "isotune compares by cosine",
        ),
        (
            "config_sentence_transformers.json",
            {"prompts": {"q": None}, "default_prompt_name": "q"},
            None,
        ),
        (
            "sentence_bert_config.json",
            {"model_args": {"dtype": "float32"}},
            "model_args is ignored",
        ),
    ],
)
def test_a_setting_that_changes_nothing_here_gives_the_same_vectors(
    name: str,
    change: dict[str, object],
    warning: str | None,
    tiny_model: Path,
    tmp_path: Path,
    sentences: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = Encoder.load(tiny_model).encode(sentences)
    Encoder.load(tiny_model).save(tmp_path / "saved")
    (tmp_path / "saved" / "SHA256SUMS").unlink()
    path = tmp_path / "saved" / name
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert np.array_equal(Encoder.load(tmp_path / "saved").encode(sentences), expected)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == (warning is not None)
    assert all(re.search(str(warning), message) for message in messages)


@pytest.mark.parametrize("file", ["config.json", "modules.json"])
def test_a_folder_takes_the_bundled_models_name_only_if_it_holds_a_model(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_model("bert-tiny") == MODEL_FOLDER
    Path("bert-tiny", "encoder").mkdir(parents=True)  # as `--out bert-tiny` leaves it
    assert local_model("bert-tiny") == local_folder("bert-tiny") == MODEL_FOLDER
    assert local_model(tmp_path / "bert-tiny") == tmp_path / "bert-tiny"
    Path("bert-tiny", file).touch()
    assert local_model("bert-tiny") == local_folder("bert-tiny") == Path("bert-tiny")


def test_a_model_is_loaded_while_another_is_fetched(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(1) as pool:

        def fetched(name: str) -> Path:
            monkeypatch.undo()
            pool.submit(Encoder.load, tiny_model).result(60)
            return tiny_model

        monkeypatch.setattr("isotune.encoder.encoder.local_folder", fetched)
        Encoder.load("from/the-hub")


def test_a_key_that_a_library_lacks_is_told_as_such(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"it can't be loaded: KeyError\('ntk'\)"),
        load_errors(tmp_path),
    ):
        raise KeyError("ntk")


def test_no_file_of_a_saved_encoder_is_read_unless_it_is_a_file(
    tiny_model: Path, tmp_path: Path
) -> None:
    encoder = Encoder.load(tiny_model, prompt="a {sentence}")
    encoder.heads.append(Dense(encoder.dimension, 8))
    encoder.token_weights = torch.ones(encoder.backbone.model.config.vocab_size)
    encoder.space_of = "another"
    encoder.calibration = Calibration(
        slope=1, threshold=0.5, low=0.4, high=0.6, pairs=20, fingerprint=encoder.fingerprint()
    )
    saved = tmp_path / "saved"
    encoder.save(saved)
    # Otherwise the checksums tell what is missing.
    (saved / "SHA256SUMS").unlink()
    files = [path for path in saved.rglob("*") if path.is_file() and path.name != "README.md"]
    assert len(files) > 10
    for path in files:
        content = path.read_bytes()
        path.unlink()
        path.mkdir()
        with pytest.raises(InputError, match=f"{path.name}: it is no file, but a folder"):
            Encoder.load(saved)
        path.rmdir()
        path.write_bytes(content)
    Encoder.load(saved)
