"""Symbols and codes of currencies, as shops write them."""

from __future__ import annotations

from typing import Final

from webdata_nb.service.content.class_names import word_set

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
AMBIGUOUS_SYMBOLS: Final = frozenset(
    {"$", "kr", "kr.", "¥", "￥", "元", "rs", "rs.", "р", "р.", "br", "r", "fr."}
)
"""Symbols of several currencies."""
CURRENCY_CODES: Final = word_set(
    "usd eur gbp jpy cny chf cad aud nzd sek nok dkk czk pln huf ron bgn hrk rsd rub uah kzt"
    " byn try inr krw twd hkd sgd myr thb idr php vnd brl mxn ars clp cop pen uyu zar ngn kes"
    " egp mad aed sar qar kwd bhd omr jod ils isk gel amd azn mdl all bam mkd pkr bdt lkr"
)
