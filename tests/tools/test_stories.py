from pathlib import Path

import nbformat
import pytest

from tools.stories import STORIES, execute, text_of

NOTEBOOKS = sorted(STORIES.glob("*.ipynb"))
UNWANTED = ["\x1b", "\r", "\b", "Warning", "Error", "/tmp/", "/root/", "/work/"]
stories = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.mark.slow
@stories
def test_a_story_runs_and_prints_again_what_is_always_the_same(
    notebook: Path, tmp_path: Path
) -> None:
    stored, again = nbformat.read(notebook, as_version=4), execute(notebook, tmp_path)
    same = [
        (a, b)
        for a, b in zip(stored.cells, again.cells, strict=True)
        if "same" in a.metadata.get("tags", ())
    ]
    assert same
    for before, after in same:
        assert text_of(before) == text_of(after), before.source


@stories
def test_a_story_is_stored_with_plain_outputs(notebook: Path) -> None:
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type == "code":
            assert [(output.output_type, output.name) for output in cell.outputs] in (
                [],
                [("stream", "stdout")],
            )
            found = [sign for sign in UNWANTED if sign in text_of(cell)]
            assert not found, cell.source
