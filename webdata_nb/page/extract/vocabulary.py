"""Synonyms of field names, and the types and properties of schema.org and meta tags.

Names are lower case without separators, so ``datePublished``, ``date_published`` and
``Date published`` are one name.
"""

from __future__ import annotations

from typing import Final


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


SYNONYMS: Final[dict[str, tuple[str, ...]]] = {
    name: tuple(synonyms.split())
    for name, synonyms in {
        "title": "headline name",
        "name": "headline title",
        "headline": "name title",
        "heading": "headline name",
        "subtitle": "alternativeheadline",
        "summary": "abstract description",
        "abstract": "description",
        "excerpt": "description",
        "text": "articlebody reviewbody text description",
        "body": "articlebody reviewbody text",
        "content": "articlebody reviewbody text",
        "comment": "comment reviewbody text",
        "link": "url",
        "uri": "url",
        "href": "url",
        "website": "url",
        "canonical": "url",
        "canonicalurl": "url",
        "image": "thumbnailurl photo logo",
        "imageurl": "image thumbnailurl contenturl",
        "photo": "image",
        "picture": "image",
        "thumbnail": "thumbnailurl image",
        "logourl": "logo",
        "videourl": "contenturl embedurl",
        "author": "creator",
        "authorname": "author creator",
        "writer": "author creator",
        "byline": "author",
        "by": "author",
        "creator": "author",
        "reviewer": "author",
        "published": "datepublished uploaddate datecreated",
        "publishedat": "datepublished uploaddate datecreated",
        "publishedon": "datepublished uploaddate datecreated",
        "publisheddate": "datepublished uploaddate datecreated",
        "publishedtime": "datepublished uploaddate datecreated",
        "publishdate": "datepublished uploaddate datecreated",
        "publicationdate": "datepublished uploaddate datecreated",
        "pubdate": "datepublished uploaddate datecreated",
        "datepublished": "uploaddate datecreated",
        "postedat": "dateposted datepublished datecreated",
        "posteddate": "dateposted datepublished datecreated",
        "date": "datepublished startdate uploaddate datecreated",
        "created": "datecreated",
        "createdat": "datecreated",
        "modified": "datemodified",
        "modifiedat": "datemodified",
        "modifieddate": "datemodified",
        "lastmodified": "datemodified",
        "updated": "datemodified",
        "updatedat": "datemodified",
        "updateddate": "datemodified",
        "lastupdated": "datemodified",
        "section": "articlesection",
        "category": "articlesection recipecategory applicationcategory genre",
        "tags": "keywords",
        "tag": "keywords",
        "topics": "keywords about",
        "language": "inlanguage",
        "lang": "inlanguage",
        "price": "lowprice minprice",
        "priceamount": "price lowprice",
        "amount": "price",
        "cost": "price",
        "minprice": "lowprice",
        "lowestprice": "lowprice",
        "maxprice": "highprice",
        "highestprice": "highprice",
        "currency": "pricecurrency",
        "currencycode": "pricecurrency",
        "pricecurrency": "currency",
        "instock": "availability",
        "available": "availability",
        "isavailable": "availability",
        "stock": "availability",
        "stockstatus": "availability",
        "availabilitystatus": "availability",
        "condition": "itemcondition",
        "productid": "sku identifier",
        "id": "identifier productid sku",
        "articlenumber": "sku",
        "itemnumber": "sku mpn",
        "ean": "gtin13 gtin",
        "upc": "gtin12 gtin",
        "gtin": "gtin13 gtin14 gtin12 gtin8",
        "barcode": "gtin gtin13 gtin12",
        "colour": "color",
        "vendor": "seller brand",
        "merchant": "seller",
        "seller": "offeredby",
        "make": "brand manufacturer",
        "brandname": "brand",
        "rating": "ratingvalue aggregaterating reviewrating",
        "ratings": "aggregaterating",
        "stars": "ratingvalue",
        "score": "ratingvalue",
        "averagerating": "ratingvalue",
        "ratingscore": "ratingvalue",
        "ratingaverage": "ratingvalue",
        "avgrating": "ratingvalue",
        "maxrating": "bestrating",
        "ratingscale": "bestrating",
        "reviewscount": "reviewcount ratingcount",
        "reviewcount": "ratingcount",
        "ratingscount": "ratingcount reviewcount",
        "ratingcount": "reviewcount",
        "votes": "ratingcount upvotecount",
        "commentscount": "commentcount",
        "likes": "upvotecount",
        "upvotes": "upvotecount",
        "ingredients": "recipeingredient",
        "ingredient": "recipeingredient",
        "instructions": "recipeinstructions",
        "steps": "recipeinstructions step",
        "directions": "recipeinstructions",
        "method": "recipeinstructions",
        "servings": "recipeyield",
        "serves": "recipeyield",
        "yield": "recipeyield",
        "portions": "recipeyield",
        "cuisine": "recipecuisine",
        "cookingtime": "cooktime",
        "preparationtime": "preptime",
        "time": "totaltime",
        "course": "recipecategory",
        "start": "startdate",
        "starts": "startdate",
        "startsat": "startdate",
        "starttime": "startdate",
        "end": "enddate",
        "ends": "enddate",
        "endsat": "enddate",
        "endtime": "enddate",
        "venue": "location",
        "place": "location",
        "where": "location",
        "when": "startdate",
        "organiser": "organizer",
        "host": "organizer",
        "artist": "performer byartist",
        "phone": "telephone",
        "phonenumber": "telephone",
        "tel": "telephone",
        "fax": "faxnumber",
        "mail": "email",
        "emailaddress": "email",
        "street": "streetaddress",
        "city": "addresslocality",
        "town": "addresslocality",
        "locality": "addresslocality",
        "state": "addressregion",
        "region": "addressregion",
        "province": "addressregion",
        "zip": "postalcode",
        "zipcode": "postalcode",
        "postcode": "postalcode",
        "country": "addresscountry",
        "lat": "latitude",
        "lng": "longitude",
        "lon": "longitude",
        "openinghours": "openinghoursspecification",
        "hours": "openinghours",
        "company": "hiringorganization",
        "employer": "hiringorganization",
        "salary": "basesalary",
        "pay": "basesalary",
        "salaryrange": "basesalary",
        "minsalary": "minvalue",
        "maxsalary": "maxvalue",
        "salaryfrom": "minvalue",
        "salaryto": "maxvalue",
        "pages": "numberofpages",
        "length": "duration",
        "runtime": "duration",
        "sitename": "sitename publisher",
        "source": "publisher",
        "job": "jobtitle",
        "position": "jobtitle",
        "question": "name text",
        "answer": "acceptedanswer suggestedanswer",
        "relatedproducts": "isrelatedto issimilarto",
        "similarproducts": "issimilarto isrelatedto",
        "related": "isrelatedto issimilarto",
        "similar": "issimilarto isrelatedto",
        "rank": "position",
        "ranking": "position",
        "day": "dayofweek",
        "days": "dayofweek",
        "os": "operatingsystem",
        "version": "softwareversion",
        "bio": "description",
        "links": "sameas",
        "profiles": "sameas",
    }.items()
}
"""Further names under which a field may stand, best first."""

