"""What the service writes about itself: lines for people, or one JSON object a line."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, Literal

import orjson

Shape = Literal["text", "json"]
# The request that is being answered, "" outside of one.
REQUEST_ID: Final[ContextVar[str]] = ContextVar("webdata_request_id", default="")


class _Text(logging.Formatter):
    """A line for people; what a site or caller sent cannot begin another."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """Return the line, with the request that it belongs to."""
        line = super().formatMessage(record)
        request = REQUEST_ID.get()
        shown = "".join(mark if mark.isprintable() else " " for mark in line)
        return f"{shown} [{request}]" if request else shown


class _Json(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object; what a record's `fields` hold is part of it."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **vars(record).get("fields", {}),
        }
        if request := REQUEST_ID.get():
            told["request_id"] = request
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(told, default=str).decode()


def set_up(shape: Shape) -> None:
    """Send everything from INFO on to standard error, in this shape."""
    handler = logging.StreamHandler()
    text = _Text("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(_Json() if shape == "json" else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # A line for each request is for machines that collect them; on a laptop it would be noise.
    requests = logging.INFO if shape == "json" else logging.WARNING
    logging.getLogger("webdata_nb.service.requests").setLevel(requests)
