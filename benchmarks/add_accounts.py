"""Adds accounts to a store with the code of a checkout, which `PYTHONPATH` names.

Arguments: the data directory, the URL of the store or ``sqlite``, its secret key, and the accounts.
`million_pages` and `bodies` start it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.replica_process import add_account_to
from webdata_nb.service.encryption import FixedKeys, SecretCipher
from webdata_nb.service.store.backends import open_store


async def main(data_dir: str, url: str, key: str, *accounts: str) -> None:
    """Add the accounts."""
    store_url = None if url == "sqlite" else url
    async with open_store(Path(data_dir), SecretCipher(FixedKeys((key,))), store_url) as store:
        for account in accounts:
            await add_account_to(store, account)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
