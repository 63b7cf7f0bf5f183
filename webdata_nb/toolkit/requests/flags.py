"""Derives the flags of commands and magics from the options of public functions."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, get_args

from webdata_nb.contract.choices import Engine, Strategy
from webdata_nb.toolkit.requests.options import OnIncomplete, Scope
from webdata_nb.toolkit.requests.signatures import option_list


class ArgumentContainer(Protocol):
    """A parser or a group of its arguments."""

    @property
    def add_argument(self) -> Callable[..., argparse.Action]:
        """Add an argument, as `ArgumentParser.add_argument` does."""


def word_list(text: str) -> tuple[str, ...]:
    """Return the words of a comma-separated list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def duration(text: str) -> float:
    """Return the seconds of a duration."""
    from webdata_nb import settings  # noqa: PLC0415 - imports more than the help of a command needs

    if (seconds := settings.seconds(text)) is None:
        raise argparse.ArgumentTypeError(f"must be {settings.DURATION}; it is {text!r}")
    return seconds


def json_value(text: str) -> Any:
    """Parse JSON from the argument, or from the file that follows an @."""
    try:
        return json.loads(Path(text[1:]).read_text("utf-8") if text.startswith("@") else text)  # noqa: TID251 - the user's own, and its error says where
    except (ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(f"must be JSON, or @FILE with JSON: {error}") from None


class PairAction(argparse.Action):
    """Collects NAME<separator>VALUE arguments in one mapping."""

    def __init__(self, *, separator: str, **settings: Any) -> None:
        super().__init__(**settings)
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


# The settings of a flag in argparse, by the type of its option.
_SETTINGS_BY_TYPE: Final[Mapping[str, Mapping[str, Any]]] = {
    "int": {"type": int, "metavar": "N"},
    "float": {"type": float, "metavar": "S"},
    "Duration": {"type": duration, "metavar": "TIME"},
    "str": {"metavar": "TEXT"},
    "str | Sequence[str]": {"metavar": "TEXT"},
    "str | Path": {"type": Path, "metavar": "FILE"},
    "bool": {"action": argparse.BooleanOptionalAction},
    "Sequence[str]": {"action": "append", "metavar": "GLOB"},
    "Sequence[Format]": {"type": word_list, "metavar": "LIST"},
    "Engine": {"choices": get_args(Engine)},
    "Strategy": {"choices": get_args(Strategy)},
    "Scope": {"choices": get_args(Scope)},
    "OnIncomplete": {"choices": get_args(OnIncomplete)},
}
# Settings that do not follow from the type of the option.
_SETTINGS_BY_NAME: Final[Mapping[str, Mapping[str, Any]]] = {
    "headers": {"action": PairAction, "separator": ":", "metavar": "'NAME: VALUE'"},
    "cookies": {"action": PairAction, "separator": "=", "metavar": "NAME=VALUE"},
    "language": {"metavar": "CODE"},
    "country": {"metavar": "CODE"},
    "date_range": {"metavar": "RANGE"},
    "extract": {"type": json_value, "metavar": "JSON"},
    "format_options": {"type": json_value, "metavar": "JSON"},
    "render": {"action": argparse.BooleanOptionalAction},
    "wait_for": {"metavar": "TIME|SELECTOR"},
    "include_tags": {"action": "append", "metavar": "SELECTOR"},
    "exclude_tags": {"action": "append", "metavar": "SELECTOR"},
    "base": {"metavar": "last|JOB|TIME"},
    "date": {"metavar": "DATE"},
    "source": {"metavar": "NAME|FILE"},
    "max_distance": {"metavar": "DAYS"},
    "recheck": {"type": float, "metavar": "SHARE"},
    "only_new": {"action": "store_true"},
    "refresh": {"action": "store_true"},
    "offline": {"action": "store_true"},
}
# Options that collect several values; the flag is their singular and adds one value.
_REPEATABLE: Final = frozenset(
    {"headers", "cookies", "include_paths", "exclude_paths", "include_tags", "exclude_tags"}
)


def add_flags(
    container: ArgumentContainer,
    group: type,
    *,
    only: Collection[str] | None = None,
    without: Collection[str] = (),
    flags: Mapping[str, str] | None = None,
) -> None:
    """Add a flag for each option of a group; an omitted flag leaves None.

    Parameters
    ----------
    container
        The parser, or a group of its arguments.
    group
        The group of options, from `webdata_nb.toolkit.requests.options`.
    only, without
        Names of the options that get a flag, and of those that get none.
    flags
        Flags of options whose flag differs from that of other commands.
    """
    for option in option_list(group):
        if option.name in without or (only is not None and option.name not in only):
            continue
        option_type = option.annotation.removesuffix(" | None")
        settings = _SETTINGS_BY_NAME.get(option.name) or _SETTINGS_BY_TYPE[option_type]
        # The first sentence in the style of argparse: no capital, no full stop.
        text = " ".join(option.description.split()).replace("`", "").replace("%", "%%")
        sentence = re.match(r"(.+?)\.(?=\s|$)", text)
        text = sentence[1] if sentence else text
        is_acronym = text[:2].isupper()
        text = text if is_acronym else text[:1].lower() + text[1:]
        name = option.name
        if name in _REPEATABLE:
            name, text = name.removesuffix("s"), f"{text}; repeatable"
        flag = (flags or {}).get(option.name) or f"--{name.replace('_', '-')}"
        container.add_argument(flag, dest=option.name, default=None, help=text, **settings)


def passed_options(
    args: argparse.Namespace, *groups: type, without: Collection[str] = ()
) -> dict[str, Any]:
    """Return the options of the groups that the command line sets."""
    names = {name for group in groups for name in group.__annotations__} - set(without)
    return {
        name: value for name, value in vars(args).items() if name in names and value is not None
    }
