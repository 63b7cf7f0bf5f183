"""Checks the options of a call that are no part of its request."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, Unpack, get_args

from webdata_nb.errors import ConnectionFailed, InvalidArgument
from webdata_nb.settings import Options, Settings
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit import session as sessions
from webdata_nb.toolkit.dask_executor import DaskExecutor, is_dask
from webdata_nb.toolkit.display import progress as display
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.options import (
    CallArguments,
    CrawlDfOptions,
    InputListOptions,
    OnCancel,
    OnError,
    OnIncomplete,
)
from webdata_nb.toolkit.session import Connection

if TYPE_CHECKING:
    from webdata_nb.toolkit.frames.frame import DtypeBackend

T = TypeVar("T")

# Seconds for which a cached answer is fresh, unless the call or the settings say otherwise.
TTL_S: Final = {"search": 86_400.0, "creatives": 86_400.0, "crawl": 7 * 86_400.0}
_BACKENDS: Final = ("pandas", "pyarrow")
PARTITION_NEEDS: Final = "a Dask executor, or lazy=True"


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The checked options of one call."""

    connection: Connection
    settings: Settings
    timeout_s: float | None = None
    dtype_backend: DtypeBackend = "pandas"
    cache: bool = False
    refresh: bool = False
    stale_if_error: float | None = None
    on_incomplete: OnIncomplete = "raise"
    on_cancel: OnCancel = "raise"
    out: Path | str | None = None
    # Of several inputs: seconds for which a local service that one of them saw alive is not looked
    # for again, and the listener that adds up their progress.
    seen_s: float = 0.0
    also: display.OnChange | None = None
    # Of a partition: calls with one key find the same job.
    idempotency_key: str | None = None

    @classmethod
    def of(
        cls, *, on_incomplete: OnIncomplete = "raise", **options: Unpack[CallArguments]
    ) -> CallOptions:
        """Check options; see `check`."""
        return cls.check(options, on_incomplete)

    @classmethod
    def check(cls, options: CallArguments, on_incomplete: OnIncomplete = "raise") -> CallOptions:
        """Check the options that a user passed; a call without `cache` does not use the cache.

        Raises
        ------
        InvalidArgument
            An option has a value that is not allowed; nothing was sent.
        """
        on_cancel = options.get("on_cancel", "raise")
        dtype_backend = options.get("dtype_backend", "pandas")
        arguments.check_choice("on_incomplete", on_incomplete, get_args(OnIncomplete))
        arguments.check_choice("on_cancel", on_cancel, get_args(OnCancel))
        arguments.check_choice("dtype_backend", dtype_backend, _BACKENDS)
        connection = _connection(options.get("session"))
        return cls(
            connection,
            _settings(connection, options),
            timeout_s=_timeout(options.get("timeout")),
            dtype_backend=dtype_backend,
            cache=arguments.check_flag("cache", options.get("cache", False)),
            refresh=arguments.check_flag("refresh", options.get("refresh", False)),
            stale_if_error=_stale(options.get("stale_if_error", False)),
            on_incomplete=on_incomplete,
            on_cancel=on_cancel,
            out=arguments.check_out_path(options.get("out")),
        )

    @classmethod
    def check_without_out(cls, options: CrawlDfOptions) -> CallOptions:
        """Check the options of a call that writes the rows to `out` in its own way."""
        unwritten = {**options, "out": None}
        return cls.check(unwritten, options["on_incomplete"])  # type: ignore[arg-type]

    def ttl_s(self, op: str) -> float | None:
        """Return the seconds for which an answer of `op` is fresh; None offline, for any age."""
        if self.settings.offline:
            return None
        return TTL_S[op] if self.settings.ttl is None else self.settings.ttl


def _connection(session: object) -> Connection:
    if session is None:
        return sessions.default_connection()
    if not isinstance(session, Connection):
        raise InvalidArgument(
            "session must be what connect() returns, or None for the default; "
            f"it is {format_value(session)}"
        )
    return session


def _settings(connection: Connection, options: CallArguments) -> Settings:
    progress, offline = options.get("progress"), options.get("offline")
    if offline is not None:
        arguments.check_flag("offline", offline)
    ttl_s = arguments.check_seconds("ttl", options.get("ttl"))
    return connection.settings(Options(progress=progress, ttl=ttl_s, offline=offline))


def _timeout(value: float | None) -> float | None:
    seconds = arguments.check_seconds("timeout", value)
    if seconds == 0:
        raise InvalidArgument(
            f"timeout must be more than 0 seconds, or None to wait for the end; it is {seconds:g}"
        )
    return seconds


def _stale(value: bool | float) -> float | None:
    """Return the greatest age of an answer that may replace an error; None allows none."""
    if isinstance(value, bool):
        return math.inf if value else None
    return arguments.check_seconds("stale_if_error", value)


@dataclass(frozen=True, slots=True)
class FanOutOptions:
    """How several inputs are run.

    With `row_each`, an input without rows gets one as well. Without `warns`, a retry reports rows
    that failed again in its frame only.
    """

    on_error: OnError = "row"
    executor: Executor | None = None
    dask: DaskExecutor | None = None
    partition: int | None = None
    budget: float | None = None
    row_each: bool = False
    warns: bool = True

    @classmethod
    def check(cls, options: InputListOptions) -> FanOutOptions:
        """Check the options that a user passed.

        Raises
        ------
        InvalidArgument
            An option has a value that is not allowed.
        """
        on_error, executor = options.get("on_error", "row"), options.get("executor")
        arguments.check_choice("on_error", on_error, get_args(OnError))
        partition = options.get("partition")
        if partition is not None:
            partition = arguments.check_integer("partition", partition, minimum=1)
        own = cls(
            on_error,
            partition=partition,
            budget=arguments.check_credits("budget", options.get("budget")),
        )
        if is_dask(executor):
            return replace(own, dask=DaskExecutor(executor))
        if executor is None or isinstance(executor, Executor):
            return replace(own, executor=executor)
        raise InvalidArgument(
            "executor must be a concurrent.futures.Executor, a Dask client, 'dask' or None; "
            f"it is {format_value(executor)}"
        )


async def within(timeout_s: float | None, work: Awaitable[T]) -> T:
    """Return the result of `work`; raises `ConnectionFailed` after `timeout_s` seconds."""
    try:
        async with asyncio.timeout(timeout_s) as deadline:
            return await work
    except TimeoutError:
        if not deadline.expired():
            raise
        message = f"the service gave no answer within timeout={timeout_s:g} s"
        raise ConnectionFailed(message) from None
