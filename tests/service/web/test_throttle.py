from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest

from webdata_nb.service.errors import FetchError
from webdata_nb.service.web import throttle as throttle_module
from webdata_nb.service.web.politeness import Manners
from webdata_nb.service.web.throttle import HostThrottle, Throttle

MANNERS = Manners(first_pause_s=1.0, jitter=0.0, broken_after=3, first_rest_s=10.0)


class Time:
    """Time that passes only while everybody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self._alarms: list[tuple[float, asyncio.Event]] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        alarm = asyncio.Event()
        self._alarms.append((self.now + seconds, alarm))
        await alarm.wait()

    async def pass_for(self, *jobs: Coroutine[None, None, None]) -> None:
        """Run the jobs to their end, moving on to the next alarm whenever all of them sleep."""
        tasks = [asyncio.ensure_future(job) for job in jobs]
        while not all(task.done() for task in tasks):
            for _ in range(5):
                await asyncio.sleep(0)
            if self._alarms:
                self._alarms.sort(key=lambda one: one[0])
                self.now, alarm = self._alarms.pop(0)
                alarm.set()
        await asyncio.gather(*tasks)


class Diary:
    """Asks for turns and notes when they came."""

    def __init__(self, throttle: Throttle, time: Time) -> None:
        self._throttle = throttle
        self._time = time
        self.starts: list[tuple[str, float]] = []

    async def visit(
        self,
        name: str,
        host: str = "site.test",
        *,
        delay_s: float = 0.0,
        patience_s: float = 30.0,
        lasting_s: float = 0.0,
    ) -> None:
        async with self._throttle.turn(host, delay_s=delay_s, patience_s=patience_s):
            self.starts.append((name, self._time.now))
            if lasting_s:
                await self._time.sleep(lasting_s)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def throttle(time: Time) -> HostThrottle:
    return HostThrottle(MANNERS, clock=time, sleep=time.sleep, chance=lambda: 0.0)


@pytest.fixture
def diary(throttle: HostThrottle, time: Time) -> Diary:
    return Diary(throttle, time)


async def break_host(throttle: HostThrottle, host: str = "site.test") -> None:
    for _ in range(MANNERS.broken_after):
        await throttle.penalise(host)


async def test_without_a_delay_nobody_waits(diary: Diary, time: Time) -> None:
    await time.pass_for(*(diary.visit(str(n), lasting_s=5) for n in range(10)))
    assert {start for _, start in diary.starts} == {0.0}


async def test_turns_come_in_order_at_their_distance(diary: Diary, time: Time) -> None:
    await time.pass_for(*(diary.visit(str(n), delay_s=10.0) for n in range(5)))
    assert diary.starts == [(str(n), 10.0 * n) for n in range(5)]


async def test_waiting_for_others_is_not_counted_as_patience(diary: Diary, time: Time) -> None:
    jobs = (diary.visit(str(n), delay_s=10.0, patience_s=1.0) for n in range(5))
    await time.pass_for(*jobs)
    assert len(diary.starts) == 5


async def test_a_turn_tells_the_seconds_in_line_and_not_those_of_a_pause(
    throttle: HostThrottle, time: Time
) -> None:
    told: list[float] = []

    async def visit(delay_s: float) -> None:
        async with throttle.turn("site.test", delay_s=delay_s) as waited_s:
            told.append(waited_s)

    await time.pass_for(*(visit(10.0) for _ in range(4)))
    assert told == [0.0, 10.0, 20.0, 30.0]
    await throttle.penalise("site.test", 20.0)
    await time.pass_for(visit(0.0))
    assert (told[-1], time.now) == (0.0, 50.0)


async def test_a_line_of_more_than_an_hour_is_not_joined(diary: Diary, time: Time) -> None:
    await diary.visit("first", delay_s=30.0)
    joined = [asyncio.ensure_future(diary.visit(str(n), delay_s=30.0)) for n in range(121)]
    await asyncio.sleep(0)
    with pytest.raises(FetchError, match="30 s between requests, and 121 are in line") as caught:
        await diary.visit("late", delay_s=30.0)
    assert caught.value.kind == "timeout"
    for each in joined:
        each.cancel()
    await asyncio.gather(*joined, return_exceptions=True)
    time.now = 30.0
    await time.pass_for(diary.visit("next", delay_s=30.0))
    assert diary.starts == [("first", 0.0), ("next", 30.0)]


async def test_hosts_do_not_wait_for_each_other(diary: Diary, time: Time) -> None:
    hosts = ("a.test", "b.test", "a.test", "b.test")
    await time.pass_for(*(diary.visit(host, host, delay_s=10.0) for host in hosts))
    assert diary.starts == [("a.test", 0), ("b.test", 0), ("a.test", 10), ("b.test", 10)]


async def test_a_named_time_is_waited_for(throttle: HostThrottle, diary: Diary, time: Time) -> None:
    await throttle.penalise("site.test", 20.0)
    await time.pass_for(diary.visit("first"), diary.visit("second"))
    # The pause that the complaint left behind keeps the two apart.
    assert diary.starts == [("first", 20.0), ("second", 21.0)]


async def test_a_complaint_stops_those_who_already_wait(
    throttle: HostThrottle, diary: Diary, time: Time
) -> None:
    async def complain() -> None:
        await time.sleep(5.0)
        await throttle.penalise("site.test", 20.0)

    jobs = (diary.visit(name, delay_s=10.0) for name in ("first", "second"))
    await time.pass_for(*jobs, complain())
    assert diary.starts == [("first", 0.0), ("second", 25.0)]


async def test_a_time_beyond_patience_is_an_error_at_once(
    throttle: HostThrottle, diary: Diary, time: Time
) -> None:
    await throttle.penalise("site.test", 120.0)
    with pytest.raises(FetchError, match=r"asked for a pause; .* another 120 s") as caught:
        await time.pass_for(diary.visit("hurried"))
    assert caught.value.kind == "timeout"
    assert time.now == 0.0
    await time.pass_for(diary.visit("patient", patience_s=200.0))
    assert diary.starts == [("patient", 120.0)]


async def test_a_broken_host_is_an_error_at_once_and_others_are_not(
    throttle: HostThrottle, diary: Diary, time: Time
) -> None:
    await break_host(throttle)
    with pytest.raises(FetchError, match=r"failed 3 times in a row; .* another 10 s") as caught:
        await time.pass_for(diary.visit("hurried", patience_s=5.0))
    assert caught.value.kind == "host_unavailable"
    await time.pass_for(diary.visit("elsewhere", "other.test"))
    assert diary.starts == [("elsewhere", 0.0)]


async def test_one_trial_goes_ahead_and_the_rest_follow_its_success(
    throttle: HostThrottle, diary: Diary, time: Time
) -> None:
    async def trial() -> None:
        await diary.visit("trial", lasting_s=7.0)
        await throttle.reward("site.test")

    await break_host(throttle)
    await time.pass_for(trial(), diary.visit("second"), diary.visit("third"))
    assert diary.starts[0] == ("trial", 10.0)
    assert [start for _, start in diary.starts[1:]] == [17.0, 17.5]


async def test_the_rest_give_up_when_the_trial_fails(
    throttle: HostThrottle, diary: Diary, time: Time
) -> None:
    async def trial() -> None:
        await diary.visit("trial", lasting_s=7.0)
        await throttle.penalise("site.test")

    await break_host(throttle)
    second = diary.visit("second", patience_s=15.0)
    with pytest.raises(FetchError, match="failed 4 times"):
        await time.pass_for(trial(), second)
    assert diary.starts == [("trial", 10.0)]


async def test_after_a_failed_trial_nobody_waits_until_the_next(
    throttle: HostThrottle, diary: Diary, time: Time
) -> None:
    async def trial() -> None:
        await diary.visit("trial")
        await throttle.fail("site.test")

    await break_host(throttle)
    await time.pass_for(trial())
    with pytest.raises(FetchError, match="another 20 s") as caught:
        await time.pass_for(diary.visit("patient", patience_s=1000.0))
    assert caught.value.kind == "host_unavailable"
    assert time.now == 10.0
    time.now = 30.0
    await time.pass_for(diary.visit("probe"))
    await throttle.reward("site.test")
    await time.pass_for(diary.visit("back"))
    assert [name for name, _ in diary.starts] == ["trial", "probe", "back"]


async def test_failures_of_pages_slow_nobody_until_they_are_an_outage(
    throttle: HostThrottle, diary: Diary, time: Time
) -> None:
    for _ in range(MANNERS.broken_after - 1):
        await throttle.fail("site.test")
    await time.pass_for(diary.visit("unhindered"))
    assert diary.starts == [("unhindered", 0.0)]
    await throttle.fail("site.test")
    with pytest.raises(FetchError, match="in a row"):
        await time.pass_for(diary.visit("refused", patience_s=1.0))


async def test_one_who_leaves_the_queue_holds_nobody_up(diary: Diary, time: Time) -> None:
    await diary.visit("first", delay_s=10.0)
    impatient = asyncio.ensure_future(diary.visit("impatient", delay_s=10.0))
    await asyncio.sleep(0)
    last = asyncio.ensure_future(diary.visit("last", delay_s=10.0))
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.gather(impatient, return_exceptions=True)
    time.now = 10.0
    await time.pass_for(diary.visit("newcomer", delay_s=10.0))
    await last
    assert diary.starts == [("first", 0.0), ("last", 10.0), ("newcomer", 20.0)]


async def test_an_error_inside_a_trial_lets_the_next_one_try(
    throttle: HostThrottle, diary: Diary, time: Time
) -> None:
    async def stumble() -> None:
        with pytest.raises(ZeroDivisionError):
            async with throttle.turn("site.test"):
                raise ZeroDivisionError

    await break_host(throttle)
    await time.pass_for(stumble(), diary.visit("next"))
    assert diary.starts == [("next", 11.0)]


async def test_a_request_inside_a_trial_does_not_wait_for_the_trial(
    throttle: HostThrottle, diary: Diary, time: Time
) -> None:
    async def trial() -> None:
        async with throttle.turn("site.test"):
            await diary.visit("robots.txt on the way to a redirect's target")
        await throttle.reward("site.test")

    await break_host(throttle)
    async with asyncio.timeout(10):
        await time.pass_for(trial(), diary.visit("next"))
    assert [start for _, start in diary.starts] == [11.0, 11.0]


async def test_a_line_has_a_deadline_of_its_own(
    monkeypatch: pytest.MonkeyPatch, diary: Diary
) -> None:
    monkeypatch.setattr(throttle_module, "TURN_S", 0.1)
    await diary.visit("first", delay_s=0.05)
    held = asyncio.ensure_future(diary.visit("held", delay_s=0.05, patience_s=0.0))
    await asyncio.sleep(0)
    with pytest.raises(FetchError, match="had no turn for this page within 0 s; 1 were") as caught:
        await diary.visit("late", delay_s=0.05, patience_s=0.0)
    assert caught.value.kind == "timeout"
    held.cancel()
    await asyncio.gather(held, return_exceptions=True)


async def test_files_of_pages_without_end_do_not_keep_the_next_page_from_its_turn(
    throttle: HostThrottle, diary: Diary, time: Time
) -> None:
    async def files() -> None:
        for _ in range(1000):
            await throttle.alongside("site.test", delay_s=0.5, patience_s=2.0)

    await diary.visit("first", delay_s=10.0)
    with pytest.raises(FetchError, match="had no turn"):
        await time.pass_for(diary.visit("next", delay_s=10.0), files())


async def test_idle_hosts_are_forgotten(
    throttle: HostThrottle, diary: Diary, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle_module, "_MAX_HOSTS", 3)
    await throttle.penalise("slow.test", 5000.0)
    for n in range(10):
        time.now += 400.0
        await diary.visit("x", f"{n}.test")
    assert len(throttle._hosts) <= 3
    with pytest.raises(FetchError):
        await diary.visit("x", "slow.test")


async def test_real_time_works_too() -> None:
    throttle = HostThrottle()
    loop = asyncio.get_running_loop()
    starts = []
    for _ in range(3):
        async with throttle.turn("site.test", delay_s=0.05):
            starts.append(loop.time())
    assert starts[1] - starts[0] >= 0.045
    assert starts[2] - starts[1] >= 0.045


async def test_what_belongs_to_a_page_waits_behind_no_other_page(
    throttle: HostThrottle, diary: Diary, time: Time
) -> None:
    async def files() -> None:
        for _ in range(3):
            await throttle.alongside("site.test", delay_s=0.5, patience_s=2.0)
            diary.starts.append(("file", time.now))

    await time.pass_for(diary.visit("first", delay_s=10.0))
    await time.pass_for(
        diary.visit("next", delay_s=10.0), diary.visit("last", delay_s=10.0), files()
    )
    # And the next page keeps its distance from the last file.
    assert diary.starts == [
        ("first", 0.0),
        *(("file", 0.5 * n) for n in (1, 2, 3)),
        ("next", 11.5),
        ("last", 21.5),
    ]


async def test_what_belongs_to_a_page_waits_for_a_pause_as_long_as_it_may(
    throttle: HostThrottle, time: Time
) -> None:
    await throttle.penalise("site.test", 5.0)
    with pytest.raises(FetchError, match="asked for a pause"):
        await throttle.alongside("site.test", patience_s=4.0)
    await time.pass_for(throttle.alongside("site.test", patience_s=5.0))
    assert time.now == 5.0
    await break_host(throttle, "broken.test")
    with pytest.raises(FetchError, match="failed 3 times in a row"):
        await throttle.alongside("broken.test", patience_s=4.0)


async def test_names_in_a_page_are_not_remembered(throttle: HostThrottle) -> None:
    await throttle.alongside("named.test", patience_s=1.0)
    await throttle.reward("named.test")
    assert not throttle._hosts
