"""Loads the named statements of `statements/*.sql` and the numbered migrations.

The files are written for SQLite. What differs on another database is marked in them: there, a
line ``-- on postgresql: TEXT`` stands for its text, and a statement named ``NAME on postgresql``
replaces the statement ``NAME``. One named ``NAME only on postgresql`` exists there alone.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final

_ROOT: Final = files("webdata_nb.service.store.sql")
_NAME: Final = re.compile(r"^-- name: (\w+)(?:( only)? on (\w+))?\s*$", re.MULTILINE)
_DIALECT_LINE: Final = re.compile(r"^([ \t]*)-- on (\w+): (.*)$", re.MULTILINE)


@cache
def statements(dialect: str = "sqlite") -> dict[str, str]:
    """Return every statement by its name, as a database of that dialect runs it."""
    common: dict[str, str] = {}
    of_dialect: dict[str, str] = {}
    for file in (_ROOT / "statements").iterdir():
        for name, only, target, text in _blocks(file.read_text("utf-8")):
            by_name = common if target is None or only else of_dialect
            if target not in {None, dialect}:
                continue
            if name in by_name:
                raise ValueError(f"two statements are named {name}")
            by_name[name] = _in_dialect(text.strip(), dialect)
    if unknown := of_dialect.keys() - common.keys():
        raise ValueError(f"statements of {dialect} replace no other: {', '.join(sorted(unknown))}")
    return common | of_dialect


def parse_statements(text: str) -> list[tuple[str, str]]:
    """Return the names and the statements of a file for one dialect."""
    return [(name, statement.strip()) for name, _, _, statement in _blocks(text)]


def _blocks(text: str) -> list[tuple[str, str | None, str | None, str]]:
    """Return name, mark of a single dialect, dialect and text of each block of a file."""
    parts = _NAME.split(text)[1:]
    return list(zip(*(parts[n::4] for n in range(4)), strict=True))


@cache
def migrations(dialect: str = "sqlite") -> tuple[tuple[int, str], ...]:
    """Return the migrations as (version, script), oldest first."""
    scripts = [file for file in (_ROOT / "migrations").iterdir() if file.name.endswith(".sql")]
    numbered = [
        (int(file.name.partition("_")[0]), _in_dialect(file.read_text("utf-8"), dialect))
        for file in scripts
    ]
    return tuple(sorted(numbered))


def schema_version() -> int:
    """Return the schema version that this release writes."""
    return migrations()[-1][0]


def _in_dialect(text: str, dialect: str) -> str:
    """Insert the lines that are marked for a dialect; those of others stay comments."""

    def line(match: re.Match[str]) -> str:
        return match[1] + match[3] if match[2] == dialect else match[0]

    return _DIALECT_LINE.sub(line, text)
