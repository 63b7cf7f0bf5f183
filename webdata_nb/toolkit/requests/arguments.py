"""Checks arguments and builds requests of the contract, before anything is sent.

Messages name the argument, the rule, the value and the closest valid one. They show no value of
headers, cookies and webhooks, and no password of a URL.
"""

from __future__ import annotations

import asyncio
import math
import re
import sys
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, get_args

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from webdata_nb.contract.error_messages import plain_message
from webdata_nb.contract.fields import SECRET_FIELDS, WEBHOOK_FIELDS, Strict
from webdata_nb.errors import ConnectionFailed, InvalidArgument
from webdata_nb.settings import DURATION, Options, Settings, earlier_time, seconds
from webdata_nb.suggestions import (
    closest,
    closest_url,
    did_you_mean,
    format_path,
    format_value,
    is_frame,
    quoted,
)
from webdata_nb.toolkit import session as sessions
from webdata_nb.toolkit.dask_executor import NAME, DaskExecutor
from webdata_nb.toolkit.frames import exports, storage
from webdata_nb.toolkit.requests.options import (
    CallArguments,
    InputListOptions,
    OnCancel,
    OnError,
    OnIncomplete,
)
from webdata_nb.toolkit.session import Connection

if TYPE_CHECKING:
    from webdata_nb.toolkit.display import progress as display
    from webdata_nb.toolkit.frames.frame import DtypeBackend

R = TypeVar("R", bound=Strict)
# Of a call in partitions, which keeps no row of them in memory.
MAX_PARTITIONED_INPUTS: Final = 1_000_000
# What can be iterated over and is one value, or a set, which has no order.
_NO_LISTS: Final = (str, bytes, bytearray, Mapping, set, frozenset, type, BaseModel)

# A webhook does not change the answer, and its URL often holds a token.
_WITHOUT_VALUE: Final = frozenset({"extra_forbidden", "missing", "conflict"})
_MESSAGES: Final = {
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a dictionary",
    "model_type": "must be a dictionary",
    "bool_type": "must be True or False",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "missing": "is required; it is None",
}

# Options that were added after the first release, with their defaults.
_LATER_OPTIONS: Final = {
    "llms_txt": False,
    "audit": False,
    "rights": False,
    "check_links": False,
    "scope": "site",
}


def is_dask(executor: object) -> bool:
    """Return whether an `executor` is `"dask"` or a Dask client; imports nothing."""
    if isinstance(executor, str):
        return executor == NAME
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(executor, distributed.Client)


def build_request(
    model: type[R],
    values: Mapping[str, object],
    argument_names: Mapping[str, str] = MappingProxyType({}),
) -> R:
    """Return the request with these values; None is an omitted argument.

    Messages use `argument_names` for the fields that it has.

    Raises
    ------
    InvalidArgument
        The contract does not allow a value.
    """
    try:
        json_values = {
            name: _to_json_types(value) for name, value in values.items() if value is not None
        }
        built = model.model_validate(json_values)
        orjson.dumps(request_body(built))
    except ValidationError as error:
        raise InvalidArgument(_message(error, model, argument_names)) from None
    except (TypeError, PydanticSerializationError, RecursionError) as error:
        raise InvalidArgument(f"the arguments cannot be written as JSON: {error}") from None
    return built


def request_body(request: Strict) -> dict[str, Any]:
    """Return the body of the HTTP request: only the fields that the caller set."""
    return request.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


def request_with_defaults(request: Strict) -> dict[str, Any]:
    """Return the request with the defaults of the contract.

    Later options are left out at their default, so that earlier cached results are found.
    """
    params = request.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {name: value for name, value in params.items() if _LATER_OPTIONS.get(name) != value}


