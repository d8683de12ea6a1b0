"""How the local hub takes uploads: a repository is made, large files are put into LFS, and a commit names all files.

The steps are those of huggingface_hub: create, validate-yaml, preupload, LFS batch, PUT, verify, commit.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from tests.hub.repository import LARGE

if TYPE_CHECKING:
    from tests.hub.server import LocalHub

_STEP = re.compile(r"/api/models/([^/]+/[^/]+)/(preupload|commit)/([^/]+)$")
_LFS = re.compile(r"/([^/]+/[^/]+)\.git/info/lfs/(objects/batch|verify)$")
_PUT = re.compile(r"/put/([0-9a-f]{64})$")


class Answer(NamedTuple):
    """A status, and a JSON value, or a message if the status is an error's."""

    status: int
    value: Any


def upload(hub: LocalHub, path: str, body: bytes, may_write: bool) -> Answer | None:
    """Answers a step of an upload; None if the request is no such step."""
    if put := _PUT.match(path):  # the address is secret enough: there is no token
        if hashlib.sha256(body).hexdigest() != put[1]:
            return Answer(400, "the content has another SHA-256")
        hub.put[put[1]] = body
        return Answer(200, {})
    if path == "/api/validate-yaml":
        return _validate(json.loads(body)["content"])
    step, lfs = _STEP.match(path), _LFS.match(path)
    if path != "/api/repos/create" and not step and not lfs:
        return None
    if not may_write:
        return Answer(401, "Invalid username or password.")
    if step:
        return _commit(hub, step[1], body) if step[2] == "commit" else _preupload(json.loads(body))
    if lfs:
        return _batch(hub, lfs[1], json.loads(body)) if lfs[2] == "objects/batch" else Answer(200, {})
    wish = json.loads(body)
    name = f"{wish['organization']}/{wish['name']}"
    if wish["organization"] == "others":
        return Answer(403, f"You don't have the rights to create a model under the namespace {wish['organization']}")
    made = hub.create(name, private=wish.get("visibility") == "private" or bool(wish.get("private")))
    return Answer(200, {"url": f"{hub.url}/{name}"}) if made else Answer(409, "You already created this model repo")


def _validate(card: str) -> Answer:
    """The hub wants the YAML at the top of a README.md to be a table."""
    metadata = yaml.safe_load(card.split("---")[1]) if card.startswith("---") else None
    if isinstance(metadata, dict):
        return Answer(200, {"errors": [], "warnings": []})
    return Answer(200, {"errors": [], "warnings": [{"message": "empty or missing yaml metadata in repo card"}]})


def _preupload(wish: Any) -> Answer:
    """Which way each file takes."""
    modes = {file["path"]: "lfs" if file["path"].endswith(LARGE) else "regular" for file in wish["files"]}
    files = [{"path": path, "uploadMode": mode, "shouldIgnore": False} for path, mode in modes.items()]
    return Answer(200, {"files": files})


def _batch(hub: LocalHub, name: str, wish: Any) -> Answer:
    """Where to put the large files."""
    objects = [
        {
            "oid": file["oid"],
            "size": file["size"],
            "authenticated": True,
            "actions": {
                "upload": {"href": f"{hub.url}/put/{file['oid']}", "header": {}},
                "verify": {"href": f"{hub.url}/{name}.git/info/lfs/verify"},
            },
        }
        for file in wish["objects"]
    ]
    return Answer(200, {"transfer": "basic", "objects": objects})


def _commit(hub: LocalHub, name: str, body: bytes) -> Answer:
    """Adds the files of a commit to those that the repository has."""
    repository = hub.find("model", name)
    if repository is None:
        return Answer(404, "Repository not found")
    files = dict(repository.revisions["main"])
    for line in body.splitlines():
        item = json.loads(line)
        match item["key"]:
            case "file":
                files[item["value"]["path"]] = base64.b64decode(item["value"]["content"])
            case "lfsFile":
                files[item["value"]["path"]] = hub.put[item["value"]["oid"]]
    commit = repository.add("main", files)
    return Answer(200, {"success": True, "commitOid": commit, "commitUrl": f"{hub.url}/{name}/commit/{commit}"})
