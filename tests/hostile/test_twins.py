"""Two of every command at once with one target: nothing torn, lost or wrong.

ISOTUNE_SEED chooses the moments; the seed is printed.
"""

import os
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crashes.commands import assert_refused, call, command_lines, result, start
from tests.crashes.kills import check_whole
from tests.crashes.work import Inputs, make_inputs

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("ISOTUNE_SEED") or random.SystemRandom().randrange(10**6))
ROUNDS = 3  # pairs of each command
EQUAL = (
    "analyse",
    "encode to a folder",
    "index",
    "label",
)  # which go on with what is there: twins do the same


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return make_inputs(tmp_path_factory.mktemp("hostile") / "inputs")


def twins(inputs: Inputs) -> Iterator[tuple[str, list[str], list[str]]]:
    """A name and two commands, which write to one path.

    They give different things, unless they are of `EQUAL`.
    """
    other = Path(inputs.text).with_name("other.txt")
    other.write_text("".join(Path(inputs.text).read_text().splitlines(True)[:40]))
    first, second = command_lines(inputs), command_lines(replace(inputs, text=str(other)))
    for name, words in first.items():
        yield name, words, words if name in EQUAL else second[name]
    to_parquet = [[*lines["encode to a file"][:-1], "out/v.parquet"] for lines in (first, second)]
    yield "encode to parquet", *to_parquet
    yield (
        "export",
        *(["export", model, "--out", "out/onnx"] for model in (inputs.model, "bert-tiny")),
    )


def test_of_twins_one_ends_well_and_what_is_there_is_its_own(
    inputs: Inputs, tmp_path: Path
) -> None:
    chance, pairs, refused = random.Random(SEED), 0, 0
    for name, *commands in twins(inputs):
        expected, seconds = [], 0.0
        for number, words in enumerate(commands):
            begun = time.monotonic()
            assert call(words, tmp_path / f"{name} {number}").code == 0
            seconds = time.monotonic() - begun
            expected.append(result(words, tmp_path / f"{name} {number}"))
        for attempt in range(ROUNDS):
            shared, running = tmp_path / f"{name} {attempt}.shared", []
            shared.mkdir()
            for number, words in enumerate(commands):
                folder = tmp_path / f"{name} {attempt}.{number}"
                folder.mkdir()
                (folder / "out").symlink_to(shared)
                running.append(start(words, folder))
                time.sleep(0 if number else chance.choice([0, chance.uniform(0, seconds)]))
            outcomes = [each.outcome() for each in running]
            wrong = f"seed {SEED}, {name}: {outcomes}"
            won = [number for number, outcome in enumerate(outcomes) if outcome.code == 0]
            assert len(won) == 1 or (won and name in EQUAL), wrong
            for outcome in outcomes:
                assert_refused(outcome) if outcome.code else None
            check_whole(shared)
            there = result(commands[won[0]], running[0].folder)
            assert there == expected[won[0]], wrong
            assert not [path for path in shared.rglob("*.part")], wrong
            pairs, refused = pairs + 1, refused + 2 - len(won)
    print(
        f"\ntwins (seed {SEED}): {pairs} pairs of commands, {refused} refused in one line, 0 torn, "
        "0 lost"
    )
