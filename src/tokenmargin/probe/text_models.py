"""Model that a path holds: a pretrained encoder, a run of `train`, or a fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenmargin._checks import checked
from tokenmargin.errors import InvalidInputError
from tokenmargin.probe.bert_weights import ARCHITECTURES
from tokenmargin.probe.encoder_texts import EncoderTexts
from tokenmargin.probe.own_texts import FitTexts, RunTexts
from tokenmargin.probe.text_attention import TextAttention
from tokenmargin.probe.weight_files import CONFIG


@checked
def text_model(path: str | Path, sample: Sequence[str] = ()) -> TextAttention:
    """The model of a path: a pretrained encoder, a run that `TrainingRun.save` wrote, or what `tokenmargin fit` wrote.

    Args:
        path: a folder with config.json and weights; a .safetensors or .onnx file; an .npz file of a run; the folder of
            a fit.
        sample: some of the texts, by which it is found how the texts of a run became its tokens.
    """
    given = Path(path)
    if given.suffix == ".npz":
        return RunTexts(given, sample)
    if any((each / "model.json").is_file() for each in (given, given / "model")):
        return FitTexts(given)
    if given.is_dir() and not (given / CONFIG).is_file():
        raise InvalidInputError(
            f"{given} is no model: it holds neither config.json (a pretrained encoder: {', '.join(ARCHITECTURES)}) nor "
            "model/model.json (what tokenmargin fit writes). A run of training is an .npz file."
        )
    return EncoderTexts(given)
