"""Merges the answers about the chunks of a page, and overlays them with declared data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from webdata_nb.page.extract.schema import FieldSchema, pointer_step

MAX_CONFLICTS: Final = 20
_MAX_ALTERNATIVES: Final = 5
_MAX_ALTERNATIVE_BYTES: Final = 1000


@dataclass(slots=True)
class MergedAnswers:
    """Merged values, and by JSON pointer the differing values of other chunks."""

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
    return MergedAnswers(_merge_objects(answers, schema, "", conflicts), conflicts)


def overlay(first: Any, second: Any) -> Any:
    """Return `first` with its missing values from `second`; existing lists are not changed."""
    if isinstance(first, dict) and isinstance(second, dict):
        return {name: overlay(first.get(name), second.get(name)) for name in {**first, **second}}
    return second if first is None else first


def _merge_objects(
    objects: Sequence[dict[str, Any]],
    schema: FieldSchema | None,
    pointer: str,
    conflicts: dict[str, list[Any]],
) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for item in objects for name in item):
        values = [item[name] for item in objects if item.get(name) is not None]
        inner = None if schema is None else schema.properties.get(name)
        merged[name] = _merge_values(values, inner, f"{pointer}/{pointer_step(name)}", conflicts)
    return merged


def _merge_values(
    values: list[Any], schema: FieldSchema | None, pointer: str, conflicts: dict[str, list[Any]]
) -> Any:
    if not values:
        return None
    if all(isinstance(value, dict) for value in values):
        return _merge_objects(values, schema, pointer, conflicts)
    if all(isinstance(value, list) for value in values):
        return _merge_lists(values, schema)
    by_key = {_comparison_key(value): value for value in values}
    del by_key[_comparison_key(values[0])]
    if by_key and len(conflicts) < MAX_CONFLICTS:
        alternatives = [
            value for key, value in by_key.items() if len(key) <= _MAX_ALTERNATIVE_BYTES
        ]
        conflicts[pointer] = alternatives[:_MAX_ALTERNATIVES]
    return values[0]


def _merge_lists(lists: list[list[Any]], schema: FieldSchema | None) -> list[Any]:
    # Equal items of one chunk may be two items; equal items of two chunks are the same item.
    unique = schema is not None and schema.unique
    merged, keys = list[Any](), set[bytes]()
    for items in lists:
        earlier_keys = frozenset(keys)
        for item in items:
            key = _comparison_key(item)
            if key not in (keys if unique else earlier_keys):
                merged.append(item)
                keys.add(key)
    max_items = None if schema is None else schema.limits.get("maxItems")
    return merged if max_items is None else merged[: int(max_items)]


def _comparison_key(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
