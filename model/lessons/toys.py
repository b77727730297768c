"""Builds toy models: real decoders with the numbers of a lesson file as weights, and words as their vocabulary.

A toy is opened and looked at like any checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ropewalk.model.checkpoints.opening import Checkpoint, device_of, dtype_of
from ropewalk.model.decoder.decoder import Decoder, Mlp
from ropewalk.model.decoder.hooks import capture
from ropewalk.model.errors import LessonError, TokenizerError
from ropewalk.model.lessons.toy_spec import Numbers, ToySpec, ids_of
from ropewalk.model.tokens.tokenizer import Piece, Tokenizer


class WordCodec:
    """Words apart from one another, each with an id: the tokenizer of a toy."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words

    @property
    def size(self) -> int:
        """How many words there are."""
        return len(self.words)

    def encode(self, text: str, add_special: bool, names_special: bool = False) -> list[int]:
        """Ids of a text."""
        try:
            return list(ids_of(text, self.words))
        except LessonError as error:
            raise TokenizerError(error.sentence) from error

    def decode(self, ids: Sequence[int]) -> str:
        """The words of some ids."""
        return " ".join(self.words[token] for token in ids)

    def piece(self, token: int) -> Piece | None:
        """The bytes of a word; None where there is no such id."""
        return Piece(self.words[token].encode()) if 0 <= token < len(self.words) else None

    def find(self, name: str) -> int | None:
        """A toy has no special tokens."""
        return None


def build_toy(spec: ToySpec) -> Decoder:
    """A decoder with the toy's weights, in evaluation mode and float32 on the CPU.

    Raises
    ------
    LessonError
        When no W_down can make the MLP write what was asked for.
    """
    with torch.random.fork_rng(devices=[]):  # torch's layers draw from the global generator when they are made
        model = Decoder(spec.config, seed=spec.seed)
        if spec.init != "engine":
            _draw_otherwise(model, spec)
    with torch.no_grad():
        for name, value in spec.weights:
            parameter = _weight(model, name)
            parameter.copy_(_filled(value, parameter.shape))
    model._tie()
    model.eval()
    if spec.mlp_writes:
        _solve_down(model, spec)
    return model


def toy_checkpoint(spec: ToySpec, name: str, *, device: str = "cpu", dtype: str = "float32") -> Checkpoint:
    """A toy as an open checkpoint, with its words as the tokenizer."""
    kind = dtype_of(dtype)
    model = build_toy(spec).to(device_of(device), kind)
    parameters = sum(value.numel() for value in model.parameters())
    return Checkpoint(
        model=model,
        config=spec.config,
        tokenizer=Tokenizer(WordCodec(spec.words)),
        name=name,
        path="",
        family="toy",
        parameters=parameters,
        weight_bytes=parameters * kind.itemsize,
        notes=("The weights stand in a lesson file.",),
    )


def _weight(model: Decoder, name: str) -> Tensor:
    """The parameter that a lesson calls ``blocks.0.attn.query``."""
    module = model.get_submodule(name)
    inner = getattr(module, "norm", module)  # QK-norm holds its gain one level down
    weight = inner.weight
    if not isinstance(weight, Tensor):
        raise LessonError(f"This toy's config leaves out the weight {name!r}; drop it from the file or add it there.")
    return weight


def _filled(value: Numbers | str, shape: torch.Size) -> Tensor:
    if isinstance(value, str):
        if value == "identity" and len(shape) == 2:
            return torch.eye(*shape)
        return torch.full(shape, 0.0 if value == "zeros" else 1.0)
    numbers = torch.tensor(value, dtype=torch.float64)
    if numbers.ndim == 1 and len(shape) == 2:
        numbers = torch.zeros(shape, dtype=torch.float64).diagonal_scatter(numbers)
    return numbers.float()


def _draw_otherwise(model: Decoder, spec: ToySpec) -> None:
    """All matrices as torch's own layers draw them (U(±1/√fan-in)), or all zero; the embedding stays N(0, 1)."""
    torch.manual_seed(spec.seed)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            if spec.init == "library":
                module.reset_parameters()
            else:
                nn.init.zeros_(module.weight)


def _solve_down(model: Decoder, spec: ToySpec) -> None:
    """Set the last W_down to the smallest matrix with which the MLP writes the rows asked for.

    Its input a [T, F] is what ``act(gate) · up`` makes of the prompt, so W_down is the least-squares solution of
    a · W_downᵀ = rows.
    """
    layer = spec.config.layers - 1
    mlp = model.block(layer).mlp
    assert isinstance(mlp, Mlp)
    seen: list[Tensor] = []
    handle = mlp.down.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].detach()))
    try:
        with torch.no_grad():
            model(torch.tensor([spec.ids]))
    finally:
        handle.remove()
    hidden, rows = seen[0][0].double(), torch.tensor(spec.mlp_writes, dtype=torch.float64)  # [T, F], [T, D]
    solution = torch.linalg.pinv(hidden) @ rows  # [F, D]
    with torch.no_grad():
        mlp.down.weight.copy_(solution.T)
        with capture(model, (f"blocks.{layer}.hook_mlp_out",)) as met:
            model(torch.tensor([spec.ids]))
    off = float((met[f"blocks.{layer}.hook_mlp_out"][0].double() - rows).abs().max())
    if off > 1e-4 * max(1.0, float(rows.abs().max())):
        raise LessonError(
            f"No W_down makes this toy's MLP write those rows (the nearest is off by {off:.3g}); give it a larger F or "
            "other words."
        )
