"""`isotune rows`: what an index is, and a list of its rows; also deletes rows."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import INDEX, JSON, WHERE

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
    from isotune.cli.tables import print_json, print_table
    from isotune.errors import InputError, counted, printable
    from isotune.use.search.index import MOST, Index

    if not 0 <= k <= MOST:
        raise InputError(f"-k {k}: it is a number of rows, from 0 to {MOST:,}")
    index = Index.open(folder)
    if delete:
        if where is None:
            raise InputError("--delete needs --where; to delete all rows, delete the folder")
        deleted, left = index.delete(where), len(index)
        if as_json:
            print_json({"deleted": deleted, "left": left})
        else:
            print(f"{folder}: {counted(deleted, 'row')} deleted, {left:,} left")
        return
    store, description = index.store, index.description
    columns = ["id", "text", *store.columns]
    listed = (
        [{column: row[column] for column in columns} for row in store.first(k, where)] if k else []
    )
    if as_json:
        facts = {"rows": len(store), "columns": columns}
        facts |= {name: description[name] for name in ("encoder", "fingerprint")}
        print_json(
            {**facts, "fitting": store.count(where) if where else len(store), "listed": listed}
        )
        return
    for name, value in (
        ("rows", f"{len(store):,}"),
        ("columns", printable(", ".join(columns))),
        (
            "encoder",
            f"{description['encoder'] or 'without a name'}, fingerprint {description['fingerprint']}",
        ),
        *([("fitting", f"{store.count(where):,}")] if where else []),
    ):
        print(f"{name:<10}{value}")
    if listed:
        print()
        print_table(
            list(map(printable, columns)),
            [[printable(str(value)) for value in row.values()] for row in listed],
        )
