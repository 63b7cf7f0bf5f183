"""Merges the page options that a call passes directly with its `scrape_options`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.requests.extract_schema import extract_request
from webdata_nb.toolkit.requests.options import CrawlPageOptions, ScrapedPageOptions

# The name in the request of each page option. `timeout` is the job's in the functions.
REQUEST_NAMES: Final[Mapping[str, str]] = {
    **{name: name for name in ScrapedPageOptions.__annotations__},
    "page_timeout": "timeout",
}


@dataclass(frozen=True, slots=True)
class MergedOptions:
    """The values of a request, and for its messages the arguments that they come from."""

    values: dict[str, Any]
    argument_names: dict[str, str]


def merge(options: Mapping[str, Any]) -> MergedOptions:
    """Return the options of a crawl with all page options in `scrape_options`.

    Raises
    ------
    InvalidArgument
        An option is passed directly and in `scrape_options`.
    """
    direct = {name: options[name] for name in REQUEST_NAMES if options.get(name) is not None}
    values = {name: value for name, value in options.items() if name not in REQUEST_NAMES}
    scrape_options = values.get("scrape_options")
    argument_names = {f"scrape_options.{REQUEST_NAMES[name]}": name for name in direct}
    if scrape_options is None:
        scrape_options = {}
        argument_names["scrape_options"] = ""
    if isinstance(scrape_options, Mapping):
        _check_passed_once(direct, scrape_options)
        merged = {**scrape_options, **{REQUEST_NAMES[name]: direct[name] for name in direct}}
        if merged or values.get("scrape_options") is not None:
            values["scrape_options"] = _with_extract_request(merged)
    return MergedOptions(values, argument_names)


def grouped(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of commands, which have a flag for each, as `crawl_df` takes them."""
    direct = CrawlPageOptions.__annotations__
    entries = {
        REQUEST_NAMES[name]: value
        for name, value in options.items()
        if name in REQUEST_NAMES and name not in direct
    }
    others = {
        name: value
        for name, value in options.items()
        if name in direct or name not in REQUEST_NAMES
    }
    return {**others, "scrape_options": entries} if entries else others


def _check_passed_once(direct: Mapping[str, Any], scrape_options: Mapping[str, Any]) -> None:
    for name in direct:
        entry = REQUEST_NAMES[name]
        if scrape_options.get(entry) is not None:
            raise InvalidArgument(
                f'{name}= and scrape_options["{entry}"] are the same option: pass one of them'
            )


def _with_extract_request(scrape_options: Mapping[str, Any]) -> dict[str, Any]:
    if "extract" not in scrape_options:
        return dict(scrape_options)
    return {**scrape_options, "extract": extract_request(scrape_options["extract"])}
