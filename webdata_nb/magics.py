"""`%load_ext webdata_nb`: `%websearch`, `%webcrawl`, and our frames shown as `show` shows them.

Nothing here happens by itself: a notebook that does not load the extension is as it was.
"""

from __future__ import annotations

import argparse
import keyword
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from webdata_nb.api import crawl_df, search_df, show
from webdata_nb.contract.choices import ENGINES
from webdata_nb.display import text_lines
from webdata_nb.frames import records

if TYPE_CHECKING:
    import pandas as pd

_HTML: Final = "text/html"


def load(shell: Any) -> None:
    """Register the magics and the look of our frames; a second call changes nothing."""
    if shell in _loaded:
        return
    formatter = shell.display_formatter.formatters[_HTML]
    before = formatter.for_type(records.DATA_FRAME)
    formatter.for_type(records.DATA_FRAME, _Look(before))
    for magic in _MAGICS:
        shell.register_magic_function(_line_magic(shell, magic), "line", magic.name)
    _loaded[shell] = before


def unload(shell: Any) -> None:
    """Take the magics away and give frames the look that they had before."""
    if shell not in _loaded:
        return
    before = _loaded.pop(shell)
    formatter = shell.display_formatter.formatters[_HTML]
    if isinstance(formatter.for_type(records.DATA_FRAME), _Look):
        formatter.pop(records.DATA_FRAME)
        if before is not None:
            formatter.for_type(records.DATA_FRAME, before)
    for magic in _MAGICS:
        shell.magics_manager.magics["line"].pop(magic.name, None)


_loaded: Final[dict[Any, Callable[[Any], str | None] | None]] = {}


@dataclass(frozen=True, slots=True)
class _Look:
    """The HTML of a frame: ours by `show`, everybody else's as before."""

    before: Callable[[Any], str | None] | None

    def __call__(self, df: pd.DataFrame) -> str | None:
        theirs = self._theirs(df)
        # Where somebody switched HTML off for frames, it is off for ours.
        if theirs is None or not (records.has_receipt(df) and _drawable(df)):
            return theirs
        return show(df)._repr_html_()

    def _theirs(self, df: Any) -> str | None:
        made: str | None = self.before(df) if self.before is not None else df._repr_html_()
        return made


def _drawable(df: pd.DataFrame) -> bool:
    """Whether a frame is still rows with the names of ours, and no pivot of them."""
    plain = df.index.nlevels == 1 and df.columns.nlevels == 1 and df.index.name is None
    return plain and all(isinstance(name, str) for name in df.columns)


class _Parser(argparse.ArgumentParser):
    """Tells what is wrong in one line, where argparse would end the kernel."""

    def error(self, message: str) -> NoReturn:
        raise text_lines.usage_error(f"{message}\n{self.format_usage().strip()}")


@dataclass(frozen=True, slots=True)
class _Magic:
    name: str
    parser: argparse.ArgumentParser
    run: Callable[[argparse.Namespace], pd.DataFrame]


def _line_magic(shell: Any, magic: _Magic) -> Callable[[str], pd.DataFrame | None]:
    """Return what the shell calls with the rest of the line."""

    def run(line: str) -> pd.DataFrame | None:
        given = _read(magic.parser, line)
        if given.help:
            text_lines.show(magic.parser.format_help())
            return None
        df = magic.run(given)
        if given.output is None:
            return df
        shell.push({given.output: df})
        return None

    run.__doc__ = magic.parser.format_help()  # what `%websearch?` shows
    return run


def _read(parser: argparse.ArgumentParser, line: str) -> argparse.Namespace:
    try:
        words = shlex.split(line)
    except ValueError as error:
        parser.error(f"{str(error).lower()}: quotes come in pairs")
    given = parser.parse_intermixed_args(words)
    if not given.subject and not given.help:
        parser.error(f"say what to look for: {parser.prog} {given.wants}")
    return given


def _name(text: str) -> str:
    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name for a variable")
    return text


def _several(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _parser(name: str, about: str, subject: str) -> argparse.ArgumentParser:
    parser = _Parser(prog=f"%{name}", description=about, add_help=False, allow_abbrev=False)
    parser.set_defaults(wants=subject)
    parser.add_argument("subject", nargs="*", metavar=subject)
    parser.add_argument("-h", "--help", action="store_true", help="show this and do nothing")
    parser.add_argument(
        "-o", "--output", type=_name, metavar="NAME", help="put the frame into this variable"
    )
    parser.add_argument(
        "--formats", type=_several, metavar="A,B", help="what to take from each page"
    )
    parser.add_argument("--refresh", action="store_true", help="ask again, whatever the cache has")
    return parser


def _search_parser() -> argparse.ArgumentParser:
    parser = _parser("websearch", "Search the web, as search_df does.", "QUERY")
    parser.add_argument("--num", type=int, metavar="N", help="results wanted, 1 to 50")
    parser.add_argument("--engine", choices=ENGINES, help="whom to ask first")
    parser.add_argument("--language", metavar="CODE", help="such as en or pt-BR")
    parser.add_argument("--country", metavar="CC", help="two-letter code of a country")
    return _with_usage(parser)


def _crawl_parser() -> argparse.ArgumentParser:
    parser = _parser("webcrawl", "Crawl from one or more start pages, as crawl_df does.", "URL")
    parser.add_argument("--max-pages", type=int, metavar="N", help="pages at most")
    parser.add_argument("--max-depth", type=int, metavar="N", help="clicks from the start at most")
    return _with_usage(parser)


def _with_usage(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    # Left to itself, argparse takes the % of a magic's name for a format when it complains.
    parser.usage = parser.format_usage().removeprefix("usage: ").strip().replace("%", "%%")
    return parser


def _search(given: argparse.Namespace) -> pd.DataFrame:
    return search_df(
        " ".join(given.subject),
        num_results=given.num,
        engine=given.engine,
        language=given.language,
        country=given.country,
        formats=given.formats or [],
        refresh=given.refresh,
    )


def _crawl(given: argparse.Namespace) -> pd.DataFrame:
    urls: Sequence[str] = given.subject
    return crawl_df(
        urls[0] if len(urls) == 1 else urls,
        max_pages=given.max_pages,
        max_depth=given.max_depth,
        scrape_options={"formats": given.formats} if given.formats else None,
        refresh=given.refresh,
    )


_MAGICS: Final = (
    _Magic("websearch", _search_parser(), _search),
    _Magic("webcrawl", _crawl_parser(), _crawl),
)
