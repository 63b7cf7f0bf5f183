"""Parses command lines, adds commands to the parser, and reports to standard error.

Wrong usage prints the closest valid word instead of the whole usage.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from webdata_nb.suggestions import closest, did_you_mean

# ruff: noqa: PLC0415 - `webdata --help` must not wait for the settings

Commands = Any  # argparse does not export the type of its subparsers
Run = Callable[[argparse.Namespace], int | None]

_WRONG_USAGE: Final = 2
_CHOICE: Final = re.compile(r"invalid choice: '(.*?)' \(choose from (.*)\)")
# How each shell loads the script.
_INSTALL: Final = {
    "bash": "webdata completion bash > ~/.local/share/bash-completion/completions/webdata",
    "zsh": "webdata completion zsh > ~/.zfunc/_webdata  (with ~/.zfunc in fpath)",
    "fish": "webdata completion fish > ~/.config/fish/completions/webdata.fish",
}


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are short; `--help` shows the usage."""

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

    def error(self, message: str) -> NoReturn:
        """Print the message and the way to the usage, and exit."""
        if (choice := _CHOICE.search(message)) is not None:
            message += did_you_mean(closest(choice[1], re.findall(r"[\w.-]+", choice[2])))
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
