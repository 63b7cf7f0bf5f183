"""Words of product pages in the languages of the web: buttons, labels, states.

A pattern matches its phrases as whole words, in text that `fold` returned. Languages without
spaces between words are matched anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Final


@lru_cache(maxsize=1 << 12)
def fold(text: str) -> str:
    """Return a text in lower case with typographic apostrophes and white space simplified."""
    return " ".join(text.casefold().replace("\u2019", "'").split())


class PhrasePattern:
    """A pattern for phrases separated by `|` or line breaks, longest first.

    It is compiled at its first use: many processes read no product page, and all patterns take a
    fifth of the processor time with which a page worker starts.
    """

    def __init__(self, phrases: str) -> None:
        self._phrases = phrases

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """The folded phrases, longest first."""
        parts = set(_folded_parts(self._phrases)) - {""}
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


def phrase_set(phrases: str) -> frozenset[str]:
    """Return the phrases separated by `|` or line breaks, without punctuation at their ends."""
    return frozenset(part.strip(" .:#*-") for part in _folded_parts(phrases)) - {""}


def _folded_parts(phrases: str) -> Iterator[str]:
    return (fold(part) for line in phrases.splitlines() for part in line.split("|"))


def _bounded(phrase: str) -> str:
    escaped = re.escape(phrase)
    if UNSPACED.search(phrase):
        return escaped
    return rf"(?<!\w){escaped}(?!\w)"


_WORD: Final = re.compile(r"\w+")
# Chinese, Japanese, Korean and Thai.
UNSPACED: Final = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

BUY: Final = PhrasePattern(
    """add to cart|add to bag|add to basket|add to trolley|add to your basket
    add to your cart|add to your bag|add to shopping cart|add to shopping bag
    add item to cart|buy now|buy it now|order now|pre-order|preorder|pre-order now|place bid
    bid now|buy tickets|get tickets|checkout now|in den warenkorb|in den einkaufswagen
    zum warenkorb hinzufügen|jetzt kaufen|sofort-kaufen|jetzt bestellen|in den korb
    in die einkaufstasche|vorbestellen|jetzt bieten|warenkorb legen|ajouter au panier
    ajouter à mon panier|acheter maintenant|acheter|précommander|j'achète|mettre au panier
    ajouter au sac|commander|añadir al carrito|añadir a la cesta|añadir a la bolsa
    agregar al carrito|agregar al carro|agregar a la bolsa|añadir al carro|comprar ahora
    comprar|cómpralo ahora|lo quiero|adicionar ao carrinho|adicionar à sacola
    adicionar ao cesto|comprar agora|colocar no carrinho|afegir al carret
    afegir a la cistella|engadir ao carro|aggiungi al carrello|aggiungi alla borsa
    aggiungi alla shopping bag|acquista ora|acquista|compralo subito|metti nel carrello
    ordina ora|in winkelwagen|in winkelmand|in mijn winkelwagen|toevoegen aan winkelwagen
    nu kopen|koop nu|bestel nu|bestellen|in mandje|voeg toe aan winkelwagen|lägg i varukorg
    lägg i varukorgen|lägg till i varukorg|köp nu|köp|lägg i kundvagn|lägg i kundvagnen
    læg i kurv|læg i kurven|tilføj til kurv|køb nu|køb|læg i indkøbskurv|legg i handlekurv
    legg i handlekurven|kjøp nå|kjøp|legg i handlevogn|legg i kurv|lisää ostoskoriin
    lisää koriin|osta nyt|osta|lisää ostoskärryyn|setja í körfu|bæta í körfu|lisa ostukorvi
    lisa korvi|osta kohe|ielikt grozā|pievienot grozam|pirkt|likt grozā|į krepšelį
    įdėti į krepšelį|pirkti|do koszyka|dodaj do koszyka|kup teraz|kup|zamów|do košíku
    přidat do košíku|vložit do košíku|koupit|koupit nyní|objednat|do košíka|pridať do košíka
    vložiť do košíka|kúpiť|kúpiť teraz|kosárba|kosárba teszem|kosárba rakom|megveszem
    megvásárolom|megrendelem|vásárlás most|adaugă în coș|adaugă în coş|adauga in cos
    cumpără acum|cumpără|comandă|добави в количката|добави в кошницата|купи|купи сега
    купи онлайн|в корзину|добавить в корзину|купить|купить сейчас|заказать|положить в корзину
    оформить заказ|в кошик|додати в кошик|додати до кошика|купити|замовити|у кошик|у корзину
    себетке|себетке қосу|сатып алу|dodaj u košaricu|dodaj u korpu|u košaricu|kupi|kupi odmah
    v košarico|dodaj v košarico|додај у корпу|купи одмах|προσθήκη στο καλάθι|αγορά|στο καλάθι
    αγόρασε τώρα|sepete ekle|hemen al|satın al|şimdi al|הוסף לסל|הוספה לסל|הוסף לעגלה
    קנה עכשיו|לרכישה|הוסיפו לסל|קנו עכשיו|הוספה לעגלה|أضف إلى السلة|أضف إلى العربة
    أضف لسلة التسوق|اشتري الآن|إضافة إلى السلة|اشتر الآن|افزودن به سبد خرید|خرید|加入購物車
    加入购物车|立即購買|立即购买|放入購物車|直接購買|马上抢|立即下單|カートに入れる
    カートに追加|買い物かごに入れる|今すぐ買う|購入する|ご購入|カゴに入れる|購入手続きへ
    장바구니|구매하기|바로구매|장바구니 담기|바로 구매|구매|thêm vào giỏ|thêm vào giỏ hàng
    mua ngay|cho vào giỏ|mua hàng|tambah ke keranjang|masukkan keranjang|beli sekarang
    tambahkan ke keranjang|tambah ke troli|หยิบใส่ตะกร้า|เพิ่มลงตะกร้า|ซื้อเลย|ใส่ตะกร้า
    ซื้อสินค้า|कार्ट में डालें|अभी खरीदें"""
)
"""Labels of buttons that put the product into the cart or buy it."""

NOTIFY: Final = PhrasePattern(
    """notify me|email me when available|email me when back in stock|notify me when available
    tell me when back in stock|let me know when available|back in stock alert
    join the waitlist|join waitlist|join waiting list|stock alert|alert me
    remind me when available|benachrichtigen|benachrichtigen sie mich|benachrichtige mich
    bei verfügbarkeit informieren|prévenez-moi|me prévenir|m'avertir|être alerté|alerte stock
    être prévenu|alertez-moi|avísame|avisarme|notificarme|avísame cuando esté disponible
    avise-me|avisar-me|notifique-me|avvisami|avvisami quando disponibile|notificami|mail mij
    houd mij op de hoogte|meld mij wanneer op voorraad|bevaka|bevaka produkt|meddela mig
    få besked|giv mig besked|varsle meg|gi meg beskjed|ilmoita kun saatavilla|teavita mind
    powiadom o dostępności|powiadom mnie|hlídat dostupnost|hlídací pes|strážiť dostupnosť
    upozorniť na dostupnosť|értesítést kérek|értesítsen|anunță-mă|anunta-ma când revine
    сообщить о поступлении|уведомить о поступлении|сообщить о наличии|узнать о поступлении
    повідомити про наявність|повідомити про надходження|уведоми ме|obavijesti me|obavesti me
    ειδοποίησέ με|gelince haber ver|haber ver|עדכנו אותי|הודיעו לי|أعلمني|貨到通知|到貨通知
    到货通知|入荷お知らせ|再入荷通知|재입고 알림|báo khi có hàng|beritahu saya
    แจ้งเตือนเมื่อมีสินค้า"""
)
"""Labels of buttons that offer a message when the product is back."""

OUT_OF_STOCK: Final = PhrasePattern(
    """out of stock|sold out|currently unavailable|temporarily unavailable
    no longer available|not available|unavailable|out-of-stock|temporarily out of stock
    item not available|not in stock|this item has sold|no longer for sale|discontinued
    has been sold|bidding has ended|this listing has ended|item sold|sale ended
    we are out of stock|ausverkauft|nicht auf lager|nicht verfügbar|derzeit nicht verfügbar
    nicht lieferbar|vergriffen|zur zeit nicht lieferbar|momentan nicht verfügbar
    nicht mehr verfügbar|nicht vorrätig|nicht mehr lieferbar|leider ausverkauft
    bereits verkauft|en rupture de stock|rupture de stock|épuisé|actuellement indisponible
    indisponible|non disponible|plus disponible|n'est plus disponible|stock épuisé
    victime de son succès|hors stock|produit indisponible|en rupture|agotado|sin stock
    no disponible|sin existencias|fuera de stock|no hay stock|producto agotado
    actualmente no disponible|exhaurit|esgotado|indisponível|fora de estoque|sem estoque
    produto indisponível|sem stock|não disponível|esaurito|non disponibile
    attualmente non disponibile|terminato|prodotto esaurito|non in stock|uitverkocht
    niet op voorraad|niet leverbaar|niet beschikbaar|tijdelijk uitverkocht|slutsåld
    slut i lager|ej i lager|tillfälligt slut|finns ej i lager|slut på lager|ikke på lager
    udsolgt|utsolgt|midlertidigt udsolgt|ikke tilgængelig|loppu varastosta|ei varastossa
    loppuunmyyty|tilapäisesti loppu|ei saatavilla|uppselt|ekki til|läbi müüdud|otsas
    laost otsas|pole saadaval|izpārdots|nav pieejams|nav noliktavā|išparduota|nėra sandėlyje
    neturime|prekės nėra|wyprzedany|wyprzedane|brak w magazynie|niedostępny
    produkt niedostępny|chwilowo niedostępny|towar niedostępny|brak towaru|vyprodáno
    není skladem|nedostupné|momentálně nedostupné|dočasně vyprodáno|nelze objednat|vypredané
    nie je na sklade|nedostupný|momentálne nedostupné|nie je skladom|vypredaný
    momentálne nie je možné produkt kúpiť|není k dispozici|nie je dostupný|elfogyott
    nincs készleten|nem elérhető|nincs raktáron|jelenleg nem rendelhető|nem rendelhető
    stoc epuizat|indisponibil|nu este în stoc|epuizat|lipsă stoc|nu mai este disponibil
    изчерпан|няма наличност|не е наличен|изчерпано количество|не е в наличност|продадено
    нет в наличии|нет на складе|распродано|товар закончился|снят с производства
    временно отсутствует|нет в продаже|товар распродан|закончился|недоступен
    немає в наявності|немає на складі|закінчився|розпродано|rasprodano|nije dostupno
    nema na zalihi|nije na stanju|nema na stanju|ni na zalogi|razprodano|распродато
    нема на стању|εξαντλήθηκε|εξαντλημένο|μη διαθέσιμο|δεν είναι διαθέσιμο|tükendi|stokta yok
    mevcut değil|stokta bulunmuyor|geçici olarak temin edilemiyor|אזל מהמלאי|אינו במלאי
    לא במלאי|אזל|לא זמין|המלאי אזל|אינו זמין|غير متوفر|نفدت الكمية|نفد المخزون|غير متاح
    نفذت الكمية|ناموجود|缺貨|缺货|售完|已售完|售罄|已售罄|無現貨|暫無庫存|暂时缺货|補貨中
    已下架|銷售一空|完售|在庫切れ|品切れ|売り切れ|売切れ|在庫なし|販売終了|入荷待ち|完売
    在庫がありません|품절|일시품절|재고 없음|재고없음|판매종료|판매 종료|매진|hết hàng
    tạm hết hàng|ngừng kinh doanh|stok habis|habis terjual|tidak tersedia|สินค้าหมด
    ไม่มีสินค้า|หมดสต็อก|स्टॉक में नहीं है"""
)
"""States of a product that cannot be bought."""

IN_STOCK: Final = PhrasePattern(
    """in stock|instock|available now|ready to ship|left in stock|available to order
    available online|auf lager|sofort lieferbar|sofort verfügbar|lieferbar|vorrätig
    versandfertig|verfügbar|lagernd|en stock|disponible immédiatement|disponible
    disponible en ligne|stock disponible|hay stock|en existencia|disponibilidad inmediata
    en existencias|em stock|em estoque|disponível|pronta entrega|disponibile
    disponibilità immediata|disponibilità: solo|disponibilità|in magazzino|pronta consegna
    op voorraad|uit voorraad leverbaar|direct leverbaar|i lager|finns i lager|på lager
    skickas idag|varastossa|heti saatavilla|saatavilla|á lager|til á lager|laos olemas|laos
    kohe saadaval|saadaval|noliktavā|pieejams|yra sandėlyje|turime|w magazynie|na stanie
    dostępny|wysyłka w 24h|skladem|na skladě|ihned k odeslání|skladom|na sklade
    ihneď k odberu|dostupné|raktáron|készleten|azonnal szállítható|în stoc|in stoc|disponibil
    stoc suficient|в наличност|наличен|в наличии|есть в наличии|есть на складе|в наявності
    є в наявності|на складе|много на складе|на складі|na zalihi|na stanju|dostupno|na zalogi
    на стању|άμεσα διαθέσιμο|διαθέσιμο|σε απόθεμα|stokta|stokta var|mevcut|במלאי|זמין במלאי
    קיים במלאי|متوفر|متاح|موجود|有貨|有货|現貨|现货|有庫存|庫存充足|在庫あり|在庫有り
    재고 있음|구매가능|còn hàng|tersedia|stok tersedia|มีสินค้า|สินค้าพร้อมส่ง|स्टॉक में है"""
)
"""States of a product that can be bought."""

RELATED: Final = PhrasePattern(
    """related products|related items|similar products|similar items|you may also like
    you might also like|you may also be interested|customers also bought
    customers also viewed|customers who bought|customers who viewed
    frequently bought together|people also bought|recommended for you|recommended products
    recently viewed|more like this|complete the look|goes well with|pairs well with
    shop the look|bought together|also viewed|more from this seller|sponsored products
    you'll also love|more to explore|best sellers|people who viewed|inspired by your
    compare with similar|other customers|you may like|complete your|ähnliche produkte
    ähnliche artikel|ähnliche|das könnte|dazu passt|passend dazu|kunden kauften auch
    kunden, die|zuletzt angesehen|wird oft zusammen gekauft|weitere artikel|empfehlungen
    auch interessant|unsere empfehlung|andere kunden|passende artikel|zubehör
    produits similaires|vous aimerez aussi|vous aimerez peut-être|les clients ayant
    articles similaires|produits associés|souvent achetés ensemble
    produits fréquemment achetés|vus récemment|nos suggestions|dans la même catégorie
    vous pourriez aussi|complétez votre|productos relacionados|productos similares
    también te puede|te puede interesar|los clientes que|comprados juntos
    vistos recientemente|también te gustará|quienes vieron|produtos relacionados
    produtos semelhantes|quem viu|quem comprou|você também pode|compre junto|talvez goste
    vistos recentemente|poderá gostar|aproveite e leve|prodotti correlati|prodotti simili
    potrebbe interessarti|potrebbero interessarti|i clienti che|spesso comprati insieme
    visti di recente|ti potrebbe|potrebbe piacerti|abbinati|gerelateerde producten
    vergelijkbare producten|anderen bekeken ook|klanten kochten ook|misschien vind je
    laatst bekeken|relaterade produkter|liknande produkter|andra köpte också|du kanske också
    relaterede produkter|lignende produkter|andre købte også|relaterte produkter|andre kjøpte
    samankaltaisia|muut katsoivat|liittyvät tuotteet|aiheeseen liittyvät|seotud tooted
    sarnased tooted|vaata ka|saistītie produkti|līdzīgas preces|susijusios prekės
    panašios prekės|produkty powiązane|podobne produkty|inni kupili|klienci kupili|polecane
    související produkty|podobné produkty|ostatní zákazníci|mohlo by vás|doporučujeme
    súvisiace produkty|mohlo by sa|odporúčame|zákazníci tiež|ostatní kupujú
    kapcsolódó termékek|hasonló termékek|mások ezt is|ajánlott termékek|produse similare
    produse asemănătoare|alți clienți|s-ar putea să|clienții au cumpărat|подобни продукти
    свързани продукти|похожие товары|с этим товаром|рекомендуем|вы смотрели|покупают вместе
    сопутствующие товары|аналоги|вам может понравиться|похожие|схожі товари|разом з цим
    рекомендовані|супутні товари|ви переглядали|slični proizvodi|povezani proizvodi
    podobni izdelki|слични производи|σχετικά προϊόντα|παρόμοια προϊόντα|benzer ürünler
    ilgili ürünler|bunlar da|מוצרים דומים|מוצרים נוספים|אולי יעניין|منتجات مشابهة
    منتجات ذات صلة|قد يعجبك|相關商品|相关商品|猜你喜歡|你可能也喜歡|看了又看|推薦商品|推荐
    買了又買|瀏覽此商品|其他人也看|関連商品|おすすめ商品|この商品を見た|一緒に購入
    最近チェックした|こちらもおすすめ|관련 상품|추천 상품|함께 본|최근 본|다른 고객이
    비슷한 상품|sản phẩm liên quan|sản phẩm tương tự|produk terkait|produk serupa
    สินค้าที่เกี่ยวข้อง|สินค้าแนะนำ"""
)
"""Headings of sections about other products."""

OLD_PRICE: Final = PhrasePattern(
    """was|rrp|msrp|srp|list price|original price|regular price|old price|retail price
    compare at|previous price|before|instead of|typical price|recommended retail price
    you save|save|saving|usual price|reg.|orig.|lowest price in|30 days|lowest recent price
    up to|valued at|value|statt|uvp|unverb|bisher|alter preis|vorher|ursprünglich|listenpreis
    sie sparen|ersparnis|früher|streichpreis|niedrigster preis|bester preis|sparen sie
    prix conseillé|ancien prix|au lieu de|prix barré|économisez|prix d'origine|prix public
    avant|vous économisez|soit une économie|precio anterior|antes|precio original
    precio recomendado|pvpr|ahorras|ahorra|precio normal|precio de lista|precio habitual|de:
    preço antigo|preço original|economize|preço normal|pvp rec|você economiza
    prezzo consigliato|prezzo originale|prezzo precedente|anziché|risparmi|invece di
    prezzo di listino|adviesprijs|van voor|oude prijs|was prijs|je bespaart|ord. pris
    ordinarie pris|tidigare pris|rek. pris|spara|du sparar|før|førpris|normalpris|veil. pris
    spar|norm.|ovh|aiemmin|normaalihinta|säästät|tavahind|vana hind|säästad|vecā cena|ietaupi
    sena kaina|sutaupote|cena regularna|poprzednia cena|najniższa cena|oszczędzasz|stara cena
    cena katalogowa|běžná cena|původní cena|ušetříte|sleva|pôvodná cena|bežná cena|ušetríte
    zľava|eredeti ár|régi ár|megtakarítás|fogyasztói ár|preț vechi|preţ vechi|prp
    pret recomandat|economisești|стара цена|редовна цена|спестявате|старая цена
    цена без скидки|экономия|вместо|скидка|выгода|стара ціна|знижка|економія|redovna cijena
    stara cijena|ušteda|prihranek|αρχική τιμή|από|κέρδος|eski fiyat|piyasa fiyatı|indirim
    מחיר קודם|במקום|מחיר מחירון|חסכון|السعر قبل|بدلا من|وفر|原價|原价|建議售價|市價|市场价
    定價|參考價|希望小売価格|定価|通常価格|参考価格|정가|소비자가|할인전|원가|giá gốc|giá cũ
    tiết kiệm|harga normal|harga asli|ราคาปกติ|ประหยัด"""
)
"""Labels of prices that are no longer asked, and of savings."""

OTHER_AMOUNT: Final = PhrasePattern(
    """shipping|delivery|postage|p&p|free shipping|import fees|per month|a month|/month
    monthly|/mo|mo.|installments|instalments|interest-free|interest free|payments of|per week
    deposit|financing|off|discount|coupon|voucher|gift card|cashback|points|credit
    orders over|spend|minimum|free over|warranty|protection plan|insurance|trade-in|total
    subtotal|per unit|per item|unit price|excl.|ex vat|used from|new from|from other sellers
    each when|service charge|fee|fees|apr|klarna|paypal|afterpay|clearpay|affirm|zip|estimate
    est.|reserve|versand|versandkosten|lieferung|monatlich|pro monat|mtl.|/monat|rate|raten
    finanzierung|grundpreis|rabatt|gutschein|ab einem|ab einer|zzgl.|porto|punkte|bestellwert
    mindestbestellwert|gebraucht ab|livraison|frais de port|par mois|/mois|mensualité
    mensualités|remise|réduction|bon d'achat|dès|à partir de|code promo|éco-participation
    ecopart|dont|points fidélité|occasion|envío|gastos de envío|al mes|mensuales|cuotas|cuota
    interés|descuento|meses|cupón|puntos|desde|frete|envio|entrega|ao mês|por mês|parcelas
    sem juros|de juros|desconto|cupom|portes|x de|no pix|à vista|em até|spedizione
    spese di spedizione|al mese|rate da|sconto|buono|consegna|usato|tasso zero|verzending
    verzendkosten|bezorging|per maand|korting|p/m|punten|frakt|leverans|per månad|kr/mån
    fragt|levering|pr. md|pr. måned|per måned|rabat|delbetaling|toimitus|kuukaudessa|/kk
    alennus|kuus|järelmaks|kuumakse|tarne|mēnesī|mēn.|piegāde|per mėn|mėn.|pristatymas
    līzings|nomaksa|dostawa|wysyłka|miesięcznie|rata|raty|rabatu|doprava|měsíčně|splátka
    splátky|poštovné|slevy|mesačne|splátku|dodanie|bez dph|späť na|szállítás|havi|részlet
    kedvezmény|részletre|livrare|transport|pe lună|lei/lună|reducere|доставка|месечно
    на месец|вноска|лизинг|отстъпка|в месяц|/мес|мес.|рассрочка|кредит|платеж|бонус|бонусов
    баллов|доставку|на місяць|розстрочка|dostava|mjesečno|mesečno|popust|μεταφορικά|δόσεις
    μήνα|έκπτωση|kargo|taksit|ay|aylık|משלוח|דמי משלוח|תשלומים|לחודש|הנחה|شحن|توصيل|شهريا|قسط
    خصم|運費|分期|每期|免運|折扣|優惠券|滿額|满额|满减|点|運送|紅利|送料|ポイント|月々|分割
    円相当|割引|クーポン|배송비|개월|할인|적립|쿠폰|월|무이자|phí vận chuyển|trả góp|/tháng
    giảm|ongkir|cicilan|diskon|ค่าจัดส่ง|ผ่อน|ส่วนลด"""
)
"""Words beside amounts that are not the price: shipping, instalments, discounts, thresholds."""

SKU_LABELS: Final = phrase_set(
    """sku|sku #|sku no|sku number|item number|item no|item no.|item #|item#|item code
    item id|asin|product code|product number|product no|product no.|product id|product ref
    product reference|article number|article no|article no.|article code|article|art. no
    art. no.|art no|art.no|part no|catalog number|catalogue number|cat. no|cat. no.|cat no
    catalogue no|stock number|stock code|stock no|style number|style no|style #|style code
    style|ref|ref.|reference|reference number|order code|order number|ad id|listing id
    post id|ad number|ad no|lot number|web id|web code|product sku|dpci|artikelnummer
    artikel-nr|artikel-nr.|artikelnr|artikelnr.|art.-nr|art.-nr.|art. nr|art. nr.|art-nr
    artikel nr|artikel nr.|bestellnummer|bestell-nr|bestell-nr.|best.-nr.|produktnummer
    produkt-id|produktcode|anzeige|anzeigennummer|anzeigen-id|anzeigen-nr.|artikelcode
    varenummer|varenr|varenr.|artikkelnumero|tuotenumero|tuotekoodi|vörunúmer|produktnr
    produktnr.|artnr|art.nr|art.nr.|référence|réf|réf.|référence produit|référence article
    code article|code produit|réf. produit|n° d'article|numéro d'article|id produit
    numéro de l'objet|referencia|código|código de producto|código del producto|cód.|cod.
    ref. producto|nº de artículo|número de artículo|código de artículo|sku ref
    código de referencia|referência|ref. do produto|código do produto|cód. do produto
    cód. produto|cód|referência do produto|id produto|código do artigo|número do item|codice
    codice prodotto|codice articolo|cod. articolo|cod. prodotto|riferimento|codice art.
    numero oggetto|numero articolo|id prodotto|bestelcode|productcode|productnummer
    bestelnummer|tootekood|toote kood|kood|artikli kood|artikkel|preces kods|kods|artikuls
    prekės kodas|kodas|artikulas|produkta kods|preces numurs|kod produktu|numer produktu
    indeks|symbol|kod towaru|nr artykułu|numer katalogowy|nr katalogowy|id oferty
    kód produktu|kód zboží|kód|katalogové číslo|číslo produktu|obj. kód|objednací kód
    kód tovaru|číslo tovaru|cikkszám|termékkód|rendelési kód|cikkszam|cod produs|cod articol
    cod intern|cod|cod:|каталожен номер|код на продукт|код|артикулен номер|продуктов код
    артикул|код товара|код продукта|арт.|номер товара|код товару|id товара|артикул товара
    šifra|šifra proizvoda|šifra artikla|kataloški broj|шифра|κωδικός|κωδικός προϊόντος|κωδ.
    κωδ|ürün kodu|stok kodu|ürün no|ürün numarası|barkod no|מק"ט|מקט|קוד מוצר|מק״ט
    מספר קטלוגי|מספר פריט|رقم المنتج|رمز المنتج|كود المنتج|رقم الموديل|کد محصول|کد کالا
    商品編號|商品编号|商品代碼|商品代码|商品货号|貨號|货号|品號|商品コード|商品番号|品番
    商品id|管理番号|注文コード|상품코드|상품번호|상품 번호|제품코드|제품번호|품번|mã sản phẩm
    mã sp|mã hàng|kode produk|kode barang|รหัสสินค้า|เลขที่สินค้า"""
)
"""Labels of a shop's code of the product."""

