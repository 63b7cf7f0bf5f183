"""The contract of `AccountStore`, on every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.stores.jobs import ALICE, BOB, NOW, account_of, claimed, entry, new_job
from tests.stores.jobs import accounts as accounts_of_both
from webdata_nb.contract.choices import DEFAULT_SCOPES, KeyScope
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.errors import (
    AccountSuspended,
    ConcurrencyReached,
    CreditsUsedUp,
    LeaseLost,
    NoSuchAccount,
)
from webdata_nb.service.ledger import Charge, Terms
from webdata_nb.service.observability.logs import Caller
from webdata_nb.service.store.records import CommitBatch
from webdata_nb.service.store.sql.accounts import AccountStore
from webdata_nb.service.store.sql.store import Store

DAY = 86_400.0
PAGES_5 = (Charge("crawl", "page", 5),)


async def opened(store: Store, *, monthly: int | None = 10, concurrency: int = 3) -> AccountStore:
    accounts = store.accounts
    await accounts.add("a", "Alice", Terms("team", monthly, concurrency), now=NOW)
    return accounts


async def sums_up(accounts: AccountStore, account_id: str = "a", now: float = NOW) -> None:
    """The ledger's sums are the balance."""
    lines = await accounts.ledger(account_id)
    known = (await accounts.all(now=now))[0]
    assert sum(line.monthly for line in lines) == known.balance.monthly_left
    assert sum(line.topup for line in lines) == known.balance.topup_left
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))


