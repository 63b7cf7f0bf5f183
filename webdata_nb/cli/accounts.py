"""Commands for the accounts of a team's service and for the API keys that open them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from webdata_nb.cli.commands import Commands, add_group, report
from webdata_nb.cli.data_dir import add_accounts_command
from webdata_nb.cli.output import utc_time
from webdata_nb.errors import InvalidArgument

if TYPE_CHECKING:
    from webdata_nb.service.credits.ledger import Terms
    from webdata_nb.service.store.account_records import AccountUsage
    from webdata_nb.service.store.sql.accounts import AccountStore

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for it

_DEFAULT_GRACE_HOURS: Final = 24.0
_MAX_GRACE_HOURS: Final = 24 * 365
_MAX_NAME_LENGTH: Final = 100
_NO_LIMIT: Final = "no limit"
_ACCOUNT_COLUMNS: Final = (
    "account", "plan", "monthly", "left", "topup", "reserved", "used", "active", "limit"
)  # fmt: skip


def add_commands(commands: Commands) -> None:
    """Add the commands `accounts` and `keys`."""
    _add_accounts(add_group(commands, "accounts", "Manage the accounts of a team's service."))
    _add_keys(add_group(commands, "keys", "Manage the API keys of a team's accounts."))


# Accounts


def _add_accounts(group: Commands) -> None:
    add_accounts_command(group, "list", _list_accounts, "List the accounts with their credits.")
    text = "Create an account, to which keys give access."
    create = add_accounts_command(group, "create", _create_account, text, create=True)
    create.add_argument("name", metavar="NAME")
    _add_terms(create)
    text = "Show an account's terms, credits and keys."
    show = add_accounts_command(group, "show", _show_account, text)
    show.add_argument("name", metavar="NAME")
    text = "Change the plan of an account, with immediate effect."
    change = add_accounts_command(group, "set", _set_terms, text)
    change.add_argument("name", metavar="NAME")
    _add_terms(change)


def _add_terms(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--plan", metavar="PLAN", help="trial, team (the default), large or unlimited")
    add("--monthly", type=int, metavar="N", help="credits a month, instead of the plan's")
    add("--concurrency", type=int, metavar="N", help="active jobs at once, instead of the plan's")


def _terms(args: argparse.Namespace, default_plan: str) -> Terms:
    from webdata_nb.service.credits.ledger import terms_of

    return terms_of(args.plan or default_plan, args.monthly, args.concurrency)


def _has_terms(args: argparse.Namespace) -> bool:
    terms = (args.plan, args.monthly, args.concurrency)
    return any(value is not None for value in terms)


async def _create_account(accounts: AccountStore, args: argparse.Namespace) -> None:
    from webdata_nb.service.credits.ledger import DEFAULT_PLAN

    await _add_account(accounts, args.name, _terms(args, DEFAULT_PLAN))
    report(f"created the account {args.name!r}; `webdata keys create --account` gives it a key")


async def _add_account(accounts: AccountStore, name: str, terms: Terms) -> str:
    from webdata_nb.service.api_keys import new_id

    account_id = new_id("account")
    await accounts.add(account_id, _valid_name(name), terms, now=time.time())
    return account_id


async def _list_accounts(accounts: AccountStore, _args: argparse.Namespace) -> None:
    now = time.time()
    usages = [await accounts.usage(account.id, now=now) for account in await accounts.all(now=now)]
    _print_columns(_ACCOUNT_COLUMNS, map(_usage_cells, usages))


def _usage_cells(usage: AccountUsage) -> tuple[object, ...]:
    terms, balance = usage.account.terms, usage.account.balance
    return (
        usage.account.name,
        terms.plan,
        _NO_LIMIT if terms.monthly is None else terms.monthly,
        _NO_LIMIT if terms.monthly is None else balance.monthly_left,
        balance.topup_left,
        usage.reserved,
        sum(operation.credits for operation in usage.used),
        usage.active,
        _NO_LIMIT if terms.concurrency is None else terms.concurrency,
    )


async def _show_account(accounts: AccountStore, args: argparse.Namespace) -> None:
    now = time.time()
    account = await accounts.named(args.name, now=now)
    usage = await accounts.usage(account.id, now=now)
    start, end = usage.period
    facts = [
        *zip(_ACCOUNT_COLUMNS, _usage_cells(usage), strict=True),
        ("id", account.id),
        ("created", utc_time(account.created_at)),
        ("period", f"{utc_time(start)} to {utc_time(end)}"),
    ]
    _print_columns(("", ""), facts)
    if usage.used:
        rows = [
            (operation.platform, operation.operation, operation.units, operation.credits)
            for operation in usage.used
        ]
        _print_columns(("platform", "operation", "units", "credits"), rows)
    await _print_keys(accounts, account.id)


async def _set_terms(accounts: AccountStore, args: argparse.Namespace) -> None:
    if not _has_terms(args):
        raise InvalidArgument("give --plan, --monthly or --concurrency")
    now = time.time()
    present = (await accounts.named(args.name, now=now)).terms
    if args.plan is None:  # the limits that are not named stay; a new plan would replace them
        args.monthly = present.monthly if args.monthly is None else args.monthly
        args.concurrency = present.concurrency if args.concurrency is None else args.concurrency
    await accounts.set_terms(args.name, _terms(args, present.plan), now=now)
    report(f"changed the account {args.name!r}")


# Keys


def _add_keys(group: Commands) -> None:
    text = "Create a key, and show it once."
    create = add_accounts_command(group, "create", _create_key, text, create=True)
    create.add_argument("--name", required=True, help="name of the key in lists")
    create.add_argument(
        "--account",
        metavar="NAME",
        help="account of the key (default: a new one with the key's name)",
    )
    _add_terms(create)
    text = "List the keys; the service stores only their hashes."
    listing = add_accounts_command(group, "list", _list_keys, text)
    listing.add_argument("--account", metavar="NAME", help="list only the keys of this account")
    text = "Replace a key by a new one, which is printed only once."
    rotate = add_accounts_command(group, "rotate", _rotate_key, text)
    rotate.add_argument("key", metavar="KEY_ID")
    rotate.add_argument(
        "--grace",
        type=float,
        default=_DEFAULT_GRACE_HOURS,
        metavar="HOURS",
        help="hours for which the old key stays valid (default 24; 0: revoke it now)",
    )
    text = "End a key now; its account and jobs stay."
    revoke = add_accounts_command(group, "revoke", _revoke_key, text)
    revoke.add_argument("key", metavar="KEY_ID")
    text = "Add credits that do not expire to an account."
    topup = add_accounts_command(group, "topup", _top_up, text)
    topup.add_argument("--account", metavar="NAME", required=True, help="the account's name")
    topup.add_argument("credits", type=int, metavar="CREDITS")
    text = "Write all accounts, hashes of keys and credits to a new file, for another database."
    export = add_accounts_command(group, "export", _export_accounts, text)
    export.add_argument("file", type=Path, metavar="FILE", help="a file that does not exist yet")
    text = "Add the accounts, keys and credits of such a file; a second time changes nothing."
    import_ = add_accounts_command(group, "import", _import_accounts, text, create=True)
    import_.add_argument("file", type=Path, metavar="FILE", help="a file of `webdata keys export`")


async def _create_key(accounts: AccountStore, args: argparse.Namespace) -> None:
    from webdata_nb.service.api_keys import key_hash, new_id, new_key
    from webdata_nb.service.credits.ledger import DEFAULT_PLAN

    name, now = _valid_name(args.name), time.time()
    if args.account is None:
        account_id = await _add_account(accounts, name, _terms(args, DEFAULT_PLAN))
    elif _has_terms(args):
        raise InvalidArgument(
            "--plan, --monthly and --concurrency are for a new account; "
            "`webdata accounts set` changes one that exists"
        )
    else:
        account_id = (await accounts.named(args.account, now=now)).id
    key_id, key = new_id("key"), new_key()
    await accounts.add_key(key_id, account_id, name, key_hash(key), now=now)
    report(f"created {key_id}; the key is shown this once, and only its hash is kept:")
    print(key)


async def _list_keys(accounts: AccountStore, args: argparse.Namespace) -> None:
    account_id = None
    if args.account is not None:
        account_id = (await accounts.named(args.account, now=time.time())).id
    await _print_keys(accounts, account_id)


async def _print_keys(accounts: AccountStore, account_id: str | None) -> None:
    now = time.time()
    _print_columns(
        ("key", "name", "account", "created", "state"),
        (
            (key.id, key.name, key.account, utc_time(key.created_at), _key_state(key.ends_at, now))
            for key in await accounts.keys(account_id)
        ),
    )


def _key_state(ends_at: float | None, now: float) -> str:
    if ends_at is None:
        return "valid"
    return f"{'valid until' if ends_at > now else 'ended'} {utc_time(ends_at)}"


async def _rotate_key(accounts: AccountStore, args: argparse.Namespace) -> None:
    from webdata_nb.service.api_keys import key_hash, new_id, new_key

    if not 0 <= args.grace <= _MAX_GRACE_HOURS:
        raise InvalidArgument(f"--grace takes hours from 0 to {_MAX_GRACE_HOURS}")
    key_id, key, now = new_id("key"), new_key(), time.time()
    ends_at = now + args.grace * 3600
    await accounts.rotate_key(args.key, key_id, key_hash(key), ends_at=ends_at, now=now)
    report(f"created {key_id} in place of {args.key}, which is {_key_state(ends_at, now)}:")
    print(key)


async def _revoke_key(accounts: AccountStore, args: argparse.Namespace) -> None:
    await accounts.end_key(args.key, at=time.time())
    report(f"{args.key} is not valid any more")


async def _top_up(accounts: AccountStore, args: argparse.Namespace) -> None:
    from webdata_nb.service.credits.ledger import MAX_CREDITS

    if not 1 <= args.credits <= MAX_CREDITS:
        raise InvalidArgument(f"CREDITS is a whole number from 1 to {MAX_CREDITS}")
    account = await accounts.top_up(args.account, args.credits, now=time.time())
    report(f"{args.account!r} has {account.balance.topup_left} credits that do not expire")


async def _export_accounts(accounts: AccountStore, args: argparse.Namespace) -> None:
    from webdata_nb.service.store.account_file import write_account_file

    export = await accounts.export()
    write_account_file(args.file, export)
    report(f"wrote {len(export.accounts)} accounts to {args.file}, which only its owner can read")
    if reserved := sum(len(account.reservations) for account in export.accounts):
        report(
            f"{reserved} jobs or calls are under way: the import gives their credits back, so stop "
            "the service before you export"
        )


async def _import_accounts(accounts: AccountStore, args: argparse.Namespace) -> None:
    from webdata_nb.service.store.account_file import read_account_file

    export = read_account_file(args.file)
    added = await accounts.import_accounts(export, now=time.time())
    report(f"added {added} of {len(export.accounts)} accounts; the others were there already")


# Output


def _valid_name(name: str) -> str:
    if not (1 <= len(name.strip()) <= _MAX_NAME_LENGTH and name.isprintable()):
        raise InvalidArgument(f"a name is 1 to {_MAX_NAME_LENGTH} printable characters")
    return name.strip()


def _print_columns(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    lines = [tuple(map(str, row)) for row in (head, *rows) if any(row)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())