GTIN_LABELS: Final = phrase_set(
    """ean|ean code|ean-code|ean13|ean-13|upc|gtin|gtin13|gtin-13|barcode|bar code|isbn
    isbn-13|isbn13|ean/gtin|upc code|ean-nummer|código de barras|codice ean|code-barres
    code barre|gencod|code ean|kod ean|čiarový kód|čárový kód|ean kód|vonalkód|cod de bare
    штрихкод|штрих-код|баркод|barkod|ברקוד|條碼|条码|国際標準バーコード|janコード|jan|바코드
    mã vạch"""
)
"""Labels of the code below a barcode."""

MPN_LABELS: Final = phrase_set(
    """mpn|model number|model no|model no.|model #|model code|item model number
    manufacturer part number|part number|mfr part number|mfr. part no.|manufacturer reference
    manufacturer number|part #|mfg part #|manufacturer code|manufacturer's part number|model
    modellnummer|modell-nr.|herstellernummer|hersteller-nr.|hersteller-artikelnummer
    herstellerartikelnummer|modell|modellbezeichnung|numéro du modèle de l'article
    référence fabricant|référence constructeur|modèle|numéro de modèle|número de modelo
    modelo|número de pieza|referencia del fabricante|número do modelo|ref. fabricante
    referência do fabricante|numero modello articolo|numero modello|modello|codice produttore
    codice modello|modelnummer|fabrikantcode|modellnr|tillverkarens artikelnr
    leverandørens varenummer|mudel|tootja kood|modelis|ražotāja kods|gamintojo kodas
    kod producenta|model produktu|part no výrobce|kód výrobce|kód výrobcu|gyártói cikkszám
    modellszám|cod producător|cod producator|модель|код производителя|артикул производителя
    партномер|model kodu|דגם|型號|型号|型番|メーカー型番|모델명|모델번호|規格番号"""
)
"""Labels of the manufacturer's code of the product."""

