"""What an operator sees, on every store: sums equal the ledger, and views the stored jobs."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tests.stores.jobs import NOW, claimed, entry, new_job
from webdata_nb.contract.operator_views import GROUPS, VIEWS, Query, parse_since
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.errors import NoSuchAccount, NoSuchJob
from webdata_nb.service.ledger import Charge, Terms
from webdata_nb.service.store.records import CommitBatch, Replica, UrlOutcome
from webdata_nb.service.store.sql.store import Store, find_contradictions

DAY = 86_400.0
KEYS = {"a": ("key_a1", "key_a2"), "b": ("key_b1", "key_b2")}
ENDS = (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED)
PAGES = Charge("crawl", "page", 20)
FETCHED, FAILED = "fetched", "failed:timeout"


async def rows(store: Store, view: str, **filters: Any) -> list[dict[str, Any]]:
    return (await store.operator.answer(view, Query(**filters))).rows


async def add_accounts(store: Store) -> None:
    await store.accounts.add("a", "Alice", Terms("team", 100_000, 8), now=NOW)
    await store.accounts.add("b", "Bob", Terms("unlimited", None, None), now=NOW)


async def run_job(
    store: Store, account: str, key_id: str, end: JobStatus, pages: int, *, now: float, kind: str
) -> str:
    """Run a job to its end, every third page of which has failed; return its id."""
    charge = PAGES if kind == "crawl" else Charge("search", "scrape", 20)
    new = new_job(account, kind=kind, key_id=key_id, max_charges=(charge,))
    await store.accept(new, now=now)
    if end is JobStatus.CANCELLED:
        await store.cancel(account, new.id, now=now + 1)
        return new.id
    job, lease = await claimed(store, now=now)
    assert job.id == new.id
    operation = f"{kind}/page" if kind == "crawl" else "scrape"
    entries = tuple(
        entry(n, position=n, success=n % 3 != 2, charged=(operation.rpartition("/")[2],))
        for n in range(pages)
    )
    outcomes = tuple(UrlOutcome(each.url, FETCHED if each.success else FAILED) for each in entries)
    chain = [{"engine": "google", "provider": "brave", "status": "ok", "seconds": 1}]
    batch = CommitBatch(
        entries=entries,
        url_outcomes=outcomes,
        outcome={"fallback_chain": chain} if kind == "search" else None,
    )
    error = "no answer of http://x.example/1?q=secret in 30 s" if end is JobStatus.FAILED else None
    await store.finish(lease, end, error=error, batch=batch, now=now + 2)
    return new.id


async def history(store: Store, *, seed: int, count: int = 40) -> Counter[tuple[str, str, str]]:
    """End jobs and calls of two accounts on several days; return the jobs by account and end."""
    choose = random.Random(seed)
    ended: Counter[tuple[str, str, str]] = Counter()
    for number in range(count):
        account = choose.choice("ab")
        key_id = choose.choice(KEYS[account])
        now = NOW + choose.randrange(5) * DAY + number
        if choose.random() < 0.2:
            most = (Charge("partner_ads_transparency", "creatives", 9),)
            call = f"call-{number}"
            await store.accounts.open_call(
                account, call, most, key_id=key_id, until=now + 60, now=now
            )
            used = (Charge("partner_ads_transparency", "creatives", choose.randrange(9)),)
            await store.accounts.close_call(account, call, used, now=now)
            continue
        kind, end = choose.choice(("crawl", "search")), choose.choice(ENDS)
        pages = choose.randrange(9)
        await run_job(store, account, key_id, end, pages, now=now, kind=kind)
        ended[account, kind, end.value] += 1
    return ended


async def charged(store: Store, account: str) -> Counter[tuple[str, str]]:
    """Sum up the charges of the ledger by operation."""
    sums: Counter[tuple[str, str]] = Counter()
    for line in await store.accounts.ledger(account):
        if line.kind == "charge":
            sums[f"{line.platform}/{line.operation}", "credits"] += line.credits
            sums[f"{line.platform}/{line.operation}", "units"] += line.units or 0
    return +sums


@pytest.mark.parametrize("seed", range(3))
async def test_usage_equals_the_ledger_by_account_and_operation(store: Store, seed: int) -> None:
    await add_accounts(store)
    ended = await history(store, seed=seed)
    for account, name in (("a", "Alice"), ("b", "Bob")):
        found: Counter[tuple[str, str]] = Counter()
        for row in await rows(store, "usage", account=name, by=("account", "operation")):
            assert row["account"] == name
            found[row["operation"], "credits"] += row["credits"]
            found[row["operation"], "units"] += row["units"]
        assert +found == await charged(store, account)
        [total] = await rows(store, "usage", account=account, by=("account",))
        assert total["jobs"] == sum(n for (owner, *_), n in ended.items() if owner == account)
        assert total["failed"] == sum(
            n for (owner, _, end), n in ended.items() if (owner, end) == (account, "failed")
        )
    assert all(not result.problems for result in await contradictions(store))


async def contradictions(store: Store) -> list[Any]:
    return await store.database.query(lambda transaction: list(find_contradictions(transaction)))


async def test_every_grouping_has_the_same_sums(store: Store) -> None:
    await add_accounts(store)
    await history(store, seed=9)
    totals = []
    for chosen in (("account",), ("key",), ("day",), ("operation",), GROUPS, ("key", "day")):
        table = await rows(store, "usage", by=chosen, limit=10_000)
        assert all(set(chosen) <= set(row) for row in table)
        groups = [tuple(row[name] for name in chosen) for row in table]
        assert len(set(groups)) == len(groups)
        totals.append([sum(row[name] for row in table) for name in ("jobs", "rows", "credits")])
    assert totals[0][0] > 0
    assert all(total == totals[0] for total in totals)


async def test_keys_and_days_are_those_of_the_start_and_the_end(store: Store) -> None:
    await add_accounts(store)
    await run_job(store, "a", "key_a1", JobStatus.COMPLETED, 3, now=NOW, kind="crawl")
    await run_job(store, "a", "key_a2", JobStatus.COMPLETED, 6, now=NOW + DAY, kind="crawl")
    table = await rows(store, "usage", by=("key", "day"))
    assert [(row["key"], row["day"], row["rows"], row["credits"] > 0) for row in table] == [
        ("key_a1", "2023-11-14", 2, True),
        ("key_a2", "2023-11-15", 4, True),
    ]
    [late] = await rows(store, "usage", by=("key",), since=NOW + DAY)
    assert late["key"] == "key_a2"


async def test_counters_of_the_report_equal_the_views(store: Store) -> None:
    await add_accounts(store)
    ended = await history(store, seed=4)
    for _ in range(2):  # the second one has the sums of the past days
        report = await store.operator.report()
        by_state: Counter[tuple[str, str]] = Counter()
        for (_, kind, state), count in ended.items():
            by_state[kind, state] += count
        found = {key[1:]: n for key, n in report.usage.items() if key[0] == "jobs"}
        assert found == by_state
        assert report.jobs == by_state
        everything = [line for account in "ab" for line in (await charged(store, account)).items()]
        credited = sum(n for (_, fact), n in everything if fact == "credits")
        assert credited == sum(n for key, n in report.usage.items() if key[0] == "credits")


async def test_jobs_and_failures_name_account_key_and_reason(store: Store) -> None:
    await add_accounts(store)
    failed = [
        await run_job(store, "a", "key_a1", JobStatus.FAILED, 1, now=NOW + n, kind="crawl")
        for n in range(3)
    ]
    failed.append(await run_job(store, "b", "key_b1", JobStatus.FAILED, 0, now=NOW, kind="crawl"))
    done = await run_job(store, "b", "key_b1", JobStatus.COMPLETED, 4, now=NOW, kind="search")
    pending = new_job("a", key_id="key_a2")
    await store.accept(pending, now=NOW + 60)
    everything = {row["job"]: row for row in await rows(store, "jobs")}
    assert everything.keys() == {*failed, done, pending.id}
    assert everything[pending.id]["state"] == "pending"
    only = await rows(store, "jobs", account="Alice", state="failed", kind="crawl")
    assert [row["job"] for row in only] == failed[2::-1]
    assert {(row["account"], row["key"]) for row in only} == {("Alice", "key_a1")}
    [group] = await rows(store, "failures")
    assert (group["jobs"], group["accounts"], group["kind"]) == (4, 2, "crawl")
    assert group["reason"] == "no answer of http://x.example/... in 30 s"
    assert group["example"] in failed
    shown = await store.operator.job(done)
    assert shown["urls"] == {FETCHED: 3, FAILED: 1}
    assert shown["providers"] == [{"provider": "brave", "status": "ok"}]
    assert await store.operator.owner(done) == "b"
    with pytest.raises(NoSuchJob):
        await store.operator.job("unknown")


async def test_refusals_providers_sites_and_sizes(store: Store) -> None:
    await add_accounts(store)
    await store.accounts.count_usage(
        {
            ("a", "key_a1", "refused", "ConcurrencyReached", "429"): 7,
            ("a", "key_a2", "refused", "CreditsUsedUp", "429"): 2,
            ("", "", "refused", "", "401"): 5,
        },
        now=NOW,
    )
    await store.accounts.count_usage(
        {("a", "key_a1", "refused", "ConcurrencyReached", "429"): 1}, now=NOW + DAY
    )
    refusals = await rows(store, "refusals")
    assert [(row["account"], row["key"], row["status"], row["requests"]) for row in refusals] == [
        ("Alice", "key_a1", "429", 8),
        ("", "", "401", 5),
        ("Alice", "key_a2", "429", 2),
    ]
    await run_job(store, "a", "key_a1", JobStatus.COMPLETED, 6, now=NOW, kind="search")
    await run_job(store, "b", "key_b1", JobStatus.COMPLETED, 6, now=NOW, kind="crawl")
    [provider] = await rows(store, "providers")
    assert (provider["provider"], provider["attempts"], provider["failed"]) == ("brave", 1, 0)
    [site] = await rows(store, "sites")
    assert (site["site"], site["crawls"], site["pages"], site["failed"]) == ("x", 1, 6, 2)
    assert site["per_page"] == pytest.approx(2 / 6)
    sizes = {(row["account"], row["kind"]): row for row in await rows(store, "size")}
    stored = [entry(n) for n in range(6)]
    row_bytes = sum(len(each.url) + len(each.page or b"") + len(each.journal) for each in stored)
    assert sizes["Bob", "crawl rows"]["count"] == 6
    assert sizes["Bob", "crawl rows"]["bytes"] == row_bytes
    assert sizes["", "whole database"]["bytes"] > 10_000
    assert {row["account"] for row in await rows(store, "size", account="Bob")} == {"Bob"}


async def test_processes_are_live_or_silent(store: Store) -> None:
    now = store.now()
    await store.replicas.join(Replica("1", "one", 16, now - 90, "serve", "1.2.3"))
    await store.replicas.join(Replica("2", "two", 4, now - 60, "dask"))
    table = await rows(store, "replicas")
    assert [(row["replica"], row["kind"], row["state"], row["slots"]) for row in table] == [
        ("one", "serve", "live", 16),
        ("two", "dask", "live", 4),
    ]
    assert table[0]["version"] == "1.2.3"
    report = await store.operator.report()
    assert report.replicas == {("serve",): 1, ("dask",): 1}


async def test_unknown_account_is_an_error(store: Store) -> None:
    await add_accounts(store)
    with pytest.raises(NoSuchAccount, match=r"'Carol'.*accounts list"):
        await rows(store, "usage", account="Carol")


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
async def test_an_empty_store_has_an_answer_to_every_question(store: Store, view: Any) -> None:
    answer = await store.operator.answer(view.name, view.query({}, store.now()))
    assert all(set(row) <= {column.name for column in view.columns} for row in answer.rows)


@pytest.mark.parametrize(
    ("view", "given", "message"),
    [
        ("jobs", {"colour": "red"}, "no filter 'colour'; allowed: account, state, kind"),
        ("jobs", {"state": "dead"}, "state takes one of pending, running.* not 'dead'"),
        ("jobs", {"state": "failed,running"}, "state takes one of"),
        ("jobs", {"limit": "0"}, "limit takes a whole number from 1 to 10000, not '0'"),
        ("jobs", {"limit": "²"}, "limit takes a whole number"),
        ("usage", {"by": "planet"}, "by takes some of account, key, operation, day"),
        ("usage", {"since": "soon"}, "since takes a period such as 30m.* not 'soon'"),
        ("usage", {"since": "2026-02-30"}, "since takes a period"),
        ("replicas", {"limit": "1"}, "allowed: none"),
    ],
)
def test_wrong_filters_say_what_is_allowed(view: str, given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VIEWS[view].query(given, NOW)


def test_since_is_a_period_or_a_date() -> None:
    assert parse_since("30m", NOW) == NOW - 1800
    assert parse_since("7d", NOW) == NOW - 7 * DAY
    assert parse_since("2023-11-14", NOW) == 1_699_920_000.0
    assert parse_since("99999d", NOW) == 0.0


async def test_accounts_and_keys_are_listed_without_the_keys(store: Store) -> None:
    await add_accounts(store)
    await store.accounts.add_key("key_a1", "a", "laptop", "hash-1", now=NOW)
    await store.accounts.add_key(
        "key_b1", "b", "ci", "hash-2", now=NOW, scopes=("read",), ends_at=NOW + DAY
    )
    await store.accounts.suspend("Bob", now=NOW)
    found = {row["account"]: row for row in await rows(store, "accounts")}
    assert {name: row["state"] for name, row in found.items()} == {
        "Alice": "active",
        "Bob": "suspended",
    }
    assert found["Alice"]["left"] == found["Alice"]["monthly"] == 100_000
    assert found["Bob"]["monthly"] is None
    keys = await rows(store, "keys")
    assert [(row["key"], row["scopes"], row["ends"]) for row in keys] == [
        ("key_a1", "all but admin", None),
        ("key_b1", "read", NOW + DAY),
    ]
    assert "hash" not in str(keys)
    assert [row["key"] for row in await rows(store, "keys", account="Bob")] == ["key_b1"]
