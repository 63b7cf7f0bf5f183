"""Rows as Arrow tables, frames and files: the only place that knows pandas and pyarrow.

The package is also the public function `tables(df)`, each table of a page as a DataFrame: both
have the one name, so the package can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from webdata_nb.tables.derive import Source


class _Room(ModuleType):
    """The package itself; calling it is `derive.tables`."""

    def __call__(
        self, df: pd.DataFrame, *, source: Source | None = None, min_rows: int = 1
    ) -> list[pd.DataFrame]:
        # Only here: a package must not load its modules before they are used.
        from webdata_nb.tables.derive import tables  # noqa: PLC0415 - see above

        return tables(df, source=source, min_rows=min_rows)


sys.modules[__name__].__class__ = _Room
