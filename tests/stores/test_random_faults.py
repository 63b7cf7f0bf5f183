"""Random histories of jobs under faults, kills and clocks that jump: no job is lost.

A run has 20 histories of 25 events. With `STORE_LIVES=300` in the environment it has 300 of 50.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.stores.faults.fleet import Fleet
from tests.stores.faults.injection import CODES, IN_DOUBT, Fault
from tests.stores.faults.simulated import SimulatedLoop
from webdata_nb.contract.outcomes import TERMINAL
from webdata_nb.service.work.runner import MAX_ATTEMPTS

T = TypeVar("T")
LIVES = int(os.environ.get("STORE_LIVES", "20"))
MOST_JOBS = 6
STATEMENTS = (
    *(
        "claim",
        "renew",
        "check_lease",
        "put_entries",
        "update_entries",
        "publish",
        "begin_batch",
        "finish",
    ),
    *(
        "add_url_outcomes",
        "put_pinned_files",
        "charged_rows",
        "end_reservation",
        "set_job_credits",
        "add_delivery",
    ),
    *("journal", "pinned_files", "take_delivery", "record_attempt", "release", "cancel"),
    *("BEGIN", "COMMIT", "ROLLBACK", IN_DOUBT),
)


class Ownership(RuleBasedStateMachine):
    """One fleet, any order of events."""

    def __init__(self) -> None:
        super().__init__()
        logging.disable(logging.CRITICAL)
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.Runner(loop_factory=SimulatedLoop)
        self.fleet = self.run(self._opened())
        # How often a worker was killed since the last time that all had a minute to themselves.
        self.kills = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(coroutine)

    async def _opened(self) -> Fleet:
        return await Fleet(Path(self.folder.name)).__aenter__()

    @precondition(lambda self: len(self.fleet.jobs) < MOST_JOBS)
    @rule(pages=st.integers(0, 12), kind=st.sampled_from(["crawl", "search"]), fails=st.booleans())
    def start(self, pages: int, kind: str, fails: bool) -> None:
        fails = fails and kind == "crawl" and pages > 1
        self.run(self.fleet.start(pages, kind, fails=fails))

    @rule(seconds=st.sampled_from([0.1, 1.0, 4.0, 20.0]))
    def work(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    @rule(
        statement=st.sampled_from(STATEMENTS),
        code=st.sampled_from(sorted(CODES)),
        times=st.integers(1, 4),
        skip=st.integers(0, 3),
    )
    def fail(self, statement: str, code: str, times: int, skip: int) -> None:
        self.fleet.faults.arm(Fault(statement, code, times=times, skip=skip))

    @rule(statement=st.sampled_from(STATEMENTS[:-1]), code=st.sampled_from(sorted(CODES)))
    def fail_for_long(self, statement: str, code: str) -> None:
        self.fleet.faults.arm(Fault(statement, code, seconds=30.0))

    @precondition(lambda self: self.kills < MAX_ATTEMPTS - 1)
    @rule()
    def kill(self) -> None:
        self.kills += 1
        self.run(self.fleet.kill())

    @rule()
    def restart(self) -> None:
        self.run(self.fleet.restart())

    @rule(seconds=st.sampled_from([-86_400.0, -20.0, 20.0, 3_600.0]))
    def jump(self, seconds: float) -> None:
        """Set the wall clock: leases seem to run out, or to last."""
        self.fleet.jump(seconds)

    @precondition(lambda self: self.fleet.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.run(self.fleet.cancel(data.draw(st.sampled_from(sorted(self.fleet.jobs)))))

    @invariant()
    def no_row_disappears(self) -> None:
        for number, watch in self.fleet.watches.items():
            assert not watch.broken, number

    def teardown(self) -> None:
        """Let everything end: nothing is missing."""
        try:
            self.fleet.jump(60 * 86_400.0)  # webhooks that a clock set back has put off
            self.run(self.fleet.settle())
            assert all(watch.end in TERMINAL for watch in self.fleet.watches.values())
            assert self.run(self.fleet.problems()) == []
        finally:
            self.run(self.fleet.__aexit__())
            self.loop.close()
            self.folder.cleanup()
            logging.disable(logging.NOTSET)


TestOwnership = pytest.mark.slow(Ownership.TestCase)
TestOwnership.settings = settings(
    max_examples=LIVES,
    stateful_step_count=25 if LIVES < 100 else 50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
