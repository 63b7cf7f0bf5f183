"""Builds the inputs of a crawl from its URL, its source and its base, as a user passes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from webdata_nb.contract.archives import SUFFIXES, WRITTEN_SUFFIX
from webdata_nb.contract.choices import ARCHIVE_SOURCES
from webdata_nb.contract.conflicts import conflict_of
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import closest, did_you_mean, format_value, quoted
from webdata_nb.toolkit.dask_executor import is_dask
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.call_options import CallOptions
from webdata_nb.toolkit.requests.inputs import Input, crawl_fields, url_inputs
from webdata_nb.toolkit.requests.job_spec import JobSpec, is_long
from webdata_nb.toolkit.requests.options import AsOfDict, CrawlOptions
from webdata_nb.toolkit.requests.since import Since

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from webdata_nb.toolkit.requests.options import CrawlDfOptions

_WARC: Final = "a WARC file as out"


def crawl_inputs(
    url: str | Path | Sequence[str | Path],
    options: CrawlDfOptions,
    *,
    lazy: bool = False,
    forms: Mapping[str, object] | None = None,
) -> Sequence[Input]:
    """Return the crawls of a call: of sites, of archive files, or of a web archive at a date.

    `forms` are what else the call wants, such as `stream`. A call in partitions, which Dask runs
    or whose frame is `lazy`, may have more inputs than others, and a single input is one of a list.

    Raises
    ------
    InvalidArgument
        An option is not allowed, or excludes another one; nothing was sent.
    """
    since = Since.check(options.get("since"))
    archive, dated = _read_as_of(options.get("as_of"))
    reads_file = archive is not None or _has_archive(url)
    executor = options.get("executor")
    used: dict[str, object] = {
        "archive": reads_file,
        "as_of": dated or None,
        "since": since,
        _WARC: _writes_warc(options),
        "audit": options.get("audit"),
        "more than 1,000 pages": is_long(options) and not options.get("audit"),
        "a list": arguments.list_items("url", url),
        "lazy": lazy,
        "a Dask executor": is_dask(executor),
        "executor": executor,
        "partition": options.get("partition"),
        **(forms or {}),
    }
    if conflict := conflict_of(used):
        raise InvalidArgument(conflict)
    values = {**crawl_fields(options, CrawlOptions), **dated}
    if used[_WARC]:
        values["warc"] = _checked_target(options["out"])
    if reads_file:
        inputs: Sequence[Input] = _archive_inputs(url, archive, values)
    else:
        inputs = url_inputs(url, values, partitioned=lazy or is_dask(executor))
    if reads_file or used[_WARC]:
        _check_local(options)
    if since is None:
        return inputs
    _check_base(since, inputs, options)
    return [replace(item, spec=replace(item.spec, since=since)) for item in inputs]


def _writes_warc(options: CrawlDfOptions) -> bool:
    out = options.get("out")
    return isinstance(out, str | Path) and str(out).lower().endswith(SUFFIXES)


# ------------------------------------------------------------------------------------- archives


def _has_archive(url: object) -> bool:
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


def _read_as_of(as_of: object) -> tuple[object, dict[str, Any]]:
    """Return the archive file that `as_of` names, or its entries as the request has them."""
    if as_of is None:
        return None, {}
    entries: dict[str, Any] = {"date": as_of}
    if isinstance(as_of, Mapping):
        entries = arguments.check_entries("as_of", as_of, AsOfDict)
    source = entries.get("source")
    if _is_archive(source):
        if len(entries) > 1:
            raise InvalidArgument(
                "as_of with a file as source has no date and no max_distance: the file has its own "
                "captures"
            )
        return source, {}
    if source is not None and source not in ARCHIVE_SOURCES:
        suggestion = did_you_mean(quoted(closest(source, ARCHIVE_SOURCES)))
        raise InvalidArgument(
            f"the source of as_of must be {' or '.join(map(repr, ARCHIVE_SOURCES))}, or the path "
            f"of a file {', '.join(SUFFIXES)}; it is {format_value(source)}{suggestion}"
        )
    if "date" not in entries:
        raise InvalidArgument(
            "as_of must have the entry date, or the path of an archive file as source"
        )
    entries["as_of"] = arguments.time_text("as_of", entries.pop("date"))
    distance = entries.get("max_distance")
    if isinstance(distance, timedelta):
        entries["max_distance"] = distance / timedelta(days=1)
    return None, entries


def _archive_inputs(
    url: str | Path | Sequence[str | Path], archive: object, values: dict[str, Any]
) -> list[Input]:
    """Return the crawl of `archive` from `url`, or those of the archives that `url` names."""
    if archive is not None:
        if not isinstance(url, str):
            raise InvalidArgument(
                "with a file as source of as_of, url must be one URL, where to start in it; it is "
                f"{format_value(url)}"
            )
        return [Input({}, JobSpec.crawl(url, archive=_checked_path(archive), **values))]
    items = arguments.list_items("url", url)
    for item in items or ():
        if not _is_archive(item):
            raise InvalidArgument(
                "a list of archives has paths of files only: crawl the others in a call of their "
                f"own; one is {format_value(item)}"
            )
    return [
        Input(
            {} if items is None else {"start_url": str(each)},
            JobSpec.crawl(None, archive=_checked_path(each), **values),
        )
        for each in items or [url]
    ]


def _checked_path(archive: object) -> Path:
    path = arguments.absolute_path("the archive", archive)
    if not path.name.lower().endswith(SUFFIXES):
        raise InvalidArgument(f"an archive is a file {', '.join(SUFFIXES)}; it is {path}")
    if not path.is_file():
        raise InvalidArgument(f"there is no archive {path}")
    return path


def _checked_target(out: object) -> Path:
    path = arguments.check_file_path("out", out)
    if not path.name.lower().endswith(WRITTEN_SUFFIX):
        raise InvalidArgument(f"an archive is written as {WRITTEN_SUFFIX}; out is {path}")
    return path


def _check_local(options: CrawlDfOptions) -> None:
    """Refuse files where the session does not use the local service."""
    call = CallOptions.check_without_out(options)
    scope = call.connection.scope(call.settings)
    if not scope.local:
        raise InvalidArgument(
            "archives are read and written by the local service only, and this session uses "
            f"{scope.service}: leave out its address"
        )


# ----------------------------------------------------------------------------------------- base


def _check_base(since: Since, inputs: Sequence[Input], options: CrawlDfOptions) -> None:
    if not options.get("cache", True) and not since.is_exact:
        raise InvalidArgument(
            "since finds the earlier crawl in the cache: leave cache=False out, or pass its frame "
            "or its id as since"
        )
    if since.is_exact and inputs[0].labels:
        raise InvalidArgument(
            'since must be "last" or a time with a list of URLs: a frame or an id is of one crawl'
        )
    # What the service would refuse: the request itself does not have the earlier crawl yet.
    request = cast("Any", inputs[0].spec.request)
    if conflict := conflict_of({**request.used_options, "since": since}):
        raise InvalidArgument(conflict)
