"""The functions that users call: each runs a job at a service and returns its rows as a frame."""

from __future__ import annotations

from webdata_nb.functions.crawl import acrawl_df, crawl_df
from webdata_nb.functions.creatives import acreatives_df, creatives_df
from webdata_nb.functions.handle import Job
from webdata_nb.functions.listings import ajobs_df, aweights_df, jobs_df, weights_df
from webdata_nb.functions.methods import Session, connect
from webdata_nb.functions.reason import Why, awhy, why
from webdata_nb.functions.search import asearch_df, search_df
from webdata_nb.functions.starting import (
    acrawl_job,
    aexport_df,
    ajob,
    asearch_job,
    crawl_job,
    export_df,
    job,
    search_job,
)

__all__ = [
    "Job",
    "Session",
    "Why",
    "acrawl_df",
    "acrawl_job",
    "acreatives_df",
    "aexport_df",
    "ajob",
    "ajobs_df",
    "asearch_df",
    "asearch_job",
    "aweights_df",
    "awhy",
    "connect",
    "crawl_df",
    "crawl_job",
    "creatives_df",
    "export_df",
    "job",
    "jobs_df",
    "search_df",
    "search_job",
    "weights_df",
    "why",
]
