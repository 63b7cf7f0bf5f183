"""Commands that run, describe and stop the service."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Final

from webdata_nb.cli.commands import Commands, add_command, report
from webdata_nb.cli.data_dir import default_data_dir, resolve_settings

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for it

_TEAM_PORT: Final = 8000


def add_commands(commands: Commands) -> None:
    """Add the commands `serve`, `openapi` and `stop`."""
    _add_serve(commands)
    add_command(commands, "openapi", _print_openapi, "Print the service's OpenAPI document.")
    text = "Stop the local service; its jobs go on when it starts again."
    stop = add_command(commands, "stop", _stop, text)
    stop.add_argument("--data-dir", type=Path, metavar="DIR", help="the one that serves DIR")


def _add_serve(commands: Commands) -> None:
    parser = add_command(commands, "serve", _run_serve, "Run the service in the foreground.")
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

    # Wrong settings are reported before the directory is created.
    settings = resolve_settings(
        user_agent=args.user_agent, proxy=args.proxy, ca_bundle=args.ca_bundle
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
    from webdata_nb import local

    stopped = asyncio.run(local.stop(resolve_settings(data_dir=args.data_dir)))
    report("stopped the local service" if stopped else "no local service runs")
