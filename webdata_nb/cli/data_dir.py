"""Commands that open the data directory of a service, which must be on this machine.

They may run while a service uses the directory. The network does not offer them.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING

from webdata_nb.cli.commands import Commands, add_command
from webdata_nb.errors import InvalidArgument, WebdataError

if TYPE_CHECKING:
    from webdata_nb.service.settings import Mode
    from webdata_nb.service.store.interface import AccountStore
    from webdata_nb.settings import Options, Settings

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for it

RunInDirectory = Callable[[Path, argparse.Namespace], int | None]
RunOnAccounts = Callable[["AccountStore", argparse.Namespace], Coroutine[None, None, None]]


def resolve_settings(arguments: Options | None = None) -> Settings:
    """Return the settings of the environment, with those that the command line replaces.

    Raises
    ------
    InvalidArgument
        A setting has a wrong value.
    """
    from webdata_nb.settings import Options, current

    try:
        return current(arguments or Options())
    except ValueError as error:
        raise InvalidArgument(str(error)) from None


def default_data_dir(mode: Mode) -> Path:
    """Return the directory of the local service of notebooks, or of a team's service beside it."""
    from webdata_nb import local

    settings = resolve_settings()
    if mode == "local":
        return local.resolve_data_directory(settings).data_dir
    return settings.data_dir.with_name("team")


def add_data_dir_command(
    commands: Commands, name: str, run: RunInDirectory, description: str, *, create: bool = False
) -> argparse.ArgumentParser:
    """Add a command whose `run` takes a data directory; `create` permits a new one."""
    run_in_directory = functools.partial(_run_in_directory, run, create)
    parser = add_command(commands, name, run_in_directory, description)
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="data directory of the service (default: that of serve --mode team)",
    )
    return parser


def add_accounts_command(
    commands: Commands, name: str, run: RunOnAccounts, description: str, *, create: bool = False
) -> argparse.ArgumentParser:
    """Add a command whose `run` takes the accounts in a data directory."""
    run_in_directory = functools.partial(_run_on_accounts, run)
    return add_data_dir_command(commands, name, run_in_directory, description, create=create)


def _run_in_directory(run: RunInDirectory, create: bool, args: argparse.Namespace) -> int | None:
    from webdata_nb.service.errors import ApplicationError

    directory = args.data_dir.absolute() if args.data_dir else default_data_dir("team")
    _check_directory(directory, create=create)
    try:
        return run(directory, args)
    except ApplicationError as error:
        raise WebdataError(str(error)) from None
    except ValueError as error:
        raise InvalidArgument(str(error)) from None


def _check_directory(directory: Path, *, create: bool) -> None:
    from webdata_nb.service.store.backends import DATABASE_FILE

    if not create and not (directory / DATABASE_FILE).exists():
        raise WebdataError(f"no service has its data in {directory}; name it with --data-dir")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def _run_on_accounts(run: RunOnAccounts, directory: Path, args: argparse.Namespace) -> None:
    import asyncio

    asyncio.run(_with_accounts(run, directory, args))


async def _with_accounts(run: RunOnAccounts, directory: Path, args: argparse.Namespace) -> None:
    from webdata_nb.service.store.backends import open_accounts

    async with open_accounts(directory) as accounts:
        await run(accounts, args)
