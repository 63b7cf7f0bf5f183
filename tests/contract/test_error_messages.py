"""Error messages about invalid fields are plain words for every error of pydantic."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from pydantic import ValidationError
from pydantic_core import PydanticKnownError
from pydantic_core.core_schema import ErrorType

from webdata_nb.contract.error_messages import plain_message
from webdata_nb.contract.fields import CODES, country_code
from webdata_nb.contract.requests import CrawlRequest, CreativesRequest, SearchRequest

JARGON = re.compile(
    r"pydantic|tuple|dictionary|\bdict\b|\bInput\b|boolean|integer|\bstring\b|should be|valid "
)
WRONG: tuple[object, ...] = ("text", 5, 1.5, True, [], [1], {}, {"a": 1}, None, "x" * 100_000, -1)


@pytest.mark.parametrize("model", [SearchRequest, CrawlRequest, CreativesRequest])
def test_error_messages_name_no_python_types(
    model: type[SearchRequest | CrawlRequest | CreativesRequest],
) -> None:
    messages = set()
    for name, field in model.model_fields.items():
        for value in WRONG:
            try:
                model.model_validate({field.alias or name: value})
            except ValidationError as error:
                messages |= {(each["type"], plain_message(each)) for each in error.errors()}
    assert len(messages) > 10
    assert [each for each in messages if each[0] != "value_error" and JARGON.search(each[1])] == []


@pytest.mark.parametrize("kind", sorted(get_args(ErrorType)))
def test_every_pydantic_error_type_has_a_message(kind: str) -> None:
    context: dict[str, object] = dict.fromkeys(
        ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "max_digits"), 1
    )
    context |= dict.fromkeys(("actual_length", "decimal_places", "whole_digits"), 1)
    context |= dict.fromkeys(("tz_expected", "tz_actual", "expected_version"), 1)
    context |= {"field_type": "List", "expected": "'a' or 'b'", "pattern": "^a$", "error": "why"}
    for name in (
        *("class", "class_name", "tag", "discriminator", "expected_tags", "expected_schemes"),
        *("attribute", "method_name", "expected_plural", "encoding", "encoding_error"),
    ):
        context[name] = "a"
    try:
        pydantic_message = PydanticKnownError(kind, context).message()  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError):
        pydantic_message = "Input should be a valid tuple"
    for ctx in (context, {}):
        message = plain_message({"type": kind, "msg": pydantic_message, "ctx": ctx})
        assert message
        assert "valid tuple" not in message
        assert "Input" not in message


def test_message_uses_singular_for_one() -> None:
    problem = {"type": "string_too_short", "msg": "", "ctx": {"min_length": 1}}
    assert plain_message(problem) == "must have at least 1 character"


def test_countries_are_those_of_iso_3166() -> None:
    assert len(CODES) == 249
    assert [country_code(code) for code in ("us", "US", "De", "gb", "uk")] == [
        *("us", "us", "de", "gb", "gb")
    ]
    for wrong in ("zz", "xx", "usa", "", "u", "ß", "1a", "eu"):
        with pytest.raises(ValueError, match="ISO 3166-1"):
            country_code(wrong)
