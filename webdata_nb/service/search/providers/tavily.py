"""Adapts Tavily, a search API with one page of at most 20 results."""

from __future__ import annotations

from typing import Final

from webdata_nb.contract.local import Access
from webdata_nb.service.foreign_services import PLAN_USED_UP
from webdata_nb.service.search.providers.api import (
    ProviderProblem,
    ProviderReply,
    ProviderRequest,
    ResultPage,
    SearchApi,
    SearchQuery,
    api_key,
    json_request,
    member,
    parse_json,
    parse_results,
)

MAX_RESULTS: Final = 20
_PLAN_LIMITS: Final = frozenset({432, 433})
# Tavily's names of countries by their codes. Other countries are not sent.
_COUNTRY_TABLE: Final = """
af afghanistan|al albania|dz algeria|ad andorra|ao angola|ar argentina|am armenia|au australia
at austria|az azerbaijan|bs bahamas|bh bahrain|bd bangladesh|bb barbados|by belarus|be belgium
bz belize|bj benin|bt bhutan|bo bolivia|ba bosnia and herzegovina|bw botswana|br brazil|bn brunei
bg bulgaria|bf burkina faso|bi burundi|kh cambodia|cm cameroon|ca canada|cv cape verde
cf central african republic|td chad|cl chile|cn china|co colombia|km comoros|cg congo
cr costa rica|hr croatia|cu cuba|cy cyprus|cz czech republic|dk denmark|dj djibouti
do dominican republic|ec ecuador|eg egypt|sv el salvador|gq equatorial guinea|er eritrea
ee estonia|et ethiopia|fj fiji|fi finland|fr france|ga gabon|gm gambia|ge georgia|de germany
gh ghana|gr greece|gt guatemala|gn guinea|ht haiti|hn honduras|hu hungary|is iceland|in india
id indonesia|ir iran|iq iraq|ie ireland|il israel|it italy|jm jamaica|jp japan|jo jordan
kz kazakhstan|ke kenya|kw kuwait|kg kyrgyzstan|lv latvia|lb lebanon|ls lesotho|lr liberia|ly libya
li liechtenstein|lt lithuania|lu luxembourg|mg madagascar|mw malawi|my malaysia|mv maldives|ml mali
mt malta|mr mauritania|mu mauritius|mx mexico|md moldova|mc monaco|mn mongolia|me montenegro
ma morocco|mz mozambique|mm myanmar|na namibia|np nepal|nl netherlands|nz new zealand|ni nicaragua
ne niger|ng nigeria|kp north korea|mk north macedonia|no norway|om oman|pk pakistan|pa panama
pg papua new guinea|py paraguay|pe peru|ph philippines|pl poland|pt portugal|qa qatar|ro romania
ru russia|rw rwanda|sa saudi arabia|sn senegal|rs serbia|sg singapore|sk slovakia|si slovenia
so somalia|za south africa|kr south korea|ss south sudan|es spain|lk sri lanka|sd sudan|se sweden
ch switzerland|sy syria|tw taiwan|tj tajikistan|tz tanzania|th thailand|tg togo
tt trinidad and tobago|tn tunisia|tr turkey|tm turkmenistan|ug uganda|ua ukraine
ae united arab emirates|gb united kingdom|us united states|uy uruguay|uz uzbekistan|ve venezuela
vn vietnam|ye yemen|zm zambia|zw zimbabwe
"""

_COUNTRY_NAMES: Final[dict[str, str]] = {
    entry[:2]: entry[3:] for entry in _COUNTRY_TABLE.strip().replace("\n", "|").split("|")
}


class Tavily(SearchApi):
    """Supports countries by name, but neither languages nor safe search."""

    name = "tavily"
    url = "https://api.tavily.com/search"
    needs_key = True

    def build_request(
        self, query: SearchQuery, number: int, access: Access
    ) -> ProviderRequest | None:
        """Build a POST request for the only page."""
        if number > 1:
            return None
        body = {
            "query": query.text,
            "max_results": min(MAX_RESULTS, query.num_results),
            "search_depth": "basic",
            "topic": "general",
            "country": _COUNTRY_NAMES.get(query.country or ""),
        }
        return json_request(
            access.url or self.url, body, {"Authorization": f"Bearer {api_key(access)}"}
        )

    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Read the member `results`."""
        _ = query, number
        items = member(parse_json(reply), "results")
        return ResultPage(
            parse_results(items, url="url", title="title", snippet="content"), has_more=False
        )

    def parse_problem(self, reply: ProviderReply) -> ProviderProblem | None:
        """Recognize the limits of the plan (432) and of pay-as-you-go (433)."""
        if reply.status in _PLAN_LIMITS:
            return ProviderProblem("rate_limited", PLAN_USED_UP)
        return None
