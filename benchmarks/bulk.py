"""Encodes files with bert-tiny, in one process and on Ray of this machine, three times each.

The files are FILES, or else 400 of 500 rows.

python benchmarks/bulk.py [FILES]. The rate on Ray is that from the first file to the last, so
without the start.
"""

import random
import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from isotune.use.bulk.folder import encode_files
from isotune.use.bulk.on_ray import encode_on_ray

WORDS = (  # noqa: SIM905
    "the man woman dog cat is was plays eats sees red blue small big and with in on at ball house"
).split()
FILES, ROWS = int((sys.argv[1:] or ["400"])[0]), 500

with TemporaryDirectory() as folder:
    for number in range(FILES):
        lines = (" ".join(random.choices(WORDS, k=random.randint(6, 12))) for _ in range(ROWS))
        Path(folder, f"{number:04}.txt").write_text("\n".join(lines))
    for turn in range(3):
        start = time.perf_counter()
        encode_files("bert-tiny", [f"{folder}/*.txt"], f"{folder}/one-{turn}")
        print(
            f"one process: {FILES * ROWS / (time.perf_counter() - start):,.0f} rows a second",
            flush=True,
        )
        files, memory, start = [], [], time.perf_counter()

        def advance(rows: int, files: list = files, memory: list = memory) -> None:
            """Notes when a file is done, and the memory of the largest process that encodes."""
            files.append((time.perf_counter(), rows))
            children = psutil.Process().children(recursive=True)
            memory.append(
                max(
                    child.memory_info().rss >> 20
                    for child in children
                    if child.name().startswith("ray::")
                )
            )

        counts = encode_on_ray(
            "bert-tiny", [f"{folder}/*.txt"], f"{folder}/ray-{turn}", advance=advance
        )
        (first, some), (last, _) = files[0], files[-1]
        rate, own = (
            (FILES * ROWS - some) / (last - first),
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        )
        print(
            f"Ray: {rate:,.0f} rows a second, the first file after {first - start:.0f} s; {counts}",
            flush=True,
        )
        halves = max(memory[: FILES // 2]), max(memory[FILES // 2 :])
        print(f"memory: {halves} MB of a process in the halves, {own} MB of this one", flush=True)
