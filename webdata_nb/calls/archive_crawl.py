"""Checks crawls of WARC and WACZ files, which the local service reads from this machine's disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from webdata_nb.contract.archives import SUFFIXES
from webdata_nb.errors import InvalidArgument
from webdata_nb.requests.call_options import CallOptions
from webdata_nb.requests.inputs import Input, in_partitions, request_values
from webdata_nb.requests.job_spec import JobSpec
from webdata_nb.requests.options import CrawlDfOptions, CrawlOptions
from webdata_nb.suggestions import format_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import TypeIs


def is_archive(url: str | Path | Sequence[str]) -> TypeIs[str | Path]:
    """Return whether what a call wants to crawl is the path of an archive, and no URL."""
    if isinstance(url, Path):
        return True
    return isinstance(url, str) and "://" not in url and url.lower().endswith(SUFFIXES)


def archive_inputs(
    url: str | Path | Sequence[str],
    archive: str | Path | None,
    options: CrawlDfOptions,
    *,
    lazy: bool,
) -> list[Input]:
    """Return the input of a crawl of `archive` from `url`, or of the archive that `url` names.

    Raises
    ------
    InvalidArgument
        There is no such file, an option has no meaning for archives, or the session does not use
        the local service; nothing was sent.
    """
    start: str | None = None
    if archive is None and is_archive(url):
        archive = url
    elif isinstance(url, str):
        start = url
    else:
        raise InvalidArgument(
            f"with archive, url must be one URL, where to start in it; it is {format_value(url)}"
        )
    if in_partitions(options, lazy=lazy):
        raise InvalidArgument("an archive is read on this machine: without Dask and lazy=True")
    values = request_values(options, CrawlOptions)
    spec = JobSpec.archive_crawl(_checked_path(archive), start, **values)
    call = CallOptions.check({**options, "out": None}, options["on_incomplete"])  # type: ignore[typeddict-unknown-key]
    scope = call.connection.scope(call.settings)
    if not scope.local:
        raise InvalidArgument(
            f"archives are read by the local service only, and this session uses {scope.service}: "
            "leave out its address"
        )
    return [Input({}, spec)]


def _checked_path(archive: str | Path | None) -> Path:
    if not isinstance(archive, str | Path):
        raise InvalidArgument(f"archive must be a path; it is {format_value(archive)}")
    path = Path(archive).expanduser().absolute()
    if not path.name.lower().endswith(SUFFIXES):
        raise InvalidArgument(f"an archive is a file {', '.join(SUFFIXES)}; it is {path}")
    if not path.is_file():
        raise InvalidArgument(f"there is no archive {path}")
    return path
