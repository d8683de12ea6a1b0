"""`isotune push`: an encoder's folder as a repository on the Hugging Face hub."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

ENCODER = "The folder of an encoder, such as runs/notes/encoder, or of its ONNX export."
REPOSITORY = "The repository, as OWNER/NAME. It is made if it is not there."
PRIVATE = "Make a private repository: only its owner sees it."


def push(
    encoder: Annotated[Path, Parameter(help=ENCODER)],
    repository: Annotated[str, Parameter(help=REPOSITORY)],
    /,
    *,
    private: Annotated[bool, Parameter(help=PRIVATE)] = False,
) -> None:
    """All files of the folder but hidden ones are uploaded. A folder without a model card (README.md) gets one. The
    token is that of `hf auth login`, or HF_TOKEN.
    """
    from isotune.use.export.push import push

    print(push(encoder, repository, private))
