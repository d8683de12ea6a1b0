"""`isotune index`: a search index of the rows of files, made or brought up to date."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from isotune.cli.parameters import COLUMNS, DIMENSIONS, ENCODER, FILES, ID, PRECISION, Name
from isotune.kernels import Precision

if TYPE_CHECKING:
    from isotune.use.search import Changes, Index

OUT = "The folder of the index. If the index is there already, the rows are added to it."


def index(
    encoder: Annotated[Name, ENCODER],
    /,
    *file: Annotated[Name, FILES],
    out: Annotated[Path, Parameter(help=OUT, metavar="DIR")] = Path("index"),
    columns: Annotated[dict[str, str] | None, COLUMNS] = None,
    id_column: Annotated[str | None, ID] = None,
    dimensions: Annotated[int | None, DIMENSIONS] = None,
    precision: Annotated[Precision | None, PRECISION] = None,
) -> None:
    """Each text gets a vector, and all other columns are kept beside it. To add files, or to bring
    the index up to date with changed files, give the command again: only new and changed rows are
    encoded. A command that was stopped goes on in the same way.

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
        rows = _open(out, encoder, precision, dimensions)
        changes = _add_index(rows, other, file[0])
    else:
        documents = read_documents(file, columns, id_column)
        rows = _open(out, encoder, precision, dimensions)
        changes = rows.add(documents, show_progress=True)
    print(
        f"{out}: {counted(len(rows), 'row')}; {changes.added:,} added, "
        f"{changes.replaced:,} replaced, {changes.unchanged:,} there already"
    )


def _open(
    folder: Path, encoder: str, precision: Precision | None, dimensions: int | None
) -> Index:
    """Opens the index in a folder, or makes a new one."""
    from isotune.use.search import Index
    from isotune.use.search.index import DESCRIPTION

    if not (folder / DESCRIPTION).exists():
        return Index.create(
            folder, encoder, precision=precision or "auto", dimensions=dimensions
        )
    # Without --precision and --dimensions, those of the first rows are used again.
    return Index.open(folder, encoder, precision=precision, dimensions=dimensions)


def _add_index(rows: Index, other: Index, name: str) -> Changes:
    """Encodes the rows of another index; says first what the new encoder changes."""
    if not len(rows):
        same, asked = other.kept_hits(rows.encoder)
        print(
            f"{same:,} of {asked:,} texts of {name} keep their nearest text with the other encoder"
        )
    return rows.add_index(other, show_progress=True)
