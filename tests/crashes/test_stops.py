"""Ctrl-C ends each command within two seconds, quietly and with code 130, and the same command goes
on.

Each command works for some seconds with the bundled model, and is interrupted at moments spread
over its whole time. `ISOTUNE_SEED` chooses other moments, and `ISOTUNE_STOPS` how many of each
command.
"""

from tests.hub.environment import HUB

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
import tomli_w

from isotune.bundled import BUNDLED_DATA
from tests.crashes.commands import Running, beside, call, goes_on, result, start
from tests.crashes.kills import check_whole

TIMES = int(os.environ.get("ISOTUNE_STOPS", "20"))
LATEST = 2.0  # seconds
SEED = os.environ.get("ISOTUNE_SEED", "0")
RUN = ["--steps=60", "--eval-every=20", "--out=out/run"]
ONE_TASK = "--tasks=stsb-open"  # the tasks of "train" take most of the time of a run
STUDY = {
    "title": "Stopped",
    "seeds": [0],
    "tasks": ["stsb-open"],
    "scores": ["stsb-open", "dev"],
    "options": {"steps": 10, "eval_every": 5},
    "arms": [
        {"name": "as it is", "options": {"pooling": "mean"}},
        {"name": "SimCSE", "method": "simcse", "data": ["stsb-open:train"]},
    ],
}
WORDS = {
    "train": ["train", "TEXT", *RUN],
    "train by mirror": ["train", "TEXT", "--method=mirror", *RUN, ONE_TASK],
    "train by sif": ["train", "TEXT", "--method=sif", ONE_TASK, "--out=out/run"],
    "train by flow": ["train", "TEXT", "--method=flow", *RUN, ONE_TASK],
    "evaluate": ["evaluate", "bert-tiny", "--tasks", "stsb-open", "stsb-open:dev"],
    "analyse layers": ["analyse", "layers", "bert-tiny", "--out", "out/analyses"],
    "analyse tsne": ["analyse", "tsne", "bert-tiny", "--out", "out/analyses"],
    "encode": ["encode", "bert-tiny", "TEXT", "--out", "out/vectors.npy"],
    "encode many": ["encode", "bert-tiny", "PARTS", "--out", "out/vectors"],
    "index": ["index", "bert-tiny", "TEXT", "--out", "out/index"],
    "search": ["search", "INDEX", "a dog", "--hybrid"],
    "export": ["export", "bert-tiny", "--out", "out/onnx"],
    "study": ["study", "STUDY", "--model=bert-tiny", "--out=out/study"],
    "reproduce": ["reproduce"],
    "datasets": ["datasets", "fetch", "hub:me/data"],
    "label": [
        "label",
        "TEXT",
        "--encoders",
        "bert-tiny",
        "--pairs",
        "2",
        "--out",
        "out/labels.tsv",
    ],
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files that `WORDS` names in capitals."""
    folder, chance = tmp_path_factory.mktemp("inputs"), random.Random(0)
    few = (BUNDLED_DATA / "stsb-open" / "train.txt").read_text("utf-8").splitlines()
    halves = [line.split() for line in few]
    lines = [
        " ".join(chance.choice(halves)[:5] + chance.choice(halves)[5:]) + f" {number}"
        for number in range(10_000)
    ]
    for name, content in {
        "few": few,
        "text": lines,
        "long": lines * 20,
        **{f"part-{i}": lines[i::5] for i in range(5)},
    }.items():
        (folder / f"{name}.txt").write_text("\n".join(content) + "\n", "utf-8")
    (folder / "study.toml").write_text(tomli_w.dumps(STUDY))
    found = {
        "FEW": "few.txt",
        "TEXT": "text.txt",
        "PARTS": "part-*.txt",
        "STUDY": "study.toml",
        "INDEX": "out/index",
    }
    return {name: str(folder / path) for name, path in found.items()}


def serve_data() -> None:
    """Starts a hub in this process, and has what is fetched kept in the folder where the command
    works."""
    from huggingface_hub import constants

    HUB.add(
        "me/data",
        {f"{number}.jsonl": '{"sentence": "a"}\n' * 20_000 for number in range(40)},
        kind="dataset",
    )
    HUB.start()
    constants.HF_HUB_CACHE = str(Path("out", "hub"))
    os.environ["XDG_CACHE_HOME"] = str(Path("out", "cache").absolute())


@pytest.mark.slow
@pytest.mark.parametrize("name", WORDS)
def test_a_command_is_interrupted_at_twenty_moments(
    name: str, inputs: dict[str, str], tmp_path: Path
) -> None:
    chance, heard = random.Random(f"{name} {SEED}"), []
    words = [inputs.get(word, word) for word in WORDS[name]]
    before = serve_data if name == "datasets" else None
    if name == "search":
        assert (
            call(
                ["index", "bert-tiny", inputs["FEW"], "--out", inputs["INDEX"]], tmp_path / "made"
            ).code
            == 0
        )
    call(words, tmp_path / "first", before)  # imports what is left to import
    undisturbed = start(words, tmp_path / "undisturbed", before)
    whole = worked(undisturbed, 600)
    outcome = undisturbed.outcome()
    assert outcome.code == 0, outcome
    expected = result(words, undisturbed.folder)
    for number in range(TIMES):
        command = start(words, tmp_path / f"{number}", before)
        worked(command, (number + chance.random()) / TIMES * whole)
        if (seconds := stop(command)) is not None:
            heard.append(seconds)
            if number % 4 == 0:
                goes_on(words, command.folder, expected, before)
    last = max(heard, default=0)
    print(
        f"{name}: {len(heard)} of {TIMES} were interrupted in {whole:.1f} s; "
        f"the last to end took {last:.2f} s"
    )
    assert (
        len(heard) > TIMES / 4
    )  # a command may take less time than the first, which says how long it takes
    assert last < LATEST


@pytest.mark.parametrize("name", ["train in its steps", "train", "encode many", "index"])
def test_work_of_minutes_ends_soon(name: str, inputs: dict[str, str], tmp_path: Path) -> None:
    words = [inputs.get(word, word) for word in WORDS[name.removesuffix(" in its steps")]]
    text = "text" if name.endswith("steps") else "long"
    words = [
        word.replace("text.txt", f"{text}.txt").replace("part-*", text).replace("=60", "=60000")
        for word in words
    ]
    command = start(words, tmp_path / "work")
    records = tmp_path / "work" / "out" / "run" / "metrics.jsonl"
    while name.endswith("steps") and not (records.exists() and '"train"' in records.read_text()):
        assert command.process.is_alive(), command.outcome()
        time.sleep(0.01)
    worked(command, random.Random(SEED).uniform(0.5, 2))
    seconds = stop(command)
    assert seconds is not None
    assert seconds < LATEST
    check_whole(command.folder)


def worked(command: Running, seconds: float) -> float:
    """Lets a command work for so long, or to its end; returns how long that was."""
    watch = Watch(command.process.pid)
    while command.process.is_alive() and watch.seconds() < seconds:
        watch.look()
        time.sleep(0.005)
    return watch.seconds()


def stop(command: Running) -> float | None:
    """Interrupts a command; returns the seconds until its end, or None if it had ended."""
    sent = time.time()
    watch = Watch(command.process.pid)
    command.signal(signal.SIGINT)
    while command.process.is_alive():
        watch.look()
        assert watch.seconds() < 60, beside(command.folder, "stderr").read_text()
        time.sleep(0.005)
    seconds, outcome = watch.seconds(), command.outcome()
    ended = beside(
        command.folder, "ended"
    )  # its time may be a clock tick too early, so the code counts first
    if outcome.code != 130 and ended.exists() and ended.stat().st_mtime < sent:
        return None
    assert outcome.code == 130, outcome
    assert "Traceback" not in outcome.err, outcome.err
    return seconds


class Watch:
    """A watch that stands still while a process waits for a processor, so that other work stretches
    no time."""

    def __init__(self, process: int) -> None:
        self.path = Path(f"/proc/{process}/schedstat")
        self.waited = 0.0
        self.look()
        self.start = time.monotonic() - self.waited

    def look(self) -> None:
        """Looks how long the process has waited; to be called while it lives."""
        with suppress(OSError):
            self.waited = int(self.path.read_text().split()[1]) / 1e9

    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.waited - self.start
