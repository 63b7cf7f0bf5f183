"""Commands that run a service, and those for its accounts, keys, secrets and database."""

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for it

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from webdata_nb.cli.commands import (
    Commands,
    StorePlace,
    add_accounts_command,
    add_command,
    add_group,
    add_store_command,
    default_data_dir,
    report,
    resolve_settings,
)
from webdata_nb.cli.output import (
    TextColumn,
    add_format_flag,
    markdown_table,
    plain_table,
    shown_width,
    utc_time,
)
from webdata_nb.contract.choices import KEY_SCOPES
from webdata_nb.contract.operator_views import (
    GROUPS,
    KINDS,
    STATES,
    VIEWS,
    ColumnKind,
    View,
    byte_text,
    duration_text,
)
from webdata_nb.errors import InvalidArgument, WebdataError
from webdata_nb.service.settings import Command, options_of

if TYPE_CHECKING:
    from webdata_nb.service.ledger import Terms
    from webdata_nb.service.signing.message_signature import SigningKey, SigningKeySet
    from webdata_nb.service.signing.request_signer import SigningKeyFile
    from webdata_nb.service.store.backends import CheckResult
    from webdata_nb.service.store.records import AccountUsage
    from webdata_nb.service.store.sql.accounts import AccountStore
    from webdata_nb.service.store.sql.operator import OperatorStore

T = TypeVar("T")

# What argparse needs to know of an option, by the type of its value.
_ARGUMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "int": {"type": int},
    "float": {"type": float},
    "Path": {"type": Path},
    "tuple[str, ...]": {"action": "append"},
    "bool": {"action": "store_true"},
}


def add_commands(commands: Commands) -> None:
    """Add the commands that run, describe and stop a service, and those for its data."""
    serve = add_command(commands, "serve", _run_serve, "Run the service in the foreground.")
    _add_options(serve, "serve")
    add_command(commands, "openapi", _print_openapi, "Print the service's OpenAPI document.")
    text = "Stop the local service; its jobs continue at its next start."
    stop = add_command(commands, "stop", _stop, text)
    stop.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="stop the service of this data directory"
    )
    text = "Run jobs of a team's service on PostgreSQL, here or in a Dask cluster, without HTTP."
    worker = add_command(commands, "worker", _run_worker, text)
    _add_options(worker, "worker", groups={"requests to web sites"})
    _add_accounts(add_group(commands, "accounts", "Manage the accounts of a team's service."))
    _add_keys(add_group(commands, "keys", "Manage the API keys of a team's accounts."))
    _add_secrets(add_group(commands, "secrets", "Manage the keys that encrypt jobs' secrets."))
    _add_store(add_group(commands, "store", "Look at, check or back up the database of a service."))
    text = "Manage the keys that sign a service's requests to web sites."
    _add_signing_keys(add_group(commands, "signing-keys", text))


def _add_options(
    parser: argparse.ArgumentParser, command: Command, groups: Collection[str] | None = None
) -> None:
    """Add the options of a command in their groups, or in those of `groups` only."""
    containers: dict[str | None, Any] = {None: parser}
    for option in options_of(command):
        group = option.group if groups is None or option.group in groups else None
        if group not in containers:
            containers[group] = parser.add_argument_group(group)
        argument = dict(_ARGUMENTS.get(option.annotation.removesuffix(" | None"), {}))
        if option.default is True:
            argument["action"] = argparse.BooleanOptionalAction
        if option.metavar is not None:
            argument["metavar"] = option.metavar
        if option.choices is not None:
            argument["choices"] = option.choices
        argument["help"] = argparse.SUPPRESS if option.is_hidden else option.text(command)
        containers[group].add_argument(option.flag, dest=option.name, default=None, **argument)


def _given_options(args: argparse.Namespace, command: Command) -> dict[str, Any]:
    """Return the options of the command line, with what the toolkit's settings add.

    Wrong settings are reported before a directory is created.
    """
    from webdata_nb.settings import Options

    options = options_of(command)
    given = {option.name: getattr(args, option.name) for option in options}
    shared = [option.name for option in options if option.is_toolkit_setting]
    settings = resolve_settings(Options(**{name: given[name] for name in shared}))
    given |= {name: getattr(settings, name) for name in shared}
    return {name: value for name, value in given.items() if value is not None}