SYNONYMS_BY_TYPE: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "rating": {
        "value": ("ratingvalue",),
        "average": ("ratingvalue",),
        "count": ("ratingcount", "reviewcount"),
        "reviews": ("reviewcount", "ratingcount"),
        "best": ("bestrating",),
        "max": ("bestrating",),
        "scale": ("bestrating",),
        "worst": ("worstrating",),
        "min": ("worstrating",),
    },
    "offer": {
        "amount": ("price", "lowprice"),
        "value": ("price", "lowprice"),
        "min": ("lowprice",),
        "max": ("highprice",),
    },
    "quantitativevalue": {
        "unit": ("unittext", "unitcode"),
        "amount": ("value",),
        "min": ("minvalue",),
        "max": ("maxvalue",),
    },
    "monetaryamount": {
        "amount": ("value",),
        "min": ("minvalue",),
        "max": ("maxvalue",),
        "unit": ("unittext",),
    },
    "comment": {"text": ("text",)},
    "answer": {"answer": ("text",), "text": ("text",)},
    "howtostep": {"text": ("text", "name")},
    "listitem": {"url": ("item",)},
    "imageobject": {"url": ("contenturl",), "src": ("url", "contenturl"), "alt": ("caption",)},
}
"""Names that mean something only inside a node whose type ends so."""

TYPES_BY_KIND: Final[dict[str, tuple[str, ...]]] = {
    "product": ("product", "productgroup", "productmodel", "vehicle", "car"),
    "item": ("product", "productgroup", "listitem"),
    "article": ("article", "posting", "report"),
    "post": ("posting", "article"),
    "blogpost": ("posting", "article"),
    "story": ("article",),
    "thread": ("discussionforumposting",),
    "recipe": ("recipe",),
    "event": ("event", "festival", "courseinstance"),
    "job": ("jobposting",),
    "vacancy": ("jobposting",),
    "book": ("book",),
    "movie": ("movie",),
    "film": ("movie",),
    "video": ("videoobject",),
    "course": ("course",),
    "app": ("application",),
    "software": ("application",),
    "question": ("question",),
    "faq": ("question",),
    "review": ("review",),
    "comment": ("comment",),
    "answer": ("answer",),
    "offer": ("offer",),
    "service": ("service",),
    "person": ("person",),
    "place": ("place",),
    "business": ("business", "organization", "restaurant", "store", "hotel"),
    "company": ("organization", "corporation", "business"),
    "organization": ("organization", "corporation", "business"),
    "organisation": ("organization", "corporation", "business"),
    "restaurant": ("restaurant",),
    "hotel": ("hotel",),
    "store": ("store",),
    "shop": ("store",),
    "website": ("website",),
    "site": ("website",),
    "page": ("page",),
    "webpage": ("page",),
    "breadcrumb": ("breadcrumblist",),
}
"""Words for kinds of things, with the endings of the types that are meant."""

