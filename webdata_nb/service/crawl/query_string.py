"""The query of a URL as parameters, as they are written. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote


class QueryParameter(NamedTuple):
    """One `name=value` of a query, the name in lower case without its percent-encoding."""

    name: str
    written: str


def split_query(url: str) -> tuple[str, tuple[QueryParameter, ...]]:
    """Return a URL up to its query, and the parameters of the query."""
    path, mark, query = url.partition("?")
    if not mark:
        return path, ()
    return path, tuple(
        QueryParameter(unquote(part.partition("=")[0]).lower(), part)
        for part in query.replace(";", "&").split("&")
        if part
    )


def normalized_url(path: str, parameters: Iterable[QueryParameter]) -> str:
    """Return the one form of a URL with these parameters, whatever their order was."""
    query = "&".join(sorted(each.written for each in parameters))
    return f"{path}?{query}" if query else path
