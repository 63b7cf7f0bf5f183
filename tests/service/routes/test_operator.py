"""The operator's API and page: what they show, to whom, and that nothing in them is markup."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from time import time
from typing import Any, Final

import httpx
import pytest

from tests.openapi.operations import schema_of
from tests.requirements import require_module
from tests.service.conftest import Api, open_service
from tests.service.job_stores import store_of
from tests.service.routes.teams import member
from tests.shell import CHECKOUT
from tests.site.server import Site
from webdata_nb.__main__ import build_parser
from webdata_nb.contract import paths
from webdata_nb.contract.operator_views import GROUPS, VIEWS
from webdata_nb.service.encryption import key_hash
from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.ledger import Terms
from webdata_nb.service.routes import operator_page
from webdata_nb.service.store.sql.operator import OperatorStore

UNKNOWN: Final = "00000000-0000-4000-8000-000000000000"
HOSTILE: Final = "<script>alert(1)</script>"
OPERATOR: Final = {"Authorization": "Bearer wdk_operator"}
PAGES: Final = (
    paths.OPERATOR_PAGE,
    *(paths.fill(paths.OPERATOR_PAGE_VIEW, view=name) for name in VIEWS),
)
READS: Final = (
    *PAGES,
    paths.OPERATOR_EVENTS,
    paths.OPERATOR_STYLE,
    paths.OPERATOR_SCRIPT,
    paths.fill(paths.OPERATOR_PAGE_JOB, job_id=UNKNOWN),
    *(paths.fill(paths.OPERATOR_VIEW, view=name) for name in VIEWS),
    paths.fill(paths.OPERATOR_JOB, job_id=UNKNOWN),
)


def basic(key: str, user: str = "me") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{key}".encode()).decode()}


@dataclass(frozen=True, slots=True)
class Team:
    """A service with two accounts, an operator, a failed and a pending job of theirs."""

    api: Api
    failed: str
    pending: str

    @property
    def http(self) -> httpx.AsyncClient:
        return self.api.http

    async def page(self, path: str, status: int = 200, **query: str) -> str:
        answer = await self.http.get(path, params=query, headers=basic("wdk_operator"))
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        return answer.text

    async def view(self, name: str, status: int = 200, **query: str) -> Any:
        path = paths.fill(paths.OPERATOR_VIEW, view=name)
        return await self.api.get(path, status, params=query, headers=OPERATOR)


@pytest.fixture
async def team(tmp_path: Path, site: Site) -> AsyncIterator[Team]:
    site.page("/", "<title>Front</title>")
    alice = await member(tmp_path, "alice")
    bob = await member(tmp_path, "bob")
    async with store_of(tmp_path) as store:
        await store.accounts.add("c", HOSTILE, Terms("team", None, 5), now=time())
        await store.accounts.add_key("key_c", "c", "pc", key_hash("wdk_c"), now=time())
        await store.accounts.add_key(
            *("key_op", "alice", "op", key_hash("wdk_operator")), now=time(), scopes=("admin",)
        )
        await store.accounts.count_usage(
            {("bob", "key_bob", "refused", "ConcurrencyReached", "429"): 12}, now=time()
        )
    async with open_service(tmp_path, "team", slots=1, allow_networks=("127.0.0.0/8",)) as api:
        del api.http.headers["Authorization"]
        query = {"query": f"{HOSTILE} & more", "formats": []}
        await api.wait_for_end(
            "search", await api.start_job("search", query, headers=bob), headers=bob
        )
        failed = await api.start_job("crawl", {"url": "https://x.invalid/"}, headers=alice)
        await api.wait_for_end("crawl", failed, headers=alice)
        with site.hold("/"):
            for headers in (bob, {"Authorization": "Bearer wdk_c"}):
                pending = await api.start_job("crawl", {"url": site.url}, headers=headers)
            yield Team(api, failed, pending)


@pytest.mark.both_stores
async def test_a_view_has_the_rows_of_the_store_with_its_columns(team: Team) -> None:
    validator = require_module("jsonschema").Draft202012Validator(schema_of("OperatorAnswer"))
    for name, view in VIEWS.items():
        reply = await team.view(name)
        validator.validate(reply)
        assert (reply["view"], reply["question"]) == (name, view.question)
        columns = {column["name"] for column in reply["columns"]}
        assert all(row.keys() == columns for row in reply["rows"]), name
    rows = (await team.view("jobs", account="alice"))["rows"]
    assert [(row["job"], row["account"], row["state"]) for row in rows] == [
        (team.failed, "alice", "failed")
    ]
    assert (await team.view("refusals"))["rows"][0]["requests"] == 12


async def test_wrong_filters_are_422_and_say_what_is_allowed(team: Team) -> None:
    for query, sentence in (
        ({"state": "dead"}, "state takes one of pending, running"),
        ({"since": "soon"}, "since takes a period"),
        ({"by": "day"}, "jobs has no filter 'by'; allowed: account, state"),
        ({"limit": "0"}, "limit takes a whole number from 1"),
        ({"account": "nobody"}, "no account 'nobody'"),
        ({"account": "\0"}, "must not contain NUL"),
        ({"state": ""}, "state takes one of"),
    ):
        reply = await team.view("jobs", 422, **query)
        assert sentence in reply["detail"][0]["msg"], query
    reply = await team.view("usage", 422, colour="red")
    assert "allowed: account, by, kind, limit, since, state" in reply["detail"][0]["msg"]
    reply = await team.view("unknown", 404)
    assert reply["detail"].startswith("no such view; there are jobs, failures")


@pytest.mark.both_stores
async def test_the_operator_reads_and_cancels_jobs_of_any_account(team: Team) -> None:
    path = paths.fill(paths.OPERATOR_JOB, job_id=team.pending)
    reply = await team.api.get(path, headers=OPERATOR)
    require_module("jsonschema").Draft202012Validator(schema_of("OperatorJob")).validate(reply)
    assert (reply["account"], reply["key"], reply["state"]) == (HOSTILE, "key_c", "pending")
    cancelled = await team.api.post(f"{path}/cancel", headers=OPERATOR)
    assert (cancelled["job_id"], cancelled["status"]) == (team.pending, "cancelled")
    assert (await team.api.get(path, headers=OPERATOR))["state"] == "cancelled"
    owner = {"Authorization": "Bearer wdk_c"}
    assert (await team.api.get(f"/v1/crawl/{team.pending}", headers=owner))["status"] == "cancelled"
    failed = paths.fill(paths.OPERATOR_JOB_CANCEL, job_id=team.failed)
    assert "the job is" in (await team.api.post(failed, None, 400, headers=OPERATOR))["detail"]
    unknown = paths.fill(paths.OPERATOR_JOB_CANCEL, job_id=UNKNOWN)
    assert (await team.api.post(unknown, None, 404, headers=OPERATOR))["detail"] == "no such job"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_keys_without_the_scope_admin_are_refused_everywhere(team: Team, method: str) -> None:
    cancel = ("POST", paths.fill(paths.OPERATOR_JOB_CANCEL, job_id=team.pending))
    for verb, path in [*((method, path) for path in READS), cancel]:
        for headers in ({"Authorization": "Bearer wdk_bob"}, basic("wdk_bob")):
            is_page = path.startswith(paths.OPERATOR_PAGE)
            if not is_page and "Basic" in headers["Authorization"]:
                continue
            answer = await team.http.request(verb, path, headers=headers)
            assert answer.status_code == 403, path
            if method == "GET":
                assert "scope admin" in answer.text
                assert not any(secret in answer.text for secret in (team.failed, team.pending))
        for wrong in ({}, basic(""), basic("wdk_nobody"), {"Authorization": "Bearer x"}):
            answer = await team.http.request(verb, path, headers=wrong)
            assert answer.status_code == 401, path
            scheme = "Basic" if path.startswith(paths.OPERATOR_PAGE) else "Bearer"
            assert answer.headers["www-authenticate"].startswith(scheme)


async def test_a_password_opens_the_page_only(team: Team) -> None:
    for path in (paths.OPERATOR_PAGE, paths.OPERATOR_STYLE, paths.OPERATOR_SCRIPT):
        answer = await team.http.get(path, headers=basic("wdk_operator", "anyone"))
        assert answer.status_code == 200
        assert "set-cookie" not in answer.headers
    for method, path in (
        ("GET", paths.fill(paths.OPERATOR_VIEW, view="jobs")),
        ("POST", paths.fill(paths.OPERATOR_JOB_CANCEL, job_id=team.pending)),
        ("GET", paths.JOBS),
        ("GET", "/operatorx"),
    ):
        answer = await team.http.request(method, path, headers=basic("wdk_operator"))
        assert answer.status_code == 401, path


class Elements(HTMLParser):
    """Collects the elements of a page, and the text of its main part."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def check_page(text: str) -> Elements:
    """Check that a page has no markup but that of the service."""
    page = Elements(text)
    scripts = [attributes for tag, attributes in page.found if tag == "script"]
    assert scripts in ([], [{"src": paths.OPERATOR_SCRIPT, "defer": None}])
    for tag, attributes in page.found:
        assert not any(name.startswith("on") or name == "style" for name in attributes), tag
        for name in ("href", "src", "action"):
            link = attributes.get(name) or "/"
            assert link.startswith(("/operator", "#", "data:image/", "/")), link
    return page


