"""The names of the months in the languages of the web."""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from typing import Final

MAX_NAME_LENGTH: Final = 20

_MIN_ABBREVIATION: Final = 3
# From the Unicode CLDR: by language the twelve months, with other forms of a name after a slash.
# Abbreviations are listed unless they are the beginning of a name.
# fmt: off
_NAMES: Final = {
    "en": "january february march april may june july august september october november december",
    "de": (
        "januar/jänner februar/feber märz/mrz april mai juni juli august september oktober "
        "november dezember"
    ),
    "fr": (
        "janvier février mars avril mai juin juillet/jul août septembre octobre novembre décembre"
    ),
    "es": (
        "enero febrero marzo abril mayo junio julio agosto septiembre/setiembre octubre noviembre "
        "diciembre"
    ),
    "it": (
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre "
        "dicembre"
    ),
    "pt": (
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro"
    ),
    "nl": (
        "januari februari maart/mrt april mei juni juli augustus september oktober november "
        "december"
    ),
    "pl": (
        "stycznia/styczeń lutego/luty marca/marzec kwietnia/kwiecień maja/maj czerwca/czerwiec "
        "lipca/lipiec sierpnia/sierpień września/wrzesień października/październik "
        "listopada/listopad grudnia/grudzień"
    ),
    "tr": "ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık",
    "ru": (
        "января/январь февраля/февраль марта/март апреля/апрель мая/май июня/июнь июля/июль "
        "августа/август сентября/сентябрь октября/октябрь ноября/ноябрь декабря/декабрь"
    ),
    "sv": "januari februari mars april maj juni juli augusti september oktober november december",
    "da": "januar februar marts april maj juni juli august september oktober november december",
    "nb": "januar februar mars april mai juni juli august september oktober november desember",
    "fi": (
        "tammikuuta helmikuuta maaliskuuta huhtikuuta toukokuuta kesäkuuta heinäkuuta elokuuta "
        "syyskuuta lokakuuta marraskuuta joulukuuta"
    ),
    "is": "janúar febrúar mars apríl maí júní júlí ágúst september október nóvember desember",
    "cs": (
        "ledna/leden února/únor března/březen dubna/duben května/květen června/čvn/červen "
        "července/čvc/červenec srpna/srpen září října/říjen listopadu prosince/prosinec"
    ),
    "sk": (
        "januára/január februára/február marca/marec apríla/apríl mája/máj júna/jún júla/júl "
        "augusta/august septembra/september októbra/október novembra/november decembra/december"
    ),
    "hu": (
        "január február március április május június július augusztus szeptember október november "
        "december"
    ),
    "ro": (
        "ianuarie februarie martie aprilie mai iunie iulie august septembrie octombrie "
        "noiembrie/nov decembrie"
    ),
    "uk": (
        "січня/січень лютого/лютий березня/березень квітня/квітень травня/травень червня/червень "
        "липня/липень серпня/серпень вересня/вересень жовтня/жовтень листопада грудня/грудень"
    ),
    "be": (
        "студзеня/студзень лютага/люты сакавіка красавіка мая/май чэрвеня/чэрвень ліпеня/ліпень "
        "жніўня/жнівень верасня/верасень кастрычніка лістапада снежня/снежань"
    ),
    "bg": "януари февруари март април май юни юли август септември октомври ноември декември",
    "sr": (
        "januara/јануара/januar/јануар februara/фебруара/februar/фебруар marta/марта/mart/март "
        "aprila/априла/april/април maja/маја/maj/мај juni/juna/јуна/jun/јун juli/jula/јула/jul/јул "
        "august/avgusta/августа/avgust/август септембар/septembar/septembra/септембра "
        "октобар/oktobar/oktobra/октобра новембар/novembar/novembra/новембра "
        "децембар/decembar/decembra/децембра"
    ),
    "hr": (
        "siječnja/siječanj veljače/veljača ožujka/ožujak travnja/travanj svibnja/svibanj "
        "lipnja/lipanj srpnja/srpanj kolovoza rujna/rujan listopada studenoga/studeni "
        "prosinca/prosinac"
    ),
    "sl": (
        "januarja/januar februarja/februar marec/marca aprila/april maja/maj junija/junij "
        "julija/julij avgusta/avgust september/septembra oktober/oktobra november/novembra "
        "december/decembra"
    ),
    "mk": "јануари февруари март април мај јуни јули август септември октомври ноември декември",
    "el": (
        "ιανουαρίου/ιανουάριος φεβρουαρίου/φεβρουάριος μαρτίου/μάρτιος απριλίου/απρίλιος "
        "μαΐου/μάιος ιουνίου/ιούνιος ιουλίου/ιούλιος αυγούστου/αύγουστος σεπτεμβρίου/σεπτέμβριος "
        "οκτωβρίου/οκτώβριος νοεμβρίου/νοέμβριος δεκεμβρίου/δεκέμβριος"
    ),
    "ca": "gener febrer març abril maig juny juliol agost/ag setembre octubre novembre desembre",
    "gl": "xaneiro febreiro marzo abril maio xuño xullo agosto setembro outubro novembro decembro",
    "eu": (
        "urtarrila otsaila martxoa apirila maiatza ekaina uztaila abuztua iraila urria azaroa "
        "abendua"
    ),
    "et": (
        "jaanuar veebruar märts aprill mai juuni juuli august september oktoober november "
        "detsember"
    ),
    "lv": (
        "janvāris/janvārī februāris/februārī marts/martā aprīlis/aprīlī maijs/maijā jūnijs/jūnijā "
        "jūlijs/jūlijā augusts/augustā septembris/septembrī oktobris/oktobrī novembris/novembrī "
        "decembris/decembrī"
    ),
    "lt": (
        "sausio/sausis vasario/vasaris kovo/kovas balandžio/balandis gegužės/gegužė "
        "birželio/birželis liepos/liepa rugpjūčio/rugpjūtis rugsėjo/rugsėjis spalio/spalis "
        "lapkričio/lapkritis gruodžio/gruodis"
    ),
    "sq": "janar shkurt mars prill maj qershor korrik gusht shtator tetor nëntor dhjetor",
    "ga": (
        "eanáir feabhra márta aibreán bealtaine meitheamh iúil lúnasa mfómhair/mfómh "
        "dfómhair/dfómh samhain nollaig"
    ),
    "cy": "ionawr chwefror mawrth ebrill mai mehefin gorffennaf awst medi hydref tachwedd rhagfyr",
    "mt": "jannar frar marzu april mejju ġunju lulju awwissu settembru ottubru novembru diċembru",
    "lb": "januar februar mäerz abrëll mee juni juli august september oktober november dezember",
    "af": (
        "januarie februarie maart/mrt april mei junie julie augustus september oktober november "
        "desember"
    ),
    "id": (
        "januari februari/pebruari maret april mei juni juli agustus/agt/ags september oktober "
        "november/nopember desember"
    ),
    "ms": "januari februari mac april mei jun julai ogos september oktober november disember",
    "tl": "enero pebrero marso abril mayo hunyo hulyo agosto setyembre oktubre nobyembre disyembre",
    "sw": "januari februari machi aprili mei juni julai agosti septemba oktoba novemba desemba",
    "az": "yanvar fevral mart aprel may iyun/iyn iyul/iyl avqust sentyabr oktyabr noyabr dekabr",
    "uz": "yanvar fevral mart aprel may iyun/iyn iyul/iyl avgust sentabr oktabr noyabr dekabr",
    "kk": "қаңтар ақпан наурыз сәуір мамыр маусым шілде тамыз қыркүйек қазан қараша желтоқсан",
    "ka": (
        "იანვარი თებერვალი მარტი აპრილი მაისი ივნისი ივლისი აგვისტო სექტემბერი ოქტომბერი ნოემბერი "
        "დეკემბერი"
    ),
    "hy": (
        "հունվարի/հունվար/հնվ փետրվարի/փետրվար/փտվ մարտի/մարտ/մրտ ապրիլի/ապրիլ մայիսի/մայիս/մյս "
        "հունիսի/հունիս/հնս հուլիսի/հուլիս/հլս օգոստոսի/օգոստոս/օգս սեպտեմբերի/սեպտեմբեր "
        "հոկտեմբերի/հոկտեմբեր նոյեմբերի/նոյեմբեր դեկտեմբերի/դեկտեմբեր"
    ),
    "ar": (
        "يناير/جانفي فبراير/فيفري/شباط مارس/آذار أبريل/أفريل/نيسان مايو/أيار "
        "يونيو/يونيه/جوان/حزيران يوليو/يوليه/يوليوز/جويلية/تموز أغسطس/غشت/أوت/آب "
        "سبتمبر/شتنبر/أيلول أكتوبر نوفمبر/نونبر ديسمبر/دجنبر"
    ),
    "he": "ינואר פברואר מרץ אפריל מאי יוני יולי אוגוסט ספטמבר אוקטובר נובמבר דצמבר",
    "fa": "ژانویه فوریه مارس آوریل مه ژوئن ژوئیه/جولای اوت سپتامبر اکتبر نوامبر دسامبر",
    "hi": (
        "जनवरी फ़रवरी मार्च अप्रैल मई जून जुलाई/जुल अगस्त सितंबर/सितम्बर अक्टूबर/अक्तूबर "
        "नवंबर/नवम्बर दिसंबर/दिसम्बर"
    ),
    "bn": (
        "জানুয়ারী/জানুয়ারি ফেব্রুয়ারী/ফেব্রুয়ারি মার্চ এপ্রিল মে জুন জুলাই আগস্ট সেপ্টেম্বর "
        "অক্টোবর নভেম্বর ডিসেম্বর"
    ),
    "ta": "ஜனவரி பிப்ரவரி மார்ச் ஏப்ரல் மே ஜூன் ஜூலை ஆகஸ்ட் செப்டம்பர் அக்டோபர் நவம்பர் டிசம்பர்",
    "th": (
        "มกราคม/ม.ค กุมภาพันธ์/ก.พ มีนาคม/มี.ค เมษายน/เม.ย พฤษภาคม/พ.ค มิถุนายน/มิ.ย กรกฎาคม/ก.ค "
        "สิงหาคม/ส.ค กันยายน/ก.ย ตุลาคม/ต.ค พฤศจิกายน/พ.ย ธันวาคม/ธ.ค"
    ),
    "zh": "一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 十一月 十二月",
}
# fmt: on
# In these, abbreviations are also read on a page that declares another language or none.
_WIDESPREAD: Final = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "tr", "ru", "sv", "da")
_OTHER_CODES: Final = {"no": "nb", "nn": "nb", "bs": "sr", "sh": "sr", "fil": "tl", "iw": "he"}


