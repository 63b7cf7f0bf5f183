"""Symbols and codes of currencies, as shops write them, and what settles a symbol of several.

``$``, ``kr`` and ``¥`` are no code of a currency. A page settles which one it means, in this order:

1. the only one of them that its texts name: ``US$ 20``, ``20 CAD``, "All prices in AUD";
2. the country of its host's name, such as ``.ca`` or ``.com.au``;
3. the country of its declared language, or of `og:locale`: ``en-CA``, ``sv_SE``;
4. its declared language without a country, where one currency belongs to it: Swedish, Japanese.

The country of the host comes before that of the language because site builders declare ``en-US`` by
default.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.class_names import word_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_SYMBOLS: Final = {
    "EUR": "€ | eur | euro | euros",
    "GBP": "£",
    "USD": "$ | us$ | us $",
    "JPY": "¥ | ￥ | 円",
    "INR": "₹ | rs | rs.",
    "RUB": "₽ | руб | руб. | р. | р",
    "KRW": "₩ | 원 | 원~",
    "TRY": "₺ | tl",
    "UAH": "₴ | грн | грн.",
    "ILS": "₪",
    "VND": "₫ | đ",
    "THB": "฿ | บาท",
    "KZT": "₸ | тг | тг. | тнг",
    "PHP": "₱",
    "NGN": "₦",
    "CRC": "₡",
    "CAD": "c $ | c$ | ca$ | cad$",
    "AUD": "au $ | a$ | au$",
    "NZD": "nz$",
    "SGD": "s$",
    "HKD": "hk$",
    "TWD": "nt$",
    "MXN": "mx$",
    "BRL": "r$",
    "ARS": "ar$",
    "CZK": "kč",
    "PLN": "zł | zl",
    "HUF": "ft",
    "RON": "lei",
    "BGN": "лв | лв.",
    "HRK": "kn",
    "RSD": "din | rsd | дин",
    "SEK": "kr",
    "DKK": "kr.",
    "CHF": "fr. | sfr",
    "IDR": "rp",
    "MYR": "rm",
    "CNY": "元",
    "PEN": "s/",
    "BYN": "br | б.р. | бел. руб.",
    "KGS": "сом",
    "UZS": "so'm | сум",
    "SAR": "ر.س | ريال",
    "AED": "د.إ",
    "IRT": "تومان",
    "ZAR": "r",
}
"""The symbols of each currency; of a symbol of several currencies, the most common one."""
CURRENCY_OF_SYMBOL: Final = {
    symbol: code for code, symbols in _SYMBOLS.items() for symbol in symbols.split(" | ")
}
_DOLLARS: Final = (
    "USD=us pr gu | CAD=ca | AUD=au | NZD=nz | SGD=sg | HKD=hk | TWD=tw | MXN=mx | ARS=ar | CLP=cl"
    " | COP=co | UYU=uy | DOP=do | JMD=jm | TTD=tt | BSD=bs | BBD=bb | BZD=bz | FJD=fj | NAD=na"
)
_KRONE: Final = "SEK=se -sv | NOK=no -no -nb -nn | DKK=dk gl fo -da -kl -fo | ISK=is -is"
_YEN: Final = "JPY=jp -ja | CNY=cn -zh"
_RUPEE: Final = "INR=in -hi | PKR=pk -ur | LKR=lk -si | NPR=np -ne | MUR=mu | SCR=sc"
_ROUBLE: Final = "RUB=ru su рф xn--p1ai | BYN=by -be"
_SEVERAL: Final = {
    "$": _DOLLARS,
    "kr": _KRONE,
    "kr.": _KRONE,
    "¥": _YEN,
    "￥": _YEN,
    "元": "CNY=cn -zh | TWD=tw | HKD=hk | MOP=mo",
    "rs": _RUPEE,
    "rs.": _RUPEE,
    "р": _ROUBLE,
    "р.": _ROUBLE,
    "br": "BYN=by -be | ETB=et -am",
    "r": "ZAR=za -af -zu | BRL=br",
    "fr.": "CHF=ch li",
}
"""The currencies of a symbol of several, with their countries and, after a hyphen, languages."""
CODES_OF_SYMBOL: Final = {
    symbol: {code: places.split() for code, _, places in (each.partition("=") for each in pairs)}
    for symbol, codes in _SEVERAL.items()
    for pairs in (codes.split(" | "),)
}
"""For each symbol of several currencies, their codes with the countries and languages of each."""
_GENERIC_DOMAINS: Final = word_set("co do sc bz gl")
"""Top-level domains of countries that sites all over the world use."""
_TRADITIONAL: Final = "hant"
"""The script of Taiwan and of Hong Kong."""
_NAMED: Final = re.compile(r"(?<![^\W_])(?:[A-Z]{3}(?![^\W_])|(?:US|AU|CA|NZ|HK|NT|MX|A|C|S) ?\$)")
_MAX_NAMING_LENGTH: Final = 120
_ABOUT_PRICES: Final = re.compile(
    r"\d|\b(?:prices?|currency|preise?|prix|precios?|prezzi|priser|valuta|währung|devise|moneda)\b",
    re.IGNORECASE,
)
CURRENCY_CODES: Final = word_set(
    "usd eur gbp jpy cny chf cad aud nzd sek nok dkk czk pln huf ron bgn hrk rsd rub uah kzt"
    " byn try inr krw twd hkd sgd myr thb idr php vnd brl mxn ars clp cop pen uyu zar ngn kes"
    " egp mad aed sar qar kwd bhd omr jod ils isk gel amd azn mdl all bam mkd pkr bdt lkr"
)


def settle_symbols(
    texts: Iterable[str], *, host: str, languages: Sequence[str | None]
) -> dict[str, str]:
    """Return the ISO 4217 code of each symbol of several currencies that a page settles.

    Parameters
    ----------
    texts
        The texts of the page.
    host
        The name of its host.
    languages
        The declared languages, BCP 47 tags or locales, best first.

    Examples
    --------
    >>> settle_symbols([], host="shop.example", languages=["sv"])
    {'kr': 'SEK', 'kr.': 'SEK'}
    >>> settle_symbols(["All prices in AUD"], host="shop.example", languages=["en-US"])
    {'$': 'AUD'}
    >>> settle_symbols(["Add to cart"], host="shop.example", languages=["en"])
    {}
    """
    named = frozenset(_named_codes(texts))
    tags = [language.lower().replace("_", "-").split("-") for language in languages if language]
    country = host.rpartition(".")[2].lower()
    places = [] if country in _GENERIC_DOMAINS else [country]
    places += [part for _, *parts in tags for part in parts]
    places += [f"-{tag[0]}" for tag in tags if _TRADITIONAL not in tag]
    codes = {symbol: _settled_code(symbol, named, places) for symbol in CODES_OF_SYMBOL}
    return {symbol: code for symbol, code in codes.items() if code is not None}


def _settled_code(symbol: str, named: frozenset[str], places: Sequence[str]) -> str | None:
    codes = CODES_OF_SYMBOL[symbol]
    if own := named & codes.keys():
        return next(iter(own)) if len(own) == 1 else None
    return next((code for at in places for code, own in codes.items() if at in own), None)


def _named_codes(texts: Iterable[str]) -> Iterator[str]:
    """Return the currencies that texts about prices name by a code, or by a symbol of one."""
    for text in texts:
        names = _NAMED.findall(text) if len(text) <= _MAX_NAMING_LENGTH else ()
        if names and _ABOUT_PRICES.search(text):
            for name in names:
                folded = name.casefold().replace(" ", "")
                yield CURRENCY_OF_SYMBOL.get(folded) or folded.upper()
