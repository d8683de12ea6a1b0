"""The tables of a GPU: attention as on a CPU, training, encoding, memory, and several GPUs.

`python benchmarks/run.py gpu` prints and writes the tables. The models have random weights, because
speed does not depend on weights. A line has the GPU for itself, one after another. If flash-attn is
installed in .benchmark/, sentence-transformers is measured with it too, and so without padding.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from encoding import encoders, scored_pairs
from rounds import Timing, spread, table
from training import learned, sentences, waiting

ROOT = Path(__file__).parents[1]
SHAPES: dict[str, dict[str, int]] = {
    "BERT-base": {},
    "MiniLM": {
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    },
}
CHUNKS = {64: None, 512: None, 8192: 512}
"""The sentences of a pass of the gradient cache, if there is one, by those of a step."""

SENTENCES = 2048  # of a round of training; at least a step
ENCODED = 50_000  # sentences of a round of encoding
PEER_BATCH = 512  # of sentence-transformers' encoding; its default of 32 is slow on a GPU
FLASH = "flash_attention_2"
DROPPED = (
    "All drop a tenth of the attention weights, but those with flash attention, which drops none."
)


class Line(NamedTuple):
    """A library, its precision, and flash attention, where it is asked for."""

    library: str
    precision: str
    attention: str | None = None

    def options(self, device: str) -> dict[str, Any]:
        """What the library is told of device and attention."""
        if self.library == "isotune":
            return {"attention_dropout": 0.0} if self.attention else {}
        return {"device": device, "attention": self.attention}


def measure(
    add: Callable[[str, str], None], device: str, rounds: int, cache: Path, log: Path
) -> None:
    """Gives the title and the text of each table to `add`."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit(
            "gpu: torch sees no GPU; `python -m torch.utils.collect_env` says what it sees"
        )
    gpus = torch.cuda.device_count()
    name = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}" if gpus else "no GPU"
    if gpus:
        add("Attention on a GPU and on a CPU", attention(log))
    for model in (make_model(shape, cache) for shape in SHAPES):
        title = f"{model.name}, {name}"
        with one_gpu():
            for batch, chunk in CHUNKS.items():
                passes = f", {chunk} in a pass" if chunk else ""
                text = training(model, batch, device, rounds, log)
                add(
                    f"Training, {title}, {batch:,} sentences a step{passes}", f"{text}\n\n{DROPPED}"
                )
            add(f"Encoding, {title}", encoding(model, device, rounds, cache))
            add(f"Losses after training, {title}", learned(model, log, device))
        if gpus > 1:
            add(
                f"Training on {gpus} GPUs, {title}, 512 sentences a step",
                together(model, 512, gpus, rounds, log),
            )


@contextmanager
def one_gpu() -> Iterator[None]:
    """Lets new processes see the first GPU alone.

    sentence-transformers would divide batches among all.
    """
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = (before or "0").split(",")[0]
    try:
        yield
    finally:
        if before is None:
            del os.environ["CUDA_VISIBLE_DEVICES"]
        else:
            os.environ["CUDA_VISIBLE_DEVICES"] = before


def lines() -> list[Line]:
    """The lines of a table."""
    peers = [Line("sentence-transformers", "float32"), Line("sentence-transformers", "bfloat16")]
    if find_spec("flash_attn"):
        peers.append(Line("sentence-transformers", "bfloat16", FLASH))
    return [
        *peers,
        Line("isotune", "float32"),
        Line("isotune", "bfloat16"),
        Line("isotune", "bfloat16", FLASH),
    ]


