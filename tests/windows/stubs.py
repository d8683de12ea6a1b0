"""What Python's own modules lack on a platform, by the stubs that come with mypy."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import mypy

STUBS = Path(mypy.__file__).parent / "typeshed" / "stdlib"


@cache
def missing(module: str, platform: str) -> set[str]:
    """The names of a module that Linux has and the platform lacks; empty for a foreign module."""
    for path in (STUBS / f"{module}.pyi", STUBS / module / "__init__.pyi"):
        if path.exists():
            body = ast.parse(path.read_text("utf-8")).body
            return set(_names(body, "linux")) - set(_names(body, platform))
    return set()


def _names(body: list[ast.stmt], platform: str) -> Iterator[str]:
    """What these statements define on a platform."""
    for statement in body:
        match statement:
            case ast.If(test=test):
                holds = _holds(test, platform)
                if holds is not False:
                    yield from _names(statement.body, platform)
                if holds is not True:
                    yield from _names(statement.orelse, platform)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case ast.ImportFrom(names=names):
                yield from (alias.asname or alias.name for alias in names)


def _holds(test: ast.expr, platform: str) -> bool | None:
    """Whether a condition holds on a platform; None if it asks for something else."""
    match test:
        case ast.BoolOp(op=operation, values=values):
            parts = [_holds(value, platform) for value in values]
            decisive = isinstance(operation, ast.Or)
            if decisive in parts:
                return decisive
            return None if None in parts else not decisive
        case ast.Compare(
            left=ast.Attribute(attr="platform"),
            ops=[operation],
            comparators=[ast.Constant(value=name)],
        ):
            return (platform == name) == isinstance(operation, ast.Eq)
    return None
