"""The IPython extension `%load_ext webdata_nb`: the magics `%websearch` and `%webcrawl`."""

from __future__ import annotations

import argparse
import keyword
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from webdata_nb.toolkit.api import crawl_df, frame_views, search_df
from webdata_nb.toolkit.display import bars
from webdata_nb.toolkit.requests.flags import add_flags, passed_options, word_list
from webdata_nb.toolkit.requests.options import (
    CommandOptions,
    CrawlOptions,
    SingleSearchInputOptions,
)

if TYPE_CHECKING:
    import pandas as pd

# The shells that have the magics.
_shells: Final[list[Any]] = []


def load(shell: Any) -> None:
    """Register the magics and the display of result frames; a second call changes nothing."""
    frame_views.register(shell)
    if any(each is shell for each in _shells):
        return
    for magic in _MAGICS:
        shell.register_magic_function(_line_magic(shell, magic), "line", magic.name)
    _shells.append(shell)


def unload(shell: Any) -> None:
    """Remove the magics."""
    if not any(each is shell for each in _shells):
        return
    _shells[:] = [each for each in _shells if each is not shell]
    for magic in _MAGICS:
        shell.magics_manager.magics["line"].pop(magic.name, None)


class MagicParser(argparse.ArgumentParser):
    """Reports wrong usage as an IPython error; argparse would exit the kernel."""

    def error(self, message: str) -> NoReturn:
        """Raise the error that IPython shows without a traceback."""
        raise bars.usage_error(f"{message}\n{self.format_usage().strip()}")


@dataclass(frozen=True, slots=True)
class LineMagic:
    """A line magic: its name, the parser of its line, and the function that it calls."""

    name: str
    parser: MagicParser
    run: Callable[[argparse.Namespace], pd.DataFrame]


def _line_magic(shell: Any, magic: LineMagic) -> Callable[[str], pd.DataFrame | None]:
    """Return the function that the shell calls with the rest of the line."""
    parser = magic.parser

    def run(line: str) -> pd.DataFrame | None:
        try:
            words = shlex.split(line)
        except ValueError as error:
            parser.error(f"{str(error).lower()}: quotes come in pairs")
        args = parser.parse_intermixed_args(words)
        if not args.subject and not args.help:
            parser.error(f"say what to look for: {parser.prog} {args.subject_name}")
        if args.help:
            bars.show_output(parser.format_help())
            return None
        df = magic.run(args)
        if args.output is None:
            return df
        shell.push({args.output: df})
        return None

    run.__doc__ = parser.format_help()  # `%websearch?` shows it
    return run


def _variable_name(text: str) -> str:
    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name for a variable")
    return text


def _new_parser(name: str, description: str, subject_name: str) -> MagicParser:
    parser = MagicParser(
        prog=f"%{name}", description=description, add_help=False, allow_abbrev=False
    )
    parser.set_defaults(subject_name=subject_name)
    parser.add_argument("subject", nargs="*", metavar=subject_name)
    parser.add_argument("-h", "--help", action="store_true", help="show this and do nothing")
    parser.add_argument(
        "-o", "--output", type=_variable_name, metavar="NAME", help="variable for the frame"
    )
    parser.add_argument(
        "--formats", type=word_list, metavar="A,B", help="what to read from each page"
    )
    add_flags(parser, CommandOptions, only={"refresh"})
    return parser


def _escape_usage(parser: MagicParser) -> MagicParser:
    """Escape the % in the name of the magic, which argparse takes for a format in messages."""
    parser.usage = parser.format_usage().removeprefix("usage: ").strip().replace("%", "%%")
    return parser


def _search_parser() -> MagicParser:
    parser = _new_parser("websearch", "Search the web, as search_df does.", "QUERY")
    names = {"num_results", "engine", "language", "country"}
    add_flags(parser, SingleSearchInputOptions, only=names, flags={"num_results": "--num"})
    return _escape_usage(parser)


def _search(args: argparse.Namespace) -> pd.DataFrame:
    options = passed_options(args, SingleSearchInputOptions, CommandOptions)
    query = " ".join(args.subject)
    df: pd.DataFrame = search_df(query, formats=args.formats or [], **options)
    return df


def _crawl_parser() -> MagicParser:
    description = "Crawl from one or more start pages, as crawl_df does."
    parser = _new_parser("webcrawl", description, "URL")
    add_flags(parser, CrawlOptions, only={"max_pages", "max_depth"})
    return _escape_usage(parser)


def _crawl(args: argparse.Namespace) -> pd.DataFrame:
    options = passed_options(args, CrawlOptions, CommandOptions)
    urls: list[str] = args.subject
    df: pd.DataFrame = crawl_df(
        urls[0] if len(urls) == 1 else urls,
        **options,
    )
    return df


_MAGICS: Final = (
    LineMagic("websearch", _search_parser(), _search),
    LineMagic("webcrawl", _crawl_parser(), _crawl),
)
