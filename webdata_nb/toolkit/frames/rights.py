"""Derives a frame of the declarations about the use of pages from the column `rights`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from webdata_nb.contract.choices import PURPOSES
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.frames import frame, schemas
from webdata_nb.toolkit.frames.derive import page_urls, to_frame
from webdata_nb.toolkit.frames.json_text import decoded

__all__ = ["rights_df"]

_FIELDS: Final[list[tuple[str, pa.DataType]]] = [
    ("url", schemas.TEXT),
    ("position", pa.int32()),
    ("signal", schemas.TEXT),
    *((purpose, schemas.TEXT) for purpose in PURPOSES),
    ("read_at", schemas.WHEN),
    ("line_number", pa.int32()),
    *((name, schemas.TEXT) for name in ("source", "line", "problem")),
]
_SIGNALS: Final = pa.schema(_FIELDS)


def rights_df(df: pd.DataFrame) -> pd.DataFrame:
    """Return every declaration about the use of the pages, one row each.

    Parameters
    ----------
    df
        A frame with a `rights` column, from `crawl_df` or `scrape_df` with `rights` or `purpose`.

    Returns
    -------
    pandas.DataFrame
        ============ =================== ==================================================
        column       dtype               meaning
        ============ =================== ==================================================
        url          str                 the page
        position     Int32               position among the page's declarations, from 1
        signal       str                 `robots`, `content-signal`, `content-usage`, `rsl`,
                                         `robots-tag`, `tdm` or `license`
        search       str                 `allowed` or `refused`; missing where it says
                                         nothing of that purpose. So are `ai-input`,
                                         `ai-train` and `research`
        read_at      datetime64[us, UTC] when its source was read
        line_number  Int32               its line, if the source is a file
        source       str                 the URL of the file or page that has it
        line         str                 the line, header or element
        problem      str                 why it could not be read as a whole
        ============ =================== ==================================================

    Raises
    ------
    InvalidArgument
        The column is missing, or has text that is not JSON.

    Examples
    --------
    >>> import pandas as pd
    >>> signal = {"signal": "content-usage", "says": {"ai-train": "refused"}}
    >>> pages = pd.DataFrame({"url": ["http://a.test/"], "rights": [{"signals": [signal]}]})
    >>> rights_df(pages)["ai-train"].tolist()
    ['refused']
    """
    frame.require_frame(df)
    if "rights" not in df.columns:
        raise InvalidArgument(
            "df has no column rights: pass rights=True or a purpose to the call; "
            f"it is {format_value(df)}"
        )
    return to_frame("rights", list(_signals(df)), _SIGNALS, df)


def _signals(df: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for url, value in zip(page_urls(df), df["rights"].tolist(), strict=True):
        rights = decoded(value, "rights")
        signals: Any = rights.get("signals") if isinstance(rights, Mapping) else None
        if not pd.api.types.is_list_like(signals):  # pandas reads lists of Parquet as arrays
            continue
        for position, signal in enumerate(signals, 1):
            if isinstance(signal, Mapping):
                says = signal.get("says")
                verdicts = says if isinstance(says, Mapping) else {}
                fields = {**signal, "read_at": _time(signal.get("read_at"))}
                yield {**fields, **verdicts, "url": url, "position": position}


def _time(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
