"""Adds pages to the documentation site.

They are the root's pages, the commands, a page for each public name, and the notebooks.
"""

import json
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import isotune
from isotune.cli import main
from isotune.cli.app import COMMANDS
from isotune.methods import OPTIONS

ROOT = Path(__file__).parents[1]
HOME = "index.md"
ROOT_NAMES = ("AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md")
ROOT_PAGES = {"README.md": HOME} | {name: name for name in ROOT_NAMES}
FIRST_STEPS = """
<div class="first-steps" markdown>
[Get started](start.md){ .md-button .md-button--primary }
[Is it better for my text?](stories/fifty-labels.md){ .md-button }
[Questions](faq.md){ .md-button }
</div>

<div class="grid cards" markdown>

-   **You have questions with answers**, or titles with bodies

    [Your documents, better search](stories/better-search.md)

-   **You have texts with labels**

    [From labels to predictions](stories/labels-to-predictions.md)

-   **You have plain sentences**

    [From questions to a search page](stories/search-page.md)

-   **You compare methods**

    [Five methods compared honestly](stories/five-methods.md)

</div>
"""  # stands on the first page, after the first paragraph of the README
MEASUREMENTS = "benchmarks/results"  # a folder of pages that docs/ links to


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the public names into the navigation."""
    config.nav.append({"Names": [{name: page} for name, page in _pages_of_names().items()]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    for source, page in ROOT_PAGES.items():
        text = (ROOT / source).read_text("utf-8")
        text = re.sub(r"\]\(docs/", "](", text)
        files.append(File.generated(config, page, content=text))
    for path in sorted((ROOT / MEASUREMENTS).glob("*.md")):
        files.append(
            File.generated(config, f"{MEASUREMENTS}/{path.name}", content=path.read_text("utf-8"))
        )
    for path in sorted((ROOT / "docs" / "stories").glob("*.ipynb")):
        files.append(File.generated(config, f"stories/{path.stem}.md", content=_story(path)))
    files.append(File.generated(config, "commands.md", content=_commands()))
    for name, page in _pages_of_names().items():
        files.append(File.generated(config, page, content=f"::: isotune.{name}\n"))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Leads links out of docs/, and to notebooks, to the pages that stand in their place.

    The first page gets the first steps.
    """
    if page.file.src_uri == HOME:
        title, paragraph, rest = markdown.split("\n\n", 2)
        markdown = f"{title}\n\n{paragraph}\n{FIRST_STEPS}\n{rest}"
    if "/" not in page.file.src_uri:
        markdown = markdown.replace("](../", "](").replace("](README.md", f"]({HOME}")
    return re.sub(r"\]\(([\w/.-]+)\.ipynb\)", r"](\1.md)", markdown)


def _commands() -> str:
    """The help of each command, and the options of each method of `isotune train`."""
    parts = [
        "# Commands",
        "Each command with all of its options, as `isotune COMMAND --help` prints them.",
    ]
    for words in [[name] for name in COMMANDS] + [["train", "--method", name] for name in OPTIONS]:
        with redirect_stdout(StringIO()) as printed:
            main([*words, "--help"])
        text = printed.getvalue().strip()
        options_of_method = re.search(r"╭─ Method .*?╯$", text, re.DOTALL | re.MULTILINE)
        shown = options_of_method[0] if len(words) > 1 and options_of_method else text
        parts.append(f"## isotune {' '.join(words)}\n\n```text\n{shown}\n```")
    return "\n\n".join(parts) + "\n"


def _story(path: Path) -> str:
    """A notebook as a page: its text, its code, and what the code printed."""
    parts = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```{'bash' if source.startswith('!') else 'python'}\n{source}\n```")
        if printed := "".join(
            line for output in cell["outputs"] for line in output["text"]
        ).rstrip():
            parts.append(f'```text {{title="Output"}}\n{printed}\n```')
    parts.append(f'[Download this story as a notebook]({path.name} "to run or change it")')
    return "\n\n".join(parts) + "\n"


def _pages_of_names() -> dict[str, str]:
    """The page of each public name.

    Pages of functions end differently: some file systems ignore the case of names.
    """
    public = sorted(set(isotune.__all__) - {"__version__"}, key=str.lower)
    return {name: f"names/{name}{'-function' if name.islower() else ''}.md" for name in public}
