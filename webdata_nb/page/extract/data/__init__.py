"""The word lists of extraction, as JSON files."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import orjson


def read_data(name: str) -> Any:
    """Return the content of a file in this folder."""
    return orjson.loads(files(__package__).joinpath(name).read_bytes())  # noqa: TID251 - our own
