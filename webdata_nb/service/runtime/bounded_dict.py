"""A dict with a bound, for keys that callers choose."""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedDict(dict[Key, Value]):
    """A dict that removes the entries that were stored longest ago.

    Parameters
    ----------
    most : int
        The number of entries that it keeps.

    Examples
    --------
    >>> visits = BoundedDict[str, int](2)
    >>> visits["a"] = visits["b"] = 1
    >>> visits["a"] = visits["c"] = 2
    >>> visits
    {'a': 2, 'c': 2}
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        """Store a value as the newest."""
        self.pop(key, None)
        super().__setitem__(key, value)
        while len(self) > self.most:
            del self[next(iter(self))]
