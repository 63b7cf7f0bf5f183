"""Commands of the operator, run while a team's service runs."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.shell import TIMEOUT_S, Shell
from webdata_nb.service.settings import LOCAL_ACCOUNT
from webdata_nb.service.store.sqlite.database import SqliteStore

Completed = subprocess.CompletedProcess[str]


@dataclass(frozen=True, slots=True)
class TeamService:
    """A running team's service, and a shell on its machine."""

    shell: Shell
    url: str

    def run(self, *words: str) -> Completed:
        result = self.shell.call(*words)
        assert "Traceback" not in result.stderr
        return result

    def status(self, key: str) -> int:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.get(
            f"{self.url}/v1/jobs", headers=headers, trust_env=False, timeout=TIMEOUT_S
        ).status_code

    def new_key(self, *words: str) -> tuple[str, str]:
        """Run a command that creates a key, and return its id and the key."""
        result = self.run(*words)
        assert re.fullmatch(r"wdk_[A-Za-z0-9_-]{43}\n", result.stdout), result
        match = re.search(r"created (key_[0-9a-f]{12})", result.stderr)
        assert match is not None
        return match[1], result.stdout.strip()


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TeamService]:
    shell = Shell(tmp_path_factory.mktemp("team"))
    with shell.start("serve", "--mode", "team", "--port", "0") as process:
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "serves http://" in line)
            yield TeamService(shell, line.rsplit(maxsplit=1)[1])
        finally:
            process.terminate()
            process.communicate(timeout=TIMEOUT_S)


@pytest.mark.slow
def test_new_key_is_valid_at_once_and_not_stored(team: TeamService) -> None:
    key_id, key = team.new_key("keys", "create", "--name", "alice", "--plan", "trial")
    assert team.status(key) == 200
    assert team.status(key + "x") == 401
    listed = team.run("keys", "list", "--account", "alice").stdout
    assert key_id in listed
    assert "valid" in listed
    assert key not in listed
    stored = b"".join(path.read_bytes() for path in team.shell.home.rglob("*") if path.is_file())
    assert key_id.encode() in stored
    assert key.encode() not in stored


@pytest.mark.slow
def test_keys_rotate_and_are_revoked(team: TeamService) -> None:
    team.run("accounts", "create", "bob", "--monthly", "50", "--concurrency", "3")
    first, first_key = team.new_key("keys", "create", "--name", "laptop", "--account", "bob")
    second, rotated_key = team.new_key("keys", "rotate", first)
    assert (team.status(first_key), team.status(rotated_key)) == (200, 200)
    third, last_key = team.new_key("keys", "rotate", second, "--grace", "0")
    assert (team.status(rotated_key), team.status(last_key)) == (401, 200)
    assert team.run("keys", "revoke", third).returncode == 0
    assert team.run("keys", "revoke", first).returncode == 0
    assert (team.status(first_key), team.status(last_key)) == (401, 401)
    assert team.run("keys", "list", "--account", "bob").stdout.count("ended") == 3


@pytest.mark.slow
def test_key_has_scopes_an_end_and_a_last_use(team: TeamService) -> None:
    create = ("keys", "create", "--name", "ci", "--scopes", "read, search", "--expires", "30")
    first, key = team.new_key(*create)
    assert team.status(key) == 200
    crawl = httpx.post(
        f"{team.url}/v1/crawl",
        json={"url": "https://example.com/"},
        headers={"Authorization": f"Bearer {key}"},
        trust_env=False,
        timeout=TIMEOUT_S,
    )
    assert crawl.status_code == 403
    assert crawl.json()["detail"] == (
        "this needs a key with the scope crawl; this key has only search and read"
    )
    deadline = time.monotonic() + TIMEOUT_S
    while "never" in (listed := team.run("keys", "list", "--account", "ci").stdout):
        assert time.monotonic() < deadline
    second, rotated = team.new_key("keys", "rotate", first)
    assert team.status(rotated) == 200
    shown = team.run("accounts", "show", "ci").stdout
    cells = [re.split(r"\s{2,}", line) for line in shown.splitlines() if "key_" in line]
    assert [row[0] for row in cells] == [first, second]
    assert [row[3] for row in cells] == ["search,read"] * 2
    ends = [row[6].removeprefix("valid until ") for row in cells]
    assert ends[1] in listed, "a rotation does not prolong the expiry"
    assert ends[0] < ends[1]
    third = team.run("keys", "rotate", second, "--expires", "60")
    assert f"in place of {second}" in third.stderr
    assert "--expires gives it another end" in third.stderr


