"""Merges the answers about the chunks of a page, and overlays them with declared data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from webdata_nb.service.extract.schema import FieldSchema
from webdata_nb.service.extract.validation import pointer_step

MOST_CONFLICTS: Final = 20
_MOST_OTHERS: Final = 5
_LONGEST_OTHER: Final = 1000


@dataclass(slots=True)
class MergedAnswers:
    """Merged values, and by JSON pointer the values of other chunks that differ."""

    value: dict[str, Any]
    conflicts: dict[str, list[Any]] = field(default_factory=dict)


def merge_answers(answers: Sequence[dict[str, Any]], schema: FieldSchema | None) -> MergedAnswers:
    """Merge the answers about the chunks of a page in their order.

    Lists are joined without duplicates. Of other values the first one wins, and those that differ
    from it become conflicts.

    Examples
    --------
    >>> merge_answers([{"a": None, "b": [1, 2]}, {"a": 3, "b": [2]}, {"a": 4, "b": []}], None)
    MergedAnswers(value={'a': 3, 'b': [1, 2]}, conflicts={'/a': [4]})
    """
    conflicts: dict[str, list[Any]] = {}
    return MergedAnswers(_object(answers, schema, "", conflicts), conflicts)


def overlay(first: Any, second: Any) -> Any:
    """Return `first` with its missing values from `second`; existing lists are not changed."""
    if isinstance(first, dict) and isinstance(second, dict):
        return {name: overlay(first.get(name), second.get(name)) for name in {**first, **second}}
    return second if first is None else first


def _object(
    objects: Sequence[dict[str, Any]],
    schema: FieldSchema | None,
    at: str,
    conflicts: dict[str, list[Any]],
) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for name in dict.fromkeys(name for each in objects for name in each):
        values = [each[name] for each in objects if each.get(name) is not None]
        inner = None if schema is None else schema.properties.get(name)
        whole[name] = _one(values, inner, f"{at}/{pointer_step(name)}", conflicts)
    return whole


def _one(
    values: list[Any], schema: FieldSchema | None, at: str, conflicts: dict[str, list[Any]]
) -> Any:
    if not values:
        return None
    if all(isinstance(each, dict) for each in values):
        return _object(values, schema, at, conflicts)
    if all(isinstance(each, list) for each in values):
        return _list(values, schema)
    others = list({_key(each): each for each in values if _key(each) != _key(values[0])}.values())
    if others and len(conflicts) < MOST_CONFLICTS:
        short = [each for each in others if len(_key(each)) <= _LONGEST_OTHER]
        conflicts[at] = short[:_MOST_OTHERS]
    return values[0]


def _list(values: list[list[Any]], schema: FieldSchema | None) -> list[Any]:
    # What one piece says twice may be there twice; what two pieces say is one thing seen twice.
    unique = schema is not None and schema.unique
    items, seen = list[Any](), set[bytes]()
    for piece in values:
        before = frozenset(seen)
        for each in piece:
            key = _key(each)
            if key not in (seen if unique else before):
                items.append(each)
                seen.add(key)
    most = None if schema is None else schema.limits.get("maxItems")
    return items if most is None else items[: int(most)]


def _key(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
