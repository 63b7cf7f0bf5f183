"""The next state of a delivery: the table of the contract's part 6.3, in both profiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.contract.events import Profile
from webdata_nb.service.webhooks.schedule import POLICIES, DeliveryOutcome, next_delivery

A, B = POLICIES[Profile.A], POLICIES[Profile.B]
NOW = 1000.0


@pytest.mark.parametrize("status", [200, 204, 299])
@pytest.mark.parametrize("rules", [A, B])
def test_a_2xx_acknowledges(rules: object, status: int) -> None:
    assert next_delivery(rules, 1, DeliveryOutcome(status), NOW).state == "delivered"  # type: ignore[arg-type]


def test_a_redirect_acknowledges_in_profile_a_alone() -> None:
    assert next_delivery(A, 1, DeliveryOutcome(302), NOW).state == "delivered"
    assert next_delivery(B, 1, DeliveryOutcome(302), NOW).state == "failed"


def test_each_profile_has_its_delays() -> None:
    down = DeliveryOutcome(503)
    assert [next_delivery(A, n, down, NOW).due_at - NOW for n in (1, 2)] == [1, 4]
    assert [next_delivery(B, n, down, NOW).due_at - NOW for n in (1, 2)] == [10, 60]
    assert (A.timeout_s, B.timeout_s) == (10, 30)


@given(
    st.sampled_from([A, B]),
    st.integers(1, 3),
    st.integers(200, 599) | st.sampled_from(["dns", "connect", "timeout", "reset", "refused"]),
)
def test_transient_failures_get_three_attempts_others_one(
    rules: object, attempt: int, result: int | str
) -> None:
    outcome = (
        DeliveryOutcome(result) if isinstance(result, int) else DeliveryOutcome(failure=result)
    )
    found = next_delivery(rules, attempt, outcome, NOW)  # type: ignore[arg-type]
    passing = result >= 500 if isinstance(result, int) else result != "refused"
    assert (found.state == "pending") == (passing and attempt < 3)
    assert found.due_at > NOW if found.state == "pending" else found.due_at == NOW
