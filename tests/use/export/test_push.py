"""`isotune push` to the local hub, by huggingface_hub as it is: what arrives, what is said, what is refused."""

from __future__ import annotations

from pathlib import Path

import huggingface_hub
import pytest

from isotune.cli import main
from isotune.encoder.encoder import Encoder
from isotune.use.export.push import prepare, push
from tests.hub.server import TOKEN, LocalHub

# huggingface_hub uploads large files by an argument that httpx2 has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    encoder = Encoder.load(tiny_model)
    encoder.save(tmp_path / "encoder")
    return tmp_path / "encoder"


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)


@pytest.mark.usefixtures("token")
def test_an_encoder_is_the_same_when_it_comes_back(
    local_hub: LocalHub, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / ".git").mkdir()
    for hidden in (".env", ".git/config"):
        (folder / hidden).write_text("secret")
    (folder / "notes [1].txt").write_text("a name that reads as a pattern")
    (folder / "notes 1.txt").write_text("a file that fits the pattern")
    assert main(["push", str(folder), "me/tiny"]) == 0
    head, *lines, last = capsys.readouterr().out.splitlines()
    assert "from" in head
    assert "to me/tiny (public, new):" in head
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} - {".env", ".git/config"}
    assert {line.strip() for line in lines} == files
    assert "README.md" in files  # the card was made
    assert last == f"{local_hub.url}/me/tiny"
    repository = local_hub.find("model", "me/tiny")
    assert repository
    assert {path: (folder / path).read_bytes() for path in files} == repository.revisions["main"]
    assert Encoder.load("me/tiny").fingerprint() == Encoder.load(folder).fingerprint()


@pytest.mark.usefixtures("token")
def test_a_second_upload_keeps_what_only_the_hub_has(local_hub: LocalHub, folder: Path) -> None:
    local_hub.add("me/tiny", {"notes.txt": "kept", "config.json": "old"})
    upload = prepare(folder, "me/tiny")
    assert upload.exists
    push(upload)
    repository = local_hub.find("model", "me/tiny")
    assert repository
    assert repository.revisions["main"]["notes.txt"] == b"kept"
    assert repository.revisions["main"]["config.json"] == (folder / "config.json").read_bytes()


@pytest.mark.usefixtures("token")
def test_a_private_repository(local_hub: LocalHub, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["push", str(folder), "me/tiny", "--private"]) == 0
    assert "(private, new)" in capsys.readouterr().out
    assert huggingface_hub.HfApi().model_info("me/tiny").private
    assert main(["push", str(folder), "me/tiny", "--private"]) == 0
    assert "(private, exists)" in capsys.readouterr().out
    local_hub.add("me/public", {"config.json": "{}"})
    assert main(["push", str(folder), "me/public", "--private"]) == 2
    assert "me/public: it is public already" in capsys.readouterr().err


@pytest.mark.usefixtures("token")
def test_what_the_hub_refuses_is_one_line(
    local_hub: LocalHub, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*words: object) -> str:
        assert main(["push", *map(str, words)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    assert "others/tiny: the token may not do this" in refused(folder, "others/tiny")
    assert "repository 'tiny': write OWNER/NAME" in refused(folder, "tiny")
    assert "repository me/ti ny: Repo id must" in refused(folder, "me/ti ny")
    assert f"its encoder is {folder}" in refused(folder.parent, "me/tiny")
    local_hub.fail("/commit/", 403)
    assert "me/tiny: the token may not do this" in refused(folder, "me/tiny")
    local_hub.stop()
    assert "me/tiny: the hub can't be used" in refused(folder, "me/tiny")
    monkeypatch.delenv("HF_TOKEN")
    assert "there is no token for the hub: make one that may write at http" in refused(folder, "me/tiny")
