"""Names and versions of archive files, on which the toolkit and the local service agree."""

from __future__ import annotations

from typing import Final

SUFFIXES: Final = (".warc", ".warc.gz", ".wacz")


def file_version(size: int, changed_ns: int) -> str:
    """Return what changes with the content of a file, from its size and its time of change."""
    return f"{size}-{changed_ns}"
