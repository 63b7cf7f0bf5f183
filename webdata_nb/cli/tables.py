"""Commands that print tables or write them to files, and that watch a site, for cron."""

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for it

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.cli.commands import (
    Commands,
    add_base_url_flag,
    add_command,
    add_group,
    report,
    resolve_settings,
    set_base_url,
)
from webdata_nb.cli.output import add_format_flag, print_frame
from webdata_nb.cli.service import add_job_actions
from webdata_nb.toolkit.requests.flags import add_flags, passed_options, word_list
from webdata_nb.toolkit.requests.options import (
    AsOfDict,
    CommandOptions,
    CreativesOptions,
    PageOptions,
    ResultPageOptions,
    SinceDict,
    SingleSearchInputOptions,
    SiteOptions,
    WatchDfOptions,
)

if TYPE_CHECKING:
    import pandas as pd

_CRAWL_COLUMNS: Final = ("url", "title", "status", "status_code", "depth", "error")
_SEARCH_COLUMNS: Final = ("rank", "title", "url", "snippet", "error")
_RANK_COLUMNS: Final = ("query", "engine", "site", "status", "rank", "url", "provider", "error")
_CREATIVE_COLUMNS: Final = (
    "position", "creative_id", "format", "last_shown", "headline", "text", "error"
)  # fmt: skip
_JOB_COLUMNS: Final = (
    "job_id", "type", "status", "subject", "created_at", "completed", "total", "error"
)  # fmt: skip


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    _add_demo(commands)
    _add_crawl(commands)
    _add_search(commands)
    _add_rank(commands)
    _add_creatives(commands)
    _add_jobs(commands)
    _add_cache(commands)
    _add_watch(commands)


# Demo


def _add_demo(commands: Commands) -> None:
    text = "Crawl and search a sample web that ships with the package, or a real site."
    parser = add_command(commands, "demo", _run_demo, text)
    parser.add_argument("url", nargs="?", metavar="URL", help="a real site instead of the sample")


def _run_demo(args: argparse.Namespace) -> None:
    from webdata_nb.demo.tour import run_tour

    run_tour(args.url)


# Requests


def _add_crawl(commands: Commands) -> None:
    parser = add_command(commands, "crawl", _run_crawl, "Crawl a site from one URL.")
    parser.add_argument(
        "url", metavar="URL", help="URL of the first page, or the path of a WARC or WACZ file"
    )
    add_flags(parser.add_argument_group("pages to crawl"), SiteOptions)
    add_flags(parser.add_argument_group("unchanged pages"), SinceDict, flags={"base": "--since"})
    add_flags(parser.add_argument_group("the site at a date"), AsOfDict, flags={"date": "--as-of"})
    page_flags = parser.add_argument_group("content of each page")
    add_flags(page_flags, PageOptions, without={"scrape_options"})
    page_flags.add_argument(
        "--render-auto",
        dest="render",
        action="store_const",
        const="auto",
        help="load pages in a browser that are empty without their scripts",
    )
    _add_call_flags(parser)


def _run_crawl(args: argparse.Namespace) -> None:
    from webdata_nb.toolkit.api import crawl_df
    from webdata_nb.toolkit.requests.inputs import grouped

    set_base_url(args)
    options = grouped(passed_options(args, SiteOptions, PageOptions, CommandOptions))
    for name, group in (("as_of", AsOfDict), ("since", SinceDict)):
        if entries := passed_options(args, group):
            options[name] = entries
    frame = crawl_df(args.url, **options)
    _print_result(frame, args, _CRAWL_COLUMNS)


def _add_search(commands: Commands) -> None:
    text = "Search, and read the pages of the results."
    parser = add_command(commands, "search", _run_search, text)
    parser.add_argument("query", metavar="QUERY", help="the search terms")
    add_flags(parser.add_argument_group("results"), SingleSearchInputOptions)
    add_flags(parser.add_argument_group("content of each page"), ResultPageOptions)
    _add_call_flags(parser)


def _run_search(args: argparse.Namespace) -> None:
    from webdata_nb.toolkit.api import search_df

    set_base_url(args)
    options = passed_options(args, SingleSearchInputOptions, ResultPageOptions, CommandOptions)
    _print_result(search_df(args.query, **options), args, _SEARCH_COLUMNS)