def _run_serve(args: argparse.Namespace) -> int:
    from webdata_nb.service.runtime.process import pause_gc

    pause_gc()
    _begin_json_log(args)
    from webdata_nb.service.app import serve

    given = _given_options(args, "serve")
    if "data_dir" not in given:
        given["data_dir"] = default_data_dir(given.get("mode", "local"))
    return serve(**given)


def _begin_json_log(args: argparse.Namespace) -> None:
    """Log JSON before anything is imported or checked that may write to standard error."""
    if args.log_format == "json":
        from webdata_nb.service.observability.logs import configure_process_logs

        configure_process_logs("json")


def _run_worker(args: argparse.Namespace) -> int:
    _begin_json_log(args)
    if args.dask is not None and (args.data_dir or args.replica):
        raise InvalidArgument(
            "--data-dir and --replica are for a worker without --dask: Dask gives its workers "
            "directories and names"
        )
    given = _given_options(args, "worker")
    from webdata_nb.service.job_workers.command import run_worker

    if "data_dir" not in given:
        given["data_dir"] = default_data_dir("team").with_name("worker")
    return run_worker(**given)


def _print_openapi(_args: argparse.Namespace) -> None:
    from webdata_nb.service.routes.application import openapi

    print(json.dumps(openapi(), indent=2))


def _stop(args: argparse.Namespace) -> None:
    import asyncio

    from webdata_nb.settings import Options
    from webdata_nb.toolkit import local

    settings = resolve_settings(Options(data_dir=args.data_dir))
    was_running = asyncio.run(local.stop(settings))
    report("stopped the local service" if was_running else "no local service runs")


_DEFAULT_GRACE_HOURS: Final = 24.0
_MAX_GRACE_HOURS: Final = 24 * 365
_MAX_EXPIRY_DAYS: Final = 3650
_MAX_NAME_LENGTH: Final = 100
_NO_LIMIT: Final = "no limit"
_ACCOUNT_COLUMNS: Final = (
    "account", "plan", "monthly", "left", "topup", "reserved", "used", "active", "limit", "state"
)  # fmt: skip


# Accounts


def _add_accounts(group: Commands) -> None:
    text = "List the accounts with their credits."
    listing = add_accounts_command(group, "list", _list_accounts, text)
    listing.add_argument("--all", action="store_true", help="also those that are deleted")
    text = "Create an account, to which keys give access."
    create = add_accounts_command(group, "create", _create_account, text, create=True)
    create.add_argument("name", metavar="NAME")
    _add_terms(create)
    text = "Show an account's terms, credits and keys."
    show = add_accounts_command(group, "show", _show_account, text)
    show.add_argument("name", metavar="NAME")
    usage = _add_view(group, VIEWS["usage"])
    usage.add_argument("account", nargs="?", metavar="NAME", help="only of this account")
    text = "Change the plan of an account, with immediate effect."
    change = add_accounts_command(group, "set", _set_terms, text)
    change.add_argument("name", metavar="NAME")
    _add_terms(change)
    text = "Refuse an account's keys, let its jobs wait, and send no webhooks, until it is resumed."
    suspend = add_accounts_command(group, "suspend", _suspend_account, text)
    suspend.add_argument("name", metavar="NAME")
    text = "End the suspension of an account: its keys are valid again, and its jobs continue."
    resume = add_accounts_command(group, "resume", _resume_account, text)
    resume.add_argument("name", metavar="NAME")
    text = (
        "Delete an account with its jobs, rows, files and keys; its ledger stays without a name. "
        "After an interruption, the same command finishes it."
    )
    delete = add_store_command(group, "delete", _delete_account, text)
    delete.add_argument("name", metavar="NAME")
    delete.add_argument(
        "--yes", action="store_true", help="delete; without it, the command shows what it would"
    )
    delete.add_argument(
        "--blobs", metavar="URL", help="the service's folder for files (default: WEBDATA_BLOBS)"
    )


