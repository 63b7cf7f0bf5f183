"""The functions that users call: each runs a job at a service and returns its rows as a frame."""

from __future__ import annotations

from webdata_nb.toolkit.api import frame_formatter
from webdata_nb.toolkit.api.advertisers import aadvertisers_df, advertisers_df
from webdata_nb.toolkit.api.audit import audit_report, plot_audit
from webdata_nb.toolkit.api.captures import acaptures_df, captures_df
from webdata_nb.toolkit.api.crawl import acrawl_df, crawl_df
from webdata_nb.toolkit.api.creatives import acreatives_df, creatives_df
from webdata_nb.toolkit.api.estimates import estimate, history_df
from webdata_nb.toolkit.api.frame_accessor import FrameAccessor as FrameAccessor  # adds df.webdata
from webdata_nb.toolkit.api.links import alinks_df, links_df
from webdata_nb.toolkit.api.plotting import plot_crawl, plot_ranks
from webdata_nb.toolkit.api.retry import aretry_failed, retry_failed
from webdata_nb.toolkit.api.scrape import ascrape_df, scrape_df
from webdata_nb.toolkit.api.search import asearch_df, search_df
from webdata_nb.toolkit.api.session_methods import Session, connect
from webdata_nb.toolkit.api.start import (
    acrawl_job,
    aexport_df,
    ajob,
    asearch_job,
    crawl_job,
    export_df,
    job,
    search_job,
)
from webdata_nb.toolkit.api.table_display import gallery, show
from webdata_nb.toolkit.api.url_outcome import Why, awhy, why
from webdata_nb.toolkit.api.verification import averify, verify
from webdata_nb.toolkit.api.watch import awatch_df, watch_df
from webdata_nb.toolkit.calls.budget import Estimate
from webdata_nb.toolkit.calls.frame_stream import FrameStream
from webdata_nb.toolkit.frames.compare import diff
from webdata_nb.toolkit.frames.derive import headings_df, images_df, rights_df, tables
from webdata_nb.toolkit.frames.exports import to_parquet
from webdata_nb.toolkit.frames.extracted import extract_df
from webdata_nb.toolkit.frames.warc import to_warc
from webdata_nb.toolkit.jobs.job import Job
from webdata_nb.toolkit.jobs.listings import (
    aengines_df,
    ajobs_df,
    ausage_df,
    aweights_df,
    engines_df,
    jobs_df,
    usage_df,
    weights_df,
)
from webdata_nb.toolkit.recording import record, replay
from webdata_nb.toolkit.sites.audit import audit_df
from webdata_nb.toolkit.stream import Stream

__all__ = [
    "Estimate",
    "FrameStream",
    "Job",
    "Session",
    "Stream",
    "Why",
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
    "captures_df",
    "connect",
    "crawl_df",
    "crawl_job",
    "creatives_df",
    "diff",
    "engines_df",
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
    "plot_audit",
    "plot_crawl",
    "plot_ranks",
    "record",
    "replay",
    "retry_failed",
    "rights_df",
    "scrape_df",
    "search_df",
    "search_job",
    "show",
    "tables",
    "to_parquet",
    "to_warc",
    "usage_df",
    "verify",
    "watch_df",
    "weights_df",
    "why",
]

frame_formatter.register_in_ipython()
frame_formatter.register_in_marimo()
