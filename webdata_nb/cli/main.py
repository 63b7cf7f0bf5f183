"""The `webdata` command: the toolkit's functions and the service's process from a shell.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Results go to standard output,
progress, receipts and errors to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb import __version__
from webdata_nb.cli import admin, doctor
from webdata_nb.cli.option_flags import add_flags, passed_options
from webdata_nb.errors import InvalidArgument, WebdataError
from webdata_nb.requests.options import (
    CommandOptions,
    CrawlOptions,
    CreativesOptions,
    ResultPageOptions,
    SingleSearchInputOptions,
)

if TYPE_CHECKING:
    import pandas as pd

    from webdata_nb.settings import Settings

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for pandas

_FAILED: Final = 1
_USAGE: Final = 2
_INTERRUPTED: Final = 130
_TEAM_PORT: Final = 8000
_LEAST_CELL: Final = 12

# The flags of `scrape_options` that no option of a search has.
_PAGE_FLAGS: Final = ("wait_for", "include_tags", "exclude_tags", "render")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv
        The arguments after the program's name; those of this process when None.
    """
    args = _parser().parse_args(argv)
    warnings.formatwarning = _warning_line
    try:
        code = int(args.run(args))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _say("interrupted", _INTERRUPTED)
    except BrokenPipeError:
        # The reader has had enough; nothing may be written at the interpreter's end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except InvalidArgument as error:
        return _say(str(error), _USAGE)
    except (WebdataError, OSError) as error:
        return _say(str(error), _FAILED)
    return code


