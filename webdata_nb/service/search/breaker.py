"""Keeps the circuit breakers of search providers, shared by accounts and for each account.

A provider that limits or blocks requests, or refuses the key, is avoided at once by all accounts.
Timeouts and errors open its circuit after the third in a row. The queries of one account may
cause those: its circuit alone opens until the searches of another account fail too.
Processes share the circuits for all accounts, and have their own for each account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, cast

from webdata_nb.pacing.host_pacing import (
    CLOSED,
    IN_PROCESS,
    PROVIDER,
    BreakerPolicy,
    Circuit,
    PacingState,
    SharedPacing,
)
from webdata_nb.service.runtime.bounded_dict import BoundedDict
from webdata_nb.service.search.providers.api import AttemptStatus

_MAX_STATES: Final = 1000
_FAULTS: Final[frozenset[AttemptStatus]] = frozenset({"timeout", "error"})
_Change = Callable[["ProviderState", float], "ProviderState"]

# Rate limits pass in minutes, a block for automation lasts longer; a refused key will be refused
# again, but the same key may have been topped up.
POLICIES: Final[Mapping[AttemptStatus, BreakerPolicy]] = MappingProxyType(
    {
        "rate_limited": BreakerPolicy(60, 3600),
        "blocked": BreakerPolicy(180, 3600),
        "auth": BreakerPolicy(600, 3600),
        "timeout": BreakerPolicy(30, 600, threshold=3),
        "error": BreakerPolicy(30, 600, threshold=3),
    }
)


@dataclass(frozen=True, slots=True)
class ProviderState:
    """The circuit of one provider with one key, and the status that it reports while open."""

    circuit: Circuit = CLOSED
    status: AttemptStatus = "ok"

    def after(
        self, status: AttemptStatus, now: float, retry_after_s: float | None = None
    ) -> ProviderState:
        """Return the state after one attempt."""
        if status in {"ok", "empty"}:
            return HEALTHY
        circuit = self.circuit.after_failure(POLICIES[status], now, retry_after_s=retry_after_s)
        was_open = self.circuit.remaining_s(now) > 0
        return ProviderState(circuit, self.status if was_open else status)

    def with_failure(self, status: AttemptStatus) -> ProviderState:
        """Return the state with a failure that is counted and does not open the circuit."""
        return ProviderState(replace(self.circuit, failures=self.circuit.failures + 1), status)

    @property
    def shared(self) -> PacingState:
        """What other processes need to know."""
        return PacingState(circuit=self.circuit, status=self.status)

    @classmethod
    def from_shared(cls, state: PacingState) -> ProviderState:
        """Return the state that the processes know together."""
        return cls(state.circuit, cast("AttemptStatus", state.status or "ok"))


HEALTHY: Final = ProviderState()


class ProviderBreakers:
    """The states of a process, by `Provider.identity`, for all accounts and for each.

    `pacing` shares those for all accounts with the other processes.
    """

    def __init__(self, pacing: SharedPacing = IN_PROCESS) -> None:
        self._pacing = pacing
        self._shared = BoundedDict[str, ProviderState](_MAX_STATES)
        self._by_account = BoundedDict[tuple[str, str], ProviderState](_MAX_STATES)
        # The account whose searches caused all failures in a row; None for several accounts.
        self._only_account = BoundedDict[str, str | None](_MAX_STATES)
        pacing.subscribe(
            PROVIDER,
            lambda identity, state: self._set_shared(identity, ProviderState.from_shared(state)),
        )

    def state(self, identity: str, account_id: str = "", now: float = 0.0) -> ProviderState:
        """Return the state that keeps an account from a provider the longest."""
        shared = self._shared.get(identity, HEALTHY)
        account_state = self._by_account.get((identity, account_id), HEALTHY)
        return max(shared, account_state, key=lambda state: state.circuit.remaining_s(now))

    def record(
        self,
        identity: str,
        status: AttemptStatus,
        now: float,
        retry_after_s: float | None = None,
        *,
        account_id: str = "",
    ) -> None:
        """Record the status of an attempt for an account."""
        if status in _FAULTS:
            key = (identity, account_id)
            account_state = self._by_account.get(key, HEALTHY)
            self._by_account[key] = account_state.after(status, now, retry_after_s)
            is_only = self._only_account.get(identity, account_id) == account_id
            self._only_account[identity] = account_id if is_only else None
            if is_only:
                self._change(identity, now, lambda state, _: state.with_failure(status))
                return
        else:
            self._only_account.pop(identity, None)
        self._change(identity, now, lambda state, at: state.after(status, at, retry_after_s))
        if self._shared.get(identity, HEALTHY) == HEALTHY:
            self._by_account.pop((identity, account_id), None)

    def _change(self, identity: str, now: float, change: _Change) -> None:
        """Apply the outcome of an attempt, here and at the other processes."""
        before = self._shared.get(identity, HEALTHY)
        after = change(before, now)
        self._set_shared(identity, after)
        if after != before:
            urgent = after.shared.is_prolonged(before.shared)
            self._pacing.update(
                PROVIDER + identity,
                lambda state, at: change(ProviderState.from_shared(state), at).shared,
                urgent=urgent,
            )

    def _set_shared(self, identity: str, state: ProviderState) -> None:
        if state == HEALTHY:
            self._shared.pop(identity, None)
        else:
            self._shared[identity] = state