def _add_rank(commands: Commands) -> None:
    text = "Search for queries, and print where a site ranks among the results."
    parser = add_command(commands, "rank", _run_rank, text)
    parser.add_argument("queries", nargs="+", metavar="QUERY", help="the search terms")
    parser.add_argument(
        "--site",
        action="append",
        required=True,
        metavar="SITE",
        help="host, or host and start of a path; repeatable",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="Parquet file to append the snapshot to"
    )
    add_flags(parser.add_argument_group("results"), SingleSearchInputOptions)
    add_flags(parser.add_argument_group("the call"), CommandOptions, only={"timeout"})
    add_format_flag(parser)
    add_base_url_flag(parser)


def _run_rank(args: argparse.Namespace) -> int | None:
    from webdata_nb.toolkit.api import rank_df

    set_base_url(args)
    options = passed_options(args, SingleSearchInputOptions, CommandOptions, without={"out"})
    ranks = rank_df(args.queries, site=args.site, out=args.out, **options)
    _print_result(ranks, args, _RANK_COLUMNS)
    # For cron: not one search has answered.
    return None if (ranks["status"] != "failed").any() else 1


def _add_creatives(commands: Commands) -> None:
    text = "List the ads of an advertiser, from the chosen transparency source."
    parser = add_command(commands, "creatives", _run_creatives, text)
    parser.add_argument("advertiser", metavar="ADVERTISER", help="an id, or its page's URL")
    parser.add_argument(
        "--find", action="store_true", help="list the advertisers with ADVERTISER as name or domain"
    )
    add_flags(parser.add_argument_group("which ads"), CreativesOptions)
    _add_call_flags(parser)


def _run_creatives(args: argparse.Namespace) -> None:
    from webdata_nb.toolkit.api import advertisers_df, creatives_df

    set_base_url(args)
    if args.find:
        print_frame(advertisers_df(args.advertiser), args.output_format)
        return
    frame = creatives_df(args.advertiser, **passed_options(args, CreativesOptions, CommandOptions))
    _print_result(frame, args, _CREATIVE_COLUMNS)


def _add_call_flags(parser: argparse.ArgumentParser) -> None:
    add_flags(parser.add_argument_group("the call"), CommandOptions)
    add_format_flag(parser)
    add_base_url_flag(parser)


# Jobs and cached results


def _add_jobs(commands: Commands) -> None:
    text = "List your jobs at the service, newest first."
    parser = add_command(commands, "jobs", _run_jobs, text)
    parser.add_argument("--limit", type=int, metavar="N", help="at most N jobs")
    add_format_flag(parser)
    add_base_url_flag(parser)
    add_job_actions(parser)


def _run_jobs(args: argparse.Namespace) -> None:
    from webdata_nb.toolkit.api import jobs_df

    set_base_url(args)
    frame = jobs_df() if args.limit is None else jobs_df(limit=args.limit)
    print_frame(frame, args.output_format, _JOB_COLUMNS)


def _add_cache(commands: Commands) -> None:
    group = add_group(commands, "cache", "List the cached results, or remove them.")
    listing = add_command(group, "ls", _list_cache, "list the cached results, newest first")
    add_format_flag(listing)
    add_command(group, "path", _print_cache_path, "print the cache's directory")
    add_command(group, "size", _print_cache_size, "print the size of the cache in bytes")
    clear = add_command(group, "clear", _clear_cache, "remove cached results")
    clear.add_argument(
        "--op", choices=("search", "crawl", "creatives"), help="only results of this kind"
    )
    clear.add_argument(
        "--older-than", type=float, metavar="S", help="only results older than S seconds"
    )
    clear.add_argument(
        "--site", metavar="URL", help="crawls of this site, and its pages in the local search"
    )


def _list_cache(args: argparse.Namespace) -> None:
    from webdata_nb.toolkit.cache import management

    resolve_settings()
    print_frame(management.ls(), args.output_format)


def _print_cache_path(_args: argparse.Namespace) -> None:
    from webdata_nb.toolkit.cache import management

    resolve_settings()
    print(management.path())


def _print_cache_size(_args: argparse.Namespace) -> None:
    from webdata_nb.toolkit.cache import management

    resolve_settings()
    print(management.size())


