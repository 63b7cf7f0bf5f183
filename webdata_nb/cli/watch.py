"""The command that watches a site, for cron."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.cli.commands import (
    Commands,
    add_base_url_flag,
    add_command,
    report,
    set_base_url,
)
from webdata_nb.cli.output import add_format_flag, print_frame
from webdata_nb.toolkit.requests.flags import add_flags, passed_options, word_list
from webdata_nb.toolkit.requests.options import (
    CommandOptions,
    PageOptions,
    SinceDict,
    SiteOptions,
    WatchDfOptions,
)

if TYPE_CHECKING:
    import pandas as pd

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for pandas

STILL_RUNNING: Final = 3
# A page that a browser loads can change without its document.
_RENDERING: Final = frozenset({"render", "wait_for", "mobile", "mobile_device"})
_COLUMNS: Final = ("change", "url", "field", "old", "new")
_MAX_VALUE_CHARS: Final = 60


def add_commands(commands: Commands) -> None:
    """Add the command of this module."""
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
    from webdata_nb.toolkit.requests.job_spec import grouped

    set_base_url(args)
    options: dict[str, Any] = grouped(passed_options(args, WatchDfOptions, PageOptions))
    if args.quiet:
        options["progress"] = False
    try:
        changes = watch_df(args.url, columns=args.columns, out=args.out, wait=False, **options)
    except WatchRunning as error:
        report(str(error))
        return STILL_RUNNING
    _print_changes(changes, args)
    return None


def _print_changes(changes: pd.DataFrame, args: argparse.Namespace) -> None:
    """Print one line for each change, and nothing where there is none."""
    from webdata_nb.toolkit.terminal_text import printable_line

    if args.output_format in {"csv", "json"}:
        print_frame(changes, args.output_format)
    elif len(changes):
        shortened = changes.assign(old=_short_values(changes, "-"), new=_short_values(changes, "+"))
        print_frame(shortened, args.output_format, _COLUMNS)
    if not args.quiet:
        report(printable_line(changes.attrs["webdata"]["line"]))


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
