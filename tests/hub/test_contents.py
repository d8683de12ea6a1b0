"""What stands for the content of a source: it differs where another text is read."""

from pathlib import Path

from isotune.data import DATASETS, content_of
from isotune.files import file_sha256
from tests.hub.server import LocalHub


def test_the_text_of_the_hub_and_that_of_a_file_have_different_contents(
    published: LocalHub, tmp_path: Path
) -> None:
    on_hub = content_of("stsb:dev")
    assert on_hub == [DATASETS["stsb"].hub.revision]
    assert len(content_of("sts-unlabelled")) > 7
    file = tmp_path / DATASETS["stsb"].splits["dev"].file
    file.parent.mkdir(parents=True)
    file.touch()
    assert content_of("stsb:dev") == [DATASETS["stsb"].splits["dev"].sha256] != on_hub


def test_a_source_of_the_hub_has_its_commit(local_hub: LocalHub) -> None:
    source = "hub:a/notes/notes.txt"
    first = local_hub.add("a/notes", {"notes.txt": "one\n"}, kind="dataset")
    assert content_of(source) == [first]
    second = local_hub.add("a/notes", {"notes.txt": "two\n"}, kind="dataset")
    assert content_of(source) == [second] != [first]


def test_what_cannot_be_read_has_no_content(published: LocalHub, tmp_path: Path) -> None:
    published.stop()
    assert content_of("stsb:dev") == content_of("none.txt") == content_of("") == []
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.txt").write_text("two\n")
    both = [file_sha256(tmp_path / name) for name in ("a.txt", "b.txt")]
    assert content_of("*.txt") == content_of(str(tmp_path)) == both
