"""Web data as typed pandas DataFrames, in one line.

::

    from webdata_nb import crawl_df, search_df

    pages = crawl_df("https://example.com", max_pages=50)
    results = search_df("arrow parquet")

The names by task:

====================== ======================================================================
crawl, read pages      `crawl_df`, `scrape_df`, `why`
search                 `search_df`, `rank_df`, `engines_df`, `serp_diff`
ad creatives           `creatives_df`, `advertisers_df`, `gallery`
fields of pages        `links_df`, `images_df`, `headings_df`, `tables`, `records_df`,
                       `extract_df`, `rights_df`, `chunks_df`, `verify`
web archives           `captures_df`, `to_warc`
audit of a site        `audit_df`, `audit_report`, `plot_audit`
jobs                   `crawl_job`, `search_job`, `job`, `jobs_df`, `export_df`,
                       `read_csv_export`
earlier results        `watch_df`, `diff`, `history_df`, `retry_failed`, `record`, `replay`,
                       `to_parquet`, `cache`
display                `show`, `plot_crawl`, `plot_ranks`
service and cost       `connect`, `options`, `estimate`, `weights_df`, `usage_df`,
                       `receive_webhooks`, `verify_signature`
types and errors       `Session`, `Job`, `FrameStream`, `Stream`, `Estimate`, `Why`, `errors`
====================== ======================================================================

Functions that send requests have an async form with an `a` in front, such as `acrawl_df`. It can
be imported, but `dir()`, which sorts what it has, leaves it out. Frames have an accessor,
`df.webdata`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from webdata_nb import errors
    from webdata_nb.settings import options
    from webdata_nb.toolkit import cache
    from webdata_nb.toolkit.api import (
        Estimate,
        FrameStream,
        Job,
        Session,
        Stream,
        Why,
        aadvertisers_df,
        acaptures_df,
        acrawl_df,
        acrawl_job,
        acreatives_df,
        advertisers_df,
        aengines_df,
        aexport_df,
        ajob,
        ajobs_df,
        alinks_df,
        arank_df,
        arecords_df,
        aretry_failed,
        ascrape_df,
        asearch_df,
        asearch_job,
        audit_df,
        audit_report,
        ausage_df,
        averify,
        awatch_df,
        aweights_df,
        awhy,
        captures_df,
        chunks_df,
        connect,
        crawl_df,
        crawl_job,
        creatives_df,
        diff,
        engines_df,
        estimate,
        export_df,
        extract_df,
        gallery,
        headings_df,
        history_df,
        images_df,
        job,
        jobs_df,
        links_df,
        plot_audit,
        plot_crawl,
        plot_ranks,
        rank_df,
        record,
        records_df,
        replay,
        retry_failed,
        rights_df,
        scrape_df,
        search_df,
        search_job,
        show,
        tables,
        to_parquet,
        to_warc,
        usage_df,
        verify,
        watch_df,
        weights_df,
        why,
    )
    from webdata_nb.toolkit.client.webhook_receiver import receive_webhooks, verify_signature
    from webdata_nb.toolkit.frames.compare import serp_diff
    from webdata_nb.toolkit.frames.exports import read_csv_export

__version__ = "0.1.0"

__all__ = [
    "Estimate",
    "FrameStream",
    "Job",
    "Session",
    "Stream",
    "Why",
    "__version__",
    "aadvertisers_df",
    "acaptures_df",
    "acrawl_df",
    "acrawl_job",
    "acreatives_df",
    "advertisers_df",
    "aengines_df",
    "aexport_df",
    "ajob",
    "ajobs_df",
    "alinks_df",
    "arank_df",
    "arecords_df",
    "aretry_failed",
    "ascrape_df",
    "asearch_df",
    "asearch_job",
    "audit_df",
    "audit_report",
    "ausage_df",
    "averify",
    "awatch_df",
    "aweights_df",
    "awhy",
    "cache",
    "captures_df",
    "chunks_df",
    "connect",
    "crawl_df",
    "crawl_job",
    "creatives_df",
    "diff",
    "engines_df",
    "errors",
    "estimate",
    "export_df",
    "extract_df",
    "gallery",
    "headings_df",
    "history_df",
    "images_df",
    "job",
    "jobs_df",
    "links_df",
    "options",
    "plot_audit",
    "plot_crawl",
    "plot_ranks",
    "rank_df",
    "read_csv_export",
    "receive_webhooks",
    "record",
    "records_df",
    "replay",
    "retry_failed",
    "rights_df",
    "scrape_df",
    "search_df",
    "search_job",
    "serp_diff",
    "show",
    "tables",
    "to_parquet",
    "to_warc",
    "usage_df",
    "verify",
    "verify_signature",
    "watch_df",
    "weights_df",
    "why",
]

# pandas, pyarrow and the rest take a third of a second to import: nobody should wait for them
# before using a name that needs them (PEP 562).
_MODULES: Final = {
    "cache": "webdata_nb.toolkit.cache",
    "errors": "webdata_nb.errors",
}
_HOMES: Final = {
    "options": "webdata_nb.settings",
    "read_csv_export": "webdata_nb.toolkit.frames.exports",
    "serp_diff": "webdata_nb.toolkit.frames.compare",
    "receive_webhooks": "webdata_nb.toolkit.client.webhook_receiver",
    "verify_signature": "webdata_nb.toolkit.client.webhook_receiver",
}
_FUNCTIONS: Final = "webdata_nb.toolkit.api"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "cache":
        import_module(_FUNCTIONS)  # its listings are displayed like other results
    if name in _MODULES:
        value: Any = import_module(_MODULES[name])
    else:
        value = getattr(import_module(_HOMES.get(name, _FUNCTIONS)), name)
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """Add `%websearch` and `%webcrawl`; called by `%load_ext webdata_nb`."""
    import_module("webdata_nb.toolkit.magics").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take them away again; called by `%unload_ext webdata_nb`."""
    import_module("webdata_nb.toolkit.magics").unload(shell)


def __dir__() -> list[str]:
    return sorted({*__all__} - {f"a{name}" for name in __all__})
