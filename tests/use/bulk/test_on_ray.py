"""Files become vectors on Ray of this machine.

Every row becomes one vector, as `Encoder.encode` has it, in any file system.
"""

import json
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from pyarrow import fs

from isotune.cli import main
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.use.bulk.add_vectors import AddVectors
from isotune.use.bulk.folder import encode_files
from isotune.use.bulk.on_ray import encode_on_ray

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    # Processes that give way to all other work do not end on a busy machine.
    ray.init(
        "local",
        num_cpus=2,
        log_to_driver=False,
        include_dashboard=False,
        _system_config={"worker_niceness": 0},
    )
    yield
    ray.shutdown()


@pytest.fixture
def texts(sentences: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of three files with twenty rows each, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("isotune.cluster.loaded_plugins", tuple)  # those of other tests are gone
    folder = Path("texts")
    folder.mkdir()
    (folder / "0.txt").write_text("\n\n".join(sentences[:20]))
    (folder / "1.jsonl").write_text(
        "".join(json.dumps({"sentence": text}) + "\n" for text in sentences[20:40])
    )
    pq.write_table(pa.table({"sentence": [*sentences[40:], " ", None]}), folder / "2.parquet")
    (folder / "_SUCCESS").touch()
    return folder


def test_every_row_once_and_again_only_what_is_missing(
    tiny_model: Path, texts: Path, sentences: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    long = "a dog " * 1000 + "end"
    (texts / "3.txt").write_text(long)
    done: list[int] = []
    assert encode_on_ray(str(tiny_model), ["texts"], "a/out", advance=done.append) == (
        4,
        4,
        61,
        0,
        1,
    )
    assert sorted(done) == [1, 20, 20, 20]
    table = pq.read_table("a/out")
    assert sorted(table["sentence"].to_pylist()) == sorted([*sentences, long])
    rows = {row["sentence"]: row for row in table.to_pylist()}
    vectors = np.array([rows[text]["vector"] for text in sentences], np.float32)
    np.testing.assert_allclose(vectors, Encoder.load(tiny_model).encode(sentences), atol=1e-6)
    gone, *kept = sorted(Path("a/out").glob("*.parquet"))
    times = [file.stat().st_ino for file in kept]
    gone.unlink()
    assert encode_on_ray(str(tiny_model), ["texts"], "a/out") == (4, 1, 20, 0, 0)
    assert [file.stat().st_ino for file in kept] == times
    assert encode_files(str(tiny_model), ["texts"], "a/out").made == 0
    assert main(["encode", str(tiny_model), "texts", "--out", "a/out", "--engine", "ray"]) == 0
    assert capsys.readouterr().out == "a/out: 4 files; this command made 0, with 0 vectors\n"
    with pytest.raises(
        InputError, match="a/out: its vectors were made with normalize False, not True"
    ):
        encode_on_ray(str(tiny_model), ["texts"], "a/out", normalize=True)


def test_what_is_refused(tiny_model: Path, texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(message: str, *sources: str, **options: Any) -> None:
        shutil.rmtree("out", ignore_errors=True)
        with pytest.raises(InputError, match=message):
            encode_on_ray(str(tiny_model), sources, "out", **options)

    refused("1.txt: no such file", "texts/1.txt")
    refused("unknown format", "texts/_SUCCESS")
    refused("file:///none: no file is there", "file:///none")
    refused(r"s4://\.\.\.: no place for files \(.*the address", "s4://key:secret@bucket/texts")
    (texts / "3.jsonl").write_text('{"sentence": 1}\n')
    refused(
        r"texts/3.jsonl:1: sentence must be text, not 1 \(1 of 4 parts can't be encoded; the "
        "others are",
        "texts",
    )
    assert len(list(Path("out").glob("*.parquet"))) == 3
    Path("vectors.jsonl").write_text('{"text": "a", "vector": 1}\n')
    refused("vectors.jsonl: it has a column 'vector' already", "vectors.jsonl")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        refused(
            "no Ray cluster answers", "texts/0.txt", address=f"127.0.0.1:{free.getsockname()[1]}"
        )
    monkeypatch.setattr(ray, "nodes", list)
    refused(
        "a task needs 1 processors; the largest machine of this Ray cluster has 0", "texts/0.txt"
    )


def test_ray_data(tiny_model: Path, texts: Path, sentences: list[str]) -> None:
    options = {
        "fn_constructor_args": (str(tiny_model), "sentence"),
        "batch_size": 16,
        "batch_format": "pyarrow",
    }
    rows = ray.data.from_arrow(pa.table({"sentence": sentences}))
    workers = ray.data.ActorPoolStrategy(size=1)
    encoded = rows.map_batches(AddVectors, compute=workers, num_cpus=1, **options).take_all()
    vectors = {row["sentence"]: row["vector"] for row in encoded}
    expected = Encoder.load(tiny_model).encode(sentences)
    np.testing.assert_allclose([vectors[text] for text in sentences], expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("run", range(20))
def test_processes_killed_at_random_moments(
    run: int, tiny_model: Path, texts: Path, sentences: list[str]
) -> None:
    for number in range(24):
        (texts / f"more-{number}.txt").write_text(
            "\n".join(f"{text} {number}" for text in sentences * 2)
        )
    draw, ended = random.Random(run), Event()
    done: list[int] = []
    killed: list[int] = []

    def kill() -> None:
        for moment in sorted(draw.choices(range(0, 2800, 100), k=3)):
            while sum(done) < moment and not ended.wait(0.02):
                pass
            ended.wait(draw.random() / 3)
            workers = [
                child
                for child in psutil.Process().children(True)
                if child.name().startswith("ray::_call")
            ]
            if workers and not ended.is_set():
                draw.choice(workers).kill()
                killed.append(moment)

    killer = Thread(target=kill)
    killer.start()
    counts = encode_on_ray(str(tiny_model), ["texts"], "out", advance=done.append)
    ended.set()
    killer.join()
    print(f"killed after {killed} rows: {counts}")
    assert counts == (27, 27, 2940, 0, 0)
    table = pq.read_table("out")
    lines = [f"{text} {number}" for number in range(24) for text in sentences * 2]
    assert sorted(table["sentence"].to_pylist()) == sorted([*sentences, *lines])
    vectors = np.array(table["vector"].to_pylist(), np.float32)
    np.testing.assert_allclose(
        vectors, Encoder.load(tiny_model).encode(table["sentence"].to_pylist()), atol=1e-6
    )


@pytest.fixture
def s3() -> Iterator[str]:
    """The address of a folder {}.

    Moto 5.2 or later has an environment of its own, as its pins are others.
    """
    if not (server := shutil.which("moto_server")):
        pytest.skip("moto_server is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([server, "-p", str(port)], stderr=subprocess.DEVNULL) as process:
        time.sleep(20)
        end = f"?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        end += "&allow_bucket_creation=true"
        # A small file takes one request; moto fails now and then where there are three.
        end += "&allow_delayed_open=true"
        yield f"s3://key:secret@bucket/{{}}{end}"
        process.kill()


@pytest.mark.slow
def test_an_object_store(tiny_model: Path, texts: Path, s3: str) -> None:
    source, out = s3.format("texts"), s3.format("vectors")
    store, folder = fs.FileSystem.from_uri(source)
    store.create_dir(folder)
    for file in texts.glob("*.*"):
        with store.open_output_stream(f"{folder}/{file.name}") as stream:
            stream.write(file.read_bytes())

    def written() -> list[str]:
        return [
            file.path
            for file in store.get_file_info(fs.FileSelector("bucket/vectors"))
            if "parquet" in file.path
        ]

    assert encode_on_ray(str(tiny_model), [source], out) == (3, 3, 60, 0, 0)
    names = written()
    store.delete_file(names[0])
    assert encode_on_ray(str(tiny_model), [source], out) == (3, 1, 20, 0, 0)
    assert written() == names
    assert encode_files(str(tiny_model), [source], s3.format("alone"))[:3] == (3, 3, 60)
    assert encode_files(str(tiny_model), [source], s3.format("alone"))[:3] == (3, 0, 0)
