"""Accounts, keys and credits move from one store to another by a file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.stores.conftest import StoreFactory
from webdata_nb.service.errors import AccountImportRefused, CreditsUsedUp
from webdata_nb.service.ledger import Charge, terms_of
from webdata_nb.service.store.sql.accounts import (
    AccountStore,
    read_account_file,
    write_account_file,
)
from webdata_nb.service.store.sql.store import Store

NOW = 1_800_000_000.0
COST = Charge("crawl", "page", 300)


@pytest.fixture
async def source(tmp_path: Path, store_factory: StoreFactory) -> AsyncIterator[AccountStore]:
    """Open a store with an account that has used, bought and reserved credits, and with keys."""
    (tmp_path / "source").mkdir()
    async with store_factory(tmp_path / "source") as store:
        accounts = store.accounts
        await accounts.add("a", "team", terms_of("trial"), now=NOW)
        await accounts.top_up("team", 50, now=NOW)
        await accounts.open_call("a", "done", [COST], until=NOW + 60, now=NOW)
        await accounts.close_call("a", "done", [COST], now=NOW)
        await accounts.open_call("a", "open", [COST], until=NOW + 60, now=NOW)
        await accounts.add_key("key_1", "a", "one", "hash-1", now=NOW)
        await accounts.add_key("key_2", "a", "two", "hash-2", now=NOW)
        await accounts.end_key("key_2", at=NOW + 1)
        yield accounts


async def test_credits_and_keys_arrive_exactly(
    source: AccountStore, store: Store, tmp_path: Path
) -> None:
    write_account_file(tmp_path / "accounts.json", await source.export())
    export = read_account_file(tmp_path / "accounts.json")
    assert await store.accounts.import_accounts(export, now=NOW + 2) == 1
    account = await store.accounts.named("team", now=NOW + 2)
    # 1,000 a month and 50 bought, 300 used; what the open call had reserved is back.
    assert (account.balance.monthly_left, account.balance.topup_left) == (700, 50)
    ledger = await store.accounts.ledger("a")
    assert ledger[:-1] == await source.ledger("a")
    assert (ledger[-1].kind, sum(line.monthly for line in ledger)) == ("release", 700)
    assert (await store.accounts.usage("a", now=NOW + 2)).used[0].credits == 300
    assert await store.accounts.keys() == await source.keys()
    caller = await store.accounts.caller("hash-1", now=NOW + 2)
    assert caller is not None
    assert caller.account_id == "a"
    assert await store.accounts.caller("hash-2", now=NOW + 2) is None


async def test_second_import_changes_nothing_but_missing_keys(
    source: AccountStore, store: Store
) -> None:
    await store.accounts.import_accounts(await source.export(), now=NOW + 2)
    await store.accounts.open_call("a", "here", [COST], until=NOW + 60, now=NOW + 3)
    await store.accounts.close_call("a", "here", [COST], now=NOW + 3)
    before = await store.accounts.ledger("a")
    await source.add_key("key_3", "a", "three", "hash-3", now=NOW)
    assert await store.accounts.import_accounts(await source.export(), now=NOW + 4) == 0
    assert await store.accounts.ledger("a") == before
    assert await store.accounts.caller("hash-3", now=NOW + 4) is not None


async def test_imported_credits_are_limits(source: AccountStore, store: Store) -> None:
    await store.accounts.import_accounts(await source.export(), now=NOW + 2)
    large = Charge("crawl", "page", 800)
    with pytest.raises(CreditsUsedUp):
        await store.accounts.open_call("a", "large", [large], until=NOW + 60, now=NOW + 3)


async def test_a_database_with_other_accounts_is_refused_as_a_whole(
    source: AccountStore, store: Store
) -> None:
    await source.add("b", "other", terms_of("trial"), now=NOW + 1)
    await store.accounts.add("c", "other", terms_of("trial"), now=NOW)
    with pytest.raises(AccountImportRefused, match="another account named 'other'"):
        await store.accounts.import_accounts(await source.export(), now=NOW + 2)
    assert [account.id for account in await store.accounts.all(now=NOW)] == ["c"]


async def test_a_later_state_of_an_account_is_not_merged(
    source: AccountStore, store: Store
) -> None:
    await store.accounts.import_accounts(await source.export(), now=NOW + 2)
    await source.top_up("team", 7, now=NOW + 3)
    with pytest.raises(AccountImportRefused, match="other credits"):
        await store.accounts.import_accounts(await source.export(), now=NOW + 4)


async def test_another_key_of_the_same_id_is_refused(source: AccountStore, store: Store) -> None:
    await store.accounts.add("d", "present", terms_of("trial"), now=NOW)
    await store.accounts.add_key("key_1", "d", "one", "another hash", now=NOW)
    with pytest.raises(AccountImportRefused, match="key_1"):
        await store.accounts.import_accounts(await source.export(), now=NOW + 2)


@pytest.mark.sqlite("the file does not depend on the database")
async def test_the_file_is_private_new_and_whole(source: AccountStore, tmp_path: Path) -> None:
    file = tmp_path / "accounts.json"
    write_account_file(file, await source.export())
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(AccountImportRefused, match="exists already"):
        write_account_file(file, await source.export())
    text = file.read_text("utf-8")
    file.write_text(text.replace('"topup_left": 50', '"topup_left": 5000'), "utf-8")
    with pytest.raises(AccountImportRefused, match="not the sum"):
        read_account_file(file)
    file.write_text(text[: len(text) // 2], "utf-8")
    with pytest.raises(AccountImportRefused, match="not a whole file"):
        read_account_file(file)
    with pytest.raises(AccountImportRefused, match="cannot be read"):
        read_account_file(tmp_path / "missing")
