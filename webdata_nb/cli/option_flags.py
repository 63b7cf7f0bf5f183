"""Derives the flags of a command from the options of a public function."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, get_args

from webdata_nb.contract.choices import Engine, Strategy
from webdata_nb.requests.options import OnIncomplete
from webdata_nb.requests.signatures import Option, option_list

AddArgument = Callable[..., Any]


def word_list(text: str) -> tuple[str, ...]:
    """Return the words of a comma-separated list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def json_value(text: str) -> Any:
    """Read JSON from the argument, or from the file that @ names."""
    try:
        return json.loads(Path(text[1:]).read_text("utf-8") if text.startswith("@") else text)
    except (ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(f"must be JSON, or @FILE with JSON: {error}") from None


class PairAction(argparse.Action):
    """Collects NAME<separator>VALUE arguments in one mapping."""

    def __init__(self, *, separator: str, **rest: Any) -> None:
        super().__init__(**rest)
        self.separator = separator

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Add one pair."""
        name, separator, value = str(values).partition(self.separator)
        if not separator or not name.strip():
            parser.error(f"argument {option_string}: expected {self.metavar}")
        pairs: dict[str, str] = getattr(namespace, self.dest) or {}
        setattr(namespace, self.dest, {**pairs, name.strip(): value.strip()})


# How a flag reads its argument, by the type of its option.
_BY_TYPE: Final[dict[str, dict[str, Any]]] = {
    "int": {"type": int, "metavar": "N"},
    "float": {"type": float, "metavar": "S"},
    "str": {"metavar": "TEXT"},
    "str | Sequence[str]": {"metavar": "TEXT"},
    "str | Path": {"type": Path, "metavar": "FILE"},
    "bool": {"action": argparse.BooleanOptionalAction},
    "Sequence[str]": {"action": "append", "metavar": "GLOB"},
    "Sequence[Format]": {"type": word_list, "metavar": "LIST"},
    "Mapping[str, Any]": {"type": json_value, "metavar": "JSON"},
    "Engine": {"choices": get_args(Engine)},
    "Strategy": {"choices": get_args(Strategy)},
    "OnIncomplete": {"choices": get_args(OnIncomplete)},
}
# Flags that differ from the name and type of their option.
_BY_NAME: Final[dict[str, dict[str, Any]]] = {
    "headers": {"action": PairAction, "separator": ":", "metavar": "'NAME: VALUE'"},
    "cookies": {"action": PairAction, "separator": "=", "metavar": "NAME=VALUE"},
    "language": {"metavar": "CODE"},
    "country": {"metavar": "CODE"},
    "date_range": {"metavar": "RANGE"},
    "only_new": {"action": "store_true"},
    "refresh": {"action": "store_true"},
    "offline": {"action": "store_true"},
}
# An argument that is given several times has a singular flag.
_REPEATED: Final = frozenset({"headers", "cookies", "include_paths", "exclude_paths"})


def add_flags(add: AddArgument, group: type, *, without: Iterable[str] = ()) -> None:
    """Add a flag for each option of a group; an omitted flag leaves None."""
    for option in option_list(group):
        if option.name not in without:
            _add_flag(add, option)


def _add_flag(add: AddArgument, option: Option) -> None:
    name = option.name.removesuffix("s") if option.name in _REPEATED else option.name
    reading = _BY_NAME.get(option.name) or _BY_TYPE[option.annotation.removesuffix(" | None")]
    text = _first_sentence(option.description).replace("%", "%%")
    add(f"--{name.replace('_', '-')}", dest=option.name, default=None, help=text, **reading)


def _first_sentence(description: str) -> str:
    text = " ".join(description.split())
    found = re.match(r"(.+?)\.(?=\s|$)", text)
    return (found[1] if found else text).replace("`", "")


def passed_options(
    args: argparse.Namespace, *groups: type, without: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the options of the groups that the command line sets."""
    names = [name for group in groups for name in group.__annotations__ if name not in without]
    values = ((name, getattr(args, name)) for name in names)
    return {name: value for name, value in values if value is not None}
