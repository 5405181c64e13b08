"""Texts as a pretrained encoder of the BERT family attends to them, from weights and tokenizer, without torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tokenmargin._checks import checked
from tokenmargin.errors import InvalidInputError
from tokenmargin.probe.attention_maps import AttentionMaps
from tokenmargin.probe.bert_weights import ARCHITECTURES, BertModel, bert_attention
from tokenmargin.probe.text_attention import AttendedBatch, SelectableWords, TextAttention
from tokenmargin.probe.text_encoder import EncodedText, TextEncoder
from tokenmargin.probe.weight_files import CONFIG, model_files, read_config, read_weights

#: Tokens that go through the model together, and numbers of attention of one layer: some tens of megabytes.
TOKENS_AT_ONCE, WEIGHTS_AT_ONCE = 2048, 2**23

#: Name of a token that stands for no letters of the text.
NAMELESS = "·"


class EncoderTexts(TextAttention):
    """A pretrained encoder of the BERT family: attention of its first token, in every layer and head.

    Args:
        path: folder of the encoder, or file of its weights.
    """

    @checked
    def __init__(self, path: str | Path) -> None:
        """Read weights and tokenizer."""
        files = model_files(path)
        self.model = BertModel.from_weights(read_weights(files.weights), files.config)
        tables = self.model.embeddings
        most = len(tables["position_embeddings"]) - ARCHITECTURES[self.model.architecture].first_position
        self.encoder = TextEncoder(files.folder, most)
        if self.encoder.vocabulary_size > len(tables["word_embeddings"]):
            raise InvalidInputError(
                f"the tokenizer of {files.folder} has {self.encoder.vocabulary_size} tokens and the weights have "
                f"{len(tables['word_embeddings'])}: they belong to different models."
            )
        self.name = _name(files.folder)
        heads, layers = self.model.heads, len(self.model.layers)
        self.kind = f"a pretrained {self.model.architecture} encoder, {layers} layers of {heads} heads"
        self.key_query_norms = self.model.key_query_norms()
        self.notes = _pooling_note(files.folder)

    def attend(self, texts: Sequence[str]) -> Iterator[AttendedBatch]:
        """Yield batches of texts of about the same length, so that little is padded."""
        encoded = [self.encoder.encode(text) for text in texts]
        rows = [row for row, each in enumerate(encoded) if sum(each.is_counted) >= 2]
        for batch in self._batches(sorted(rows, key=lambda row: len(encoded[row].ids)), encoded):
            own = [encoded[row] for row in batch]
            width = max(len(each.ids) for each in own)
            ids, mask, counted = (np.zeros((len(own), width), int) for _ in range(3))
            for place, each in enumerate(own):
                size = len(each.ids)
                ids[place, :size], mask[place, :size], counted[place, :size] = each.ids, 1, each.is_counted
            (read,) = bert_attention(self.model, [(ids, mask)])
            reading = AttentionMaps(read.maps, counted.astype(bool), read.queries, read.keys)
            places = tuple(_encoder_places(texts[row], encoded[row]) for row in batch)
            cut = sum(each.was_cut for each in own)
            yield AttendedBatch(tuple(batch), reading, places, read.queries, read.keys, cut)

    def _batches(self, rows: list[int], encoded: list[EncodedText]) -> Iterator[list[int]]:
        """Rows of ascending length, as many at once as memory is meant for."""
        some: list[int] = []
        for row in rows:
            width, size = len(encoded[row].ids), len(some) + 1
            if some and (size * width > TOKENS_AT_ONCE or size * width**2 * self.model.heads > WEIGHTS_AT_ONCE):
                yield some
                some = []
            some.append(row)
        if some:
            yield some


def _encoder_places(text: str, encoded: EncodedText) -> SelectableWords:
    counted = [place for place, own in enumerate(encoded.is_counted) if own]
    words = ["" for _ in encoded.ids]
    for place in counted:
        start, end = encoded.spans[place]
        words[place] = text[start:end].strip().lower() or NAMELESS
    spans = np.array([encoded.spans[place] for place in counted], int).reshape(-1, 2)
    return SelectableWords(words, np.array(counted, int), spans[:, 0], spans[:, 1])


def _name(folder: Path) -> str:
    """Name of a folder; with the name of its parent if its own name says nothing about the model."""
    own = folder.resolve()
    return f"{own.parent.name}/{own.name}" if own.name in ("model", "onnx") else own.name


def _pooling_note(folder: Path) -> tuple[str, ...]:
    """Sentence that says that the model answers with the mean of its tokens, if its folder says so."""
    if not (folder / "1_Pooling" / CONFIG).is_file():
        return ()
    try:
        told = read_config(folder / "1_Pooling")
    except InvalidInputError:
        return ()
    if told.get("pooling_mode_cls_token") or not told.get("pooling_mode_mean_tokens"):
        return ()
    return (
        "The folder of the model says that it answers with the mean over all tokens and not with [CLS]: nothing that "
        "it was trained for asks [CLS] to select anything.",
    )
