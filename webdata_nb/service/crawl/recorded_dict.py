"""A dictionary that tracks its changes since its last record. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from webdata_nb.service.crawl.state_record import Section, sections

Key = TypeVar("Key")
Value = TypeVar("Value")

# The section with the keys removed since the last record, before that with the new items.
REMOVED = " removed"


class RecordedDict(dict[Key, Value]):
    """A dictionary that records its changes: keys set, changed in place (`touch`) and removed.

    A key that is removed and set again is the last one, as in any dictionary.
    """

    def __init__(self) -> None:
        super().__init__()
        self._changed: dict[Key, None] = {}
        self._removed: list[Key] = []

    def __setitem__(self, key: Key, value: Value) -> None:
        self._changed[key] = None
        super().__setitem__(key, value)

    def setdefault(self, key: Key, default: Value) -> Value:
        """Set a value unless the key is there; return that which is there then."""
        if key in self:
            return self[key]
        self[key] = default
        return default

    def __delitem__(self, key: Key) -> None:
        super().__delitem__(key)
        self._record_removal(key)

    def pop(self, key: Key, *default: Any) -> Any:
        """Remove a key; return its value, or the default."""
        if key in self:
            self._record_removal(key)
        return super().pop(key, *default)

    def popitem(self) -> tuple[Key, Value]:
        """Remove and return the last item."""
        key, value = super().popitem()
        self._record_removal(key)
        return key, value

    def touch(self, key: Key) -> None:
        """Record that the value of a key has changed."""
        self._changed[key] = None

    def changes(
        self, name: str, encode: Callable[[Key, Value], Any], *, whole: bool
    ) -> Iterator[Section]:
        """Yield sections with the changes since the last call, or with all items."""
        changed, removed = self._changed, self._removed
        self._changed, self._removed = {}, []
        if whole:
            yield from sections(name, (encode(*item) for item in self.items()))
            return
        yield from sections(name + REMOVED, removed)
        yield from sections(name, (encode(key, self[key]) for key in changed))

    def restore(self, items: Iterable[tuple[Key, Value]]) -> None:
        """Set items of an earlier state."""
        self.update(items)

    def restore_removals(self, keys: Iterable[Key]) -> None:
        """Remove keys that were removed after an earlier state."""
        for key in keys:
            super().pop(key, None)

    def _record_removal(self, key: Key) -> None:
        if key in self._changed:
            del self._changed[key]
        # Also if it is new: it may have been there before, and moved.
        self._removed.append(key)
