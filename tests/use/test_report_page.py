"""The search box of a run's report, in a browser without a network."""

from pathlib import Path
from typing import Any

import pytest

from isotune.report import write_report
from tests.report.conftest import make_run
from tests.use.serve.test_page import opened


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (768, "light"), (1440, "light")])
def test_the_nearest_sentences_of_a_sentence_are_found(
    browser: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    address = write_report(make_run(tmp_path)).as_uri()
    page, wrong = opened(browser, address, width, scheme)
    before, after = page.locator(".nearest ol").all()
    assert page.locator("#chosen").inner_text() == "a cat"
    assert before.inner_text() == "0.90 b"
    assert after.inner_text() == "0.80 c"
    page.fill("#wanted", "B")
    page.click("#found button")
    assert page.locator("#chosen").inner_text() == "b"
    assert before.inner_text() == "0.90 c"
    page.fill("#wanted", "zebra")
    assert page.locator("#found").inner_text() == "No sentence has these words."
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert wrong == []
    page.close()
