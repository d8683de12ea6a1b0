"""`isotune rows`: what an index is, and a list of its rows; also deletes rows."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import WHERE, quiet_lancedb

FOLDER = Parameter(help="The folder of an index, which isotune index has made.")
K = "How many rows to list."
DELETE = "Delete the rows that fit --where, and list none."


def rows(
    folder: Annotated[Path, FOLDER],
    /,
    *,
    k: Annotated[int, Parameter(name="-k", help=K, metavar="NUMBER")] = 10,
    where: Annotated[str | None, WHERE] = None,
    delete: Annotated[bool, Parameter(help=DELETE)] = False,
) -> None:
    """Describe an index, and list or delete its rows."""
    quiet_lancedb()
    from isotune.cli.tables import print_table
    from isotune.errors import InputError
    from isotune.use.search import Index

    if k < 0:
        raise InputError(f"-k {k}: it is a number of rows, 0 or more")
    index = Index.open(folder)
    if delete:
        if where is None:
            raise InputError("--delete needs --where; to delete all rows, delete the folder")
        print(f"{folder}: {index.delete(where):,} rows deleted, {len(index):,} left")
        return
    now = index.store.now()
    approximate = f"approximate, recall@10 {index.recall:.3f}" if index.recall is not None else "exact"
    description = index.description
    for name, value in (
        ("rows", f"{len(now):,}"),
        ("columns", ", ".join(["id", "text", *now.columns])),
        ("encoder", f"{description['encoder'] or 'without a name'}, fingerprint {description['fingerprint']}"),
        ("search", approximate),
        ("on disk", f"{_size(folder) / 1e6:,.1f} MB"),
        *([("fitting", f"{now.count(where):,}")] if where else []),
    ):
        print(f"{name:<10}{value}")
    if listed := now.first(k, where) if k else []:
        print()
        print_table(list(listed[0]), [[str(value) for value in row.values()] for row in listed])


def _size(folder: Path) -> int:
    """The bytes of all files in a folder from which another process may remove files meanwhile."""
    size = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += os.stat(os.path.join(path, name)).st_size
    return size
