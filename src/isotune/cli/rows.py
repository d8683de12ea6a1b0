"""`isotune rows`: what an index is, and a list of its rows; also deletes rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from isotune.cli.parameters import INDEX, JSON, WHERE

if TYPE_CHECKING:
    from isotune.use.search import Index

K = "How many rows to list."
DELETE = "Delete the rows that fit --where, and list none."


def rows(
    folder: Annotated[Path, INDEX],
    /,
    *,
    k: Annotated[int, Parameter(name="-k", help=K, metavar="NUMBER")] = 10,
    where: Annotated[str | None, WHERE] = None,
    delete: Annotated[bool, Parameter(help=DELETE)] = False,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    from isotune.errors import InputError
    from isotune.use.search.index import MOST, Index

    if not 0 <= k <= MOST:
        raise InputError(f"-k {k}: it is a number of rows, from 0 to {MOST:,}")
    index = Index.open(folder)
    if delete:
        _delete(index, folder, where, as_json)
        return
    columns = ["id", "text", *index.store.columns]
    listed: list[dict[str, Any]] = []
    if k:
        for row in index.store.first(k, where):
            listed.append({column: row[column] for column in columns})
    if as_json:
        _print_json(index, columns, listed, where)
    else:
        _print_text(index, columns, listed, where)


def _delete(index: Index, folder: Path, where: str | None, as_json: bool) -> None:
    from isotune.cli.tables import print_json
    from isotune.errors import InputError, counted

    if where is None:
        raise InputError("--delete needs --where; to delete all rows, delete the folder")
    deleted = index.delete(where)
    left = len(index)
    if as_json:
        print_json({"deleted": deleted, "left": left})
    else:
        print(f"{folder}: {counted(deleted, 'row')} deleted, {left:,} left")


def _print_json(
    index: Index, columns: list[str], listed: list[dict[str, Any]], where: str | None
) -> None:
    from isotune.cli.tables import print_json

    fitting = len(index.store)
    if where:
        fitting = index.store.count(where)
    print_json(
        {
            "rows": len(index.store),
            "columns": columns,
            "encoder": index.description["encoder"],
            "fingerprint": index.description["fingerprint"],
            "fitting": fitting,
            "listed": listed,
        }
    )


def _print_text(
    index: Index, columns: list[str], listed: list[dict[str, Any]], where: str | None
) -> None:
    from isotune.cli.tables import print_table
    from isotune.errors import printable

    encoder = index.description["encoder"] or "without a name"
    print(f"{'rows':<10}{len(index.store):,}")
    print(f"{'columns':<10}{printable(', '.join(columns))}")
    print(f"{'encoder':<10}{encoder}, fingerprint {index.description['fingerprint']}")
    if where:
        print(f"{'fitting':<10}{index.store.count(where):,}")
    if listed:
        print()
        rows = [[printable(str(value)) for value in row.values()] for row in listed]
        print_table([printable(column) for column in columns], rows)
