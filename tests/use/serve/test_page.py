"""The page at the server's root in a browser."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from isotune.encoder.encoder import Encoder
from isotune.use.search import Document, Index
from tests.use.serve.conftest import Running, Serve, running


def opened(
    browser: Browser, url: str, width: int = 1440, scheme: str = "light"
) -> tuple[Page, list[str]]:
    """A page, and what goes wrong in it: errors, and requests to anything but the server."""
    wrong: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page.on(
        "console",
        lambda message: (
            wrong.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith(url) else wrong.append(request.url),
    )
    page.goto(url)
    return page, wrong


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light")])
def test_the_page_shows_similarities_heat_maps_clusters_and_hits(
    browser: Browser,
    searching: Running,
    tiny: Encoder,
    sentences: list[str],
    width: int,
    scheme: str,
) -> None:
    page, wrong = opened(browser, searching.url, width, scheme)
    page.wait_for_selector("text=Encoders: tiny, cls.")
    # The search comes first, and is seen without scrolling.
    assert page.evaluate("document.activeElement.id") == "query"
    assert page.locator("#search button").bounding_box()["y"] < 400
    page.click("#compare summary")

    page.fill("#first", "a dog")
    page.fill("#second", "the small cat")
    page.press("#second", "Enter")
    page.wait_for_selector(".bar")
    first, second = tiny.encode(["a dog", "the small cat"], normalize=True)
    assert float(page.locator(".bar b").first.inner_text()) == pytest.approx(
        float(first @ second), abs=6e-4
    )
    assert page.locator(".bar").count() == 2  # an encoder each
    left_edges = {bar.bounding_box()["x"] for bar in page.locator(".bar meter").all()}
    assert len(left_edges) == 1

    page.fill("#texts", "\n".join(sentences[:4] + sentences[:1]))  # two of the five are the same
    page.click("#list button")
    page.wait_for_selector(".heat td")
    shown = np.array(page.locator(".map").first.locator("td").all_inner_texts(), float).reshape(
        5, 5
    )
    labels = page.locator(".map").first.locator("th").all_inner_texts()
    assert sorted(labels) == sorted(sentences[:4] + sentences[:1])
    vectors = tiny.encode(sentences[:4] + sentences[:1], normalize=True)
    np.testing.assert_allclose(
        np.sort(shown, axis=None), np.sort(vectors @ vectors.T, axis=None), atol=6e-3
    )
    page.locator("#threshold-0").fill("1")
    groups = [
        item.split("\n") for item in page.locator(".map").first.locator("ol > li").all_inner_texts()
    ]
    assert sorted(map(len, groups)) in (
        [1, 1, 1, 2],
        [1, 1, 1, 1, 1],
    )  # rounding may keep equal texts below 1
    page.locator("#threshold-0").fill("-0.2")
    assert page.locator(".map").first.locator("ol > li").count() == 1

    page.fill("#query", sentences[7])
    page.press("#query", "Enter")
    page.wait_for_selector("#search-result li")
    assert page.locator("#search-result li").first.inner_text().startswith(sentences[7])

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert wrong == []
    page.close()


LONG = "begin " + "filler " * 60 + "the <b>pump</b> of the small engine leaks " + "filler " * 60


@pytest.fixture
def passages(tiny: Encoder, tmp_path: Path) -> Iterator[Running]:
    """A server with long texts, titles and addresses, and with a title of its own."""
    index = Index.create(tmp_path / "index", tiny)
    rows = {
        "a": (LONG, "Engines <i>", "https://example.org/engines"),
        "b": ("a short text", "Bad", "javascript:alert(1)"),
    }
    index.add(
        Document(name, text, {"title": title, "url": url, "year": 2020})
        for name, (text, title, url) in rows.items()
    )
    with running({"tiny": tiny}, index=index, title="Manuals <b>") as server:
        yield server


def test_a_hit_has_its_title_a_snippet_and_the_words_of_the_query(
    browser: Browser, passages: Running
) -> None:
    page, wrong = opened(browser, passages.url, 360)
    page.wait_for_selector("text=Encoders: tiny.")
    assert page.title() == page.locator("h1").inner_text() == "Manuals <b>"
    page.fill("#query", "Why leaks the PUMP?")
    page.press("#query", "Enter")
    page.wait_for_selector("#search-result li")
    hit = page.locator("li", has_text="Engines")
    assert hit.locator("a").get_attribute("href") == "https://example.org/engines"
    assert hit.locator("a").inner_text() == "Engines <i>"
    snippet = hit.locator(".snippet")
    assert snippet.inner_text().startswith("… filler")
    assert snippet.inner_text().endswith("filler …")
    assert len(snippet.inner_text()) <= 244
    assert snippet.locator("mark").all_inner_texts() == ["pump", "leaks"]
    assert "year: 2020" in hit.inner_text()
    hit.locator("summary").click()
    assert LONG.strip() in hit.inner_text()
    other = page.locator("li", has_text="a short text")
    assert other.inner_text().startswith("Bad")
    assert other.locator("a").count() == 0
    assert "url: javascript:alert(1)" in other.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert wrong == []
    page.close()


def test_hits_of_any_script_show_whole_words_and_where_they_are_cut(
    browser: Browser, tiny: Encoder, tmp_path: Path
) -> None:
    index = Index.create(tmp_path / "index", tiny)
    evil = "</script><script>alert(1)</script> **bold** \x07 \u202e"
    texts = {
        "hindi": "\u0939\u093f\u0928\u094d\u0926\u0940 \u0939",
        "chinese": "\u8bcd" * 300,
        "word": "w" * 300,
        "evil": evil,
    }
    index.add(Document(name, text, {"title": evil}) for name, text in texts.items())
    with running({"tiny": tiny}, index=index, title=evil) as server:
        page, wrong = opened(browser, server.url, 360)
        page.wait_for_selector("text=Encoders: tiny.")
        page.fill("#query", "\u0939 <b>")
        page.press("#query", "Enter")
        page.wait_for_selector("#search-result li")
        hits = {name: page.locator("li", has_text=f"\u00b7 {name}") for name in texts}
        # The letter begins the first word, and is the second.
        assert hits["hindi"].locator("mark").count() == 1
        for name in ("chinese", "word"):
            assert hits[name].locator(".snippet").inner_text() == f"{texts[name][:240]} \u2026"
        assert evil.strip("\u202e ") in hits["evil"].locator(".text").text_content()
        assert page.locator("b, script").count() == page.locator("script[src]").count()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert wrong == []
        page.close()


def test_the_heat_map_is_used_by_keyboard_after_an_error(browser: Browser, server: Running) -> None:
    page, wrong = opened(browser, server.url)
    page.wait_for_selector("text=Encoders:")
    page.fill("#texts", "alone")
    page.click("#list button")
    assert page.locator("#error").inner_text() == "1 sentence; write 2 to 60, one a line"
    page.fill("#texts", "a dog\na cat\nthe house")
    page.focus("#list button")
    page.keyboard.press("Enter")
    page.wait_for_selector(".heat td")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    said = page.locator(".said").first.inner_text()
    assert re.fullmatch(r"-?\d\.\d{3}: (a dog|a cat|the house) / (a dog|a cat|the house)", said)
    assert len(set(said.split(": ")[1].split(" / "))) == 2
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "threshold-0"
    assert page.locator("#search-section").is_hidden()
    assert wrong == []
    page.close()


def test_a_server_with_keys_is_used_with_a_key(browser: Browser, serve: Serve) -> None:
    page, wrong = opened(browser, serve(keys=["secret"]).url)
    page.wait_for_selector("text=This server needs an API key.")
    page.fill("#key", "secret")
    page.press("#key", "Enter")
    page.wait_for_selector("text=Encoders: tiny.")
    page.click("#pair button")
    page.wait_for_selector(".bar")
    assert wrong == []
    page.close()


def test_the_page_has_no_address_that_a_proxy_at_a_path_would_miss(searching: Running) -> None:
    for path in ("/", "/page.js", "/page.css"):
        text = searching.client.get(path).text
        addresses = re.findall(
            r"""(?:href=|src=|ask\(|fetch\(|url\(|import\s*\(?|from\s)\s*["'`](.*?)["'`]""", text
        )
        assert addresses or path == "/page.css"
        for address in addresses:
            assert searching.client.get(f"/{address}").status_code in (200, 405)
            assert not address.startswith("/")
