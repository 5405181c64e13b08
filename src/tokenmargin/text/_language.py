"""The languages that have a list of stop words, a stemmer, or both, by name and by ISO 639-1 code.

Written out, so that a recipe can be checked where neither package is installed; the tests compare it with them.
"""

from __future__ import annotations

from tokenmargin._checks import shown
from tokenmargin.errors import InvalidInputError

_NAMED = """
    afrikaans:af arabic:ar armenian:hy basque:eu bengali:bn breton:br bulgarian:bg catalan:ca chinese:zh croatian:hr
    czech:cs danish:da dutch:nl english:en esperanto:eo estonian:et finnish:fi french:fr galician:gl german:de greek:el
    gujarati:gu hausa:ha hebrew:he hindi:hi hungarian:hu indonesian:id irish:ga italian:it japanese:ja korean:ko
    kurdish:ku latin:la latvian:lv lithuanian:lt malay:ms marathi:mr nepali:ne norwegian:no persian:fa polish:pl
    portuguese:pt romanian:ro russian:ru serbian:sr sesotho:st slovak:sk slovenian:sl somali:so spanish:es swahili:sw
    swedish:sv tagalog:tl tamil:ta thai:th turkish:tr ukrainian:uk urdu:ur vietnamese:vi yiddish:yi yoruba:yo zulu:zu
    """
#: Name to code.
CODES: dict[str, str] = dict(pair.split(":") for pair in _NAMED.split())
_NAMES = {code: name for name, code in CODES.items()}

_ALGORITHMS = """
    arabic armenian basque catalan czech danish dutch english esperanto estonian finnish french german greek hindi
    hungarian indonesian irish italian lithuanian nepali norwegian persian polish portuguese romanian russian serbian
    sesotho spanish swedish tamil turkish yiddish
    """
#: Languages of Snowball's algorithms, by the names that PyStemmer gives them.
STEMMED = frozenset(_ALGORITHMS.split())
#: Languages with a stemmer that no list of stop words is known of.
UNLISTED = frozenset(["nepali", "serbian", "tamil", "yiddish"])

#: Languages in which an apostrophe parts two words (l'homme, dell'arte) and does not stand inside one (don't).
ELIDED = frozenset(["catalan", "french", "italian"])


def language_name(given: object) -> str:
    """The name of a language from its name or code in any case ("German", "de", "de-AT"); an error lists the known."""
    wanted = given.strip().lower() if isinstance(given, str) else ""
    code = wanted.replace("_", "-").split("-")[0]
    if wanted in CODES or code in _NAMES:
        return wanted if wanted in CODES else _NAMES[code]
    known = ", ".join(f"{name} ({code})" for name, code in CODES.items())
    raise InvalidInputError(f"language={shown(given)} is not known. Known are {known}; or pass language=None.")


def has_stop_words(language: str) -> bool:
    """True if there is a list of the language's stop words."""
    return language not in UNLISTED


def has_stemmer(language: str) -> bool:
    """True if there is a stemmer of the language."""
    return language in STEMMED
