"""`isotune index`: a search index of the rows of files, made or brought up to date."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from isotune.cli.parameters import COLUMNS, DIMENSIONS, ENCODER, FILES, ID, PRECISION, Name
from isotune.kernels import Precision

if TYPE_CHECKING:
    from isotune.use.quantization import Kind
    from isotune.use.search import Changes, Index

OUT = "The folder of the index. If the index is there already, the rows are added to it."

VECTORS = (
    "What a search compares: float32; or int8 or binary, smaller vectors that are made of them, "
    "which is faster with many rows. The nearest rows are then compared again by float32, which "
    "stay in the index. Unset: as the index is, or float32."
)


def index(
    encoder: Annotated[Name, ENCODER],
    /,
    *file: Annotated[Name, FILES],
    out: Annotated[Path, Parameter(help=OUT, metavar="DIR")] = Path("index"),
    columns: Annotated[dict[str, str] | None, COLUMNS] = None,
    id_column: Annotated[str | None, ID] = None,
    vectors: Annotated[Literal["float32", "int8", "binary"] | None, Parameter(help=VECTORS)] = None,
    dimensions: Annotated[int | None, DIMENSIONS] = None,
    precision: Annotated[Precision | None, PRECISION] = None,
) -> None:
    """Each text gets a vector, and all other columns are kept beside it. To add files, or to bring
    the index up to date with changed files, give the command again: only new and changed rows are
    encoded. A command that was stopped goes on in the same way.

    Every index can be searched by words beside the vectors: isotune search --hybrid.

    With the folder of another index in the place of files, its rows are encoded again into a new
    index, to use another encoder. What this changes is printed first.
    """
    from isotune.errors import InputError, counted
    from isotune.use.search import Index, read_documents
    from isotune.use.search.index import DESCRIPTION

    if any((Path(name) / DESCRIPTION).exists() for name in file):
        if len(file) > 1:
            raise InputError("an index is encoded again by itself; name no other file with it")
        other = Index.open(file[0])
        if columns or id_column:
            raise InputError(
                f"{file[0]}: an index has its columns and ids already; leave out --columns and --id"
            )
        rows = _open(out, encoder, precision, dimensions, vectors)
        changes = _add_index(rows, other, file[0])
    else:
        documents = read_documents(file, columns, id_column)
        rows = _open(out, encoder, precision, dimensions, vectors)
        changes = rows.add(documents, show_progress=True)
    print(
        f"{out}: {counted(len(rows), 'row')}; {changes.added:,} added, "
        f"{changes.replaced:,} replaced, {changes.unchanged:,} there already"
    )
    if changes.added or changes.replaced or vectors is not None:
        _tell_same_nearest(rows)


def _tell_same_nearest(rows: Index) -> None:
    """Says how many of the nearest rows a search finds, if it compares smaller vectors."""
    same = rows.same_nearest()
    if same is not None:
        print(f"by {rows.store.kind} vectors, {same:.1%} of the ten nearest rows are the same")


def _open(
    folder: Path,
    encoder: str,
    precision: Precision | None,
    dimensions: int | None,
    vectors: Kind | None,
) -> Index:
    """Opens the index in a folder, or makes a new one."""
    from isotune.use.search import Index
    from isotune.use.search.index import DESCRIPTION

    if not (folder / DESCRIPTION).exists():
        return Index.create(
            folder,
            encoder,
            precision=precision or "auto",
            dimensions=dimensions,
            vectors=vectors or "float32",
        )
    # Without --precision and --dimensions, those of the first rows are used again.
    index = Index.open(folder, encoder, precision=precision, dimensions=dimensions)
    if vectors is not None:
        index.compare(vectors)
    return index


def _add_index(rows: Index, other: Index, name: str) -> Changes:
    """Encodes the rows of another index; says first what the new encoder changes."""
    if not len(rows):
        same, asked = other.kept_hits(rows.encoder)
        print(
            f"{same:,} of {asked:,} texts of {name} keep their nearest text with the other encoder"
        )
    return rows.add_index(other, show_progress=True)
