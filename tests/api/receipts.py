"""How a frame's receipt is read by the tests."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

SITE: Final = "https://site.test/"
SECRET: Final = "s3cr3t-value"


def receipt_of(df: pd.DataFrame) -> dict[str, Any]:
    receipt: dict[str, Any] = df.attrs["webdata"]
    return receipt


def frames_equal(first: pd.DataFrame, second: pd.DataFrame) -> bool:
    """Whether two frames agree in rows, dtypes and receipt, but for where they came from."""
    receipts = [{k: v for k, v in receipt_of(df).items() if k != "cache"} for df in (first, second)]
    return (
        first.equals(second) and first.dtypes.equals(second.dtypes) and receipts[0] == receipts[1]
    )
