"""Downloaded files, each under the hash of its content in a folder of its account.

A file is found only by the account that it was downloaded for, and goes after the retention time
like every other raw result.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from webdata_nb.contract import limits
from webdata_nb.service.creatives.image_type import kind_of

_NAME: Final = re.compile(r"[0-9a-f]{64}")
_DRAFT: Final = ".draft"
KEPT_S: Final = limits.RETENTION_HOURS * 3600.0


@dataclass(frozen=True, slots=True)
class FileStore:
    """The files of all accounts below one folder; its methods block for a moment."""

    root: Path

    def put(self, account_id: str, data: bytes) -> dict[str, Any]:
        """Keep a file, and return what is told of it: hash, type, bytes, size in pixels."""
        name = hashlib.sha256(data).hexdigest()
        path = self._path(account_id, name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists():
            os.utime(path)  # kept anew: its time counts from the last call that gave it
        else:
            draft = path.with_name(f"{name}.{secrets.token_hex(4)}{_DRAFT}")
            with os.fdopen(
                os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
            ) as file:
                file.write(data)
            draft.replace(path)
        kind = kind_of(data)
        told = {"sha256": name, "mime": kind.mime, "bytes": len(data)}
        return {**told, "width": kind.width, "height": kind.height}

    def get(self, account_id: str, name: str) -> bytes | None:
        """Return an account's file; None where it has none of that name, or no longer."""
        if not _NAME.fullmatch(name):
            return None
        path = self._path(account_id, name)
        try:
            if time.time() - path.stat().st_mtime > KEPT_S:
                return None
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def sweep(self, now: float) -> int:
        """Remove what is past its time; return how many files went."""
        removed = 0
        for path in self.root.glob("*/*/*"):
            with suppress(OSError):
                if now - path.stat().st_mtime > KEPT_S:
                    path.unlink()
                    removed += 1
        return removed

    def _path(self, account_id: str, name: str) -> Path:
        # An account's id need not be fit for a file name.
        owner = hashlib.sha256(account_id.encode()).hexdigest()[:32]
        return self.root / owner / name[:2] / name
