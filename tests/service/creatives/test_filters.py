"""Tests the lookup of countries against the table of pycountry."""

from __future__ import annotations

from typing import Any

import pycountry
import pytest

from webdata_nb.page.errors import BadInput
from webdata_nb.service.creatives.source import alpha_2_of_google_id, parse_region, regions

COUNTRIES: list[Any] = list(pycountry.countries)


def test_all_countries_are_known() -> None:
    assert len(COUNTRIES) == 249
    assert {each.alpha_2 for each in regions()} == {each.alpha_2 for each in COUNTRIES}


@pytest.mark.parametrize("country", COUNTRIES, ids=lambda country: country.alpha_2)
def test_country_is_found_by_code_and_name(country: Any) -> None:
    names = [country.alpha_2, country.alpha_2.lower(), country.alpha_3, country.name]
    names += [getattr(country, name, country.name) for name in ("common_name", "official_name")]
    for name in names:
        parsed = parse_region(name)
        assert parsed is not None
        assert parsed.alpha_2 == country.alpha_2
        google_id = 20340 if country.alpha_2 == "IM" else 2000 + int(country.numeric)
        assert parsed.google_id == google_id
        assert alpha_2_of_google_id(google_id) == country.alpha_2


def test_anywhere_is_no_country() -> None:
    assert parse_region("anywhere") is parse_region(" Anywhere ") is None


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [("Austraila", "Australia (AU)"), ("sweeden", "Sweden (SE)"), ("Cote dIvoire", "(CI)")],
)
def test_misspelt_name_gets_suggestion(text: str, suggestion: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_region(text)
    assert suggestion in str(caught.value)
    assert caught.value.loc == ("body", "region")


@pytest.mark.parametrize("text", ["XX", "", "2276", "Atlantis"])
def test_unknown_country_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="ISO 3166"):
        parse_region(text)
