"""Random histories of two accounts' jobs, with kills and restarts, keep all invariants.

A run has 15 histories of 40 events. With `STORE_LIVES=300` in the environment it has 300 of 50.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.stores.jobs import NOW, entry, new_job
from webdata_nb.contract.outcomes import RETRYABLE, TERMINAL, JobStatus
from webdata_nb.page.errors import ApplicationError
from webdata_nb.service.errors import (
    ConcurrencyReached,
    CreditsUsedUp,
    InvalidJobState,
    LeaseLost,
    NoSuchJob,
)
from webdata_nb.service.ledger import Charge, Terms
from webdata_nb.service.store.records import CommitBatch, Lease
from webdata_nb.service.store.sqlite.database import SqliteStore

T = TypeVar("T")
ACTIVE = frozenset({JobStatus.PENDING, JobStatus.RUNNING})
TERMS = {"a": Terms("team", 12, 3), "b": Terms("team", 30, 2)}
LEASE_S = 10.0
DAY = 86_400.0
LIVES = int(os.environ.get("STORE_LIVES", "15"))
ENDS = (JobStatus.COMPLETED, JobStatus.FAILED)


@dataclass
class ExpectedJob:
    """What the test knows of a job."""

    account: str
    most: int
    state: JobStatus = JobStatus.PENDING
    good: int = 0
    rows: int = 0
    lease: Lease | None = None
    old: list[Lease] = field(default_factory=list)


class StoreHistories(RuleBasedStateMachine):
    """Two accounts, one store, any order of events."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.root = Path(tempfile.mkdtemp())
        self.now, self.kills, self.topups = NOW, 0, dict.fromkeys(TERMS, 0)
        self.jobs: dict[str, ExpectedJob] = {}
        self.calls: dict[str, tuple[str, int]] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def refusal_of(self, work: Coroutine[Any, Any, Any]) -> ApplicationError | None:
        """Return how the service refused, if it did."""
        try:
            self.run(work)
        except ApplicationError as error:
            return error
        return None

    def open(self) -> None:
        self.store = SqliteStore(self.root / str(self.kills) / "jobs.sqlite")
        self.run(self.store.__aenter__())
        self.accounts = self.store.accounts

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self.store.__aexit__(None, None, None))
        self.runner.close()
        shutil.rmtree(self.root)

    @initialize()
    def begin(self) -> None:
        (self.root / "0").mkdir()
        self.open()
        for name, terms in TERMS.items():
            self.run(self.accounts.add(name, name, terms, now=self.now))

    # what clients do

    def active(self, account: str) -> int:
        jobs = [job for job in self.jobs.values() if job.account == account]
        calls = [name for name, _ in self.calls.values() if name == account]
        return sum(job.state in ACTIVE for job in jobs) + len(calls)

    def expected(self, account: str, needed: int) -> type[Exception] | None:
        if self.active(account) >= (TERMS[account].concurrency or 0):
            return ConcurrencyReached
        # A call that costs nothing gives back what dead ones held, as the next start would.
        self.run(self.accounts.open_call(account, "probe", (), until=self.now, now=self.now))
        self.run(self.accounts.close_call(account, "probe", (), now=self.now))
        usage = self.run(self.accounts.usage(account, now=self.now))
        return CreditsUsedUp if needed > usage.account.balance.left else None

    @rule(account=st.sampled_from(sorted(TERMS)), pages=st.integers(0, 8))
    def start(self, account: str, pages: int) -> None:
        self.bury()
        refused = self.expected(account, pages)
        wanted = new_job(account, max_charges=(Charge("crawl", "page", pages),))
        wanted = replace(wanted, id=f"job-{len(self.jobs):03}")  # the same in every run
        error = self.refusal_of(self.store.accept(wanted, now=self.now))
        assert (error and type(error)) is refused
        if refused is None:
            self.jobs[wanted.id] = ExpectedJob(account, pages)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), account=st.sampled_from(sorted(TERMS)))
    def cancel(self, data: st.DataObject, account: str) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.jobs)))
        known = self.jobs[job_id]
        error = self.refusal_of(self.store.cancel(account, job_id, now=self.now))
        if account != known.account:
            assert isinstance(error, NoSuchJob)
        elif known.state not in {*ACTIVE, JobStatus.CANCELLED}:
            assert isinstance(error, InvalidJobState)
            assert error.state == known.state
        else:
            assert error is None
            known.state = JobStatus.CANCELLED

    @precondition(lambda self: any(job.state in RETRYABLE for job in self.jobs.values()))
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        ended = sorted(name for name, job in self.jobs.items() if job.state in RETRYABLE)
        known = self.jobs[data.draw(st.sampled_from(ended))]
        self.start(known.account, known.most)

    @rule(account=st.sampled_from(sorted(TERMS)), credits_=st.integers(1, 5))
    def top_up(self, account: str, credits_: int) -> None:
        self.run(self.accounts.top_up(account, credits_, now=self.now))
        self.topups[account] += credits_

    @rule(account=st.sampled_from(sorted(TERMS)), units=st.integers(1, 3))
    def call(self, account: str, units: int) -> None:
        self.bury()
        refused, call_id = self.expected(account, units), f"call-{len(self.calls)}-{self.now}"
        most = (Charge("crawl", "page", units),)
        opening = self.accounts.open_call(
            account, call_id, most, until=self.now + LEASE_S, now=self.now
        )
        error = self.refusal_of(opening)
        assert (error and type(error)) is refused
        if refused is None:
            self.calls[call_id] = account, units

    @precondition(lambda self: self.calls)
    @rule()
    def hang_up(self) -> None:
        call_id, (account, units) = self.calls.popitem()
        charge = Charge("crawl", "page", units)
        self.run(self.accounts.close_call(account, call_id, [charge], now=self.now))

    # what workers do

    @rule(worker=st.sampled_from(["w1", "w2"]), most=st.integers(1, 3))
    def claim(self, worker: str, most: int) -> None:
        found = self.run(self.store.claim(worker, max_jobs=most, lease_s=LEASE_S, now=self.now))
        assert len(found) <= most
        for job, lease in found:
            known = self.jobs[job.id]
            assert known.state in ACTIVE
            known.old += [known.lease] if known.lease else []
            known.state, known.lease = JobStatus.RUNNING, lease

    @precondition(lambda self: self.running())
    @rule(data=st.data(), success=st.booleans(), seen=st.booleans())
    def store_a_page(self, data: st.DataObject, success: bool, seen: bool) -> None:
        known = self.jobs[data.draw(st.sampled_from(self.running()))]
        assert known.lease is not None
        if known.rows == known.most:
            return
        position = known.rows if seen else None
        page = entry(known.rows + 100 * (not seen), position=position, success=success,
                     charged=("page",))  # fmt: skip
        self.run(self.store.commit(known.lease, CommitBatch(entries=(page,))))
        known.rows += seen
        known.good += seen and success

    @precondition(lambda self: self.running())
    @rule(data=st.data(), end=st.sampled_from(ENDS))
    def finish(self, data: st.DataObject, end: JobStatus) -> None:
        known = self.jobs[data.draw(st.sampled_from(self.running()))]
        assert known.lease is not None
        self.run(self.store.finish(known.lease, end, error=None, now=self.now))
        known.state = end

    @precondition(lambda self: self.lost())
    @rule(data=st.data())
    def write_too_late(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(self.lost()))
        # The same end again changes nothing.
        completed = self.jobs[lease.job_id].state is JobStatus.COMPLETED
        end = JobStatus.FAILED if completed else JobStatus.COMPLETED
        for write in (
            self.store.commit(lease, CommitBatch(entries=(entry(900, position=900),))),
            self.store.renew(lease, lease_s=LEASE_S, now=self.now),
            self.store.finish(lease, end, error=None, now=self.now),
        ):
            assert isinstance(self.refusal_of(write), LeaseLost)

    def running(self) -> list[str]:
        return sorted(name for name, job in self.jobs.items() if job.state is JobStatus.RUNNING)

    def lost(self) -> list[Lease]:
        """Leases of workers that were overtaken, or whose job is over."""
        over = [job.lease for job in self.jobs.values() if job.lease and job.state in TERMINAL]
        return over + [lease for job in self.jobs.values() for lease in job.old]

    # what happens to everybody

    @rule()
    def kill(self) -> None:
        """Go on with the files as they are at this moment, as after kill -9."""
        before, self.kills = self.root / str(self.kills), self.kills + 1
        shutil.copytree(before, self.root / str(self.kills))
        dying = self.store
        self.open()
        self.run(dying.__aexit__(None, None, None))
        shutil.rmtree(before)
        self.run(self.store.expire_leases())

    @rule(seconds=st.sampled_from([1.0, LEASE_S + 1, DAY, 31 * DAY]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.bury()

    def bury(self) -> None:
        """Calls past their time count no more."""
        if self.now > NOW:
            born = {call: float(call.rpartition("-")[2]) for call in self.calls}
            self.calls = {
                call: result
                for call, result in self.calls.items()
                if born[call] + LEASE_S >= self.now
            }

    # what must hold

    @invariant()
    def states_match_the_model(self) -> None:
        for job_id, known in self.jobs.items():
            job = self.run(self.store.job(known.account, job_id))
            assert job.state is known.state
            assert job.published == known.rows

    @invariant()
    def ledger_matches_the_model(self) -> None:
        for name, terms in TERMS.items() if hasattr(self, "store") else ():
            usage = self.run(self.accounts.usage(name, now=self.now))
            lines = self.run(self.accounts.ledger(name))
            balance = usage.account.balance
            assert sum(line.topup for line in lines) == balance.topup_left >= 0
            stored = sum(line.monthly for line in lines)
            assert balance.monthly_left in {stored, terms.monthly}
            assert 0 <= balance.monthly_left <= (terms.monthly or 0)
            charged = {line.reservation_id: line.credits for line in lines if line.kind == "charge"}
            for line in lines:
                if line.kind == "charge":
                    assert line.credits == -(line.monthly + line.topup)
            for job_id, known in self.jobs.items():
                if known.account == name and known.state in TERMINAL:
                    assert charged.get(job_id, 0) == known.good
                elif known.account == name:
                    assert job_id not in charged
            topup_sum = sum(line.topup for line in lines if line.kind == "topup")
            assert topup_sum == self.topups[name]

    @invariant()
    def active_jobs_stay_within_concurrency(self) -> None:
        for name, terms in TERMS.items() if hasattr(self, "store") else ():
            usage = self.run(self.accounts.usage(name, now=self.now))
            assert usage.active == self.active(name) <= (terms.concurrency or 0)
            held = sum(
                job.most
                for job in self.jobs.values()
                if job.account == name and job.state in ACTIVE
            )
            held += sum(units for account, units in self.calls.values() if account == name)
            assert usage.reserved == held


TestStoreHistories = pytest.mark.slow(StoreHistories.TestCase)
TestStoreHistories.settings = settings(
    max_examples=LIVES,
    stateful_step_count=40 if LIVES < 100 else 50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