def without_webhook(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that decide the answer to a request."""
    return {name: value for name, value in params.items() if name not in WEBHOOK_FIELDS}


def without_secrets(value: Any) -> Any:
    """Return the body of a request, or a value in it, without secrets, for receipts and files."""
    if isinstance(value, dict):
        return {
            name: without_secrets(item) for name, item in value.items() if name not in SECRET_FIELDS
        }
    return mask_credentials(value) if isinstance(value, str) else value


def mask_credentials(text: str) -> str:
    """Return a URL with its user name and password masked."""
    return re.sub(r"^(\w+://)[^/?#@]*@", r"\1***@", text)


def as_list(value: Any) -> Any:
    """Return the items of any iterable, such as a generator or a column, as a list.

    Texts, mappings, sets, classes and tables of several columns are returned as they are.
    """
    if callable(to_list := getattr(value, "tolist", None)):
        return to_list()
    if type(value).__name__ == "DataFrame" and len(value.columns) == 1:
        return value.iloc[:, 0].tolist()
    is_single = isinstance(value, _NO_LISTS) or hasattr(value, "columns")
    if is_single or not isinstance(value, Iterable):
        return value
    return list(islice(value, MAX_PARTITIONED_INPUTS + 1))


def _to_json_types(value: Any) -> Any:
    """Return `value` in the types of JSON, converted from numpy, pandas and iterables."""
    value = as_list(value)
    if isinstance(value, Mapping):
        return {name: _to_json_types(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_to_json_types(item) for item in value]
    return value


def _message(
    error: ValidationError, model: type[BaseModel], argument_names: Mapping[str, str]
) -> str:
    """Name each wrong argument once, even if pydantic tried several types of a union."""
    messages: dict[str, str] = {}
    for problem in error.errors(include_url=False):
        names, owner = _path(problem["loc"], model)
        inside = len(problem["loc"]) > len(names)
        words = _words(problem, owner, inside=inside) + _value_words(problem, names)
        argument = _argument_name(names, argument_names)
        message = messages.setdefault(argument, words)
        if problem["type"] == "literal_error":  # of a union with bool
            choices = f"True, False or {problem['ctx']['expected']}"
            messages[argument] = message.replace(_MESSAGES["bool_type"], f"must be {choices}")
    sentences = []
    for path, words in messages.items():
        # A rule is a predicate of its argument, or stands after it.
        is_predicate = words.startswith(("must ", "is ", "has "))
        sentences.append(f"{path}{' ' if is_predicate else ': '}{words}" if path else words)
    return "; ".join(sentences)


def _argument_name(path: Sequence[str], argument_names: Mapping[str, str]) -> str:
    for length in range(len(path), 0, -1):
        name = argument_names.get(".".join(path[:length]))
        if name is not None:
            return ".".join(part for part in (name, *path[length:]) if part)
    return ".".join(path)


def _path(loc: Sequence[int | str], model: type[BaseModel]) -> tuple[list[str], type[BaseModel]]:
    """Return the parts of the argument's name, and the model of the last one."""
    names: list[str] = []
    owner: type[BaseModel] | None = model
    holder = model
    for part in loc:
        if owner is None:
            break  # the rest is an item's position, or a type of a union
        holder, names = owner, [*names, str(part)]
        fields = {field.alias or key: field for key, field in owner.model_fields.items()}
        annotation = fields[names[-1]].annotation if names[-1] in fields else None
        types = [each for each in (annotation, *get_args(annotation)) if isinstance(each, type)]
        owner = next((each for each in types if issubclass(each, BaseModel)), None)
    return names, holder


def _words(problem: Mapping[str, Any], owner: type[BaseModel], *, inside: bool) -> str:
    match problem["type"]:
        case "string_type" if inside:
            return "must hold strings only"
        case "extra_forbidden":
            names = [field.alias or name for name, field in owner.model_fields.items()]
            suggestion = closest(problem["loc"][-1], names)
            if suggestion is not None:
                return f"is not an option{did_you_mean(quoted(suggestion))}"
            return f"is not an option: there are {', '.join(names)}"
        case "literal_error":
            return f"must be {problem['ctx']['expected']}"
        case kind if kind in _MESSAGES:
            return _MESSAGES[kind]
    return plain_message(problem)


def _value_words(problem: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the end of a message: the value, and the closest valid one."""
    value = problem["input"]
    if not names and isinstance(value, Mapping):
        # A rule about several fields starts with the name of the wrong one.
        names = problem["msg"].removeprefix("Value error, ").split()[:1]
        value = value.get(names[0])
    is_stated = isinstance(value, list | tuple) and problem["type"] == "value_error"
    if value is None or is_stated or problem["type"] in _WITHOUT_VALUE:
        return ""
    if isinstance(value, BaseModel) or not SECRET_FIELDS.isdisjoint(names):
        return ""
    return f"; it is {format_value(value)}{did_you_mean(_suggestion(problem, value))}"


def _suggestion(problem: Mapping[str, Any], value: object) -> str | None:
    match problem["type"]:
        case "literal_error":
            return quoted(closest(value, re.findall(r"'([^']*)'", problem["ctx"]["expected"])))
        case "tuple_type" | "list_type" if isinstance(value, str):
            return format_value([value])
        case "value_error" if "URL" in problem["msg"]:
            return closest_url(value)
        case "string_type" if is_frame(value):
            return f'a column, such as df["{problem["loc"][0]}"]'
        case "int_type" if (text := str(value).strip()).isdecimal():
            return text
        case "bool_type" if (text := str(value).strip()).lower() in {"true", "false"}:
            return text.capitalize()
    return None


def check_seconds(name: str, value: object) -> float | None:
    """Return a duration in seconds, or None."""
    if value is None:
        return None
    if (duration := seconds(value)) is None:
        raise InvalidArgument(f"{name} must be {DURATION}; it is {format_value(value)}")
    if duration < 0:
        raise InvalidArgument(f"{name} must be 0 seconds or more; it is {duration:g}")
    return duration


def check_flag(name: str, value: object) -> bool:
    """Return a boolean."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} must be True or False; it is {format_value(value)}")
    return value


def check_choice(name: str, value: object, allowed: Sequence[str], besides: str = "") -> str:
    """Return a value that is one of `allowed`; `besides` names others that were checked before."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join([*filter(None, [besides]), *map(repr, allowed)])
        suggestion = did_you_mean(quoted(closest(value, allowed)))
        raise InvalidArgument(
            f"{name} must be one of {words}; it is {format_value(value)}{suggestion}"
        )
    return value


def check_entries(name: str, value: Mapping[Any, Any], group: type) -> dict[str, Any]:
    """Return the entries of an argument that is a dict, without those that are None."""
    allowed = list(group.__annotations__)
    for entry in value:
        if entry not in allowed:
            suggestion = did_you_mean(quoted(closest(entry, allowed)))
            raise InvalidArgument(
                f"{name} has the entries {', '.join(allowed)}, and {format_value(entry)} is none "
                f"of them{suggestion}"
            )
    return {entry: item for entry, item in value.items() if item is not None}


def time_text(name: str, value: object) -> str:
    """Return a time as requests have it; one without a time zone is in UTC.

    "yesterday" and "7d" are days, so that calls of one day are the same request.

    Raises
    ------
    InvalidArgument
        It is no text, date or datetime.
    """
    if isinstance(value, str):
        if (at := earlier_time(value, now := datetime.now(UTC))) is None:
            return value
        is_day = at.time() in {time(), now.time()}
        return (at.date() if is_day else at).isoformat(*() if is_day else ("T", "seconds"))
    if isinstance(value, datetime):
        at = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return at.isoformat(timespec="seconds")
    if isinstance(value, date):
        return value.isoformat()
    raise InvalidArgument(
        f'{name} must be a date or time, such as "2024-06-01" or "yesterday"; it is '
        f"{format_value(value)}"
    )


def check_count(name: str, value: object) -> int:
    """Return a whole number from 1."""
    number = _to_json_types(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidArgument(
            f"{name} must be a whole number, 1 or more; it is {format_value(value)}"
        )
    return number


def list_items(name: str, value: object) -> list[Any] | None:
    """Return the items of a list of inputs; None for a single value.

    Raises
    ------
    InvalidArgument
        The list is empty, or a set, which has no order.
    """
    items = _to_json_types(value)
    if isinstance(items, set | frozenset):
        raise InvalidArgument(
            f"{name} must be a list; it is a set, which has no order: use sorted({name})"
        )
    if not isinstance(items, list):
        return None
    if not items:
        raise InvalidArgument(f"{name} must have at least one entry; it is an empty list")
    return items


def check_credits(name: str, value: object) -> float | None:
    """Return a number of credits, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InvalidArgument(
            f"{name} must be a number of credits, 0 or more; it is {format_value(value)}"
        )
    return float(value)


def check_out_path(value: object) -> Path | str | None:
    """Return the file or URL that the rows are also written to."""
    if value is None:
        return None
    is_url = isinstance(value, str) and storage.is_remote(value)
    target: Path | str = str(value) if is_url else check_file_path("out", value)
    exports.require_suffix("out", value, exports.SUFFIXES)
    exports.check_suffix(str(target))
    if isinstance(target, str):
        storage.check_url(target)
    return target


def check_requirement(name: str, value: object, required: str) -> None:
    """Raise if an argument has no effect because another one is missing."""
    if value is not None:
        raise InvalidArgument(f"{name} has a meaning only with {required}")


def check_dataset_path(value: object, cause: str = "stream=True") -> Path | str | None:
    """Return the directory or URL that a dataset is written to; the first part creates it."""
    if value is None:
        return None
    is_url = isinstance(value, str) and storage.is_remote(value)
    path: Path | str = str(value) if is_url else absolute_path("out", value)
    is_file = isinstance(path, Path) and path.is_file()
    if str(path).rstrip("/").endswith(exports.SUFFIXES) or is_file:
        raise InvalidArgument(
            f"with {cause}, out must name a directory for a dataset; it is {format_path(value)}"
        )
    if isinstance(path, str):
        storage.check_url(path)
    return path


def absolute_path(name: str, value: object) -> Path:
    """Return an absolute path, of a file that may exist or not."""
    if not isinstance(value, str | Path) or not str(value):
        raise InvalidArgument(
            f"{name} must be a path, as a string or a pathlib.Path; it is {format_value(value)}"
        )
    try:
        path = Path(value).expanduser().absolute()
        with suppress(FileNotFoundError, NotADirectoryError):
            path.lstat()
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidArgument(
            f"{name} must be a path that this machine allows ({reason}); it is {format_path(value)}"
        ) from None
    return path


def check_file_path(name: str, value: object) -> Path:
    """Return the absolute path of a file in an existing directory."""
    path = absolute_path(name, value)
    if not path.parent.is_dir():
        raise InvalidArgument(
            f"{name} must be in a directory that exists; {format_path(path.parent)} does not"
        )
    if path.is_dir():
        raise InvalidArgument(f"{name} must name a file; {format_path(path)} is a directory")
    if path.exists() and not path.is_file():  # a pipe or a device, which may block forever
        raise InvalidArgument(f"{name} must name a file; {format_path(path)} is not a regular file")
    return path


# Options of a call that are no part of its request


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
    # Of several inputs: the id of the call, which their cached results have in common.
    snapshot: str | None = None

    @classmethod
    def of(cls, **options: Unpack[CallArguments]) -> CallOptions:
        """Check options; see `check`."""
        return cls.check(options)

    @classmethod
    def check(cls, options: CallArguments) -> CallOptions:
        """Check the options that a user passed; a call without `cache` does not use the cache.

        Raises
        ------
        InvalidArgument
            An option has a value that is not allowed; nothing was sent.
        """
        on_incomplete = options.get("on_incomplete", "raise")
        on_cancel = options.get("on_cancel", "raise")
        dtype_backend = options.get("dtype_backend", "pandas")
        check_choice("on_incomplete", on_incomplete, get_args(OnIncomplete))
        check_choice("on_cancel", on_cancel, get_args(OnCancel))
        check_choice("dtype_backend", dtype_backend, _BACKENDS)
        connection = options.get("session")
        if connection is None:
            connection = sessions.default_connection()
        elif not isinstance(connection, Connection):
            raise InvalidArgument(
                "session must be what connect() returns, or None for the default; "
                f"it is {format_value(connection)}"
            )
        progress, offline = options.get("progress"), options.get("offline")
        if offline is not None:
            check_flag("offline", offline)
        ttl_s = check_seconds("ttl", options.get("ttl"))
        settings = connection.settings(Options(progress=progress, ttl=ttl_s, offline=offline))
        stale = options.get("stale_if_error", False)
        timeout_s = check_seconds("timeout", options.get("timeout"))
        if timeout_s == 0:
            raise InvalidArgument(
                "timeout must be more than 0 seconds, or None to wait for the end; "
                f"it is {timeout_s:g}"
            )
        return cls(
            connection,
            settings,
            timeout_s=timeout_s,
            dtype_backend=dtype_backend,
            cache=check_flag("cache", options.get("cache", False)),
            refresh=check_flag("refresh", options.get("refresh", False)),
            # The greatest age of an answer that may replace an error; None allows none.
            stale_if_error=(math.inf if stale else None)
            if isinstance(stale, bool)
            else check_seconds("stale_if_error", stale),
            on_incomplete=on_incomplete,
            on_cancel=on_cancel,
            out=check_out_path(options.get("out")),
        )

    @classmethod
    def check_without_out(cls, options: CallArguments) -> CallOptions:
        """Check the options of a call that writes the rows to `out` in its own way."""
        unwritten: CallArguments = {**options, "out": None}
        return cls.check(unwritten)

    def ttl_s(self, op: str) -> float | None:
        """Return the seconds for which an answer of `op` is fresh; None offline, for any age."""
        if self.settings.offline:
            return None
        return TTL_S[op] if self.settings.ttl is None else self.settings.ttl


@dataclass(frozen=True, slots=True)
class FanOutOptions:
    """How several inputs are run.

    With `row_each`, an input without rows gets one as well. Without `warns`, a retry reports rows
    that failed again in its frame only. Without `warns_of_empty`, an input may well have no rows.
    """

    on_error: OnError = "row"
    executor: Executor | None = None
    dask: DaskExecutor | None = None
    partition: int | None = None
    budget: float | None = None
    row_each: bool = False
    warns: bool = True
    warns_of_empty: bool = True

    @classmethod
    def check(cls, options: InputListOptions) -> FanOutOptions:
        """Check the options that a user passed.

        Raises
        ------
        InvalidArgument
            An option has a value that is not allowed.
        """
        on_error, executor = options.get("on_error", "row"), options.get("executor")
        check_choice("on_error", on_error, get_args(OnError))
        partition = options.get("partition")
        if partition is not None:
            partition = check_count("partition", partition)
        own = cls(
            on_error,
            partition=partition,
            budget=check_credits("budget", options.get("budget")),
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
