"""Divides extracted data into its values, and groups those that describe one thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from webdata_nb.page.extract.evidence.labels import FieldPath
from webdata_nb.page.extract.schema import pointer_step

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
    collector = _ClaimCollector()
    collector.add(data, "", (), collector.groups[0])
    return [group for group in collector.groups if group.claims]


class _ClaimCollector:
    """Collects the values of nested data into groups."""

    def __init__(self) -> None:
        self.groups = [ClaimGroup()]
        self._count = 0

    def add(self, value: Any, pointer: str, path: FieldPath, group: ClaimGroup) -> None:
        """Add a value, or all values of an object or a list."""
        if self._count >= MAX_VALUES or pointer.count("/") > MAX_DEPTH:
            return
        if isinstance(value, Mapping):
            for name, inner in value.items():
                step = f"{pointer}/{pointer_step(str(name))}"
                self.add(inner, step, (*path, str(name)), group)
        elif isinstance(value, list):
            self._add_entries(value, pointer, path, group)
        elif path:
            group.paths.add(path)
            is_value = value.strip() if isinstance(value, str) else isinstance(value, int | float)
            if is_value:
                group.claims.append(Claim(pointer, path, value))
                self._count += 1

    def _add_entries(
        self, values: list[Any], pointer: str, path: FieldPath, group: ClaimGroup
    ) -> None:
        for number, value in enumerate(values):
            at = f"{pointer}/{number}"
            if isinstance(value, Mapping):
                entry = ClaimGroup(pointer, number)
                self.groups.append(entry)
                self.add(value, at, (), entry)
            else:
                self.add(value, at, path, group)
