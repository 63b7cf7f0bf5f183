"""The files with rights of a job: read once, with the job's journal, and without its secrets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Final

import pytest

from tests.site.server import Site
from webdata_nb.page.content.parsed_page import PageDeclaration
from webdata_nb.service.crawl.rights.job_rights import MAX_LICENSES, JobRights
from webdata_nb.service.crawl.rights.signal import PageRights
from webdata_nb.service.crawl.robots import JobRobots, RobotsCache
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher
from webdata_nb.service.web.polite_fetcher import PoliteFetcher
from webdata_nb.service.web.throttle import HostThrottle

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
TDM: Final = "/.well-known/tdmrep.json"
PROHIBITED: Final = (
    '<rsl xmlns="https://rslstandard.org/rsl"><content url="/"><license>'
    '<prohibits type="usage">ai-train</prohibits></license></content></rsl>'
)


@pytest.fixture
async def fetcher() -> AsyncIterator[PoliteFetcher]:
    async with Fetcher(EgressPolicy("local"), user_agent="ExampleBot/1.0") as opened:
        yield PoliteFetcher(opened, HostThrottle())


def job_rights(fetcher: PoliteFetcher, snapshots: Mapping[str, bytes] | None = None) -> JobRights:
    robots = JobRobots(RobotsCache(fetcher), "ExampleBot", snapshots or {})
    return JobRights(fetcher, robots, "ExampleBot", snapshots or {})


def rules(rights: PageRights) -> dict[str, str]:
    """Return the rule that refuses each purpose."""
    found = {purpose: rights.refusal(purpose) for purpose in rights.verdicts}
    return {purpose: rule for purpose, rule in found.items() if rule is not None}


async def test_robots_licence_and_tdm_file_are_known_before_a_page_is_requested(
    fetcher: PoliteFetcher, site: Site
) -> None:
    site.robots(f"License: {site.at('/l.xml')}\nUser-agent: *\nContent-Signal: search=no\n")
    site.page("/l.xml", PROHIBITED)
    site.page(TDM, json.dumps([{"location": "/private/", "tdm-reservation": 1}]))
    rights = job_rights(fetcher)
    assert rules(await rights.site_rights(site.at("/page"))) == {
        "search": f"Content-Signal: search=no ({site.at('/robots.txt')}, line 3)",
        "ai-train": f'<prohibits type="usage">ai-train</prohibits> ({site.at("/l.xml")}, line 1)',
    }
    found = rules(await rights.site_rights(site.at("/private/x")))
    assert found["research"] == (f'{{"location":"/private/","tdm-reservation":1}} ({site.at(TDM)})')
    assert sorted(hit.path for hit in site.requests) == [TDM, "/l.xml", "/robots.txt"]


async def test_a_resumed_job_uses_the_files_that_it_saw_first(
    fetcher: PoliteFetcher, site: Site
) -> None:
    site.robots(f"License: {site.at('/l.xml')}\n")
    site.page("/l.xml", PROHIBITED)
    first = job_rights(fetcher)
    expected = await first.site_rights(site.at("/page"))
    snapshots = dict(first.pop_unsaved())
    assert first.pop_unsaved() == ()
    robots = JobRobots(RobotsCache(fetcher), "ExampleBot", {})
    await robots.reply(site.at("/page"))
    snapshots |= dict(robots.pop_unsaved())
    site.page("/l.xml", PROHIBITED.replace("prohibits", "permits"))
    site.forget()
    again = await job_rights(fetcher, snapshots).site_rights(site.at("/page"))
    assert again.verdicts == expected.verdicts
    assert site.requests == ()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("/l.xml", "it is no absolute http or https URL"),
        ("ftp://site.example/l.xml", "it is no absolute http or https URL"),
        ("{site}missing.xml", "it could not be read: HTTP 404"),
        ("{site}page.html", "it is no RSL licence"),
    ],
)
async def test_a_licence_that_cannot_be_read_says_nothing(
    fetcher: PoliteFetcher, site: Site, line: str, problem: str
) -> None:
    value = line.format(site=site.url)
    site.robots(f"License: {value}\n")
    site.page("/page.html", "<p>No licence<br></p>")
    rights = await job_rights(fetcher).site_rights(site.at("/page"))
    [signal] = [each for each in rights.signals if each.name == "rsl"]
    assert signal.problem.startswith(problem)
    assert signal.line == f"License: {value}"
    assert set(rights.verdicts.values()) == {"unknown"}


async def test_licences_beyond_a_limit_for_each_site_refuse_everything(
    fetcher: PoliteFetcher, site: Site
) -> None:
    site.under("/l/", PROHIBITED.replace("prohibits", "permits"))
    rights = job_rights(fetcher)
    for number in range(MAX_LICENSES + 1):
        link = PageDeclaration("link", site.at(f"/l/{number}"), "application/rsl+xml")
        found = await rights.page_rights(site.at("/page"), (), [link], NOW)
        assert found.verdicts["ai-train"] == ("allowed" if number < MAX_LICENSES else "refused")
    assert found.signals[-1].problem == "not read: the crawl had read 50 licences of this site"
    assert len([hit for hit in site.requests if hit.path.startswith("/l/")]) == MAX_LICENSES
    other = site.at("/page", host="localhost")
    found = await rights.page_rights(other, (), [link], NOW)
    assert found.verdicts["ai-train"] == "allowed"


async def test_an_unreachable_robots_txt_refuses_every_purpose(
    fetcher: PoliteFetcher, site: Site
) -> None:
    site.robots("", status=403)
    allowed = await job_rights(fetcher).site_rights(site.at("/page"))
    assert (allowed.robots_allowed, rules(allowed)) == (True, {})
    with Site() as closed:
        url = closed.at("/page")
    refused = await job_rights(fetcher).site_rights(url)
    assert not refused.robots_allowed
    assert set(refused.verdicts.values()) == {"refused"}