@pytest.mark.both_stores
async def test_what_users_wrote_is_text(team: Team) -> None:
    pages = [await team.page(path) for path in PAGES]
    pages += [await team.page(f"/operator/jobs/{each}") for each in (team.failed, team.pending)]
    for path in PAGES[1:]:
        has_accounts = "account" in VIEWS[path.rpartition("/")[2]].filters
        pages.append(await team.page(path, 200 if has_accounts else 422, account=HOSTILE))
        pages.append(await team.page(path, 422, since=f'"{HOSTILE}'))
        pages.append(await team.page(path, 422, account=f'" onfocus="alert(1)" {HOSTILE}'))
    shown = [check_page(page).text for page in pages]
    assert sum(HOSTILE in text for text in shown) > len(VIEWS)
    assert any(f"{HOSTILE} & more" in text for text in shown)


async def test_pages_forbid_what_they_do_not_need(team: Team) -> None:
    job = paths.fill(paths.OPERATOR_PAGE_JOB, job_id=team.failed)
    missing = paths.fill(paths.OPERATOR_PAGE_JOB, job_id=UNKNOWN)
    for path in (*PAGES, job, missing, paths.OPERATOR_SCRIPT, paths.OPERATOR_STYLE):
        for method in ("GET", "HEAD"):
            answer = await team.http.request(method, path, headers=basic("wdk_operator"))
            policy = dict(
                each.strip().split(" ", 1)
                for each in answer.headers["content-security-policy"].split(";")
            )
            assert policy["default-src"] == "'none'"
            assert policy["script-src"] == policy["style-src"] == "'self'"
            assert policy["frame-ancestors"] == "'none'"
            assert "unsafe" not in str(policy)
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"


