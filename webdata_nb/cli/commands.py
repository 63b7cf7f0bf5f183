"""Adds commands to the argument parser, and reports to standard error."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

# ruff: noqa: PLC0415 - `webdata --help` must not wait for the settings

Commands = Any  # argparse does not export the type of its subparsers
Run = Callable[[argparse.Namespace], int | None]


def add_command(
    commands: Commands, name: str, run: Run, description: str
) -> argparse.ArgumentParser:
    """Add a command; `run` takes its arguments and returns an exit code, or None for success."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=description, description=description
    )
    parser.set_defaults(run=run, command_parser=parser)
    return parser


def add_group(commands: Commands, name: str, description: str) -> Commands:
    """Add a command that has commands of its own, and return the place to add them to."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=description, description=description
    )
    return parser.add_subparsers(metavar="ACTION", required=True)


def add_base_url_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag that names the service."""
    parser.add_argument(
        "--base-url",
        metavar="URL",
        help="URL of a service; its key is read from WEBDATA_API_KEY, not from process arguments",
    )


def set_base_url(args: argparse.Namespace) -> None:
    """Use the service that the command line names."""
    from webdata_nb.settings import options

    if args.base_url is not None:
        options.base_url = args.base_url


def report(message: str) -> None:
    """Print one line on standard error."""
    print(f"webdata: {message}", file=sys.stderr)
