"""Which device computes; and isotune on a GPU that is only pretended."""

import json
import multiprocessing
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from isotune.cli import main
from isotune.engine.workers import workers_of_run
from isotune.errors import InputError
from isotune.kernels.device import default_device
from tests.engine import pretend_gpu
from tests.engine.steps import STEPS

SPAWN = multiprocessing.get_context(
    "spawn"
)  # a process without threads, in which torch has no GPU yet


def in_process(act: Callable[..., None], *arguments: object, printed: Path) -> None:
    """Acts in a process that has to end well; what it prints is in the error."""
    process = SPAWN.Process(target=act, args=(*arguments, printed))
    process.start()
    process.join(600)
    assert process.exitcode == 0, printed.read_text()


@pytest.mark.parametrize(
    ("there", "named", "expected"),
    [
        ((), None, "cpu"),
        (("mps",), None, "cpu"),
        (("cuda",), None, "cuda"),
        (("cuda",), "cpu", "cpu"),
        (("mps",), "mps", "mps"),
    ],
)
def test_the_device_that_is_named_computes_or_else_nvidias(
    there: tuple[str, ...], named: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in there)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in there)
    monkeypatch.setenv("ISOTUNE_DEVICE", named or "")
    assert default_device() == expected
    monkeypatch.setenv("ISOTUNE_DEVICE", "tpu")
    with pytest.raises(
        InputError,
        match=f"^ISOTUNE_DEVICE is 'tpu'; here it can be {' or '.join([*there, 'cpu'])}$",
    ):
        default_device()


@pytest.mark.parametrize(
    ("variables", "number"),
    [({"LOCAL_RANK": "5"}, 1), ({"ISOTUNE_DEVICE": "cuda:2", "LOCAL_RANK": "0"}, 2), ({}, None)],
)
def test_a_process_takes_the_gpu_that_it_is_given(
    variables: dict[str, str], number: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert default_device() == "cuda"
    assert chosen == ([] if number is None else [number])


def test_several_processes_do_not_share_an_apple_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotune.engine.workers.default_device", lambda: "mps")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match=r"ISOTUNE_DEVICE=cpu$"), workers_of_run():
        pass


def test_a_step_on_a_gpu_has_the_gradient_of_a_cpu(
    tiny_model: Path, sentences: list[str], tmp_path: Path
) -> None:
    still = shutil.copytree(
        tiny_model, tmp_path / "still"
    )  # a model without dropout, which is torch's on a GPU
    config = still / "config.json"
    rates = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    config.write_text(json.dumps(json.loads(config.read_text()) | dict.fromkeys(rates, 0.0)))
    in_process(
        pretend_gpu.compare_steps, tuple(STEPS), still, sentences, printed=tmp_path / "printed.txt"
    )


def test_a_gpu_gets_no_more_work_to_launch_than_from_a_padded_model(tmp_path: Path) -> None:
    in_process(pretend_gpu.compare_launches, printed=tmp_path / "printed.txt")


def test_commands_compute_on_a_gpu_what_they_compute_on_a_cpu(
    tiny_model: Path, text: Path, tmp_path: Path
) -> None:
    def commands(device: str) -> list[list[str]]:
        run, folder = str(tmp_path / device), ["--out", str(tmp_path / f"{device}-mlm")]
        few = ["--model", str(tiny_model), "--batch-size", "8", "--steps", "2", "--eval-every", "1"]
        few += ["--model-dropout", "0"]  # a GPU has torch's
        return [
            ["train", str(text), "--out", run, *few, "--precision", "float32"],
            [
                "train",
                str(text),
                *folder,
                "--method",
                "mlm",
                "--pooling",
                "wk",
                *few,
                "--precision",
                "float32",
            ],
            ["evaluate", f"{run}/encoder", "--tasks", "geometry:stsb-open:dev"],
            ["encode", f"{run}/encoder", str(text), "--out", str(tmp_path / f"{device}.npy")],
        ]

    in_process(pretend_gpu.run, commands("gpu"), printed=tmp_path / "printed.txt")
    assert [main(words) for words in commands("cpu")] == [0] * 4
    np.testing.assert_allclose(
        np.load(tmp_path / "gpu.npy"), np.load(tmp_path / "cpu.npy"), atol=1e-4
    )
