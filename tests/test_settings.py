"""Precedence, checks and masked keys of settings."""

from __future__ import annotations

import copy
import inspect
import math
import os
import pickle
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from webdata_nb import settings
from webdata_nb.errors import InvalidArgument
from webdata_nb.settings import LanguageModel, Options, Provider, Secret, Settings, current

KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove the variables of the machine and the options of other tests."""
    for name in [*os.environ]:
        if name.startswith("WEBDATA_"):
            monkeypatch.delenv(name)
    yield
    fresh = Options()
    for each in fields(Options):
        setattr(settings.options, each.name, getattr(fresh, each.name))


def test_defaults() -> None:
    found = current()
    assert (found.base_url, found.api_key, found.home) == (None, None, None)
    assert (found.offline, found.progress, found.ttl, found.nest) == (False, None, None, False)
    assert found.data_dir == platformdirs.user_data_path("webdata") / "data"
    assert found.log_dir == platformdirs.user_data_path("webdata") / "logs"
    assert found.cache_dir == platformdirs.user_cache_path("webdata")


def test_arguments_win_over_options_over_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBDATA_BASE_URL", "http://environment.test")
    assert current().base_url == "http://environment.test"
    settings.options.base_url = "http://options.test"
    assert current().base_url == "http://options.test"
    assert current(Options(base_url="http://argument.test")).base_url == "http://argument.test"
    assert current(Options(base_url=None)).base_url == "http://options.test"


def test_false_and_zero_override_other_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBDATA_OFFLINE", "1")
    monkeypatch.setenv("WEBDATA_PROGRESS", "1")
    monkeypatch.setenv("WEBDATA_TTL", "60")
    settings.options.offline = False
    found = current(Options(progress=False, ttl=0))
    assert (found.offline, found.progress, found.ttl) == (False, False, 0)


def test_environment_is_read_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    assert current().nest is False
    monkeypatch.setenv("WEBDATA_NEST", "1")
    assert current().nest is True


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBDATA_BASE_URL", " ")
    monkeypatch.setenv("WEBDATA_TTL", "")
    assert (current().base_url, current().ttl) == (None, None)


def test_home_holds_data_cache_and_logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path))
    found = current()
    assert found.home == tmp_path
    assert (found.data_dir, found.cache_dir, found.log_dir) == (
        tmp_path / "data",
        tmp_path / "cache",
        tmp_path / "logs",
    )
    monkeypatch.setenv("WEBDATA_CACHE", str(tmp_path / "elsewhere"))
    assert current().cache_dir == tmp_path / "elsewhere"
    assert current().data_dir == tmp_path / "data"


def test_folders_are_absolute_and_expand_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBDATA_HOME", "~/web")
    assert current().data_dir == Path.home() / "web" / "data"
    assert current(Options(cache_dir="near")).cache_dir == Path.cwd() / "near"


@pytest.mark.parametrize("word", ["1", "on", "Yes", "TRUE"])
def test_true_words_of_variables(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("WEBDATA_OFFLINE", word)
    monkeypatch.setenv("WEBDATA_PROGRESS", word)
    assert (current().offline, current().progress) == (True, True)


@pytest.mark.parametrize("word", ["0", "off", "No", "FALSE"])
def test_false_words_of_variables(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("WEBDATA_NEST", word)
    monkeypatch.setenv("WEBDATA_PROGRESS", word)
    assert (current().nest, current().progress) == (False, False)


def test_progress_variable_names_kind_of_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBDATA_PROGRESS", "PANEL")
    assert current().progress == "panel"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("WEBDATA_OFFLINE", "perhaps"),
        ("WEBDATA_NEST", "2"),
        ("WEBDATA_TTL", "a day"),
        ("WEBDATA_TTL", "-1"),
        ("WEBDATA_TTL", "nan"),
        ("WEBDATA_BASE_URL", "example.com"),
        ("WEBDATA_BASE_URL", "ftp://example.com"),
        ("WEBDATA_BASE_URL", "http://user:word@example.com"),
        ("WEBDATA_BASE_URL", "http://example.com/?key=1"),
        ("WEBDATA_BASE_URL", "http://example.com/#top"),
    ],
)
def test_invalid_variable_is_named_in_error(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(ValueError, match=name):
        current()


def test_ttl_accepts_infinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBDATA_TTL", "inf")
    assert current().ttl == math.inf


def test_base_url_loses_trailing_slash() -> None:
    assert (
        current(Options(base_url="https://example.com/api/")).base_url == "https://example.com/api"
    )


def test_engines_and_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "WEBDATA_ENGINE_ONE": "searx, Other ,",
        "WEBDATA_ENGINE_THREE": "other",
        "WEBDATA_SEARX_URL": "http://searx.test",
        "WEBDATA_OTHER_URL": "http://other.test",
        "WEBDATA_OTHER_KEY": KEY,
        "WEBDATA_LLM_TWO_WORDS_URL": "http://llm.test",
        "WEBDATA_LLM_TWO_WORDS_KEY": KEY,
        "WEBDATA_LLM_TWO_WORDS_MODEL": "m",
        "WEBDATA_LLM_TWO_WORDS_CONTEXT": "9000",
        "WEBDATA_LLM_TWO_WORDS_TIMEOUT": "5",
        "WEBDATA_LLM_TWO_WORDS_MODELS": "m, n",
        "WEBDATA_BASE_URL": "http://service.test",
        "WEBDATA_API_KEY": KEY,
        "WEBDATA_ENGINE_ONE_URL": "http://reserved.test",
    }.items():
        monkeypatch.setenv(name, text)
    found = current()
    assert found.engines == {"engine_one": ("searx", "other"), "engine_three": ("other",)}
    assert found.providers == {
        "searx": Provider("http://searx.test"),
        "other": Provider("http://other.test", KEY),
    }
    assert found.llm == {
        "two_words": LanguageModel(
            "http://llm.test", KEY, model="m", context=9000, timeout=5.0, models=("m", "n")
        )
    }
    monkeypatch.setenv("WEBDATA_LLM_TWO_WORDS_CONTEXT", "much")
    with pytest.raises(ValueError, match="WEBDATA_LLM_TWO_WORDS_CONTEXT must be a whole number"):
        current()


def test_mappings_merge_entry_by_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBDATA_A_URL", "http://a.test")
    monkeypatch.setenv("WEBDATA_B_URL", "http://b.test")
    settings.options.providers["b"] = Provider("http://b2.test")
    found = current(Options(providers={"c": Provider("http://c.test")}))
    assert {name: each.url for name, each in found.providers.items()} == {
        "a": "http://a.test",
        "b": "http://b2.test",
        "c": "http://c.test",
    }


def test_unknown_engines_and_settings_raise() -> None:
    with pytest.raises(ValueError, match="engine_four"):
        current(Options(engines={"engine_four": ("x",)}))
    with pytest.raises(TypeError, match="retires"):
        Options(retires=3)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="retires"):
        settings.options.retires = 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("engines['engine1'] = ('x',)", "not 'engine1': did you mean 'engine_one'"),
        ("engines.update({'engine1': ('x',)})", "not 'engine1': did you mean 'engine_one'"),
        ("engines.update(engine_one=('x',), engine_4=('x',))", "not 'engine_4'"),
        ("engines.setdefault('engine1', ('x',))", "not 'engine1'"),
        ("engines |= {'engine1': ('x',)}", "not 'engine1'"),
        ("engines = {'engine1': ('x',)}", "not 'engine1'"),
        ("engines['engine_one'] = 5", r"engines\['engine_one'\] must be a list of .*; it is 5"),
        ("engines['engine_one'] = ['a', 3]", "must be a list of provider names; one is 3"),
        ("engines = 5", "engines must be a dict .*; it is 5"),
        ("providers['x'] = 'sk-very-secret-0123456789'", r"providers\['x'\] must be a provider"),
        ("providers['x'] = Provider(5)", r"providers\['x'\]: url must be text"),
        ("providers['x'] = Provider('a.test')", "did you mean https://a.test?"),
        ("providers = {5: Provider('http://a.test')}", "must have names as keys; one is 5"),
        ("llm['x'] = Provider('http://a.test', key=5)", "a key must be text"),
        ("llm.update(x=LanguageModel('http://a.test', context=5))", "context must be at least"),
        ("llm['x'] = LanguageModel('http://a.test', timeout='5')", "timeout must be a number"),
        ("api_key = 5", "a key must be text"),
        ("home = 5", "home .* must be a path; it is 5"),
        ("base_url = 5", "base_url .* must be a string; it is 5"),
        ("user_agent = 5", "user_agent .* must be a string; it is 5"),
        ("proxy = 5", "proxy .* must be a string"),
        ("ca_bundle = 5", "ca_bundle .* must be a path"),
        ("creatives_terms = 5", "creatives_terms .* must be a string"),
        ("compact_tables = 'no'", "compact_tables .* must be True or False"),
    ],
)
def test_a_setting_that_is_not_allowed_is_refused_when_it_is_set(
    statement: str, message: str
) -> None:
    settings.options.engines["engine_two"] = ("kept",)
    before = current()
    with pytest.raises(InvalidArgument, match=message) as caught:
        exec(f"options.{statement}", vars(settings))
    assert KEY not in str(caught.value)
    assert current() == before


def test_entries_of_settings_are_kept_as_they_are_used() -> None:
    options: Any = settings.options
    options.engines |= {"engine_one": "Searx, other"}
    options.engines["engine_two"] = ["a"]
    options.llm["x"] = LanguageModel("http://a.test", models="m, n")
    assert options.engines == {"engine_one": ("searx", "other"), "engine_two": ("a",)}
    assert options.llm["x"].models == ("m", "n")
    assert pickle.loads(pickle.dumps(options.engines)) == copy.deepcopy(options.engines)
    assert current().engines == options.engines
    del options.engines["engine_one"]
    assert options.engines.setdefault("engine_two") == ("a",)
    options.engines = None
    assert options.engines == {}


def test_repr_masks_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBDATA_API_KEY", KEY)
    monkeypatch.setenv("WEBDATA_X_KEY", KEY)
    monkeypatch.setenv("WEBDATA_LLM_X_KEY", KEY)
    settings.options.api_key = KEY
    found = current()
    for text in (repr(found), str(found), repr(settings.options), f"{found.api_key}"):
        assert KEY not in text
    assert found.api_key is not None
    assert found.api_key.reveal() == KEY


def test_repr_of_options_says_what_is_set_and_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBDATA_TTL", "60")
    monkeypatch.setenv("WEBDATA_HOME", "/tmp/<b>")
    monkeypatch.setenv("WEBDATA_BASE_URL", f"https://me:{KEY}@a.test")
    monkeypatch.setattr(settings.options, "ttl", 3600.0)
    monkeypatch.setattr(settings.options, "proxy", f"http://me:{KEY}@proxy.test:8080")
    monkeypatch.setattr(settings.options, "engines", {"engine_one": ["local"]})
    text, markup = repr(settings.options), settings.options._repr_html_()
    lines = [line.split() for line in text.splitlines()]
    assert ["ttl", "3600.0", "set", "here"] in lines
    assert ["home", "/tmp/<b>", "WEBDATA_HOME"] in lines
    assert ["engines", "engine_one:", "local", "set", "here"] in lines
    assert ["base_url", "https://***@a.test", "WEBDATA_BASE_URL"] in lines
    assert KEY not in text + markup
    assert "<b>" not in markup
    assert "&lt;b&gt;" in markup
    assert max(map(len, text.splitlines())) <= 80
    for each in fields(Options):
        assert each.name in text
        assert each.name in markup
    # Other objects, such as those of a connection, have no environment.
    assert "60" not in repr(Options(home="/x"))
    monkeypatch.setenv("WEBDATA_OFFLINE", "perhaps")
    assert "not allowed" in repr(settings.options)


def test_secrets_compare_hash_and_pickle() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
    assert pickle.loads(pickle.dumps(Secret("a"))) == Secret("a")


def test_options_and_settings_have_same_fields() -> None:
    assert [each.name for each in fields(Options)] == [each.name for each in fields(Settings)]


def test_guide_and_docstring_describe_every_setting() -> None:
    guide = Path("docs/guide/settings.md").read_text()
    described = (inspect.getdoc(Options) or "").partition("Attributes")[2].partition("Examples")[0]
    for each in fields(Options):
        entry = rf"(?m)^[\w, ]*\b{each.name}\b[\w, ]* : "
        assert re.search(entry, described), each.name
        variable = each.metadata["source"].variable
        assert variable is None or variable in guide


@pytest.mark.skipif(sys.platform == "win32", reason="Windows knows every user's directory")
def test_user_without_home_gets_temporary_folders_and_one_warning(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may become a user that the system does not know")
    script = """
        import os
        from webdata_nb.toolkit import session
        os.setresuid(54321, 0, 0)  # still allowed to write into the test's folder
        for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "WEBDATA_HOME"):
            os.environ.pop(name, None)
        connection = session.Connection()
        print(connection.settings().data_dir, connection.settings().cache_dir)
    """

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"TMPDIR": str(tmp_path)},
        )

    done = run()
    home = tmp_path / "webdata-54321" / "home"
    assert done.stdout.split() == [str(home / "data"), str(home / "cache")], done.stderr
    assert done.stderr.count("Set WEBDATA_HOME") == 1
    home.parent.rmdir()
    home.parent.symlink_to(tmp_path)  # another user's
    assert "set WEBDATA_HOME" in run().stderr.splitlines()[-1]
