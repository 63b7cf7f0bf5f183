"""The operator's page in Chromium, of real services: one on SQLite, and two on one PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import httpx
import pytest

from tests.openapi.service_process import ENVIRON, team
from tests.replica_process import ReplicaProcess
from tests.requirements import require, require_module
from tests.site.server import Site
from tests.stores.jobs import claimed, entry, new_job
from webdata_nb.contract.operator_views import VIEWS
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.encryption import FixedKeys, SecretCipher, key_hash, new_key
from webdata_nb.service.ledger import Charge, Terms
from webdata_nb.service.store.backends import open_store
from webdata_nb.service.store.records import CommitBatch, UrlOutcome
from webdata_nb.service.store.sql.store import Store

if TYPE_CHECKING:
    from playwright.sync_api import Browser, HttpCredentials, Page

pytestmark = pytest.mark.slow

CHECKS: Final = (
    (Path(__file__).parent.parent / "website_checks.js")
    .read_text("utf-8")
    .replace(".md-content", "body")
)
ACCOUNTS: Final = ("alice", "بحث وتطوير", "<script>alert(1)</script> " + "long name " * 7)
SUBJECTS: Final = (
    "https://www.example.com/" + "a-segment-of-a-path/" * 9 + "?q=1",
    "<img src=x onerror=alert(1)>",
    "أفضل الكتب العربية عن التاريخ",
    "colour",
)
ERRORS: Final = (
    "no answer of https://www.example.com/ in 30 s",
    "<b>every</b> provider refused the search: " + "google answered 429, " * 9,
)
LABELS: Final = 10_200
WIDTHS: Final = (390, 800, 1600)
OPERATOR: Final = {"Authorization": "Bearer wdk_operator"}
PASSWORD: Final[HttpCredentials] = {"username": "me", "password": "wdk_operator"}


@dataclass(frozen=True, slots=True)
class Service:
    """Running processes of one service, and what runs in them."""

    urls: tuple[str, ...]
    open_store: Callable[[], Store]
    stop: Callable[[], None]

    def rows(self, view: str, **query: str) -> Any:
        reply = httpx.get(f"{self.urls[0]}/v1/operator/{view}", params=query, headers=OPERATOR)
        return reply.raise_for_status().json()["rows"]

    def job(self, **values: str) -> str:
        """Return the newest job with these values."""
        rows = self.rows("jobs", limit="1000")
        return next(str(row["job"]) for row in rows if values.items() <= row.items())


async def fill(store: Store) -> None:
    """Add accounts with ended, failed and cancelled jobs, and much usage."""
    async with store:
        now = store.now()
        for name in (*ACCOUNTS, "operator"):
            await store.accounts.add(name, name, Terms("team", 1_000_000, 99), now=now - 9e6)
        for number, name in enumerate(ACCOUNTS):
            key = key_hash(f"wdk_{number}")
            await store.accounts.add_key(f"key_{number}", name, "pc", key, now=now)
        key = key_hash("wdk_operator")
        await store.accounts.add_key("key_op", "operator", "me", key, now=now, scopes=("admin",))
        ends = (JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.COMPLETED)
        for number in range(36):
            account, end = ACCOUNTS[number % 3], ends[number % 3 if number % 5 else 2]
            new = replace(
                new_job(account, kind="search", key_id=f"key_{number % 3}"),
                subject=SUBJECTS[number % 4],
                max_charges=(Charge("search", "scrape", 9),),
            )
            at = now - 40_000 + number * 1000
            await store.accept(new, now=at)
            if end is JobStatus.CANCELLED:
                await store.cancel(account, new.id, now=at + 5)
                continue
            _, lease = await claimed(store, now=at + 3)
            entries = tuple(entry(n, position=n, charged=("scrape",)) for n in range(number % 7))
            batch = CommitBatch(
                entries=entries,
                url_outcomes=tuple(UrlOutcome(each.url, "fetched") for each in entries),
                outcome={"fallback_chain": [{"provider": "brave", "status": "rate_limited"}]},
            )
            error = ERRORS[number % 2] if end is JobStatus.FAILED else None
            await store.finish(lease, end, error=error, batch=batch, now=at + 60)
        await store.accounts.count_usage(
            {("alice", "key_0", "refused", "ConcurrencyReached", "429"): 70}, now=now
        )
        # Of an account without jobs: the crawls of the others end at some time, and count more.
        labels = range(LABELS)
        await store.accounts.count_usage(
            {("operator", "key_op", "urls", "crawl", f"failed:{n}"): 1 for n in labels}, now=now
        )


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine; the thread of the browser has a loop of its own already."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, coroutine).result()


@contextmanager
def on_sqlite(folder: Path) -> Iterator[Service]:
    key = new_key()
    cipher = SecretCipher(FixedKeys((key,)))
    data_dir = folder / "service-team"
    data_dir.mkdir()
    run(fill(open_store(data_dir, cipher)))
    with team(
        folder, "--data-dir", str(data_dir), "--slots", "2", "--allow-network", "127.0.0.0/8",
        key="wdk_operator", WEBDATA_SECRET_KEY=key,
    ) as running:  # fmt: skip
        yield Service(
            (running.url,), lambda: open_store(data_dir, cipher), running.process.terminate
        )


@contextmanager
def on_postgres(folder: Path, store_url: str) -> Iterator[Service]:
    key = new_key()
    cipher = SecretCipher(FixedKeys((key,)))
    run(fill(open_store(folder, cipher, store_url)))
    with ExitStack() as stack:
        replicas = [
            ReplicaProcess(
                folder / name, store_url, key, "--replica", name, "--slots", "1", **ENVIRON
            )
            for name in ("first", "second")
        ]
        for replica in replicas:
            replica.launch()
            stack.callback(replica.kill)
            replica.wait_ready()

        def stop() -> None:
            for replica in replicas:
                replica.terminate()

        yield Service(
            tuple(replica.url for replica in replicas),
            lambda: open_store(folder, cipher, store_url),
            stop,
        )


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """Serve accounts with ended jobs, two running ones and some that wait."""
    folder = tmp_path_factory.mktemp("operator")
    with ExitStack() as stack:
        if request.param == "sqlite":
            running = stack.enter_context(on_sqlite(folder))
        else:
            server = request.getfixturevalue("postgres_server")
            running = stack.enter_context(on_postgres(folder, server.new_schema()))
        site = stack.enter_context(Site())
        site.page("/", "<title>Front</title>")
        stack.enter_context(site.hold("/"))
        for number in range(30):  # the site keeps each of them for half a minute or more
            start_crawl(running, site.url, f"wdk_{number % 3}")
        yield running


def start_crawl(service: Service, url: str, key: str) -> str:
    reply = httpx.post(
        f"{service.urls[0]}/v1/crawl",
        json={"url": url},
        headers={"Authorization": f"Bearer {key}"},
    )
    return str(reply.raise_for_status().json()["job_id"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = require_module("playwright.sync_api")
    chromium = require("chromium")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def tab(browser: Browser, service: Service, **options: Any) -> Iterator[Page]:
    """Open a tab that knows the operator's key, and fails if anything is wrong with its pages."""
    context = browser.new_context(http_credentials=PASSWORD, **options)
    page = context.new_page()
    complaints: list[str] = []
    others: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda request: others.append(request.url))
    try:
        yield page
        assert complaints == []
        assert [url for url in others if not url.startswith((*service.urls, "data:"))] == []
    finally:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_readable(
    service: Service, browser: Browser, scheme: Literal["light", "dark"]
) -> None:
    paths = ["/operator", *(f"/operator/{name}" for name in VIEWS), "/operator/usage?by=day"]
    paths += [f"/operator/jobs/{service.job(state=state)}" for state in ("failed", "running")]
    faults: dict[tuple[str, int], list[str]] = {}
    with tab(browser, service, color_scheme=scheme) as page:
        for path in paths:
            page.goto(service.urls[-1] + path)
            page.wait_for_selector("#live:text('Live')")
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                if found := page.evaluate(CHECKS):
                    faults[path, width] = found
    assert faults == {}


