"""The command that runs jobs of a team's service without HTTP."""

from __future__ import annotations

import argparse
from pathlib import Path

from webdata_nb.cli.commands import Commands, add_command
from webdata_nb.cli.data_dir import default_data_dir, resolve_settings
from webdata_nb.cli.service import AddArgument, add_dask, add_egress, add_log_format
from webdata_nb.errors import InvalidArgument

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for it


def add_commands(commands: Commands) -> None:
    """Add the command `worker`."""
    text = "Run jobs of a team's service on PostgreSQL, here or in a Dask cluster, without HTTP."
    parser = add_command(commands, "worker", _run_worker, text)
    _add_storage(parser.add_argument)
    add_dask(parser.add_argument)
    add_egress(parser.add_argument_group("requests to web sites").add_argument)
    add_log_format(parser.add_argument)


def _add_storage(add: AddArgument) -> None:
    add(
        "--store",
        metavar="URL",
        help="PostgreSQL database of the service (default: WEBDATA_STORE); it is not sent to Dask "
        "workers, which have it in their environment",
    )
    add("--slots", type=int, metavar="N", help="jobs that a process runs at a time (default 24)")
    add(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="directory of this process, without --dask (default: beside the one of `serve`)",
    )
    add(
        "--replica",
        metavar="NAME",
        help="name of this process, without --dask (default: WEBDATA_REPLICA, or host name and "
        "process id)",
    )
    add(
        "--blobs",
        metavar="URL",
        help="the service's folder for files (default: WEBDATA_BLOBS); it is not sent to Dask "
        "workers either",
    )


def _run_worker(args: argparse.Namespace) -> int:
    from webdata_nb.settings import Options

    if args.dask is not None and (args.data_dir or args.replica):
        raise InvalidArgument(
            "--data-dir and --replica are for a worker without --dask: Dask gives its workers "
            "directories and names"
        )
    settings = resolve_settings(
        Options(user_agent=args.user_agent, proxy=args.proxy, ca_bundle=args.ca_bundle)
    )
    from webdata_nb.service.job_workers.command import run_worker

    data_dir = args.data_dir or default_data_dir("team").with_name("worker")
    return run_worker(
        data_dir=data_dir.absolute(),
        store=args.store,
        allow_networks=tuple(args.allow_networks),
        user_agent=settings.user_agent,
        proxy=settings.proxy,
        ca_bundle=settings.ca_bundle,
        slots=args.slots,
        replica=args.replica,
        blobs=args.blobs,
        dask=args.dask,
        dask_insecure=args.dask_insecure,
        signing_keys=args.signing_keys,
        log_format=args.log_format,
    )
