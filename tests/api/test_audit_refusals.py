"""What an audit refuses before anything is sent, and with services that offer none."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.api.receipts import SITE
from tests.wire_service import WireService
from webdata_nb import audit_df, crawl_df, crawl_job, links_df
from webdata_nb.contract import paths
from webdata_nb.errors import InvalidArgument, NotSupported, OfflineError, WebdataError
from webdata_nb.toolkit.api import Session
from webdata_nb.toolkit.sites.audit import SEVERITIES, issue_kinds


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stream": True}, "audit and stream cannot be combined"),
        ({"lazy": True}, "audit and lazy cannot be combined"),
        ({"max_pages": 100_001}, "max_pages must be"),
        ({"audit": "yes"}, "audit must be True or False"),
        ({"audit": 1}, "audit must be True or False"),
    ],
)
def test_bad_input_is_refused_before_any_work(
    service: WireService, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        crawl_df(SITE, **{"audit": True, **options})
    assert service.jobs == {}


@pytest.mark.parametrize("start", [crawl_df, crawl_job])
def test_a_service_without_audits_refuses_before_it_starts(
    service: WireService, connected: Session, start: Any
) -> None:
    _ = connected
    with pytest.raises(NotSupported, match=r"/v1/crawls, which audit needs; nothing was started"):
        start(SITE, audit=True)
    assert service.jobs == {}
    assert service.posted(paths.CRAWL) == []


@pytest.mark.parametrize("start", [crawl_df, crawl_job])
def test_a_service_without_link_checks_refuses_before_it_starts(
    service: WireService, connected: Session, start: Any
) -> None:
    _ = connected
    with pytest.raises(NotSupported, match=r"does not offer check_links .*; nothing was started"):
        start(SITE, check_links=True)
    assert service.jobs == {}
    assert service.posted(paths.CRAWL) == []


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"check_links": "yes"}, "check_links must be True or False"),
        ({"out": "pages.warc.gz"}, "a WARC file as out and check_links cannot be combined"),
    ],
)
def test_link_checks_are_refused_before_any_work(
    service: WireService, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        crawl_df(**{"url": SITE, "check_links": True, **options})
    assert service.jobs == {}


@pytest.mark.usefixtures("service")
def test_links_from_a_service_without_facts(connected: Session) -> None:
    pages = connected.crawl_df(SITE)
    with pytest.raises(WebdataError) as caught:
        links_df(pages)
    assert 'formats=["links"]' in caught.value.__notes__[0]
    with pytest.raises(InvalidArgument, match=r'no column links: pass formats=\["links"\]'):
        links_df(pd.DataFrame(pages))
    with pytest.raises(InvalidArgument, match="df must be a pandas DataFrame"):
        links_df(7)  # type: ignore[arg-type]


def test_frames_without_facts_are_refused() -> None:
    for frame in (pd.DataFrame({"url": [SITE], "success": [True]}), pd.DataFrame()):
        with pytest.raises(InvalidArgument, match="audit needs a frame of crawl_df with audit"):
            audit_df(frame)
    with pytest.raises(InvalidArgument, match="df must be a pandas DataFrame"):
        audit_df(None)  # type: ignore[arg-type]


def test_links_offline(monkeypatch: pytest.MonkeyPatch, connected: Session) -> None:
    pages = connected.crawl_df(SITE)
    monkeypatch.setenv("WEBDATA_OFFLINE", "1")
    with pytest.raises(OfflineError, match="the links of this crawl are at the service"):
        links_df(pages)


def test_kinds_are_unique_and_complete() -> None:
    kinds = issue_kinds().values()
    order = [SEVERITIES.index(kind.severity) for kind in kinds]
    assert order == sorted(order)
    assert all(kind.meaning and kind.source for kind in kinds)
