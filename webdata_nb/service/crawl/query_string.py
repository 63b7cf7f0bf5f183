"""Splits a URL into its path and query parameters, and puts it together in a fixed order. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote


class QueryParameter(NamedTuple):
    """One `name=value` of a query.

    `name` is in lower case and decoded, `text` is the parameter as written in the URL.
    """

    name: str
    text: str


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
    """Return the URL with these parameters in sorted order."""
    query = "&".join(sorted(parameter.text for parameter in parameters))
    return f"{path}?{query}" if query else path
