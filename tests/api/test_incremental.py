"""Crawls with `since`: refusals, and frames that are those of a full crawl."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from starlette.responses import JSONResponse, Response

from tests.api.receipts import SITE, receipt_of
from tests.local_service import stop
from tests.site.server import Site
from tests.site.versions import VersionedSite, text_page, varied_site
from tests.wire_service import WireService
from webdata_nb import connect, crawl_df, settings
from webdata_nb.contract import paths
from webdata_nb.errors import InvalidArgument, InvalidRequest, NotSupported, OfflineError
from webdata_nb.toolkit.api import Session

JOB = "5f0f1f8a-2a4f-4d0e-9a55-3f1f5f6f7a01"
# In UTC, it is in the year 0.
BEFORE_ALL_TIMES = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
TIMES = ["time_taken", "fetched_at", "metadata"]


def frame_of(receipt: dict[str, Any] | None) -> pd.DataFrame:
    frame = pd.DataFrame({"url": ["x"]})
    if receipt is not None:
        frame.attrs["webdata"] = receipt
    return frame


def since_with(*, recheck: object) -> dict[str, Any]:
    return {"since": {"base": "last", "recheck": recheck}}


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"since": "some day"}, 'since must be "last", a frame of crawl_df, the id of a crawl'),
        ({"since": 7}, 'or a time, such as "yesterday"; it is 7'),
        ({"since": pd.NaT}, r"""or a time, .*; it is 'NaT'"""),
        ({"since": BEFORE_ALL_TIMES}, r"or a time, .*; it is '0001-01-01T00:00:00\+01:00'"),
        ({"since": BEFORE_ALL_TIMES.isoformat()}, "or a time, .*; it is '0001-01-01T"),
        ({"since": frame_of(None)}, "this frame has no receipt"),
        ({"since": frame_of({"kind": "search", "job_id": JOB})}, "a receipt of the kind 'search'"),
        ({"since": frame_of({"kind": "crawl", "job_id": None})}, "without the id of its job"),
        ({"since": frame_of({"kind": "crawl", "runs": []})}, "the receipt of several crawls"),
        (since_with(recheck=2), "recheck must be a share from 0 to 1; it is 2"),
        (since_with(recheck=True), "recheck must be a share"),
        (since_with(recheck="0.1"), "recheck must be a share"),
        ({"since": {"recheck": 0.1}}, 'since must have the entry base: "last", a frame'),
        (
            {"since": {"base": "last", "check": 1}},
            "since has the entries base, recheck, and 'check'",
        ),
        ({"since": "last", "cache": False}, "finds the earlier crawl in the cache"),
        ({"since": "last", "lazy": True}, "since and lazy cannot be combined"),
        ({"since": "last", "executor": "dask"}, "since and a Dask executor cannot be combined"),
        (
            {"since": "last", "scrape_options": {"wait_for": 100}},
            "since and a browser cannot be combined",
        ),
        ({"since": JOB, "formats": ["screenshot"]}, "since and a browser cannot be combined"),
        ({"since": JOB, "rights": True}, "since and rights cannot be combined"),
        ({"since": JOB, "rights": "search"}, "since and a purpose cannot be combined"),
        ({"since": "last", "max_pages": 2000}, "with a folder or URL for the rows as out"),
        ({"since": "last", "max_pages": 0}, "max_pages must be"),
        ({"since": "last", "offline": True}, "offline mode is on, and since asks"),
        ({"since": JOB, "offline": True}, "offline mode is on, and since asks"),
    ],
)
def test_bad_input_is_refused_before_any_work(
    service: WireService, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises((InvalidArgument, OfflineError), match=message):
        crawl_df(SITE, **arguments)
    assert service.jobs == {}


@pytest.mark.usefixtures("connected")
def test_one_earlier_crawl_for_several_sites_is_refused(service: WireService) -> None:
    with pytest.raises(InvalidArgument, match="with a list of URLs"):
        crawl_df([SITE, SITE], since=JOB)
    assert service.jobs == {}


@pytest.mark.parametrize("since", ["last", JOB, datetime.now(UTC), "2026-11-01"])
def test_a_service_without_incremental_crawls_refuses_before_it_starts(
    service: WireService, connected: Session, since: Any
) -> None:
    with pytest.raises(NotSupported, match=r"/v1/crawls, which since needs; nothing was started"):
        connected.crawl_df(SITE, since=since)
    assert service.jobs == {}
    assert service.posted(paths.CRAWL) == []


def refuse_since(service: WireService, problem_type: str, *, field: str = "base.job_id") -> None:
    """Let the service refuse the earlier crawl, or what `field` names."""
    problem = {
        "loc": ["body", *field.split(".")],
        "msg": "that is not possible",
        "type": problem_type,
    }

    def fault(path: str, _query: dict[str, str]) -> Response | None:
        bodies = service.posted(paths.EXTENDED_CRAWLS)
        is_refused = path == paths.EXTENDED_CRAWLS and "base" in bodies[-1]
        return JSONResponse({"detail": [problem]}, 422) if is_refused else None

    service.offers_extended_crawls, service.fault = True, fault


@pytest.mark.parametrize("since", ["last", datetime(2126, 1, 1, tzinfo=UTC)])
def test_an_unusable_earlier_crawl_is_replaced_by_a_full_one(
    service: WireService, connected: Session, since: Any
) -> None:
    first = receipt_of(connected.crawl_df(SITE))
    refuse_since(service, "earlier_crawl_unusable")
    again = receipt_of(connected.crawl_df(SITE, since=since))
    bases = [body.get("base") for body in service.posted(paths.EXTENDED_CRAWLS)]
    assert bases == [{"job_id": first["job_id"]}, None]
    assert again["revalidation"]["since"] is None
    assert again["revalidation"]["refusal"] == "that is not possible"
    text = "all pages new, as the earlier crawl cannot be used: that is not possible"
    assert text in again["line"]


@pytest.mark.parametrize("kind", ["text", "offset", "local", "pandas", "pandas with zone"])
def test_a_time_finds_the_last_crawl_that_was_not_after_it(
    service: WireService, connected: Session, kind: str
) -> None:
    first = receipt_of(connected.crawl_df(SITE))
    at = datetime.now(UTC)
    connected.crawl_df(SITE, refresh=True)
    times: dict[str, Any] = {
        "text": at.isoformat(),
        "offset": at.astimezone(timezone(timedelta(hours=-9))),
        "local": at.astimezone().replace(tzinfo=None),
        "pandas": pd.Timestamp(at.astimezone().replace(tzinfo=None)),
        "pandas with zone": pd.Timestamp(at).tz_convert("Asia/Tokyo"),
    }
    service.offers_extended_crawls = True
    connected.crawl_df(SITE, since=times[kind])
    [body] = service.posted(paths.EXTENDED_CRAWLS)
    assert body["base"] == {"job_id": first["job_id"]}


@pytest.mark.parametrize(
    ("problem_type", "field"),
    [
        *(("value_error", "base.job_id"), ("", "base.job_id")),
        ("earlier_crawl_unusable", "url"),
    ],
)
def test_any_other_refusal_of_since_is_an_error(
    service: WireService, connected: Session, problem_type: str, field: str
) -> None:
    connected.crawl_df(SITE)
    refuse_since(service, problem_type, field=field)
    with pytest.raises(InvalidRequest, match="that is not possible"):
        connected.crawl_df(SITE, since="last")
    assert len(service.posted(paths.EXTENDED_CRAWLS)) == 1


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"
    stop(settings.current())


@pytest.fixture
def versions() -> Iterator[VersionedSite]:
    with Site() as site:
        yield varied_site(site)


def assert_equal(incremental: pd.DataFrame, full: pd.DataFrame) -> None:
    assert incremental.columns.tolist() == full.columns.tolist()
    pd.testing.assert_frame_equal(incremental.drop(columns=TIMES), full.drop(columns=TIMES))
    metadata = [
        [{**each, "fetched_at": None} for each in frame["metadata"]]
        for frame in (incremental, full)
    ]
    assert metadata[0] == metadata[1]


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_frames_are_those_of_a_full_crawl(versions: VersionedSite) -> None:
    url = versions.site.url
    with connect():
        first = crawl_df(url, since={"base": "last", "recheck": 0})
        assert receipt_of(first)["revalidation"]["since"] is None
        assert "no earlier crawl: all pages new" in receipt_of(first)["line"]
        same = crawl_df(url, since={"base": "last", "recheck": 0})
        attrs = receipt_of(same)
        assert attrs["revalidation"] == {
            "since": receipt_of(first)["job_id"],
            "trusted": 33,
            "checked": 0,
            "contradicted": 0,
            "bound": None,
        }
        assert "33 unchanged since the earlier crawl, none of them checked" in attrs["line"]
        assert_equal(same, first)
        assert crawl_df(url)["fetched_at"].equals(same["fetched_at"])  # from the cache

        before = datetime.now(UTC)
        versions.change("/p3", text_page(3, "/p7", "/new", words="other"))
        versions.add("/new", text_page(77, "/"))
        versions.site.page("/p8", status=404)
        changed = crawl_df(url, since={"base": first, "recheck": 1})
        checked = receipt_of(changed)["revalidation"]
        assert (checked["trusted"], checked["contradicted"]) == (0, 0)
        assert checked["bound"] == pytest.approx(1 - 0.05 ** (1 / checked["checked"]))
        assert_equal(changed, crawl_df(url, cache=False))

        job_id = receipt_of(changed)["job_id"]
        for since in (job_id, before, before.isoformat(), "last"):
            again = crawl_df(url, since={"base": since, "recheck": 0})
            assert receipt_of(again)["revalidation"]["trusted"] > 20
            assert_equal(again, changed)
        by_time = crawl_df(url, since=before - timedelta(hours=1))
        assert receipt_of(by_time)["revalidation"]["since"] is None
        with pytest.raises(InvalidRequest, match="its formats differ"):
            crawl_df(url, since=first, formats=["html"])
        several = crawl_df([url, f"{url}p1"], since={"base": "last", "recheck": 0})
        assert several["start_url"].nunique() == 2


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_wrong_claims_are_a_warning(versions: VersionedSite) -> None:
    url = versions.site.url
    with connect():
        crawl_df(url)
        versions.change("/p3", text_page(3, "/p7", "/p8", words="other"), honest=False)
        trusting = crawl_df(url, since={"base": "last", "recheck": 0})
        assert trusting["title"].eq("Other page 3").sum() == 0
        with pytest.warns(UserWarning, match=r"1 of \d+ pages that were checked had changed"):
            checking = crawl_df(url, since={"base": "last", "recheck": 1})
        assert receipt_of(checking)["revalidation"]["contradicted"] == 1
        assert checking["title"].eq("Other page 3").sum() == 1


@pytest.mark.slow
def test_a_lost_crawl_is_replaced_by_a_full_one(versions: VersionedSite, home: Path) -> None:
    url = versions.site.url
    with connect():
        first = crawl_df(url, since="last")
    stop(settings.current())
    for path in home.rglob("jobs.sqlite*"):
        path.unlink()
    with connect():
        with pytest.raises(InvalidRequest, match="no such crawl"):
            crawl_df(url, since=first)
        again = crawl_df(url, since="last")
        assert receipt_of(again)["revalidation"]["since"] is None
        assert "cannot be used: the account has no such crawl" in receipt_of(again)["line"]
        assert_equal(again, first)
