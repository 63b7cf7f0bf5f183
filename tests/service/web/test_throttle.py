from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest

from webdata_nb.pacing import host_pacing
from webdata_nb.pacing.host_pacing import BreakerPolicy, HostPolicy
from webdata_nb.pacing.retry_policies import BackoffPolicy
from webdata_nb.page.errors import FetchError
from webdata_nb.service.runtime.fair_scheduler import on_behalf_of
from webdata_nb.service.web import throttle as throttle_module
from webdata_nb.service.web.throttle import HostThrottle

FAILURES = 3
POLICY = HostPolicy(BackoffPolicy(1.0, 8.0), BreakerPolicy(10.0, 60.0, threshold=FAILURES))


class Time:
    """A clock that advances when all tasks wait."""

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


class StartLog:
    """Requests slots and records when they start."""

    def __init__(self, throttle: HostThrottle, time: Time) -> None:
        self._throttle = throttle
        self._time = time
        self.starts: list[tuple[str, float]] = []

    async def visit(
        self,
        name: str,
        host: str = "site.test",
        *,
        delay_s: float = 0.0,
        max_wait_s: float = 30.0,
        lasting_s: float = 0.0,
    ) -> None:
        async with self._throttle.slot(host, delay_s=delay_s, max_wait_s=max_wait_s):
            self.starts.append((name, self._time.now))
            if lasting_s:
                await self._time.sleep(lasting_s)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def throttle(time: Time) -> HostThrottle:
    return HostThrottle(POLICY, clock=time, sleep=time.sleep, random_fraction=lambda: 0.0)


@pytest.fixture
def log(throttle: HostThrottle, time: Time) -> StartLog:
    return StartLog(throttle, time)


async def fail_host(throttle: HostThrottle, host: str = "site.test") -> None:
    for _ in range(FAILURES):
        await throttle.report_overload(host)


async def test_requests_without_delay_start_at_once(log: StartLog, time: Time) -> None:
    await time.pass_for(*(log.visit(str(n), lasting_s=5) for n in range(10)))
    assert {start for _, start in log.starts} == {0.0}


async def test_requests_start_in_order_at_delay(log: StartLog, time: Time) -> None:
    await time.pass_for(*(log.visit(str(n), delay_s=10.0) for n in range(5)))
    assert log.starts == [(str(n), 10.0 * n) for n in range(5)]


async def test_time_in_queue_does_not_count_towards_longest_wait(log: StartLog, time: Time) -> None:
    jobs = (log.visit(str(n), delay_s=10.0, max_wait_s=1.0) for n in range(5))
    await time.pass_for(*jobs)
    assert len(log.starts) == 5


async def test_slot_reports_seconds_in_queue_without_pauses(
    throttle: HostThrottle, time: Time
) -> None:
    queued_s: list[float] = []

    async def visit(delay_s: float) -> None:
        async with throttle.slot("site.test", delay_s=delay_s) as seconds:
            queued_s.append(seconds)

    await time.pass_for(*(visit(10.0) for _ in range(4)))
    assert queued_s == [0.0, 10.0, 20.0, 30.0]
    await throttle.report_overload("site.test", 20.0)
    await time.pass_for(visit(0.0))
    assert (queued_s[-1], time.now) == (0.0, 50.0)


async def test_queue_of_more_than_an_hour_is_not_joined(log: StartLog, time: Time) -> None:
    await log.visit("first", delay_s=30.0)
    joined = [asyncio.ensure_future(log.visit(str(n), delay_s=30.0)) for n in range(121)]
    await asyncio.sleep(0)
    with pytest.raises(FetchError, match="30 s between requests, and 121 are in line") as caught:
        await log.visit("late", delay_s=30.0)
    assert caught.value.kind == "timeout"
    for each in joined:
        each.cancel()
    await asyncio.gather(*joined, return_exceptions=True)
    time.now = 30.0
    await time.pass_for(log.visit("next", delay_s=30.0))
    assert log.starts == [("first", 0.0), ("next", 30.0)]


async def test_hosts_are_independent(log: StartLog, time: Time) -> None:
    hosts = ("a.test", "b.test", "a.test", "b.test")
    await time.pass_for(*(log.visit(host, host, delay_s=10.0) for host in hosts))
    assert log.starts == [("a.test", 0), ("b.test", 0), ("a.test", 10), ("b.test", 10)]


async def test_requests_wait_for_retry_after(
    throttle: HostThrottle, log: StartLog, time: Time
) -> None:
    await throttle.report_overload("site.test", 20.0)
    await time.pass_for(log.visit("first"), log.visit("second"))
    # The pause after the overload also separates the two requests.
    assert log.starts == [("first", 20.0), ("second", 21.0)]


async def test_overload_delays_queued_requests(
    throttle: HostThrottle, log: StartLog, time: Time
) -> None:
    async def report_overload_later() -> None:
        await time.sleep(5.0)
        await throttle.report_overload("site.test", 20.0)

    jobs = (log.visit(name, delay_s=10.0) for name in ("first", "second"))
    await time.pass_for(*jobs, report_overload_later())
    assert log.starts == [("first", 0.0), ("second", 25.0)]


