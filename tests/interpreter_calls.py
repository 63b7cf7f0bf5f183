"""Calls each public function of the package once, on local servers of its own and sample data.

`tests/interpreters.py` runs this script on each declared Python, with an installed wheel and
`-W error`; it needs the package with its extra `plot` and the standard library alone. It fails if a
name of `__all__` was neither called nor returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import webdata_nb
from webdata_nb.demo.server import SampleSite

NOT_CALLED: Final = {
    "__version__": "a text",
    "options": "the settings, which are read and set below",
}
_ADVERTISER: Final = "AR00000000000000000042"
_QUERY: Final = "aurora forecast"
_CAPTURES: Final = [
    ["urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length"],
    ["test,docs)/", "20240520000000", "http://docs.test/", "text/html", "200", "A" * 32, "1415"],
]


class _Toolkit:
    """The package; notes the functions that are called, and the types of what they return."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(webdata_nb, name)

        def call(*args: Any, **options: Any) -> Any:
            self.seen.add(name)
            result = function(*args, **options)
            if inspect.isawaitable(result) and name.startswith("a"):
                return self._awaited(result)
            return self._noted(result)

        return call

    async def _awaited(self, result: Any) -> Any:
        return self._noted(await result)

    def _noted(self, result: Any) -> Any:
        for kind in type(result).__mro__:
            if getattr(webdata_nb, kind.__name__, None) is kind:
                self.seen.add(kind.__name__)
        return result


class _ArchiveIndex(BaseHTTPRequestHandler):
    """The index of a web archive, which has one capture of everything."""

    def do_GET(self) -> None:
        body = json.dumps(_CAPTURES).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's signature
        """Log nothing: standard error has to stay empty."""


@contextlib.contextmanager
def _archive() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _ArchiveIndex) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def _local_service(folder: Path, archive: str) -> Iterator[None]:
    """Let the first call start a service with a home of its own, and stop it at the end."""
    for name in [name for name in os.environ if name.startswith("WEBDATA_")]:
        del os.environ[name]
    os.environ |= {f"WEBDATA_ENGINE_{name}": "local" for name in ("ONE", "TWO", "THREE")}
    os.environ |= {"WEBDATA_HOME": str(folder / "home"), "WEBDATA_WAYBACK_URL": archive}
    os.environ["MPLBACKEND"] = "agg"
    try:
        yield
    finally:
        command = [sys.executable, "-m", "webdata_nb", "stop"]
        stopped = subprocess.run(command, check=True, capture_output=True, text=True)
        assert stopped.stderr == "webdata: stopped the local service\n", stopped.stderr


def _crawls(toolkit: _Toolkit, site: str, folder: Path) -> None:
    formats = ["markdown", "html", "links", "images", "headings"]
    pages = toolkit.crawl_df(site, max_pages=8, formats=formats, rights=True, audit=True)
    assert len(pages) == 8
    toolkit.show(pages)
    toolkit.plot_crawl(pages)
    toolkit.links_df(pages)
    toolkit.images_df(pages)
    toolkit.headings_df(pages)
    toolkit.tables(pages)
    toolkit.records_df(pages)
    assert len(toolkit.chunks_df(pages)) >= 8
    toolkit.rights_df(pages)
    assert toolkit.why(pages, pages["url"][0]).is_row
    assert toolkit.retry_failed(pages).equals(pages)
    findings = toolkit.audit_df(pages)
    toolkit.audit_report(findings, folder / "audit.html")
    toolkit.plot_audit(findings)
    toolkit.to_parquet(pages, folder / "pages.parquet")
    assert toolkit.diff(folder / "pages.parquet", pages).empty
    toolkit.to_warc(pages, folder / "pages.warc.gz")
    assert toolkit.watch_df(site, max_pages=3).empty
    shop = toolkit.scrape_df(
        site + "shop/copper-rain-gauge.html", extract={"name": str, "price": float}
    )
    assert toolkit.extract_df(shop)["name"].notna().all()
    assert set(toolkit.verify(shop)["verdict"]) <= {"verbatim", "derived"}


def _searches(toolkit: _Toolkit, folder: Path) -> None:
    hits = toolkit.search_df(_QUERY, num_results=3, formats=[])
    assert len(hits) == 3
    history = toolkit.history_df(webdata_nb.search_df, _QUERY, num_results=3, formats=[])
    toolkit.plot_ranks(history)
    assert toolkit.serp_diff(hits, hits).empty
    ranks = toolkit.rank_df([_QUERY, "rain gauge"], site="127.0.0.1", out=folder / "ranks.parquet")
    assert ranks["status"].tolist() == ["ranked", "ranked"]
    assert ranks.webdata.ranks().shape == (2, 1)
    assert ranks.webdata.changes().empty
    with toolkit.record(folder / "recording"):
        recorded = toolkit.search_df(_QUERY, formats=[])
    with toolkit.replay(folder / "recording"):
        assert toolkit.search_df(_QUERY, formats=[]).equals(recorded)
    for _ in toolkit.search_df([_QUERY, "rain gauge"], formats=[], stream=True):
        pass