def _add_terms(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--plan", metavar="PLAN", help="trial, team (the default), large or unlimited")
    add("--monthly", type=int, metavar="N", help="credits a month, instead of the plan's")
    add("--concurrency", type=int, metavar="N", help="active jobs at once, instead of the plan's")


def _terms(args: argparse.Namespace, default_plan: str) -> Terms:
    from webdata_nb.service.ledger import terms_of

    return terms_of(args.plan or default_plan, args.monthly, args.concurrency)


def _has_terms(args: argparse.Namespace) -> bool:
    terms = (args.plan, args.monthly, args.concurrency)
    return any(value is not None for value in terms)


async def _create_account(accounts: AccountStore, args: argparse.Namespace) -> None:
    from webdata_nb.service.ledger import DEFAULT_PLAN

    await _add_account(accounts, args.name, _terms(args, DEFAULT_PLAN))
    report(f"created the account {args.name!r}; `webdata keys create --account` gives it a key")


async def _add_account(accounts: AccountStore, name: str, terms: Terms) -> str:
    from webdata_nb.service.encryption import new_id

    account_id = new_id("account")
    await accounts.add(account_id, _valid_name(name), terms, now=time.time())
    return account_id


async def _list_accounts(accounts: AccountStore, args: argparse.Namespace) -> None:
    now = time.time()
    usages = [
        await accounts.usage(account.id, now=now)
        for account in await accounts.all(now=now)
        if args.all or account.cleared_at is None
    ]
    _print_columns(_ACCOUNT_COLUMNS, map(_usage_cells, usages))


def _usage_cells(usage: AccountUsage) -> tuple[object, ...]:
    facts = usage.facts()
    return tuple(_NO_LIMIT if facts[name] is None else facts[name] for name in _ACCOUNT_COLUMNS)


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


async def _suspend_account(accounts: AccountStore, args: argparse.Namespace) -> None:
    account = await accounts.suspend(args.name, now=time.time())
    report(
        f"the account {account.name!r} is suspended; `webdata accounts resume` ends the suspension"
    )


async def _resume_account(accounts: AccountStore, args: argparse.Namespace) -> None:
    account = await accounts.resume(args.name, now=time.time())
    report(f"the account {account.name!r} is not suspended; its jobs continue")


def _delete_account(place: StorePlace, args: argparse.Namespace) -> None:
    import asyncio

    from webdata_nb.service.settings import blobs_url

    asyncio.run(_run_deletion(place, blobs_url(args.blobs), args.name, is_confirmed=args.yes))


async def _run_deletion(
    place: StorePlace, blobs_url: str | None, name: str, *, is_confirmed: bool
) -> None:
    from webdata_nb.service.blobs import open_blob_store
    from webdata_nb.service.creatives.enrich import FileStore
    from webdata_nb.service.encryption import FixedKeys, SecretCipher
    from webdata_nb.service.errors import NoSuchAccount
    from webdata_nb.service.observability.metrics import Metrics
    from webdata_nb.service.segments.mover import SegmentSweep
    from webdata_nb.service.settings import LOCAL_ACCOUNT
    from webdata_nb.service.store.backends import open_store, open_text_index
    from webdata_nb.service.store.spool import SpoolDirectory
    from webdata_nb.service.work.retention import AccountDeletion, Janitor

    async with (
        open_blob_store(blobs_url, place.directory) as blobs,
        # A deletion reads no secrets.
        open_store(place.directory, SecretCipher(FixedKeys(())), place.url) as store,
        open_text_index(place.directory, store) as index,
    ):
        try:
            found = await store.accounts.contents(name)
        except NoSuchAccount:
            # An earlier call may have been killed between freeing the name and erasing it.
            if is_confirmed and await store.accounts.deleted(since=0):
                await store.retention.erase()
            raise
        if found.account_id == LOCAL_ACCOUNT:
            raise WebdataError(f"{name!r} is the account of a local service; delete its folder")
        if found.segments and blobs_url is None:
            raise WebdataError(
                f"{found.segments} files of the account {name!r} are where the service stores "
                "pages: name that place with --blobs (WEBDATA_BLOBS)"
            )
        if not is_confirmed:
            facts = (
                ("jobs", found.jobs),
                ("pending or running", found.active_jobs),
                ("rows", found.rows),
                ("bytes of pages", found.bytes),
                ("files of pages", found.segments),
                ("webhook deliveries", found.deliveries),
                ("keys", found.keys),
            )
            _print_columns(("", ""), facts)
            raise InvalidArgument(f"nothing was deleted; add --yes to delete the account {name!r}")
        segments = SegmentSweep(store, blobs, Metrics(), clock=store.now) if blobs_url else None
        deletion = AccountDeletion(
            store, index, files=FileStore(blobs), segments=segments, report=report
        )
        await deletion.run(name)
        if place.url is None:  # else each process deletes those of its own directory
            spool = SpoolDirectory(place.directory / "spool")
            await Janitor(store, index, spool, retention=None, clock=store.now).sweep()
    report(f"the account {name!r} is deleted; its name is free")


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
    create.add_argument(
        "--scopes",
        metavar="SCOPES",
        help=f"some of {', '.join(KEY_SCOPES)}, separated by commas (default: all but admin)",
    )
    _add_expiry(create, "days after which the key ends (default: it does not)")
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
    _add_expiry(rotate, "days after which the new key ends (default: when the old one was to end)")
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


def _add_expiry(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--expires", type=float, metavar="DAYS", help=text)


def _expiry(args: argparse.Namespace, now: float) -> float | None:
    """Return when a key ends, in seconds since the epoch."""
    if args.expires is None:
        return None
    if not 0 < args.expires <= _MAX_EXPIRY_DAYS:
        raise InvalidArgument(
            f"--expires takes days, more than 0 and up to {_MAX_EXPIRY_DAYS}, not {args.expires:g}"
        )
    return now + float(args.expires) * _DAY_S


async def _create_key(accounts: AccountStore, args: argparse.Namespace) -> None:
    from webdata_nb.service.encryption import key_hash, new_api_key, new_id
    from webdata_nb.service.ledger import DEFAULT_PLAN
    from webdata_nb.service.store.sql.accounts import parse_scopes

    name, now = _valid_name(args.name), time.time()
    ends_at = _expiry(args, now)
    try:
        scopes = None if args.scopes is None else parse_scopes(args.scopes)
    except ValueError as error:
        raise InvalidArgument(f"--scopes: {error}") from None
    if args.account is None:
        account_id = await _add_account(accounts, name, _terms(args, DEFAULT_PLAN))
    elif _has_terms(args):
        raise InvalidArgument(
            "--plan, --monthly and --concurrency are for a new account; "
            "`webdata accounts set` changes one that exists"
        )
    else:
        account_id = (await accounts.named(args.account, now=now)).id
    key_id, key = new_id("key"), new_api_key()
    await accounts.add_key(
        key_id, account_id, name, key_hash(key), now=now, scopes=scopes, ends_at=ends_at
    )
    report(f"created {key_id}; the key is shown this once, and only its hash is kept:")
    print(key)


async def _list_keys(accounts: AccountStore, args: argparse.Namespace) -> None:
    account_id = None
    if args.account is not None:
        account_id = (await accounts.named(args.account, now=time.time())).id
    await _print_keys(accounts, account_id)


async def _print_keys(accounts: AccountStore, account_id: str | None) -> None:
    from webdata_nb.service.store.sql.accounts import scopes_text

    now = time.time()
    _print_columns(
        ("key", "name", "account", "scopes", "created", "last used", "state"),
        (
            (
                key.id,
                key.name,
                key.account,
                scopes_text(key.scopes),
                utc_time(key.created_at),
                "never" if key.last_used_at is None else utc_time(key.last_used_at),
                _key_state(key.ends_at, now),
            )
            for key in await accounts.keys(account_id)
        ),
    )


def _key_state(ends_at: float | None, now: float) -> str:
    if ends_at is None:
        return "valid"
    return f"{'valid until' if ends_at > now else 'ended'} {utc_time(ends_at)}"


async def _rotate_key(accounts: AccountStore, args: argparse.Namespace) -> None:
    from webdata_nb.service.encryption import key_hash, new_api_key, new_id

    if not 0 <= args.grace <= _MAX_GRACE_HOURS:
        raise InvalidArgument(f"--grace takes hours from 0 to {_MAX_GRACE_HOURS}")
    key_id, key, now = new_id("key"), new_api_key(), time.time()
    ends_at = now + args.grace * 3600
    new_ends_at = await accounts.rotate_key(
        args.key,
        key_id,
        key_hash(key),
        ends_at=ends_at,
        new_ends_at=_expiry(args, now),
        now=now,
    )
    report(f"created {key_id} in place of {args.key}, which is {_key_state(ends_at, now)}:")
    if new_ends_at is not None:
        report(f"{key_id} is {_key_state(new_ends_at, now)}; --expires gives it another end")
    print(key)


async def _revoke_key(accounts: AccountStore, args: argparse.Namespace) -> None:
    await accounts.end_key(args.key, at=time.time())
    report(f"{args.key} is not valid any more")


async def _top_up(accounts: AccountStore, args: argparse.Namespace) -> None:
    from webdata_nb.service.ledger import MAX_CREDITS

    if not 1 <= args.credits <= MAX_CREDITS:
        raise InvalidArgument(f"CREDITS is a whole number from 1 to {MAX_CREDITS}")
    account = await accounts.top_up(args.account, args.credits, now=time.time())
    report(f"{args.account!r} has {account.balance.topup_left} credits that do not expire")


async def _export_accounts(accounts: AccountStore, args: argparse.Namespace) -> None:
    from webdata_nb.service.store.sql.accounts import write_account_file

    export = await accounts.export()
    write_account_file(args.file, export)
    report(f"wrote {len(export.accounts)} accounts to {args.file}, which only its owner can read")
    if reserved := sum(len(account.reservations) for account in export.accounts):
        report(
            f"{reserved} jobs or calls are under way: the import gives their credits back, so stop "
            "the service before you export"
        )


async def _import_accounts(accounts: AccountStore, args: argparse.Namespace) -> None:
    from webdata_nb.service.store.sql.accounts import read_account_file

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


# Secrets


def _add_secrets(group: Commands) -> None:
    text = "Encrypt all secrets with a new key; the service may run meanwhile."
    add_store_command(group, "rotate", _rotate_secrets, text)
    text = "Print a new key for WEBDATA_SECRET_KEY."
    add_command(group, "new-key", _print_new_secret_key, text)


def _rotate_secrets(place: StorePlace, _args: argparse.Namespace) -> None:
    import asyncio

    from webdata_nb.service.encryption import KEY_FILE, KeyFile
    from webdata_nb.service.settings import SECRET_KEY, secret_keys

    keys = secret_keys()
    if not keys and place.url is not None:
        raise WebdataError(
            f"{SECRET_KEY} must have the new key and the old one, separated by a comma"
        )
    if not keys:
        KeyFile(place.directory / KEY_FILE).rotate()
    encrypted, unreadable_count = asyncio.run(_reencrypt(place, keys))
    report(f"encrypted the secrets of {encrypted} jobs with the first key")
    if unreadable_count:
        raise WebdataError(
            f"the secrets of {unreadable_count} jobs need a key that is missing here"
        )


async def _reencrypt(place: StorePlace, keys: tuple[str, ...]) -> tuple[int, int]:
    from webdata_nb.service.settings import secret_cipher_for
    from webdata_nb.service.store.backends import open_store

    cipher = secret_cipher_for(place.directory, keys)
    async with open_store(place.directory, cipher, place.url) as store:
        return await store.secrets.reencrypt()


def _print_new_secret_key(_args: argparse.Namespace) -> None:
    from webdata_nb.service.encryption import new_key

    print(new_key())


# Store


def _add_store(group: Commands) -> None:
    text = (
        "Look for damage and contradictions in the database, and for wrong settings of a server; "
        "the service may run meanwhile."
    )
    check = add_store_command(group, "check", _check_store, text, store_flag=False)
    check.add_argument(
        "store",
        nargs="?",
        metavar="URL",
        help="database on PostgreSQL (default: WEBDATA_STORE, or SQLite in DIR)",
    )
    check.add_argument(
        "--blobs",
        metavar="URL",
        help="the service's folder for files, whose stored pages are read (default: WEBDATA_BLOBS)",
    )
    for view in VIEWS.values():
        if view.command.startswith("webdata store "):
            _add_view(group, view)
    text = "Copy the database to a new file; the service may run meanwhile."
    backup = add_store_command(group, "backup", _back_up_store, text)
    backup.add_argument("file", type=Path, metavar="FILE", help="a file that does not exist yet")


def _check_store(place: StorePlace, args: argparse.Namespace) -> int:
    import asyncio

    from webdata_nb.service.settings import blobs_url

    results = asyncio.run(_run_checks(place, blobs_url(args.blobs)))
    for result in results:
        state = f"{len(result.problems)} wrong" if result.problems else "ok"
        print(f"{result.check}: {state}{f', {result.detail}' if result.detail else ''}")
        for problem in result.problems:
            print(f"  {problem}")
    return int(any(result.problems for result in results))


async def _run_checks(place: StorePlace, blobs_url: str | None) -> list[CheckResult]:
    from webdata_nb.service.blobs import open_blob_store
    from webdata_nb.service.segments.reader import check_segments
    from webdata_nb.service.store.backends import check_store

    async with open_blob_store(blobs_url, place.directory) as blobs:
        check_files = functools.partial(
            check_segments, blobs=blobs if blobs_url is not None else None
        )
        return await check_store(place.directory, place.url, check_files)


def _back_up_store(place: StorePlace, args: argparse.Namespace) -> None:
    if place.url is not None:
        raise WebdataError(
            "this command copies SQLite files; copy a database on PostgreSQL with pg_dump"
        )
    from webdata_nb.service.encryption import KEY_FILE
    from webdata_nb.service.store.backends import back_up_store

    directory = place.directory
    size = back_up_store(directory, args.file.absolute())
    report(f"wrote {args.file}, {size} bytes")
    if (key_file := directory / KEY_FILE).exists():
        report(f"its encrypted values open with the key in {key_file}; store that file elsewhere")


# Views of the operator

_FILTER_HELP: Final = {
    "account": "only of this account, by its name or id",
    "state": f"only jobs in this state: {', '.join(STATES)}",
    "kind": f"only jobs of this kind: {', '.join(KINDS)}",
    "since": "since a period before now, such as 30m, 24h or 7d, or a date in UTC (default {})",
    "by": f"sums by these, joined by commas: {', '.join(GROUPS)} (default account,operation)",
    "limit": "at most N rows (default 100)",
}
_METAVARS: Final = {"account": "NAME", "since": "TIME", "by": "GROUPS", "limit": "N"}


def _add_view(group: Commands, view: View) -> argparse.ArgumentParser:
    """Add the command that shows a view of the operator."""
    run = functools.partial(_show_view, view)
    parser = add_store_command(group, view.command.rpartition(" ")[2], run, view.question)
    for name in view.filters:
        if (view.name, name) != ("usage", "account"):
            text = _FILTER_HELP[name].format(view.period)
            parser.add_argument(f"--{name}", metavar=_METAVARS.get(name, name.upper()), help=text)
    add_format_flag(parser)
    return parser


def _show_view(view: View, place: StorePlace, args: argparse.Namespace) -> None:
    import asyncio
    import csv
    import sys

    given: dict[str, str | None] = {name: getattr(args, name) for name in view.filters}
    query = view.query(given, time.time())
    answer = asyncio.run(_ask(place, lambda operator: operator.answer(view.name, query)))
    if args.output_format == "json":
        print(json.dumps(answer.rows, indent=2))
        return
    if args.output_format == "csv":
        names = [column.name for column in answer.columns]
        writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(answer.rows)
        return
    columns = [
        TextColumn(
            column.name,
            [cell_text(column.kind, row[column.name]) for row in answer.rows],
            is_number=column.kind not in {"text", "time"},
        )
        for column in answer.columns
        if answer.rows
    ]
    if args.output_format == "markdown":
        print(markdown_table(columns))
    else:
        print(plain_table(columns, shown_width()))


async def _ask(place: StorePlace, question: Callable[[OperatorStore], Awaitable[T]]) -> T:
    """Return what the operator's store of a place answers."""
    from webdata_nb.service.store.backends import open_operator

    async with open_operator(place.directory, place.url) as operator:
        return await question(operator)


def cell_text(kind: ColumnKind, value: Any) -> str:
    """Return a value of a view as a person reads it; empty without one."""
    from webdata_nb.toolkit.terminal_text import printable_line

    match kind:
        case _ if value is None:
            return ""
        case "count":
            return f"{value:,}"
        case "bytes":
            return byte_text(value)
        case "seconds":
            return duration_text(value)
        case "time":
            return utc_time(value)
        case _:
            return printable_line(value)


def add_job_actions(jobs: argparse.ArgumentParser) -> None:
    """Add the actions of an operator to `webdata jobs`."""
    group = jobs.add_subparsers(metavar="ACTION")
    text = "Show a job of any account of a team's service on this machine, and why it failed."
    add_store_command(group, "show", _show_job, text).add_argument(
        "job", metavar="JOB_ID", help="the id of the job"
    )
    text = "Cancel a job of any account of a team's service on this machine."
    add_store_command(group, "cancel", _cancel_job, text).add_argument(
        "job", metavar="JOB_ID", help="the id of the job"
    )


def _show_job(place: StorePlace, args: argparse.Namespace) -> None:
    import asyncio

    job = asyncio.run(_ask(place, lambda operator: operator.job(args.job)))
    kinds = {column.name: column.kind for column in VIEWS["jobs"].columns}
    kinds |= {"lease_left": "seconds", "rows_expired": "time"}
    lists = {"urls", "providers", "deliveries"}
    facts = [
        (name, cell_text(kinds.get(name, "text"), value))
        for name, value in job.items()
        if name not in lists and value not in {None, ""}
    ]
    _print_columns(("", ""), facts)
    if job["urls"]:
        _print_columns(("outcome", "urls"), job["urls"].items())
    for name in ("providers", "deliveries"):
        if rows := job[name]:
            cells = (["" if cell is None else cell for cell in row.values()] for row in rows)
            _print_columns(tuple(rows[0]), cells)


def _cancel_job(place: StorePlace, args: argparse.Namespace) -> None:
    import asyncio

    published, cost = asyncio.run(_cancel(place, args.job))
    report(f"cancelled {args.job}; it keeps {published} rows and cost {cost} credits")


async def _cancel(place: StorePlace, job_id: str) -> tuple[int, int]:
    from webdata_nb.service.settings import secret_cipher_for, secret_keys
    from webdata_nb.service.store.backends import open_store

    cipher = secret_cipher_for(place.directory, secret_keys())
    async with open_store(place.directory, cipher, place.url) as store:
        account_id = await store.operator.owner(job_id)
        job = await store.cancel(account_id, job_id, now=store.now())
        return job.published, job.credits or 0


RunOnFile = Callable[["SigningKeyFile", argparse.Namespace], None]

_START_HOURS: Final = 24.0
_KEEP_DAYS: Final = 7.0
_MAX_START_HOURS: Final = 24.0 * 30
_MAX_KEEP_DAYS: Final = 365.0
_HOUR_S: Final = 3600
_DAY_S: Final = 24 * _HOUR_S


# Signing keys


def _add_signing_keys(group: Commands) -> None:
    text = "Create a key; the service signs its requests from its next start on."
    create = _add_key_command(group, "create", _create_signing_key, text)
    create.add_argument(
        "agent",
        metavar="URL",
        help="https address at which the public keys are published, such as https://bot.example.com",
    )
    _add_key_command(group, "list", _list_signing_keys, "List the keys, without their secrets.")
    text = "Replace the key by a new one; the service may run meanwhile."
    rotate = _add_key_command(group, "rotate", _rotate_signing_key, text)
    rotate.add_argument(
        "--start-in",
        type=float,
        default=_START_HOURS,
        metavar="HOURS",
        help="hours after which the new key signs; it is published at once (default 24)",
    )
    rotate.add_argument(
        "--keep",
        type=float,
        default=_KEEP_DAYS,
        metavar="DAYS",
        help="days for which the old key stays published after that (default 7)",
    )
    rotate.add_argument("--agent", metavar="URL", help="new address of the published keys")
    text = "Print the directory of the public keys, to publish it as a file."
    _add_key_command(group, "directory", _print_public_keys, text)


def _add_key_command(
    group: Commands, name: str, run: RunOnFile, text: str
) -> argparse.ArgumentParser:
    parser = add_command(group, name, functools.partial(_run_on_file, run), text)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--file", type=Path, metavar="FILE", help="file of the keys")
    place.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="data directory of the service that has the file (default: that of the mode)",
    )
    parser.add_argument(
        "--mode",
        choices=("local", "team"),
        default="team",
        help="whose default data directory: that of serve --mode team (default), or local",
    )
    return parser


def _run_on_file(run: RunOnFile, args: argparse.Namespace) -> None:
    from webdata_nb.service.signing.request_signer import KEY_FILE, SigningKeyFile

    path = args.file or (args.data_dir or default_data_dir(args.mode)) / KEY_FILE
    run(SigningKeyFile(path.absolute()), args)


def _create_signing_key(file: SigningKeyFile, args: argparse.Namespace) -> None:
    from webdata_nb.service.signing.message_signature import SigningKey, SigningKeySet

    key = SigningKey.generate(starts_at=int(time.time()))
    try:
        file.create(SigningKeySet(_checked_agent(args.agent), (key,)))
    except FileExistsError:
        raise WebdataError(
            f"{file.path} exists; `webdata signing-keys rotate` replaces its key"
        ) from None
    report(f"created the key {key.thumbprint} in {file.path}")


def _list_signing_keys(file: SigningKeyFile, _args: argparse.Namespace) -> None:
    keys, now = _read_keys(file), time.time()
    print(f"{keys.agent}  {file.path}")
    for key in keys.keys:
        print(f"{key.thumbprint}  {_state_of_key(keys, key, now)}")


def _rotate_signing_key(file: SigningKeyFile, args: argparse.Namespace) -> None:
    from webdata_nb.service.signing.message_signature import MAX_KEYS, SigningKey

    if not 0 <= args.start_in <= _MAX_START_HOURS:
        raise InvalidArgument(f"--start-in takes hours from 0 to {_MAX_START_HOURS:g}")
    if not 0 <= args.keep <= _MAX_KEEP_DAYS:
        raise InvalidArgument(f"--keep takes days from 0 to {_MAX_KEEP_DAYS:g}")
    agent = None if args.agent is None else _checked_agent(args.agent)
    now = time.time()
    key = SigningKey.generate(starts_at=int(now + args.start_in * _HOUR_S))
    keys = _read_keys(file).rotated(key, now=now, keep_s=int(args.keep * _DAY_S), agent=agent)
    if len(keys.keys) > MAX_KEYS:
        raise WebdataError(f"{MAX_KEYS} keys are published; wait until one of them ends")
    file.replace(keys)
    report(f"created the key {key.thumbprint}, which {_state_of_key(keys, key, now)}")


def _print_public_keys(file: SigningKeyFile, _args: argparse.Namespace) -> None:
    from webdata_nb.service.signing.message_signature import directory_body

    print(directory_body(_read_keys(file), time.time()).decode())


def _read_keys(file: SigningKeyFile) -> SigningKeySet:
    try:
        return file.read()
    except ValueError as error:
        create = "`webdata signing-keys create` makes one"
        advice = f"restore or remove it; then {create}" if file.path.exists() else create
        raise WebdataError(f"{error}; {advice}") from None


def _checked_agent(url: str) -> str:
    from webdata_nb.service.signing.message_signature import check_agent

    try:
        return check_agent(url)
    except ValueError as error:
        suffix = "" if "@" in url else f", not {url[:80]!r}"  # it may hold a password
        raise InvalidArgument(f"{error}{suffix}") from None


def _state_of_key(keys: SigningKeySet, key: SigningKey, now: float) -> str:
    end = "" if key.ends_at is None else f", published until {utc_time(key.ends_at)}"
    if key.ends_at is not None and key.ends_at <= now:
        return f"ended {utc_time(key.ends_at)}"
    if key is keys.active(now):
        return f"signs{end}"
    if key.starts_at > now:
        return f"signs from {utc_time(key.starts_at)}{end}"
    return f"signs no more{end}"
