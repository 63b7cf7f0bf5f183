"""Commands that run, describe and stop the service."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from webdata_nb.cli.commands import Commands, add_command, report
from webdata_nb.cli.data_dir import default_data_dir, resolve_settings

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for it

_TEAM_PORT: Final = 8000

AddArgument = Callable[..., argparse.Action]


def add_commands(commands: Commands) -> None:
    """Add the commands `serve`, `openapi` and `stop`."""
    _add_serve(commands)
    add_command(commands, "openapi", _print_openapi, "Print the service's OpenAPI document.")
    text = "Stop the local service; its jobs continue at its next start."
    stop = add_command(commands, "stop", _stop, text)
    stop.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="stop the service of this data directory"
    )


def _add_serve(commands: Commands) -> None:
    parser = add_command(commands, "serve", _run_serve, "Run the service in the foreground.")
    parser.add_argument(
        "--mode",
        choices=("local", "team"),
        default="local",
        help="one user without keys, or accounts with API keys",
    )
    _add_storage(parser.add_argument_group("address and storage").add_argument)
    add_egress(parser.add_argument_group("requests to web sites").add_argument)
    _add_webhooks(parser.add_argument_group("webhooks").add_argument)
    _add_limits(parser.add_argument_group("limits").add_argument)
    add_dask(parser.add_argument_group("workers").add_argument)
    add = parser.add_argument_group("observation").add_argument
    add(
        "--metrics",
        metavar="HOST:PORT",
        help="address that serves Prometheus metrics (default: none)",
    )
    add_log_format(add)
    # Toolkits set it when they start the service: it exits when no client needs it.
    parser.add_argument("--managed", action="store_true", help=argparse.SUPPRESS)


def add_log_format(add: AddArgument) -> None:
    """Add the option for the format of logs."""
    add(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="json writes one object per line",
    )


def add_dask(add: AddArgument) -> None:
    """Add the options for a Dask cluster."""
    add(
        "--dask",
        metavar="ADDRESS",
        help="run jobs in the workers of a Dask cluster: tls://HOST:PORT of its scheduler, or "
        "local:N for N worker processes on this machine",
    )
    add(
        "--dask-insecure",
        action="store_true",
        help="allow tcp:// to a scheduler on another machine; whoever reaches it can run code",
    )


def _add_storage(add: AddArgument) -> None:
    add("--host", help="address to listen on (default 127.0.0.1)")
    add("--port", type=int, help=f"default: a free one in local mode, {_TEAM_PORT} in team mode")
    add(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="data directory (default: depends on the mode)",
    )
    add(
        "--store",
        metavar="URL",
        help="PostgreSQL database of a team's service (default: WEBDATA_STORE, or SQLite in DIR)",
    )
    add(
        "--replica",
        metavar="NAME",
        help="name of this process among those on one PostgreSQL database (default: "
        "WEBDATA_REPLICA, or host name and process id)",
    )
    add(
        "--blobs",
        metavar="URL",
        help="folder for stored pages and downloaded files, file:///DIR or any URL of fsspec "
        "(default: WEBDATA_BLOBS, or the database and the data directory)",
    )
    add(
        "--retention-hours",
        type=float,
        metavar="H",
        help="how long to keep the rows of a search (default 48)",
    )
    add(
        "--crawl-retention-hours",
        type=float,
        metavar="H",
        help="how long to keep the rows of a crawl (default 720, 168 in team mode; inf: forever)",
    )
    add(
        "--job-retention-hours",
        type=float,
        metavar="H",
        help="how long to keep the record of an ended job (default 2160)",
    )


def add_egress(add: AddArgument) -> None:
    """Add the options for requests to web sites."""
    add(
        "--allow-network",
        dest="allow_networks",
        action="append",
        default=[],
        metavar="CIDR",
        help="private network that jobs may fetch from in team mode; repeatable",
    )
    add(
        "--user-agent",
        metavar="TEXT",
        help="user agent for web sites (default: WEBDATA_USER_AGENT, or the service's own)",
    )
    add("--proxy", metavar="URL", help="proxy for all requests (default: WEBDATA_PROXY)")
    add(
        "--ca-bundle",
        metavar="FILE",
        help="certificate authorities to trust (default: WEBDATA_CA_BUNDLE)",
    )
    add(
        "--signing-keys",
        type=Path,
        metavar="FILE",
        help="sign requests with these keys (default: WEBDATA_SIGNING_KEYS, or the file that "
        "`webdata signing-keys create` made in the data directory)",
    )


def _add_webhooks(add: AddArgument) -> None:
    add(
        "--webhook-profile",
        choices=("A", "B"),
        default="A",
        help="profile of the contract for webhooks",
    )
    add("--webhook-pages", action="store_true", help="report each crawled page (profile B)")
    add(
        "--webhook-loopback",
        action=argparse.BooleanOptionalAction,
        help="allow webhooks to this machine (default in local mode)",
    )


def _add_limits(add: AddArgument) -> None:
    add(
        "--slots",
        type=int,
        metavar="N",
        help="jobs that run at a time (default 24), a third of them first jobs of accounts",
    )
    add(
        "--trusted-proxy",
        action="append",
        default=[],
        dest="trusted_proxies",
        metavar="ADDRESS",
        help="address or network of a proxy whose X-Forwarded-For is trusted; repeatable; "
        "none to trust no proxy (default: proxies on this machine)",
    )
    add(
        "--connections-per-address",
        type=int,
        metavar="N",
        help="open connections of one client address (default 256)",
    )
    add(
        "--requests-per-account",
        type=int,
        metavar="N",
        help="open requests of one account, event streams included (default 256)",
    )


def _run_serve(args: argparse.Namespace) -> int:
    from webdata_nb.service.runtime import gc_tuning

    gc_tuning.pause_gc()
    from webdata_nb.service.app import serve
    from webdata_nb.settings import Options

    # Wrong settings are reported before the directory is created.
    settings = resolve_settings(
        Options(user_agent=args.user_agent, proxy=args.proxy, ca_bundle=args.ca_bundle)
    )
    default_port = 0 if args.mode == "local" else _TEAM_PORT
    arguments = {name: value for name, value in vars(args).items() if name != "run"} | {
        "port": default_port if args.port is None else args.port,
        "data_dir": args.data_dir.absolute() if args.data_dir else default_data_dir(args.mode),
        "allow_networks": tuple(args.allow_networks),
        "trusted_proxies": tuple(args.trusted_proxies),
        "user_agent": settings.user_agent,
        "proxy": settings.proxy,
        "ca_bundle": settings.ca_bundle,
    }
    return serve(**arguments)


def _print_openapi(_args: argparse.Namespace) -> None:
    from webdata_nb.service.routes.application import openapi

    print(json.dumps(openapi(), indent=2))


def _stop(args: argparse.Namespace) -> None:
    import asyncio

    from webdata_nb.settings import Options
    from webdata_nb.toolkit import local

    settings = resolve_settings(Options(data_dir=args.data_dir))
    was_running = asyncio.run(local.stop(settings))
    report("stopped the local service" if was_running else "no local service runs")