PAGE_KINDS: Final = _set(
    "product item article post blogpost story thread recipe event job vacancy book movie film"
    " video course app software page webpage"
)
"""Kinds that a page as a whole may be of, so that its meta tags speak of them."""

GENERIC_NAMES: Final = _set(
    "item items result results entry entries record records list listing listings data"
    " details detail info information main object attributes specs specifications"
    " specification general overview metadata meta pricing card cards row rows element elements"
)
"""Names that say nothing about what stands under them."""

LIST_WORDS: Final = _set("list lists listing listings result results entry entries rows table")
"""Words at the end of a list's name that do not say what its items are."""

_OFFER: Final = _set(
    "price lowprice highprice minprice maxprice pricecurrency availability itemcondition"
    " pricevaliduntil offercount pricespecification seller offeredby validfrom"
    " availabilitystarts inventorylevel shippingdetails hasmerchantreturnpolicy sku gtin"
    " gtin13 gtin12 gtin8 mpn eligiblequantity"
)
_ADDRESS: Final = _set(
    "streetaddress addresslocality addressregion postalcode addresscountry"
    " postofficeboxnumber extendedaddress"
)
_GEO: Final = frozenset({"latitude", "longitude"})
_RATING: Final = _set("ratingvalue reviewcount ratingcount bestrating worstrating")
_WHERE: Final = frozenset({"address", "geo"}) | _ADDRESS | _GEO

TRAVERSED_PROPERTIES: Final[dict[str, frozenset[str]]] = {
    "offers": _OFFER,
    "pricespecification": _set("price minprice maxprice pricecurrency"),
    "hasvariant": _set("offers color size material pattern") | _OFFER,
    "aggregaterating": _RATING,
    "reviewrating": _set("ratingvalue bestrating worstrating"),
    "location": _WHERE,
    "joblocation": _WHERE,
    "contentlocation": _WHERE,
    "address": _ADDRESS,
    "geo": _GEO,
    "nutrition": _set(
        "calories carbohydratecontent cholesterolcontent fatcontent fibercontent proteincontent"
        " saturatedfatcontent servingsize sodiumcontent sugarcontent transfatcontent"
        " unsaturatedfatcontent"
    ),
    "basesalary": _set("minvalue maxvalue currency unittext value"),
    "estimatedsalary": _set("minvalue maxvalue currency unittext value"),
    "value": _set("minvalue maxvalue unittext unitcode value"),
    "item": _set("name url image description"),
    "itemoffered": _set("name url image description sku gtin mpn brand category color size"),
}
"""Properties whose node belongs to the thing itself, with what may be read through them."""

MAIN_NODE_PROPERTIES: Final = _set("mainentity itemlistelement item haspart blogpost")
"""Properties that lead from the node of a page to the things that it is about."""

LIST_ELEMENT_PROPERTIES: Final = ("itemlistelement", "datafeedelement")
"""Properties that make a node a list of their values."""

PART_PROPERTIES: Final = _set("hasvariant subevent subevents haspart workexample department")
"""Properties whose values are things of which a thing of the same kind consists."""

INVERSE_PROPERTIES: Final = {
    "isvariantof": "hasVariant",
    "superevent": "subEvent",
    "inalbum": "track",
    "partofseason": "episode",
    "partofseries": "episode",
    "itemreviewed": "review",
}
"""Properties of a part that name the whole, with the property of the whole that lists its parts."""

RELATION_PROPERTIES: Final = _set(
    "isrelatedto issimilarto isaccessoryorsparepartfor isconsumablefor"
)
"""Properties whose values are other things than the page is about."""

ASIDE_PROPERTIES: Final = RELATION_PROPERTIES | _set(
    "breadcrumb isvariantof ispartof partofseries partofseason superevent inalbum itemreviewed"
    " about mentions subjectof mainentityofpage isbasedon citation relatedlink significantlink"
    " potentialaction alumni knows sameas parentorganization parentitem"
)
"""Properties that lead away from a thing: to what resembles it, contains it, or speaks of it."""

RELATION_WORDS: Final = _set(
    "related similar recommended recommendation recommendations suggested suggestion suggestions"
    " alternative alternatives accessory accessories"
)
"""Words in the name of a field that asks for other things than those of the page."""

