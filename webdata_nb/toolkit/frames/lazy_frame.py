"""Builds a dask.dataframe over the parts of a call, without reading a row."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from webdata_nb.errors import MissingExtra
from webdata_nb.toolkit.frames import frame
from webdata_nb.toolkit.frames.frame import CallReceipt, NestedArray, NestedDtype
from webdata_nb.toolkit.frames.storage import PartDataset

if TYPE_CHECKING:
    from dask.dataframe import DataFrame as DaskFrame

    from webdata_nb.toolkit.frames.frame import DtypeBackend


def require_dask() -> None:
    """Check that dask.dataframe is installed.

    Raises
    ------
    MissingExtra
        It is not.
    """
    try:
        import dask.dataframe  # noqa: F401, PLC0415 - it takes a second
    except ImportError:
        raise MissingExtra(
            "lazy=True needs dask, which is not installed: pip install 'webdata_nb[dask]'"
        ) from None


@dataclass(frozen=True, slots=True)
class PartReader:
    """Reads one part as a frame whose index is the position in the whole; it pickles."""

    dataset: PartDataset
    dtype_backend: DtypeBackend

    def __call__(
        self, number: int, first: int, columns: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Return the rows of a part."""
        table = self.dataset.read_part(number, columns)
        built = frame.build(table, dtype_backend=self.dtype_backend)
        built.index = pd.RangeIndex(first, first + len(built))
        return built


def _teach_dask_nested_columns() -> None:
    """Tell dask what a column of lists and dicts looks like, with which it tries operations."""
    from dask.dataframe.extensions import make_array_nonempty  # noqa: PLC0415 - see above

    def example(dtype: NestedDtype) -> NestedArray:
        is_list = pa.types.is_list(dtype.arrow_type)
        return NestedArray([["x"], ["y"]] if is_list else [{}, {}], dtype)

    make_array_nonempty.register(NestedDtype, example)


def build(
    dataset: PartDataset,
    rows: Mapping[int, int],
    schema: pa.Schema,
    *,
    attrs: Mapping[str, Any],
    dtype_backend: DtypeBackend,
) -> DaskFrame:
    """Return the lazy frame; `rows` has the number of rows of each part, by its number.

    A part is a partition, and the divisions are the positions of the first rows. Parts without rows
    are left out.
    """
    import dask  # noqa: PLC0415 - see above
    import dask.dataframe as dd  # noqa: PLC0415 - see above

    filled = [number for number, count in rows.items() if count] or list(rows)[:1]
    counts = [rows[number] for number in filled]
    firsts = list(itertools.accumulate(counts, initial=0))
    _teach_dask_nested_columns()
    meta = frame.build(schema.empty_table(), dtype_backend=dtype_backend)
    meta.attrs = {frame.ATTRS: CallReceipt(attrs)}
    # By default, dask would turn lists and dicts into text.
    with dask.config.set({"dataframe.convert-string": False}):
        from_map: Any = dd.from_map
        lazy: DaskFrame = from_map(
            PartReader(dataset, dtype_backend),
            filled,
            firsts[:-1],
            meta=meta,
            divisions=(*firsts[:-1], max(firsts[-1] - 1, 0)),
            label="webdata",
        )
    return lazy
