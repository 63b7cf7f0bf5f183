"""Adds `df.webdata` to the frames of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from webdata_nb.errors import InvalidArgument, NoReceipt
from webdata_nb.toolkit.api.links import links_df
from webdata_nb.toolkit.api.repeat import repeat_call
from webdata_nb.toolkit.api.url_outcome import why
from webdata_nb.toolkit.api.verification import verify
from webdata_nb.toolkit.frames import compare, derive, frame, input_rows
from webdata_nb.toolkit.frames.derive import rights_df
from webdata_nb.toolkit.frames.extracted import extract_df
from webdata_nb.toolkit.sites.audit import audit_df
from webdata_nb.toolkit.terminal_text import encodable

if TYPE_CHECKING:
    import pandas as pd

    from webdata_nb.toolkit.api.url_outcome import Why
    from webdata_nb.toolkit.frames.compare import Keep
    from webdata_nb.toolkit.session import Connection


@frame.register_accessor
class FrameAccessor:
    """The receipt of a frame, its failed rows, the frames derived from it, and its refresh.

    Every frame of this package has it as `df.webdata`, also after filtering and sorting. pandas
    drops the receipt in operations such as `merge`; the accessor then raises `NoReceipt`.

    Examples
    --------
    >>> df = crawl_df(start_url, max_pages=5, formats=["links"])
    >>> df.webdata.receipt["kind"]
    'crawl'
    >>> len(df.webdata.failed)
    0
    >>> list(df.webdata.links().columns)
    ['url', 'position', 'link', 'internal', 'text', 'rel', 'status_code', 'error']
    """

    def __init__(self, df: pd.DataFrame) -> None:
        if not frame.has_receipt(df):
            raise NoReceipt(
                "this DataFrame has no receipt in df.attrs['webdata']: df.webdata exists for "
                "frames of webdata_nb (pandas drops the receipt in operations such as merge)"
            )
        self._df = df

    @property
    def receipt(self) -> dict[str, Any]:
        """The receipt, `df.attrs["webdata"]`."""
        return cast("dict[str, Any]", self._df.attrs[frame.ATTRS])

    @property
    def line(self) -> str:
        """The receipt in one line."""
        return frame.receipt_line(self._df)

    @property
    def failed(self) -> pd.DataFrame:
        """The rows that failed: those with `success` False, or for creatives with an `error`."""
        if "success" in self._df.columns:
            return self._df.iloc[input_rows.failed_row_indices(self._df)]
        if "error" in self._df.columns:
            return self._df[self._df["error"].notna()]
        raise InvalidArgument("the frame has neither success nor error, so no row can have failed")

    def why(self, url: str, *, session: Connection | None = None) -> Why:
        """Return the outcome of a URL in a crawl; see `why`."""
        return why(self._df, url, session=session)

    def links(self, *, broken: bool = False, session: Connection | None = None) -> pd.DataFrame:
        """Return every link of the pages, or the broken ones, one row each; see `links_df`."""
        return links_df(self._df, broken=broken, session=session)

    def audit(self) -> pd.DataFrame:
        """Return what is wrong with the site, one row for each finding; see `audit_df`."""
        return audit_df(self._df)

    def images(self) -> pd.DataFrame:
        """Return every image of the pages, one row each; see `images_df`."""
        return derive.images_df(self._df)

    def headings(self) -> pd.DataFrame:
        """Return every heading of the pages, one row each; see `headings_df`."""
        return derive.headings_df(self._df)

    def rights(self) -> pd.DataFrame:
        """Return every declaration about the use of the pages, one row each; see `rights_df`."""
        return rights_df(self._df)

    def extract(self) -> pd.DataFrame:
        """Return the extracted fields as typed columns; see `extract_df`."""
        return extract_df(self._df)

    def verify(self, *, session: Connection | None = None) -> pd.DataFrame:
        """Compare the extracted values with their pages; see `verify`."""
        return verify(self._df, session=session)

    def refresh(
        self,
        *,
        headers: Mapping[str, str] | None = None,
        cookies: Mapping[str, str] | None = None,
        session: Connection | None = None,
        progress: bool | str | None = None,
        timeout: float | None = None,
    ) -> pd.DataFrame:
        """Repeat the call that returned the frame, with a new request, and return the new frame.

        Parameters
        ----------
        headers, cookies
            As in the first call; receipts hold neither.
        session, progress, timeout
            As in `crawl_df`.

        Returns
        -------
        pandas.DataFrame
            Of several inputs, those that the frame still has.

        Raises
        ------
        InvalidArgument
            The frame is not of `search_df`, `crawl_df`, `scrape_df` or `creatives_df`, or comes
            from another service.
        WebdataError
            As the first call.
        """
        private = {"headers": headers, "cookies": cookies}
        secrets = {name: value for name, value in private.items() if value is not None}
        return repeat_call(
            self._df, secrets, {"session": session, "progress": progress, "timeout": timeout}
        )

    def drop_duplicates(
        self, subset: str | Sequence[str] | None = None, *, keep: Keep = "first"
    ) -> pd.DataFrame:
        """Return the frame without the rows whose content is in another row.

        Pages have equal content if their `content_hash` is equal, results of searches if their
        `url` is, creatives and advertisers by their id, captures by their `digest`. Rows of other
        frames, and rows whose content is not known, are compared in every column.

        Parameters
        ----------
        subset
            Columns to compare instead, also of lists and dicts.
        keep
            The row of each group that stays: `"first"`, `"last"`, or False for none.
        """
        return compare.without_duplicates(self._df, subset, keep)

    def __repr__(self) -> str:
        return encodable(self.line or f"frame of kind {self.receipt['kind']}")
