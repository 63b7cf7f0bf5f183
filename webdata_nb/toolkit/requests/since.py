"""Reads the options `since` and `recheck`: which earlier crawl unchanged pages are taken from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Final, Self

from webdata_nb.contract import limits
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_value, is_frame
from webdata_nb.toolkit.requests.arguments import check_entries
from webdata_nb.toolkit.requests.options import SinceDict

LAST: Final = "last"
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ATTRS: Final = "webdata"
_ALLOWED: Final = '"last", a frame of crawl_df, the id of a crawl, or a time'


@dataclass(frozen=True, slots=True)
class Since:
    """The earlier crawl of an incremental one.

    Attributes
    ----------
    job_id
        The crawl; None until the cache has found it, or where there is none.
    is_exact
        Whether the caller named this crawl. Otherwise every page is fetched where it is gone.
    before
        The latest time of the crawl that the cache looks for; None for the last one.
    recheck
        The share of unchanged pages that are fetched in full; None for the service's default.
    refusal
        Why the service cannot use the crawl that the cache found; "" if it can.
    """

    job_id: str | None = None
    is_exact: bool = False
    before: datetime | None = None
    recheck: float | None = None
    refusal: str = ""

    @classmethod
    def check(cls, since: object) -> Self | None:
        """Check the option that a user passed; None if it asks for no incremental crawl.

        Raises
        ------
        InvalidArgument
            It has a value that is not allowed; nothing was sent.
        """
        if since is None:
            return None
        if not isinstance(since, Mapping):
            return cls._of(since)
        entries = check_entries("since", since, SinceDict)
        if "base" not in entries:
            raise InvalidArgument(f"since must have the entry base: {_ALLOWED}")
        return replace(cls._of(entries["base"]), recheck=_share(entries.get("recheck")))

    @classmethod
    def _of(cls, since: object) -> Self:
        if is_frame(since):
            return cls(_job_of_frame(since), is_exact=True)
        if isinstance(since, str):
            if since == LAST:
                return cls()
            return cls(since, is_exact=True) if _UUID.fullmatch(since) else cls(before=_time(since))
        if isinstance(since, date):  # as are a datetime and a Timestamp of pandas
            return cls(before=_time(since.isoformat()))
        raise InvalidArgument(f"since must be {_ALLOWED}; it is {format_value(since)}")

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the request; none without an earlier crawl."""
        if self.job_id is None:
            return {}
        recheck = {} if self.recheck is None else {"recheck": self.recheck}
        return {"base": {"job_id": self.job_id, **recheck}}


def _share(recheck: object) -> float | None:
    low, high = limits.RECHECK
    if recheck is None:
        return None
    is_number = isinstance(recheck, int | float) and not isinstance(recheck, bool)
    if not is_number or not low <= recheck <= high:  # type: ignore[operator]
        raise InvalidArgument(
            f"recheck must be a share from {low:g} to {high:g}; it is {format_value(recheck)}"
        )
    return float(recheck)  # type: ignore[arg-type]


def _job_of_frame(frame: object) -> str:
    attrs = getattr(frame, "attrs", {}).get(_ATTRS)
    receipt: Mapping[str, Any] = attrs if isinstance(attrs, Mapping) else {}
    job_id = receipt.get("job_id")
    if receipt.get("kind") != "crawl" or not isinstance(job_id, str):
        raise InvalidArgument(
            "since must be a frame of one crawl with its receipt, as crawl_df returns it; this "
            f"frame has {_kind_of(receipt)}"
        )
    return job_id


def _kind_of(receipt: Mapping[str, Any]) -> str:
    if not receipt:
        return "no receipt"
    if "runs" in receipt:
        return "the receipt of several crawls"
    kind = receipt.get("kind")
    if kind == "crawl":
        return "a receipt without the id of its job"
    return f"a receipt of the kind {format_value(kind)}"


def _time(text: str) -> datetime:
    """Return a time; one without a time zone is in that of this machine."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        raise InvalidArgument(f"since must be {_ALLOWED}; it is {format_value(text)}") from None
