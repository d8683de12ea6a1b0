"""Adds to the documentation site what does not lie in docs/: the pages of the root, and a page for each public name."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import isotune

ROOT = Path(__file__).parents[1]
ROOT_PAGES = {"README.md": "index.md"} | {
    name: name for name in ("AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
}
MEASUREMENTS = "benchmarks/results"  # a folder of pages that docs/ links to


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the public names into the navigation."""
    config.nav.append({"Names": [{name: page} for name, page in _pages_of_names().items()]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    for source, page in ROOT_PAGES.items():
        text = (ROOT / source).read_text("utf-8")
        text = re.sub(r"\]\(docs/", "](", text).replace("](README.md", "](index.md")
        files.append(File.generated(config, page, content=text))
    for path in sorted((ROOT / MEASUREMENTS).glob("*.md")):
        files.append(File.generated(config, f"{MEASUREMENTS}/{path.name}", content=path.read_text("utf-8")))
    for name, page in _pages_of_names().items():
        files.append(File.generated(config, page, content=f"::: isotune.{name}\n"))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Leads links out of docs/ to the pages that stand in their place."""
    return markdown.replace("](../", "](")


def _pages_of_names() -> dict[str, str]:
    """The page of each public name. Pages of functions end differently: some file systems ignore the case of names."""
    public = sorted(set(isotune.__all__) - {"__version__"}, key=str.lower)
    return {name: f"names/{name}{'-function' if name.islower() else ''}.md" for name in public}
