"""Inputs of callers and sites that cost much to work on, and the watch that is kept meanwhile."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

import httpx
import orjson
import psutil

from tests.site.document import document, prose
from tests.site.graphs import link_tree
from tests.site.process import SiteProcess
from webdata_nb.contract import limits, paths

if TYPE_CHECKING:
    from aiohttp import web

    from tests.site.server import Site

TERMINAL_STATES: Final = {"completed", "failed", "cancelled"}
JOB_S: Final = 300.0
# After which an input is not run again.
REPEAT_S: Final = 60.0
PROBE_EVERY_S: Final = 0.01
PROBE_TIMEOUT_S: Final = 120.0


class Probe:
    """Asks for `/healthz` all the time, in a thread, and watches the memory of the service.

    `seconds` are those until each answer, `busy_seconds` the processor time of the service's event
    loop meanwhile: on a busy machine an answer may be late although nothing blocks the loop.
    """

    def __init__(self, url: str, pid: int) -> None:
        self._where = urlsplit(url)
        self._process = psutil.Process(pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.seconds: list[float] = []
        self.busy_seconds: list[float] = []
        self.failures = 0
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        host, port = self._where.hostname or "", self._where.port
        connection = HTTPConnection(host, port, timeout=PROBE_TIMEOUT_S)
        while not self._stop.is_set():
            start_s, busy_before = time.monotonic(), self._loop_seconds()
            try:
                connection.request("GET", paths.HEALTH)
                answered = connection.getresponse()
                answered.read()
                self.failures += answered.status != 200
            except (OSError, HTTPException):
                self.failures += 1
                connection.close()
            self.seconds.append(time.monotonic() - start_s)
            self.busy_seconds.append(self._loop_seconds() - busy_before)
            with suppress(psutil.Error):
                self.peak_bytes = max(self.peak_bytes, self._process.memory_info().rss)
            self._stop.wait(PROBE_EVERY_S)
        connection.close()

    def _loop_seconds(self) -> float:
        """Return the processor time of the event loop's thread so far, the main thread."""
        with suppress(psutil.Error):
            for thread in self._process.threads():
                if thread.id == self._process.pid:
                    return float(thread.user_time + thread.system_time)
        return 0.0