@pytest.mark.slow
def test_account_shows_credits(team: TeamService) -> None:
    team.run("accounts", "create", "carol", "--monthly", "50")
    assert "7 credits" in team.run("keys", "topup", "--account", "carol", "7").stderr
    team.run("accounts", "set", "carol", "--concurrency", "2")
    output = team.run("accounts", "show", "carol").stdout
    facts = dict(line.split(maxsplit=1) for line in output.splitlines() if len(line.split()) == 2)
    assert facts["monthly"] == facts["left"] == "50"
    assert (facts["topup"], facts["limit"], facts["plan"]) == ("7", "2", "team")
    team.run("accounts", "set", "carol", "--plan", "unlimited")
    [line] = [
        line
        for line in team.run("accounts", "list").stdout.splitlines()
        if line.startswith("carol")
    ]
    assert re.split(r"\s{2,}", line) == [
        "carol", "unlimited", "no limit", "no limit", "7", "0", "0", "0", "64", "active",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_suspended_account_is_refused_until_it_is_resumed(team: TeamService) -> None:
    _, key = team.new_key("keys", "create", "--name", "frank")
    assert "is suspended" in team.run("accounts", "suspend", "frank").stderr
    assert team.status(key) == 403
    assert " suspended" in team.run("accounts", "show", "frank").stdout
    team.run("accounts", "resume", "frank")
    assert team.status(key) == 200


@pytest.mark.slow
def test_an_account_is_deleted_once_that_is_confirmed(team: TeamService) -> None:
    _, key = team.new_key("keys", "create", "--name", "grace", "--plan", "trial")
    refused = team.run("accounts", "delete", "grace")
    assert refused.returncode == 2
    facts = dict(line.rsplit(maxsplit=1) for line in refused.stdout.splitlines())
    assert (facts.pop("keys"), set(facts.values())) == ("1", {"0"})
    assert "add --yes to delete the account 'grace'" in refused.stderr
    assert team.status(key) == 200
    result = team.run("accounts", "delete", "grace", "--yes")
    assert (result.returncode, result.stdout) == (0, "")
    assert team.status(key) == 401
    assert "grace" not in team.run("accounts", "list").stdout
    lines = team.run("accounts", "list", "--all").stdout.splitlines()
    assert any(line.startswith("deleted account_") and line.endswith("  deleted") for line in lines)
    assert "no account named" in team.run("accounts", "delete", "grace", "--yes").stderr
    team.new_key("keys", "create", "--name", "grace")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        ("keys create --name x --account nobody", 1, "no account named 'nobody'"),
        ("keys create --name dave --plan gold", 2, "plan must be one of trial, team"),
        ("keys create --name dave --monthly -1", 2, "monthly must be a whole number"),
        ("keys create --name dave --account dave --monthly 5", 2, "for a new account"),
        ("keys rotate key_unknown", 1, "no key key_unknown"),
        ("keys revoke key_unknown", 1, "no key key_unknown"),
        ("keys create --name dave --scopes reed", 2, "scopes are search, crawl, creatives, read"),
        ("keys create --name dave --scopes=", 2, "not ''"),
        ("keys create --name dave --expires 0", 2, "--expires takes days, more than 0"),
        ("keys create --name dave --expires nan", 2, "not nan"),
        ("keys rotate key_unknown --expires 9999", 2, "up to 3650, not 9999"),
        ("keys rotate key_unknown --grace -1", 2, "--grace takes hours"),
        ("keys topup --account nobody 0", 2, "CREDITS is a whole number"),
        ("accounts set nobody", 2, "give --plan"),
        ("accounts show nobody", 1, "no account named"),
        ("accounts suspend nobody", 1, "no account named"),
        ("accounts resume nobody", 1, "no account named"),
        ("accounts delete nobody", 1, "no account named"),
        ("accounts delete nobody --yes", 1, "no account named"),
        ("accounts list --data-dir nowhere", 1, "no service has its data in"),
    ],
)
def test_wrong_arguments_are_reported(
    team: TeamService, words: str, exit_code: int, message: str
) -> None:
    result = team.run(*words.split())
    assert (result.returncode, result.stdout) == (exit_code, "")
    assert message in result.stderr


def test_account_names_are_unique(team: TeamService) -> None:
    team.run("accounts", "create", "erin")
    again = team.run("keys", "create", "--name", "erin")
    assert again.returncode == 1
    assert "already" in again.stderr


