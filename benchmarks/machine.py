"""What the machine is, and whether it was quiet while something was measured. Linux only: it reads /proc."""

from __future__ import annotations

import os
import platform
import re
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median

# What a quiet machine doesn't pass: shares of all processors' time, and the spread of a contender's rounds.
OTHERS, STEAL, SPREAD = 0.05, 0.02, 0.10
# Instructions that decide how fast products are.
INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_bf16", "amx_int8")


def describe() -> str:
    """The machine and the versions, a line of Markdown each."""
    info = Path("/proc/cpuinfo").read_text()
    flags = re.search(r"flags\s*: (.*)", info)
    instructions = set(flags[1].split()) if flags else set()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    packages = ("torch", "transformers", "sentence-transformers", "onnxruntime", "openvino", "ctranslate2")
    return "\n".join(
        [
            f"- {_processor(info)}, {len(os.sched_getaffinity(0))} processors, {memory:.0f} GiB; "
            + ", ".join(name for name in INSTRUCTIONS if name in instructions),
            f"- Linux {platform.release()}, Python {platform.python_version()}; "
            + ", ".join(f"{name} {version(name)}" for name in packages),
        ]
    )


def short_name() -> str:
    """The machine's name in a file's name: amd-epyc-2."""
    words = re.findall(r"[a-z0-9]+", _processor(Path("/proc/cpuinfo").read_text()).lower())
    return "-".join([*words[:4], str(len(os.sched_getaffinity(0)))])


def _processor(info: str) -> str:
    """What /proc/cpuinfo calls it; elsewhere than on x86, the architecture."""
    found = re.search(r"model name\s*: (.*)", info)
    return found[1] if found else platform.machine()


@dataclass
class Noise:
    """What others did on the machine while something was measured; to be added up over all of it.

    Attributes:
        wall: seconds that were measured.
        others: processor seconds of other processes.
        steal: processor seconds that the hypervisor took.
        spreads: (largest - smallest) / median of each contender's rounds.
    """

    wall: float = 0.0
    others: float = 0.0
    steal: float = 0.0
    spreads: list[float] = field(default_factory=list)

    def add(self, wall: float, others: float, steal: float) -> None:
        """Counts a measurement."""
        self.wall, self.others, self.steal = self.wall + wall, self.others + others, self.steal + steal

    def verdict(self) -> str:
        """A line of Markdown: quiet or not, and by what numbers."""
        processors = len(os.sched_getaffinity(0))
        others, steal = (max(0.0, part) / (self.wall * processors or 1) for part in (self.others, self.steal))
        spread = median(self.spreads) if self.spreads else 0.0
        quiet = others < OTHERS and steal < STEAL and spread < SPREAD
        return (
            f"- {'The machine was quiet' if quiet else '**The machine was not quiet**'}: other processes took "
            f"{others:.1%} of its processors, the hypervisor {steal:.1%}; the rounds of a line spread by {spread:.0%} "
            f"of their median (limits {OTHERS:.0%}, {STEAL:.0%}, {SPREAD:.0%})"
        )


class Clock:
    """Wall clock and the machine's own account of its processors."""

    def __init__(self) -> None:
        self.start = self._read()

    def stop(self) -> tuple[float, float, float]:
        """Since it was made: seconds, processor seconds of all processes, and those stolen."""
        wall, busy, steal = (after - before for before, after in zip(self.start, self._read(), strict=True))
        return wall, busy, steal

    @staticmethod
    def _read() -> tuple[float, float, float]:
        user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
        tick = os.sysconf("SC_CLK_TCK")
        return time.perf_counter(), (user + nice + system + irq + softirq) / tick, steal / tick