def make_model(name: str, folder: Path) -> Path:
    """Writes a BERT with random weights, and the bundled model's tokenizer."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    from isotune.bundled import MODEL_FOLDER

    path = folder / name
    torch.manual_seed(0)
    BertModel(BertConfig(**SHAPES[name])).save_pretrained(path)  # type: ignore[arg-type]
    AutoTokenizer.from_pretrained(MODEL_FOLDER).save_pretrained(path)
    return path


def attention(log: Path) -> str:
    """What the tests of attention on a GPU say; ends the program if one fails or is skipped."""
    tests = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--noconftest",
        "tests/kernels/test_attention_cuda.py",
    ]
    done = subprocess.run(tests, cwd=ROOT, capture_output=True, text=True, check=False)
    with log.open("a") as file:
        file.write(done.stdout + done.stderr)
    if done.returncode or "skipped" in done.stdout:
        raise SystemExit(done.stdout + done.stderr)
    return f"`{' '.join(tests[1:])}`: {done.stdout.strip().splitlines()[-1]}"


def training(model: Path, batch: int, device: str, rounds: int, log: Path) -> str:
    """The table of training speed and memory, in Markdown."""
    count = max(1, SENTENCES // batch)
    options: dict[str, Any] = {"model": str(model), "batch": batch, "chunk": CHUNKS[batch]}
    options["texts"] = sentences(batch * (count * (rounds + 1) + 1))
    timings: dict[Line, list[Timing]] = {}
    for line in lines():
        told = line.options(device)
        settings = {
            line: {"contender": line.library, "precision": line.precision, **options, **told}
        }
        try:
            with waiting(settings, count, log) as runs:
                timings[line] = [runs[line]() for _ in range(rounds + 1)][1:]
        except RuntimeError:  # the process has ended: memory is the usual reason
            timings[line] = []
    return speeds(timings, batch * count, log)


def encoding(model: Path, device: str, rounds: int, cache: Path) -> str:
    """The table of encoding speed and memory, in Markdown."""
    texts, _ = scored_pairs(ENCODED)
    texts = (texts * (ENCODED // len(texts) + 1))[:ENCODED]
    timings: dict[Line, list[Timing]] = {}
    for line in lines()[:-1]:  # isotune encodes in bfloat16 by flash attention anyway
        peer = (
            {} if line.library == "isotune" else {"attention": line.attention, "batch": PEER_BATCH}
        )
        with encoders(cache) as loaded:
            encode = loaded.load(
                line.library, model, precision=line.precision, threads=1, device=device, **peer
            )
            timings[line] = [encode(texts) for _ in range(rounds + 1)][1:]
    return speeds(timings, len(texts), cache / "workers.log")


def speeds(timings: Mapping[Line, Sequence[Timing]], count: int, log: Path) -> str:
    """The speeds of rounds of `count` sentences by the clock.

    They are compared with the peer's padded bfloat16.
    """
    seconds = {
        line: median(timing.wall for timing in times) for line, times in timings.items() if times
    }
    base = seconds.get(Line("sentence-transformers", "bfloat16"))
    rows = []
    for line, times in timings.items():
        row = [f"{line.library}{', flash attention' if line.attention else ''}", line.precision]
        if times:
            row += [
                f"{count / seconds[line]:,.0f}",
                f"**{base / seconds[line]:.2f}**" if base else "",
            ]
            row += [f"{spread([timing.wall for timing in times]):.0%}"]
            row += [f"{max(timing.gpu_memory for timing in times):.1f}"]
        else:
            row += [f"ended early, see the end of {log.name}", "", "", ""]
        rows.append(row)
    columns = [
        "library",
        "precision",
        "sentences a second",
        "speed-up against sentence-transformers in bfloat16",
    ]
    return table([*columns, "spread", "peak GPU memory, GB"], rows)


def together(model: Path, batch: int, gpus: int, rounds: int, log: Path) -> str:
    """The table of isotune's training by one process and by one for each GPU, in Markdown."""
    count = max(1, SENTENCES // batch)
    options: dict[str, Any] = {
        "contender": "isotune",
        "precision": "bfloat16",
        "model": str(model),
        "batch": batch,
    }
    options["texts"] = sentences(batch * (count * (rounds + 1) + 1))
    rows = []
    for processes in (1, gpus):
        with waiting({processes: {"processes": processes, **options}}, count, log) as runs:
            walls = [runs[processes]().wall for _ in range(rounds + 1)][1:]
        rows.append([processes, f"{batch * count / median(walls):,.0f}", f"{spread(walls):.0%}"])
    return table(["processes", "sentences a second", "spread"], rows)
