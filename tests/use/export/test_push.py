"""`isotune push`: which files are uploaded, what comes back from the hub, and what is refused."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from huggingface_hub import HfApi
from huggingface_hub.utils import filter_repo_objects

from isotune.cli import main
from isotune.encoder.encoder import Encoder
from tests.hub.server import TOKEN, LocalHub


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    Encoder.load(tiny_model).save(tmp_path / "encoder")
    return tmp_path / "encoder"


def test_an_encoder_is_the_same_when_it_comes_back(
    local_hub: LocalHub, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(_: HfApi, repo_id: str, *, private: bool, exist_ok: bool) -> None:
        assert exist_ok
        if not local_hub.find("model", repo_id):
            local_hub.add(repo_id, {}, private=private)

    def upload(_: HfApi, *, repo_id: str, folder_path: Path, ignore_patterns: Sequence[str], **__: str) -> None:
        names = [str(path.relative_to(folder_path)) for path in folder_path.rglob("*") if path.is_file()]
        names = list(filter_repo_objects(names, ignore_patterns=list(ignore_patterns)))
        local_hub.add(repo_id, {name: (folder_path / name).read_bytes() for name in names}, private=True)

    monkeypatch.setattr(HfApi, "create_repo", create)
    monkeypatch.setattr(HfApi, "upload_folder", upload)
    (folder / ".git").mkdir()
    (folder / "deep").mkdir()
    for hidden in (".env", ".git/config", "deep/.secret"):
        (folder / hidden).write_text("secret")
    assert main(["push", str(folder), "me/tiny", "--private"]) == 0
    assert capsys.readouterr().out == f"{local_hub.url}/me/tiny\n"
    repository = local_hub.find("model", "me/tiny")
    assert repository
    assert "README.md" in repository.revisions["main"]  # the card was made
    assert not any("/." in f"/{name}" for name in repository.revisions["main"])
    assert Encoder.load("me/tiny").fingerprint() == Encoder.load(folder).fingerprint()
    local_hub.add("me/public", {"config.json": "{}"})
    assert main(["push", str(folder), "me/public", "--private"]) == 2
    assert "me/public: it is public already" in capsys.readouterr().err


def test_what_is_refused_is_one_line(
    local_hub: LocalHub, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*words: object) -> str:
        assert main(["push", *map(str, words)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    assert "repository 'tiny': write OWNER/NAME" in refused(folder, "tiny")
    assert "repository me/ti ny: " in refused(folder, "me/ti ny")
    assert f"its encoder is {folder}" in refused(folder.parent, "me/tiny")
    local_hub.fail("/api/repos/create", 403)
    assert "me/tiny: the token may not do this" in refused(folder, "me/tiny")
    local_hub.stop()
    assert "me/tiny: the upload failed" in refused(folder, "me/tiny")
    monkeypatch.delenv("HF_TOKEN")
    assert "there is no token for the hub: make one that may write at http" in refused(folder, "me/tiny")
