"""Which parts of a job are secret, and how they are kept apart from the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# Whoever knows the URL of a webhook may post there: most endpoints ask for nothing else.
SECRET: Final = ("webhook_url", "webhook_secret", "headers", "cookies")
# Where a request keeps the options of its pages.
NESTED: Final = "scrape_options"


def parted(
    request: Mapping[str, Any], context: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a request without its secrets, and the secrets of request and context.

    A context is secret as a whole: providers' keys, a proxy with its password.
    """
    nested = request.get(NESTED)
    inner = nested if isinstance(nested, Mapping) else {}
    shown = {name: value for name, value in request.items() if name not in SECRET}
    if nested is not None:
        shown[NESTED] = {name: value for name, value in inner.items() if name not in SECRET}
    secrets = {
        "request": {name: request[name] for name in SECRET if name in request},
        NESTED: {name: inner[name] for name in SECRET if name in inner},
        "context": dict(context),
    }
    return shown, {name: part for name, part in secrets.items() if part}


def joined(
    request: Mapping[str, Any], secrets: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the whole request and the context; undoes `parted`."""
    whole = {**request, **secrets.get("request", {})}
    if NESTED in secrets:
        whole[NESTED] = {**whole.get(NESTED, {}), **secrets[NESTED]}
    return whole, secrets.get("context", {})
