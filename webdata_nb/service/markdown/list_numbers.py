"""Ordered lists made ready for Markdown, which counts up from its first number.

The writer gives a list up as HTML where its numbers say anything else. Its items are worth more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from webdata_nb.service.content.parser import Element

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBER: Final = re.compile(r"\s*\+?\d{1,9}(?!\d)")  # as HTML reads one, and Markdown can write it


def prepare_numbers(lists: Iterable[Element]) -> None:
    """Take off what makes a list count otherwise; the number that it starts with stays."""
    for each in lists:
        _drop(each, "reversed")
        if _NUMBER.match(each.attr("start") or "0") is None:
            _drop(each, "start")
        items = (item for item in each.children if isinstance(item, Element))
        for place, item in enumerate(items):
            value = item.attr("value")
            if value is not None and (place or _NUMBER.match(value) is None):
                _drop(item, "value")


def _drop(element: Element, name: str) -> None:
    if element.attr(name) is not None:
        del element.attrs[name]
