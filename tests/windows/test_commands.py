"""The commands that most people use, in a process that refuses what Windows refuses."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]

# Prints and writes with the code page of Western Windows; its first argument is a model's folder.
COMMANDS = """
    import os, signal, sys, threading, time, urllib.request

    from tests.windows.emulation import install

    install()

    import isotune
    from isotune import cli, files

    files.WINDOWS = True
    model, = sys.argv[1:]

    def run(words, code=0):
        print(">", words, file=sys.stderr)
        assert cli.main(words.split()) == code

    def stop(record):
        if record["kind"] == "dev" and record["step"] == 2:
            signal.raise_signal(signal.SIGINT)

    options = {"recipe": "simcse-unsup", "dev": "pairs.tsv", "tasks": ["pairs.tsv"]}
    length = {"steps": 8, "eval_every": 2, "batch_size": 8}
    stopped = isotune.train("text.txt", model=model, out="run", watch=stop, **options, **length)
    assert stopped.stopped == "SIGINT"
    run("train --out run --resume")
    short = f"--model {model} --steps 2 --batch-size 8 --tasks pairs.tsv"
    run(f"train text.txt {short} --recipe bert-flow --out flow")
    run(f"train labels.csv --model {model} --method classifier --columns sentence=text label=label"
        " --out labelled")
    run(f"train text.txt {short} --recipe distil --teachers {model} --out taught")
    # The teacher's vectors are kept.
    run(f"train text.txt {short} --recipe distil --teachers {model} --out taught-again")
    run("encode run/encoder text.txt --out vectors.npy")
    run("encode run/encoder text.txt --out vectors.npy", code=2)
    run("encode run/encoder text.txt more.txt --out vectors/")
    run("index run/encoder text.txt --out index")
    run("index run/encoder more.txt --out index")
    run("search index dog --hybrid")
    run("rows index --delete --where id='1'")
    for _ in range(2):
        run(f"evaluate run/encoder --tasks pairs.tsv --calibrate")
    run(f"evaluate run/encoder {model} --tasks pairs.tsv")
    run("report run")
    run("export run/encoder --out onnx")

    def ask():
        while True:
            time.sleep(0.2)
            try:
                page = urllib.request.urlopen("http://127.0.0.1:8931/").read()
                break
            except OSError:
                continue
        assert b"</html>" in page
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=ask, daemon=True).start()
    run("serve run/encoder --index index --port 8931", code=130)
    left = [path for path in os.listdir() if path.startswith(".") and path != ".isotune"]
    assert not left, left
    for name in ("run", "flow", "taught"):
        left = set(os.listdir(name))
        assert "report.html" in left
        assert not any(path.endswith((".part", ".old", ".safetensors")) for path in left), left
"""


@pytest.mark.slow
def test_commands_as_on_windows(tiny_model: Path, sentences: list[str], tmp_path: Path) -> None:
    texts = [f"{sentence} — Größe {number}, 大きい" for number, sentence in enumerate(sentences)]
    alike = [f"{text}\t{text}\t5" for text in texts[::2]]
    different = [f"{one}\t{other}\t1" for one, other in zip(texts[::2], texts[1::2], strict=True)]
    labels = [f'"{text}",{number % 2}' for number, text in enumerate(texts)]
    contents = {
        "text.txt": texts,
        "more.txt": ["a blue ball", "a red house"],
        "pairs.tsv": ["sentence1\tsentence2\tscore", *alike, *different],
        "labels.csv": ["text,label", *labels],
    }
    for name, lines in contents.items():
        # As Notepad writes it.
        (tmp_path / name).write_text("\r\n".join(lines), "utf-8-sig", newline="")
    usual = {name: value for name, value in os.environ.items() if name != "ISOTUNE_DATA"}
    code_page = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "cp1252"}
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", dedent(COMMANDS), str(tiny_model)],
        env={**usual, **code_page, "LC_ALL": "C", "PYTHONPATH": paths},
        cwd=tmp_path,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode("cp1252", "replace")
