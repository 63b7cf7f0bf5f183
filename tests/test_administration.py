"""The operator's commands, as a shell runs them, beside a service that runs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.test_cli import PATIENCE_S, Shell

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True, slots=True)
class Served:
    """A team's service, and a shell on its machine."""

    shell: Shell
    url: str

    def run(self, *words: str) -> Done:
        done = self.shell.run(*words)
        assert "Traceback" not in done.stderr
        return done

    def status(self, key: str) -> int:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.get(
            f"{self.url}/v1/jobs", headers=headers, trust_env=False, timeout=PATIENCE_S
        ).status_code

    def new_key(self, *words: str) -> tuple[str, str]:
        """Return id and key of what a command created."""
        done = self.run(*words)
        assert re.fullmatch(r"wdk_[A-Za-z0-9_-]{43}\n", done.stdout), done
        found = re.search(r"created (key_[0-9a-f]{12})", done.stderr)
        assert found is not None
        return found[1], done.stdout.strip()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    shell = Shell(tmp_path_factory.mktemp("team"))
    with shell.start("serve", "--mode", "team", "--port", "0") as process:
        try:
            assert process.stderr is not None
            said = next(line for line in process.stderr if "serves http://" in line)
            yield Served(shell, said.rsplit(maxsplit=1)[1])
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_S)


@pytest.mark.slow
def test_a_key_opens_the_running_service_at_once_and_is_shown_once(served: Served) -> None:
    key_id, key = served.new_key("keys", "create", "--name", "alice", "--plan", "trial")
    assert served.status(key) == 200
    assert served.status(key + "x") == 401
    listed = served.run("keys", "list", "--account", "alice").stdout
    assert key_id in listed
    assert "valid" in listed
    assert key not in listed
    kept = b"".join(path.read_bytes() for path in served.shell.home.rglob("*") if path.is_file())
    assert key_id.encode() in kept
    assert key.encode() not in kept


@pytest.mark.slow
def test_an_account_has_several_keys_that_rotate_and_end(served: Served) -> None:
    served.run("accounts", "create", "bob", "--monthly", "50", "--concurrency", "3")
    first, key = served.new_key("keys", "create", "--name", "laptop", "--account", "bob")
    second, kept = served.new_key("keys", "rotate", first)
    assert (served.status(key), served.status(kept)) == (200, 200)
    third, now_only = served.new_key("keys", "rotate", second, "--grace", "0")
    assert (served.status(kept), served.status(now_only)) == (401, 200)
    assert served.run("keys", "revoke", third).returncode == 0
    assert served.run("keys", "revoke", first).returncode == 0
    assert (served.status(key), served.status(now_only)) == (401, 401)
    assert served.run("keys", "list", "--account", "bob").stdout.count("ended") == 3


@pytest.mark.slow
def test_an_account_shows_its_credits(served: Served) -> None:
    served.run("accounts", "create", "carol", "--monthly", "50")
    assert "7 credits" in served.run("keys", "topup", "--account", "carol", "7").stderr
    served.run("accounts", "set", "carol", "--concurrency", "2")
    shown = served.run("accounts", "show", "carol").stdout
    facts = dict(line.split(maxsplit=1) for line in shown.splitlines() if len(line.split()) == 2)
    assert facts["monthly"] == facts["left"] == "50"
    assert (facts["topup"], facts["limit"], facts["plan"]) == ("7", "2", "team")
    served.run("accounts", "set", "carol", "--plan", "unlimited")
    [line] = [
        line
        for line in served.run("accounts", "list").stdout.splitlines()
        if line.startswith("carol")
    ]
    assert re.split(r"\s{2,}", line) == [
        "carol", "unlimited", "no limit", "no limit", "7", "0", "0", "0", "64",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("keys create --name x --account nobody", 1, "no account named 'nobody'"),
        ("keys create --name dave --plan gold", 2, "plan must be one of trial, team"),
        ("keys create --name dave --monthly -1", 2, "monthly must be a whole number"),
        ("keys create --name dave --account dave --monthly 5", 2, "for a new account"),
        ("keys rotate key_unknown", 1, "no key key_unknown"),
        ("keys revoke key_unknown", 1, "no key key_unknown"),
        ("keys rotate key_unknown --grace -1", 2, "--grace takes hours"),
        ("keys topup --account nobody 0", 2, "CREDITS is a whole number"),
        ("accounts set nobody", 2, "give --plan"),
        ("accounts show nobody", 1, "no account named"),
        ("accounts list --data-dir nowhere", 1, "no service has its data in"),
    ],
)
def test_what_is_wrong_is_said(served: Served, words: str, code: int, said: str) -> None:
    done = served.run(*words.split())
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def test_a_name_is_taken_once(served: Served) -> None:
    served.run("accounts", "create", "erin")
    again = served.run("keys", "create", "--name", "erin")
    assert again.returncode == 1
    assert "already" in again.stderr


def test_keys_can_be_made_before_the_first_start(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    directory = tmp_path / "new"
    done = shell.run("keys", "create", "--name", "first", "--data-dir", str(directory))
    assert done.returncode == 0
    assert directory.stat().st_mode & 0o077 == 0
    assert (directory / "jobs.sqlite").stat().st_mode & 0o077 == 0


def test_secrets_are_sealed_with_a_new_key_beside_a_running_service(served: Served) -> None:
    done = served.run("secrets", "rotate")
    assert (done.returncode, done.stdout) == (0, "")
    assert "sealed the secrets of 0 jobs" in done.stderr
    [file] = served.shell.home.rglob("secret.key")
    assert file.stat().st_mode & 0o077 == 0
    new = served.run("secrets", "new-key").stdout.strip()
    assert len(new) == 44
    assert new not in file.read_text("ascii")


def test_a_wrong_secret_key_stops_the_service_before_it_starts(tmp_path: Path) -> None:
    done = Shell(tmp_path).run("serve", "--mode", "team", "--port", "0", WEBDATA_SECRET_KEY="short")
    assert done.returncode == 1
    assert "webdata secrets new-key" in done.stderr
