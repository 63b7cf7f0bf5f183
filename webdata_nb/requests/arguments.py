"""Arguments become a request of the contract, or an error that says what is allowed.

Everything is checked here, before any traffic. Messages name the argument and the rule, never the
value: headers, cookies and addresses may hold secrets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from webdata_nb.contract.error_messages import plain_message
from webdata_nb.contract.fields import Strict
from webdata_nb.errors import InvalidArgument
from webdata_nb.frames import exports, remote

R = TypeVar("R", bound=Strict)

# Where the end of a job is told: it decides nothing about the answer, and often holds a token.
_HOOK: Final = frozenset({"webhook_url", "webhook_secret"})
_SECRET: Final = frozenset({"headers", "cookies"}) | _HOOK
_PLAIN_WORDS: Final = {
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a dictionary",
    "model_type": "must be a dictionary",
    "bool_type": "must be True or False",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "missing": "is required",
}


def request(model: type[R], values: Mapping[str, object]) -> R:
    """Return the request with these values; None stands for an omitted argument.

    Raises
    ------
    InvalidArgument
        The contract does not allow a value.
    """
    try:
        plain = {name: _plain(value) for name, value in values.items() if value is not None}
        built = model.model_validate(plain)
        orjson.dumps(body(built))
    except ValidationError as error:
        raise InvalidArgument(_message(error, model)) from None
    except (TypeError, PydanticSerializationError, RecursionError) as error:
        raise InvalidArgument(f"the arguments cannot be written as JSON: {error}") from None
    return built


def body(sent: Strict) -> dict[str, Any]:
    """Return what goes over the wire: the fields that were given, and no others."""
    return sent.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


def resolved(sent: Strict) -> dict[str, Any]:
    """Return the whole request, with the defaults of the contract filled in."""
    return sent.model_dump(mode="json", by_alias=True, exclude_none=True)


def deciding(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return of a request's fields those that decide its answer."""
    return {name: value for name, value in params.items() if name not in _HOOK}


def public(sent: Strict) -> dict[str, Any]:
    """Return what was sent without what may be secret, for receipts and files."""
    shown: dict[str, Any] = _public(body(sent))
    return shown


def _public(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _public(item) for name, item in value.items() if name not in _SECRET}
    return unlocked(value) if isinstance(value, str) else value


def unlocked(text: str) -> str:
    """Return a URL without the user name and password that it may carry."""
    return re.sub(r"^(\w+://)[^/?#@]*@", r"\1***@", text)


def _plain(value: Any) -> Any:
    """Return `value` in the types of JSON; numpy and pandas values know their own way."""
    if callable(to_list := getattr(value, "tolist", None)):
        return to_list()
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _message(error: ValidationError, model: type[BaseModel]) -> str:
    """Name each wrong argument once, however many forms of it were tried."""
    found: dict[str, str] = {}
    for problem in error.errors(include_url=False, include_input=False):
        names, owner = _path(problem["loc"], model)
        inside = len(problem["loc"]) > len(names)
        found.setdefault(".".join(names), _words(problem, owner, inside=inside))
    return "; ".join(f"{path} {words}".strip() for path, words in found.items())


def _path(loc: Sequence[int | str], model: type[BaseModel]) -> tuple[list[str], type[BaseModel]]:
    """Return the parts of the argument's name, and the model that should know the last one."""
    names: list[str] = []
    owner: type[BaseModel] | None = model
    holder = model
    for part in loc:
        if owner is None:
            break  # below a plain value: an item's position, or which form of a union was tried
        holder, names = owner, [*names, str(part)]
        owner = _nested(owner, str(part))
    return names, holder


def _nested(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    fields = {field.alias or key: field for key, field in model.model_fields.items()}
    annotation = fields[name].annotation if name in fields else None
    options = [annotation, *get_args(annotation)]
    return next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)


