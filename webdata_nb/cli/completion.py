"""The command `webdata completion`: prints the completion script of a shell."""

from __future__ import annotations

import argparse
import functools
from typing import Final

from webdata_nb.cli.commands import Commands, add_command

# How each shell loads the script.
_INSTALL: Final = {
    "bash": "webdata completion bash > ~/.local/share/bash-completion/completions/webdata",
    "zsh": "webdata completion zsh > ~/.zfunc/_webdata  (with ~/.zfunc in fpath)",
    "fish": "webdata completion fish > ~/.config/fish/completions/webdata.fish",
}


def add_commands(commands: Commands, main_parser: argparse.ArgumentParser) -> None:
    """Add the command `completion`, for all commands of `main_parser`."""
    text = "Print the script with which a shell completes commands and flags."
    run = functools.partial(_print_script, main_parser)
    parser = add_command(commands, "completion", run, text)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(("install:", *(f"  {line}" for line in _INSTALL.values())))
    parser.add_argument("shell", choices=tuple(_INSTALL), help="the shell")


def _print_script(main_parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    import shtab  # noqa: PLC0415 - only this command needs it

    print(shtab.complete(main_parser, shell=args.shell))
