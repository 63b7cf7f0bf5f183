"""Divides extracted data into its values, and groups those that describe one thing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from webdata_nb.service.extract.evidence.field_labels import FieldPath
from webdata_nb.service.extract.validation import pointer_step

MAX_VALUES: Final = 5000
"""Values of a page that are looked for."""
MAX_DEPTH: Final = 20


@dataclass(frozen=True, slots=True)
class Claim:
    """A value that was extracted from a page.

    Attributes
    ----------
    pointer
        Its JSON pointer in the extracted data.
    path
        The names of its field and of the objects that contain it, within the thing it describes.
    value
        A text, a number or a boolean.
    """

    pointer: str
    path: FieldPath
    value: str | float | bool


@dataclass(frozen=True, slots=True)
class ClaimGroup:
    """The values that describe one thing: the page's subject, or an entry of a list.

    Attributes
    ----------
    list_pointer
        The JSON pointer of the list; empty for the page's subject.
    number
        The number of the entry in its list.
    claims
        The values.
    paths
        The fields of the thing, also those without a value.
    """

    list_pointer: str = ""
    number: int = 0
    claims: list[Claim] = field(default_factory=list)
    paths: set[FieldPath] = field(default_factory=set)


def group_claims(data: Mapping[str, Any]) -> list[ClaimGroup]:
    """Return the groups of a page's data, its subject first; null is no value."""
    root = ClaimGroup()
    groups = [root]
    for count, (claim, group) in enumerate(_claims(data, "", (), root, groups, 0)):
        if count >= MAX_VALUES:
            break
        group.claims.append(claim)
    return [group for group in groups if group.claims]


def _claims(
    value: Any,
    pointer: str,
    path: FieldPath,
    group: ClaimGroup,
    groups: list[ClaimGroup],
    depth: int,
) -> Iterator[tuple[Claim, ClaimGroup]]:
    if value is None:
        group.paths.add(path)
    elif isinstance(value, str | int | float):
        group.paths.add(path)
        if path and (not isinstance(value, str) or value.strip()):
            yield Claim(pointer, path, value), group
    elif depth >= MAX_DEPTH:
        return
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            at = f"{pointer}/{pointer_step(str(name))}"
            yield from _claims(inner, at, (*path, str(name)), group, groups, depth + 1)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            at = f"{pointer}/{number}"
            if isinstance(inner, Mapping):
                entry = ClaimGroup(pointer, number)
                groups.append(entry)
                yield from _claims(inner, at, (), entry, groups, depth + 1)
            else:
                yield from _claims(inner, at, path, group, groups, depth + 1)