async def test_retry_after_beyond_longest_wait_fails_at_once(
    throttle: HostThrottle, log: StartLog, time: Time
) -> None:
    await throttle.report_overload("site.test", 120.0)
    with pytest.raises(FetchError, match=r"asked for a pause; .* another 120 s") as caught:
        await time.pass_for(log.visit("hurried"))
    assert caught.value.kind == "timeout"
    assert time.now == 0.0
    await time.pass_for(log.visit("patient", max_wait_s=200.0))
    assert log.starts == [("patient", 120.0)]


async def test_rest_of_a_pause_is_never_zero_seconds(
    throttle: HostThrottle, log: StartLog, time: Time
) -> None:
    await throttle.report_overload("site.test", 1.2)
    with pytest.raises(FetchError, match=r"no request is sent to it for another 2 s\."):
        await time.pass_for(log.visit("hurried", max_wait_s=0.1))
    await throttle.report_overload("other.test", 1.0)
    time.now = 0.7
    with pytest.raises(FetchError, match=r"no request is sent to it for another 1 s\."):
        await time.pass_for(log.visit("hurried", host="other.test", max_wait_s=0.1))


async def test_failed_host_fails_at_once_and_others_do_not(
    throttle: HostThrottle, log: StartLog, time: Time
) -> None:
    await fail_host(throttle)
    with pytest.raises(FetchError, match=r"failed 3 times in a row; .* another 10 s") as caught:
        await time.pass_for(log.visit("hurried", max_wait_s=5.0))
    assert caught.value.kind == "host_unavailable"
    await time.pass_for(log.visit("elsewhere", "other.test"))
    assert log.starts == [("elsewhere", 0.0)]


async def test_requests_follow_a_successful_trial(
    throttle: HostThrottle, log: StartLog, time: Time
) -> None:
    async def trial() -> None:
        await log.visit("trial", lasting_s=7.0)
        await throttle.report_success("site.test")

    await fail_host(throttle)
    await time.pass_for(trial(), log.visit("second"), log.visit("third"))
    assert log.starts[0] == ("trial", 10.0)
    assert [start for _, start in log.starts[1:]] == [17.0, 17.5]


async def test_requests_fail_after_a_failed_trial(
    throttle: HostThrottle, log: StartLog, time: Time
) -> None:
    async def trial() -> None:
        await log.visit("trial", lasting_s=7.0)
        await throttle.report_overload("site.test")

    await fail_host(throttle)
    second = log.visit("second", max_wait_s=15.0)
    with pytest.raises(FetchError, match="failed 4 times"):
        await time.pass_for(trial(), second)
    assert log.starts == [("trial", 10.0)]


async def test_requests_between_failed_trials_fail_at_once(
    throttle: HostThrottle, log: StartLog, time: Time
) -> None:
    async def trial() -> None:
        await log.visit("trial")
        await throttle.report_failure("site.test")

    await fail_host(throttle)
    await time.pass_for(trial())
    with pytest.raises(FetchError, match="another 20 s") as caught:
        await time.pass_for(log.visit("patient", max_wait_s=1000.0))
    assert caught.value.kind == "host_unavailable"
    assert time.now == 10.0
    time.now = 30.0
    await time.pass_for(log.visit("probe"))
    await throttle.report_success("site.test")
    await time.pass_for(log.visit("back"))
    assert [name for name, _ in log.starts] == ["trial", "probe", "back"]


async def test_page_failures_delay_nothing_until_threshold(
    throttle: HostThrottle, log: StartLog, time: Time
) -> None:
    for _ in range(FAILURES - 1):
        await throttle.report_failure("site.test")
    await time.pass_for(log.visit("unhindered"))
    assert log.starts == [("unhindered", 0.0)]
    await throttle.report_failure("site.test")
    with pytest.raises(FetchError, match="in a row"):
        await time.pass_for(log.visit("refused", max_wait_s=1.0))


async def test_cancelled_request_leaves_queue(log: StartLog, time: Time) -> None:
    await log.visit("first", delay_s=10.0)
    impatient = asyncio.ensure_future(log.visit("impatient", delay_s=10.0))
    await asyncio.sleep(0)
    last = asyncio.ensure_future(log.visit("last", delay_s=10.0))
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.gather(impatient, return_exceptions=True)
    time.now = 10.0
    await time.pass_for(log.visit("newcomer", delay_s=10.0))
    await last
    assert log.starts == [("first", 0.0), ("last", 10.0), ("newcomer", 20.0)]


async def test_error_inside_a_trial_allows_next_trial(
    throttle: HostThrottle, log: StartLog, time: Time
) -> None:
    async def stumble() -> None:
        with pytest.raises(ZeroDivisionError):
            async with throttle.slot("site.test"):
                raise ZeroDivisionError

    await fail_host(throttle)
    await time.pass_for(stumble(), log.visit("next"))
    assert log.starts == [("next", 11.0)]


