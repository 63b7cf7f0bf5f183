"""The word lists of extraction: what is in the files is what the code names."""

from __future__ import annotations

from importlib.resources import files

from webdata_nb.page.extract import visible_text
from webdata_nb.page.extract.data import read_data
from webdata_nb.page.extract.prices import CODES_OF_SYMBOL, CURRENCY_OF_SYMBOL


def test_each_list_of_phrases_has_a_name_in_the_code_and_no_phrase_twice() -> None:
    phrases = read_data("product_phrases.json")
    assert {name.upper() for name in phrases} <= set(vars(visible_text))
    for name, own in phrases.items():
        assert own, name
        assert len(set(own)) == len(own), name


def test_symbols_are_folded_and_codes_are_iso_4217() -> None:
    symbols = {*CURRENCY_OF_SYMBOL, *CODES_OF_SYMBOL}
    assert all(symbol == symbol.casefold().strip() for symbol in symbols)
    codes = {
        *CURRENCY_OF_SYMBOL.values(),
        *(code for own in CODES_OF_SYMBOL.values() for code in own),
    }
    assert all(len(code) == 3 and code.isupper() for code in codes)


def test_the_package_contains_its_data_files() -> None:
    names = {file.name for file in files("webdata_nb.page.extract.data").iterdir()}
    assert {"product_phrases.json", "currencies.json", "vocabulary.json"} <= names
