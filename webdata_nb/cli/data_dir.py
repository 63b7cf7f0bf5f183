"""Commands that open the store of a service: its data directory on this machine, or its database.

They may run while a service uses the store. The network does not offer them.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from webdata_nb.cli.commands import Commands, add_command
from webdata_nb.errors import InvalidArgument, WebdataError

if TYPE_CHECKING:
    from webdata_nb.service.settings import Mode
    from webdata_nb.service.store.sql.accounts import AccountStore
    from webdata_nb.settings import Options, Settings

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for it

RunOnStore = Callable[["StorePlace", argparse.Namespace], int | None]
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
    from webdata_nb.toolkit import local

    settings = resolve_settings()
    if mode == "local":
        return local.resolve_data_directory(settings).data_dir
    return settings.data_dir.with_name("team")


@dataclass(frozen=True, slots=True)
class StorePlace:
    """A service's data directory, and the URL of its database unless that is in the directory."""

    directory: Path
    url: str | None = field(default=None, repr=False)


def add_store_command(
    commands: Commands,
    name: str,
    run: RunOnStore,
    description: str,
    *,
    create: bool = False,
    store_flag: bool = True,
) -> argparse.ArgumentParser:
    """Add a command whose `run` takes a store.

    `create` permits a new data directory. Without `store_flag` the command adds an argument
    `store` itself.
    """
    run_on_store = functools.partial(_run_on_store, run, create)
    parser = add_command(commands, name, run_on_store, description)
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="data directory of the service (default: that of serve --mode team)",
    )
    if store_flag:
        parser.add_argument(
            "--store",
            metavar="URL",
            help="database of the service on PostgreSQL (default: WEBDATA_STORE, or SQLite in DIR)",
        )
    return parser


def add_accounts_command(
    commands: Commands, name: str, run: RunOnAccounts, description: str, *, create: bool = False
) -> argparse.ArgumentParser:
    """Add a command whose `run` takes the accounts of a store."""
    run_on_store = functools.partial(_run_on_accounts, run)
    return add_store_command(commands, name, run_on_store, description, create=create)


def _run_on_store(run: RunOnStore, create: bool, args: argparse.Namespace) -> int | None:
    from webdata_nb.service.settings import team_store_url

    directory = args.data_dir.absolute() if args.data_dir else default_data_dir("team")
    with service_errors():
        place = StorePlace(directory, team_store_url(args.store))
        if place.url is None:
            _check_directory(directory, create=create)
        return run(place, args)


@contextmanager
def service_errors() -> Iterator[None]:
    """Raise the service's errors as the toolkit's, which commands print as one line."""
    from webdata_nb.page.errors import ApplicationError

    try:
        yield
    except ApplicationError as error:
        raise WebdataError(str(error)) from None
    except ValueError as error:
        raise InvalidArgument(str(error)) from None


def _check_directory(directory: Path, *, create: bool) -> None:
    from webdata_nb.service.store.backends import DATABASE_FILE

    if not create and not (directory / DATABASE_FILE).exists():
        raise WebdataError(f"no service has its data in {directory}; name it with --data-dir")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def _run_on_accounts(run: RunOnAccounts, place: StorePlace, args: argparse.Namespace) -> None:
    import asyncio

    asyncio.run(_with_accounts(run, place, args))


async def _with_accounts(run: RunOnAccounts, place: StorePlace, args: argparse.Namespace) -> None:
    from webdata_nb.service.store.backends import open_accounts

    async with open_accounts(place.directory, place.url) as accounts:
        await run(accounts, args)
