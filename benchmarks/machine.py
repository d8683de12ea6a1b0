"""The machine that is measured on, and whether it was quiet. Linux only: it reads /proc."""

import os
import platform
import re
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median

# A machine is quiet if it stays below these limits: the shares of processor time that other
# processes and the hypervisor take, and the spread of a contender's rounds.
OTHERS_LIMIT, STEAL_LIMIT, SPREAD_LIMIT = 0.05, 0.02, 0.10
# The instructions that decide how fast matrix products are: each feature's flags in /proc/cpuinfo.
FEATURES = {
    "AVX-512": {"avx512f"},
    "bf16": {"avx512_bf16", "amx_bf16"},
    "VNNI": {"avx512_vnni", "avx_vnni"},
    "AMX": {"amx_tile"},
}
PACKAGES = (
    "torch",
    "transformers",
    "sentence-transformers",
    "onnxruntime",
    "openvino",
    "ctranslate2",
)


def processor() -> str:
    """The processor in one line: brand, cores, and whether it has each of `FEATURES`."""
    info = Path("/proc/cpuinfo").read_text()
    values = {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in info.splitlines())
    }
    family = (
        f" (family {values['cpu family']}, model {values['model']})"
        if "cpu family" in values
        else ""
    )
    flags = set(values.get("flags", "").split())
    features = ", ".join(
        f"{name} {'yes' if flags & names else 'no'}" for name, names in FEATURES.items()
    )
    return f"{_brand(info)}{family}, {cores()} cores; {features}"


def describe() -> str:
    """The machine and the versions of the software, as two items of a Markdown list."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"- {processor()}; {memory:.0f} GiB of memory\n"
        f"- Linux {platform.release()}, Python {platform.python_version()}; {versions}"
    )


def short_name() -> str:
    """The machine's name as a part of a file name, such as amd-epyc-2."""
    words = re.findall(r"[a-z0-9]+", _brand(Path("/proc/cpuinfo").read_text()).lower())
    return "-".join([*words[:4], str(cores())])


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def _brand(info: str) -> str:
    """The processor's name in /proc/cpuinfo.

    Where there is no name, this is the architecture; x86 has a name.
    """
    name = re.search(r"model name\s*: (.*)", info)
    return name[1] if name else platform.machine()


@dataclass
class Noise:
    """What else ran on the machine during all measurements.

    Attributes:
        wall: seconds of measurements.
        others: processor seconds of other processes.
        steal: processor seconds that the hypervisor took.
        spreads: (largest - smallest) / median of each contender's rounds.
    """

    wall: float = 0.0
    others: float = 0.0
    steal: float = 0.0
    spreads: list[float] = field(default_factory=list)

    def add(self, wall: float, others: float, steal: float) -> None:
        """Adds one measurement."""
        self.wall += wall
        self.others += others
        self.steal += steal

    def verdict(self) -> str:
        """Whether the machine was quiet, with numbers and limits, as an item of a Markdown list."""
        total = self.wall * cores() or 1
        others = max(0.0, self.others) / total
        steal = max(0.0, self.steal) / total
        spread = median(self.spreads) if self.spreads else 0.0
        quiet = others < OTHERS_LIMIT and steal < STEAL_LIMIT and spread < SPREAD_LIMIT
        verdict = "The machine was quiet" if quiet else "**The machine was not quiet**"
        return (
            f"- {verdict}: other processes took {others:.1%} of the processor time, the hypervisor "
            f"{steal:.1%}, and the rounds of a line spread by {spread:.0%} of their median "
            f"(limits {OTHERS_LIMIT:.0%}, {STEAL_LIMIT:.0%}, {SPREAD_LIMIT:.0%})"
        )


class Clock:
    """Measures wall-clock time and the whole machine's processor time, from its construction on."""

    def __init__(self) -> None:
        self.start = self._read()

    def stop(self) -> tuple[float, float, float]:
        """Seconds since construction, processor seconds of all processes, and those stolen."""
        wall, busy, steal = (
            after - before for before, after in zip(self.start, self._read(), strict=True)
        )
        return wall, busy, steal

    @staticmethod
    def _read() -> tuple[float, float, float]:
        user, nice, system, _, _, irq, softirq, steal = map(
            int, Path("/proc/stat").read_text().split()[1:9]
        )
        tick = os.sysconf("SC_CLK_TCK")
        return time.perf_counter(), (user + nice + system + irq + softirq) / tick, steal / tick
