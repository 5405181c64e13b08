"""Measures of the attention of any model: the tokens that it selects, its sparsity and its margin.

`torch_attention` looks into models of PyTorch and Hugging Face, `bert_attention` into the weights of BERT-family
encoders without torch; `attention_measures` measures what they read.
`text_model` and `probe_texts` do it for many texts, and ask whether what is selected is what decides.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.probe.attention_maps import AttentionMaps as AttentionMaps
    from tokenmargin.probe.bert_weights import BertModel as BertModel
    from tokenmargin.probe.bert_weights import bert_attention as bert_attention
    from tokenmargin.probe.deciding_words import Decided as Decided
    from tokenmargin.probe.deciding_words import DecidingWords as DecidingWords
    from tokenmargin.probe.encoder_texts import EncoderTexts as EncoderTexts
    from tokenmargin.probe.head_measures import AttentionMeasures as AttentionMeasures
    from tokenmargin.probe.head_measures import attention_measures as attention_measures
    from tokenmargin.probe.jax_models import jax_attention as jax_attention
    from tokenmargin.probe.measures import Distribution as Distribution
    from tokenmargin.probe.measures import distribution as distribution
    from tokenmargin.probe.measures import entropy as entropy
    from tokenmargin.probe.measures import key_query_norm as key_query_norm
    from tokenmargin.probe.measures import logit_margin as logit_margin
    from tokenmargin.probe.measures import soft_sparsity as soft_sparsity
    from tokenmargin.probe.measures import top_mass as top_mass
    from tokenmargin.probe.onnx_weights import onnx_weights as onnx_weights
    from tokenmargin.probe.own_texts import FitTexts as FitTexts
    from tokenmargin.probe.own_texts import RunTexts as RunTexts
    from tokenmargin.probe.query_direction import QueryDirection as QueryDirection
    from tokenmargin.probe.query_direction import query_direction as query_direction
    from tokenmargin.probe.text_attention import AttendedBatch as AttendedBatch
    from tokenmargin.probe.text_attention import SelectableWords as SelectableWords
    from tokenmargin.probe.text_attention import TextAttention as TextAttention
    from tokenmargin.probe.text_encoder import EncodedText as EncodedText
    from tokenmargin.probe.text_encoder import TextEncoder as TextEncoder
    from tokenmargin.probe.text_findings import DecidingHits as DecidingHits
    from tokenmargin.probe.text_findings import Directions as Directions
    from tokenmargin.probe.text_findings import ShownText as ShownText
    from tokenmargin.probe.text_findings import TextProbe as TextProbe
    from tokenmargin.probe.text_findings import WordRow as WordRow
    from tokenmargin.probe.text_models import text_model as text_model
    from tokenmargin.probe.text_probe import ProbeSettings as ProbeSettings
    from tokenmargin.probe.text_probe import probe_texts as probe_texts
    from tokenmargin.probe.text_verdicts import Verdicts as Verdicts
    from tokenmargin.probe.text_verdicts import text_verdicts as text_verdicts
    from tokenmargin.probe.torch_models import torch_attention as torch_attention
    from tokenmargin.probe.torch_models import torch_key_query_norms as torch_key_query_norms
    from tokenmargin.probe.weight_files import model_files as model_files
    from tokenmargin.probe.weight_files import read_weights as read_weights


found_on_demand(__name__, __file__)