@lru_cache(maxsize=4096)
def month_number(name: str, language: str = "") -> int | None:
    """Return the month with a name or an abbreviation of at least three letters.

    Parameters
    ----------
    name
        A name in any case, with or without accents, or with a period at its end.
    language
        A BCP 47 tag. Its names precede those of other languages: "listopada" is October in
        Croatian and November in Polish.

    Returns
    -------
    int or None
        1 to 12; None for other words and for abbreviations of more than one month.
    """
    word = _fold(name).rstrip(".")
    code = language[:3].partition("-")[0].lower()
    code = _OTHER_CODES.get(code, code)
    if code in _NAMES and (month := _names_of(code).get(word)) is not None:
        return month
    return _all_names().get(word)


def _fold(name: str) -> str:
    """Return a name in lower case without accents; the dotless i of Turkish has its dot."""
    decomposed = unicodedata.normalize("NFKD", name.lower().replace("ı", "i"))
    return "".join(sign for sign in decomposed if unicodedata.category(sign) != "Mn")


@cache
def _names_of(language: str) -> dict[str, int]:
    """Return the months by each name of a language and each unambiguous beginning of one."""
    names = _whole_names(language)
    months: dict[str, set[int]] = {}
    for name, month in names.items():
        for length in range(_MIN_ABBREVIATION, len(name)):
            months.setdefault(name[:length], set()).add(month)
    beginnings = {text: min(found) for text, found in months.items() if len(found) == 1}
    return beginnings | names


def _whole_names(language: str) -> dict[str, int]:
    return {
        _fold(name): month
        for month, forms in enumerate(_NAMES[language].split(), 1)
        for name in forms.split("/")
    }


@cache
def _all_names() -> dict[str, int]:
    """Return the months by name in any language; the first language of the table decides."""
    names: dict[str, int] = {}
    for language in _WIDESPREAD:
        names = _names_of(language) | names
    for language in _NAMES:
        names = _whole_names(language) | names
    return names
