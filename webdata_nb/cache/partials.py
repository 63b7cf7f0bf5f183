"""Pages of a listing that is not over, on disk: a call that breaks off goes on where it was."""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from webdata_nb.cache.snapshots import Question
from webdata_nb.frames import private_files

# Cursors end with the day; pages older than that would be of another listing.
KEPT_S: Final = 24 * 3600.0
_NAME: Final = "unfinished.jsonl"

log = logging.getLogger("webdata_nb")


@dataclass(frozen=True, slots=True)
class Partial:
    """The pages of one question, a line each, in their order."""

    path: Path
    root: Path

    @classmethod
    def of(cls, root: Path, question: Question) -> Partial:
        """Return the pages kept for a question."""
        return cls(question.folder(root) / _NAME, root)

    def pages(self) -> list[dict[str, Any]]:
        """Return the pages so far; a line that was cut short ends them."""
        found: list[dict[str, Any]] = []
        with suppress(OSError, orjson.JSONDecodeError):
            if time.time() - self.path.stat().st_mtime > KEPT_S:
                return []
            for line in self.path.read_bytes().splitlines():
                found.append(orjson.loads(line))  # noqa: PERF401 - those before a bad line count
        return found

    def begin(self, pages: list[dict[str, Any]]) -> None:
        """Keep these pages and no others."""
        self._write("wb", b"".join(map(_line, pages)))

    def add(self, page: dict[str, Any]) -> None:
        """Keep one more page; where that cannot be done, the listing goes on all the same."""
        self._write("ab", _line(page))

    def drop(self) -> None:
        """Forget them: the listing is whole."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _write(self, mode: str, data: bytes) -> None:
        try:
            private_files.make_folder(self.path.parent, self.root)
            self.path.touch(mode=private_files.FILE)
            with self.path.open(mode) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            log.info("an unfinished listing cannot be kept: %s", error)


def _line(page: dict[str, Any]) -> bytes:
    return orjson.dumps(page, option=orjson.OPT_APPEND_NEWLINE)
