"""Changes the bytes of files from strangers, guided by the lines of isotune that they reach (atheris, libFuzzer).

    pip install atheris
    python -m tests.crashes.fuzz rows -runs=100000 -seed=1

The kinds are those of `USES` in `inputs.py`. What follows the kind goes to libFuzzer. It ends at the first traceback,
at an input that takes more than 60 seconds of processor time, and at 2 GB of memory, and says which input it was;
otherwise after so many runs.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["isotune", "tomllib"]):
    from isotune.errors import InputError
    from tests.crashes.inputs import USES, Tried, whole


def main() -> None:
    name, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        folder, seeds = Path(place), Path(place, "seeds")
        seeds.mkdir()
        os.chdir(folder)
        use, tried = USES[name], Tried()
        for number, content in enumerate(whole(name, folder)):
            (seeds / f"{number}").write_bytes(content)
            with suppress(InputError):  # a whole file may not fit the rows that are asked for
                use(content, folder)  # imports what is imported on first use

        def test(data: bytes) -> None:
            tried(lambda: use(data, folder))
            if tried.counts.total() % 10_000 == 0:
                print(f"{name}: {dict(tried.counts)}", flush=True)

        limits = ["-rss_limit_mb=2048", "-max_len=20000", "-print_final_stats=1", "-verbosity=0"]
        atheris.Setup([sys.argv[0], *limits, *options, str(seeds)], test)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
