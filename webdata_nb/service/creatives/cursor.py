"""Signs and verifies listing cursors, which wrap the cursor of a source.

A cursor is bound to the account and the filters of the listing that it continues, and expires
after a day. It holds hashes of the source's earlier cursors to detect a source that repeats them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson

from webdata_nb.page.errors import BadInput
from webdata_nb.service.private_files import create_private_file

LIFETIME_S: Final = 24 * 3600.0
_MAC_BYTES: Final = 32
_CURSOR_HASH_BYTES: Final = 6
_MAX_CURSOR_HASHES: Final = 128
_SECRET_BYTES: Final = 32


class BadCursor(BadInput):
    """A cursor that cannot continue this listing; the message says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: list from the first page again", loc=("body", "cursor"))


class ListingPosition(msgspec.Struct, frozen=True):
    """A position in a listing: the source's cursor, the count of earlier rows, and its days.

    The days are those of the first request, so that "last 7 days" means the same on every page.
    `cursor_hashes` are the concatenated hashes of the source's earlier cursors.
    """

    source_cursor: str
    rows_before: int
    first_day: str | None
    last_day: str | None
    expires_at: float
    cursor_hashes: bytes = b""

    @property
    def is_repeated(self) -> bool:
        """Whether the source gave this cursor before."""
        step = _CURSOR_HASH_BYTES
        earlier = (
            self.cursor_hashes[start : start + step]
            for start in range(0, len(self.cursor_hashes), step)
        )
        return _cursor_hash(self.source_cursor) in earlier

    def advance(self, source_cursor: str, count: int) -> ListingPosition:
        """Return the position after a page of `count` rows, which ended with `source_cursor`."""
        hashes = self.cursor_hashes + _cursor_hash(self.source_cursor)
        return msgspec.structs.replace(
            self,
            source_cursor=source_cursor,
            rows_before=self.rows_before + count,
            cursor_hashes=hashes[-_CURSOR_HASH_BYTES * _MAX_CURSOR_HASHES :],
        )


def _cursor_hash(cursor: str) -> bytes:
    return hashlib.sha256(cursor.encode()).digest()[:_CURSOR_HASH_BYTES]


@dataclass(frozen=True, slots=True)
class CursorSealer:
    """Signs and verifies cursors with the server's secret."""

    secret: bytes

    @classmethod
    def load_or_create(cls, data_dir: Path) -> CursorSealer:
        """Return the sealer of a data directory; its secret is created once."""
        path = data_dir / "cursor.secret"
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):  # the first of two writers wins
                create_private_file(path, secrets.token_bytes(_SECRET_BYTES))
        return cls(path.read_bytes())

    @classmethod
    def derive(cls, key: str) -> CursorSealer:
        """Return the sealer that every process with the same encryption key has."""
        return cls(hmac.digest(key.encode(), b"cursors of creatives", "sha256"))

    def seal(
        self, position: ListingPosition, *, account_id: str, filters: Mapping[str, Any]
    ) -> str:
        """Return the cursor that leads to `position`."""
        body = msgspec.msgpack.encode(position)
        mac = self._mac(body, account_id, filters)
        return base64.urlsafe_b64encode(mac + body).rstrip(b"=").decode()

    def open(
        self, cursor: str, *, account_id: str, filters: Mapping[str, Any], now: float
    ) -> ListingPosition:
        """Return the position that a cursor leads to; raises `BadCursor`."""
        decoded = _decode(cursor)
        mac, body = decoded[:_MAC_BYTES], decoded[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(body, account_id, filters)):
            raise BadCursor(
                "this cursor was altered, or belongs to another listing (advertiser, region and "
                "date_range must stay the same), account or service"
            )
        position = msgspec.msgpack.decode(body, type=ListingPosition)
        if now >= position.expires_at:
            raise BadCursor("this cursor has expired")
        if position.is_repeated:
            raise BadCursor("the source repeated an earlier cursor, so the listing would not end")
        return position

    def _mac(self, body: bytes, account_id: str, filters: Mapping[str, Any]) -> bytes:
        binding = orjson.dumps([account_id, dict(filters)], option=orjson.OPT_SORT_KEYS)
        return hmac.digest(self.secret, hashlib.sha256(binding).digest() + body, "sha256")


def _decode(cursor: str) -> bytes:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        decoded = base64.b64decode(padded, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise BadCursor("this is not a cursor of this service") from None
    if len(decoded) <= _MAC_BYTES:
        raise BadCursor("this is not a cursor of this service")
    return decoded
