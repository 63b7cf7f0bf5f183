"""Loads the named statements of `statements/*.sql` and the numbered migrations."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final

_ROOT: Final = files("webdata_nb.service.store.sql")
_NAME: Final = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


@cache
def statements() -> dict[str, str]:
    """Return every statement by its name."""
    by_name: dict[str, str] = {}
    for file in (_ROOT / "statements").iterdir():
        parts = _NAME.split(file.read_text("utf-8"))[1:]
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in by_name:
                raise ValueError(f"two statements are named {name}")
            by_name[name] = text.strip()
    return by_name


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Return the migrations as (version, script), oldest first."""
    scripts = [file for file in (_ROOT / "migrations").iterdir() if file.name.endswith(".sql")]
    numbered = [(int(file.name.partition("_")[0]), file.read_text("utf-8")) for file in scripts]
    return tuple(sorted(numbered))


def schema_version() -> int:
    """Return the schema version that this release writes."""
    return migrations()[-1][0]
