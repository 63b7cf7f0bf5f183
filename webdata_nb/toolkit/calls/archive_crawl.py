"""Checks crawls that read or write archives: the local service does it on this machine."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from webdata_nb.contract.archives import SUFFIXES, WRITTEN_SUFFIX
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.cache.result import deliver
from webdata_nb.toolkit.calls import budget, single_call
from webdata_nb.toolkit.frames import warc
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.call_options import CallOptions, FanOutOptions
from webdata_nb.toolkit.requests.inputs import Input, in_partitions, request_values
from webdata_nb.toolkit.requests.job_spec import JobSpec
from webdata_nb.toolkit.requests.options import CrawlDfOptions, CrawlOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from typing_extensions import TypeIs


def has_archive(url: object) -> bool:
    """Return whether what a call wants to crawl is the path of an archive, or a list with one."""
    if _is_archive(url):
        return True
    return not isinstance(url, str) and any(
        map(_is_archive, arguments.list_items("url", url) or ())
    )


def _is_archive(url: object) -> TypeIs[str | Path]:
    if isinstance(url, Path):
        return True
    return isinstance(url, str) and "://" not in url and url.lower().endswith(SUFFIXES)


def archive_inputs(
    url: str | Path | Sequence[str | Path],
    archive: str | Path | None,
    options: CrawlDfOptions,
    *,
    lazy: bool,
) -> list[Input]:
    """Return the input of a crawl of `archive` from `url`, or of the archives that `url` names.

    Raises
    ------
    InvalidArgument
        There is no such file, an option has no meaning for archives, or the session does not use
        the local service; nothing was sent.
    """
    start: str | None = None
    items: Sequence[object] | None = None
    if archive is None:
        items = arguments.list_items("url", url)
        _check_all_archives(items or ())
    elif isinstance(url, str):
        start = url
    else:
        raise InvalidArgument(
            f"with archive, url must be one URL, where to start in it; it is {format_value(url)}"
        )
    if in_partitions(options, lazy=lazy):
        raise InvalidArgument("an archive is read on this machine: without Dask and lazy=True")
    values = request_values(options, CrawlOptions)
    inputs = [
        Input(
            {} if items is None else {"start_url": str(each)},
            JobSpec.archive_crawl(_checked_path(each), start, **values),
        )
        for each in items or [url if archive is None else archive]
    ]
    _checked_call(options)
    return inputs


def _check_all_archives(items: Sequence[object]) -> None:
    for item in items:
        if not _is_archive(item):
            raise InvalidArgument(
                "a list of archives has paths of files only: crawl the others in a call of their "
                f"own; one is {format_value(item)}"
            )


def is_recorded(options: CrawlDfOptions) -> bool:
    """Return whether a call wants a WARC file."""
    out = options.get("out")
    return isinstance(out, str | Path) and str(out).lower().endswith(SUFFIXES)


async def record(
    url: str | Path | Sequence[str | Path],
    options: CrawlDfOptions,
    without_effect: Mapping[str, object],
) -> pd.DataFrame:
    """Run a crawl that writes the WARC file `out`, and return its rows.

    Raises
    ------
    InvalidArgument
        An argument is not allowed; nothing was sent.
    JobFailed, JobCancelled, IncompleteResult
        Rows are missing. What was fetched is in a file with `.partial` in its name.
    """
    unused = {**without_effect, "executor": options["executor"], "partition": options["partition"]}
    for name, value in unused.items():
        if value:
            raise InvalidArgument(f"{name} has no effect with a WARC file as out: leave it out")
    if not isinstance(url, str):
        raise InvalidArgument(
            f"with a WARC file as out, url must be one URL; it is {format_value(url)}"
        )
    path = _checked_target(options["out"])
    spec = JobSpec.recorded_crawl(url, path, **request_values(options, CrawlOptions))
    call = replace(_checked_call(options), cache=False)
    if call.settings.replay is not None:
        raise InvalidArgument(
            "a replayed call sends no requests that a WARC file could have: leave out out, or end "
            "replay()"
        )
    await budget.check([spec], call, FanOutOptions.check(options).budget)
    result = await single_call.fetch_result(spec, call)
    if result.complete and result.error() is None:
        await asyncio.to_thread(warc.append_receipt, path, result.attrs)
    return await deliver(result, call)


def _checked_call(options: CrawlDfOptions) -> CallOptions:
    """Return the options of a call of the local service; `out` is left out."""
    call = CallOptions.check_without_out(options)
    scope = call.connection.scope(call.settings)
    if not scope.local:
        raise InvalidArgument(
            "archives are read and written by the local service only, and this session uses "
            f"{scope.service}: leave out its address"
        )
    return call


def _checked_target(out: object) -> Path:
    path = arguments.check_file_path("out", out)
    if not path.name.lower().endswith(WRITTEN_SUFFIX):
        raise InvalidArgument(f"an archive is written as {WRITTEN_SUFFIX}; out is {path}")
    return path


def _checked_path(archive: object) -> Path:
    path = arguments.absolute_path("archive", archive)
    if not path.name.lower().endswith(SUFFIXES):
        raise InvalidArgument(f"an archive is a file {', '.join(SUFFIXES)}; it is {path}")
    if not path.is_file():
        raise InvalidArgument(f"there is no archive {path}")
    return path
