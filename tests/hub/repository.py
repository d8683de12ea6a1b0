"""What is in the local hub's repositories, and how the hub tells it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Repository:
    """A model or a dataset, with the files of each of its revisions."""

    kind: str
    name: str
    gated: bool = False
    revisions: dict[str, Mapping[str, bytes]] = field(
        default_factory=dict
    )  # branch, tag or commit -> path -> content

    def commit(self, revision: str) -> str:
        """The commit that a revision is: a hash of its files, so other files are another commit."""
        if len(revision) == 40:
            return revision
        files = self.revisions[revision]
        parts = [
            f"{path}:{hashlib.sha1(content).hexdigest()}" for path, content in sorted(files.items())
        ]
        return hashlib.sha1("\n".join([self.kind, self.name, *parts]).encode()).hexdigest()

    def add(self, revision: str, files: Mapping[str, bytes]) -> str:
        """Gives a revision these files; they can then be had by the commit too."""
        self.revisions[revision] = dict(files)
        commit = self.commit(revision)
        self.revisions[commit] = self.revisions[revision]
        return commit


def blob(content: bytes) -> str:
    """Git's name of a content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def information(repository: Repository, revision: str) -> dict[str, Any]:
    """What the hub tells of a repository."""
    files = repository.revisions[revision]
    return {
        "_id": hashlib.sha1(repository.name.encode()).hexdigest()[:24],
        "id": repository.name,
        "sha": repository.commit(revision),
        "private": False,
        "gated": "auto" if repository.gated else False,
        "disabled": False,
        "tags": [],
        "downloads": 0,
        "likes": 0,
        "lastModified": "2024-01-01T00:00:00.000Z",
        "createdAt": "2024-01-01T00:00:00.000Z",
        "siblings": [{"rfilename": path} for path in sorted(files)],
    }


def entries(files: Mapping[str, bytes], folder: str, *, recursive: bool) -> list[dict[str, Any]]:
    """The files and folders below a folder, or all of them with those below."""
    prefix = f"{folder}/" if folder else ""
    result: dict[str, dict[str, Any]] = {}
    for path, content in sorted(files.items()):
        if not path.startswith(prefix):
            continue
        parts = path.removeprefix(prefix).split("/")
        for depth in range(1, len(parts) if recursive else min(2, len(parts))):
            above = prefix + "/".join(parts[:depth])
            result[above] = {
                "type": "directory",
                "path": above,
                "oid": blob(above.encode()),
                "size": 0,
            }
        if recursive or len(parts) == 1:
            result[path] = {
                "type": "file",
                "path": path,
                "oid": blob(content),
                "size": len(content),
            }
    return list(result.values())
