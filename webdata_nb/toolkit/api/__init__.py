"""The functions that users call: each runs a job at a service and returns its rows as a frame."""

from __future__ import annotations

from webdata_nb.toolkit.api import frame_views
from webdata_nb.toolkit.api.crawl_questions import (
    Why,
    alinks_df,
    averify,
    awhy,
    links_df,
    verify,
    why,
)
from webdata_nb.toolkit.api.frame_functions import (
    acrawl_df,
    acreatives_df,
    arank_df,
    arecords_df,
    ascrape_df,
    asearch_df,
    awatch_df,
    crawl_df,
    creatives_df,
    estimate,
    history_df,
    rank_df,
    records_df,
    scrape_df,
    search_df,
    watch_df,
)
from webdata_nb.toolkit.api.frame_views import (
    audit_report,
    gallery,
    plot_audit,
    plot_crawl,
    plot_ranks,
    show,
)
from webdata_nb.toolkit.api.listings import (
    aadvertisers_df,
    acaptures_df,
    advertisers_df,
    captures_df,
)
from webdata_nb.toolkit.api.methods import FrameAccessor as FrameAccessor  # adds df.webdata
from webdata_nb.toolkit.api.methods import Session, connect
from webdata_nb.toolkit.api.retry import aretry_failed, retry_failed
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
from webdata_nb.toolkit.calls.budget import Estimate
from webdata_nb.toolkit.calls.frame_stream import FrameStream
from webdata_nb.toolkit.frames.chunks import chunks_df
from webdata_nb.toolkit.frames.compare import diff
from webdata_nb.toolkit.frames.derive import headings_df, images_df, rights_df, tables
from webdata_nb.toolkit.frames.exports import to_parquet, to_warc
from webdata_nb.toolkit.frames.extracted import extract_df
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

frame_views.register_in_pandas()
frame_views.register_in_ipython()
frame_views.register_in_marimo()
