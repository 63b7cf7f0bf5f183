"""Configures logs as text or JSON lines, and writes named events with fields.

With JSON, every line of the standard error of a command is one object. What does not use `logging`
(children, libraries in C, the interpreter) writes to a pipe, and a thread logs it. The processes of
a local Dask cluster write their own JSON lines to the same pipe, each with a mark that only they
know from their environment: what a page does to the process that reads it cannot forge an event.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import re
import secrets
import select
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Literal, TextIO
from urllib.parse import urlsplit

import orjson

from webdata_nb.contract.choices import KeyScope

LogFormat = Literal["text", "json"]
Event = Literal[
    "job_started",
    "job_ended",
    "job_stalled",
    "call_ended",
    "request_refused",
    "connection_refused",
    "provider_resting",
    "provider_recovered",
    "page_retried",
]
PACKAGE: Final = "webdata_nb"
EVENTS: Final = "webdata_nb.service.events"
MAX_REASON_CHARS: Final = 300
# Shortest interval between repeated events.
REPEAT_INTERVAL_S: Final = 60.0
_MAX_TRACKED_EVENTS: Final = 1000
_STDERR: Final = 2
_PIPE_BYTES: Final = 1024 * 1024
# What is written to standard error without such pauses, or within that time, is one record.
_PAUSE_S: Final = 0.05
_GATHER_S: Final = 0.5
_MAX_BYTES: Final = 64 * 1024
# How long the exit of a process waits for the lines of its children.
_DRAIN_S: Final = 2.0
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+")
_UNQUOTED: Final = re.compile(r"[^\s\"=]+")

log: Final = logging.getLogger("webdata_nb.service")


@dataclass(frozen=True, slots=True)
class Caller:
    """The account of a request, and its key with what it opens; a local service has no keys."""

    account_id: str
    key_id: str | None
    scopes: frozenset[KeyScope]
    ends_at: float | None = None


# The current request ("" outside of one), its caller, and the current job.
REQUEST_ID: Final[ContextVar[str]] = ContextVar("webdata_request_id", default="")
CALLER: Final[ContextVar[Caller | None]] = ContextVar("webdata_caller", default=None)
JOB_ID: Final[ContextVar[str]] = ContextVar("webdata_job_id", default="")


def caller_key_id() -> str | None:
    """Return the id of the current request's key; None in a local service."""
    caller = CALLER.get()
    return None if caller is None else caller.key_id


@dataclass(slots=True)
class _ProcessLog:
    """What the lines of this process have in common.

    `handler` writes JSON to standard error while a pipe stands in its place. Lines of children with
    `child_mark` are JSON; `mark` is that of this process, if it is such a child.
    """

    log_format: LogFormat = "text"
    replica: str | None = None
    handler: logging.Handler | None = None
    child_mark: str = ""
    mark: str = ""


_PROCESS: Final = _ProcessLog()


def name_process(replica: str | None) -> None:
    """Name this process in its lines, if it is one of several on a store."""
    _PROCESS.replica = replica


class _TextFormatter(logging.Formatter):
    """Formats records as lines; control characters are replaced, so no value can forge a line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """Return the line with its request id and job id."""
        line = super().formatMessage(record)
        ids = [value for value in (REQUEST_ID.get(), _job_of(record)) if value]
        printable = "".join(char if char.isprintable() else " " for char in line)
        return f"{printable} [{' '.join(ids)}]" if ids else printable


class _JsonFormatter(logging.Formatter):
    """Formats records as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object, including the record's `fields`; lines of children are ready."""
        if (line := vars(record).get("child_line")) is not None:
            return str(line)
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage().rstrip("\n"),
            **vars(record).get("fields", {}),
        }
        if _PROCESS.replica is not None:
            entry.setdefault("replica", _PROCESS.replica)
        if request := REQUEST_ID.get():
            entry["request_id"] = request
        if job := _job_of(record):
            entry["job"] = job
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        try:
            text = orjson.dumps(entry, default=str).decode()
        except TypeError:  # lone surrogates, such as those of a file name
            text = json.dumps(entry, default=str)
        return _PROCESS.mark + text


