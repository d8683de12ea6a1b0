import re
import runpy
from pathlib import Path

import pytest
from safetensors.torch import load_file

from isotune.bundled import BUNDLED_DATA, MODEL_FOLDER
from isotune.data import Sentence, available, read, read_scored_pairs

STSB_OPEN = BUNDLED_DATA / "stsb-open"
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def without_isotune_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ISOTUNE_DATA", raising=False)


def test_the_sample_needs_no_other_data() -> None:
    assert available("stsb-open")
    assert len(read_scored_pairs("stsb-open", "dev").scores) == 875
    assert len(read_scored_pairs("stsb-open:test").scores) == 500
    train = [row.sentence for row in read(["stsb-open:train"], Sentence)]
    assert len(train) == len(set(train)) == 5597
    assert len(list(read(["stsb-open"], Sentence))) == 5597 + 2 * (875 + 500)


def test_only_subsets_that_may_be_passed_on_are_in_it() -> None:
    assert set(read_scored_pairs("stsb-open", "dev").subsets) == {
        "images",
        "headlines",
        "answers-forums",
    }
    assert set(read_scored_pairs("stsb-open", "test").subsets) == {"images", "headlines"}


def test_every_stack_exchange_sentence_has_its_author_and_address() -> None:
    pairs = (STSB_OPEN / "dev.tsv").read_text().rstrip("\n").split("\n")
    required = {
        number for number, pair in enumerate(pairs, 1) if pair.startswith("answers-forums\t")
    }
    header, *sources = (
        (STSB_OPEN / "answers-forums-sources.tsv").read_text().rstrip("\n").split("\n")
    )
    assert header.startswith("dev.tsv line\tauthor 1\tauthor page 1\tsource 1\tauthor 2")
    listed = set()
    for source in sources:
        number, *both = source.split("\t")
        listed.add(int(number))
        for author, page, address in (both[:3], both[3:]):
            assert author
            site = re.fullmatch(r"(http://[a-z]+\.stackexchange\.com)/a/\d+", address)
            assert site
            assert page.startswith(f"{site[1]}/users/")
    assert listed == required
    assert len(sources) == len(required) == 375


def test_the_notices_of_the_release_are_there() -> None:
    notices = (STSB_OPEN / "LICENSE.txt").read_text()
    for notice in (
        "European Media Monitor",
        "PASCAL VOC-2008",
        "Stack Exchange Inc.",
        "licenses/by-sa/4.0",
    ):
        assert notice in notices
    assert "attribution requirements" in (STSB_OPEN / "answers-forums-LICENSE.txt").read_text()
    assert "Version 2.0, January 2004" in (MODEL_FOLDER / "LICENSE").read_text()


def test_the_model_is_the_checkpoint_in_float16(real_models: Path) -> None:
    checkpoint = load_file(real_models / "bert-tiny" / "model.safetensors")
    bundled = load_file(MODEL_FOLDER / "model.safetensors")
    assert bundled.keys() == checkpoint.keys()
    assert all((bundled[name] == weights.half()).all() for name, weights in checkpoint.items())


def test_the_sample_can_be_rebuilt(real_data: Path, tmp_path: Path) -> None:
    runpy.run_path(str(ROOT / "tools" / "make_bundled.py"))["make_stsb_open"](real_data, tmp_path)
    rebuilt = sorted(path.name for path in tmp_path.iterdir())
    assert rebuilt == sorted(path.name for path in STSB_OPEN.iterdir() if path.name != "README.md")
    for name in rebuilt:
        assert (tmp_path / name).read_bytes() == (STSB_OPEN / name).read_bytes(), name
