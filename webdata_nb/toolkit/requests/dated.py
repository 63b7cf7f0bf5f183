"""Reads the options of times in the past: `as_of`, `source` and `max_distance`, `start`, `end`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.requests.options import DatedOptions


def dated_options(options: Mapping[str, Any]) -> DatedOptions | None:
    """Return the options of a crawl with `as_of` as the request has them; None without it.

    Raises
    ------
    InvalidArgument
        One of them has another type, or needs `as_of`; nothing was sent.
    """
    names = DatedOptions.__annotations__
    values = {name: options[name] for name in names if options.get(name) is not None}
    if "as_of" not in values:
        if values:
            raise InvalidArgument(f"{next(iter(values))} has a meaning only with as_of: pass both")
        return None
    values["as_of"] = time_text("as_of", values["as_of"])
    distance = values.get("max_distance")
    if isinstance(distance, timedelta):
        values["max_distance"] = distance / timedelta(days=1)
    return cast("DatedOptions", values)


def time_text(name: str, value: object) -> str:
    """Return a time as requests have it; one without a time zone is in UTC.

    Raises
    ------
    InvalidArgument
        It is no text, date or datetime.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        at = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return at.isoformat(timespec="seconds")
    if isinstance(value, date):
        return value.isoformat()
    raise InvalidArgument(
        f'{name} must be a date or time, such as "2024-06-01"; it is {format_value(value)}'
    )
