"""Tests the format of signed cursors and the detection of repeated ones."""

from __future__ import annotations

from typing import Final

import pytest

from webdata_nb.service.creatives.cursor import BadCursor, CursorSealer, ListingPosition

SEALER: Final = CursorSealer(bytes(range(32)))
FILTERS: Final = {
    "source": "sample",
    "advertiser": "AR1",
    "region": "DE",
    "range": "last_7_days",
}
EXPIRES_AT: Final = 2e9
FIRST: Final = ListingPosition("first", 7, "2026-01-01", "2026-01-07", EXPIRES_AT)
# The cursor of `FIRST.advance("second", 7)` that earlier versions created.
CURSOR: Final = (
    "N9GWAf1HIzQHodOdINyS5PR0_WrbUpsvDvPaVVv5o_wBp5N7ZLjKeyJjIjoic2Vjb25kIiwicCI6MTQsImYiOiIyMDI2"
    "LTAxLTAxIiwibCI6IjIwMjYtMDEtMDciLCJlIjoyMDAwMDAwMDAwLjB9"
)


def open_cursor(cursor: str, account_id: str = "alice", now: float = 0.0) -> ListingPosition:
    return SEALER.open(cursor, account_id=account_id, filters=FILTERS, now=now)


def test_cursor_format_is_stable() -> None:
    position = FIRST.advance("second", 7)
    assert SEALER.seal(position, account_id="alice", filters=FILTERS) == CURSOR
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
