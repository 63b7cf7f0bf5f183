"""Whose index a provider shows: one that refused us is not asked again by another door. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from webdata_nb.service.search.providers.base import AttemptStatus
from webdata_nb.service.search.providers.ddgs import BACKENDS

LOCAL: Final = "local"
"""The provider that searches the account's own pages, and says nothing about the web."""
# A metasearch, and an index that only one provider shows, are nobody's relatives.
INDEXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "serper": "google",
        "brave": "brave",
        "mojeek": "mojeek",
        **{f"ddgs.{backend}": index for backend, index in BACKENDS.items()},
    }
)
# A wrong key, a slow or a broken door says nothing of the others.
REFUSALS: Final[frozenset[AttemptStatus]] = frozenset({"rate_limited", "blocked"})


def index_of(provider: str) -> str:
    """Return the index behind a provider; a provider without relatives is its own."""
    return INDEXES.get(provider, provider)
