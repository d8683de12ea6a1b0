"""The page at the server's root in a browser."""

import re

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from isotune.encoder.encoder import Encoder
from tests.use.serve.conftest import Running, Serve


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

    page.fill("#first", "a dog")
    page.fill("#second", "the small cat")
    page.press("#second", "Enter")
    page.wait_for_selector(".bar")
    first, second = tiny.encode(["a dog", "the small cat"], normalize=True)
    assert float(page.locator(".bar b").first.inner_text()) == pytest.approx(
        float(first @ second), abs=6e-4
    )
    assert page.locator(".bar").count() == 2  # an encoder each

    page.fill("#texts", "\n".join(sentences[:4] + sentences[:1]))  # two of the five are the same
    page.click("#list button")
    page.wait_for_selector(".heat td")
    shown = np.array(page.locator(".map").first.locator("td").all_inner_texts(), float).reshape(
        5, 5
    )
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
