"""The operator's commands: accounts, keys, secrets and the store, on the machine that serves them.

They work straight on the store of a data directory, also while a service runs on it; nothing
here is reachable over the network.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.errors import InvalidArgument, WebdataError

if TYPE_CHECKING:
    from webdata_nb.service.credits.plans import Terms
    from webdata_nb.service.store.account_records import AccountUsage
    from webdata_nb.service.store.interface import AccountStore

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for it

GRACE_HOURS: Final = 24.0

_Act = Callable[[Path, argparse.Namespace], Coroutine[None, None, None]]
_ActOnAccounts = Callable[["AccountStore", argparse.Namespace], Awaitable[None]]
_Directory = Callable[[str], Path]


def add(commands: Any, usual_directory: _Directory) -> None:
    """Add the operator's commands; without --data-dir they take a team's directory."""
    _accounts(_Group(commands, usual_directory, "accounts", "Who may use a team's service."))
    _keys(_Group(commands, usual_directory, "keys", "The keys that open a team's accounts."))
    _secrets(_Group(commands, usual_directory, "secrets", "The keys that seal jobs' secrets."))
    _store(_Group(commands, usual_directory, "store", "The database of a service."))


class _Group:
    """One command with its actions."""

    def __init__(self, commands: Any, directory: _Directory, name: str, text: str) -> None:
        parser = commands.add_parser(name, help=text, description=text)
        self._actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        self._directory = directory

    def action(self, name: str, act: _ActOnAccounts, text: str) -> argparse.ArgumentParser:
        """Add an action; `act` is run on the accounts of the data directory."""

        async def on_accounts(directory: Path, args: argparse.Namespace) -> None:
            from webdata_nb.service.store.backends import open_accounts

            async with open_accounts(directory) as accounts:
                await act(accounts, args)

        return self.deed(name, on_accounts, text)

    def deed(self, name: str, act: _Act, text: str) -> argparse.ArgumentParser:
        """Add an action; `act` is run on the data directory."""
        parser = self.plain(name, lambda args: self._run(act, args), text)
        parser.add_argument("--data-dir", type=Path, metavar="DIR", help="the one that is served")
        return parser

    def plain(
        self, name: str, run: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        """Add an action that needs no data directory."""
        parser: argparse.ArgumentParser = self._actions.add_parser(
            name, help=text, description=text
        )
        parser.set_defaults(run=run)
        return parser

    def _run(self, act: _Act, args: argparse.Namespace) -> int:
        from webdata_nb.service.errors import ApplicationError

        directory = self._present(args, made=args.action == "create")
        try:
            asyncio.run(act(directory, args))
        except ApplicationError as error:
            raise WebdataError(str(error)) from None
        except ValueError as error:
            raise InvalidArgument(str(error)) from None
        return 0

    def blocking_action(
        self, name: str, act: Callable[[Path, argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        """Add an action; `act` is run on the data directory, without an event loop."""

        def run(args: argparse.Namespace) -> int:
            from webdata_nb.service.errors import ApplicationError

            try:
                return act(self._present(args), args)
            except ApplicationError as error:
                raise WebdataError(str(error)) from None

        parser = self.plain(name, run, text)
        parser.add_argument("--data-dir", type=Path, metavar="DIR", help="the one that is served")
        return parser

    def _present(self, args: argparse.Namespace, *, made: bool = False) -> Path:
        """Return the data directory that a command is about."""
        given: Path | None = args.data_dir
        directory = given.absolute() if given else self._directory("team")
        from webdata_nb.service.store.backends import DATABASE_FILE

        if not made and not (directory / DATABASE_FILE).exists():
            raise WebdataError(f"no service has its data in {directory}; name it with --data-dir")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return directory


# accounts


def _accounts(group: _Group) -> None:
    group.action("list", _list_accounts, "List the accounts with their credits.")
    create = group.action("create", _create_account, "Create an account; keys open it.")
    create.add_argument("name", metavar="NAME")
    _terms_flags(create)
    show = group.action("show", _show_account, "Show an account's terms, credits and keys.")
    show.add_argument("name", metavar="NAME")
    change = group.action("set", _set_terms, "Put an account on another plan, at once.")
    change.add_argument("name", metavar="NAME")
    _terms_flags(change)


def _terms_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--plan", metavar="PLAN", help="trial, team (the default), large or unlimited")
    add("--monthly", type=int, metavar="N", help="credits a month, instead of the plan's")
    add("--concurrency", type=int, metavar="N", help="active jobs at once, instead of the plan's")


def _terms(args: argparse.Namespace, usual: str) -> Terms:
    from webdata_nb.service.credits.plans import terms_of

    return terms_of(args.plan or usual, args.monthly, args.concurrency)


async def _create_account(accounts: AccountStore, args: argparse.Namespace) -> None:
    from webdata_nb.service.credits.plans import DEFAULT_PLAN

    await _new_account(accounts, args.name, _terms(args, DEFAULT_PLAN))
    _note(f"created the account {args.name!r}; `webdata keys create --account` gives it a key")


async def _new_account(accounts: AccountStore, name: str, terms: Terms) -> str:
    from webdata_nb.service.api_keys import new_id

    account_id = new_id("account")
    await accounts.add(account_id, _checked(name), terms, now=time.time())
    return account_id


async def _list_accounts(accounts: AccountStore, _args: argparse.Namespace) -> None:
    now = time.time()
    found = [await accounts.usage(each.id, now=now) for each in await accounts.all(now=now)]
    _table(
        ("account", "plan", "monthly", "left", "topup", "reserved", "used", "active", "limit"),
        (_usage_cells(usage) for usage in found),
    )


def _usage_cells(usage: AccountUsage) -> tuple[object, ...]:
    terms, balance = usage.account.terms, usage.account.balance
    return (
        usage.account.name,
        terms.plan,
        "no limit" if terms.monthly is None else terms.monthly,
        "no limit" if terms.monthly is None else balance.monthly_left,
        balance.topup_left,
        usage.reserved,
        sum(each.credits for each in usage.used),
        usage.active,
        "no limit" if terms.concurrency is None else terms.concurrency,
    )


async def _show_account(accounts: AccountStore, args: argparse.Namespace) -> None:
    now = time.time()
    account = await accounts.named(args.name, now=now)
    usage = await accounts.usage(account.id, now=now)
    names = ("account", "plan", "monthly", "left", "topup", "reserved", "used", "active", "limit")
    start, end = usage.period
    facts = [*zip(names, _usage_cells(usage), strict=True)]
    facts += [
        ("id", account.id),
        ("created", _day(account.created_at)),
        ("period", f"{_day(start)} to {_day(end)}"),
    ]
    _table(("", ""), facts)
    if usage.used:
        rows = [(each.platform, each.operation, each.units, each.credits) for each in usage.used]
        _table(("platform", "operation", "units", "credits"), rows)
    await _print_keys(accounts, account.id)


async def _set_terms(accounts: AccountStore, args: argparse.Namespace) -> None:
    if args.plan is None and args.monthly is None and args.concurrency is None:
        raise InvalidArgument("give --plan, --monthly or --concurrency")
    now = time.time()
    present = (await accounts.named(args.name, now=now)).terms
    if args.plan is None:
        args.monthly = present.monthly if args.monthly is None else args.monthly
        args.concurrency = present.concurrency if args.concurrency is None else args.concurrency
    await accounts.set_terms(args.name, _terms(args, present.plan), now=now)
    _note(f"changed the account {args.name!r}")


# keys


def _keys(group: _Group) -> None:
    create = group.action("create", _create_key, "Create a key, and show it once.")
    create.add_argument("--name", required=True, help="what the key is called in lists")
    create.add_argument(
        "--account", metavar="NAME", help="whose it is (default: a new account of the key's name)"
    )
    _terms_flags(create)
    listing = group.action("list", _list_keys, "List the keys; the keys themselves are not kept.")
    listing.add_argument("--account", metavar="NAME", help="of this account only")
    rotate = group.action("rotate", _rotate_key, "Replace a key by a new one, shown once.")
    rotate.add_argument("key", metavar="KEY_ID")
    rotate.add_argument(
        "--grace",
        type=float,
        default=GRACE_HOURS,
        metavar="HOURS",
        help="how long the old one stays valid (default 24; 0 ends it now)",
    )
    revoke = group.action("revoke", _revoke_key, "End a key now; its account and jobs stay.")
    revoke.add_argument("key", metavar="KEY_ID")
    topup = group.action("topup", _top_up, "Add credits that do not expire to an account.")
    topup.add_argument("--account", metavar="NAME", required=True)
    topup.add_argument("credits", type=int, metavar="CREDITS")


async def _create_key(accounts: AccountStore, args: argparse.Namespace) -> None:
    from webdata_nb.service.api_keys import key_hash, new_id, new_key
    from webdata_nb.service.credits.plans import DEFAULT_PLAN

    name, now = _checked(args.name), time.time()
    if args.account is None:
        account_id = await _new_account(accounts, name, _terms(args, DEFAULT_PLAN))
    elif (args.plan, args.monthly, args.concurrency) == (None, None, None):
        account_id = (await accounts.named(args.account, now=now)).id
    else:
        raise InvalidArgument(
            "--plan, --monthly and --concurrency are for a new account; "
            "`webdata accounts set` changes one that exists"
        )
    key_id, key = new_id("key"), new_key()
    await accounts.add_key(key_id, account_id, name, key_hash(key), now=now)
    _note(f"created {key_id}; the key is shown this once, and only its hash is kept:")
    print(key)


async def _list_keys(accounts: AccountStore, args: argparse.Namespace) -> None:
    account_id = None
    if args.account is not None:
        account_id = (await accounts.named(args.account, now=time.time())).id
    await _print_keys(accounts, account_id)


async def _print_keys(accounts: AccountStore, account_id: str | None) -> None:
    now = time.time()
    _table(
        ("key", "name", "account", "created", "state"),
        (
            (key.id, key.name, key.account, _day(key.created_at), _state(key.ends_at, now))
            for key in await accounts.keys(account_id)
        ),
    )


def _state(ends_at: float | None, now: float) -> str:
    if ends_at is None:
        return "valid"
    return f"{'valid until' if ends_at > now else 'ended'} {_day(ends_at)}"


async def _rotate_key(accounts: AccountStore, args: argparse.Namespace) -> None:
    from webdata_nb.service.api_keys import key_hash, new_id, new_key

    if not 0 <= args.grace <= 24 * 365:
        raise InvalidArgument("--grace takes hours from 0 to 8760")
    key_id, key, now = new_id("key"), new_key(), time.time()
    ends_at = now + args.grace * 3600
    await accounts.rotate_key(args.key, key_id, key_hash(key), ends_at=ends_at, now=now)
    _note(f"created {key_id} in place of {args.key}, which is {_state(ends_at, now)}:")
    print(key)


async def _revoke_key(accounts: AccountStore, args: argparse.Namespace) -> None:
    await accounts.end_key(args.key, at=time.time())
    _note(f"{args.key} opens nothing any more")


async def _top_up(accounts: AccountStore, args: argparse.Namespace) -> None:
    from webdata_nb.service.credits.plans import MAX_CREDITS

    if not 1 <= args.credits <= MAX_CREDITS:
        raise InvalidArgument(f"CREDITS is a whole number from 1 to {MAX_CREDITS}")
    account = await accounts.top_up(args.account, args.credits, now=time.time())
    _note(f"{args.account!r} has {account.balance.topup_left} credits that do not expire")


# secrets


def _secrets(group: _Group) -> None:
    text = "Seal all secrets with a new key; the service may run meanwhile."
    group.deed("rotate", _rotate_secrets, text)
    group.plain("new-key", _new_secret_key, "Print a new key for WEBDATA_SECRET_KEY.")


async def _rotate_secrets(directory: Path, _args: argparse.Namespace) -> None:
    from webdata_nb.service.encryption import KEY_FILE, KeyFile
    from webdata_nb.service.settings import secret_cipher_for, secret_keys
    from webdata_nb.service.store.backends import open_store

    keys = secret_keys()
    if not keys:
        await asyncio.to_thread(KeyFile(directory / KEY_FILE).rotate)
    async with open_store(directory, secret_cipher_for(directory, keys)) as store:
        done, lost = await store.secrets.reencrypt()
    _note(f"sealed the secrets of {done} jobs with the first key")
    if lost:
        raise WebdataError(f"the secrets of {lost} jobs were sealed with a key that is not here")


def _new_secret_key(_args: argparse.Namespace) -> int:
    from webdata_nb.service.encryption import new_key

    print(new_key())
    return 0


# the store


def _store(group: _Group) -> None:
    text = "Look for damage and contradictions in the database; the service may run meanwhile."
    group.blocking_action("check", _check_store, text)
    text = "Copy the database to a new file; the service may run meanwhile."
    backup = group.blocking_action("backup", _backup_store, text)
    backup.add_argument("file", type=Path, metavar="FILE", help="a file that does not exist yet")


def _check_store(directory: Path, _args: argparse.Namespace) -> int:
    from webdata_nb.service.store.backends import check_store

    results = check_store(directory)
    for result in results:
        print(f"{result.check}: {f'{len(result.problems)} wrong' if result.problems else 'ok'}")
        for problem in result.problems:
            print(f"  {problem}")
    return int(any(result.problems for result in results))


def _backup_store(directory: Path, args: argparse.Namespace) -> int:
    from webdata_nb.service.encryption import KEY_FILE
    from webdata_nb.service.store.backends import back_up_store

    size = back_up_store(directory, args.file.absolute())
    _note(f"wrote {args.file}, {size} bytes")
    if (key := directory / KEY_FILE).exists():
        _note(f"what is encrypted in it opens with the key in {key}; keep that apart from it")
    return 0


# what a person sees


def _checked(name: str) -> str:
    if not (1 <= len(name.strip()) <= 100 and name.isprintable()):  # noqa: PLR2004 - said below
        raise InvalidArgument("a name is 1 to 100 printable characters")
    return name.strip()


def _note(text: str) -> None:
    print(f"webdata: {text}", file=sys.stderr)


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    lines = [tuple(map(str, row)) for row in (head, *rows) if any(row)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())
