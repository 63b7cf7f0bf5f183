"""Words of product pages in the languages of the web: buttons, labels, states.

The phrases are in `data/product_phrases.json`.

A pattern matches its phrases as whole words, in text that `fold` returned. Languages without
spaces between words are matched anywhere.
"""

from __future__ import annotations

import re
from functools import cache, cached_property, lru_cache
from typing import Final

from webdata_nb.page.extract.data import read_data


@lru_cache(maxsize=1 << 12)
def fold(text: str) -> str:
    """Return a text in lower case with typographic apostrophes and white space simplified."""
    return " ".join(text.casefold().replace("\u2019", "'").split())


class PhrasePattern:
    """A pattern for the phrases of a name, longest first.

    It is compiled at its first use: many processes read no product page, and all patterns take a
    fifth of the processor time with which a page worker starts.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """The folded phrases, longest first."""
        parts = set(map(fold, _all_phrases()[self._name]))
        return tuple(sorted(parts, key=lambda part: (-len(part), part)))

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match in a folded text."""
        return self._compiled.search(text) if self._may_contain(text) else None

    def match(self, text: str) -> re.Match[str] | None:
        """Return the match at the beginning of a folded text."""
        return self._compiled.match(text) if self._may_contain(text) else None

    def _may_contain(self, text: str) -> bool:
        """Return whether a text has the first word of a phrase, which is much faster to tell."""
        words = _WORD.findall(text)
        return not self.first_words.isdisjoint(words) or UNSPACED.search(text) is not None

    @cached_property
    def first_words(self) -> frozenset[str]:
        """The first word of each phrase."""
        return frozenset(match[0] for each in self.phrases if (match := _WORD.search(each)))

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile("|".join(map(_bounded, self.phrases)))


def phrase_set(name: str) -> frozenset[str]:
    """Return the folded phrases of a name, without punctuation at their ends."""
    return frozenset(fold(phrase).strip(" .:#*-") for phrase in _all_phrases()[name])


@cache
def _all_phrases() -> dict[str, list[str]]:
    """Return the phrases by the names of the constants below, in lower case."""
    phrases: dict[str, list[str]] = read_data("product_phrases.json")
    return phrases


def _bounded(phrase: str) -> str:
    escaped = re.escape(phrase)
    if UNSPACED.search(phrase):
        return escaped
    return rf"(?<!\w){escaped}(?!\w)"


_WORD: Final = re.compile(r"\w+")
# Chinese, Japanese, Korean and Thai.
UNSPACED: Final = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

BUY: Final = PhrasePattern("buy")
"""Labels of buttons that put the product into the cart or buy it."""
NOTIFY: Final = PhrasePattern("notify")
"""Labels of buttons that offer a message when the product is back."""
OUT_OF_STOCK: Final = PhrasePattern("out_of_stock")
"""States of a product that cannot be bought."""
IN_STOCK: Final = PhrasePattern("in_stock")
"""States of a product that can be bought."""
RELATED: Final = PhrasePattern("related")
"""Headings of sections about other products."""
OLD_PRICE: Final = PhrasePattern("old_price")
"""Labels of prices that are no longer asked, and of savings."""
OTHER_AMOUNT: Final = PhrasePattern("other_amount")
"""Words beside amounts that are not the price: shipping, instalments, discounts, thresholds."""
SKU_LABELS: Final = phrase_set("sku_labels")
"""Labels of a shop's code of the product."""
GTIN_LABELS: Final = phrase_set("gtin_labels")
"""Labels of the code below a barcode."""
MPN_LABELS: Final = phrase_set("mpn_labels")
"""Labels of the manufacturer's code of the product."""
BRAND_LABELS: Final = phrase_set("brand_labels")
"""Labels of the brand or manufacturer."""
AVAILABILITY_LABELS: Final = phrase_set("availability_labels")
"""Labels of the availability."""
