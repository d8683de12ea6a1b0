"""Rebuild the data and model files in src/isotune/bundled.

The README.md files there are written by hand.

    ISOTUNE_DATA=... python tools/make_bundled.py MODEL_FOLDER

The tool reads two files of `$ISOTUNE_DATA`: stsb/stsb.tsv.gz, and sts_originals.tar.xz, the
official packages of the STS tasks, for the licences and the attribution. It keeps only the subsets
of STS-B whose licences allow passing them on.
"""

import io
import os
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from safetensors.torch import load_file, save_file

from isotune.bundled import BUNDLED_DATA, MODEL_FOLDER
from isotune.data.records import read_file
from isotune.data.rows import Sentence, to_rows

OPEN_SUBSETS = ("images", "headlines", "answers-forums")
COLUMNS = ("subset", "sentence1", "sentence2", "score")


def make_stsb_open(data: Path, to: Path) -> None:
    """Writes the open subsets of STS-B, their licences and their attribution.

    The subsets are train.txt, dev.tsv and test.tsv.
    """
    records = [
        r for _, r in read_file(data / "stsb" / "stsb.tsv.gz") if r["subset"] in OPEN_SUBSETS
    ]
    train = to_rows("train", enumerate(r for r in records if r["split"] == "train"), Sentence)
    _write(to / "train.txt", dict.fromkeys(train))
    pairs = {
        s: [[r[c] for c in COLUMNS] for r in records if r["split"] == s] for s in ("dev", "test")
    }
    for split, lines in pairs.items():
        _write(to / f"{split}.tsv", [COLUMNS, *lines])

    with tarfile.open(data / "sts_originals.tar.xz") as originals:
        licence = _member(originals, "stsbenchmark/LICENSE.txt")
        forums_licence = _member(originals, "STS15/STS.input.answers-forums.LICENSE")
        forums = zipfile.ZipFile(io.BytesIO(_member(originals, "STS15/STS.answers-forums.zip")))
    (to / "LICENSE.txt").write_bytes(licence)
    (to / "answers-forums-LICENSE.txt").write_bytes(forums_licence)

    # {(sentence1, sentence2): author, author's page and address of the answer, for each of the two
    # sentences}
    sources: dict[tuple[object, object], list[str]] = {}
    for name in forums.namelist():
        if name.endswith(".tsv"):
            for line in (
                forums.read(name).decode().replace("\r\n", "\n").rstrip("\n").split("\n")[1:]
            ):
                sentence1, sentence2, _, *source = line.split("\t")
                sources[sentence1, sentence2] = source
    header = [
        "dev.tsv line",
        *(f"{field} {i}" for i in (1, 2) for field in ("author", "author page", "source")),
    ]
    attribution = [
        [number, *sources[sentence1, sentence2]]
        for number, (subset, sentence1, sentence2, _) in enumerate(pairs["dev"], 2)
        if subset == "answers-forums"
    ]
    _write(to / "answers-forums-sources.tsv", [header, *attribution])


def make_bert_tiny(model: Path, to: Path) -> None:
    """Write the model with float16 weights. Its README.md and LICENSE stay as they are."""
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(model / name, to / name)
    weights = load_file(model / "model.safetensors")
    save_file(
        {name: tensor.half() for name, tensor in weights.items()},
        to / "model.safetensors",
        {"format": "pt"},
    )


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(f"sts_originals/{name}")
    assert file is not None
    return file.read()


def _write(path: Path, lines: Iterable[Iterable[object]]) -> None:
    path.write_text(
        "".join("\t".join(map(str, line)) + "\n" for line in lines), encoding="utf-8", newline="\n"
    )


if __name__ == "__main__":
    make_stsb_open(Path(os.environ["ISOTUNE_DATA"]), BUNDLED_DATA / "stsb-open")
    make_bert_tiny(Path(sys.argv[1]), MODEL_FOLDER)
