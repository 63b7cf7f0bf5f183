"""Pages of the Python reference: the public names, grouped by task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import webdata_nb


@dataclass(frozen=True, slots=True)
class Topic:
    """A page of the reference: its public names, and `others` that users meet without a name."""

    title: str
    summary: str
    names: tuple[str, ...]
    others: tuple[str, ...] = ()


TOPICS: Final = {
    "crawl": Topic(
        "Crawls and pages",
        "Read the pages of a site, or a list of pages.",
        (
            *("crawl_df", "scrape_df", "extract_df", "verify", "why", "Why"),
            *("links_df", "images_df", "headings_df", "tables", "records_df", "rights_df"),
            "chunks_df",
        ),
    ),
    "audit": Topic(
        "Site audits", "What is wrong with a site.", ("audit_df", "audit_report", "plot_audit")
    ),
    "search": Topic(
        "Searches",
        "Results of search engines, and their comparison over time.",
        ("search_df", "rank_df", "engines_df", "serp_diff"),
    ),
    "creatives": Topic(
        "Ad creatives",
        "The ads of an advertiser.",
        ("creatives_df", "advertisers_df", "gallery"),
    ),
    "archives": Topic(
        "Web archives",
        "What archives have of a site, and pages as WARC files.",
        ("captures_df", "to_warc"),
    ),
    "jobs": Topic(
        "Jobs and streams",
        "Calls that run in the background, or return their rows as they arrive.",
        (
            *("crawl_job", "search_job", "job", "Job", "jobs_df", "export_df", "read_csv_export"),
            *("FrameStream", "Stream"),
        ),
    ),
    "frames": Topic(
        "Frames: df.webdata",
        "The accessor of every frame: its receipt, its failed rows, and derived frames.",
        (),
        ("toolkit.api.methods.FrameAccessor",),
    ),
    "results": Topic(
        "Earlier results",
        "Repeat, compare, record and store results.",
        (
            *("watch_df", "diff", "history_df", "retry_failed", "record", "replay"),
            *("to_parquet", "cache"),
        ),
    ),
    "display": Topic("Display", "Tables and figures.", ("show", "plot_crawl", "plot_ranks")),
    "service": Topic(
        "Service, cost and settings",
        "Choose a service, and read what a call may cost.",
        (
            *("connect", "Session", "options", "estimate", "Estimate", "weights_df", "usage_df"),
            *("receive_webhooks", "verify_signature"),
        ),
    ),
    "errors": Topic("Errors", "The exceptions of the package.", ("errors",)),
}


def async_names() -> list[str]:
    """Return the async forms of public functions: the same name with an `a` in front."""
    names = set(webdata_nb.__all__)
    return sorted(name for name in names if name.startswith("a") and name[1:] in names)


def _directive(name: str) -> str:
    """Return the block that mkdocstrings replaces by the documentation of a name."""
    lines = [f"::: webdata_nb.{name}"]
    if name in {"cache", "errors"}:
        lines += ["    options:", "      show_root_heading: false", "      heading_level: 2"]
    return "\n".join(lines)


def _topic_page(topic: Topic) -> str:
    directives = map(_directive, (*topic.names, *topic.others))
    return "\n\n".join([f"# {topic.title}", topic.summary, *directives]) + "\n"


def _index_page() -> str:
    """Return the front page: the names of each topic, without async forms."""
    parts = ["# Python reference", "The public names of `webdata_nb`, by task."]
    for path, topic in TOPICS.items():
        names = ", ".join(_link(path, name) for name in topic.names)
        parts.append(f"**[{topic.title}]({path}.md)**: {topic.summary}  \n{names}".rstrip())
    names = ", ".join(f"`{name}`" for name in async_names())
    parts.append(
        "**Async code**: these coroutine functions take the arguments of the function without "
        f"the `a`, and return the same.  \n{names}"
    )
    return "\n\n".join(parts) + "\n"


def _link(path: str, name: str) -> str:
    anchor = "" if name in {"cache", "errors", "options"} else f"#webdata_nb.{name}"
    return f"[`{name}`]({path}.md{anchor})"


PAGES: Final[dict[str, Callable[[], str]]] = {
    "reference/index.md": _index_page,
    **{f"reference/{path}.md": partial(_topic_page, topic) for path, topic in TOPICS.items()},
}