BRAND_LABELS: Final = phrase_set(
    """brand|brand name|manufacturer|make|by brand|vendor|marke|hersteller|markenname|marque
    fabricant|marca|fabricante|produttore|brand:|merk|fabrikant|märke|varumärke|tillverkare
    mærke|producent|merke|produsent|merkki|valmistaja|bränd|tootja|kaubamärk|zīmols|ražotājs
    prekės ženklas|gamintojas|marka|značka|výrobce|výrobca|márka|gyártó|producător|марка
    производител|бренд|производитель|торговая марка|виробник|proizvođač|robna marka|brend
    znamka|proizvajalec|μάρκα|κατασκευαστής|מותג|יצרן|ماركة|العلامة التجارية|الماركة|برند
    品牌|廠牌|ブランド|メーカー|브랜드|제조사|thương hiệu|merek|แบรนด์|ยี่ห้อ"""
)
"""Labels of the brand or manufacturer."""

AVAILABILITY_LABELS: Final = phrase_set(
    """availability|stock|stock status|verfügbarkeit|lieferstatus|disponibilité
    disponibilidad|disponibilidade|disponibilità|beschikbaarheid|tillgänglighet|lagerstatus
    tilgængelighed|saatavuus|saadavus|pieejamība|prieinamumas|dostępność|dostupnost
    dostupnosť|elérhetőség|disponibilitate|наличност|наличие|наявність|διαθεσιμότητα
    stok durumu|זמינות|التوفر|庫存|库存|在庫|재고|tình trạng|ketersediaan|สถานะสินค้า"""
)
"""Labels of the availability."""
