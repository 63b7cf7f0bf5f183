"""Commands that run, describe and stop the service, or run its jobs in a worker."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from webdata_nb.cli.commands import Commands, add_command, report
from webdata_nb.cli.data_dir import default_data_dir, resolve_settings
from webdata_nb.errors import InvalidArgument
from webdata_nb.service.settings import Command, Option, options_of

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for it

# What argparse needs to know of an option, by the type of its value.
_ARGUMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "int": {"type": int},
    "float": {"type": float},
    "Path": {"type": Path},
    "tuple[str, ...]": {"action": "append"},
    "bool": {"action": "store_true"},
}


def add_commands(commands: Commands) -> None:
    """Add the commands `serve`, `openapi`, `stop` and `worker`."""
    serve = add_command(commands, "serve", _run_serve, "Run the service in the foreground.")
    _add_options(serve, "serve")
    add_command(commands, "openapi", _print_openapi, "Print the service's OpenAPI document.")
    text = "Stop the local service; its jobs continue at its next start."
    stop = add_command(commands, "stop", _stop, text)
    stop.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="stop the service of this data directory"
    )
    text = "Run jobs of a team's service on PostgreSQL, here or in a Dask cluster, without HTTP."
    worker = add_command(commands, "worker", _run_worker, text)
    _add_options(worker, "worker", groups={"requests to web sites"})


def _add_options(
    parser: argparse.ArgumentParser, command: Command, groups: Collection[str] | None = None
) -> None:
    """Add the options of a command in their groups, or in those of `groups` only."""
    containers: dict[str | None, Any] = {None: parser}
    for option in options_of(command):
        group = option.group if groups is None or option.group in groups else None
        if group not in containers:
            containers[group] = parser.add_argument_group(group)
        containers[group].add_argument(
            option.flag, dest=option.name, default=None, **_argument(option, command)
        )


def _argument(option: Option, command: Command) -> dict[str, Any]:
    """Return what argparse needs to know of an option."""
    argument = dict(_ARGUMENTS.get(option.annotation.removesuffix(" | None"), {}))
    if option.default is True:
        argument["action"] = argparse.BooleanOptionalAction
    if option.metavar is not None:
        argument["metavar"] = option.metavar
    if option.choices is not None:
        argument["choices"] = option.choices
    argument["help"] = argparse.SUPPRESS if option.is_hidden else option.text(command)
    return argument


def _given_options(args: argparse.Namespace, command: Command) -> dict[str, Any]:
    """Return the options of the command line, with what the toolkit's settings add.

    Wrong settings are reported before a directory is created.
    """
    from webdata_nb.settings import Options

    options = options_of(command)
    given = {option.name: getattr(args, option.name) for option in options}
    shared = [option.name for option in options if option.is_toolkit_setting]
    settings = resolve_settings(Options(**{name: given[name] for name in shared}))
    given |= {name: getattr(settings, name) for name in shared}
    return {name: value for name, value in given.items() if value is not None}


def _run_serve(args: argparse.Namespace) -> int:
    from webdata_nb.service.runtime.process import pause_gc

    pause_gc()
    from webdata_nb.service.app import serve

    given = _given_options(args, "serve")
    if "data_dir" not in given:
        given["data_dir"] = default_data_dir(given.get("mode", "local"))
    return serve(**given)


def _run_worker(args: argparse.Namespace) -> int:
    if args.dask is not None and (args.data_dir or args.replica):
        raise InvalidArgument(
            "--data-dir and --replica are for a worker without --dask: Dask gives its workers "
            "directories and names"
        )
    given = _given_options(args, "worker")
    from webdata_nb.service.job_workers.command import run_worker

    if "data_dir" not in given:
        given["data_dir"] = default_data_dir("team").with_name("worker")
    return run_worker(**given)


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
