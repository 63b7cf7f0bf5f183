"""The option `rights` in the toolkit, and the frame of what pages declare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.api.receipts import SITE
from tests.wire_service import WireService
from webdata_nb import crawl_df, crawl_job, rights_df, scrape_df
from webdata_nb.errors import InvalidArgument, NotSupported
from webdata_nb.toolkit.frames import frame, rows
from webdata_nb.toolkit.requests.inputs import JobSpec

SIGNALS: list[dict[str, Any]] = [
    {
        "signal": "content-signal",
        "source": "http://a.test/robots.txt",
        "line": "Content-Signal: search=yes, ai-train=no",
        "line_number": 3,
        "read_at": "2026-01-01T00:00:00+00:00",
        "says": {"search": "allowed", "ai-train": "refused"},
        "problem": None,
    },
    {"signal": "rsl", "source": "http://a.test/", "says": {}, "problem": "it is no RSL licence"},
]
REFUSAL = r"the service at .* does not offer purpose \(POST /v1/crawl\); nothing was started"


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    "call",
    [
        lambda: crawl_df(SITE, rights="ai-train"),
        lambda: crawl_job(SITE, rights="ai-train"),
        lambda: list(crawl_df(SITE, rights="ai-train", stream=True)),
        lambda: scrape_df([SITE, f"{SITE}b"], rights="ai-train", on_error="raise"),
    ],
    ids=["crawl_df", "crawl_job", "stream", "scrape_df"],
)
def test_a_service_that_does_not_offer_it_is_not_asked_to_crawl(
    service: WireService, call: Any
) -> None:
    with pytest.raises(NotSupported, match=REFUSAL):
        call()
    assert service.jobs == {}


@pytest.mark.usefixtures("connected")
def test_calls_without_these_options_are_as_before(service: WireService) -> None:
    df = crawl_df(SITE, max_pages=5)
    assert "rights" not in df.columns
    assert {"rights", "purpose"}.isdisjoint(next(iter(service.jobs.values())).body)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"rights": "training"},
            "rights must be one of True, False, 'search', 'ai-input', 'ai-train'",
        ),
        ({"rights": 1}, "rights must be one of True, False, 'search'"),
        (
            {"rights": "search", "respect_robots_txt": False},
            "a purpose and respect_robots_txt=False cannot be combined",
        ),
        ({"rights": "search", "since": "last"}, "since and a purpose cannot be combined"),
    ],
)
def test_wrong_options_are_refused_in_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        crawl_df(SITE, **options)


def test_the_column_depends_on_the_request_alone() -> None:
    assert "rights" not in JobSpec.crawl(SITE).columns
    for options in ({"rights": True}, {"purpose": "research"}):
        columns = JobSpec.crawl(SITE, **options).columns
        assert "rights" in columns
        no_rows: list[dict[str, Any]] = []
        empty = frame.build(rows.to_table("crawl", no_rows), columns=columns)
        assert str(empty["rights"].dtype) == "object"
    assert "rights" not in JobSpec.search("q").columns


@pytest.mark.parametrize("backend", ["pandas", "pyarrow"])
def test_rights_df_has_a_typed_row_for_each_declaration(backend: Any) -> None:
    pages: list[dict[str, Any]] = [
        {"url": "http://a.test/", "rights": {"verdicts": {}, "signals": SIGNALS}},
        {"url": "http://a.test/failed", "rights": None},
    ]
    columns = JobSpec.crawl(SITE, rights=True).columns
    df = frame.build(
        rows.to_table("crawl", pages),
        columns=columns,
        attrs={"kind": "crawl", "line": "2 pages"},
        dtype_backend=backend,
    )
    found = rights_df(df)
    assert found["url"].tolist() == ["http://a.test/"] * 2
    assert found["signal"].tolist() == ["content-signal", "rsl"]
    assert found["line_number"].tolist()[0] == 3
    assert found["read_at"].iloc[0] == pd.Timestamp("2026-01-01", tz="UTC")
    assert found["ai-train"].iloc[0] == "refused"
    assert found["search"].iloc[0] == "allowed"
    assert pd.isna(found["research"].iloc[0])
    assert found["problem"].iloc[1] == "it is no RSL licence"
    assert found.equals(df.webdata.rights())
    assert rights_df(df.iloc[1:]).dtypes.equals(found.dtypes)


@pytest.mark.parametrize(
    "value", [None, "{}", "[]", {}, {"signals": 5}, {"signals": [5, {"says": 5, "read_at": "x"}]}]
)
def test_rights_df_reads_what_other_services_send(value: Any) -> None:
    rights_df(pd.DataFrame({"url": ["http://a.test/"], "rights": [value]}))


def test_rights_df_reads_a_frame_that_pandas_wrote_to_parquet(tmp_path: Path) -> None:
    pages = pd.DataFrame({"url": ["http://a.test/"], "rights": [{"signals": SIGNALS}]})
    pages.to_parquet(tmp_path / "pages.parquet")
    found = rights_df(pd.read_parquet(tmp_path / "pages.parquet"))
    assert found["signal"].tolist() == ["content-signal", "rsl"]
    assert found["ai-train"].iloc[0] == "refused"
    pages.to_csv(tmp_path / "pages.csv")
    with pytest.raises(InvalidArgument, match="column rights must have objects or JSON text"):
        rights_df(pd.read_csv(tmp_path / "pages.csv"))


def test_rights_df_needs_the_column() -> None:
    with pytest.raises(InvalidArgument, match="df has no column rights: pass rights=True"):
        rights_df(pd.DataFrame({"url": ["http://a.test/"]}))
