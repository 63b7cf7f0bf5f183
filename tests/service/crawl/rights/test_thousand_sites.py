"""Crawls of 1,000 generated sites: no row violates the purpose, and no allowed page is missing.

What the pages of a site refuse is decided before the text of its declarations is written, and the
text is never read here: the expected rows do not depend on the service's readers.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.service.conftest import Api, open_service
from tests.site.many_sites import ManySites, SmallPage, host_of, many_sites
from webdata_nb.contract.outcomes import TERMINAL

PURPOSES: Final = ("search", "ai-input", "ai-train", "research")
SITES: Final = 1000
TIMEOUT_S: Final = 280.0
HUB: Final = "127.0.0.1"
PATHS: Final = ("/a/one", "/b/two", "/b/three")
RSL: Final = '<rsl xmlns="https://rslstandard.org/rsl">{}</rsl>'


@dataclass
class GeneratedSite:
    """A site in the making: its files and pages, and the purposes that each page refuses."""

    host: str
    robots: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=lambda: dict.fromkeys(PATHS, ""))
    headers: dict[str, dict[str, str]] = field(default_factory=lambda: {p: {} for p in PATHS})
    refused: dict[str, set[str]] = field(default_factory=lambda: {p: set() for p in PATHS})

    def refuse(self, paths: list[str], *purposes: str) -> None:
        """Note what pages refuse."""
        for path in paths:
            self.refused[path].update(purposes)


Declaration = Callable[[GeneratedSite, random.Random], None]
USAGE: Final = {"train-ai": "ai-train", "ai-use": "ai-input", "search": "search"}
SIGNALS: Final = ("search", "ai-input", "ai-train")
TOKENS: Final = {
    "all": PURPOSES,
    "ai-all": ("ai-input", "ai-train"),
    "ai-train": ("ai-train",),
    "ai-input": ("ai-input",),
    "search": ("search",),
}
MINING: Final = ("ai-input", "ai-train", "research")


def content_signal(site: GeneratedSite, rng: random.Random) -> None:
    answers = {signal: rng.choice(("yes", "no")) for signal in SIGNALS if rng.random() < 0.7}
    site.robots.append(f"Content-Signal: {', '.join(f'{k}={v}' for k, v in answers.items())}")
    site.refuse(list(PATHS), *(signal for signal, answer in answers.items() if answer == "no"))


def usage_rules(site: GeneratedSite, rng: random.Random) -> None:
    label = rng.choice(list(USAGE))
    general, special = rng.choice((("n", "y"), ("y", "n"), ("n", "n")))
    site.robots += [f"Content-Usage: {label}={general}", f"Content-Usage: /b/ {label}={special}"]
    for paths, value in ((["/a/one"], general), (["/b/two", "/b/three"], special)):
        if value == "n":
            site.refuse(paths, USAGE[label])


def usage_header(site: GeneratedSite, rng: random.Random) -> None:
    path, label = rng.choice(PATHS), rng.choice(list(USAGE))
    value = rng.choice(("y", "n"))
    site.headers[path]["Content-Usage"] = f"{label}={value};v=1, other=n"
    if value == "n":
        site.refuse([path], USAGE[label])


def unreadable_usage_header(site: GeneratedSite, rng: random.Random) -> None:
    value = rng.choice(("Train-AI=n", "train-ai=no", "train-ai", "train-ai=n,", 'train-ai="n"'))
    site.headers[rng.choice(PATHS)].setdefault("Content-Usage", value)


def robots_tag(site: GeneratedSite, rng: random.Random) -> None:
    path = rng.choice(PATHS)
    value, purposes = rng.choice(
        (
            ("noai", ("ai-input", "ai-train")),
            ("noimageai, nofollow", ("ai-input", "ai-train")),
            ("noindex", ("search",)),
            ("otherbot: noai", ()),
            ("nosnippet", ()),
        )
    )
    site.headers[path]["X-Robots-Tag"] = value
    site.refuse([path], *purposes)


def robots_meta(site: GeneratedSite, rng: random.Random) -> None:
    path = rng.choice(PATHS)
    name = rng.choice(("robots", "ROBOTS", "otherbot"))
    site.heads[path] += f'<meta name="{name}" content="index, noai">'
    if name != "otherbot":
        site.refuse([path], "ai-input", "ai-train")


def mining_header(site: GeneratedSite, rng: random.Random) -> None:
    path, value = rng.choice(PATHS), rng.choice(("1", "0", "2"))
    site.headers[path]["tdm-reservation"] = value
    if value == "1":
        site.refuse([path], *MINING)


def mining_meta(site: GeneratedSite, rng: random.Random) -> None:
    path, value = rng.choice(PATHS), rng.choice(("1", "0"))
    site.heads[path] += f'<meta name="tdm-reservation" content="{value}">'
    if value == "1":
        site.refuse([path], *MINING)


def mining_file(site: GeneratedSite, rng: random.Random) -> None:
    reserved = rng.random() < 0.6
    rules = [
        {"location": "/b/two", "tdm-reservation": 0},
        {"location": "/b/*", "tdm-reservation": int(reserved)},
    ]
    site.files["/.well-known/tdmrep.json"] = json.dumps(rules)
    if reserved:
        site.refuse(["/b/three"], *MINING)


def rsl_terms(site: GeneratedSite, rng: random.Random, paths: list[str]) -> str:
    """Return a licence for pages, after noting what it refuses."""
    token = rng.choice(list(TOKENS))
    kind = rng.choice(("prohibits", "prohibits", "permits", "paid"))
    if kind == "prohibits":
        site.refuse(paths, *TOKENS[token])
        return f'<license><prohibits type="usage">{token}</prohibits></license>'
    # A licence for some uses is none for the others; research is no use that it could name.
    others = set(SIGNALS) - set(TOKENS[token])
    site.refuse(paths, *others)
    if kind == "permits":
        return f'<license><permits type="usage">{token}</permits></license>'
    site.refuse(paths, *TOKENS[token])
    payment = '<payment type="crawl"><amount currency="USD">1</amount></payment>'
    return f'<license><permits type="usage">{token}</permits>{payment}</license>'


def rsl_of_robots(site: GeneratedSite, rng: random.Random) -> None:
    terms = rsl_terms(site, rng, ["/b/two", "/b/three"])
    site.files["/license.xml"] = RSL.format(f'<content url="/b/">{terms}</content>')
    site.robots.insert(0, "License: {site}/license.xml")


def rsl_of_page(site: GeneratedSite, rng: random.Random) -> None:
    path = rng.choice(PATHS)
    content = RSL.format(f'<content url="">{rsl_terms(site, rng, [path])}</content>')
    site.heads[path] += f'<script type="application/rsl+xml">{content}</script>'


def rsl_of_link(site: GeneratedSite, rng: random.Random) -> None:
    path = rng.choice(PATHS)
    content = f'<content url="/">{rsl_terms(site, rng, [path])}</content>'
    site.files[f"/terms{path}.xml"] = RSL.format(content)
    if rng.random() < 0.5:
        link = f'</terms{path}.xml>; rel="license"; type="application/rsl+xml"'
        site.headers[path]["Link"] = link
    else:
        site.heads[path] += (
            f'<link rel="license" type="application/rsl+xml" href="/terms{path}.xml">'
        )


def plain_license(site: GeneratedSite, rng: random.Random) -> None:
    url = "https://creativecommons.org/licenses/by/4.0/"
    site.heads[rng.choice(PATHS)] += f'<link rel="license" href="{url}">'


DECLARATIONS: Final[tuple[Declaration, ...]] = (
    content_signal,
    usage_rules,
    usage_header,
    unreadable_usage_header,
    robots_tag,
    robots_meta,
    mining_header,
    mining_meta,
    mining_file,
    rsl_of_robots,
    rsl_of_page,
    rsl_of_link,
    plain_license,
)


def generate(number: int) -> GeneratedSite:
    """Return a site with up to four kinds of declarations."""
    rng = random.Random(number)
    site = GeneratedSite(host_of(number))
    for declare in rng.sample(DECLARATIONS, rng.randrange(5)):
        declare(site, rng)
    return site


def publish(site: GeneratedSite, sites: ManySites) -> None:
    """Serve a site."""
    group = [line for line in site.robots if not line.startswith("License")]
    before = [line for line in site.robots if line.startswith("License")]
    robots = "\n".join([*before, "User-agent: *", *group, ""])
    text = {"Content-Type": "text/plain"}
    base = sites.url(site.host, "")
    sites.pages[site.host, "/robots.txt"] = SmallPage(robots.replace("{site}", base), text)
    for path, content in site.files.items():
        sites.pages[site.host, path] = SmallPage(content, text)
    for path in PATHS:
        body = (
            f"<html><head><title>{site.host}{path}</title>{site.heads[path]}</head>"
            f"<body><p>The page {path} of {site.host}.</p></body></html>"
        )
        sites.pages[site.host, path] = SmallPage(body, site.headers[path])


@dataclass(frozen=True)
class Crawled:
    """The rows and the receipt of a crawl."""

    status: str
    rows: list[dict[str, Any]]
    receipt: dict[str, dict[str, Any]]


async def crawl(api: Api, start: str, purpose: str) -> Crawled:
    options = {"allow_external_links": True, "max_pages": 1000, "concurrency": 10}
    job_id = await api.start_job("crawl", {"url": start, "purpose": purpose, **options})
    path = f"/v1/crawl/{job_id}"
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            reply = await api.get(path, params={"include_data": "false"})
            if reply["status"] in TERMINAL:
                break
            await asyncio.sleep(0.5)
    rows = (await api.get(path, params={"per_page": 1000}))["data"]
    entries = (await api.get(f"{path}/receipt", params={"per_page": 10_000}))["data"]
    return Crawled(reply["status"], rows, {entry["url"]: entry for entry in entries})


@pytest.mark.slow
async def test_no_row_of_1000_sites_violates_the_purpose(tmp_path: Path) -> None:
    pages: dict[str, dict[str, set[str]]] = {purpose: {} for purpose in PURPOSES}
    with many_sites() as sites:
        for number in range(SITES):
            site = generate(number)
            publish(site, sites)
            for path in PATHS:
                url = sites.url(site.host, path)
                pages[PURPOSES[number % len(PURPOSES)]][url] = site.refused[path]
        for purpose in PURPOSES:
            links = "".join(f'<a href="{url}">{url}</a>' for url in pages[purpose])
            sites.pages[HUB, f"/{purpose}"] = SmallPage(f"<title>Hub</title>{links}")
        async with open_service(tmp_path) as api:
            crawls = [crawl(api, sites.url(HUB, f"/{purpose}"), purpose) for purpose in PURPOSES]
            crawled = dict(zip(PURPOSES, await asyncio.gather(*crawls), strict=True))
        hubs = {purpose: sites.url(HUB, f"/{purpose}") for purpose in PURPOSES}
    for purpose, result in crawled.items():
        refused = {url for url, purposes in pages[purpose].items() if purpose in purposes}
        assert result.status == "completed"
        assert 50 < len(refused) < len(pages[purpose]) - 50
        assert {row["url"] for row in result.rows} == {hubs[purpose], *pages[purpose]} - refused
        found = {url for url, each in result.receipt.items() if each["outcome"] == "rights"}
        assert found == refused
        assert all(result.receipt[url]["detail"] for url in refused)
        assert all(row["rights"]["verdicts"][purpose] != "refused" for row in result.rows)
