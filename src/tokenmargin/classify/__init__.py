"""A classifier of labelled texts that is its own explanation, and a table of the tokens that decide.

Names are found when they are asked for: `load`, and what it gives, need NumPy alone; `AttentionClassifier` needs the
extra `sklearn`, and what reads texts the extra `fit`.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.classify.classifier import AttentionClassifier as AttentionClassifier
    from tokenmargin.classify.doubt import doubted_labels as doubted_labels
    from tokenmargin.classify.embedding_fit import fit_embeddings as fit_embeddings
    from tokenmargin.classify.evaluation import Evaluation as Evaluation
    from tokenmargin.classify.evaluation import evaluate as evaluate
    from tokenmargin.classify.export import Form as Form
    from tokenmargin.classify.export import export as export
    from tokenmargin.classify.features import Candidates as Candidates
    from tokenmargin.classify.features import Features as Features
    from tokenmargin.classify.fit_folder import write_fit as write_fit
    from tokenmargin.classify.fit_settings import FitSettings as FitSettings
    from tokenmargin.classify.fit_settings import LabelledCorpus as LabelledCorpus
    from tokenmargin.classify.fit_settings import Origin as Origin
    from tokenmargin.classify.fitting import fit_texts as fit_texts
    from tokenmargin.classify.fitting_parts import fit_parts as fit_parts
    from tokenmargin.classify.judging import FittedTexts as FittedTexts
    from tokenmargin.classify.prior import Prior as Prior
    from tokenmargin.classify.saved_model import load as load
    from tokenmargin.classify.saved_model import save as save
    from tokenmargin.classify.text_model import Explanation as Explanation
    from tokenmargin.classify.text_model import TextModel as TextModel
    from tokenmargin.classify.text_model import Unit as Unit
    from tokenmargin.classify.token_definitions import DEFINITIONS as DEFINITIONS
    from tokenmargin.classify.token_fit import Fitted as Fitted
    from tokenmargin.classify.token_fit import fit_tokens as fit_tokens
    from tokenmargin.classify.token_model import Contributions as Contributions
    from tokenmargin.classify.token_model import TokenModel as TokenModel
    from tokenmargin.classify.token_table import TokenTable as TokenTable
    from tokenmargin.classify.token_table import deciding_tokens as deciding_tokens


found_on_demand(__name__, __file__)
