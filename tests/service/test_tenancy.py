"""Places shared between accounts: whose turn it is, and what a cancellation gives back."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from webdata_nb.service.runtime.fair_scheduler import (
    SERVICE_ACCOUNT,
    FairSemaphore,
    current_account,
    on_behalf_of,
)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class SemaphoreUsers:
    """A semaphore whose visitors stay until they are told to go; notes the order of entries."""

    def __init__(self, places: int, *, spare: int = 0) -> None:
        self.semaphore = FairSemaphore(places, spare=spare)
        self.entered: list[str] = []
        self._inside: list[asyncio.Event] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def enter(self, *names: str) -> None:
        for name in names:
            with on_behalf_of(name.rstrip("0123456789")):
                self.tasks.append(asyncio.create_task(self._visit(name), name=name))
            await settle()

    async def release_one(self) -> None:
        self._inside.pop(0).set()
        await settle()

    async def _visit(self, name: str) -> None:
        async with self.semaphore:
            self.entered.append(name)
            end = asyncio.Event()
            self._inside.append(end)
            await end.wait()

    async def release_all(self) -> None:
        while self._inside:
            await self.release_one()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_places_go_round_the_accounts_and_in_order_within_one() -> None:
    users = SemaphoreUsers(2)
    await users.enter("a1", "a2", "a3", "a4", "a5", "b1", "b2", "c1")
    assert users.entered == ["a1", "a2"]
    await users.release_all()
    assert users.entered == ["a1", "a2", "a3", "b1", "c1", "a4", "b2", "a5"]


async def test_one_account_alone_has_every_place() -> None:
    users = SemaphoreUsers(3)
    await users.enter("a1", "a2", "a3", "a4")
    assert users.entered == ["a1", "a2", "a3"]
    await users.release_all()
    assert users.entered[-1] == "a4"


async def test_a_spare_place_is_for_an_account_that_has_none() -> None:
    users = SemaphoreUsers(2, spare=1)
    await users.enter("a1", "a2", "a3", "b1", "b2", "c1")
    assert users.entered == ["a1", "a2", "b1"]
    await users.release_one()
    assert users.entered[3:] == ["c1"]
    await users.release_all()
    assert sorted(users.entered) == ["a1", "a2", "a3", "b1", "b2", "c1"]


async def test_how_many_are_served_before_a_new_one() -> None:
    users = SemaphoreUsers(1)
    await users.enter("a1", "a2", "a3", "a4", "b1")
    for account, ahead in (("a", 4), ("b", 3), ("c", 2)):
        with on_behalf_of(account):
            assert users.semaphore.ahead() == ahead, account
    await users.release_all()


async def test_a_visitor_who_is_cancelled_in_the_moment_of_its_turn_gives_the_place_on() -> None:
    users = SemaphoreUsers(1)
    await users.enter("a1", "b1", "c1")
    _, second, third = users.tasks
    users._inside[0].set()
    await asyncio.sleep(0)  # the place is the second's now, which does not know it yet
    second.cancel()
    await settle()
    assert users.entered == ["a1", "c1"]
    third.cancel()
    await settle()
    assert not users.semaphore.locked()
    await asyncio.gather(*users.tasks, return_exceptions=True)


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_is_cancelled_no_place_is_lost_and_none_too_many_given(seed: int) -> None:
    chance, places, spare = random.Random(seed), 3, 2
    semaphore, inside = FairSemaphore(places, spare=spare), Counter[str]()

    async def visit() -> None:
        async with semaphore:
            account = current_account()
            inside[account] += 1
            assert inside.total() <= places + spare
            try:
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
            finally:
                inside[account] -= 1

    tasks = []
    for _ in range(200):
        with on_behalf_of(chance.choice("abcd")):
            tasks.append(asyncio.create_task(visit()))
        if chance.random() < 0.4:
            chance.choice(tasks).cancel()
        if chance.random() < 0.5:
            await asyncio.sleep(0)
    async with asyncio.timeout(60):
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert not [each for each in outcomes if isinstance(each, AssertionError)]
    for account in "abcd":
        with on_behalf_of(account):
            assert not semaphore.locked()
    for _ in range(places):  # all of them are free again
        await semaphore.acquire()
    with on_behalf_of("e"):
        assert not semaphore.locked()  # a spare one
    assert semaphore.locked()


async def test_tasks_inherit_the_account_and_the_rest_is_nobodys() -> None:
    async def inner() -> str:
        return current_account()

    with on_behalf_of("alice"):
        task = asyncio.create_task(inner())
    assert current_account() == SERVICE_ACCOUNT
    assert await task == "alice"
