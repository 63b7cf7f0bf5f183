"""Parses command lines, adds commands to the parser, and reports to standard error.

Wrong usage prints the closest valid word instead of the whole usage. Commands that open the store
of a service, its data directory on this machine or its database, may run while a service uses it;
the network does not offer them.
"""

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for it

from __future__ import annotations

import argparse
import functools
import logging
import re
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from webdata_nb.errors import InvalidArgument, WebdataError
from webdata_nb.suggestions import closest, did_you_mean

if TYPE_CHECKING:
    from webdata_nb.service.settings import Mode
    from webdata_nb.service.store.sql.accounts import AccountStore
    from webdata_nb.settings import Options, Settings

Commands = Any  # argparse does not export the type of its subparsers
Run = Callable[[argparse.Namespace], int | None]

_WRONG_USAGE: Final = 2
_JSON_LOG: Final = ("--log-format", "json")
_CHOICE: Final = re.compile(r"invalid choice: '(.*?)' \(choose from (.*)\)")
# How each shell loads the script.
_INSTALL: Final = {
    "bash": "webdata completion bash > ~/.local/share/bash-completion/completions/webdata",
    "zsh": "webdata completion zsh > ~/.zfunc/_webdata  (with ~/.zfunc in fpath)",
    "fish": "webdata completion fish > ~/.config/fish/completions/webdata.fish",
}


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are short; `--help` shows the usage."""

    _logs_json = False

    @property
    def flags(self) -> list[str]:
        """The flags of this command."""
        return [flag for action in self._actions for flag in action.option_strings]

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> argparse.Namespace:
        """Parse a command line; an unknown argument is an error of its command."""
        parsed: argparse.Namespace
        parsed, unknown = self.parse_known_args(args, namespace)
        command: CommandParser = vars(parsed).pop("command_parser", self)
        if unknown:
            suggestion = closest(unknown[0].partition("=")[0], command.flags)
            command.error(f"unrecognized arguments: {' '.join(unknown)}{did_you_mean(suggestion)}")
        return parsed

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse a command line; return the arguments that are unknown, too."""
        words = sys.argv[1:] if args is None else list(args)
        # Known before the arguments are parsed, for their errors.
        if "--log-format" in self.flags:
            self._logs_json = "--log-format=json" in words or _JSON_LOG in pairwise(words)
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the message and the way to the usage, and exit."""
        if (choice := _CHOICE.search(message)) is not None:
            message += did_you_mean(closest(choice[1], re.findall(r"[\w.-]+", choice[2])))
        if self._logs_json:
            report_error(f"{message}; `{self.prog} --help` shows the usage", log_format="json")
            self.exit(_WRONG_USAGE)
        self.exit(_WRONG_USAGE, f"{self.prog}: {message}\n`{self.prog} --help` shows the usage\n")


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


def report_error(message: str, *, log_format: str | None) -> None:
    """Print why a command ends; a command that logs JSON logs it."""
    if log_format != "json":
        report(message)
        return
    from webdata_nb.service.observability.logs import configure_process_logs

    configure_process_logs("json")
    logging.getLogger("webdata_nb.cli").error("%s", message)


def add_completion(commands: Commands, main_parser: argparse.ArgumentParser) -> None:
    """Add the command `completion`, for all commands of `main_parser`."""
    text = "Print the script with which a shell completes commands and flags."
    run = functools.partial(_print_script, main_parser)
    parser = add_command(commands, "completion", run, text)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(("install:", *(f"  {line}" for line in _INSTALL.values())))
    parser.add_argument("shell", choices=tuple(_INSTALL), help="the shell")


def _print_script(main_parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    import shtab

    print(shtab.complete(main_parser, shell=args.shell))


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
            from webdata_nb.service.store.backends import DATABASE_FILE

            if not create and not (directory / DATABASE_FILE).exists():
                raise WebdataError(
                    f"no service has its data in {directory}; name it with --data-dir"
                )
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
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


def _run_on_accounts(run: RunOnAccounts, place: StorePlace, args: argparse.Namespace) -> None:
    import asyncio

    asyncio.run(_with_accounts(run, place, args))


async def _with_accounts(run: RunOnAccounts, place: StorePlace, args: argparse.Namespace) -> None:
    from webdata_nb.service.store.backends import open_accounts

    async with open_accounts(place.directory, place.url) as accounts:
        await run(accounts, args)
