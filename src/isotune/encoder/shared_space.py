"""Whose space the vectors of an encoder are in.

An encoder that has learned the vectors of a larger one (`DistilOptions.match`) can ask in an index
of documents that the larger one has encoded. Its folder says which encoder that is.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from isotune.files import write_text

# The file in an encoder's folder.
SHARED_SPACE = "shared-space.json"


class SharedSpace(BaseModel):
    """Two encoders whose vectors can be compared, by their fingerprints."""

    model_config = ConfigDict(frozen=True)

    of: str
    """The encoder whose vectors were learned."""

    fingerprint: str
    """The encoder that has learned them. Once it is changed, nothing is known of its space."""

    def write(self, folder: Path) -> None:
        """Writes the file into the folder of the encoder that has learned the vectors."""
        write_text(folder / SHARED_SPACE, self.model_dump_json(indent=2) + "\n")
