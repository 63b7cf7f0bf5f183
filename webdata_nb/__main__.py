"""The `webdata` command: the toolkit's functions and the service's process from a shell.

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted, and 3 of `watch` where another
one is still running. Results go to standard output; progress, receipts and errors go to standard
error.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Final

from webdata_nb import __version__
from webdata_nb.cli import doctor, service, tables
from webdata_nb.cli.commands import CommandParser, add_completion, report, report_error
from webdata_nb.errors import InvalidArgument, WebdataError
from webdata_nb.toolkit.terminal_text import make_streams_tolerant

SUCCESS: Final = 0
FAILURE: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv
        The arguments after the program's name; those of this process when None.
    """
    make_streams_tolerant()
    args = build_parser().parse_args(argv)
    warnings.formatwarning = lambda message, *_details, **_options: f"webdata: warning: {message}\n"
    try:
        exit_code: int = args.run(args) or SUCCESS
        sys.stdout.flush()
    except KeyboardInterrupt:
        report("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes standard output once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except (WebdataError, OSError) as error:
        report_error(str(error), log_format=getattr(args, "log_format", None))
        return WRONG_USAGE if isinstance(error, InvalidArgument) else FAILURE
    return exit_code


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = CommandParser(
        prog="webdata", description="Search results and crawled sites as tables and files."
    )
    parser.add_argument("--version", action="version", version=f"webdata {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    tables.add_commands(commands)
    service.add_commands(commands)
    doctor.add_commands(commands)
    add_completion(commands, parser)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