class TestAccountContract:
    """The contract of `AccountStore`."""

    async def test_key_is_valid_until_it_ends(self, store: Store) -> None:
        accounts = await opened(store)
        await accounts.add_key("k1", "a", "laptop", "hash-1", now=NOW)
        assert await account_of(store, "hash-1", now=NOW) == "a"
        assert await account_of(store, "hash-2", now=NOW) is None
        await accounts.rotate_key("k1", "k2", "hash-2", ends_at=NOW + 60, now=NOW)
        assert [await account_of(store, f"hash-{n}", now=NOW + 59) for n in (1, 2)] == ["a", "a"]
        assert [await account_of(store, f"hash-{n}", now=NOW + 60) for n in (1, 2)] == [None, "a"]
        await accounts.end_key("k2", at=NOW + 9)
        await accounts.end_key("k2", at=NOW + 99)  # ends once
        assert await account_of(store, "hash-2", now=NOW + 9) is None
        listed = await accounts.keys("a")
        assert [(key.id, key.name, key.account, key.ends_at) for key in listed] == [
            ("k1", "laptop", "Alice", NOW + 60),
            ("k2", "laptop", "Alice", NOW + 9),
        ]

    async def test_key_has_scopes_and_an_end_that_a_rotation_keeps(self, store: Store) -> None:
        accounts = await opened(store)
        await accounts.add_key("k1", "a", "plain", "hash-1", now=NOW)
        await accounts.add_key(
            "k2", "a", "ci", "hash-2", now=NOW, scopes=("search", "read"), ends_at=NOW + DAY
        )
        old_ends_at, no_end = NOW + 60, None
        assert (
            await accounts.rotate_key("k1", "k3", "hash-3", ends_at=old_ends_at, now=NOW) is no_end
        )
        rotated = await accounts.rotate_key("k2", "k4", "hash-4", ends_at=old_ends_at, now=NOW)
        assert rotated == NOW + DAY
        renewed = await accounts.rotate_key(
            "k4", "k5", "hash-5", ends_at=NOW + 2 * DAY, new_ends_at=NOW + 9 * DAY, now=NOW
        )
        assert renewed == NOW + 9 * DAY
        some: frozenset[KeyScope] = frozenset({"search", "read"})
        for number, scopes, ends_at in (
            (1, DEFAULT_SCOPES, NOW + 60),
            (2, some, NOW + 60),
            (3, DEFAULT_SCOPES, None),
            (4, some, NOW + DAY),  # its grace is longer than what was left of it
            (5, some, NOW + 9 * DAY),
        ):
            caller = await accounts.caller(f"hash-{number}", now=NOW)
            assert caller == Caller("a", f"k{number}", scopes, ends_at)
            if ends_at is not None:
                assert await accounts.caller(f"hash-{number}", now=ends_at - 1) == caller
                assert await accounts.caller(f"hash-{number}", now=ends_at) is None
        listed = {key.id: (key.scopes, key.ends_at) for key in await accounts.keys("a")}
        assert listed["k4"] == (some, NOW + DAY)

    async def test_names_of_unknown_scopes_open_nothing(self, store: Store) -> None:
        accounts = await opened(store)
        later: Any = ("later", "read")
        await accounts.add_key("k1", "a", "newer", "hash-1", now=NOW, scopes=later)
        await accounts.add_key("k2", "a", "empty", "hash-2", now=NOW, scopes=())
        callers = [await accounts.caller(f"hash-{n}", now=NOW) for n in (1, 2)]
        assert [caller and caller.scopes for caller in callers] == [
            frozenset({"read"}),
            frozenset(),
        ]

    async def test_last_use_is_stored_once_a_minute(self, store: Store) -> None:
        accounts = await opened(store)
        another = AccountStore(store.database)  # of another process
        for number in (1, 2):
            await accounts.add_key(f"k{number}", "a", "laptop", f"hash-{number}", now=NOW)

        async def last_uses() -> list[float | None]:
            return [key.last_used_at for key in await accounts.keys("a")]

        async def use(of: AccountStore, at: float, number: int = 1) -> None:
            assert await of.caller(f"hash-{number}", now=at)
            await of.write_uses(now=at)

        assert await accounts.caller("unknown", now=NOW) is None
        await accounts.write_uses(now=NOW)
        assert await last_uses() == [None, None]
        await use(accounts, NOW + 1)
        assert await last_uses() == [NOW + 1, None]
        await use(accounts, NOW + 30)
        await use(another, NOW + 40)
        await use(accounts, NOW + 50, number=2)
        assert await last_uses() == [NOW + 1, NOW + 50]
        await use(another, NOW + 100.5)  # it wrote nothing before, and may write now
        assert await last_uses() == [NOW + 100.5, NOW + 50]
        await use(accounts, NOW + 99)  # a slower clock
        assert await last_uses() == [NOW + 100.5, NOW + 50]
        await accounts.caller("hash-2", now=NOW + 70)
        await accounts.write_uses(now=NOW + 80)  # too early, so it waits
        await accounts.write_uses(now=NOW + 112)
        assert await last_uses() == [NOW + 100.5, NOW + 50]
        await use(accounts, NOW + 180, number=2)
        assert await last_uses() == [NOW + 100.5, NOW + 180]

    async def test_usage_is_of_one_state_while_calls_end(self, store: Store) -> None:
        accounts = await opened(store, monthly=1000)
        charge = (Charge("crawl", "page", 1),)

        async def calls() -> None:
            for number in range(60):
                call_id = f"call-{number}"
                await accounts.open_call("a", call_id, PAGES_5, until=NOW + 60, now=NOW)
                await accounts.close_call("a", call_id, charge, now=NOW)

        async with asyncio.TaskGroup() as group:
            work = group.create_task(calls())
            while not work.done():
                usage = await accounts.usage("a", now=NOW)
                used = sum(operation.credits for operation in usage.used)
                assert usage.account.balance.left + usage.reserved + used == 1000

    async def test_unknown_and_taken_names_are_refused(self, store: Store) -> None:
        accounts = await opened(store)
        with pytest.raises(NoSuchAccount, match="already"):
            await accounts.add("b", "Alice", Terms("team", 1, 1), now=NOW)
        with pytest.raises(NoSuchAccount, match="Bob"):
            await accounts.top_up("Bob", 5, now=NOW)
        with pytest.raises(NoSuchAccount, match="no key k9"):
            await accounts.end_key("k9", at=NOW)
        await accounts.add_key("k1", "a", "laptop", "hash-1", now=NOW)
        await accounts.end_key("k1", at=NOW)
        with pytest.raises(NoSuchAccount, match="over"):
            await accounts.rotate_key("k1", "k2", "hash-2", ends_at=NOW, now=NOW)

    async def test_start_reserves_and_end_charges_successful_rows(self, store: Store) -> None:
        accounts = await opened(store)
        await accounts.top_up("Alice", 2, now=NOW)
        job, _ = await store.accept(
            new_job("a", max_charges=(Charge("crawl", "page", 11),)), now=NOW
        )
        assert job.credit_fields == {
            "credits": None,
            "credits_reserved": 11,
            "credits_unlimited": False,
        }
        assert await store.job("a", job.id) == job
        usage = await accounts.usage("a", now=NOW)
        balance = usage.account.balance
        assert (balance.monthly_left, balance.topup_left) == (0, 1)
        assert (usage.active, usage.reserved, usage.used) == (1, 11, ())
        _, lease = await claimed(store)
        rows = tuple(entry(n, position=n, charged=("page",)) for n in range(4))
        unseen = entry(9, charged=("page",))  # fetched, and never published
        await store.commit(lease, CommitBatch(entries=(*rows, unseen)))
        await store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW + 5)
        usage = await accounts.usage("a", now=NOW + 5)
        balance = usage.account.balance
        assert (balance.monthly_left, balance.topup_left) == (6, 2)
        assert (usage.active, usage.reserved) == (0, 0)
        assert [(used.operation, used.units, used.credits) for used in usage.used] == [
            ("page", 4, 4)
        ]
        charges = [line for line in await accounts.ledger("a") if line.kind == "charge"]
        assert [line.reservation_id for line in charges] == [job.id]
        ended = await store.job("a", job.id)
        assert ended.credit_fields == {
            "credits": 4,
            "credits_reserved": 11,
            "credits_unlimited": False,
        }
        await sums_up(accounts)

    async def test_refused_start_changes_nothing(self, store: Store) -> None:
        accounts = await opened(store, monthly=9, concurrency=2)
        before = await accounts.ledger("a")
        with pytest.raises(CreditsUsedUp, match="10 credits and 9 are left") as quota:
            await store.accept(new_job("a", max_charges=(Charge("crawl", "page", 10),)), now=NOW)
        assert (quota.value.limit, quota.value.active) == (2, 0)
        assert 27 * DAY < quota.value.retry_after < 32 * DAY
        assert await store.jobs("a", limit=9) == []
        assert await accounts.ledger("a") == before
        for _ in range(2):
            await store.accept(new_job("a"), now=NOW)
        with pytest.raises(ConcurrencyReached) as full:
            await store.accept(new_job("a"), now=NOW)
        assert (full.value.limit, full.value.active) == (2, 2)
        assert len(await store.jobs("a", limit=9)) == 2

    async def test_cancel_returns_unused_credits(self, store: Store) -> None:
        accounts = await opened(store)
        job, _ = await store.accept(new_job("a", max_charges=PAGES_5), now=NOW)
        _, lease = await claimed(store)
        await store.commit(lease, CommitBatch(entries=(entry(0, position=0, charged=("page",)),)))
        for _ in range(2):
            await store.cancel("a", job.id, now=NOW + 1)
        usage = await accounts.usage("a", now=NOW)
        assert (usage.account.balance.monthly_left, usage.reserved, usage.active) == (9, 0, 0)
        await sums_up(accounts)

    async def test_job_pays_from_the_month_in_which_it_began(self, store: Store) -> None:
        accounts = await opened(store)
        await accounts.top_up("Alice", 3, now=NOW)
        await store.accept(new_job("a", max_charges=PAGES_5), now=NOW + DAY)
        _, lease = await claimed(store, now=NOW + DAY)
        await store.commit(lease, CommitBatch(entries=(entry(0, position=0, charged=("page",)),)))
        later = NOW + 40 * DAY
        shown_balance = (await accounts.usage("a", now=later)).account.balance
        assert (shown_balance.monthly_left, shown_balance.topup_left) == (10, 3)
        await store.finish(lease, JobStatus.COMPLETED, error=None, now=later)
        balance = (await accounts.usage("a", now=later)).account.balance
        assert (balance.monthly_left, balance.topup_left) == (10, 3)
        await sums_up(accounts, now=later)

    async def test_changed_terms_apply_at_once(self, store: Store) -> None:
        accounts = await opened(store)
        await store.accept(new_job("a", max_charges=PAGES_5), now=NOW)
        await accounts.set_terms("Alice", Terms("large", 20, 1), now=NOW)
        usage = await accounts.usage("a", now=NOW)
        assert (usage.account.terms.plan, usage.account.balance.monthly_left) == ("large", 15)
        with pytest.raises(ConcurrencyReached):
            await store.accept(new_job("a"), now=NOW)
        await sums_up(accounts)

    async def test_calls_count_as_active_until_they_expire(self, store: Store) -> None:
        accounts = await opened(store, concurrency=1)
        most = (Charge("partner_ads_transparency", "creatives", 1),)
        await accounts.open_call("a", "call-1", most, until=NOW + 60, now=NOW)
        with pytest.raises(ConcurrencyReached):
            await store.accept(new_job("a"), now=NOW + 59)
        # Its process died: it cost nothing, and whoever comes next finds the slot free.
        await accounts.open_call("a", "call-2", most, until=NOW + 120, now=NOW + 61)
        await accounts.close_call("a", "call-1", most, now=NOW + 62)
        await accounts.close_call("a", "call-2", most, now=NOW + 62)
        usage = await accounts.usage("a", now=NOW + 62)
        assert (usage.account.balance.monthly_left, usage.active) == (9, 0)
        await sums_up(accounts)

    async def test_expired_call_returns_its_credits(self, store: Store) -> None:
        accounts = await opened(store)
        most = (Charge("partner_ads_transparency", "creatives", 4),)
        await accounts.open_call("a", "call-1", most, until=NOW + 60, now=NOW)
        for moment, left, held in ((60, 6, 4), (61, 10, 0)):
            usage = await accounts.usage("a", now=NOW + moment)
            assert (usage.account.balance.monthly_left, usage.reserved) == (left, held)
        await accounts.open_call("a", "call-2", most, until=NOW + 120, now=NOW + 62)
        await accounts.release_expired_calls(now=NOW + 120)
        assert (await accounts.named("Alice", now=NOW + 120)).balance.monthly_left == 6
        await accounts.release_expired_calls(now=NOW + 121)
        assert (await accounts.named("Alice", now=NOW + 121)).balance.monthly_left == 10
        await accounts.close_call("a", "call-2", most, now=NOW + 122)
        await sums_up(accounts)

    async def test_expire_calls_ends_calls_and_keeps_jobs(self, store: Store) -> None:
        accounts = await opened(store)
        most = (Charge("partner_ads_transparency", "creatives", 4),)
        await store.accept(new_job("a", max_charges=PAGES_5), now=NOW)
        await accounts.open_call("a", "call", most, until=NOW + 60, now=NOW)
        await accounts.expire_calls()
        usage = await accounts.usage("a", now=NOW)
        balance = usage.account.balance
        assert (balance.monthly_left, usage.reserved, usage.active) == (5, 5, 1)
        await sums_up(accounts)

    async def test_concurrent_starts_never_exceed_the_balance(self, store: Store) -> None:
        accounts = await opened(store, monthly=7, concurrency=5)
        one = (Charge("crawl", "page", 1),)
        for _ in range(5):
            answers = await asyncio.gather(
                *[store.accept(new_job("a", max_charges=one), now=NOW) for _ in range(40)],
                return_exceptions=True,
            )
            started = [answer for answer in answers if not isinstance(answer, BaseException)]
            assert len(started) == 5
            assert all(
                isinstance(answer, tuple | ConcurrencyReached | CreditsUsedUp) for answer in answers
            )
            for job, _ in started:
                await store.cancel("a", job.id, now=NOW)
        await sums_up(accounts)


