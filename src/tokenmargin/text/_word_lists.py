"""Lists of words that come with the package: stop words, and the WordPieces of BERT.

Stop words carry grammar rather than meaning, and are dropped before stemming [E, App. E]. The English list is
scikit-learn's `ENGLISH_STOP_WORDS` (BSD-3-Clause, see LICENSE-stopwords), made by the Glasgow Information Retrieval
Group; it is written out here, and compared with scikit-learn's in the tests. Those of 57 other languages are
stopwords-iso's (MIT, see LICENSE-stopwords-iso), a line each in stop_words.tsv.xz: the code of the language, then its
words. The 30,522 WordPieces in bert_base_uncased.txt.xz, a line each, are those of Google's BERT (Apache 2.0, see
LICENSE-bert-vocabulary).
"""

from __future__ import annotations

import lzma
from functools import cache
from importlib.resources import files

from tokenmargin.text._language import CODES

_LISTED = """
a about above across after afterwards again against all almost alone along already also although always am among
amongst amoungst amount an and another any anyhow anyone anything anyway anywhere are around as at back be became
because become becomes becoming been before beforehand behind being below beside besides between beyond bill both
bottom but by call can cannot cant co con could couldnt cry de describe detail do done down due during each eg eight
either eleven else elsewhere empty enough etc even ever every everyone everything everywhere except few fifteen
fifty fill find fire first five for former formerly forty found four from front full further get give go had has
hasnt have he hence her here hereafter hereby herein hereupon hers herself him himself his how however hundred i ie
if in inc indeed interest into is it its itself keep last latter latterly least less ltd made many may me meanwhile
might mill mine more moreover most mostly move much must my myself name namely neither never nevertheless next nine
no nobody none noone nor not nothing now nowhere of off often on once one only onto or other others otherwise our
ours ourselves out over own part per perhaps please put rather re same see seem seemed seeming seems serious several
she should show side since sincere six sixty so some somehow someone something sometime sometimes somewhere still
such system take ten than that the their them themselves then thence there thereafter thereby therefore therein
thereupon these they thick thin third this those though three through throughout thru thus to together too top
toward towards twelve twenty two un under until up upon us very via was we well were what whatever when whence
whenever where whereafter whereas whereby wherein whereupon wherever whether which while whither who whoever whole
whom whose why will with within without would yet you your yours yourself yourselves
"""

ENGLISH_STOP_WORDS: frozenset[str] = frozenset(_LISTED.split())


def stop_words_of(language: str) -> frozenset[str]:
    """The stop words of a language that has a list of them."""
    return ENGLISH_STOP_WORDS if language == "english" else _listed()[CODES[language]]


def packed_text(name: str) -> str:
    """The text of a list of this package."""
    return lzma.decompress((files("tokenmargin.text") / name).read_bytes()).decode("utf-8")


@cache
def _listed() -> dict[str, frozenset[str]]:
    """Words by the code of their language."""
    lines = (line.split("\t") for line in packed_text("stop_words.tsv.xz").splitlines())
    return {code: frozenset(words) for code, *words in lines}
