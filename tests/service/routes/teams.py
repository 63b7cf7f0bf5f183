"""A team's service for tests: accounts with keys, beside its API."""

from __future__ import annotations

from pathlib import Path
from time import time

from tests.service.job_stores import store_of
from webdata_nb.service.encryption import key_hash
from webdata_nb.service.ledger import Terms


async def member(
    data_dir: Path, name: str, *, monthly: int | None = None, concurrency: int = 100
) -> dict[str, str]:
    """Add an account with one key to a data directory; return its request headers."""
    async with store_of(data_dir) as store:
        accounts, key = store.accounts, f"wdk_{name}"
        await accounts.add(name, name, Terms("team", monthly, concurrency), now=time())
        await accounts.add_key(f"key_{name}", name, "laptop", key_hash(key), now=time())
    return {"Authorization": f"Bearer {key}"}