def _words(problem: Mapping[str, Any], owner: type[BaseModel], *, inside: bool) -> str:
    match problem["type"]:
        case "string_type" if inside:
            return "must hold strings only"
        case "extra_forbidden":
            fields = owner.model_fields.items()
            return f"is not an option: there are {', '.join(f.alias or n for n, f in fields)}"
        case "literal_error":
            return f"must be {problem['ctx']['expected']}"
        case kind if kind in _PLAIN_WORDS:
            return _PLAIN_WORDS[kind]
    return plain_message(problem)


def seconds(name: str, value: float | None, *, least: float = 0.0) -> float | None:
    """Return a number of seconds, or None where none was given."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise InvalidArgument(f"{name} must be a number of seconds")
    if value < least:
        raise InvalidArgument(f"{name} must be {least:g} seconds or more")
    return float(value)


def flag(name: str, value: object) -> bool:
    """Return a switch of ours, which must be a real boolean."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} must be True or False")
    return value


def one_of(name: str, value: object, allowed: Sequence[str]) -> str:
    """Return a word out of `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidArgument(f"{name} must be one of {', '.join(repr(word) for word in allowed)}")
    return value


def whole(name: str, value: object, *, least: int) -> int:
    """Return a whole number of at least `least`."""
    plain = _plain(value)
    if isinstance(plain, bool) or not isinstance(plain, int) or plain < least:
        raise InvalidArgument(f"{name} must be a whole number, {least} or more")
    return plain


def listed(name: str, value: object) -> list[Any] | None:
    """Return the items of a list of inputs; None for a single value.

    Raises
    ------
    InvalidArgument
        An empty list, or a set, whose order is nobody's.
    """
    plain = _plain(value)
    if isinstance(plain, set | frozenset):
        raise InvalidArgument(f"{name} must be a list: a set has no order")
    if not isinstance(plain, list):
        return None
    if not plain:
        raise InvalidArgument(f"{name} must not be an empty list")
    return plain


def amount(name: str, value: object) -> float | None:
    """Return an amount of credits, or None where none was given."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InvalidArgument(f"{name} must be a number of credits, 0 or more")
    return float(value)


def out_path(value: object) -> Path | str | None:
    """Return where the rows are to be written besides being returned: a file, or a URL."""
    if value is None:
        return None
    if isinstance(value, str) and remote.is_url(value):
        if not value.endswith(exports.SUFFIXES):
            raise InvalidArgument(f"out must end in {' or '.join(exports.SUFFIXES)}")
        remote.check(value)
        return value
    path = file_path("out", value)
    if path.suffix not in exports.SUFFIXES:
        raise InvalidArgument(f"out must end in {' or '.join(exports.SUFFIXES)}")
    return path


def at_most(name: str, value: int, most: int) -> None:
    """Refuse a number that is too large."""
    if value > most:
        raise InvalidArgument(f"{name} must be {most} or less")


def only_with(name: str, value: object, needed: str) -> None:
    """Refuse an argument that would be without effect."""
    if value is not None:
        raise InvalidArgument(f"{name} has a meaning only with {needed}")


def folder_path(value: object) -> Path | str | None:
    """Return where a dataset is written to: a directory, made with the first part, or a URL."""
    if value is None:
        return None
    is_url = isinstance(value, str) and remote.is_url(value)
    path: Path | str = str(value) if is_url else file_or_folder("out", value)
    taken = isinstance(path, Path) and path.is_file()
    if str(path).rstrip("/").endswith(exports.SUFFIXES) or taken:
        raise InvalidArgument("with stream=True, out must name a directory for a dataset")
    if isinstance(path, str):
        remote.check(path)
    return path


def file_or_folder(name: str, value: object) -> Path:
    """Return a path as a user gave it, made absolute."""
    if not isinstance(value, str | Path) or not str(value):
        raise InvalidArgument(f"{name} must be a path, as a string or a pathlib.Path")
    return Path(value).expanduser().absolute()


def file_path(name: str, value: object) -> Path:
    """Return a file that can be written: whole, and in a directory that exists."""
    path = file_or_folder(name, value)
    if not path.parent.is_dir():
        raise InvalidArgument(f"{name} must be in a directory that exists")
    if path.is_dir():
        raise InvalidArgument(f"{name} must name a file, not a directory")
    return path
