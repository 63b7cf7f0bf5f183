"""Builds the inputs of a call: every combination of its list arguments, in order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from webdata_nb.dask_executor import is_dask
from webdata_nb.errors import InvalidArgument
from webdata_nb.frames.stacked import Label
from webdata_nb.requests import arguments
from webdata_nb.requests.job_spec import JobSpec
from webdata_nb.requests.options import (
    CrawlOptions,
    CreativesOptions,
    SearchOptions,
    SinglePageOptions,
)
from webdata_nb.suggestions import format_value

MAX_INPUTS: Final = 10_000
# Of a call in partitions, which keeps no row of them in memory.
MAX_PARTITIONED_INPUTS: Final = 1_000_000

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
) -> list[Input]:
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


def crawl_inputs(
    url: str | Sequence[str], options: CrawlOptions, *, lazy: bool = False
) -> list[Input]:
    """Return the crawls of a call; raises as `search_inputs`."""
    values = {"url": url, **request_values(options, CrawlOptions)}
    return _combinations(JobSpec.crawl, values, _CRAWL_LABELS, in_partitions(options, lazy=lazy))


def page_inputs(urls: str | Sequence[str], options: SinglePageOptions) -> list[Input]:
    """Return a crawl of one page for each URL; raises as `search_inputs`."""
    url_list = arguments.list_items("urls", [urls] if isinstance(urls, str) else urls)
    if url_list is None:
        raise InvalidArgument(f"urls must be a URL or a list of URLs; it is {format_value(urls)}")
    pages = request_values(options, SinglePageOptions)
    values = {"url": url_list, "max_pages": 1, "max_depth": 1, **pages}
    return _combinations(JobSpec.crawl, values, _CRAWL_LABELS, in_partitions(options))


def creatives_inputs(advertiser: str | Sequence[str], options: CreativesOptions) -> list[Input]:
    """Return the listings of a call; raises as `search_inputs`."""
    values = {"advertiser": advertiser, **request_values(options, CreativesOptions)}
    return _combinations(JobSpec.creatives, values, _CREATIVES_LABELS, in_partitions(options))


def in_partitions(options: object, *, lazy: bool = False) -> bool:
    """Return whether a call runs its inputs in partitions."""
    return lazy or is_dask(cast("Mapping[str, Any]", options).get("executor"))


def request_values(options: object, group: type) -> dict[str, Any]:
    """Return the options of a call that belong to `group`."""
    values = cast("Mapping[str, Any]", options)
    return {name: values[name] for name in group.__annotations__ if name in values}


def _combinations(
    make: Callable[..., JobSpec],
    values: Mapping[str, Any],
    labels: Mapping[str, str],
    partitioned: bool,
) -> list[Input]:
    lists = {name: arguments.list_items(name, values.get(name)) for name in labels}
    axes = {name: entries for name, entries in lists.items() if entries is not None}
    if not axes and not partitioned:
        return [Input({}, make(**values))]
    first = next(iter(labels))
    axes = {first: axes.get(first, [values.get(first)]), **axes}
    count = math.prod(len(entries) for entries in axes.values())
    limit = MAX_PARTITIONED_INPUTS if partitioned else MAX_INPUTS
    if count > limit:
        hint = "" if partitioned else f", or {MAX_PARTITIONED_INPUTS} with Dask or lazy=True"
        raise InvalidArgument(f"the lists make {count} inputs: {limit} at most in one call{hint}")
    return [
        _input(make, values, labels, dict(zip(axes, combination, strict=True)))
        for combination in itertools.product(*axes.values())
    ]


def _input(
    make: Callable[..., JobSpec],
    values: Mapping[str, Any],
    labels: Mapping[str, str],
    combination: Mapping[str, Any],
) -> Input:
    columns = {labels[name]: _label(value) for name, value in combination.items()}
    try:
        return Input(columns, make(**{**values, **combination}))
    except InvalidArgument:
        subject = next(iter(labels))
        error = _subject_error(make, subject, combination[subject])
        if error is None:  # the options are wrong, for every input
            raise
        return Input(columns, make(**{**values, **combination, **_stand_in(subject)}), error)


def _subject_error(
    make: Callable[..., JobSpec], subject: str, value: object
) -> InvalidArgument | None:
    """Return the error of a subject that no options make valid."""
    try:
        make(**{subject: value})
    except InvalidArgument as error:
        return error
    return None


def _stand_in(subject: str) -> dict[str, str]:
    return {subject: _STAND_INS[subject]}


def _label(value: object) -> Label:
    is_nan = isinstance(value, float) and math.isnan(value)
    if value is None or is_nan or type(value).__name__ in _MISSING_TYPES:
        return None
    return arguments.mask_credentials(str(value))
