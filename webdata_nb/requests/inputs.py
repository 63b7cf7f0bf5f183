"""Builds the inputs of a call: every combination of its list arguments, in order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

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

MAX_INPUTS: Final = 10_000

# The arguments that may be lists, and the columns that hold their values.
_SEARCH_LABELS: Final = {name: name for name in ("query", "engine", "language", "country")}
_CRAWL_LABELS: Final = {"url": "start_url"}
_CREATIVES_LABELS: Final = {name: name for name in ("advertiser", "region", "date_range")}


@dataclass(frozen=True, slots=True)
class Input:
    """One combination of list arguments; a call without lists has one input without labels."""

    labels: Mapping[str, Label]
    spec: JobSpec


def search_inputs(query: str | Sequence[str], options: SearchOptions) -> list[Input]:
    """Return the searches of a call.

    Raises
    ------
    InvalidArgument
        A list is empty, or the contract does not allow an input; nothing was sent.
    """
    values = {"query": query, **request_values(options, SearchOptions)}
    return _combinations(JobSpec.search, values, _SEARCH_LABELS)


def crawl_inputs(url: str | Sequence[str], options: CrawlOptions) -> list[Input]:
    """Return the crawls of a call; raises as `search_inputs`."""
    values = {"url": url, **request_values(options, CrawlOptions)}
    return _combinations(JobSpec.crawl, values, _CRAWL_LABELS)


def page_inputs(urls: str | Sequence[str], options: SinglePageOptions) -> list[Input]:
    """Return a crawl of one page for each URL; raises as `search_inputs`."""
    url_list = arguments.list_items("urls", [urls] if isinstance(urls, str) else urls)
    if url_list is None:
        raise InvalidArgument("urls must be a URL or a list of URLs")
    pages = request_values(options, SinglePageOptions)
    values = {"url": url_list, "max_pages": 1, "max_depth": 1, **pages}
    return _combinations(JobSpec.crawl, values, _CRAWL_LABELS)


def creatives_inputs(advertiser: str | Sequence[str], options: CreativesOptions) -> list[Input]:
    """Return the listings of a call; raises as `search_inputs`."""
    values = {"advertiser": advertiser, **request_values(options, CreativesOptions)}
    return _combinations(JobSpec.creatives, values, _CREATIVES_LABELS)


def request_values(options: object, group: type) -> dict[str, Any]:
    """Return the options of a call that belong to `group`."""
    values = cast("Mapping[str, Any]", options)
    return {name: values[name] for name in group.__annotations__ if name in values}


def _combinations(
    make: Callable[..., JobSpec], values: Mapping[str, Any], labels: Mapping[str, str]
) -> list[Input]:
    lists = {name: arguments.list_items(name, values.get(name)) for name in labels}
    axes = {name: entries for name, entries in lists.items() if entries is not None}
    if not axes:
        return [Input({}, make(**values))]
    first = next(iter(labels))
    axes = {first: axes.get(first, [values.get(first)]), **axes}
    count = math.prod(len(entries) for entries in axes.values())
    if count > MAX_INPUTS:
        raise InvalidArgument(f"the lists make {count} inputs: {MAX_INPUTS} at most in one call")
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
    return Input(columns, make(**{**values, **combination}))


def _label(value: object) -> Label:
    return None if value is None else arguments.mask_credentials(str(value))
