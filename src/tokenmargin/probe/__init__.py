"""Measures of the attention of any model: the tokens that it selects, its sparsity and its margin.

`torch_attention` looks into models of PyTorch and Hugging Face, `bert_attention` into the weights of BERT-family
encoders without torch; `attention_measures` measures what they read.
`text_model` and `probe_texts` do it for many texts, and ask whether what is selected is what decides.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.probe.attention_maps import AttentionMaps
    from tokenmargin.probe.bert_weights import BertModel, bert_attention
    from tokenmargin.probe.deciding_words import Decided, DecidingWords
    from tokenmargin.probe.encoder_texts import EncoderTexts
    from tokenmargin.probe.head_measures import AttentionMeasures, attention_measures
    from tokenmargin.probe.jax_models import jax_attention
    from tokenmargin.probe.measures import (
        Distribution,
        distribution,
        entropy,
        key_query_norm,
        logit_margin,
        soft_sparsity,
        top_mass,
    )
    from tokenmargin.probe.onnx_weights import onnx_weights
    from tokenmargin.probe.own_texts import FitTexts, RunTexts
    from tokenmargin.probe.query_direction import QueryDirection, query_direction
    from tokenmargin.probe.text_attention import AttendedBatch, SelectableWords, TextAttention
    from tokenmargin.probe.text_encoder import EncodedText, TextEncoder
    from tokenmargin.probe.text_findings import DecidingHits, Directions, ShownText, TextProbe, WordRow
    from tokenmargin.probe.text_models import text_model
    from tokenmargin.probe.text_probe import ProbeSettings, probe_texts
    from tokenmargin.probe.text_verdicts import Verdicts, text_verdicts
    from tokenmargin.probe.torch_models import torch_attention, torch_key_query_norms
    from tokenmargin.probe.weight_files import model_files, read_weights

__all__ = [
    "AttendedBatch",
    "AttentionMaps",
    "AttentionMeasures",
    "BertModel",
    "Decided",
    "DecidingHits",
    "DecidingWords",
    "Directions",
    "Distribution",
    "EncodedText",
    "EncoderTexts",
    "FitTexts",
    "ProbeSettings",
    "QueryDirection",
    "RunTexts",
    "SelectableWords",
    "ShownText",
    "TextAttention",
    "TextEncoder",
    "TextProbe",
    "Verdicts",
    "WordRow",
    "attention_measures",
    "bert_attention",
    "distribution",
    "entropy",
    "jax_attention",
    "key_query_norm",
    "logit_margin",
    "model_files",
    "onnx_weights",
    "probe_texts",
    "query_direction",
    "read_weights",
    "soft_sparsity",
    "text_model",
    "text_verdicts",
    "top_mass",
    "torch_attention",
    "torch_key_query_norms",
]

found_on_demand(__name__, __file__)
