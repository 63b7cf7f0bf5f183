"""The receipt of a frame as a dict that is readable when it is printed or displayed."""

from __future__ import annotations

import copy
import html
from collections.abc import Mapping
from typing import Any, Final

from webdata_nb.toolkit.frames.json_text import dumps
from webdata_nb.toolkit.terminal_text import encodable

# Of a text, which may be a path to copy, and of the entries of a dict or list.
_LONGEST_TEXT: Final = 400
_LONGEST_ENTRIES: Final = 160
_CELL: Final = (
    "padding:2px 6px;text-align:left;vertical-align:top;border:0;overflow-wrap:anywhere;"
    "white-space:"
)


class CallReceipt(dict[str, Any]):
    """A dict of plain JSON values, which prints as one line for each of them.

    Its pickle holds a plain dict, so that it is read without this package.

    Examples
    --------
    >>> CallReceipt(kind="crawl", counts={"rows": 3, "failed": 0}, file=None)
    kind    crawl
    counts  rows 3, failed 0
    """

    def __repr__(self) -> str:
        lines = self._lines()
        width = max((len(name) for name in lines), default=0)
        return encodable("\n".join(f"{name:{width}}  {text}" for name, text in lines.items()))

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr style="background:none"><th scope="row" style="{_CELL}nowrap">'
            f'{html.escape(name)}</th><td style="{_CELL}normal">{html.escape(text)}</td></tr>'
            for name, text in self._lines().items()
        )
        return (
            '<table style="border-collapse:collapse;margin:0;font-family:sans-serif;'
            f'font-size:13px;color:inherit"><tbody>{rows}</tbody></table>'
        )

    def _lines(self) -> dict[str, str]:
        """Return each value that is present as text, the summary first."""
        ordered = {"line": self.get("line"), **self}
        texts = {name: _line(value) for name, value in ordered.items()}
        return {name: text for name, text in texts.items() if text}

    def __deepcopy__(self, memo: dict[int, Any]) -> CallReceipt:
        return CallReceipt(copy.deepcopy(dict(self), memo))

    def __reduce_ex__(self, _protocol: object) -> tuple[object, ...]:
        return dict, (dict(self),)


def _text(value: object) -> str:
    if value is None or value in ({}, []):
        return ""
    if isinstance(value, Mapping):
        named = ((name, _text(entry)) for name, entry in value.items())
        return ", ".join(f"{name} {text}" for name, text in named if text)
    if isinstance(value, list):
        return ", ".join(map(_text, value)) if _is_flat(value) else dumps(value)
    return str(value)


def _is_flat(values: list[object]) -> bool:
    return not any(isinstance(value, Mapping | list) for value in values)


def _line(value: object) -> str:
    """Return a value on one line, which is cut if it is long."""
    words = " ".join(_text(value).split())
    longest = _LONGEST_TEXT if isinstance(value, str) else _LONGEST_ENTRIES
    return words if len(words) <= longest else f"{words[: longest - 1]}…"
