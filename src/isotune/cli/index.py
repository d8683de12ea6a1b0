"""`isotune index`: a search index of the rows of files, made or brought up to date."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import COLUMNS, ENCODER, FILES, ID, PRECISION, Name
from isotune.kernels import Precision

OUT = "The folder of the index. If the index is there already, the rows are added to it."


def index(
    encoder: Annotated[Name, ENCODER],
    /,
    *file: Annotated[Name, FILES],
    out: Annotated[Path, Parameter(help=OUT, metavar="DIR")] = Path("index"),
    columns: Annotated[dict[str, str] | None, COLUMNS] = None,
    id_column: Annotated[str | None, ID] = None,
    precision: Annotated[Precision | None, PRECISION] = None,
) -> None:
    """Each text gets a vector, and all other columns are kept beside it. To add files, or to bring the index up to date
    with changed files, give the command again: only new and changed rows are encoded. A command that was stopped goes
    on in the same way.

    With the folder of another index in the place of files, its rows are encoded again into a new index, to use another
    encoder. What this changes is printed first.
    """
    from isotune.errors import InputError, counted
    from isotune.use.search import Index, read_documents
    from isotune.use.search.index import DESCRIPTION

    other = (
        Index.open(file[0]) if len(file) == 1 and (Path(file[0]) / DESCRIPTION).exists() else None
    )
    if other is None and any((Path(name) / DESCRIPTION).exists() for name in file):
        raise InputError("an index is encoded again by itself; name no other file with it")
    if other is None:
        documents = read_documents(file, columns, id_column)
    elif columns or id_column:
        raise InputError(
            f"{file[0]}: an index has its columns and ids already; leave out --columns and --id"
        )
    if (out / DESCRIPTION).exists():
        # Without --precision, the precision of the first rows is used again.
        rows = Index.open(out, encoder, precision=precision)
    else:
        rows = Index.create(out, encoder, precision=precision or "auto")
    if other is None:
        changes = rows.add(documents, show_progress=True)
    else:
        if not len(rows):
            kept, asked = other.kept_hits(rows.encoder)
            print(
                f"{kept:,} of {asked:,} texts of {file[0]} keep their nearest text with the other encoder"
            )
        changes = rows.add_index(other, show_progress=True)
    print(
        f"{out}: {counted(len(rows), 'row')}; {changes.added:,} added, {changes.replaced:,} replaced",
        end=", ",
    )
    print(f"{changes.unchanged:,} there already")