class _JsonHandler(logging.StreamHandler[TextIO]):
    """Writes JSON lines."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        """Write what is wrong with a record; a line that cannot be written is dropped."""
        reason = traceback.format_exc(limit=-1)
        unreadable = logging.LogRecord(
            record.name, record.levelno, record.pathname, record.lineno, "%s", (record.msg,), None
        )
        with suppress(Exception):
            vars(unreadable)["fields"] = {"exception": reason}
            self.stream.write(self.format(unreadable) + self.terminator)
            self.flush()


def _job_of(record: logging.LogRecord) -> str:
    """Return the current job, unless the record has a `job` field."""
    return "" if "job" in vars(record).get("fields", {}) else JOB_ID.get()


def configure_logging(log_format: LogFormat) -> None:
    """Write all records from INFO to standard error in a format."""
    _PROCESS.log_format = log_format
    logging.basicConfig(level=logging.INFO, handlers=[_handler(log_format)], force=True)
    _limit_noise()
    # Text logs omit the line of each request.
    requests = logging.INFO if log_format == "json" else logging.WARNING
    logging.getLogger("webdata_nb.service.requests").setLevel(requests)


def _handler(log_format: LogFormat, stream: TextIO | None = None) -> logging.Handler:
    handler: logging.Handler
    if log_format == "json":
        if _PROCESS.handler is not None:
            return _PROCESS.handler
        handler = _JsonHandler(stream)
        handler.setFormatter(_JsonFormatter())
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(_TextFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.set_name(PACKAGE)
    return handler


def _limit_noise() -> None:
    logging.getLogger("asyncio").addFilter(_is_not_disconnect)
    # During an outage it logs several lines per second; the store logs the begin and the end.
    logging.getLogger("psycopg").setLevel(logging.ERROR)


def configure_process_logs(log_format: LogFormat) -> None:
    """Configure the logs of a command: all that it writes to standard error is in the format.

    Repeating it changes nothing.
    """
    if log_format == "json" and _PROCESS.handler is None:
        _release_stderr()
        _redirect_stderr()
        _log_uncaught_errors()
    configure_logging(log_format)


def announce(text: str) -> None:
    """Say that a command is ready: in the JSON log, or as a line without a time."""
    if _PROCESS.log_format == "json":
        log.info("%s", text)
    else:
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - a command prints


def child_mark() -> str:
    """Return what children put before each of their JSON lines; empty if nobody expects it."""
    return _PROCESS.child_mark


def configure_worker_logs(log_format: LogFormat, replica: str, *, mark: str) -> None:
    """Write our lines in a Dask worker, unless its logging is configured already.

    A worker that a command started for itself has the mark of that command's `child_mark`. It
    writes all its lines as JSON.
    """
    name_process(replica)
    ours = logging.getLogger(PACKAGE)
    if log_format == "json" and mark:
        _PROCESS.mark = mark
        _release_stderr()
        logging.root.addHandler(_handler(log_format))
        _log_uncaught_errors()
    else:
        if any(each.get_name() != PACKAGE for each in (*ours.handlers, *logging.root.handlers)):
            return
        for handler in tuple(ours.handlers):  # of an earlier service
            ours.removeHandler(handler)
        ours.addHandler(_handler(log_format))
        ours.propagate = False
    if ours.level == logging.NOTSET:
        ours.setLevel(logging.INFO)
    _limit_noise()


def _release_stderr() -> None:
    """Let loggers that write to standard error leave that to the root logger."""
    named = tuple(logging.root.manager.loggerDict.values())
    for logger in (logging.root, *(each for each in named if isinstance(each, logging.Logger))):
        for handler in tuple(logger.handlers):
            if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr:
                logger.removeHandler(handler)
                logger.propagate = True
                # Dask silences its handlers.
                logger.setLevel(max(logger.level, handler.level))


def _log_uncaught_errors() -> None:
    """Log warnings of Python, and errors that nobody handles, instead of printing them."""
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda args: _log_uncaught(
        args.exc_type, args.exc_value, args.exc_traceback
    )
    sys.unraisablehook = lambda args: _log_uncaught(
        args.exc_type, args.exc_value, args.exc_traceback, f"{args.err_msg or 'error in'}: "
    )


def _log_uncaught(
    kind: type[BaseException],
    error: BaseException | None,
    trace: TracebackType | None,
    where: str = "",
) -> None:
    if issubclass(kind, SystemExit):
        return
    error = kind() if error is None else error
    log.critical("%suncaught %s: %s", where, kind.__name__, error, exc_info=(kind, error, trace))


def _redirect_stderr() -> None:
    """Replace standard error by a pipe, and log what is written to it until the process exits."""
    if os.name != "posix":
        return
    try:
        original = os.dup(_STDERR)
    except OSError:  # there is none
        return
    stream = os.fdopen(original, "w", encoding="utf-8", errors="backslashreplace")
    handler = _PROCESS.handler = _handler("json", stream)
    written, pipe = os.pipe()
    with suppress(ImportError, OSError, AttributeError):
        import fcntl  # noqa: PLC0415 - POSIX only

        # A line is written whole while there is room for it.
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    os.dup2(pipe, _STDERR)
    os.close(pipe)
    mark = _PROCESS.child_mark = secrets.token_hex(16)
    stopped, stop = os.pipe()
    reader = threading.Thread(
        target=_log_lines,
        args=(written, stopped, mark.encode(), handler),
        name="webdata-stderr",
        daemon=True,
    )
    reader.start()

    def restore() -> None:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os.dup2(original, _STDERR)
        os.close(stop)
        reader.join(_DRAIN_S)

    atexit.register(restore)


def _log_lines(written: int, stopped: int, mark: bytes, handler: logging.Handler) -> None:
    """Log what is written to a pipe, until the other pipe is closed and nothing more comes."""
    rest, is_over = b"", False
    while not is_over:
        ready, _, _ = select.select([written, stopped], [], [])
        is_over = stopped in ready
        ends_at = time.monotonic() + _GATHER_S
        # Lines that come together, such as those of a traceback, are one record.
        while select.select([written], [], [], _PAUSE_S)[0]:
            chunk = os.read(written, _PIPE_BYTES)
            rest += chunk
            is_over = not chunk
            if is_over or len(rest) > _MAX_BYTES or time.monotonic() > ends_at:
                break
        lines, end, rest = rest.rpartition(b"\n")
        if is_over or len(rest) > _MAX_BYTES:
            lines, rest = lines + end + rest, b""
        # Lines with a mark are written as they are; what is between them is one record.
        plain: list[bytes] = []
        for line in lines.split(b"\n"):
            before, found, marked = line.partition(mark)
            if found:
                _write_record(handler, [*plain, before])
                plain = []
                _write_record(handler, [marked], child_line=marked.decode("utf-8", "replace"))
            else:
                plain.append(before)
        _write_record(handler, plain)


def _write_record(handler: logging.Handler, lines: list[bytes], **extra: str) -> None:
    # Not through the loggers: somebody may have given them a handler that writes to the pipe.
    if text := b"\n".join(lines).decode("utf-8", "replace").strip("\r\n"):
        record = logging.LogRecord("stderr", logging.WARNING, __file__, 0, "%s", (text,), None)
        vars(record).update(extra)
        handler.handle(record)


def _is_not_disconnect(record: logging.LogRecord) -> bool:
    """Filter out asyncio's message about clients that disconnect during a reply."""
    return record.msg != "socket.send() raised exception."


