"""Stores the pages of an unfinished creatives listing, so that the next call resumes it."""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from webdata_nb.toolkit.cache.snapshots import CacheKey
from webdata_nb.toolkit.frames import private_files

# Cursors expire within a day; older pages would belong to another listing.
EXPIRES_S: Final = 24 * 3600.0
_NAME: Final = "unfinished.jsonl"

log = logging.getLogger("webdata_nb")


@dataclass(frozen=True, slots=True)
class PartialListing:
    """The pages of one listing in their order, one JSON line each."""

    path: Path
    root: Path

    @classmethod
    def of(cls, root: Path, key: CacheKey) -> PartialListing:
        """Return the stored pages of a cache key."""
        return cls(key.folder(root) / _NAME, root)

    def pages(self) -> list[dict[str, Any]]:
        """Return the stored pages up to the first damaged line."""
        pages: list[dict[str, Any]] = []
        with suppress(OSError, orjson.JSONDecodeError):
            if time.time() - self.path.stat().st_mtime > EXPIRES_S:
                return []
            for line in self.path.read_bytes().splitlines():
                pages.append(orjson.loads(line))  # noqa: PERF401 - keeps those before a bad line
        return pages

    def append(self, page: dict[str, Any]) -> None:
        """Store one more page; the listing continues where that fails."""
        self._write("ab", _line(page))

    def delete(self) -> None:
        """Delete the pages: the listing is complete."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _write(self, mode: str, data: bytes) -> None:
        try:
            private_files.make_folder(self.path.parent, self.root)
            self.path.touch(mode=private_files.FILE_MODE)
            with self.path.open(mode) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            log.info("an unfinished listing cannot be stored: %s", error)


def _line(page: dict[str, Any]) -> bytes:
    return orjson.dumps(page, option=orjson.OPT_APPEND_NEWLINE)