def _jobs(toolkit: _Toolkit, site: str, folder: Path) -> None:
    secret = "a secret of sixteen characters or more"
    with toolkit.receive_webhooks(secret=secret) as hooks:
        target = {"webhook_url": hooks.url, "webhook_secret": hooks.secret}
        begun = toolkit.crawl_job(site, max_pages=2, **target)
        assert [event.job_id for event in hooks][-1] == begun.job_id
    assert not toolkit.verify_signature(b"{}", {}, secret)
    assert len(toolkit.export_df(begun.job_id)) == 2
    assert toolkit.job(begun.job_id).status == "completed"
    assert begun.job_id in set(toolkit.jobs_df()["job_id"])
    toolkit._noted(begun.events())
    searched = toolkit.search_job(_QUERY, num_results=2, formats=[])
    searched.wait()
    assert len(toolkit.read_csv_export(searched.export("csv", folder / "hits.csv"))) == 2


def _everything_else(toolkit: _Toolkit) -> None:
    assert toolkit.connect().crawl_df is not None
    ads = toolkit.creatives_df(_ADVERTISER, max_rows=3)
    assert len(ads) == 3
    toolkit.gallery(ads)
    assert len(toolkit.advertisers_df("fulmar"))
    assert toolkit.captures_df("http://docs.test/")["status_code"].tolist() == [200]
    assert len(toolkit.engines_df())
    assert len(toolkit.weights_df())
    assert len(toolkit.usage_df()) == 1
    assert toolkit.estimate(webdata_nb.search_df, "glacier", formats=[]).credits is not None
    for name in webdata_nb.cache.__all__:
        getattr(webdata_nb.cache, name)()
    webdata_nb.options.progress = False


async def _async_forms(toolkit: _Toolkit, site: str) -> None:
    pages = await toolkit.acrawl_df(site, max_pages=3, formats=["links"])
    assert len(pages) == 3
    await toolkit.alinks_df(pages)
    await toolkit.arecords_df(site)
    assert (await toolkit.awhy(pages, pages["url"][0])).is_row
    await toolkit.aretry_failed(pages)
    await toolkit.awatch_df(site, max_pages=3)
    shop = await toolkit.ascrape_df(site + "shop/copper-rain-gauge.html", extract={"price": float})
    await toolkit.averify(shop)
    assert len(await toolkit.asearch_df("rain gauge", num_results=2, formats=[])) == 2
    assert len(await toolkit.arank_df("rain gauge", site="127.0.0.1")) == 1
    begun = await toolkit.acrawl_job(site, max_pages=2, formats=[])
    assert len(await begun) == 2
    await (await toolkit.asearch_job("rain gauge", formats=[])).await_()
    assert (await toolkit.ajob(begun.job_id)).job_id == begun.job_id
    assert len(await toolkit.aexport_df(begun.job_id)) == 2
    await toolkit.ajobs_df()
    await toolkit.acreatives_df(_ADVERTISER, max_rows=1)
    await toolkit.aadvertisers_df("fulmar")
    await toolkit.acaptures_df("http://docs.test/")
    await toolkit.aengines_df()
    await toolkit.aweights_df()
    await toolkit.ausage_df()


def main() -> None:
    """Call everything, and print how many names were called or returned."""
    toolkit = _Toolkit()
    with (
        tempfile.TemporaryDirectory(prefix="webdata-calls-", ignore_cleanup_errors=True) as name,
        SampleSite() as site,
        _archive() as archive,
        _local_service(Path(name), archive),
    ):
        _crawls(toolkit, site.url, Path(name))
        _searches(toolkit, Path(name))
        _jobs(toolkit, site.url, Path(name))
        asyncio.run(_async_forms(toolkit, site.url))
        _everything_else(toolkit)
    modules = {
        name for name in webdata_nb.__all__ if isinstance(getattr(webdata_nb, name), ModuleType)
    }
    if missed := set(webdata_nb.__all__) - toolkit.seen - modules - NOT_CALLED.keys():
        sys.exit(f"neither called nor returned: {', '.join(sorted(missed))}")
    print(f"{len(toolkit.seen)} public names called or returned")


if __name__ == "__main__":
    main()