async def test_request_inside_a_trial_does_not_wait_for_it(
    throttle: HostThrottle, log: StartLog, time: Time
) -> None:
    async def trial() -> None:
        async with throttle.slot("site.test"):
            await log.visit("robots.txt on the way to a redirect's target")
        await throttle.report_success("site.test")

    await fail_host(throttle)
    async with asyncio.timeout(60):
        await time.pass_for(trial(), log.visit("next"))
    assert [start for _, start in log.starts] == [11.0, 11.0]


async def test_queue_has_its_own_deadline(monkeypatch: pytest.MonkeyPatch, log: StartLog) -> None:
    monkeypatch.setattr(host_pacing, "QUEUE_LIMIT_S", 0.1)
    await log.visit("first", delay_s=0.05)
    held = asyncio.ensure_future(log.visit("held", delay_s=0.05, max_wait_s=0.0))
    await asyncio.sleep(0)
    with pytest.raises(FetchError, match="had no turn for this page within 1 s; 1 were") as caught:
        await log.visit("late", delay_s=0.05, max_wait_s=0.0)
    assert caught.value.kind == "timeout"
    held.cancel()
    await asyncio.gather(held, return_exceptions=True)


async def test_endless_subresources_do_not_block_queue_forever(
    throttle: HostThrottle, log: StartLog, time: Time
) -> None:
    async def files() -> None:
        for _ in range(1000):
            await throttle.wait_unqueued("site.test", delay_s=0.5, max_wait_s=2.0)

    await log.visit("first", delay_s=10.0)
    with pytest.raises(FetchError, match="had no turn"):
        await time.pass_for(log.visit("next", delay_s=10.0), files())


async def test_idle_hosts_are_removed(
    throttle: HostThrottle, log: StartLog, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle_module, "_MAX_HOSTS", 3)
    await throttle.report_overload("slow.test", 5000.0)
    for n in range(10):
        time.now += 400.0
        await log.visit("x", f"{n}.test")
    assert len(throttle._queues) <= 3
    with pytest.raises(FetchError):
        await log.visit("x", "slow.test")


async def test_real_clock() -> None:
    throttle = HostThrottle()
    began = asyncio.get_running_loop().time()
    for turn in range(3):
        async with throttle.slot("site.test", delay_s=0.05):
            assert asyncio.get_running_loop().time() - began >= turn * 0.045


async def test_subresources_do_not_wait_in_queue(
    throttle: HostThrottle, log: StartLog, time: Time
) -> None:
    async def files() -> None:
        for _ in range(3):
            await throttle.wait_unqueued("site.test", delay_s=0.5, max_wait_s=2.0)
            log.starts.append(("file", time.now))

    await time.pass_for(log.visit("first", delay_s=10.0))
    await time.pass_for(log.visit("next", delay_s=10.0), log.visit("last", delay_s=10.0), files())
    # The next page keeps the delay after the last file.
    assert log.starts == [
        ("first", 0.0),
        *(("file", 0.5 * n) for n in (1, 2, 3)),
        ("next", 11.5),
        ("last", 21.5),
    ]


async def test_subresources_wait_for_pauses_within_their_limit(
    throttle: HostThrottle, time: Time
) -> None:
    await throttle.report_overload("site.test", 5.0)
    with pytest.raises(FetchError, match="asked for a pause"):
        await throttle.wait_unqueued("site.test", max_wait_s=4.0)
    await time.pass_for(throttle.wait_unqueued("site.test", max_wait_s=5.0))
    assert time.now == 5.0
    await fail_host(throttle, "broken.test")
    with pytest.raises(FetchError, match="failed 3 times in a row"):
        await throttle.wait_unqueued("broken.test", max_wait_s=4.0)


async def test_hosts_of_subresources_are_not_stored(throttle: HostThrottle) -> None:
    await throttle.wait_unqueued("named.test", max_wait_s=1.0)
    await throttle.report_success("named.test")
    assert not throttle._queues


async def test_error_replies_to_one_account_close_the_host_to_that_account_only(
    throttle: HostThrottle, time: Time
) -> None:
    log = StartLog(throttle, time)

    async def request(account: str, *, fails: bool) -> None:
        with on_behalf_of(account):
            await log.visit(account)
            if fails:
                await throttle.report_error_reply("site.test")
            else:
                await throttle.report_success("site.test")

    for _ in range(FAILURES):
        await time.pass_for(request("a", fails=True))
    await time.pass_for(request("b", fails=False))
    assert log.starts[-1] == ("b", 0.0)
    # The first open period costs the account time, and a further failure its requests.
    await time.pass_for(request("a", fails=True), request("b", fails=False))
    assert log.starts[-2:] == [("b", 0.0), ("a", 10.0)]
    with pytest.raises(FetchError) as caught:
        await request("a", fails=False)
    assert caught.value.kind == "host_unavailable"
    await time.pass_for(request("b", fails=False))
    assert log.starts[-1] == ("b", 10.0)


async def test_error_replies_to_two_accounts_close_the_host_to_all(throttle: HostThrottle) -> None:
    for number in range(2 * FAILURES):
        with on_behalf_of("ab"[number % 2]):
            await throttle.report_error_reply("site.test")
    with on_behalf_of("c"), pytest.raises(FetchError, match="failed"):
        await throttle.wait_unqueued("site.test", max_wait_s=5.0)