def test_overview_shows_what_is_going_on(service: Service, browser: Browser) -> None:
    def failed() -> int:
        return sum(row["jobs"] for row in service.rows("failures", since="24h"))

    with tab(browser, service) as page:
        failed_before = failed()  # jobs of the service fail meanwhile
        page.goto(f"{service.urls[-1]}/operator")
        page.wait_for_selector("text=whole database")
        tiles = {
            each.locator("span").inner_text(): each.locator("strong").inner_text()
            for each in page.locator(".tiles a").all()
        }
        assert tiles["Processes live"] == str(len(service.urls))
        assert tiles["Jobs running"] == "2"
        assert int(tiles["Jobs waiting"]) >= len(service.rows("jobs", state="pending")) > 0
        assert 0 < failed_before <= int(tiles["Jobs failed, 24 hours"]) <= failed()
        assert int(tiles["Requests refused"]) >= 70
        assert page.locator("section", has_text="Running jobs").locator("tbody tr").count() == 2
        page.locator(".tiles a", has_text="Jobs waiting").click()
        page.wait_for_url("**/operator/jobs?state=pending")
        assert page.locator("tbody tr").count() > 0
        assert page.locator("select[name=state]").input_value() == "pending"
        assert "webdata store jobs --state pending" in page.inner_text("#content")
        page.locator("tbody tr a.id").first.click()
        page.wait_for_url("**/operator/jobs/*-*")
        job_id = page.url.rpartition("/")[2]
        commands = page.locator("code").all_inner_texts()
        assert commands[:2] == [f"webdata jobs show {job_id}", f"webdata jobs cancel {job_id}"]


