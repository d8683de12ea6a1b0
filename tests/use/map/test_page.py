"""The page of a map in Chromium: what is drawn, found, selected, saved, by mouse and by keyboard; and its table."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isotune.cli import main
from isotune.use.map.page import write_map

BLUE, ORANGE, FAINT = (0, 114, 178), (213, 94, 0), (223, 227, 232)
# A square of nine sentences; "five" is in the middle. Sentence k is of group k % 2.
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight <b>&amp;</script>", "nine"]
PLANE = np.array([[k % 3, k // 3] for k in range(9)], np.float32)
GROUPS = ["odd", "even"] * 4 + ["odd"]
COLUMNS: dict[str, list[Any]] = {"group": GROUPS, "stars": [k * 1.5 for k in range(9)], "note": [None, *WORDS[1:]]}


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """A function that opens a map; whatever the page asks for or complains of fails the test."""
    problems: list[str] = []

    def opened(path: Path | None = None, **options: Any) -> Any:
        if path is None:
            path = tmp_path / "map.html"
            write_map(path, path.with_suffix(".parquet"), "Map of words.csv", WORDS, PLANE, pa.table(COLUMNS))
        page = browser.new_page(**{"viewport": {"width": 1000, "height": 700}, **options})
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: problems.append(request.url) if request.url[:4] == "http" else None)
        page.goto(path.as_uri())
        page.wait_for_selector("canvas[data-milliseconds]")
        return page

    yield opened
    assert problems == []


def colour_at(page: Any, x: float, y: float) -> tuple[int, ...]:
    """The colour of the canvas at shares of its width and height."""
    page.wait_for_timeout(100)  # until the next frame is drawn
    code = """([x, y]) => { const map = document.querySelector("canvas");
        return [...map.getContext("2d").getImageData(map.width * x, map.height * y, 1, 1).data].slice(0, 3); }"""
    return tuple(page.evaluate(code, [x, y]))


def tip(page: Any) -> str:
    page.wait_for_timeout(50)
    return str(page.locator("#tip").text_content()) if page.locator("#tip").is_visible() else ""


def middle(page: Any) -> tuple[float, float]:
    box = page.locator("canvas").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_hover_and_colours(opened: Callable[..., Any]) -> None:
    page = opened()
    x, y = middle(page)
    page.mouse.move(x + 3, y)
    assert tip(page) == "fivegroupoddstars6notefive"
    page.mouse.move(x + 60, y + 60)
    assert tip(page) == ""
    assert colour_at(page, 0.5, 0.5) == BLUE
    legend = page.locator("#legend button")
    assert legend.all_inner_texts() == ["odd\n5", "even\n4"]
    legend.nth(0).click()
    assert colour_at(page, 0.5, 0.5) == (255, 255, 255)
    page.select_option("#colour", "stars")
    assert colour_at(page, 0.5, 0.5) == (164, 141, 108)  # 6 is in the fifth of eight ranges
    assert legend.first.inner_text() == "0 to 1.5\n1"
    assert legend.nth(7).inner_text() == "10.5 to 12\n2"
    assert page.locator("#colour option").all_inner_texts() == ["nothing", "group", "stars"]  # notes are all different


def test_search_lists_shows_and_dims(opened: Callable[..., Any]) -> None:
    page = opened()
    page.fill("#search", "EIGHT")
    page.wait_for_selector("text=1 selected")
    assert colour_at(page, 0.5, 0.5) == FAINT
    (item,) = page.locator("#list button").all()
    assert item.inner_text() == WORDS[7]
    item.focus()
    assert tip(page).startswith(WORDS[7])
    page.fill("#search", "zzz")
    page.wait_for_selector("text=Nothing matches")
    assert colour_at(page, 0.5, 0.5) == BLUE


def test_what_is_in_view_can_be_selected_and_saved(opened: Callable[..., Any]) -> None:
    page = opened()
    x, y = middle(page)
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    page.mouse.down()
    page.mouse.move(x - 200, y)  # brings the right neighbour of the middle
    page.mouse.up()
    page.click("#view")
    page.wait_for_selector("text=2 selected")
    with page.expect_download() as download:
        page.click("#save")
    assert download.value.suggested_filename == "selection.jsonl"
    rows = [json.loads(line) for line in Path(download.value.path()).read_text("utf-8").splitlines()]
    assert rows == [
        {"sentence": "five", "group": "odd", "stars": 6, "note": "five"},
        {"sentence": "six", "group": "even", "stars": 7.5, "note": "six"},
    ]
    page.click("#clear")
    page.wait_for_selector("text=Nothing selected")


def test_everything_by_keyboard(opened: Callable[..., Any]) -> None:
    page = opened()
    page.focus("canvas")
    page.keyboard.press("+")
    assert tip(page).startswith("five")
    for _ in range(8):
        page.keyboard.press("+")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=1 selected")
    page.keyboard.press("0")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=9 selected")
    page.keyboard.press("ArrowUp")  # up: what is above comes to the middle
    for _ in range(30):
        if tip(page).startswith("eight"):
            break
        page.keyboard.press("ArrowUp")
    assert tip(page).startswith("eight")


def test_zoom_and_pan_with_the_mouse(opened: Callable[..., Any]) -> None:
    page = opened()
    x, y = middle(page)
    page.mouse.move(x, y)
    for _ in range(5):
        page.mouse.wheel(0, -300)
    page.mouse.move(x + 1, y)
    assert tip(page).startswith("five")  # zooming keeps the place under the pointer
    page.mouse.down()
    page.mouse.move(x + 101, y + 40, steps=4)
    page.mouse.up()
    assert tip(page).startswith("five")  # the point came along
    page.click("#all")
    page.mouse.move(x, y)
    assert tip(page).startswith("five")


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light")])
def test_the_page_fits_its_window(opened: Callable[..., Any], width: int, scheme: str) -> None:
    page = opened(viewport={"width": width, "height": 740}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("canvas").bounding_box()["height"] > 200
    assert colour_at(page, 0.5, 0.5) == BLUE
    assert (sum(colour_at(page, 0.4, 0.4)) < 100) == (scheme == "dark")


def test_a_hundred_thousand_points_are_drawn_at_once(opened: Callable[..., Any], tmp_path: Path) -> None:
    count = 100_000
    plane = np.random.default_rng(0).normal(size=(count, 2)).astype(np.float32)
    path = tmp_path / "large.html"
    groups = pa.table({"group": [str(k % 5) for k in range(count)]})
    write_map(path, path.with_suffix(".parquet"), "Large", ["a sentence"] * count, plane, groups)
    page = opened(path)
    page.focus("canvas")
    frames = []
    for key in ["ArrowLeft", "ArrowRight"] * 10:
        page.keyboard.press(key)
        page.wait_for_timeout(30)
        frames.append(float(page.get_attribute("canvas", "data-milliseconds")))
    assert min(frames) < 16  # on an idle machine most of them are; another process may take the core away


def test_the_table_beside_the_page(tmp_path: Path) -> None:
    table, given = tmp_path / "map.parquet", pa.table({**COLUMNS, "x": ["1", "two", None] * 3, "x_": ["3"] * 9})
    write_map(tmp_path / "map.html", table, "Words", WORDS, PLANE, given)
    columns = pq.read_table(table).to_pydict()
    assert columns["sentence"] == WORDS
    assert np.array_equal(np.stack([columns["x"], columns["y"]], axis=1), PLANE)
    assert columns["stars"] == COLUMNS["stars"]
    assert (columns["x_"], columns["x__"]) == (["1", "two", None] * 3, ["3"] * 9)


def test_the_command(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("body,stars\na dog,1\nthe man eats,2\na cat,3\nbig house,4\n")
    words = ["map", str(tiny_model), "a.csv", "--columns", "sentence=body", "--projection", "pca"]
    assert main(words) == 0
    assert capsys.readouterr().out == "map.html: 4 sentences; the same as a table: map.parquet\n"
    assert pq.read_table("map.parquet").to_pydict()["stars"] == [1, 2, 3, 4]
    assert main(words) == 2
    assert "map.html: it exists already" in capsys.readouterr().err
    assert main([*words, "--out", "map.png"]) == 2
    assert "--out map.png: a map is written as .html" in capsys.readouterr().err
    Path("two.txt").write_text("a dog\na cat\n")
    assert main(["map", str(tiny_model), "two.txt", "--out", "two.html"]) == 2
    assert "2 sentences: a map needs 3 or more" in capsys.readouterr().err
    assert not list(Path().glob("two.*ml"))
    assert main(["map", str(tiny_model), "a.csv", "--out", "a.csv/map.html"]) == 2
    assert "a.csv/map.html: it can't be written" in capsys.readouterr().err
