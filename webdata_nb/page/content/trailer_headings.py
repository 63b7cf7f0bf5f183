"""Recognizes the headings of sections that follow an article: more articles, comments, sharing."""

from __future__ import annotations

import re
from typing import Final

_ENGLISH: Final = re.compile(
    r"\W*(?:\d+\s+)?(?:"
    r"(?:top rated |recent |latest |user |reader |facebook )?"
    r"(?:comments?|responses?|replies|thoughts?)\b.{0,60}"
    r"|leave a (?:reply|comment).*|join the conversation.*|(?:post|add) a comment.*"
    r"|(?:most|top) (?:popular|read|viewed|shared|stories|rated).*|trending.*"
    r"|popular (?:posts|stories|now).*|recent (?:posts|articles|stories|news|comments)?"
    r"|breaking news|latest (?:news|stories|articles|posts|from).*|our latest stories"
    r"|more (?:from|news|stories|in|on|articles|like|posts)\b.*|related(?: \w+){0,3}:?"
    r"|you (?:may|might) (?:also )?.*like.*|recommended.*|read (?:more|next|also).*"
    r"|keep reading.*|continue reading.*|what to read next.*|up next.*|top stories.*"
    r"|share (?:this|on).*|follow us.*|sign up.*|subscribe.*|newsletter.*|about the author.*"
    r"|sponsored.*|advertisement.*|tags?:?|categor(?:y|ies):?|arquivos|archives?|filed under.*"
    r"|editor.?s picks?.*|don.t miss.*)",
    re.IGNORECASE,
)
# By language: the whole heading.
_HEADINGS: Final = {
    "de": "anzeige|werbung|drucken|gefällt mir|externer inhalt|zusatzinformationen|schlagwörter"
    "|schlagworte|kommentar schreiben|kommentare geschlossen|keine kommentare|meistgelesen",
    "fr": "partager|commentaires|commentaire|publicité|mots-clés|imprimer",
    "es": "compartir|comentarios|comentario|publicidad|etiquetas",
    "pt": "compartilhe|compartilhar|partilhar|comentários|comentário|publicidade|etiquetas",
    "it": "condividi|commenti|pubblicità|stampa",
    "nl": "delen|reacties|reactie|advertentie",
    "pl": "komentarze|udostępnij|polecane|drukuj|reklama|tagi",
    "cs": "komentáře|sdílet|reklama|diskuse",
    "sv": "kommentarer|annons|dela artikeln|dela artikel",
    "da": "annonce|del artiklen",
    "ru": "комментарии|поделиться|реклама",
    "tr": "yorumlar|paylaş|etiketler|reklam",
    "zh": "相关阅读|相关文章|相关新闻|推荐阅读|评论",
    "ja": "関連記事|あわせて読みたい|おすすめ記事|コメント",
    "ko": "관련기사|관련 기사|추천기사|댓글",
}
# By language: how the heading starts.
_OPENINGS: Final = {
    "de": "auch interessant|zum weiterlesen|weiterlesen|mehr zu|mehr zum|mehr zur|mehr aus"
    "|mehr von|mehr kolumnen|mehr artikel|mehr beiträge|mehr themen|mehr nachrichten"
    "|das könnte dich auch|das könnte sie auch|das könnte dir auch|das könnte ihnen auch"
    "|dies könnte sie auch|weitere informationen|weitere infos|weitere beiträge|weitere artikel"
    "|weitere meldungen|weitere themen|weitere nachrichten|weiterführende informationen"
    "|weiterführende links|ähnliche beiträge|ähnliche artikel|ähnliche themen|lesen sie auch"
    "|lesen sie mehr|lies auch|empfohlene artikel|empfohlene beiträge|empfohlener redaktioneller"
    "|passend dazu|schreibe einen kommentar|schreiben sie einen kommentar"
    "|hinterlasse einen kommentar|artikel teilen|beitrag teilen|diese beiträge|folgen sie uns"
    "|folge uns|verwandte artikel|verwandte themen|verwandte beiträge|über den autor"
    "|über die autorin|meistgelesene",
    "fr": "à lire aussi|a lire aussi|à lire également|lire aussi|lire également|lire la suite"
    "|sur le même sujet|sur le même thème|articles similaires|article similaire|articles liés"
    "|articles recommandés|articles connexes|partager cet|partager sur|laisser un commentaire"
    "|ajouter un commentaire|abonnez-vous|voir aussi|vous aimerez aussi|à propos de l'auteur",
    "es": "te puede interesar|también te puede interesar|noticias relacionadas"
    "|artículos relacionados|notas relacionadas|temas relacionados|contenidos relacionados"
    "|leer más|lee también|lea también|compartir en|compartir esta|deja un comentario"
    "|dejar un comentario|más noticias|más sobre|más leídas|lo más leído|suscríbete|suscríbase"
    "|sobre el autor",
    "pt": "leia também|leia mais|veja também|veja mais|saiba mais|mais lidas|mais notícias"
    "|notícias relacionadas|artigos relacionados|deixe um comentário|deixar um comentário"
    "|compartilhe isso|sobre o autor",
    "it": "leggi anche|articoli correlati|potrebbe interessarti|lascia un commento"
    "|condividi su|condividi questo",
    "nl": "lees ook|lees meer|lees verder|gerelateerde|meer over|meer nieuws|deel dit",
    "pl": "czytaj także|czytaj też|czytaj również|czytaj więcej|czytaj dalej|przeczytaj także"
    "|przeczytaj też|przeczytaj również|zobacz także|zobacz też|zobacz również|zobacz więcej"
    "|podobne artykuły|podobne wpisy|powiązane artykuły|powiązane tematy|dodaj komentarz",
    "cs": "čtěte také|související články|mohlo by vás zajímat|přidat komentář",
    "sv": "läs också|läs även|läs mer|relaterade artiklar|mer om|relaterat",
    "da": "læs også|læs mere|relaterede artikler|mere om",
    "nb": "les også|les mer|relaterte artikler|relaterte saker",
    "fi": "lue myös|lue lisää|aiheeseen liittyvää",
    "ru": "читайте также|смотрите также|похожие статьи|похожие новости|похожие записи"
    "|материалы по теме|оставить комментарий|добавить комментарий",
    "el": "διαβάστε επίσης|σχετικά άρθρα",
    "tr": "ilgili haberler|benzer haberler|bunlar da ilginizi çekebilir|yorum yaz",
    "hu": "kapcsolódó cikkek|olvassa el",
    "ro": "citește și|citeşte şi|articole similare",
}
_WHOLE: Final = frozenset(text for texts in _HEADINGS.values() for text in texts.split("|"))
_STARTS: Final = tuple({text for texts in _OPENINGS.values() for text in texts.split("|")})
_FIRST_WORDS: Final = frozenset(start.partition(" ")[0] for start in _STARTS)
_MARKS: Final = " \t:.…!?»›>→-–—|•*#"  # noqa: RUF001 - dashes and arrows around headings


def is_trailer_heading(text: str) -> bool:
    """Return whether a short text is the heading of a section that is not part of the article."""
    if _ENGLISH.fullmatch(text):
        return True
    # A Turkish capital I with dot would become two characters in lower case.
    heading = text.replace("’", "'").replace("İ", "i").lower().strip(_MARKS)  # noqa: RUF001
    return heading in _WHOLE or (
        heading.partition(" ")[0] in _FIRST_WORDS and _has_opening(heading)
    )


def _has_opening(heading: str) -> bool:
    """Return whether one of the openings ends where a word of `heading` ends."""
    return any(
        heading.startswith(start) and not heading[len(start) : len(start) + 1].isalnum()
        for start in _STARTS
    )
