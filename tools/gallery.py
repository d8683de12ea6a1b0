"""Makes the pictures of the report in docs/gallery: `python tools/gallery.py`, in about a minute.

It needs Chromium. The files of the run that the report shows are kept beside the pictures, so that
a test can say when a picture is stale: the page that is made of these files today has other words.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from isotune.evaluation.examples import Examples
from isotune.report import write_report

DOCS = Path(__file__).parents[1] / "docs"
GALLERY = DOCS / "gallery"
RUN = GALLERY / "questions-run"
WORDS = GALLERY / "report.txt"
COMMAND = ("train", "questions.tsv", "--recipe", "consert-sif", "--out", "questions-run")
FILES = (
    "data.json",
    "evaluation.json",
    "examples.json",
    "metrics.jsonl",
    "recipe.toml",
    "text-changes.json",
)
BELOW = "Your sentences"
"""The heading of the first section that is not in the picture."""

SIZE = "1000,1400"
COLOURS = 128
COLOUR_SCHEMES = {"dark": 0, "light": 1}
"""The numbers by which Chromium knows them."""


class Words(HTMLParser):
    """The words of a page, without its style, scripts and figures."""

    LEFT_OUT = ("style", "script", "svg")

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes where an element begins that is left out."""
        if tag in self.LEFT_OUT and not self._inside:
            self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        """Notes where this element ends."""
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        """Takes the words of a text."""
        if not self._inside:
            self.words += data.split()


def words_shown(page: Path) -> str:
    """The words of a report, as far as the picture goes: a line for each sentence."""
    parser = Words()
    parser.feed(page.read_text("utf-8"))
    shown, _, _ = " ".join(parser.words).partition(BELOW)
    return re.sub(r"(?<=[.!?]) (?=[A-Z])", "\n", shown.strip()) + "\n"


def main() -> None:
    """Makes the run, keeps its files, and takes the pictures of its report."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copy(DOCS / "stories" / "questions.tsv", folder)
        # The run is made with isotune's defaults, not those of this machine.
        own = {name: value for name, value in os.environ.items() if "ISOTUNE_" not in name}
        command = [sys.executable, "-m", "isotune", *COMMAND]
        subprocess.run(command, cwd=folder, env=own, check=True)
        RUN.mkdir(exist_ok=True)
        for name in FILES:
            text = (folder / "questions-run" / name).read_text("utf-8")
            (RUN / name).write_text(
                text.replace(f"{folder.resolve()}{os.sep}", ""), "utf-8", newline="\n"
            )
        _drop_neighbours(RUN / "examples.json")
        copy = shutil.copytree(RUN, folder / "copy" / RUN.name)
        page = write_report(copy)
        WORDS.write_text(words_shown(page), "utf-8", newline="\n")
        for scheme, number in COLOUR_SCHEMES.items():
            _take_picture(page, GALLERY / f"report-{scheme}.png", number)
    verdict = json.loads((RUN / "evaluation.json").read_text("utf-8"))["verdict"]
    print(f"docs/gallery.md has to say: {verdict['word']}, {verdict['why']}")


def _drop_neighbours(path: Path) -> None:
    """Drops the neighbours of sentences, which are below the picture and take most of the file."""
    examples = Examples.read(path).model_copy(update={"neighbours": None})
    path.write_text(examples.model_dump_json(indent=2) + "\n", "utf-8", newline="\n")


def _take_picture(page: Path, picture: Path, colour_scheme: int) -> None:
    """Takes a picture of the first lines of a page."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("not installed: Chromium, which takes the pictures")
    options = [
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        f"--window-size={SIZE}",
        f"--blink-settings=preferredColorScheme={colour_scheme}",
        f"--screenshot={picture}",
    ]
    subprocess.run([browser, *options, page.as_uri()], check=True, capture_output=True)
    # A page has few colours.
    Image.open(picture).convert("RGB").quantize(COLOURS).save(picture, optimize=True)


if __name__ == "__main__":
    main()
