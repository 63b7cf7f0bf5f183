"""The functions that users call: each runs a job at a service and returns its rows as a frame."""

from __future__ import annotations

from webdata_nb.functions.crawl import acrawl_df, crawl_df
from webdata_nb.functions.creatives import acreatives_df, creatives_df
from webdata_nb.functions.listings import ajobs_df, aweights_df, jobs_df, weights_df
from webdata_nb.functions.methods import Session, connect
from webdata_nb.functions.search import asearch_df, search_df

__all__ = [
    "Session",
    "acrawl_df",
    "acreatives_df",
    "ajobs_df",
    "asearch_df",
    "aweights_df",
    "connect",
    "crawl_df",
    "creatives_df",
    "jobs_df",
    "search_df",
    "weights_df",
]
