"""Shows frames: as tables in notebooks, as figures, and audits as a page."""

from __future__ import annotations

import html
import json
import math
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from webdata_nb import settings
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import counted, format_value
from webdata_nb.toolkit.display import plots, tables
from webdata_nb.toolkit.display.bars import leave_receipt_to_table
from webdata_nb.toolkit.display.plots import RankTrack, SiteColors, SitePage
from webdata_nb.toolkit.display.tables import PictureBudget, table_markup
from webdata_nb.toolkit.frames import derive, exports, frame, schemas, storage
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.sites import changes_file, ranks
from webdata_nb.toolkit.sites.audit import FINDING_COLUMNS, SEVERITIES, issue_kinds
from webdata_nb.toolkit.sites.pages import listed_urls
from webdata_nb.toolkit.terminal_text import (
    display_width,
    encodable,
    is_terminal,
    isolated,
    printable_line,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from webdata_nb.toolkit.display.tables import Gallery, Sheet

# Tables with links and pictures, and cards of creatives


def gallery(df: pd.DataFrame, *, max_cards: int = 60) -> Gallery:
    """Show creatives as cards with their pictures.

    Pictures come from the files that `should_download_previews` or `should_download_assets`
    brought into the cache; nothing is loaded from elsewhere, and whatever an advertiser wrote is
    shown as text.

    Parameters
    ----------
    df
        A frame of `creatives_df`.
    max_cards
        Cards at most.

    Returns
    -------
    Gallery
        A notebook shows it when it is the last value of a cell.

    Raises
    ------
    InvalidArgument
        `df` is no frame of creatives.

    Examples
    --------
    >>> gallery(creatives_df("AR17828074650563772417", limit=3))
    Gallery of 3 creatives
    """
    if "creative_id" not in getattr(df, "columns", ()):
        raise InvalidArgument(f"df must be a frame of creatives_df; it is {format_value(df)}")
    most = arguments.check_count("max_cards", max_cards)
    rows = df.head(most).to_dict(orient="records")
    records_list = [{str(name): value for name, value in row.items()} for row in rows]
    return tables.gallery(records_list, left_out=max(0, len(df) - most))


def show(df: pd.DataFrame, *, max_rows: int = 20) -> Sheet:
    """Show a frame as a table to read: with links, small pictures, and long texts folded.

    Every column that has a value is there, in the order of the frame: choose columns as usual,
    `show(df[["rank", "title", "url"]])`. The title of each row and the names of the columns stay in
    view while the table is scrolled. Addresses become links (http and https only) without the host
    that all of a column share, screenshots and downloaded files small pictures, lists and long
    texts unfold at a click. Whatever a page said is shown as text; the table has no script and
    loads nothing.

    Parameters
    ----------
    df
        A frame, of this package or any other.
    max_rows
        Rows at most.

    Returns
    -------
    Sheet
        A notebook shows it when it is the last value of a cell.

    Raises
    ------
    InvalidArgument
        `df` is no frame, or `max_rows` is not a whole number from 1.

    Examples
    --------
    >>> df = search_df("aurora forecast", formats=[])
    >>> show(df, max_rows=2)
    Sheet of 2 rows
    """
    frame.require_frame(df)
    most = arguments.check_count("max_rows", max_rows)
    return _sheet(df, most, line=frame.receipt_text(df, "line"))


def _sheet(df: pd.DataFrame, most: int, *, line: str = "") -> Sheet:
    return tables.sheet(
        [str(name) for name in df.columns],
        frame.to_lists(df.head(most)),
        line=line,
        left_out=max(0, len(df) - most),
    )


_PAGE: Final = (
    '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width"><meta name="color-scheme" '
    'content="light dark"><meta name="referrer" content="no-referrer">'
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
    "<title>{title}</title><style>body{{margin:16px;font-family:sans-serif}}"
    "h1{{font-size:18px;margin:0;overflow-wrap:anywhere}}p{{font-size:13px;margin:4px 0 12px}}"
    # The window scrolls the table sideways, and its header stays in view.
    "div{{overflow:visible!important}}details div{{overflow:auto!important}}"
    "th{{position:sticky;top:0;background:Canvas}}</style></head>"
    "\n<body><h1>{title}</h1><p>{line}</p>{sheet}</body></html>\n"
)
_MAX_SAVED_ROWS: Final = 1000


def save(df: pd.DataFrame, target: str | Path) -> Path | str:
    """Write a frame to a file, in the form that its name says; see `FrameAccessor.save`."""
    name = str(target)
    if not isinstance(target, str | Path) or not name:
        raise InvalidArgument(
            f"target must be a path, as a string or a pathlib.Path; it is {format_value(target)}"
        )
    suffix = f".{name.rpartition('/')[2].rpartition('.')[2].lower()}" if "." in name else ""
    if suffix in exports.PAGE_SUFFIXES and not storage.is_remote(target):
        path = arguments.check_file_path("target", target)
        title = str(frame.receipt_of(df).get("subject") or path.stem)
        line = html.escape(frame.receipt_text(df, "line"))
        sheet = _sheet(df, _MAX_SAVED_ROWS).markup
        page = _PAGE.format(title=html.escape(title), line=line, sheet=sheet)
        storage.write_atomically(path, page.encode(errors="replace"))
        return path
    if name.endswith("/") or not suffix or Path(name).is_dir():
        exports.write_dataset(df, target)
        return Path(name).expanduser().absolute()
    exports.require_suffix("target", target, (*exports.SUFFIXES, *exports.PAGE_SUFFIXES))
    checked = cast("Path | str", arguments.check_out_path(target))
    exports.write(checked, frame.to_table(df), frame.receipt_of(df))
    return checked


# Formatters of IPython and marimo, which need no extension


_HTML: Final = "text/html"
_MARIMO_REGISTRIES: Final = ("OPINIONATED_FORMATTERS", "FORMATTERS")

HtmlFormatter = Callable[[Any], str | None]


def register_in_ipython() -> None:
    """Register the formatter in the shell of this process, if there is one.

    Imports nothing: a script that never loads IPython does not pay for it.
    """
    ipython: Any = sys.modules.get("IPython")
    get_shell = getattr(ipython, "get_ipython", None)  # missing while IPython is being imported
    shell = get_shell() if get_shell is not None else None
    if shell is not None:
        register(shell)


def register_in_pandas() -> None:
    """Print result frames that are too wide for pandas as compact texts."""

    def text(df: pd.DataFrame, most_rows: int) -> str | None:
        is_compact = is_result(df) and settings.current().compact_tables
        return compact_text(df, most_rows) if is_compact else None

    frame.ResultFrame.text_view = staticmethod(text)


def register_in_marimo() -> None:
    """Register the formatter in marimo, if this process runs a notebook of it.

    marimo has no public registry for a class of another package; where a release has renamed
    this one, frames are displayed as marimo does.
    """
    marimo: Any = sys.modules.get("marimo")
    formatting: Any = sys.modules.get("marimo._output.formatting")
    if marimo is None or formatting is None or not marimo.running_in_notebook():
        return
    for name in _MARIMO_REGISTRIES:
        formatters = getattr(getattr(formatting, name, None), "formatters", {})
        previous = formatters.get(frame.DATA_FRAME)
        if previous is not None and not isinstance(previous, MarimoFormatter):
            formatters[frame.DATA_FRAME] = MarimoFormatter(previous)


def register(shell: Any) -> None:
    """Register the formatter in a shell; a second call changes nothing."""
    html_formatter = shell.display_formatter.formatters[_HTML]
    previous = html_formatter.for_type(frame.DATA_FRAME)
    if not isinstance(previous, FrameFormatter):
        html_formatter.for_type(frame.DATA_FRAME, FrameFormatter(previous))


@dataclass(frozen=True, slots=True)
class FrameFormatter:
    """Formats result frames as compact tables, and other frames with the previous formatter."""

    previous: HtmlFormatter | None

    def __call__(self, df: pd.DataFrame) -> str | None:
        """Return the HTML of a frame, or None where the plain text is displayed."""
        html = self.previous(df) if self.previous is not None else cast("Any", df)._repr_html_()
        # None means that HTML is switched off for frames, which holds for result frames too.
        if html is None or not is_result(df) or not settings.current().compact_tables:
            return html
        return compact_html(df)


@dataclass(frozen=True, slots=True)
class MarimoFormatter:
    """Formats result frames as compact tables, and other frames as marimo does."""

    previous: Callable[[Any], tuple[str, str]]

    def __call__(self, df: pd.DataFrame) -> tuple[str, str]:
        """Return the MIME type and the content that marimo displays."""
        if is_result(df) and settings.current().compact_tables:
            return _HTML, compact_html(df)
        return self.previous(df)


def is_result(df: pd.DataFrame) -> bool:
    """Return whether the rows of a frame are those of a result.

    False for a pivot or an aggregation, which inherits the attrs of its source.
    """
    plain = df.index.nlevels == 1 and df.columns.nlevels == 1 and df.index.name is None
    has_rows = plain and (df.index.inferred_type == "integer" or df.empty)
    return has_rows and frame.has_receipt(df) and all(isinstance(name, str) for name in df.columns)


def compact_html(df: pd.DataFrame) -> str:
    """Return a result frame as a compact table."""
    leave_receipt_to_table(frame.receipt_text(df, "line"))
    return render(_view(df, first_rows(len(df))))


def _view(df: pd.DataFrame, most: int) -> FrameView:
    head = df.head(most)
    with_names = (*schemas.SCHEMAS.values(), changes_file.CHANGES_SCHEMA, ranks.RANKS_SCHEMA)
    # A query is an input, as those that a user added: it comes first.
    known = {name for schema in with_names for name in (*schema.names, "move")} - {"query"}
    columns, rows = [str(name) for name in df.columns], frame.to_lists(head)
    kind = frame.receipt_text(df, "kind")
    if kind == "cache":  # a listing, whose columns are in no schema
        known.update(columns)
    elif kind == "records":  # the values come first, then where they lead and what they are in
        minor = re.compile(r"url|record|group|_source|(?:.*_)?(?:url|link|image|currency)(?:_\d+)?")
        known = {name for name in columns if minor.fullmatch(name)}
    return FrameView(
        columns=columns,
        rows=rows,
        total=len(df),
        empty=frame.empty_columns(df),
        known=known,
        index=frame.labels(head),
        line=frame.receipt_text(df, "line"),
        hosts=[tables.common_host(row[n] for row in rows) for n in range(len(columns))],
    )


# Compact tables: the first rows and the most useful columns


MAX_ROWS: Final = 20
_FIRST_ROWS: Final = 10
_MAX_COLUMNS: Final = 7
# In pixels, for a wide font of 13 px: an output has about 830 px in a window of 1000 px.
_WIDTH: Final = 830
_CHARACTER: Final = 7
_BOLD_CHARACTER: Final = 8
_PADDING: Final = 12
_TEXT_WIDTH: Final = 104
_LONGEST_URL: Final = 34
_LONGEST_PATH: Final = 40
_LONGEST_URL_OF_FEW: Final = 80
_FEW_COLUMNS: Final = 3
_ENOUGH_COLUMNS: Final = 4
_LONGEST_TEXT: Final = 180
_ONE_LINE: Final = 18
_ONE_WORD: Final = 40
_HOVER: Final = 600
_PICTURES: Final = 20
_PICTURE_SIDE: Final = 72
_DECIMALS: Final = 2
# Two lines of a text, in a box that no ordinary word is wider than.
_TEXT_BOX: Final = (
    "min-width:8em;max-width:40em;white-space:normal;overflow-wrap:anywhere;overflow:hidden;"
    "display:-webkit-box;-webkit-line-clamp:2;-webkit-box-orient:vertical;text-align:start"
)

# The columns that readers look at first, and those that they look at last.
_LEADING: Final = (
    *("rank", "job_id", "position", "change", "url", "link", "field", "old", "new", "evidence"),
    *("title", "type", "subject", "error", "extract"),
    *("snippet", "status_code", "depth"),
    *("time_taken", "markdown", "preview", "assets", "headline", "advertiser_name", "format"),
    *("first_shown", "last_shown", "days_shown", "screenshot", "links", "headings", "images"),
    *("status", "total", "completed", "created_at", "advertiser_id", "name", "domain", "region"),
    *("html", "text"),
)
_TRAILING: Final = (
    *("success", "scraped", "fetched_at", "content_hash", "quality", "id"),
    *("structured_data", "raw_html", "metadata", "extra"),
)
_NAMING: Final = ("rank", "position", "change", "url", "title", "field")
_RENDERED: Final = ("markdown",)


@dataclass(frozen=True, slots=True)
class FrameView:
    """The rows of a frame that a table may show, and what it says about the others.

    `known` are the columns that functions of this package return, as opposed to those that
    a user added. `index` holds the labels of the rows unless they are 0, 1, 2 and so on. `hosts`
    has the host that the URLs of a column share, for each column.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    total: int
    empty: Collection[str] = ()
    known: Collection[str] = ()
    index: Sequence[object] | None = None
    line: str = ""
    hosts: Sequence[str] = ()

    def host(self, place: int) -> str:
        """Return the host that the URLs of a column leave out."""
        return self.hosts[place] if self.hosts else ""


def first_rows(total: int) -> int:
    """Return how many of the rows of a frame are shown."""
    return total if total <= MAX_ROWS else _FIRST_ROWS


def render(view: FrameView) -> str:
    """Return the table, with a note on columns that it leaves out, and the receipt line."""
    are_few = len(view.columns) <= _MAX_COLUMNS
    room = math.inf if are_few else _WIDTH
    places = _choose(view, room, lambda place: _width(view, place))
    head = "" if view.index is None else f'<td style="{tables.SHORT}"></td>'
    for place in places:
        numbers = [row[place] for row in view.rows if not tables.is_missing(row[place])]
        is_numeric = bool(numbers) and all(map(tables.is_number, numbers))
        head += tables.header(view.columns[place], tables.NUMBER if is_numeric else tables.SHORT)
    cells = _Cells(
        PictureBudget(_PICTURES, _PICTURE_SIDE),
        len(places) <= _FEW_COLUMNS,
        frozenset(
            view.columns[place]
            for place in places
            if any(
                isinstance(row[place], float) and not row[place].is_integer() for row in view.rows
            )
        ),
    )
    body = ""
    for number, row in enumerate(view.rows):
        markup = "".join(
            cells.cell(view.columns[place], row[place], view.host(place)) for place in places
        )
        if view.index is not None:
            label = html.escape(tables.middle(str(view.index[number]), _ONE_LINE))
            markup = f'<th scope="row" style="{tables.SHORT};font-weight:400">{label}</th>{markup}'
        body += f'<tr style="{tables.ROW}">{markup}</tr>'
    return table_markup(head, body, _notes(view, places))


def _notes(view: FrameView, places: Sequence[int]) -> list[str]:
    """Return the size of the frame, the columns that are not shown, hosts, and the receipt."""
    hidden = [name for place, name in enumerate(view.columns) if place not in places]
    parts = [f"{counted(view.total, 'row')} of {len(view.columns)} columns"]
    if len(view.rows) < view.total:
        parts.append(f"the first {len(view.rows)} rows are shown")
    if more := [name for name in hidden if name not in view.empty]:
        parts.append(f"more columns: {', '.join(more)}")
    if empty := [name for name in hidden if name in view.empty]:
        parts.append(f"empty: {', '.join(empty)}")
    hosts = tables.host_note((view.columns[place], view.host(place)) for place in places)
    return ["; ".join(parts), hosts, view.line]


# ------------------------------------------------------------------------------------- columns


def _choose(view: FrameView, room: float, width_of: Callable[[int], int]) -> list[int]:
    """Return the columns to show: all of a few, else the most useful ones that fit the room."""
    places = range(len(view.columns))
    if len(places) <= _MAX_COLUMNS and sum(map(width_of, places)) <= room:
        return list(places)
    chosen: list[int] = []
    width = 0
    for place in sorted(range(len(view.columns)), key=lambda each: _usefulness(view, each)):
        name, needed = view.columns[place], width_of(place)
        # A row with `success` needs no status, that of a job has nothing else.
        is_repeated = name == "status" and "success" in view.columns
        is_blank = bool(view.rows) and all(tables.is_missing(row[place]) for row in view.rows)
        is_minor = name in _TRAILING and len(chosen) >= _ENOUGH_COLUMNS
        if is_repeated or is_blank or is_minor or (chosen and width + needed > room):
            continue
        chosen.append(place)
        width += needed
        if len(chosen) == _MAX_COLUMNS:
            break
    return sorted(chosen, key=lambda each: _reading_order(view, each))


def _usefulness(view: FrameView, place: int) -> tuple[int, int]:
    """Return the rank of a column: those that a user added come first."""
    name = view.columns[place]
    if name not in view.known:
        return 0, place
    if name in _LEADING:
        return 1, _LEADING.index(name)
    return (3, _TRAILING.index(name)) if name in _TRAILING else (2, place)


def _reading_order(view: FrameView, place: int) -> tuple[int, int, int]:
    """Return the position in the table: inputs, what names a row, added columns, and the rest."""
    name = view.columns[place]
    if name in view.known:
        return (1 if name in _NAMING else 3), *_usefulness(view, place)
    known = [at for at, each in enumerate(view.columns) if each in view.known]
    is_input = place < min(known, default=place)
    return (0 if is_input else 2), 0, place


def _width(view: FrameView, place: int) -> int:
    """Return the least width of a column in pixels."""
    name = view.columns[place]
    cells = [row[place] for row in view.rows]
    host = view.host(place)
    return _PADDING + max(
        len(name) * _BOLD_CHARACTER,
        *(_cell_width(name, each, host) for each in cells),
        0,
    )


def _cell_width(column: str, value: Any, host: str) -> int:
    if isinstance(value, bytes):
        return _PICTURE_SIDE
    if not isinstance(value, str | dict):
        text = "" if tables.is_missing(value) else _plain(column, value)
        return len(text) * _CHARACTER
    if isinstance(value, str) and tables.is_web_address(value):
        longest = _LONGEST_PATH if host else _LONGEST_URL
        shown = tables.shown_url(value, longest=longest, host=host)
        return display_width(shown) * _CHARACTER
    if isinstance(value, str) and _is_short(value):
        return display_width(value) * _CHARACTER
    return _TEXT_WIDTH


# --------------------------------------------------------------------------------------- cells


@dataclass(frozen=True, slots=True)
class _Cells:
    """Renders the cells of one table."""

    pictures: PictureBudget
    are_few: bool
    fractional_columns: frozenset[str]

    def cell(self, column: str, value: Any, host: str) -> str:
        style = tables.NUMBER if tables.is_number(value) else tables.SHORT
        return f'<td style="{style}">{self._content(column, value, host)}</td>'

    def _content(self, column: str, value: Any, host: str) -> str:
        if tables.is_missing(value):
            return ""
        if (picture := self.pictures.picture(column, value)) is not None:
            return picture
        if isinstance(value, str):
            longest = _LONGEST_PATH if host else _LONGEST_URL
            most = _LONGEST_URL_OF_FEW if self.are_few else longest
            url = tables.link(value, longest=most, host=host)
            return url or _text(first_line(value) if column in _RENDERED else value)
        if isinstance(value, dict):
            return _text(json.dumps(value, ensure_ascii=False, default=str))
        decimals = _DECIMALS if column in self.fractional_columns else 0
        return html.escape(_plain(column, value, decimals))


def _plain(column: str, value: Any, decimals: int = 0) -> str:
    if isinstance(value, list):
        return tables.counted(column, value)
    return tables.plain(column, value, decimals=decimals)


def _is_short(words: str) -> bool:
    width = display_width(words)
    # Wide characters need no space to wrap.
    return width <= (_ONE_LINE if " " in words or width > len(words) else _ONE_WORD)


def _text(text: str) -> str:
    """Return the beginning of a text; the pointer shows more of it."""
    words = " ".join(text[: _HOVER * 2].split())
    if _is_short(words):
        return tables.short_text(words)
    cut = words if len(words) <= _LONGEST_TEXT else f"{words[: _LONGEST_TEXT - 1]}…"
    hover = html.escape(words[:_HOVER])
    return f'<div dir="auto" style="{_TEXT_BOX}" title="{hover}">{html.escape(cut)}</div>'


def first_line(markdown: str) -> str:
    r"""Return the first line below the headline, without the marks of headings and lists.

    The headline itself if nothing follows.

    Examples
    --------
    >>> first_line("\n# The **moss** garden\n\nWelcome, *visitor*")
    'Welcome, visitor'
    """
    beginning = markdown[: _HOVER * 4].lstrip()
    for _ in range(2):  # a picture may be inside a link
        beginning = re.sub(r"!?\[([^\[\]]*)\]\([^()\n]*\)", r"\1", beginning)
    lines = [line for line in beginning.splitlines() if re.search(r"\w", line)]
    below = (line for line in lines if not line.startswith("# "))
    line = next(below, lines[0] if lines else "")
    plain = re.sub(r"^[\s#>*+-]+|(?<!\\)[*`]{1,3}", "", line).strip()
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", plain)  # escaped marks


# Compact text, for terminals and `print`


_TEXT_COLUMNS: Final = 80
_LONGEST_CELL: Final = 29
# The last one is for the columns that fit, where even the shortest are too long.
_LONGEST_CELLS_OF_FEW: Final = (60, 40, 30, 24, 18, _LONGEST_CELL)
_IDENTIFIER: Final = 36  # such as that of a job, which nobody could copy in parts
_GAP: Final = 2


def compact_text(df: pd.DataFrame, most_rows: int) -> str:
    """Return the first rows of a result frame as text that is no wider than a terminal.

    Of a few columns all are there, in their order and with shorter texts if need be.
    """
    room = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else _TEXT_COLUMNS
    view = _view(df, most_rows)
    labels = [str(number) for number in df.index[: len(view.rows)]]
    label_width = max(map(display_width, ["", *labels]))
    columns: list[list[str]] = []

    def width(place: int) -> int:
        return _GAP + max(map(display_width, columns[place]))

    are_few = len(view.columns) <= _MAX_COLUMNS
    for longest in _LONGEST_CELLS_OF_FEW if are_few else (_LONGEST_CELL,):
        columns = [
            [name, *(_text_cell(name, row[place], view.host(place), longest) for row in view.rows)]
            for place, name in enumerate(view.columns)
        ]
        if sum(map(width, range(len(columns)))) <= room - label_width:
            break
    places = _choose(view, room - label_width, width)
    lines = []
    for number, label in enumerate(["", *labels]):
        cells = [label + " " * (label_width - display_width(label))]
        for place in places:
            cell = columns[place][number]
            pad = " " * (width(place) - _GAP - display_width(cell))
            is_numeric = any(tables.is_number(row[place]) for row in view.rows)
            cells.append(f"{pad}{cell}" if is_numeric else f"{cell}{pad}")
        lines.append((" " * _GAP).join(cells).rstrip())
    notes = _notes(view, places)
    wrapped = [line for note in notes if note for line in textwrap.wrap(note, room)]
    return encodable("\n".join([*lines, *wrapped]))


def _text_cell(column: str, value: Any, host: str, longest: int) -> str:
    """Return a value on one line, without control characters."""
    if tables.is_missing(value):
        return ""
    if isinstance(value, str):
        if tables.is_web_address(value):
            return isolated(tables.shown_url(value, longest=longest, host=host))
        text = first_line(value) if column in _RENDERED else value
        words = printable_line(" ".join(text.split()))
        if display_width(words) > (longest if " " in words else max(longest, _IDENTIFIER)):
            words = f"{tables.head(words, longest - 1)}…"
        return isolated(words)
    if isinstance(value, dict):
        return tables.middle(json.dumps(value, ensure_ascii=False, default=str), longest)
    return _plain(column, value)


# Findings of an audit


def audit_report(findings: pd.DataFrame, path: str | Path) -> Path:
    """Write the findings of an audit as one HTML page, for people without Python.

    The page has no scripts and loads nothing: it can be sent and kept. It begins with the ten kinds
    that matter most, and has up to 100 findings of each; the frame has all.

    Parameters
    ----------
    findings
        What `audit_df` returned, also a part of it.
    path
        The file; its directory must exist.

    Returns
    -------
    pathlib.Path
        The file, which appears complete or not at all.

    Raises
    ------
    InvalidArgument
        `findings` has other columns or values, or the file cannot be there.

    Examples
    --------
    >>> findings = audit_df(crawl_df(start_url, max_pages=5, audit=True))
    >>> audit_report(findings, "audit.html").name
    'audit.html'
    """
    _require_findings(findings)
    target = arguments.check_file_path("path", path)
    exports.require_suffix("path", path, exports.PAGE_SUFFIXES)
    meanings = {kind.name: kind.meaning for kind in issue_kinds().values()}
    subject = frame.receipt_text(findings, "subject")
    text = report_html(_report_kinds(findings), meanings, subject=subject, pages=_pages(findings))
    storage.write_atomically(target, text.encode())
    return target


def plot_audit(findings: pd.DataFrame) -> Figure:
    """Draw how many findings of each kind an audit has, coloured by severity, by priority.

    Needs the extra `plot`.

    Parameters
    ----------
    findings
        What `audit_df` returned, also a part of it. A finding of a site or a group counts as those
        that it stands for.

    Returns
    -------
    matplotlib.figure.Figure
        A notebook shows it when it is the last value of a cell; `savefig` writes it to a file.
        Its `alt_text` describes it.

    Raises
    ------
    InvalidArgument
        `findings` has other columns or values.
    MissingExtra
        matplotlib is not installed.

    Examples
    --------
    >>> findings = audit_df(crawl_df(start_url, max_pages=5, audit=True))
    >>> plot_audit(findings).axes[0].get_xlabel()
    'findings'
    """
    _require_findings(findings)
    kinds = _report_kinds(findings)
    counts = [
        plots.KindCount(
            rows[0].issue,
            rows[0].severity,
            sum(row.stands_for for row in rows),
            is_sitewide=any(row.scope == "site" for row in rows),
        )
        for rows in kinds
    ]
    subject = frame.receipt_text(findings, "subject")
    title = f"Audit of {subject}" if subject else "Site audit"
    pages = _pages(findings)
    of_pages = "" if pages is None else f", {pages:,} pages"
    total = sum(each.findings for each in counts)
    return plots.audit_figure(counts, f"{title}: {total:,} findings{of_pages}")


def _require_findings(findings: object) -> None:
    frame.require_frame(findings)
    columns = getattr(findings, "columns", ())
    if missing := [name for name in FINDING_COLUMNS if name not in columns]:
        raise InvalidArgument(
            f"findings must be what audit_df returned, with {missing[0]}; "
            f"it is {format_value(findings)}"
        )


def _report_kinds(findings: pd.DataFrame) -> list[list[ReportRow]]:
    """Return the findings of each kind, those kinds first of which a finding matters most."""
    order = {name: place for place, name in enumerate(issue_kinds())}
    kinds: dict[str, list[ReportRow]] = {}
    columns = [frame.column_values(findings[name]) for name in FINDING_COLUMNS]
    for values in zip(*columns, strict=True):
        cells = dict(zip(FINDING_COLUMNS, values, strict=True))
        texts = {name: "" if cells[name] is None else str(cells[name]) for name in _TEXT_CELLS}
        numbers = {
            name: cells[name] if isinstance(cells[name], int) else 0 for name in _NUMBER_CELLS
        }
        row_values: dict[str, Any] = {
            **texts,
            **numbers,
            "found_on": listed_urls(cells["found_on"]),
        }
        row = ReportRow(**row_values)
        kinds.setdefault(row.issue, []).append(row)
    for rows in kinds.values():
        rows.sort(key=lambda row: (-row.priority, -row.reach))
    return sorted(
        kinds.values(),
        key=lambda rows: (
            -rows[0].priority,
            -sum(row.reach for row in rows),
            order.get(rows[0].issue, len(order)),
        ),
    )


def _pages(findings: pd.DataFrame) -> int | None:
    """Return how many pages were audited, if the findings say so."""
    pages = frame.receipt_of(findings).get("pages")
    return pages if isinstance(pages, int) else None


# The page of an audit: no scripts, and nothing from elsewhere


# Findings of one kind that are listed one by one.
MAX_LISTED: Final = 100
# Kinds at the beginning of the page.
TOP_KINDS: Final = 10
_MAX_SOURCES: Final = 5
# Findings of a kind that are shown without a click.
_MAX_OPEN: Final = 10
_MAX_EVIDENCE: Final = 300
_SCHEMES: Final = ("http://", "https://")


_TEXT_CELLS: Final = ("issue", "severity", "scope", "url", "evidence")
_NUMBER_CELLS: Final = ("priority", "count", "reach")


@dataclass(frozen=True, slots=True)
class ReportRow:
    """A finding, as the report shows it."""

    issue: str
    severity: str
    scope: str
    url: str
    evidence: str
    found_on: Sequence[str]
    priority: int
    count: int
    reach: int

    @property
    def stands_for(self) -> int:
        """The findings of single pages that it stands for."""
        return 1 if self.scope == "page" else self.count


def report_html(
    kinds: Sequence[Sequence[ReportRow]],
    meanings: Mapping[str, str],
    *,
    subject: str,
    pages: int | None,
) -> str:
    """Return the page.

    Parameters
    ----------
    kinds
        The findings of each kind.
    meanings
        What is wrong, for each kind.
    subject
        The audited site, whose address links do not repeat.
    pages
        The number of its pages, if it is known.
    """
    title = f"Audit of {subject}" if subject else "Site audit"
    counts = []
    for severity in SEVERITIES:
        number = sum(row.stands_for for rows in kinds for row in rows if row.severity == severity)
        if number:
            plural = "s" * (number != 1)
            counts.append(f'<span class="{severity}">{number:,} {severity}{plural}</span>')
    found = ", ".join(counts) if kinds else "No findings"
    of_pages = "" if pages is None else f" about {counted(pages, 'page')}"
    sitewide = sum(any(row.scope == "site" for row in rows) for rows in kinds)
    kinds_hold = "kind of which holds" if sitewide == 1 else "kinds of which hold"
    folded = f", {sitewide:,} {kinds_hold} for the whole site" if sitewide else ""
    origin = "/".join(subject.split("/")[:3])
    first, others = kinds[:TOP_KINDS], kinds[TOP_KINDS:]
    body = [
        f"<h1>{_escaped(title)}</h1><p>{found}{of_pages}{folded}</p>",
        _summary(first, meanings, origin, "What matters most"),
        _summary(others, meanings, origin, "Other findings"),
        "<h2>All findings</h2>" if kinds else "",
        *(_details(rows, meanings.get(rows[0].issue, ""), origin) for rows in kinds),
    ]
    style = Path(__file__).with_name("audit_report.css").read_text("utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<meta name="referrer" content="no-referrer">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{_escaped(title)}</title><style>\n{style}</style></head>\n<body>"
        f"{''.join(body)}</body></html>\n"
    )


def _summary(
    kinds: Sequence[Sequence[ReportRow]], meanings: Mapping[str, str], origin: str, title: str
) -> str:
    """Return a line for each kind: what is wrong, where most of all, and how often."""
    if not kinds:
        return ""
    lines = []
    for rows in kinds:
        worst, total = rows[0], sum(row.stands_for for row in rows)
        where = _escaped(_shortened(worst.evidence.replace(f"{origin}/", "/")))
        if worst.scope == "page":
            linked = f", linked from {worst.count:,} pages" if worst.reach > 1 else ""
            where = f"{_link(worst.url, origin)}{linked}"
        issue = _escaped(worst.issue)
        lines.append(
            f'<tr><td class="n">{worst.priority}</td><td class="kind"><a href="#{issue}">{issue}'
            f'</a><br><span class="{_escaped(worst.severity)}">{_escaped(worst.severity)}</span>'
            f"</td><td>{_escaped(meanings.get(worst.issue, ''))}<br>"
            f'<span class="soft">{where}</span></td><td class="n">{total:,}</td></tr>'
        )
    head = (
        '<th class="n">priority</th><th class="kind">issue</th><th>meaning, and where</th>'
        '<th class="n">findings</th>'
    )
    return (
        f"<h2>{title}</h2><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>\n"
    )


def _details(rows: Sequence[ReportRow], meaning: str, origin: str) -> str:
    """Return the findings of a kind."""
    lines = []
    for row in rows[:MAX_LISTED]:
        sources = "<br>".join(_link(each, origin) for each in row.found_on[:_MAX_SOURCES])
        hidden = (row.count if row.scope != "page" else len(row.found_on)) - _MAX_SOURCES
        more = f"<br>and {hidden:,} more" if hidden > 0 else ""
        where = {"site": "the whole site", "group": "one cause"}.get(row.scope)
        lines.append(
            f"<tr><td>{where or _link(row.url, origin)}</td>"
            f"<td>{_escaped(_shortened(row.evidence.replace(f'{origin}/', '/')))}</td>"
            f'<td>{sources}{more}</td><td class="n">{row.count:,}</td></tr>'
        )
    issue, severity = _escaped(rows[0].issue), _escaped(rows[0].severity)
    hidden = len(rows) - MAX_LISTED
    rest = f'<p>and {hidden:,} more: <code>findings[findings["issue"] == "{issue}"]</code></p>'
    head = '<th>page</th><th>evidence</th><th>found on, examples</th><th class="n">count</th>'
    total = sum(row.stands_for for row in rows)
    return (
        f'<details id="{issue}"{" open" if len(rows) <= _MAX_OPEN else ""}><summary>'
        f'<b class="{severity}">{issue}</b> {_escaped(meaning)} ({total:,})</summary>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
        f"{rest if hidden > 0 else ''}</details>\n"
    )


def _link(url: str, origin: str) -> str:
    """Return a link to a web address, named by its path on the same site; else text."""
    if not url.startswith(_SCHEMES):
        return _escaped(url)
    name = url.removeprefix(origin) if origin and url.startswith(f"{origin}/") else url
    return f'<a href="{_escaped(url)}" rel="noreferrer nofollow">{_escaped(name)}</a>'


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_EVIDENCE else f"{text[: _MAX_EVIDENCE - 1]}…"


def _escaped(text: str) -> str:
    """Escape a text, and replace control characters, which could hide what follows."""
    plain = "".join(each if each.isprintable() or each == " " else "\ufffd" for each in text)
    return html.escape(plain)


# Figures


_UNITS: Final = {"time_taken": " (seconds)", "depth": " (clicks)"}


def plot_crawl(df: pd.DataFrame, *, color: str = "status") -> Figure:
    """Draw a crawl: the folders of the site, and its pages by clicks from the start.

    The folders are drawn as an icicle plot: each box is as high as it has pages, and the boxes of
    what is inside are next to it, up to three levels. Small ones are grouped by how their names
    begin (`sql-*`), and the rest as "… 46 more". Addresses that differ in their query string only
    are one page of the tree. On the right, how many pages are how many clicks away. Needs the extra
    `plot`.

    Parameters
    ----------
    df
        A frame of `crawl_df`, also with columns of your own.
    color
        What the colours show: `"status"` for the HTTP answers, or the name of a column. Each box
        has a stripe with the shares of the values; of a column of numbers, such as `time_taken`
        (seconds), it has the colour of their mean.

    Returns
    -------
    matplotlib.figure.Figure
        A notebook shows it when it is the last value of a cell; `savefig` writes it to a file.
        Its `alt_text` describes it.

    Raises
    ------
    InvalidArgument
        `df` is no frame of a crawl, or `color` is none of its columns.
    MissingExtra
        matplotlib is not installed.

    Examples
    --------
    >>> figure = plot_crawl(crawl_df(start_url, max_pages=5))
    >>> len(figure.axes)
    2
    """
    places = derive.pages(df)
    by_column = derive.check_color(df, color)
    numbers = None if by_column == "status" else derive.numbers(df, by_column)
    if numbers is not None:
        values = zip(places, numbers, strict=True)
        pages = [SitePage(path, depth, number=number) for (path, depth), number in values]
        unit = _UNITS.get(by_column, "")
        colors = SiteColors(f"{by_column}{unit}", {})
    else:
        if by_column == "status":
            named: Sequence[str | None] = [
                plots.status_label(code, success=success) for code, success in derive.statuses(df)
            ]
            palette: Mapping[str, str] = plots.STATUSES
        else:
            named = derive.categories(df, by_column)
            palette = plots.category_colors(named)
        pages = [
            SitePage(path, depth, name if name is None or name in palette else plots.OTHER)
            for (path, depth), name in zip(places, named, strict=True)
        ]
        colors = SiteColors(by_column, palette)
    return plots.site_figure(pages, frame.receipt_text(df, "subject") or "Crawl", colors)


def plot_ranks(history: pd.DataFrame, *, max_lines: int | None = None) -> Figure:
    """Draw ranks over time, with rank 1 at the top: of a site for many queries, or of all results.

    Of `rank_df`, up to six series are in one plot, and more of them in a panel each. What is not
    among the results is in a band below the last rank. A search that failed has a cross and makes a
    gap. The figure names the last rank of each series, and how many ranks it has gained or lost
    since the first snapshot.

    Of one search, each result is a line. Markers show where it enters and where it was last seen. A
    result with another spelling of its URL (`www.`, `http`) is the same line, as in `serp_diff`.

    Needs the extra `plot`.

    Parameters
    ----------
    history
        Snapshots of `rank_df`: one, those of its file, or `history_df(rank_df, ...)`. Or what
        `history_df(search_df, query, ...)` returns, of one search.
    max_lines
        Of ranks, the number of series, those that moved most (default 60); the title says how many
        there are. Of one search, the number of results in colour, those with the best ranks
        (default 10); the others are grey.

    Returns
    -------
    matplotlib.figure.Figure
        A notebook shows it when it is the last value of a cell; `savefig` writes it to a file.
        Its `alt_text` describes it.

    Raises
    ------
    InvalidArgument
        `history` is neither of ranks nor of one search, or has no row.
    MissingExtra
        matplotlib is not installed.

    Examples
    --------
    >>> df = search_df("aurora forecast", formats=[])
    >>> figure = plot_ranks(history_df(search_df, "aurora forecast", formats=[]))
    >>> figure.axes[0].get_ylabel()
    'rank'
    """
    most = None if max_lines is None else arguments.check_count("max_lines", max_lines)
    if ranks.has_ranks(history):
        times = [each.at for each in ranks.snapshots_of(history)]
        every = [RankTrack(name, tuple(states)) for name, states in ranks.rank_tracks(history)]
        if not every:
            raise InvalidArgument("the frame has no rank: run rank_df first")
        moved = sorted(range(len(every)), key=lambda n: (-abs(every[n].gain), n))
        shown = [every[n] for n in sorted(moved[: most or plots.MAX_PANELS])]
        subject = ranks.sites_text(list(dict.fromkeys(history["site"])))
        queries = len(history["query"].drop_duplicates())
        title = f"{subject}: ranks of {queries} quer{'y' if queries == 1 else 'ies'}"
        title += f" ({len(every)} series)" if len(every) > queries else ""
        title += f" in {len(times)} snapshot{'s' * (len(times) != 1)}"
        if len(shown) < len(every):
            title += f"; the {len(shown)} that moved most"
        return plots.tracks_figure(times, shown, title, wanted=int(history["num_results"].max()))
    snapshots = derive.snapshots(history)
    tracks = plots.rank_series([ranks for _, ranks in snapshots])
    if not tracks:
        raise InvalidArgument("the history has no result: run the search first")
    subject = frame.receipt_text(history, "subject") or "search"
    title = f"{subject}: ranks in {len(snapshots)} snapshot{'s' * (len(snapshots) != 1)}"
    return plots.rank_figure([at for at, _ in snapshots], tracks, title, most=most or 10)
