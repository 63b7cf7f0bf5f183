"""Checks calls with `since`: crawls that take unchanged pages from an earlier crawl."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from webdata_nb.contract import limits
from webdata_nb.contract.requests import CrawlRequest
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.calls.long_crawl import is_long
from webdata_nb.toolkit.requests.inputs import Input, crawl_inputs
from webdata_nb.toolkit.requests.options import CrawlDfOptions
from webdata_nb.toolkit.requests.since import Since


def incremental_inputs(
    url: str | Sequence[str],
    options: CrawlDfOptions,
    since: Since,
    *,
    stream: bool,
    lazy: bool,
) -> Sequence[Input]:
    """Return the crawls of a call with `since`.

    Raises
    ------
    InvalidArgument
        An option is not allowed with `since`; nothing was sent.
    """
    executor, partition = options["executor"], options["partition"]
    without_effect = {"stream": stream, "lazy": lazy, "partition": partition}
    if unused := [name for name, value in without_effect.items() if value]:
        raise InvalidArgument(f"{unused[0]} is not possible with since: leave one of them out")
    if options["rights"] or options["purpose"] is not None:
        raise InvalidArgument(
            "since cannot be combined with rights or purpose: an unchanged page is not read, and "
            "what its site declares may have changed"
        )
    if executor is not None:
        raise InvalidArgument("executor is not possible with since: leave one of them out")
    if is_long(options):
        raise InvalidArgument(
            f"since is possible with max_pages up to {limits.MAX_PAGES[1]}; it is "
            f"{format_value(options['max_pages'])}"
        )
    if not options["cache"] and not since.is_exact:
        raise InvalidArgument(
            "since finds the earlier crawl in the cache: leave cache=False out, or pass its frame "
            "or its id as since"
        )
    inputs = crawl_inputs(url, options)
    request = inputs[0].spec.request
    if isinstance(request, CrawlRequest) and request.scrape_options.may_render:
        raise InvalidArgument(
            "since is not possible with pages that a browser loads: they can change without their "
            "document; leave out render, wait_for, mobile, mobile_device and the format "
            '"screenshot"'
        )
    if since.is_exact and inputs[0].labels:
        raise InvalidArgument(
            'since must be "last" or a time with a list of URLs: a frame or an id is of one crawl'
        )
    return [replace(item, spec=replace(item.spec, since=since)) for item in inputs]
