"""Parses command lines; wrong usage prints the closest valid word instead of the whole usage."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from webdata_nb.suggestions import closest, did_you_mean

_WRONG_USAGE: Final = 2
_CHOICE: Final = re.compile(r"invalid choice: '(.*?)' \(choose from (.*)\)")


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