@dataclass
class Caller:
    """A caller of the service, who notes how each of the jobs ended."""

    http: httpx.Client
    jobs: list[tuple[str, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        """Send a start as it is; the answer may be a refusal."""
        headers = {"Content-Type": "application/json"}
        answer = self.http.post(path, content=orjson.dumps(body), headers=headers)
        self.statuses.append(answer.status_code)
        return answer

    def crawl(self, url: str, **fields: Any) -> str:
        """Start a crawl that is taken."""
        answer = self.post(paths.CRAWL, {"url": url, **fields}).raise_for_status()
        return str(answer.json()["job_id"])

    def end(self, job_id: str) -> str:
        """Wait until a crawl is over; return its last status, "lost" where it never ends."""
        until = time.monotonic() + JOB_S
        status = "lost"
        while time.monotonic() < until:
            reply = self.http.get(f"/v1/crawl/{job_id}", params={"include_data": "false"})
            status = reply.raise_for_status().json()["status"]
            if status in TERMINAL_STATES:
                break
            status = "lost"
            time.sleep(0.1)
        self.jobs.append((job_id, status))
        return status

    def run(self, url: str, **fields: Any) -> str:
        """Crawl to the end; return the job's id."""
        job_id = self.crawl(url, **fields)
        self.end(job_id)
        return job_id


Attack = Callable[[Caller, str], None]


@dataclass(frozen=True, slots=True)
class Hostile:
    """One input: the recipe of the site that it needs, and what a caller does with that."""

    name: str
    site: str
    attack: Attack


@dataclass(frozen=True, slots=True)
class Report:
    """How the service answered `/healthz` under an input, and what became of the jobs.

    `longest_busy_s` is the most processor time that its event loop used before an answer.
    """

    name: str
    longest_s: float
    longest_busy_s: float
    p99_s: float
    peak_mb: float
    probes: int
    failed_probes: int
    jobs: Sequence[tuple[str, str]]

    @property
    def losses(self) -> int:
        """Jobs that never ended, or failed."""
        return sum(status != "completed" for _, status in self.jobs)


def under(
    hostile: Hostile, url: str, headers: dict[str, str], pid: int, *, probes: int = 1
) -> Report:
    """Run one input against the service at `url` and report.

    It is run again, each time from a site that the service does not know, until so many probes
    were sent while it was under way: 99 in 100 of few answers are all of them.
    """
    seconds: list[float] = []
    busy_seconds: list[float] = []
    jobs: list[tuple[str, str]] = []
    peak = failures = 0
    until = time.monotonic() + REPEAT_S
    while True:
        with (
            SiteProcess(f"tests.wire.hostile_inputs:{hostile.site}") as site,
            httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=JOB_S) as http,
            Probe(url, pid) as probe,
        ):
            caller = Caller(http)
            hostile.attack(caller, site.url)
        seconds += probe.seconds
        busy_seconds += probe.busy_seconds
        jobs += caller.jobs
        peak, failures = max(peak, probe.peak_bytes), failures + probe.failures
        if len(seconds) >= probes or time.monotonic() > until:
            break
    return Report(
        hostile.name,
        max(seconds, default=math.inf),
        max(busy_seconds, default=math.inf),
        percentile(seconds, 0.99),
        peak / 1e6,
        len(seconds),
        failures,
        tuple(jobs),
    )


def percentile(seconds: Sequence[float], share: float) -> float:
    """Return the time within which this share of the answers came."""
    if not seconds:
        return math.inf
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


# Sites


def quiet(site: Site) -> None:
    """Recipe: one page that leads to ten."""
    link_tree(site, depth=1, fanout=10)
    site.redirect("/", "/tree")


def globs_site(site: Site) -> None:
    """Recipe: 300 links of 1,900 characters."""
    site.page("/", document("Long links", links=[f"/{'a' * 1890}{n:04}" for n in range(300)]))


def robots_site(site: Site) -> None:
    """Recipe: 270 rules of 900 wildcards, and pages with long addresses."""
    rules = "".join(f"Disallow: /z{'*a' * 900}{n}\n" for n in range(270))
    # Pieces that are long to look for, within the bounds.
    rules += "".join(f"Disallow: /*{'a' * 40}b{'a' * 40}{n}\n" for n in range(700))
    site.robots(f"User-agent: *\n{rules}")
    links = [f"/{'a' * 1890}{n:04}" for n in range(50)]
    site.page("/", document("Long links", links=links))
    for link in links:
        site.page(link, document(link[-4:]))


def short_rules_site(site: Site) -> None:
    """Recipe: as many rules as the part of a robots.txt that is read can hold."""
    site.robots("User-agent: *\n" + "".join(f"Allow:/{n}\n" for n in range(45_000)))
    quiet(site)


def attributes_site(site: Site) -> None:
    """Recipe: a sitemap whose tag has 2 million attributes."""
    attributes = " ".join(f"a{n}=''" for n in range(2_000_000))
    _sitemap(site, f"<urlset><url {attributes}></url></urlset>")


def open_tags_site(site: Site) -> None:
    """Recipe: a sitemap of 5 million tags that are opened and never closed."""
    _sitemap(site, "<urlset>" + "<a>" * 5_000_000)


def elements_site(site: Site) -> None:
    """Recipe: a sitemap of 8 million empty elements: more than a page worker has time for."""
    _sitemap(site, "<urlset>" + "<a/>" * 8_000_000 + "</urlset>")


def many_urls_site(site: Site) -> None:
    """Recipe: an index of 50 sitemaps, of which one lists 50,000 URLs."""
    locations = "".join(f"<url><loc>{site.at(f'/page/{n}')}</loc></url>" for n in range(50_000))
    _sitemap(site, f"<urlset>{locations}</urlset>")


def _sitemap(site: Site, text: str) -> None:
    quiet(site)
    site.page("/sitemap.xml", text, headers={"Content-Type": "application/xml"})


def links_site(site: Site) -> None:
    """Recipe: pages of 300,000 links each, with parameters."""

    def page(request: web.BaseRequest) -> str:
        mark = "".join(filter(str.isdigit, request.path_qs))[-6:]
        links = "".join(f"<a href=/{mark}?sort={n}>x</a>" for n in range(300_000))
        return f"<title>Links {request.path_qs}</title><main>{links}</main>"

    site.robots("")
    site.under("/", page)


def large_pages_site(site: Site) -> None:
    """Recipe: pages of much text, many tags, long headers, many records."""
    records = "".join(
        f'<div itemscope itemtype="https://schema.org/Product"><b itemprop="name">N{n}</b></div>'
        for n in range(20_000)
    )
    table = "".join(f"<tr><td>N{n}</td><td>{n}</td></tr>" for n in range(20_000))
    bodies = {
        "/text": f"<title>Text</title><p>{prose('text', 60_000)}</p>" * 20,
        "/tags": "<title>Tags</title>" + "<b><i>x</i></b>" * 400_000,
        "/table": f"<title>Table</title><table><tr><th>name<th>price</tr>{table}</table>",
        "/records": f"<title>Records</title>{records}",
    }
    for path, body in bodies.items():
        site.page(path, body)
    site.page(
        "/headers",
        document("Headers"),
        headers={"Retry-After": "9" * 4000, "X-Long": "x" * 7000, "Cache-Control": "," * 7000},
    )
    site.page("/", document("Large pages", links=[*bodies, "/headers"]))


def forest(site: Site) -> None:
    """Recipe: a tree of 111 pages."""
    link_tree(site, depth=2, fanout=10)
    site.redirect("/", "/tree")


# What is done with them


def _globs(caller: Caller, url: str) -> None:
    caller.post(paths.CRAWL, {"url": url, "include_paths": ["/" + "a*" * 1000] * 20})
    most = ["/" + "a*" * limits.PATTERN_WILDCARDS + str(n) for n in range(20)]
    caller.run(url, include_paths=most)
    spread = [f"/**/{n}" + "*a**b" * 7 for n in range(limits.PATTERNS)]
    caller.run(url, include_paths=spread, exclude_paths=spread)


def _crawl(pages: int, **fields: Any) -> Attack:
    def attack(caller: Caller, url: str) -> None:
        caller.run(url, max_pages=pages, concurrency=10, **fields)

    return attack


def _schemas(caller: Caller, url: str) -> None:
    enums = {
        f"p{i}": {"enum": [f"{i}-{j}" for j in range(300)], "title": f"N{i}"} for i in range(300)
    }
    for count in (300, 60, 16):
        some = dict(list(enums.items())[:count])
        schema = {"type": "object", "properties": some}
        body = {"url": url, "max_pages": 5, "scrape_options": {"extract": {"schema": schema}}}
        answer = caller.post(paths.CRAWL, body)
        if answer.is_success:
            caller.end(answer.json()["job_id"])
    row = {"type": "object", "properties": {"name": {"type": "string"}, "price": {}}}
    items = {"type": "object", "properties": {"items": {"type": "array", "items": row}}}
    caller.run(url, max_pages=6, scrape_options={"extract": {"schema": items}})


def _selectors(caller: Caller, url: str) -> None:
    huge = "a" + ",a" * 225_000
    for selectors in ([huge], ["a" + ",a" * 100_000], [f".c{n}" for n in range(5000)]):
        for name in ("include_tags", "exclude_tags"):
            caller.post(paths.CRAWL, {"url": url, "scrape_options": {name: selectors}})
    for turn in range(20):
        most = [f".c{turn}-{n} " + "a,b " * 230 + "i" for n in range(16)]
        caller.run(url, max_pages=1, scrape_options={"exclude_tags": most})


def _bodies(caller: Caller, url: str) -> None:
    nested: Any = "x"
    for _ in range(60):
        nested = [nested] * 2 if len(str(nested)) < 100_000 else [nested]
    for body in (
        {"url": url, "webhook_url": nested},
        {"url": url, "formats": ["markdown"] * 20_000},
        {"url": url, "scrape_options": {"headers": {f"x{n}": "y" for n in range(9_000)}}},
        {"url": url, "include_paths": [f"/{n}" for n in range(9_000)]},
        {"url": url, **{f"f{n}": n for n in range(9_000)}},
        {"url": url + "a" * 250_000},
        {"query": " " * 250_000},
    ):
        for path in (paths.CRAWL, paths.SEARCH):
            for _ in range(5):
                caller.post(path, body)


def _large_pages(caller: Caller, url: str) -> None:
    formats = [*("markdown", "html", "raw_html", "links", "images"), "headings", "structured_data"]
    job_id = caller.run(url, max_pages=10, scrape_options={"formats": formats})
    for turn in range(3):
        caller.http.get(f"/v1/crawl/{job_id}", params={"per_page": 1000 - turn}).raise_for_status()
    for kind in ("json", "csv", "zip"):
        answer = caller.http.get(f"/v1/crawl/{job_id}/export", params={"format": kind})
        caller.statuses.append(answer.status_code)


def _receipts(caller: Caller, url: str) -> None:
    job_id = caller.run(url, max_pages=4)
    for page in range(1, 4):
        caller.http.get(f"/v1/crawl/{job_id}/receipt", params={"page": page, "per_page": 10_000})
    caller.http.get(f"/v1/crawl/{job_id}/events")


def _concurrent_crawls(count: int, pages: int) -> Attack:
    def attack(caller: Caller, url: str) -> None:
        jobs = [caller.crawl(url, max_pages=pages, concurrency=10) for _ in range(count)]
        for job_id in jobs:
            caller.end(job_id)

    return attack


INPUTS: Final = (
    Hostile("path patterns", "globs_site", _globs),
    Hostile("sitemap: 2 million attributes", "attributes_site", _crawl(20, sitemap=True)),
    Hostile("sitemap: 5 million open tags", "open_tags_site", _crawl(20, sitemap=True)),
    Hostile("sitemap: 8 million elements", "elements_site", _crawl(20, sitemap=True)),
    Hostile("sitemap: 50,000 pages", "many_urls_site", _crawl(20, sitemap=True)),
    Hostile("robots.txt: 270 x 900 wildcards", "robots_site", _crawl(50)),
    Hostile("robots.txt: 45,000 rules", "short_rules_site", _crawl(10)),
    Hostile("schemas: 300 x 300 enums", "large_pages_site", _schemas),
    Hostile("CSS selectors of 450 KB", "quiet", _selectors),
    Hostile("bodies of many values", "quiet", _bodies),
    Hostile("pages of 300,000 links", "links_site", _crawl(4)),
    Hostile("the same, facets", "links_site", _crawl(4, filter_faceted_urls=True)),
    Hostile("the same, best first", "links_site", _crawl(4, crawl_strategy="bff")),
    Hostile("the same, patterns", "links_site", _crawl(4, include_paths=["**a*b**", "/**0"])),
    Hostile("the same, receipts", "links_site", _receipts),
    Hostile("large pages, exports", "large_pages_site", _large_pages),
    Hostile("16 crawls at once", "forest", _concurrent_crawls(16, 111)),
)