def _warning_line(
    message: Warning | str,
    category: type[Warning],  # noqa: ARG001 - a command's warning names no class, file or line
    filename: str,  # noqa: ARG001
    lineno: int,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> str:
    return f"webdata: warning: {message}\n"


def _say(text: str, code: int = 0) -> int:
    print(f"webdata: {text}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="webdata", description="Search results and crawled sites as tables and files."
    )
    parser.add_argument("--version", action="version", version=f"webdata {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (_demo, _crawl, _search, _creatives, _jobs, _cache, _serve, _openapi, _stop):
        add(commands)
    admin.add(commands, _usual_directory)
    doctor.add(commands)
    return parser


_Commands = Any  # argparse keeps the type of its subparsers to itself


def _command(
    commands: _Commands, name: str, run: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run)
    return parser


# demo


def _demo(commands: _Commands) -> None:
    text = "Crawl and search a sample web that ships with the package, or a real site."
    parser = _command(commands, "demo", _run_demo, text)
    parser.add_argument("url", nargs="?", metavar="URL", help="a real site, instead of the sample")


def _run_demo(args: argparse.Namespace) -> int:
    from webdata_nb.demo.tour import run

    return run(args.url)


# crawl and search


def _crawl(commands: _Commands) -> None:
    parser = _command(commands, "crawl", _run_crawl, "Crawl a site from one URL.")
    parser.add_argument("url", metavar="URL", help="where to start")
    add = parser.add_argument_group("where to go").add_argument
    add_flags(add, CrawlOptions, without={"scrape_options"})
    add = parser.add_argument_group("what to take from each page").add_argument
    add_flags(add, ResultPageOptions)
    add("--wait-for", type=_number_or_text, metavar="MS|SELECTOR", help="render, then wait")
    add("--page-timeout", type=int, metavar="MS", help="milliseconds a page (default 30000)")
    add("--include-tag", dest="include_tags", action="append", metavar="SELECTOR")
    add("--exclude-tag", dest="exclude_tags", action="append", metavar="SELECTOR")
    add("--render", action=argparse.BooleanOptionalAction, help="load pages in a browser")
    add(
        "--render-auto",
        dest="render",
        action="store_const",
        const="auto",
        help="load those in a browser that are empty without their scripts",
    )
    _call_flags(parser)


def _run_crawl(args: argparse.Namespace) -> int:
    from webdata_nb.api import crawl_df

    _choose_service(args)
    page = {name: getattr(args, name) for name in _PAGE_FLAGS} | {"timeout": args.page_timeout}
    page = {name: value for name, value in page.items() if value is not None}
    page |= passed_options(args, ResultPageOptions)
    options = passed_options(args, CrawlOptions, CommandOptions, without={"scrape_options"})
    frame = crawl_df(args.url, scrape_options=page or None, **options)
    return _show(frame, args.out, ("url", "title", "status", "status_code", "depth", "error"))


def _search(commands: _Commands) -> None:
    parser = _command(commands, "search", _run_search, "Search, and read the pages found.")
    parser.add_argument("query", metavar="QUERY", help="the search terms")
    add_flags(parser.add_argument_group("what to find").add_argument, SingleSearchInputOptions)
    add = parser.add_argument_group("what to take from each page").add_argument
    add_flags(add, ResultPageOptions)
    _call_flags(parser)


def _run_search(args: argparse.Namespace) -> int:
    from webdata_nb.api import search_df

    _choose_service(args)
    groups = (SingleSearchInputOptions, ResultPageOptions, CommandOptions)
    frame = search_df(args.query, **passed_options(args, *groups))
    return _show(frame, args.out, ("rank", "title", "url", "snippet", "error"))


def _creatives(commands: _Commands) -> None:
    text = "List the ads of an advertiser, from the chosen transparency source."
    parser = _command(commands, "creatives", _run_creatives, text)
    parser.add_argument("advertiser", metavar="ADVERTISER", help="an id, or its page's URL")
    parser.add_argument(
        "--find", action="store_true", help="ADVERTISER is a name or domain: list who it may be"
    )
    add_flags(parser.add_argument_group("which ads").add_argument, CreativesOptions)
    _call_flags(parser)


def _run_creatives(args: argparse.Namespace) -> int:
    from webdata_nb.api import advertisers_df, creatives_df

    _choose_service(args)
    if args.find:
        _print_table(advertisers_df(args.advertiser))
        return 0
    frame = creatives_df(args.advertiser, **passed_options(args, CreativesOptions, CommandOptions))
    shown = ("position", "creative_id", "format", "last_shown", "headline", "text", "error")
    return _show(frame, args.out, tuple(name for name in shown if name in frame.columns))


def _call_flags(parser: argparse.ArgumentParser) -> None:
    add_flags(parser.add_argument_group("the call").add_argument, CommandOptions)
    _base_url_flag(parser)


def _base_url_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--base-url",
        metavar="URL",
        help="a service; its key is read from WEBDATA_API_KEY, where no process list shows it",
    )


def _number_or_text(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _choose_service(args: argparse.Namespace) -> None:
    from webdata_nb.settings import options

    if args.base_url is not None:
        options.base_url = args.base_url


# jobs and the cache


def _jobs(commands: _Commands) -> None:
    parser = _command(commands, "jobs", _run_jobs, "List your jobs at the service, newest first.")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N jobs")
    _base_url_flag(parser)


def _run_jobs(args: argparse.Namespace) -> int:
    from webdata_nb.api import jobs_df

    _choose_service(args)
    columns = ("job_id", "type", "status", "subject", "created_at", "completed", "total", "error")
    _print_table(jobs_df() if args.limit is None else jobs_df(limit=args.limit), columns)
    return 0


def _cache(commands: _Commands) -> None:
    parser = _command(commands, "cache", _run_cache, "Look at the cached results, or remove them.")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("ls", help="list the cached results, newest first")
    actions.add_parser("path", help="print the cache's directory")
    actions.add_parser("size", help="print the bytes that the cache takes")
    clear = actions.add_parser("clear", help="remove cached results")
    clear.add_argument("--op", choices=("search", "crawl", "creatives"), help="of this kind only")
    clear.add_argument("--older-than", type=float, metavar="S", help="taken over S seconds ago")


def _run_cache(args: argparse.Namespace) -> int:
    from webdata_nb.cache import management

    _settings()  # a wrong setting is an error of usage
    match args.action:
        case "ls":
            _print_table(management.ls())
        case "path":
            print(management.path())
        case "size":
            print(management.size())
        case "clear":
            removed = management.clear(args.op, older_than=args.older_than)
            _say(f"removed {removed} cached results")
    return 0


# the service


def _serve(commands: _Commands) -> None:
    parser = _command(commands, "serve", _run_serve, "Run the service in the foreground.")
    add = parser.add_argument
    add("--host", help="where to listen (default 127.0.0.1)")
    add("--port", type=int, help=f"default: a free one in local mode, {_TEAM_PORT} for a team")
    add("--data-dir", type=Path, metavar="DIR", help="default: the local service's, or a team's")
    add("--store", metavar="URL", help="where jobs are kept (default: SQLite in DIR)")
    add("--mode", choices=("local", "team"), default="local", help="for you alone, or with keys")
    add(
        "--allow-network",
        dest="allow_networks",
        action="append",
        default=[],
        metavar="CIDR",
        help="a private network that a team's jobs may fetch from; repeatable",
    )
    add(
        "--user-agent",
        metavar="TEXT",
        help="how the service names itself to web sites (default: WEBDATA_USER_AGENT, or its own)",
    )
    add("--proxy", metavar="URL", help="the way out of this network (default: WEBDATA_PROXY)")
    add("--ca-bundle", metavar="FILE", help="authorities to trust (default: WEBDATA_CA_BUNDLE)")
    add("--retention-hours", type=float, metavar="H", help="keep a search's rows (default 48)")
    add(
        "--crawl-retention-hours",
        type=float,
        metavar="H",
        help="keep a crawl's rows (default 720, 168 for a team; inf: for ever)",
    )
    add(
        "--job-retention-hours",
        type=float,
        metavar="H",
        help="keep the record of an ended job (default 2160)",
    )
    add("--webhook-profile", choices=("A", "B"), default="A", help="of the contract's two")
    add("--webhook-pages", action="store_true", help="tell of each crawled page (profile B)")
    add(
        "--webhook-loopback",
        action=argparse.BooleanOptionalAction,
        help="let webhooks go to this machine (default in local mode)",
    )
    add(
        "--trusted-proxy",
        action="append",
        default=[],
        dest="trusted_proxies",
        metavar="ADDRESS",
        help="believe X-Forwarded-For of this address or network; repeatable; none for nobody's "
        "(default: proxies on this machine)",
    )
    add(
        "--connections-per-address",
        type=int,
        metavar="N",
        help="connections that one client address may have open (default 256)",
    )
    add(
        "--requests-per-account",
        type=int,
        metavar="N",
        help="requests, event streams included, that one account may have under way (default 256)",
    )
    add("--metrics", metavar="HOST:PORT", help="show Prometheus metrics there (default: nowhere)")
    add("--log-format", choices=("text", "json"), default="text", help="json: an object a line")
    # Set by a toolkit that starts the service on demand: exit when nobody needs it.
    add("--managed", action="store_true", help=argparse.SUPPRESS)


def _run_serve(args: argparse.Namespace) -> int:
    from webdata_nb.service.app import serve

    # Before anything is made.
    chosen = _settings(user_agent=args.user_agent, proxy=args.proxy, ca_bundle=args.ca_bundle)
    return serve(
        host=args.host,
        port=args.port if args.port is not None else _usual_port(args.mode),
        data_dir=args.data_dir.absolute() if args.data_dir else _usual_directory(args.mode),
        store=args.store,
        mode=args.mode,
        allow_networks=tuple(args.allow_networks),
        managed=args.managed,
        user_agent=chosen.user_agent,
        proxy=chosen.proxy,
        ca_bundle=chosen.ca_bundle,
        retention_hours=args.retention_hours,
        crawl_retention_hours=args.crawl_retention_hours,
        job_retention_hours=args.job_retention_hours,
        webhook_profile=args.webhook_profile,
        webhook_pages=args.webhook_pages,
        webhook_loopback=args.webhook_loopback,
        metrics=args.metrics,
        trusted_proxies=tuple(args.trusted_proxies),
        connections_per_address=args.connections_per_address,
        requests_per_account=args.requests_per_account,
        log_format=args.log_format,
    )


def _usual_port(mode: str) -> int:
    return 0 if mode == "local" else _TEAM_PORT


def _usual_directory(mode: str) -> Path:
    """Where notebooks look for the local service; a team's jobs are kept beside it."""
    from webdata_nb import local

    settings = _settings()
    return (
        local.place(settings).data_dir if mode == "local" else settings.data_dir.with_name("team")
    )


def _settings(
    *,
    data_dir: Path | None = None,
    user_agent: str | None = None,
    proxy: str | None = None,
    ca_bundle: str | None = None,
) -> Settings:
    from webdata_nb.settings import Options, current

    arguments = Options(data_dir=data_dir, user_agent=user_agent, proxy=proxy, ca_bundle=ca_bundle)
    try:
        return current(arguments)
    except ValueError as error:
        raise InvalidArgument(str(error)) from None


def _openapi(commands: _Commands) -> None:
    _command(commands, "openapi", _run_openapi, "Print the service's OpenAPI document.")


def _run_openapi(_args: argparse.Namespace) -> int:
    from webdata_nb.service.routes.application import openapi

    print(json.dumps(openapi(), indent=2))
    return 0


def _stop(commands: _Commands) -> None:
    text = "Stop the local service; its jobs go on when it starts again."
    parser = _command(commands, "stop", _run_stop, text)
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="the one that serves DIR")


def _run_stop(args: argparse.Namespace) -> int:
    import asyncio

    from webdata_nb import local

    ran = asyncio.run(local.stop(_settings(data_dir=args.data_dir)))
    return _say("stopped the local service" if ran else "no local service runs")


# what a person sees


def _show(frame: pd.DataFrame, out: Path | None, columns: Sequence[str]) -> int:
    """Print the table, unless it went to a file, and the receipt's one line."""
    if out is None:
        _print_table(frame, columns)
    receipt: Mapping[str, Any] = frame.attrs.get("webdata", {})
    print(_cell(receipt.get("line", "")), file=sys.stderr)
    if out is not None:
        _say(f"{len(frame)} rows in {out}")
    return 0


def _print_table(frame: pd.DataFrame, columns: Sequence[str] | None = None) -> None:
    """Print the columns that say something, cut to the terminal's width if there is one."""
    shown = frame[[name for name in columns or frame.columns if frame[name].notna().any()]]
    if shown.empty:
        print("no rows")
        return
    room = max(_LEAST_CELL, shutil.get_terminal_size().columns // len(shown.columns))
    texts = shown.astype(object).where(shown.notna(), "").map(_cell)
    width = room if sys.stdout.isatty() else None
    print(texts.to_string(index=False, justify="left", max_colwidth=width))


def _cell(value: object) -> str:
    """Write a value on one line; what a site sends must not steer the terminal."""
    return "".join(mark if mark.isprintable() else " " for mark in str(value)).strip()