async def test_a_page_names_the_command_and_the_command_exists(team: Team) -> None:
    for name in VIEWS:
        text = check_page(await team.page(f"/operator/{name}")).text
        [command] = re.findall(r"in a terminal: (webdata [a-z ]+)", text)
        build_parser().parse_args(command.split()[1:])
    text = check_page(
        await team.page(
            "/operator/jobs", account="alice", state="failed", since="7d", limit="10", kind=""
        )
    ).text
    assert "webdata store jobs --account alice --state failed --since 7d --limit 10" in text


async def test_pages_without_rows_say_so(tmp_path: Path) -> None:
    async with store_of(tmp_path) as store:
        await store.accounts.add("a", "alice", Terms("team", None, 5), now=time())
        await store.accounts.add_key(
            *("key_op", "a", "op", key_hash("wdk_operator")), now=time(), scopes=("admin",)
        )
    async with open_service(tmp_path, "team") as api:
        team = Team(api, "", "")
        for name, sentence in (
            ("jobs", "No jobs in the last 30 days."),
            ("failures", "No failed jobs in the last 7 days."),
            ("outcomes", "No URLs in the last 7 days."),
            ("providers", "No search providers in the last day."),
        ):
            text = check_page(await team.page(f"/operator/{name}")).text
            assert sentence in text
            assert "<table" not in text
        text = check_page(
            await team.page("/operator/jobs", state="failed", since="2026-01-31")
        ).text
        assert "No jobs with these filters since 2026-01-31." in text
        assert (
            "No failed jobs in the last 24 hours." in check_page(await team.page("/operator")).text
        )


async def test_errors_are_pages(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    text = check_page(await team.page("/operator/unknown", 404)).text
    assert "no such view" in text
    assert "no such job" in check_page(await team.page(f"/operator/jobs/{UNKNOWN}", 404)).text
    text = await team.page("/operator/jobs", 422, account="nobody", since="9d")
    assert "no account 'nobody'" in check_page(text).text
    assert 'value="nobody"' in text
    assert 'value="9d"' in text

    async def fail(*_: object) -> None:
        raise StoreUnavailable("the database does not answer")

    monkeypatch.setattr(OperatorStore, "job", fail)
    answer = await team.http.get(f"/operator/jobs/{team.failed}", headers=basic("wdk_operator"))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "the database does not answer" in check_page(answer.text).text


async def test_requests_of_the_same_seconds_share_one_answer(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    answer = OperatorStore.answer

    async def count(self: OperatorStore, name: str, query: Any) -> Any:
        asked.append(name)
        await asyncio.sleep(0.05)
        return await answer(self, name, query)

    monkeypatch.setattr(OperatorStore, "answer", count)
    await asyncio.gather(*(team.page("/operator/sites") for _ in range(20)))
    assert asked == ["sites"]
    await team.page("/operator/sites", limit="1000")
    await team.page("/operator/size")
    first = await team.view("size")
    assert asked == ["sites", "sites", "size"]
    assert (await team.view("size"))["as_of"] == first["as_of"]
    for _ in range(2):  # an error is not kept
        await team.page("/operator/jobs", 422, account="nobody")
    assert asked.count("jobs") == 2


def test_questions_of_the_guide_have_a_view_and_a_command() -> None:
    guide = (CHECKOUT / "docs" / "guide" / "operations.md").read_text("utf-8")
    questions = re.findall(r"^\| [^|]+\? \| `webdata ([^`]+)` \| ([^|]+) \|$", guide, re.MULTILINE)
    assert len(questions) >= 12
    assert {title for _, title in questions} <= {view.title for view in VIEWS.values()}
    for command, _ in questions:
        build_parser().parse_args(command.split())


def test_groupings_of_the_form_are_those_of_the_view() -> None:
    for grouping in operator_page.GROUPINGS:
        assert set(grouping.split(",")) <= set(GROUPS)
