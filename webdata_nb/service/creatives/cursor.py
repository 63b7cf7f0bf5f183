"""Our cursors: the source's own one in an envelope that nobody else can make or bend.

A cursor is bound to the account and the filters of the listing that it continues, ends with the
day, and remembers the cursors that led to it, so that a source going in circles is noticed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson

from webdata_nb.service.errors import BadInput

LIFE_S: Final = 24 * 3600.0
_MAC: Final = 32
_MARK: Final = 6
_MARKS: Final = 128
_SECRET: Final = 32


class BadCursor(BadInput):
    """A cursor that cannot continue this listing; the message says why."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"{why}: send the first request again, without a cursor", loc=("body", "cursor")
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a listing stands: the source's cursor, rows so far, and the days that it covers.

    The days are those of the first request, so that "last 7 days" means the same on every page.
    """

    source_cursor: str
    position: int
    first_day: str | None
    last_day: str | None
    expires_at: float
    trail: bytes = b""

    @property
    def circling(self) -> bool:
        """Whether the source gave this cursor before."""
        mark = _mark(self.source_cursor)
        earlier = (self.trail[at : at + _MARK] for at in range(0, len(self.trail), _MARK))
        return mark in earlier

    def passed(self) -> bytes:
        """Return the trail of the place that follows this one."""
        return (self.trail + _mark(self.source_cursor))[-_MARK * _MARKS :]


def _mark(cursor: str) -> bytes:
    return hashlib.sha256(cursor.encode()).digest()[:_MARK]


@dataclass(frozen=True, slots=True)
class Seal:
    """Makes and opens cursors with the server's secret."""

    secret: bytes

    @classmethod
    def kept_in(cls, folder: Path) -> Seal:
        """Return the seal of a data directory; it is made once and outlives restarts."""
        path = folder / "cursor.secret"
        if not path.exists():
            _keep(path, secrets.token_bytes(_SECRET))
        return cls(path.read_bytes())

    def closed(self, place: Place, *, account_id: str, filters: Mapping[str, Any]) -> str:
        """Return the cursor that leads to `place`."""
        told = {
            "c": place.source_cursor,
            "p": place.position,
            "f": place.first_day,
            "l": place.last_day,
            "e": place.expires_at,
        }
        body = bytes([len(place.trail) // _MARK]) + place.trail + orjson.dumps(told)
        mac = self._mac(body, account_id, filters)
        return base64.urlsafe_b64encode(mac + body).rstrip(b"=").decode()

    def opened(
        self, cursor: str, *, account_id: str, filters: Mapping[str, Any], now: float
    ) -> Place:
        """Return the place that a cursor leads to; raises `BadCursor`."""
        raw = _decoded(cursor)
        mac, body = raw[:_MAC], raw[_MAC:]
        if not hmac.compare_digest(mac, self._mac(body, account_id, filters)):
            raise BadCursor(
                "this cursor was altered, or belongs to another listing (advertiser, region and "
                "date_range must stay the same), account or service"
            )
        place = _read(body)
        if now >= place.expires_at:
            raise BadCursor("this cursor has expired")
        if place.circling:
            raise BadCursor("the source goes in circles: it gave this cursor before")
        return place

    def _mac(self, body: bytes, account_id: str, filters: Mapping[str, Any]) -> bytes:
        bound = orjson.dumps([account_id, dict(filters)], option=orjson.OPT_SORT_KEYS)
        return hmac.digest(self.secret, hashlib.sha256(bound).digest() + body, "sha256")


def following(place: Place | None, source_cursor: str, position: int, **told: Any) -> Place:
    """Return the place after a page that began at `place` (None: the first)."""
    if place is not None:
        return replace(place, source_cursor=source_cursor, position=position, trail=place.passed())
    return Place(source_cursor, position, **told)


def _decoded(cursor: str) -> bytes:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        raw = base64.b64decode(padded, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise BadCursor("this is no cursor of this service") from None
    if len(raw) <= _MAC:
        raise BadCursor("this is no cursor of this service")
    return raw


def _read(body: bytes) -> Place:
    """Read what our own seal vouches for."""
    end = 1 + body[0] * _MARK
    told = orjson.loads(body[end:])
    return Place(told["c"], told["p"], told["f"], told["l"], told["e"], body[1:end])


def _keep(path: Path, secret: bytes) -> None:
    """Write the secret whole, for its owner alone; the first of two writers wins."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    try:
        with suppress(FileExistsError):
            os.link(draft, path)
    except OSError:  # no hard links here: then the last of two writers wins
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
