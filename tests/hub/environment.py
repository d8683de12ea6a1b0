"""Points huggingface_hub, datasets and transformers at the local hub.

pyproject.toml has ruff sort the import of this module first. The three libraries read HF_ENDPOINT
and HF_HOME when they are imported, so that a fixture would come too late. Until a test starts the
hub, connecting to it is refused at once, so that no test can reach a network by their help.
"""

import os
import sys
from tempfile import TemporaryDirectory

from tests.hub.server import LocalHub

if "huggingface_hub" in sys.modules:
    raise ImportError(
        "huggingface_hub was imported before tests.hub.environment: it would ask the real hub"
    )

HUB = LocalHub()
_home = TemporaryDirectory(prefix="hub-cache-")  # removed when Python ends

for _name in (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HF_HUB_OFFLINE",
    "HF_DATASETS_OFFLINE",
    "TRANSFORMERS_OFFLINE",
):
    os.environ.pop(_name, None)
for _name in (
    "HF_HUB_CACHE",
    "HF_DATASETS_CACHE",
    "HF_MODULES_CACHE",
    "HF_ASSETS_CACHE",
    "HF_XET_CACHE",
):
    os.environ.pop(_name, None)
os.environ |= {
    "HF_ENDPOINT": HUB.url,
    "HF_HOME": _home.name,
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_XET": "1",  # the local hub takes large files by LFS
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "NO_PROXY": ",".join(filter(None, [os.environ.get("NO_PROXY"), "127.0.0.1", "localhost"])),
}