RELATION_PHRASES: Final = (
    *("related", "similar", "recommend", "suggested", "also like", "also bought", "also viewed"),
    *("ähnlich", "verwandt", "empfohlen", "empfehlung", "auch gefallen", "kauften auch"),
    *("similaire", "recommand", "associés", "aimerez aussi", "relacionad", "recomendad"),
    *("también", "correlat", "simili", "consigliat", "gerelateerd", "vergelijkbar", "aanbevolen"),
    *("podobn", "polecan", "powiązan", "doporuč", "souvisej", "liknande", "relatera", "rekommend"),
    *("lignende", "relatere", "anbefal", "samankalt", "suosit", "benzer", "önerilen", "ilgili"),
    *("похож", "рекоменд", "сопутств", "схож", "рекомендов", "σχετικ", "παρόμοι", "hasonló"),
    *("関連", "おすすめ", "オススメ", "相关", "相關", "推荐", "推薦", "관련", "추천", "مشابه"),
    *("ذات صلة", "קשורים", "דומים", "liên quan", "terkait", "serupa"),
)
"""Parts of the names of lists of other things, in lower case."""

PAGE_TYPES: Final = ("page", "website")
SECONDARY_TYPES: Final = (
    *("website", "organization", "corporation", "breadcrumblist", "navigationelement", "action"),
    *("imageobject", "person", "wpheader", "wpfooter", "wpsidebar", "wpadblock", "listitem"),
    *("brand", "rating", "comment", "review", "counter", "contactpoint", "thing"),
)
"""Endings of types that most pages have, whatever their subject."""

COMMON_PROPERTIES: Final = _set("name url description image logo identifier headline title")
"""Properties that nearly every node has, so they do not indicate its type."""

PAGE_PROPERTIES: Final = COMMON_PROPERTIES | _set(
    "datepublished datemodified datecreated inlanguage author creator publisher keywords"
    " breadcrumb thumbnailurl abstract"
)
"""Properties of a page's node that may describe the subject of the page."""

_METAS: Final = {
    "name": "og:title twitter:title dc.title dcterms.title citation_title parsely-title",
    "description": "og:description description twitter:description dc.description",
    "image": "og:image og:image:url og:image:secure_url twitter:image twitter:image:src",
    "url": "og:url citation_public_url twitter:url",
    "sitename": "og:site_name application-name",
    "inlanguage": "og:locale content-language dc.language citation_language",
    "datepublished": "article:published_time datepublished date dc.date dc.date.issued"
    " dcterms.created citation_publication_date parsely-pub-date pubdate og:published_time"
    " publish-date publication_date",
    "datemodified": "article:modified_time og:updated_time datemodified last-modified"
    " dcterms.modified og:modified_time revised",
    "author": "author article:author dc.creator dcterms.creator citation_author parsely-author"
    " byl book:author",
    "articlesection": "article:section parsely-section",
    "keywords": "keywords article:tag news_keywords parsely-tags book:tag video:tag",
    "price": "product:price:amount og:price:amount product:sale_price:amount",
    "pricecurrency": "product:price:currency og:price:currency",
    "availability": "product:availability og:availability",
    "itemcondition": "product:condition",
    "sku": "product:retailer_item_id",
    "publisher": "dc.publisher citation_publisher",
    "telephone": "og:phone_number business:contact_data:phone_number",
    "email": "business:contact_data:email",
    "streetaddress": "og:street-address business:contact_data:street_address",
    "addresslocality": "business:contact_data:locality",
    "postalcode": "business:contact_data:postal_code",
    "addresscountry": "og:country-name business:contact_data:country_name",
    "latitude": "place:location:latitude",
    "longitude": "place:location:longitude",
    "videourl": "og:video og:video:url",
    "datecreated": "dc.date.created",
}
META_PROPERTIES: Final = {
    meta: (name, rank) for name, metas in _METAS.items() for rank, meta in enumerate(metas.split())
}
"""Names of meta tags, with the schema.org property and its rank."""

PAGE_TITLE_SOURCES: Final = frozenset(
    {"metadata:title", "opengraph:og:title", "opengraph:twitter:title", "meta:dc.title"}
    | {"meta:dcterms.title", "meta:citation_title", "meta:parsely-title"}
)
"""The sources of values that are the title of a page, and the name of its subject at best."""

READ_FROM_PRODUCTS: Final = _set("pricecurrency currency availability sku gtin mpn brand")
"""Properties of products whose labels in texts `visible` reads, in many languages."""

METADATA_PROPERTIES: Final = {
    "title": ("name", "headline", "title"),
    "description": ("description",),
    "author": ("author",),
    "published": ("datepublished",),
    "language": ("inlanguage",),
    "canonical": ("url",),
    "site_name": ("sitename",),
}
"""Fields of the page's metadata, with the equivalent schema.org property."""
