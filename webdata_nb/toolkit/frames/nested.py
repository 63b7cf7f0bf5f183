"""The dtype of columns of lists and dicts, with which the verbs of pandas work.

pandas keeps lists and dicts in `object` columns: it cannot compare them, and Arrow derives a struct
from the dicts, which fails where they differ or are empty. A `NestedArray` has the same Python
values, and it knows their Arrow type and compares them by their JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, ClassVar, Final, Self

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionArray, ExtensionDtype, take
from pandas.api.indexers import check_array_indexer

from webdata_nb.toolkit.frames import rows, schemas
from webdata_nb.toolkit.frames.rows import canonical, dumps


class NestedDtype(ExtensionDtype):
    """The dtype of lists and dicts of one Arrow type; JSON text stands for values of any shape.

    Its name is `object`, because the name of a dtype is what Arrow writes into the files of
    pandas, and what pandas looks up when it reads them, also without this package.
    """

    name: ClassVar[str] = "object"
    type = object
    kind = "O"
    # By this, pandas allows `.str`, as it does for lists and dicts in columns of objects.
    base = "string"
    na_value = None
    _metadata = ("arrow_type",)

    def __init__(self, arrow_type: pa.DataType = schemas.TEXT) -> None:
        self.arrow_type = arrow_type

    def __repr__(self) -> str:
        kind = "JSON" if self.arrow_type == schemas.TEXT else str(self.arrow_type)
        return f"NestedDtype({kind})"

    @classmethod
    def construct_from_string(cls, string: str) -> Self:
        """Refuse every name: `object` is the dtype of numpy."""
        raise TypeError(f"NestedDtype has no name to construct it from; not {string!r}")

    @classmethod
    def construct_array_type(cls) -> Any:
        """Return the type of the arrays."""
        return NestedArray

    def _get_common_dtype(self, dtypes: Sequence[Any]) -> NestedDtype | None:
        if all(isinstance(each, NestedDtype) for each in dtypes):
            return self if set(dtypes) == {self} else JSON_DTYPE
        return None


JSON_DTYPE: Final = NestedDtype()
_NO_VALUES: Final = np.empty(0, object)


class _Lazy:
    """Values as an Arrow column until they are needed as Python objects; views share them."""

    __slots__ = ("column", "objects")

    def __init__(self, column: pa.ChunkedArray[Any] | None = None, objects: Any = None) -> None:
        self.column = column
        self.objects = objects

    def decoded(self) -> Any:
        column = self.column
        if column is not None and self.objects is None:
            self.objects = _array_of(decode(column))
        self.column = None  # the Python values can be changed from now on
        return self.objects

    def copy(self) -> _Lazy:
        objects = None if self.objects is None else self.objects.copy()
        return _Lazy(self.column, objects)

    def held(self) -> Any:
        return self.column if self.objects is None else self.objects


class NestedArray(ExtensionArray):  # noqa: PLW1641 - pandas makes arrays unhashable
    """Lists, dicts and None, which pandas compares by their JSON text.

    Examples
    --------
    >>> links = pd.Series(NestedArray([["/a"], None, ["/a"]], NestedDtype(schemas.TEXTS)))
    >>> links.duplicated().tolist()
    [False, False, True]
    >>> pa.array(links).type
    ListType(list<element: string>)
    """

    def __init__(self, values: Iterable[Any] | _Lazy, dtype: NestedDtype = JSON_DTYPE) -> None:
        is_array = isinstance(values, np.ndarray) and values.dtype == object and values.ndim == 1
        if isinstance(values, _Lazy):
            self._values = values
        else:
            self._values = _Lazy(objects=values if is_array else _array_of(values))
        self._dtype = dtype

    @classmethod
    def of_arrow(cls, column: pa.ChunkedArray[Any]) -> Self:
        """Return the values of an Arrow column, which are decoded when they are needed."""
        return cls(_Lazy(column), NestedDtype(column.type))

    @property
    def _objects(self) -> Any:
        return self._values.decoded()

    @classmethod
    def _from_sequence(
        cls,
        scalars: Iterable[Any],
        *,
        dtype: Any = None,
        copy: bool = False,  # noqa: ARG003 - the list below is one
    ) -> Self:
        values = [None if _is_absent(value) else value for value in scalars]
        return cls(values, dtype if isinstance(dtype, NestedDtype) else JSON_DTYPE)

    @classmethod
    def _from_factorized(cls, values: Iterable[str | None], original: NestedArray) -> Self:
        return cls(
            [None if text is None else orjson.loads(text) for text in values], original.dtype
        )

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[NestedArray]) -> Self:
        return cls(np.concatenate([np.asarray(each) for each in to_concat]), to_concat[0].dtype)

    @property
    def dtype(self) -> NestedDtype:
        """The dtype."""
        return self._dtype

    @property
    def nbytes(self) -> int:
        """The size of the pointers, or of the Arrow column."""
        return int(self._values.held().nbytes)

    def __len__(self) -> int:
        return len(self._values.held())

    def __getitem__(self, item: Any) -> Any:
        item = check_array_indexer(self, item)
        selected = self._objects[item]
        return selected if np.ndim(item) == 0 and _is_position(item) else self._with(selected)

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._readonly:
            raise ValueError("Cannot modify read-only array")
        key = key[0] if isinstance(key, tuple) and len(key) == 1 else key
        key = check_array_indexer(self, key)
        if _is_position(key):
            self._objects[key] = None if _is_absent(value) else value
            return
        targets = np.arange(len(self))[key]
        if isinstance(value, ExtensionArray | np.ndarray | pd.Series | list | tuple):
            if len(value) != len(targets):
                raise ValueError(f"{len(targets)} values are needed; got {len(value)}")
            self._objects[targets] = _array_of(self._from_sequence(value))
        else:
            self._objects[targets] = _array_of(
                [None if _is_absent(value) else value] * len(targets)
            )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._objects, dtype=dtype or object, copy=copy)

    def __arrow_array__(self, type: Any = None) -> Any:  # noqa: A002 - Arrow's protocol
        array: Any = self._values.column
        if array is None:
            array = to_arrow(self._objects.tolist(), self._dtype.arrow_type)
        elif type is None and array.num_chunks == 1:
            array = array.chunk(0)
        return array if type is None else array.cast(type)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, pd.Series | pd.Index | pd.DataFrame):
            return NotImplemented
        if isinstance(other, NestedArray | np.ndarray | list | tuple):
            if len(other) != len(self):
                raise ValueError("Lengths must match to compare")
            values: Iterable[Any] = other
        else:
            values = [other] * len(self)
        pairs = zip(self._objects, values, strict=True)
        equal = (mine is not None and bool(mine == value) for mine, value in pairs)
        return np.fromiter(equal, bool, len(self))

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else ~equal

    def __add__(self, other: object) -> Any:  # lists, as in a column of objects
        if isinstance(other, pd.Series | pd.Index | pd.DataFrame):
            return NotImplemented
        if not isinstance(other, NestedArray):
            raise TypeError(f"+ needs another column of lists; not {type(other).__name__}")
        pairs = zip(self._objects, other, strict=True)
        return self._from_sequence(
            [None if mine is None or more is None else mine + more for mine, more in pairs],
            dtype=self._dtype,
        )

    def __getattr__(self, name: str) -> Any:
        # `.str` of columns of objects: `df["metadata"].str["published"]`, `df["links"].str.len()`.
        if name.startswith("_str_"):
            return getattr(pd.arrays.NumpyExtensionArray(self._objects), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def isna(self) -> Any:
        """Return where values are missing."""
        if (column := self._values.column) is not None:
            return column.is_null().to_numpy()
        return np.fromiter((value is None for value in self._objects), bool, len(self))

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> Self:
        """Return the values at `indices`; with `allow_fill`, -1 is a missing value."""
        value = None if _is_absent(fill_value) else fill_value
        return self._with(take(self._objects, indices, allow_fill=allow_fill, fill_value=value))

    def copy(self) -> Self:
        """Return an array of the same Python values."""
        return self._with(self._values.copy())

    def view(self, dtype: Any = None) -> Any:
        """Return an array of the same memory."""
        if dtype is not None:
            raise TypeError(f"a column of lists and dicts cannot be viewed as {dtype}")
        return self._with(self._values)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """Return the values with another dtype; JSON text for dtypes of text."""
        wanted = pd.api.types.pandas_dtype(dtype)
        if isinstance(wanted, NestedDtype):
            return NestedArray(self._objects.copy() if copy else self._objects, wanted)
        if isinstance(wanted, pd.StringDtype):
            return pd.array(self.texts(), dtype=wanted)
        if isinstance(wanted, pd.ArrowDtype):
            return pd.array(self.__arrow_array__(wanted.pyarrow_dtype), dtype=wanted)
        return super().astype(wanted, copy=copy)

    def texts(self) -> list[str | None]:
        """Return the values as JSON text."""
        return [None if value is None else _json_text(value) for value in self._objects]

    def tolist(self) -> list[Any]:
        """Return the Python values."""
        values: list[Any] = self._objects.tolist()
        return values

    def factorize(self, use_na_sentinel: bool = True) -> tuple[Any, Self]:
        """Return the number of each value among the distinct ones, and these."""
        codes, _ = pd.factorize(self._keys(), use_na_sentinel=use_na_sentinel)
        distinct, first = np.unique(codes, return_index=True)
        return codes, self._with(self._objects[first[distinct >= 0]])

    def unique(self) -> Self:
        """Return the distinct values."""
        return self.factorize(use_na_sentinel=False)[1]

    def duplicated(self, keep: Any = "first") -> Any:
        """Return where a value repeats another one."""
        return pd.Series(self._keys()).duplicated(keep=keep).to_numpy()

    def value_counts(self, dropna: bool = True) -> pd.Series[int]:
        """Return how often each value occurs."""
        codes, distinct = self.factorize(use_na_sentinel=dropna)
        counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
        return pd.Series(counts, index=pd.Index(distinct), name="count")

    def isin(self, values: Iterable[Any]) -> Any:
        """Return where a value is one of `values`."""
        wanted = {None if _is_absent(value) else canonical(value) for value in values}
        return np.fromiter((key in wanted for key in self._keys()), bool, len(self))

    def _with(self, objects: Any) -> Self:
        return type(self)(objects, self._dtype)

    def _keys(self) -> Any:
        """Return texts that are equal for equal values, whatever the order of their fields."""
        return _array_of(None if value is None else canonical(value) for value in self._objects)

    def _values_for_factorize(self) -> tuple[Any, Any]:
        return self._keys(), None

    def _values_for_argsort(self) -> Any:
        return np.array(["" if key is None else key for key in self._keys()], dtype=object)

    def _mode(self, dropna: bool = True) -> Self:
        counts = self.value_counts(dropna=dropna)
        values: Any = counts[counts == counts.max()].index.array
        return self._with(_array_of(values))

    def _explode(self) -> tuple[Any, Any]:
        rows = [value if isinstance(value, list) and value else [value] for value in self._objects]
        flat = [None if value == [] else value for value in chain.from_iterable(rows)]
        counts = np.fromiter(map(len, rows), np.uint64, len(rows))
        if self._dtype.arrow_type == schemas.TEXTS:
            return pd.array(flat, dtype="str"), counts
        return self._cast_pointwise_result(flat), counts

    def _reduce(
        self, name: str, *, skipna: bool = True, keepdims: bool = False, **kwargs: Any
    ) -> Any:
        result = getattr(pd.Series(self._objects), name)(skipna=skipna, **kwargs)
        return _array_of([result]) if keepdims else result

    def _cast_pointwise_result(self, values: Iterable[Any]) -> Any:
        """Return the results of a function with the dtype of a column that holds them."""
        found = list(values)
        kinds = {type(value) for value in found if not _is_absent(value)}
        if kinds and kinds <= {list, dict}:
            fits = _fits(found, self._dtype.arrow_type)
            return self._from_sequence(found, dtype=self._dtype if fits else JSON_DTYPE)
        return pd.Series(found, dtype=None if kinds else object).array

    def _formatter(self, boxed: bool = False) -> Callable[[Any], str | None]:
        return str if boxed else repr


def decode(column: pa.ChunkedArray[Any]) -> list[Any]:
    """Return the Python values of a column of lists or of JSON text."""
    if column.type == schemas.TEXTS:
        decoder: Callable[[Any], list[Any]] = _decode_lists
    else:
        decoder = rows.decode_items if pa.types.is_list(column.type) else _decode_json
    return list(chain.from_iterable(map(decoder, column.chunks)))


def _decode_json(chunk: pa.Array[Any]) -> list[Any]:
    if chunk.null_count == len(chunk):
        return [None] * len(chunk)
    # As one JSON array: a decoder call for each text would cost as much as the decoding.
    texts: list[Any] = chunk.fill_null("null").to_pylist()
    values: list[Any] = orjson.loads(f"[{','.join(texts)}]")
    return values


def _decode_lists(chunk: pa.ListArray[Any]) -> list[list[Any] | None]:
    """Slice the flat values at the offsets, which is faster than one scalar per list."""
    offsets = chunk.offsets.to_pylist()
    flat = chunk.values.to_pylist()  # noqa: PD011 - an Arrow array, which has no to_numpy twin
    cuts = zip(offsets, offsets[1:], chunk.is_valid().to_pylist(), strict=False)
    return [flat[start:stop] if valid else None for start, stop, valid in cuts]


def to_arrow(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array[Any]:
    """Return values as an Arrow array; as JSON text if one does not fit the type."""
    if arrow_type == schemas.TEXT or not _fits(values, arrow_type):
        return pa.array([None if v is None else _json_text(v) for v in values], schemas.TEXT)
    if schemas.has_items(pa.field("", arrow_type)):
        values = [None if each is None else rows.encode_items(each, arrow_type) for each in values]
    return pa.array(values, arrow_type)


def _json_text(value: Any) -> str:
    try:
        return dumps(value)
    except TypeError:  # a value of the user, such as a set or a Timestamp
        return json.dumps(value, default=str, ensure_ascii=False)


def _fits(values: Iterable[Any], arrow_type: pa.DataType) -> bool:
    present = [value for value in values if value is not None]
    if arrow_type == schemas.TEXTS:
        return all(
            isinstance(each, list) and all(isinstance(item, str) for item in each)
            for each in present
        )
    return arrow_type == schemas.TEXT or all(isinstance(each, list) for each in present)


def _array_of(values: Iterable[Any]) -> Any:
    """Return a one-dimensional array, also of lists of equal length."""
    listed = list(values)
    return np.fromiter(listed, object, len(listed))


def _is_absent(value: Any) -> bool:
    is_nan = isinstance(value, float) and value != value  # noqa: PLR0124 - NaN
    return value is None or value is pd.NA or value is pd.NaT or is_nan


def _is_position(key: Any) -> bool:
    return isinstance(key, int | np.integer)