def event(name: Event, /, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event: its name and ``field=value`` as text, or its fields and `event` as JSON.

    Parameters
    ----------
    name
        What happened.
    level
        One of the levels of `logging`.
    **fields
        Identifiers, counts, seconds and states; None is omitted. Text of pages, request bodies and
        providers must pass through `reason`.
    """
    logger = logging.getLogger(EVENTS)
    if not logger.isEnabledFor(level):
        return
    fields.setdefault("replica", _PROCESS.replica)
    present = {
        key: round(value, 3) if isinstance(value, float) else value
        for key, value in fields.items()
        if value is not None
    }
    line = " ".join([name, *(f"{key}={_quoted(value)}" for key, value in present.items())])
    # As an argument, because the line may contain a percent sign.
    logger.log(level, "%s", line, extra={"fields": {"event": name, **present}})


def reason(text: str | None) -> str | None:
    """Shorten an error message for logs, and reduce its URLs to scheme and host."""
    if text is None:
        return None
    return _URL.sub(_origin, text)[:MAX_REASON_CHARS]


def _origin(match: re.Match[str]) -> str:
    try:
        parts = urlsplit(match[0])
        host = parts.hostname or ""
    except ValueError:
        return "(an address)"
    return f"{parts.scheme}://{host}/..."


def _quoted(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text if _UNQUOTED.fullmatch(text) else json.dumps(text, ensure_ascii=False)


class EventThrottle:
    """Logs an event at once, and repetitions of it at most once a minute.

    Parameters
    ----------
    clock
        A monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_logged: dict[tuple[Any, ...], tuple[float, int]] = {}

    def event(self, name: Event, /, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event, unless one with the same fields was logged within the last minute.

        The next one has the number of suppressed events as `repeated`.
        """
        key = (name, *sorted((key, str(value)) for key, value in fields.items()))
        now = self._clock()
        logged_at, suppressed = self._last_logged.pop(key, (-REPEAT_INTERVAL_S, 0))
        if now - logged_at < REPEAT_INTERVAL_S:
            self._last_logged[key] = logged_at, suppressed + 1
            return
        self._last_logged[key] = now, 0
        while len(self._last_logged) > _MAX_TRACKED_EVENTS:
            del self._last_logged[next(iter(self._last_logged))]
        event(name, level, **fields, repeated=suppressed or None)
