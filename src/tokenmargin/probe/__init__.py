"""Which tokens the attention of any model selects, how sparsely, and by what margin.

`AttentionProbe` looks into our own vision transformer, `torch_attention` into models of PyTorch and Hugging Face,
`bert_attention` into the weights of BERT-family encoders without torch; `attention_report` measures what they read.
"""

from tokenmargin.probe.attention_probe import AttentionProbe, head_directions, key_query_norms, load_keys, vit_attention
from tokenmargin.probe.bert_weights import BertModel, bert_attention
from tokenmargin.probe.measures import (
    Distribution,
    distribution,
    entropy,
    key_query_norm,
    logit_margin,
    soft_sparsity,
    top_mass,
    without_token,
)
from tokenmargin.probe.query_direction import QueryDirection, query_direction
from tokenmargin.probe.reading import AttentionReading
from tokenmargin.probe.report import AttentionReport, attention_report
from tokenmargin.probe.torch_models import torch_attention, torch_key_query_norms

__all__ = [
    "AttentionProbe",
    "AttentionReading",
    "AttentionReport",
    "BertModel",
    "Distribution",
    "QueryDirection",
    "attention_report",
    "bert_attention",
    "distribution",
    "entropy",
    "head_directions",
    "key_query_norm",
    "key_query_norms",
    "load_keys",
    "logit_margin",
    "query_direction",
    "soft_sparsity",
    "top_mass",
    "torch_attention",
    "torch_key_query_norms",
    "vit_attention",
    "without_token",
]