def test_pages_renew_themselves_and_keep_what_the_reader_does(
    service: Service, browser: Browser
) -> None:
    with tab(browser, service, viewport={"width": 800, "height": 400}) as page:
        page.goto(f"{service.urls[-1]}/operator/jobs?state=pending")
        page.wait_for_selector("#live:text('Live')")
        page.fill("input[name=since]", "7d")
        page.focus(".scroll")
        page.evaluate("document.querySelector('.scroll').scrollLeft = 150")
        page.evaluate("scrollTo(0, 120)")
        old = page.locator("tbody tr a.id").first.get_attribute("href") or ""
        cancel = f"{service.urls[0]}/v1{old}/cancel"
        assert httpx.post(cancel, headers=OPERATOR).json()["success"]
        page.wait_for_selector(f"a.id[href='{old}']", state="detached")
        assert page.input_value("input[name=since]") == "7d"
        assert page.evaluate("document.querySelector('.scroll').scrollLeft") == 150
        assert page.evaluate("scrollY") == 120
        assert page.evaluate("document.activeElement.className") == "scroll"
        page.locator("tbody a[href*='account=']").first.focus()
        href = page.evaluate("document.activeElement.getAttribute('href')")
        page.evaluate("document.getElementById('content').dataset.old = 'yes'")
        page.wait_for_selector("#content:not([data-old])")
        assert page.evaluate("document.activeElement.getAttribute('href')") == href


def test_pages_work_without_scripts_and_with_the_keyboard(
    service: Service, browser: Browser
) -> None:
    with tab(browser, service, java_script_enabled=False) as page:
        page.goto(f"{service.urls[0]}/operator/jobs")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # skip to the content
        for _ in range(5):
            page.keyboard.press("Tab")
            page.keyboard.type("failed")  # in a text field, and in a choice
        page.fill("input[name=account]", "alice")
        page.fill("input[name=since]", "")
        page.select_option("select[name=kind]", "search")
        page.select_option("select[name=state]", "completed")
        page.click("button")
        page.wait_for_url("**account=alice**")
        assert "state=completed" in page.url
        states = page.locator("td[data-label=State]").all_inner_texts()
        assert states
        assert set(states) == {"completed"}
        page.goto(f"{service.urls[0]}/operator")
        assert page.locator("nav [aria-current=page]").inner_text() == "Overview"


def test_ten_thousand_rows_are_shown(service: Service, browser: Browser) -> None:
    with tab(browser, service) as page:
        page.goto(f"{service.urls[0]}/operator/outcomes?limit=10000&account=operator")
        assert page.locator("tbody tr").count() == 10_000
        assert "Only the first 10,000 rows." in page.inner_text("#content")
        assert page.locator("tfoot td.number").inner_text() == "10,000"


def test_the_stream_ends_with_the_key(service: Service) -> None:
    async def add_key(key: str, ends_at: float | None = None) -> None:
        async with service.open_store() as store:
            await store.accounts.add_key(
                *(f"key_{key}", "operator", "short", key_hash(f"wdk_{key}")),
                now=store.now(),
                scopes=("admin",),
                ends_at=ends_at,
            )

    async def end_key(key: str) -> None:
        async with service.open_store() as store:
            await store.accounts.end_key(f"key_{key}", at=store.now())

    run(add_key("short"))
    headers = {"Authorization": "Bearer wdk_short"}
    lines: list[str] = []
    with httpx.stream("GET", f"{service.urls[-1]}/operator/events", headers=headers) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            lines += [line] if line else []
            if line == "event: change" and lines.count(line) == 2:
                run(end_key("short"))
    assert lines[-1] == ": the key is not valid any more"


def test_the_page_says_that_the_service_is_gone(service: Service, browser: Browser) -> None:
    """The last test of a service: it stops it."""
    context = browser.new_context(http_credentials=PASSWORD)
    page = context.new_page()
    page.goto(f"{service.urls[0]}/operator")
    page.wait_for_selector("#live:text('Live')")
    service.stop()
    page.wait_for_selector("#live.bad:text('no connection')")
    assert page.locator("h2 a:text('Running jobs')").is_visible()
    context.close()
