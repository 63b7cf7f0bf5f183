"""Builds the inputs of a call: every combination of its list arguments, in order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, get_args, overload

from webdata_nb.contract.archives import SUFFIXES, WRITTEN_SUFFIX
from webdata_nb.contract.choices import ARCHIVE_SOURCES, PURPOSES
from webdata_nb.contract.requests import conflict_of
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import closest, did_you_mean, format_value, quoted
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.arguments import CallOptions
from webdata_nb.toolkit.requests.job_spec import JobSpec, Since, is_long, subject_fields
from webdata_nb.toolkit.requests.options import (
    AsOfDict,
    CrawlOptions,
    CreativesOptions,
    SearchOptions,
    Seed,
    SinglePageOptions,
)

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from webdata_nb.toolkit.frames.input_rows import Label
    from webdata_nb.toolkit.requests.options import CrawlDfOptions

MAX_INPUTS: Final = 10_000

# The arguments that may be lists, and the columns that hold their values.
_SEARCH_LABELS: Final = {name: name for name in ("query", "engine", "language", "country")}
_CRAWL_LABELS: Final = {"url": "start_url"}
# Valid subjects, which stand in for invalid entries.
_STAND_INS: Final = {"query": "query", "url": "https://example.com/", "advertiser": "AR1"}
_SUBJECT_FIELDS: Final = frozenset({"query", "url", "advertiser_id"})
_MISSING_TYPES: Final = frozenset({"NAType", "NaTType"})
_CREATIVES_LABELS: Final = {name: name for name in ("advertiser", "region", "date_range")}


@dataclass(frozen=True, slots=True)
class Input:
    """One combination of list arguments; a call without lists has one input without labels.

    An input with an `error` is not run: its list has an invalid entry. The `spec` then has a valid
    subject in place of the entry, and is used for its columns only.
    """

    labels: Mapping[str, Label]
    spec: JobSpec
    error: InvalidArgument | None = None

    @property
    def public_request(self) -> dict[str, Any]:
        """The request without secrets, and without the subject of an invalid input."""
        request = self.spec.public_request
        hidden = _SUBJECT_FIELDS if self.error is not None else ()
        return {name: value for name, value in request.items() if name not in hidden}


def identity(inputs: Sequence[Input]) -> Iterator[object]:
    """Yield the values that tell apart two lists with the same options, without a password."""
    if isinstance(inputs, InputList):
        return inputs.identity()
    return ([item.labels, item.error is None] for item in inputs)


def valid_specs(inputs: Sequence[Input]) -> list[JobSpec]:
    """Return the requests of the inputs that can be run."""
    return [item.spec for item in inputs if item.error is None]


def representative(inputs: Sequence[Input]) -> Input:
    """Return the first input that can be run; the first one if there is none."""
    return next((item for item in inputs if item.error is None), inputs[0])


def refuse_invalid_inputs(inputs: Sequence[Input]) -> None:
    """Raise the error of the first invalid entry of a list."""
    for number, item in enumerate(inputs, start=1):
        if item.error is not None:
            raise InvalidArgument(f"input {number} of {len(inputs)}: {item.error}")


def search_inputs(
    query: str | Sequence[str], options: SearchOptions, *, lazy: bool = False
) -> Sequence[Input]:
    """Return the searches of a call; an invalid query of a list is an input with an error.

    A call in partitions, which Dask runs or whose frame is `lazy`, may have more inputs than
    others, and a single input is one of a list.

    Raises
    ------
    InvalidArgument
        A list is empty, or the contract does not allow an option; nothing was sent.
    """
    values = {"query": query, **request_values(options, SearchOptions)}
    return _combinations(JobSpec.search, values, _SEARCH_LABELS, in_partitions(options, lazy=lazy))


def url_inputs(
    url: object, values: Mapping[str, Any], *, partitioned: bool = False
) -> Sequence[Input]:
    """Return the crawls of URLs with the options of `JobSpec.crawl`; raises as `search_inputs`."""
    return _combinations(JobSpec.crawl, {"url": url, **values}, _CRAWL_LABELS, partitioned)


def page_inputs(urls: str | Sequence[str], options: SinglePageOptions) -> Sequence[Input]:
    """Return a crawl of one page for each URL; raises as `search_inputs`."""
    url_list = arguments.list_items("urls", [urls] if isinstance(urls, str) else urls)
    if url_list is None:
        raise InvalidArgument(f"urls must be a URL or a list of URLs; it is {format_value(urls)}")
    pages = {"max_pages": 1, "max_depth": 1, **crawl_fields(options, SinglePageOptions)}
    return url_inputs(url_list, pages, partitioned=in_partitions(options))


def creatives_inputs(advertiser: str | Sequence[str], options: CreativesOptions) -> Sequence[Input]:
    """Return the listings of a call; raises as `search_inputs`."""
    values = {"advertiser": advertiser, **request_values(options, CreativesOptions)}
    return _combinations(JobSpec.creatives, values, _CREATIVES_LABELS, in_partitions(options))


def in_partitions(options: object, *, lazy: bool = False) -> bool:
    """Return whether a call runs its inputs in partitions."""
    return lazy or arguments.is_dask(cast("Mapping[str, Any]", options).get("executor"))


def request_values(options: object, group: type) -> dict[str, Any]:
    """Return the options of a call that belong to `group`."""
    values = cast("Mapping[str, Any]", options)
    return {name: values[name] for name in group.__annotations__ if name in values}


def crawl_fields(options: object, group: type) -> dict[str, Any]:
    """Return the options of a call that belong to `group`, as fields of a crawl's request.

    Raises
    ------
    InvalidArgument
        `rights` or `seeds` has another value than those in its description.
    """
    fields = request_values(options, group)
    rights = fields.pop("rights", None)
    if isinstance(rights, bool):
        fields["rights"] = rights
    elif rights is not None:
        fields["purpose"] = arguments.check_choice("rights", rights, PURPOSES, "True, False")
    seeds = fields.pop("seeds", None)
    if seeds is not None:
        if not isinstance(seeds, list | tuple):
            raise InvalidArgument(f"seeds must be a list; it is {format_value(seeds)}")
        fields |= {arguments.check_choice("seeds", seed, get_args(Seed)): True for seed in seeds}
    return fields


class InputList(Sequence[Input]):
    """Every subject with every combination of the other list arguments, in this order.

    An input is built when it is read: a call in partitions may have a million of them. `templates`
    are the inputs of the combinations, with a valid subject in place of the real ones.
    """

    def __init__(self, label: str, subjects: Sequence[object], templates: Sequence[Input]) -> None:
        self._label, self._templates = label, templates
        self._labels = [_label(subject) for subject in subjects]
        self._errors: dict[int, InvalidArgument] = {}
        self._fields = [self._checked(number, subject) for number, subject in enumerate(subjects)]

    def _checked(self, number: int, subject: object) -> Mapping[str, Any] | None:
        try:
            return subject_fields(self._templates[0].spec.op, subject)
        except InvalidArgument as error:
            self._errors[number] = error
            return None

    def __len__(self) -> int:
        return len(self._fields) * len(self._templates)

    @overload
    def __getitem__(self, index: int) -> Input: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Input]: ...

    def __getitem__(self, index: int | slice) -> Input | Sequence[Input]:
        positions = range(len(self))[index]
        return self._at(positions) if isinstance(positions, int) else list(map(self._at, positions))

    def _at(self, position: int) -> Input:
        number, combination = divmod(position, len(self._templates))
        template, fields = self._templates[combination], self._fields[number]
        columns = {self._label: self._labels[number], **template.labels}
        if fields is None:
            return Input(columns, template.spec, self._errors[number])
        return Input(columns, template.spec.with_subject(fields))

    def identity(self) -> Iterator[object]:
        """Yield the values that tell apart two lists with the same options, without a password."""
        for template in self._templates:
            yield template.labels
        for label, fields in zip(self._labels, self._fields, strict=True):
            yield [label, fields is not None]


def _combinations(
    make: Callable[..., JobSpec],
    values: Mapping[str, Any],
    labels: Mapping[str, str],
    partitioned: bool,
) -> Sequence[Input]:
    lists = {name: arguments.list_items(name, values.get(name)) for name in labels}
    axes = {name: entries for name, entries in lists.items() if entries is not None}
    if not axes and not partitioned:
        return [Input({}, make(**values))]
    subject, *others = labels
    subjects = axes.get(subject, [values.get(subject)])
    options = {name: axes[name] for name in others if name in axes}
    count = math.prod([len(subjects), *map(len, options.values())])
    limit = arguments.MAX_PARTITIONED_INPUTS if partitioned else MAX_INPUTS
    if count > limit:
        most = arguments.MAX_PARTITIONED_INPUTS
        hint = "" if partitioned else f", or {most} with Dask or lazy=True"
        raise InvalidArgument(f"the lists make {count} inputs: {limit} at most in one call{hint}")
    # Options are checked once, with a valid subject, and subjects without options.
    templates = [
        _template(make, {**values, subject: _STAND_INS[subject]}, labels, chosen)
        for chosen in itertools.product(
            *([(name, one) for one in options[name]] for name in options)
        )
    ]
    combinations = InputList(labels[subject], subjects, templates)
    return combinations if partitioned else list(combinations)


def _template(
    make: Callable[..., JobSpec],
    values: Mapping[str, Any],
    labels: Mapping[str, str],
    chosen: Sequence[tuple[str, Any]],
) -> Input:
    columns = {labels[name]: _label(value) for name, value in chosen}
    return Input(columns, make(**{**values, **dict(chosen)}))


def _label(value: object) -> Label:
    is_nan = isinstance(value, float) and math.isnan(value)
    if value is None or is_nan or type(value).__name__ in _MISSING_TYPES:
        return None
    return arguments.mask_credentials(str(value))


# Builds the inputs of a crawl from its URL, its source and its base, as a user passes them.


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
        "a Dask executor": arguments.is_dask(executor),
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
        inputs = url_inputs(url, values, partitioned=lazy or arguments.is_dask(executor))
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
