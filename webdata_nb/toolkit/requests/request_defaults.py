"""Reads the defaults of request options from the models of the contract."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from webdata_nb.contract.requests import (
    CrawlRequest,
    CreativesRequest,
    ScrapeOptions,
    SearchRequest,
)
from webdata_nb.toolkit.requests.job_spec import REQUEST_NAMES
from webdata_nb.toolkit.requests.options import (
    CrawlPageOptions,
    CreativesOptions,
    PageOptions,
    ResultPageOptions,
    RightsOptions,
    SinglePageOptions,
    SingleSearchInputOptions,
    SiteOptions,
)

_MODELS: Final[tuple[tuple[type, type[BaseModel]], ...]] = (
    (SingleSearchInputOptions, SearchRequest),
    (ResultPageOptions, SearchRequest),
    (SiteOptions, CrawlRequest),
    (SinglePageOptions, CrawlRequest),
    (PageOptions, ScrapeOptions),
    (CrawlPageOptions, ScrapeOptions),
    (RightsOptions, CrawlRequest),
    (CreativesOptions, CreativesRequest),
)


def request_defaults(group: type) -> dict[str, Any]:
    """Return the defaults of the local service for the request options of a group."""
    names = group.__annotations__.keys()
    defaults: dict[str, Any] = {}
    for part, model in _MODELS:
        if part.__annotations__.keys() <= names:
            defaults |= _model_defaults(part, model)
    return defaults


def _model_defaults(part: type, model: type[BaseModel]) -> dict[str, Any]:
    fields = {name: REQUEST_NAMES.get(name, name) for name in part.__annotations__}
    defaults = {
        name: model.model_fields[field].default
        for name, field in fields.items()
        if field in model.model_fields
    }
    return {
        name: default for name, default in defaults.items() if not isinstance(default, BaseModel)
    }
