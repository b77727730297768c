"""Weights under other names than the family's: saved by ``AutoModel``, by a classifier, or wrapped for training.

Such files lack the prefix of the whole model (``model.``) and often its last matrix, or have a prefix more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
from torch import Tensor

from ropewalk.model.checkpoints.families.layouts import WeightMap
from ropewalk.model.checkpoints.source import WHOLE, Part, Stored, TensorFile
from ropewalk.model.checkpoints.weights import pattern_of

OTHER_HEADS = re.compile(r"(score|classifier|qa_outputs|v_head|value_head|regression_head|reward_head)(\..+)?")
"""What models that do not write text have in the place of the last matrix."""


class RenamedFiles:
    """Tensors under other names.

    Parameters
    ----------
    files
        Where they are.
    names
        What each is to be called → what it is called in the files; the others are left out.
    """

    def __init__(self, files: TensorFile, names: Mapping[str, str]) -> None:
        self._files = files
        self._names = dict(names)
        self.tensors: Mapping[str, Stored] = MappingProxyType(
            {own: replace(files.tensors[name], name=own) for own, name in names.items()}
        )

    def read(self, name: str, dtype: torch.dtype, part: Part = WHOLE) -> Tensor:
        """A part of a tensor, as the files read it."""
        return self._files.read(self._names[name], dtype, part)

    def close(self) -> None:
        """Let go of the files."""
        self._files.close()


@dataclass(frozen=True)
class Named:
    """Weights under the family's names.

    Attributes
    ----------
    files
        The weights.
    bare
        Whether they are of a model without a last matrix: saved without the prefix, or with another head.
    notes
        What was done, in sentences.
    """

    files: TensorFile
    bare: bool = False
    notes: tuple[str, ...] = ()


def under_family_names(files: TensorFile, weights: WeightMap) -> Named:
    """Call weights as their family does, told from how the embedding is called; as they are where it is so."""
    embed = next((source for source, rule in weights.items() if rule == "embed.weight"), "")
    prefix, dot, _ = embed.partition(".")
    others = [name for name in files.tensors if OTHER_HEADS.fullmatch(name)]
    kept = {name: name for name in files.tensors if name not in others}
    left_out = (f"{', '.join(others)} of another task was left out.",) if others else ()
    if embed in files.tensors or embed.count(".") < 2:
        return Named(RenamedFiles(files, kept), True, left_out) if others else Named(files)
    own = prefix + dot
    stored = next((name for name in kept if f".{name}".endswith(f".{embed.removeprefix(own)}")), None)
    if stored is None:
        return Named(files)
    wrapper = stored.removesuffix(embed.removeprefix(own))
    bare = not wrapper.endswith(own)
    outer = wrapper if bare else wrapper.removesuffix(own)
    names: dict[str, str] = {}
    for name in kept:
        inner = name.removeprefix(outer)
        names[own + inner if bare and pattern_of(own + inner)[0] in weights else inner] = name
    why = f"without {own!r}, as AutoModel saves them" if bare else f"under {outer!r}, as programs that train save them"
    return Named(RenamedFiles(files, names), bare or bool(others), (f"The weights were saved {why}.", *left_out))
