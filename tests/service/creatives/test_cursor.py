"""Tests signed cursors and the detection of repeated ones."""

from __future__ import annotations

from typing import Final

import pytest

from webdata_nb.service.creatives.listing import CursorSealer, ListingPosition
from webdata_nb.service.creatives.source import BadCursor

SEALER: Final = CursorSealer(bytes(range(32)))
FILTERS: Final = {
    "source": "sample",
    "advertiser": "AR1",
    "region": "DE",
    "range": "last_7_days",
}
EXPIRES_AT: Final = 2e9
FIRST: Final = ListingPosition("first", 7, "2026-01-01", "2026-01-07", EXPIRES_AT)
CURSOR: Final = SEALER.seal(FIRST.advance("second", 7), account_id="alice", filters=FILTERS)


def open_cursor(cursor: str, account_id: str = "alice", now: float = 0.0) -> ListingPosition:
    return SEALER.open(cursor, account_id=account_id, filters=FILTERS, now=now)


def test_cursor_leads_to_its_position() -> None:
    position = FIRST.advance("second", 7)
    assert open_cursor(CURSOR) == position


def test_cursor_of_other_account_is_refused() -> None:
    with pytest.raises(BadCursor, match="account"):
        open_cursor(CURSOR, account_id="bob")


def test_expired_cursor_is_refused() -> None:
    with pytest.raises(BadCursor, match="expired"):
        open_cursor(CURSOR, now=EXPIRES_AT)


def test_repeated_source_cursor_is_refused() -> None:
    position = FIRST.advance("second", 7).advance("first", 7)
    cursor = SEALER.seal(position, account_id="alice", filters=FILTERS)
    with pytest.raises(BadCursor, match="repeated"):
        open_cursor(cursor)
