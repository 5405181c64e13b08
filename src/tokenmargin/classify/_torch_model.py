"""A fitted model as a module of PyTorch: code that needs torch alone, beside `model.json` with the numbers."""

from __future__ import annotations

#: The file that an export holds. It begins at counted tokens, as `model.onnx` does.
MODULE = '''"""A classifier of texts made by tokenmargin, as a module of PyTorch.

    model = load("model.json")
    probabilities, contributions = model(tokens, counts)

tokens: columns of the distinct tokens of each text, shape (texts, length), in the order of "vocabulary" of model.json;
counts: how often each occurs, 0 fills up shorter texts. Numbers are float64; gradients flow to score, value, intercept.
"""

import json

import torch


class TokenModel(torch.nn.Module):
    def __init__(self, told):
        super().__init__()
        for name in ("score", "value", "intercept"):
            setattr(self, name, torch.nn.Parameter(torch.tensor(told[name], dtype=torch.float64)))
        self.register_buffer("base_rate", torch.tensor(told["base_rate"], dtype=torch.float64))
        self.classes, self.vocabulary = told["classes"], told["vocabulary"]
        self.power, self.root_length = told["power"], told["root_length"]

    def forward(self, tokens, counts):
        there = counts > 0
        logits = self.score[tokens] + self.power * torch.log(torch.where(there, counts, 1).double())
        known = there.any(dim=1, keepdim=True)
        attention = torch.softmax(torch.where(there | ~known, logits, -torch.inf), dim=1) * there
        if self.root_length:
            attention = attention * there.sum(dim=1, keepdim=True).double().sqrt()
        contributions = attention[..., None] * self.value[tokens]
        margins = contributions.sum(dim=1) + self.intercept
        if margins.shape[1] == 1:
            margins = torch.cat([torch.zeros_like(margins), margins], dim=1)
        return torch.where(known, torch.softmax(margins, dim=1), self.base_rate), contributions


def load(path="model.json"):
    with open(path, encoding="utf-8") as file:
        return TokenModel(json.load(file))
'''
