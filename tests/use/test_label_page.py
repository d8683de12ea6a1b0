"""The page of `isotune label --browser`: keys, buttons, ends, and whom it answers."""

from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from isotune.errors import InputError
from isotune.evaluation.labelling.session import Session, read_labels
from isotune.use.label_page import score_in_browser
from tests.use.serve.test_page import opened

PAIRS = [("a <b>cat</b>", "a dog"), ("a car", "the car"), ("rain", "a stone")]


def begin(path: Path, pairs: list[tuple[str, str]] = PAIRS) -> tuple[str, Thread]:
    """Starts a session in a thread; gives its address."""
    addresses: Queue[str] = Queue()
    thread = Thread(
        target=score_in_browser,
        args=[Session(pairs, path), addresses.put, "127.0.0.1"],
        daemon=True,
    )
    thread.start()
    return addresses.get(timeout=10), thread


def post(address: str) -> None:
    urlopen(Request(address, method="POST"), timeout=10).close()


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light")])
def test_pairs_are_scored_by_keys_and_buttons(
    browser: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    path = tmp_path / "pairs.tsv"
    address, thread = begin(path)
    page, wrong = opened(browser, address, width, scheme)
    page.wait_for_selector("text=0 of 3 pairs scored")
    assert page.locator("#first").inner_text() == "a <b>cat</b>"
    page.keyboard.press("4")
    page.wait_for_selector("text=1 of 3 pairs scored")
    page.click("button[value=u]")
    page.wait_for_selector("text=0 of 3 pairs scored")
    page.click("button[value=u]")
    page.wait_for_selector("text=nothing to undo")
    page.click("text=the same meaning")
    page.wait_for_selector("text=a car")
    page.keyboard.press("s")
    page.wait_for_selector("text=a stone")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("0")
    page.wait_for_selector("text=the terminal has the result")
    thread.join(10)
    assert [(label.sentence1, label.score) for label in read_labels(path)] == [
        ("a <b>cat</b>", 5),
        ("rain", 0),
    ]
    assert wrong == []


def test_an_answer_sent_twice_counts_once_and_only_the_address_with_the_secret_answers(
    tmp_path: Path,
) -> None:
    path = tmp_path / "pairs.tsv"
    address, _ = begin(path)
    root = address.rsplit("/", 2)[0]
    for call in (
        lambda: urlopen(root),
        lambda: urlopen(address + "x"),
        lambda: post(f"{root}/other/0/5"),
    ):
        with pytest.raises(HTTPError, match="404"):
            call()
    for place, answer in (
        ("0", "5"),
        ("0", "5"),
        ("9", "1"),
        ("x", "1"),
        ("1", "7"),
        ("1", "%00"),
        ("1", ""),
    ):
        post(f"{address}{place}/{answer}")
    assert [label.score for label in read_labels(path)] == [5]
    post(address + "1/q")


def test_what_fails_in_a_session_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"

    def enter(address: str) -> None:
        path.write_text("sentence1\tsentence2\tscore\na\tb\t4\n")
        Thread(target=post, args=[address + "0/3"]).start()

    with pytest.raises(InputError, match="another session writes into it"):
        score_in_browser(Session(PAIRS, path), enter, "127.0.0.1")
    assert path.read_text().endswith("a\tb\t4\n")
    with pytest.raises(
        InputError, match=r"host 192\.0\.2\.1: the page can't be served there .* an address of this"
    ):
        score_in_browser(Session(PAIRS, path), print, "192.0.2.1")


def test_long_texts_leave_room_for_the_scale(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    address, _ = begin(path, [("word " * 1000, "other " * 1000), ("a car", "the car")])
    page, _ = opened(browser, address, 1440, "light")
    page.wait_for_selector("text=0 of 2 pairs scored")
    height = page.evaluate("innerHeight")
    for name in ("first", "second"):
        box = page.locator(f"#{name}")
        assert box.evaluate("box => box.clientHeight") < 0.35 * height
        box.evaluate("box => { box.scrollTop = 1e6; }")
        assert box.evaluate("box => box.scrollTop") > height
    page.keyboard.press("u")
    page.wait_for_selector("text=nothing to undo")
    assert page.locator("#first").evaluate("box => box.scrollTop") == 0
    page.keyboard.press("q")