def test_key_is_created_before_first_start(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    directory = tmp_path / "new"
    result = shell.call("keys", "create", "--name", "first", "--data-dir", str(directory))
    assert result.returncode == 0
    assert directory.stat().st_mode & 0o077 == 0
    assert (directory / "jobs.sqlite").stat().st_mode & 0o077 == 0


def test_accounts_move_to_another_data_directory(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    old, new, file = (str(tmp_path / name) for name in ("old", "new", "accounts.json"))
    limits = ("--scopes", "creatives,admin", "--expires", "7")
    key = shell.call("keys", "create", "--name", "ci", *limits, "--data-dir", old).stdout.strip()
    exported = shell.call("keys", "export", "--data-dir", old, file)
    assert "wrote 1 accounts" in exported.stderr
    assert key not in Path(file).read_text("utf-8")
    for added in (1, 0):
        imported = shell.call("keys", "import", "--data-dir", new, file)
        assert f"added {added} of 1 accounts" in imported.stderr
    keys = [shell.call("keys", "list", "--data-dir", each).stdout for each in (old, new)]
    assert keys[0] == keys[1]
    assert "creatives,admin" in keys[0]
    assert "valid until" in keys[0]
    exported_text = Path(file).read_text("utf-8")
    wrong_file = tmp_path / "wrong.json"
    wrong_file.write_text(exported_text.replace("creatives,admin", "creatives,root"), "utf-8")
    wrong = shell.call("keys", "import", "--data-dir", new, str(wrong_file))
    assert (wrong.returncode, "not a whole file" in wrong.stderr) == (1, True)
    again = shell.call("keys", "export", "--data-dir", new, file)
    assert (again.returncode, "exists already" in again.stderr) == (1, True)


def test_secrets_rotate_while_service_runs(team: TeamService) -> None:
    result = team.run("secrets", "rotate")
    assert (result.returncode, result.stdout) == (0, "")
    assert "encrypted the secrets of 0 jobs" in result.stderr
    [file] = team.shell.home.rglob("secret.key")
    assert file.stat().st_mode & 0o077 == 0
    new = team.run("secrets", "new-key").stdout.strip()
    assert len(new) == 44
    assert new not in file.read_text("ascii")


def test_wrong_secret_key_prevents_start(tmp_path: Path) -> None:
    result = Shell(tmp_path).run(
        "serve", "--mode", "team", "--port", "0", WEBDATA_SECRET_KEY="short"
    )
    assert result.returncode == 1
    assert "webdata secrets new-key" in result.stderr


def wait_until_ended(team: TeamService, key: str, job_id: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    url = f"{team.url}/v1/crawl/{job_id}/events"
    httpx.get(url, headers=headers, trust_env=False, timeout=TIMEOUT_S).raise_for_status()


def table(result: Completed) -> list[dict[str, str]]:
    """Return the rows of a command with `--format csv`."""
    assert result.returncode == 0, result.stderr
    return list(csv.DictReader(io.StringIO(result.stdout)))


@pytest.mark.slow
def test_operator_sees_usage_failures_jobs_and_sizes(team: TeamService) -> None:
    key_id, key = team.new_key("keys", "create", "--name", "dora")
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(
        base_url=team.url, headers=headers, trust_env=False, timeout=TIMEOUT_S
    ) as http:
        jobs = []
        for number in range(3):
            body = {"url": f"http://site{number}.invalid/path?word=hidden"}
            jobs.append(http.post("/v1/crawl", json=body).raise_for_status().json()["job_id"])
            wait_until_ended(team, key, jobs[-1])
    listed = table(team.run("store", "jobs", "--account", "dora", "--format", "csv"))
    assert [row["job"] for row in listed] == jobs[::-1]
    assert {(row["account"], row["key"], row["state"]) for row in listed} == {
        ("dora", key_id, "failed")
    }
    [usage] = table(team.run("accounts", "usage", "dora", "--by", "key,day", "--format", "csv"))
    assert (usage["key"], usage["jobs"], usage["failed"], usage["credits"]) == (
        key_id, "3", "3", "0",
    )  # fmt: skip
    shown = team.run("jobs", "show", jobs[0])
    assert "failed" in shown.stdout
    assert ".invalid" in shown.stdout
    [group] = table(team.run("store", "failures", "--account", "dora", "--format", "csv"))
    assert group["jobs"] == "3"
    assert "hidden" not in group["reason"]
    for view in ("outcomes", "refusals", "sites", "providers", "webhooks", "replicas", "size"):
        assert team.run("store", view).returncode == 0
    [process] = table(team.run("store", "replicas", "--format", "csv"))
    assert (process["kind"], process["state"]) == ("serve", "live")
    sizes = json.loads(team.run("store", "size", "--format", "json").stdout)
    assert any(row["account"] == "dora" and row["kind"] == "job records" for row in sizes)
    wrong = team.run("store", "jobs", "--state", "dead")
    assert wrong.returncode == 2
    assert "state takes one of pending" in wrong.stderr
    unknown = team.run("jobs", "show", "nothing")
    assert (unknown.returncode, "no such job" in unknown.stderr) == (1, True)
    again = team.run("jobs", "cancel", jobs[0])
    assert (again.returncode, "the job is failed" in again.stderr) == (1, True)


def test_account_of_a_local_service_is_not_deleted(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    store = SqliteStore(tmp_path / "jobs.sqlite")

    async def add() -> None:
        async with store:
            await store.accounts.ensure(LOCAL_ACCOUNT, "me", now=store.now())

    asyncio.run(add())
    refused = shell.call("accounts", "delete", "me", "--yes", "--data-dir", str(tmp_path))
    assert refused.returncode == 1
    assert "'me' is the account of a local service" in refused.stderr