class TestSuspension:
    """Of a suspended account no key is accepted, no job runs and no webhook is sent."""

    async def test_jobs_wait_and_continue(self, store: Store) -> None:
        await accounts_of_both(store)
        await store.accept(new_job(ALICE), now=NOW)
        job, lease = await claimed(store)
        await store.commit(lease, CommitBatch(entries=(entry(0),), published=((0, 0),)))
        await store.accept(new_job(ALICE), now=NOW + 1)
        await store.accept(new_job(BOB), now=NOW + 2)
        for _ in range(2):
            assert (await store.accounts.suspend("Alice", now=NOW)).state == "suspended"
        assert (await store.job(ALICE, job.id)).state is JobStatus.PENDING
        with pytest.raises(LeaseLost):
            await store.commit(lease, CommitBatch(entries=(entry(1),), published=((1, 1),)))
        with pytest.raises(LeaseLost):
            await store.renew(lease, lease_s=10, now=NOW)
        with pytest.raises(AccountSuspended):
            await store.accept(new_job(ALICE), now=NOW)
        with pytest.raises(AccountSuspended):
            await store.accounts.open_call(ALICE, "call", PAGES_5, until=NOW + 9, now=NOW)
        assert await store.active_jobs() == 1
        found = await store.claim("w2", max_jobs=9, lease_s=10, now=NOW + 99)
        assert [each.account_id for each, _ in found] == [BOB]
        await store.accounts.resume("Alice", now=NOW)
        found = await store.claim(
            "w2", max_jobs=9, lease_s=10, now=NOW + 99, held_jobs=[found[0][0].id]
        )
        assert [each.account_id for each, _ in found] == [ALICE, ALICE]
        continued, lease = found[0]
        assert (continued.id, continued.published) == (job.id, 1)
        await store.commit(lease, CommitBatch(entries=(entry(1),), published=((1, 1),)))
        await store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW)
        assert (await store.job(ALICE, job.id)).published == 2

    async def test_keys_are_refused(self, store: Store) -> None:
        await accounts_of_both(store)
        for account in (ALICE, BOB):
            await store.accounts.add_key(f"k-{account}", account, "pc", account, now=NOW)
            assert await account_of(store, account, now=NOW) == account
        await store.accounts.suspend("Alice", now=NOW)
        with pytest.raises(AccountSuspended):
            await account_of(store, ALICE, now=NOW)
        assert await account_of(store, BOB, now=NOW) == BOB
        await store.accounts.resume("Alice", now=NOW)
        assert await account_of(store, ALICE, now=NOW) == ALICE

    async def test_webhooks_wait(self, store: Store) -> None:
        await accounts_of_both(store)
        webhook = {"url": "http://x/", "webhook_url": "https://hooks.test/"}
        for account in (ALICE, BOB):
            await store.accept(new_job(account, request=webhook), now=NOW)
            _, lease = await claimed(store)
            await store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW)
        due = {each.account_id: each for each in await store.outbox.due(now=NOW)}
        assert due.keys() == {ALICE, BOB}
        await store.accounts.suspend("Alice", now=NOW)
        assert [each.account_id for each in await store.outbox.due(now=NOW)] == [BOB]
        assert await store.outbox.take(due[ALICE], lease_s=10, now=NOW) is None
        await store.accounts.resume("Alice", now=NOW)
        assert await store.outbox.take(due[ALICE], lease_s=10, now=NOW) is not None

    async def test_claims_and_suspensions_at_the_same_time_leave_no_running_job(
        self, store: Store
    ) -> None:
        await accounts_of_both(store)
        for _ in range(20):
            job, _ = await store.accept(new_job(ALICE), now=NOW)
            await asyncio.gather(
                store.claim("w1", lease_s=10, now=NOW),
                store.accounts.suspend("Alice", now=NOW),
                store.claim("w2", lease_s=10, now=NOW),
            )
            assert (await store.job(ALICE, job.id)).state is JobStatus.PENDING
            await store.accounts.resume("Alice", now=NOW)
            await store.cancel(ALICE, job.id, now=NOW)
