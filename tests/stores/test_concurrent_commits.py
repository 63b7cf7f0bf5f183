"""The short form of `python -m benchmarks.concurrent_commits`, which runs for ten minutes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import psycopg
import pytest

from benchmarks.concurrent_commits import JOBS, PAGES, measure
from tests.postgres import PostgresServer
from webdata_nb.service.store.postgres import database
from webdata_nb.service.store.postgres.transactions import Change, Connection, apply_changes


@pytest.fixture
def deadlocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every fifth transaction of the stores end as the victim of a deadlock."""
    turns = itertools.count(1)

    def applied(connection: Connection, changes: Sequence[Change]) -> Sequence[object]:
        if next(turns) % 5 == 0:
            raise psycopg.errors.DeadlockDetected("deadlock detected")
        return apply_changes(connection, changes)

    monkeypatch.setattr(database, "apply_changes", applied)


async def test_jobs_commit_together_without_an_error(postgres_server: PostgresServer) -> None:
    report = await measure(postgres_server.new_schema(), lambda: True)
    assert (report.passed, report.jobs, report.commits) == (True, JOBS, JOBS * PAGES)


@pytest.mark.usefixtures("deadlocks")
async def test_deadlocks_are_counted_and_hidden_from_callers(
    postgres_server: PostgresServer,
) -> None:
    report = await measure(postgres_server.new_schema(), lambda: True)
    assert (report.passed, report.jobs) == (True, JOBS)
    assert report.retried > 0


@pytest.mark.usefixtures("deadlocks")
async def test_an_error_that_a_caller_sees_fails_the_run(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "is_retryable", lambda _: False)
    report = await measure(postgres_server.new_schema(), lambda: True)
    assert not report.passed
    assert any("deadlock" in error for error in report.errors), report.lines()