def _clear_cache(args: argparse.Namespace) -> None:
    from webdata_nb.toolkit.cache import management

    resolve_settings()
    removed_count = management.clear(args.op, older_than=args.older_than, site=args.site)
    report(f"removed {removed_count} cached results")


# Output


def _print_result(frame: pd.DataFrame, args: argparse.Namespace, columns: Sequence[str]) -> None:
    """Print the receipt's line, and the rows unless they were written to a file."""
    from webdata_nb.toolkit.terminal_text import printable_line

    if args.out is None:
        print_frame(frame, args.output_format, columns)
    receipt = frame.attrs.get("webdata", {})
    print(printable_line(receipt.get("line", "")), file=sys.stderr)
    if args.out is not None:
        report(f"{len(frame)} rows in {args.out}")


STILL_RUNNING: Final = 3
# A page that a browser loads can change without its document.
_RENDERING: Final = frozenset({"render", "wait_for", "mobile", "mobile_device"})
_CHANGE_COLUMNS: Final = ("change", "url", "field", "old", "new")
_MAX_VALUE_CHARS: Final = 60


# Watch


def _add_watch(commands: Commands) -> None:
    text = "Crawl a site again, and print what has changed since the last time, by field."
    parser = add_command(commands, "watch", _run_watch, text)
    parser.add_argument("url", metavar="URL", help="URL of the first page")
    parser.add_argument(
        "--columns",
        type=word_list,
        metavar="LIST",
        help="what to compare: title, description, content_hash, formats and fields of extract",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="Parquet file to append the changes to, which also remembers the pages",
    )
    parser.add_argument(
        "--quiet", action="store_true", help="print nothing but changes, warnings and errors"
    )
    add_flags(
        parser.add_argument_group("pages to crawl"), SiteOptions, without={"audit", "check_links"}
    )
    page_flags = parser.add_argument_group("content of each page")
    add_flags(page_flags, PageOptions, without={"scrape_options", *_RENDERING})
    call_flags = parser.add_argument_group("the call")
    add_flags(call_flags, SinceDict, only={"recheck"})
    add_flags(call_flags, CommandOptions, only={"timeout"})
    add_format_flag(parser)
    add_base_url_flag(parser)


def _run_watch(args: argparse.Namespace) -> int | None:
    from webdata_nb.errors import WatchRunning
    from webdata_nb.toolkit.api import watch_df
    from webdata_nb.toolkit.requests.inputs import grouped

    set_base_url(args)
    options: dict[str, Any] = grouped(passed_options(args, WatchDfOptions, PageOptions))
    if args.quiet:
        options["progress"] = False
    try:
        changes = watch_df(args.url, columns=args.columns, out=args.out, wait=False, **options)
    except WatchRunning as error:
        report(str(error))
        return STILL_RUNNING
    from webdata_nb.toolkit.terminal_text import printable_line

    if args.output_format in {"csv", "json"}:
        print_frame(changes, args.output_format)
    elif len(changes):
        shortened = changes.assign(old=_short_values(changes, "-"), new=_short_values(changes, "+"))
        print_frame(shortened, args.output_format, _CHANGE_COLUMNS)
    if not args.quiet:
        report(printable_line(changes.attrs["webdata"]["line"]))
    return None


def _short_values(changes: pd.DataFrame, mark: str) -> pd.Series[Any]:
    """Return old or new values, of long texts the first line that differs."""
    values = changes["old" if mark == "-" else "new"].astype(object)
    pairs = zip(values, changes["evidence"], strict=True)
    values.iloc[:] = [_short(value, evidence, mark) for value, evidence in pairs]
    return values


def _short(value: object, evidence: object, mark: str) -> str | None:
    if not isinstance(value, str):
        return None
    if len(value) > _MAX_VALUE_CHARS or "\n" in value:
        lines = evidence.splitlines() if isinstance(evidence, str) else []
        values = (line[2:] for line in lines if line.startswith(f"{mark} "))
        value = next(values, "" if lines and lines[0][:2] in {"- ", "+ "} else value)
    one_line = " ".join(value.split())
    is_long = len(one_line) > _MAX_VALUE_CHARS
    return one_line[: _MAX_VALUE_CHARS - 1] + "…" if is_long else one_line
