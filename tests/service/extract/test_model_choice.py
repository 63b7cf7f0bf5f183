"""The model of a request, the chunks of long pages, and merged answers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.contract.local import ModelAccess, SessionSettings
from webdata_nb.contract.requests import Extract
from webdata_nb.page.errors import BadInput
from webdata_nb.page.extract.schema import merge_answers, overlay
from webdata_nb.service.foreign_services import ErrorReply
from webdata_nb.service.models.chat import HOSTS, provider_status, retry_delay_s, select_model
from webdata_nb.service.models.extraction import (
    estimate_tokens,
    model_access,
    model_and_schema,
    split_chunks,
)
from webdata_nb.service.settings import InvalidSetting, providers

KEY = "canary-key-9a02"


def settings(**access: dict[str, Any]) -> dict[str, ModelAccess]:
    return {name: ModelAccess.model_validate(each) for name, each in access.items()}


def selected_model(access: dict[str, ModelAccess], **options: str) -> str | None:
    model = select_model(
        access, Extract.model_validate({"prompt": "p", **options}), loc=("extract",)
    )
    return None if model is None else f"{model.provider}/{model.name}"


def refusal(access: dict[str, ModelAccess], **options: str) -> tuple[str, str]:
    with pytest.raises(BadInput) as caught:
        selected_model(access, **options)
    assert KEY not in str(caught.value)
    return str(caught.value.loc[-1]), str(caught.value)


TWO = settings(openai={"key": KEY, "model": "a"}, ollama={"url": "http://o/", "model": "b"})


def test_the_first_usable_provider_with_a_model_is_the_default() -> None:
    assert selected_model({}) is None
    assert selected_model(settings(openai={"key": KEY})) is None
    assert selected_model(settings(openai={"model": "m"})) is None
    assert selected_model(TWO) == "openai/a"
    assert selected_model(settings(zeta={"url": "http://z", "model": "z"})) == "zeta/z"


def test_a_request_may_name_provider_and_model() -> None:
    assert selected_model(TWO, provider="structured") is None
    assert selected_model(TWO, provider="ollama") == "ollama/b"
    assert selected_model(TWO, provider="ollama", model="c") == "ollama/c"
    assert selected_model(TWO, model="b") == "ollama/b"
    assert selected_model(settings(openai={"key": KEY}), model="c") == "openai/c"


def test_what_cannot_be_meant_is_refused_and_says_what_lacks() -> None:
    lacking = {"openai": "no key: set WEBDATA_LLM_OPENAI_KEY"}
    for name, why in (*lacking.items(), ("ollama", "no address: set WEBDATA_LLM_OLLAMA_URL")):
        assert refusal({}, provider=name) == ("provider", f"{name} is not set up: {why}")
    field, why = refusal({}, provider="http://evil.test/v1")
    assert field == "provider"
    assert why.startswith("must be one of structured, openai")
    assert refusal({}, model="m")[0] == "model"
    assert refusal(TWO, model="c") == ("provider", "say which provider: openai, ollama")
    assert refusal(TWO, provider="structured", model="m")[0] == "model"
    without = settings(groq={"key": KEY})
    assert "WEBDATA_LLM_GROQ_MODEL" in refusal(without, provider="groq")[1]
    for url in ("ftp://x", "http://user:secret@x/"):
        field, why = refusal(settings(custom={"url": url, "model": "m"}), provider="custom")
        assert field == "provider"
        assert "secret" not in why


def test_no_repr_shows_address_or_key() -> None:
    access = settings(custom={"url": f"http://h/{KEY}", "key": KEY, "model": "m"})
    model = select_model(access, Extract(prompt="p"), loc=())
    assert model is not None
    assert KEY not in f"{model!r} {model.identity}"
    assert (model.url, model.key) == (f"http://h/{KEY}", KEY)


def test_a_hosts_own_address_and_context_stand_where_settings_say_nothing() -> None:
    model = select_model(settings(mistral={"key": KEY}), Extract(prompt="p", model="m"), loc=())
    assert model is not None
    assert model.url == "https://api.mistral.ai/v1"
    assert (model.context, model.timeout_s) == (HOSTS["mistral"].context, 120)
    assert all(host.url.startswith("https://") for host in HOSTS.values() if host.needs_key)
    assert not any(host.url for host in HOSTS.values() if not host.needs_key)


def test_a_sessions_models_go_before_the_operators() -> None:
    operator = SessionSettings(llm=settings(openai={"key": "o"}, groq={"key": "o"}))
    access = model_access(operator, {"llm": {"openai": {"key": "s"}}, "user_agent": "x"})
    assert {name: each.key for name, each in access.items()} == {"openai": "s", "groq": "o"}


def test_the_environment_of_a_service() -> None:
    parsed_settings = providers(
        {
            "WEBDATA_LLM_VLLM_URL": "http://v/v1",
            "WEBDATA_LLM_VLLM_MODEL": "m",
            "WEBDATA_LLM_VLLM_CONTEXT": "16000",
            "WEBDATA_LLM_VLLM_TIMEOUT": "30",
            "WEBDATA_LLM_OPENAI_KEY": KEY,
        }
    )
    assert parsed_settings.llm == {
        "vllm": ModelAccess(url="http://v/v1", model="m", context=16000, timeout=30),
        "openai": ModelAccess(key=KEY),
    }
    assert KEY not in repr(parsed_settings)
    for name, text in (("CONTEXT", "many"), ("TIMEOUT", "-1"), ("CONTEXT", "3")):
        with pytest.raises(InvalidSetting, match=name.lower() if text != "many" else name):
            providers({f"WEBDATA_LLM_VLLM_{name}": text})


def test_an_operator_says_which_models_may_be_named() -> None:
    access = settings(
        openai={"key": KEY, "models": ["small", "large"]},
        vllm={"url": "http://v/v1", "model": "own", "models": ["tiny"]},
        groq={"key": KEY},
    )
    assert selected_model(access) == "openai/small"
    assert selected_model(access, provider="openai", model="large") == "openai/large"
    assert selected_model(access, provider="vllm") == "vllm/own"
    assert selected_model(access, provider="vllm", model="tiny") == "vllm/tiny"
    assert selected_model(access, provider="vllm", model="own") == "vllm/own"
    assert selected_model(access, model="tiny") == "vllm/tiny"
    assert selected_model(access, provider="groq", model="any") == "groq/any"
    for provider, allowed in (("openai", "small, large"), ("vllm", "own, tiny")):
        error = refusal(access, provider=provider, model="other")
        assert error == ("model", f"must be one of {allowed}")
    read = providers({"WEBDATA_LLM_OPENAI_KEY": KEY, "WEBDATA_LLM_OPENAI_MODELS": "a/b:c, d,"})
    assert read.llm["openai"].models == ("a/b:c", "d")
    assert provider_status(read.llm) == (True, "openai: a/b:c")


def test_a_prompt_needs_a_model() -> None:
    with pytest.raises(BadInput, match="schema"):
        model_and_schema(Extract(prompt="p"), {}, ("body", "extract"))
    model_and_schema(Extract(prompt="p"), TWO, ("body", "extract"))


# ------------------------------------------------------------------------------------------ retries


def test_backoff_doubles_and_ends() -> None:
    def waits(status: int | str) -> list[float]:
        found: list[float] = []
        while (
            s := retry_delay_s(status, ErrorReply(), attempt=len(found) + 1, retry_after_s=None)
        ) is not None:
            found.append(s)
        return found

    assert waits(429) == [1, 2, 4, 8, 16]
    assert waits(500) == waits("connect") == [1, 2]
    assert waits(200) == waits(400) == waits("timeout") == waits("refused") == []
    assert retry_delay_s(503, ErrorReply(), attempt=1, retry_after_s=33.0) == 33.0


# ------------------------------------------------------------------------------------------- pieces

TEXTS = st.lists(
    st.sampled_from(["# A\n", "## B\n", "word ", "\n", "\n\n", "ä", "漢字", "😀", "x" * 50])
).map("".join)


@given(TEXTS, st.integers(2, 60))
def test_pieces_are_the_text_and_fit(text: str, budget: int) -> None:
    pieces = split_chunks(text, budget)
    assert "".join(pieces) == text
    assert all(0 < estimate_tokens(each) <= budget for each in pieces)


@given(st.lists(st.integers(0, 40), min_size=1), st.integers(20, 80))
def test_pieces_begin_at_headings_where_sections_fit(sizes: list[int], budget: int) -> None:
    text = "".join(f"# H\n{'w ' * size}\n" for size in sizes)
    fits = all(estimate_tokens(f"# H\n{'w ' * size}\n") <= budget for size in sizes)
    pieces = split_chunks(text, budget)
    if fits:
        assert all(each.startswith("# H\n") for each in pieces)
        # Filled one after the other: the next section would not have fitted in.
        for one, after in pairwise(pieces):
            section = "# H\n" + after.split("# H\n")[1]
            assert estimate_tokens(one + section) > budget


# ------------------------------------------------------------------------------------------ merging

VALUES = st.recursive(
    st.none() | st.integers(0, 3) | st.sampled_from(["a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "y", "z"]), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["p", "q", "r"]), VALUES, max_size=3)


@given(OBJECTS)
def test_one_answer_stays_as_it_is(one: dict[str, Any]) -> None:
    merged = merge_answers([one], None)
    assert (merged.value, merged.conflicts) == (one, {})


@given(OBJECTS)
def test_the_same_answer_twice_is_that_answer(one: dict[str, Any]) -> None:
    merged = merge_answers([one, one], None)
    assert (merged.value, merged.conflicts) == (one, {})


@given(st.lists(OBJECTS, max_size=4))
def test_nothing_that_a_piece_said_is_lost_or_made_up(answers: list[dict[str, Any]]) -> None:
    merged = merge_answers(answers, None)
    assert set(merged.value) == {name for each in answers for name in each}
    for name, value in merged.value.items():
        values = [each[name] for each in answers if each.get(name) is not None]
        if not values:
            assert value is None
        elif not all(isinstance(each, dict | list) for each in values):
            assert value == values[0]
            others = [each for each in values if each != values[0]]
            assert bool(others) == (f"/{name}" in merged.conflicts)


@given(VALUES, VALUES)
def test_what_is_declared_stays(first: Any, second: Any) -> None:
    whole = overlay(first, second)
    if first is None:
        assert whole == second
    elif not isinstance(first, dict) or not isinstance(second, dict):
        assert whole == first
    else:
        plain = {name: each for name, each in first.items() if isinstance(each, int | str)}
        assert {name: whole[name] for name in plain} == plain
