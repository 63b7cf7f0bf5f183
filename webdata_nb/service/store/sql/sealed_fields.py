"""Splits a job's secret fields from the rest, to be encrypted apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# A webhook's URL is secret too: most endpoints accept a post from anyone who knows it.
SECRET_FIELDS: Final = ("webhook_url", "webhook_secret", "headers", "cookies")
# The field of a request that has the options of its pages.
PAGE_OPTIONS: Final = "scrape_options"


def split_secrets(
    request: Mapping[str, Any], context: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a request without its secrets, and the secrets of request and context.

    The whole context is secret: it has providers' keys and proxies with passwords.
    """
    page_options = request.get(PAGE_OPTIONS)
    options = page_options if isinstance(page_options, Mapping) else {}
    public = {name: value for name, value in request.items() if name not in SECRET_FIELDS}
    if page_options is not None:
        public[PAGE_OPTIONS] = {
            name: value for name, value in options.items() if name not in SECRET_FIELDS
        }
    secrets = {
        "request": {name: request[name] for name in SECRET_FIELDS if name in request},
        PAGE_OPTIONS: {name: options[name] for name in SECRET_FIELDS if name in options},
        "context": dict(context),
    }
    return public, {name: part for name, part in secrets.items() if part}


def merge_secrets(
    request: Mapping[str, Any], secrets: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the whole request and the context; undoes `split_secrets`."""
    merged = {**request, **secrets.get("request", {})}
    if PAGE_OPTIONS in secrets:
        merged[PAGE_OPTIONS] = {**merged.get(PAGE_OPTIONS, {}), **secrets[PAGE_OPTIONS]}
    return merged, secrets.get("context", {})
