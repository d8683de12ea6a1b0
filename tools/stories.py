"""Executes the notebooks of docs/stories and stores their outputs.

Usage: `python tools/stories.py [NAME...]`.
"""

import os
import re
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

STORIES = Path(__file__).parents[1] / "docs" / "stories"
HOME = "/home/you/stories"  # stands in the outputs for the folder of the execution
PLAIN = {
    "COLUMNS": "100",
    "HF_HUB_OFFLINE": "1",
    "NO_COLOR": "1",
    # `!isotune` is that of this Python.
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONWARNINGS": "ignore:IProgress",  # tqdm asks for ipywidgets
    "TTY_COMPATIBLE": "0",  # no progress bars
}


def execute(notebook: Path, folder: Path) -> nbformat.NotebookNode:
    """Executes a notebook in a folder, and returns it with plain outputs.

    The folder gets the stories' data.

    Raises:
        CellExecutionError: a cell failed.
    """
    for data in STORIES.glob("*.tsv"):
        shutil.copy(data, folder)
    story = nbformat.read(notebook, as_version=4)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HF_", "ISOTUNE_"))
    }
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(story, timeout=1800, resources=resources).execute(env=environment | PLAIN)
    for cell in story.cells:
        if cell.cell_type == "code":
            cell.metadata.pop("execution", None)
            cell.outputs = _plain(cell.outputs, folder)
    story.metadata["language_info"] = {"name": "python"}
    return story


def text_of(cell: nbformat.NotebookNode) -> str:
    """Returns what a cell printed."""
    return "".join(output.get("text", "") for output in cell.outputs)


def _plain(outputs: list[nbformat.NotebookNode], folder: Path) -> list[nbformat.NotebookNode]:
    """Returns the outputs without this machine's folder and without carriage returns.

    The parts of a stream are joined.
    """
    plain: list[nbformat.NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream":
            output.text = output.text.replace("\r\n", "\n").replace(str(folder.resolve()), HOME)
            output.text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", output.text)
            if plain and plain[-1].get("name") == output.name:
                plain[-1].text += output.text
                continue
        plain.append(output)
    return plain


if __name__ == "__main__":
    for path in [STORIES / f"{name}.ipynb" for name in sys.argv[1:]] or sorted(
        STORIES.glob("*.ipynb")
    ):
        with TemporaryDirectory() as temporary:
            path.write_text(
                nbformat.writes(execute(path, Path(temporary))).rstrip() + "\n",
                "utf-8",
                newline="\n",
            )
