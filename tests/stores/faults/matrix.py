"""Every statement of the store fails: once, several times and for 30 s, in three ways."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.stores.faults.background_operations import chores
from tests.stores.faults.fleet import Fleet
from tests.stores.faults.injection import CODES, Fault
from tests.stores.faults.simulated import run
from webdata_nb.service.store.sql.connection import statements

TIMES: Final = 3
SECONDS: Final = 30.0
# Only `webdata store check` asks these, on a connection of its own.
ELSEWHERE: Final = frozenset(
    {
        "wrong_balances",
        "wrong_credits",
        "wrong_reservations",
        "wrong_published",
        "wrong_receipts",
        "contents",
        "missing_contents",
        "unused_contents",
    }
)


@dataclass(frozen=True, slots=True)
class FleetResult:
    """What a run came to: what did not hold, how often the fault struck, which statements ran."""

    problems: tuple[str, ...]
    raised: int
    jobs: frozenset[str]
    chores: frozenset[str]


def run_fleet(fault: Fault | None = None, *, among_chores: bool = False) -> FleetResult:
    """Run a fleet while `fault` strikes its jobs, or what is done beside them."""
    return run(_run_fleet(fault, among_chores=among_chores))


async def _run_fleet(fault: Fault | None, *, among_chores: bool) -> FleetResult:
    with tempfile.TemporaryDirectory() as root:
        async with Fleet(Path(root)) as fleet:
            fleet.faults.ran.clear()
            if fault is not None and not among_chores:
                fleet.faults.arm(fault)
            crawl = await fleet.start(20)
            await fleet.start(5, "search")
            expired = await fleet.start(6, fails=True)
            cancelled = await fleet.start(9)
            await asyncio.sleep(4)
            await fleet.cancel(cancelled)
            await fleet.kill()
            await fleet.settle()
            raised, job_statements = fleet.faults.raised, frozenset(fleet.faults.ran)
            problems = await fleet.problems()
            fleet.faults.ran.clear()
            if fault is not None and among_chores:
                fleet.faults.arm(fault)
            if fault is None or among_chores:
                await chores(fleet, crawl, expired)
                raised = fleet.faults.raised
                problems += await fleet.problems()
            return FleetResult(tuple(problems), raised, job_statements, frozenset(fleet.faults.ran))


def faults(result: FleetResult) -> Iterator[tuple[Fault, bool]]:
    """Return every fault that is to be tried, and whether it strikes among the chores."""
    for statement in sorted(result.jobs | result.chores):
        for code in CODES:
            for times, seconds in ((1, 0.0), (TIMES, 0.0), (0, SECONDS)):
                yield Fault(statement, code, times, seconds), statement not in result.jobs


def run_without_faults() -> FleetResult:
    """Run a fleet without faults; raises where even that does not hold."""
    calls = run_fleet()
    if calls.problems:
        raise AssertionError(f"without a fault: {calls.problems}")
    return calls


def unused_statements(result: FleetResult) -> list[str]:
    """Return the statements of the store that nothing here runs."""
    return sorted(set(statements()) - result.jobs - result.chores - ELSEWHERE)


def sample_faults(every: list[tuple[Fault, bool]], seed: int) -> list[tuple[Fault, bool]]:
    """Return one fault of each statement, chosen at random, from a random occurrence on."""
    chance = random.Random(seed)
    chance.shuffle(every)
    found: dict[str, tuple[Fault, bool]] = {}
    for fault, among_chores in every:
        found.setdefault(fault.statement, (fault, among_chores))
    return list(found.values())


def later(fault: Fault, chance: random.Random) -> Fault:
    """Return the fault as it strikes after the statement has succeeded some times."""
    return replace(fault, skip=chance.randrange(1, 8))
