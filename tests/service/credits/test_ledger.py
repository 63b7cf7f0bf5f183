"""The arithmetic of credits, by its laws."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.service import ledger
from webdata_nb.service.ledger import (
    CATALOG,
    PLANS,
    WEIGHTS,
    Balance,
    Charge,
    LedgerLine,
    Reservation,
    Terms,
    terms_of,
)

counts = st.integers(0, 500)
balances = st.builds(Balance, counts, counts, st.just(100.0))
charges = st.lists(
    st.builds(
        lambda which, units: Charge(which[0], which[1], units),
        st.sampled_from(sorted(WEIGHTS)),
        counts,
    ),
    max_size=4,
)
LIMITED = Terms("team", 300, 8)


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@given(balances, counts)
def test_reservation_takes_everything_or_nothing_month_first(balance: Balance, needed: int) -> None:
    taken = ledger.reserve(balance, LIMITED, needed)
    if taken is None:
        assert needed > balance.left
        return
    hold, lines = taken
    left = ledger.apply(balance, lines)
    assert hold.monthly + hold.topup == needed == balance.left - left.left
    assert min(left.monthly_left, left.topup_left) >= 0
    assert hold.topup == 0 or left.monthly_left == 0


@given(balances, counts, charges, st.booleans())
def test_settlement_never_exceeds_the_reservation(
    balance: Balance, held: int, used: list[Charge], over: bool
) -> None:
    taken = ledger.reserve(balance, LIMITED, held)
    if taken is None:
        return
    hold, lines = taken
    running = ledger.apply(balance, lines)
    if over:  # the month ended while the job ran
        running, fresh = ledger.renew_period(running, LIMITED, 100.0, 100.0 + 40 * 86_400)
        assert [line.kind for line in fresh][-1] == "grant"
    end = ledger.apply(running, ledger.settle(running, hold, used))
    credits_used = min(sum(charge.credits for charge in used), held)
    from_month = min(credits_used, hold.monthly)
    assert end.topup_left == running.topup_left + hold.topup - (credits_used - from_month)
    back = 0 if over else hold.monthly - from_month
    assert end.monthly_left == running.monthly_left + back


@given(balances, charges)
def test_unlimited_account_has_charges_without_changes(
    balance: Balance, used: list[Charge]
) -> None:
    free = Terms("unlimited", None, None)
    taken = ledger.reserve(balance, free, 10**9)
    assert taken == (Reservation(0, 0, 100.0), [])
    lines = ledger.settle(balance, taken[0], used)
    assert [line.charge for line in lines] == [charge for charge in used if charge.credits]
    assert ledger.apply(balance, lines) == balance


@given(balances, st.integers(0, 1000), st.integers(0, 1000))
def test_changed_plan_keeps_used_credits_used(balance: Balance, old: int, new: int) -> None:
    lines = ledger.change_terms(balance, Terms("team", old, 8), Terms("team", new, 8))
    left = ledger.apply(balance, lines)
    assert left.monthly_left == max(0, balance.monthly_left + new - old)
    assert left.topup_left == balance.topup_left


@pytest.mark.parametrize(
    ("anchor", "now", "start", "end"),
    [
        ("2026-01-15T10:00", "2026-01-15T10:00", "2026-01-15T10:00", "2026-02-15T10:00"),
        ("2026-01-15T10:00", "2026-02-15T09:59", "2026-01-15T10:00", "2026-02-15T10:00"),
        ("2026-01-15T10:00", "2026-02-15T10:00", "2026-02-15T10:00", "2026-03-15T10:00"),
        ("2026-01-31T00:00", "2026-02-28T12:00", "2026-02-28T00:00", "2026-03-31T00:00"),
        ("2024-01-31T00:00", "2024-02-29T00:00", "2024-02-29T00:00", "2024-03-31T00:00"),
        ("2026-11-30T00:00", "2027-01-01T00:00", "2026-12-30T00:00", "2027-01-30T00:00"),
        ("2026-06-01T00:00", "2026-05-01T00:00", "2026-06-01T00:00", "2026-07-01T00:00"),
    ],
)
def test_billing_periods_are_months_from_the_anchor(
    anchor: str, now: str, start: str, end: str
) -> None:
    assert ledger.billing_period(at(anchor), at(now)) == (at(start), at(end))


@given(st.integers(940_000_000, 3_800_000_000), st.integers(0, 10 * 366 * 86_400))
def test_billing_periods_have_no_gaps(anchor: int, later: int) -> None:
    start, end = ledger.billing_period(anchor, anchor + later)
    assert start <= anchor + later < end
    assert ledger.billing_period(anchor, end)[0] == end
    assert 27 * 86_400 < end - start < 32 * 86_400


def test_month_expires_once_and_topup_never() -> None:
    anchor = at("2026-01-01T00:00")
    old = Balance(20, 7, anchor)
    new, lines = ledger.renew_period(old, LIMITED, anchor, at("2026-03-05T00:00"))
    assert lines == [LedgerLine("expire", -20, 0), LedgerLine("grant", 300, 0)]
    assert new == Balance(300, 7, at("2026-03-01T00:00"))
    for now in ("2026-03-31T23:00", "2026-02-01T00:00"):
        assert ledger.renew_period(new, LIMITED, anchor, at(now)) == (new, [])


def test_weights_are_whole_credits_and_in_the_catalog() -> None:
    assert all(isinstance(price, int) and price > 0 for price in WEIGHTS.values())
    assert {(each.platform, each.operation): each.weight for each in CATALOG} == WEIGHTS


def test_plans_are_known_and_their_figures_bounded() -> None:
    assert terms_of("trial") == PLANS["trial"]
    assert terms_of("team", 5, 1) == Terms("team", 5, 1)
    for wrong in (("gold", 1, 1), ("team", -1, 1), ("team", 1, 0)):
        with pytest.raises(ValueError, match="must be"):
            terms_of(*wrong)
