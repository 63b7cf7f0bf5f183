"""Downloads of a job's results over HTTP."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import zipfile

import pytest

from tests.service.conftest import Api
from tests.service.exports.jobs import job_of
from tests.service.routes.test_search import magazine
from tests.site.server import Site
from webdata_nb.service.errors import ResultsExpired
from webdata_nb.service.exports import StoredRows
from webdata_nb.service.store.records import JobRecord

FORMATS = ("json", "csv", "zip")
TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8; header=present",
    "zip": "application/zip",
}


async def test_a_crawl_is_downloaded_with_its_type_and_name(api: Api, site: Site) -> None:
    magazine(site)
    status = await api.run_job("crawl", url=site.url)
    job_id = status["job_id"]
    place = site.url.partition("://")[2].strip("/").replace(".", "-").replace(":", "-")
    for name in FORMATS:
        answer = await api.http.get(f"/v1/crawl/{job_id}/export", params={"format": name})
        assert answer.status_code == 200
        assert answer.headers["content-type"] == TYPES[name]
        assert answer.headers["content-disposition"] == (
            f'attachment; filename="crawl-{place}-{job_id[:8]}.{name}"'
        )
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert (name != "json") or answer.json() == status["data"]
        assert (name != "csv") or len(answer.text.split("\r\n")[0].split(",")) == 13
        if name == "zip":
            assert zipfile.ZipFile(io.BytesIO(answer.content)).testzip() is None


async def test_a_search_export_has_the_query_and_the_rows(api: Api, site: Site) -> None:
    magazine(site)
    await api.run_job("crawl", url=site.url)
    status = await api.run_job("search", query="northern lights")
    export = await api.get(f"/v1/search/{status['job_id']}/export", params={"format": "json"})
    assert export == {"query": "northern lights", "results": status["data"]}
    assert len(export["results"]) == 2


async def test_a_running_job_exports_what_is_published_so_far(api: Api, site: Site) -> None:
    magazine(site)
    site.page("/tides", "slow", delay=60.0)
    job_id = await api.start_job("crawl", {"url": site.url, "max_pages": 4})
    while (await api.get(f"/v1/crawl/{job_id}"))["total_results"] < 3:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    export = await api.get(f"/v1/crawl/{job_id}/export", params={"format": "json"})
    assert [row["url"] for row in export] == [site.at(p) for p in ("/", "/aurora", "/rain")]
    assert [row["partial_export"] for row in export] == [True] * 3
    table = await api.http.get(f"/v1/crawl/{job_id}/export", params={"format": "csv"})
    records = list(csv.DictReader(io.StringIO(table.text)))
    assert [record["partial_export"] for record in records] == ["true"] * 3
    packed = await api.http.get(f"/v1/crawl/{job_id}/export", params={"format": "zip"})
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        index = json.loads(archive.read("index.json"))
        assert (index["partial"], index["status"]) == (True, "running")
        assert b"(partial)" in archive.read("index.html")
    await api.post(f"/v1/jobs/{job_id}/cancel")
    first_export = await api.get(f"/v1/crawl/{job_id}/export", params={"format": "json"})
    assert first_export == export


async def test_without_results_there_is_nothing_to_export(api: Api) -> None:
    status = await api.run_job("search", query="nothing at all")
    for name in FORMATS:
        path = f"/v1/search/{status['job_id']}/export"
        answer = await api.get(path, 404, params={"format": name})
        assert answer["detail"] == "the job is completed and has no results to export"


async def test_an_unknown_format_is_refused_by_name(api: Api, site: Site) -> None:
    magazine(site)
    job_id = (await api.run_job("crawl", url=site.url))["job_id"]
    for query in ({}, {"format": "xml"}, {"format": "JSON"}, {"format": ""}):
        [problem] = (await api.get(f"/v1/crawl/{job_id}/export", 422, params=query))["detail"]
        assert problem["loc"] == ["query", "format"]
        wanted = "must be one of json, csv, zip" if query else "is required"
        assert problem["msg"] == wanted


async def test_export_of_job_of_other_kind_is_unknown(api: Api, site: Site) -> None:
    magazine(site)
    job_id = (await api.run_job("crawl", url=site.url))["job_id"]
    other = await api.http.get(f"/v1/search/{job_id}/export?format=json")
    none = await api.http.get("/v1/search/nowhere/export?format=json")
    assert (other.status_code, other.content) == (none.status_code, none.content)
    assert json.loads(none.content) == {"detail": "no such job"}


class VanishingRows:
    """A store whose rows vanish while they are read."""

    async def rows(self, *_: str, start: int, count: int) -> list[bytes]:
        return [b"{}"] * (count if start == 0 else count - 1)


async def test_export_breaks_off_if_rows_vanish() -> None:
    job: JobRecord = job_of("crawl", published=9)
    rows = StoredRows(VanishingRows(), job)  # type: ignore[arg-type]
    with pytest.raises(ResultsExpired):
        _ = [batch async for batch in rows]
