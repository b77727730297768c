"""The laboratory itself: runs and measures what lessons ask for, on real decoders, through the engine's own readers.

It lives on the compute thread. Models and runs are made once and kept as long as the bench, so that a lesson's many
numbers cost few forward passes. Everything it returns is plain Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from model import lens
from model.attention import Attention, Call
from model.cache import KvCache
from model.checkpoints import Checkpoint, open_checkpoint
from model.config import ModelConfig
from model.decoder import ACTIVATIONS, Block, Decoder, MoeMlp, next_token_loss
from model.errors import LessonError
from model.experiments import RopeOff
from model.generation import row_logits
from model.lessons.laboratory import Matrix, Vector
from model.lessons.models import LessonModel
from model.lessons.values import Head, ModelName
from model.norms import Norm
from model.patterns import head_scores, repeated_ids
from model.probes import Change, capture, intervening
from model.readings import CellReading, RowReading
from model.rope import Rotary, frequencies, rotate
from model.toys import toy_checkpoint
from model.trace import Trace, append
from model.trace import capture as run

ROWS = 8
"""Sequences that a loss is averaged over."""
SMALL_VOCABULARY = 16

ATTENTION_POINTS = ("q", "k", "v", "q_normed", "k_normed", "rot_q", "rot_k", "z")
BLOCK_POINTS = ("resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out")
OUTER_POINTS = ("embed", "final")


class Bench:
    """Keeps the contract of ``laboratory.Laboratory``.

    Parameters
    ----------
    models
        The models that the lesson declares, by name.
    opened, trace
        What the person has open and its run, or None.
    """

    def __init__(
        self, models: Mapping[str, LessonModel], opened: Checkpoint | None = None, trace: Trace | None = None
    ) -> None:
        self._models = {
            "bundled": LessonModel("bundled", "bundled"),
            "open": LessonModel("open", "open"),
            **models,
        }
        self._opened, self._trace_in_view = opened, trace
        self._checkpoints: dict[str, Checkpoint] = {}
        self._traces: dict[tuple[str, str], Trace] = {}
        self._points: dict[tuple[str, str, str], Tensor] = {}
        self._head_scores: dict[tuple[Any, ...], dict[str, Matrix]] = {}

    # Models and runs --------------------------------------------------------------------------------------------------

    def config_of(self, model: ModelName) -> ModelConfig:
        """The config of a model that runs."""
        return self._checkpoint(model).config

    def _described(self, model: ModelName) -> LessonModel:
        if model.name not in self._models:
            raise LessonError(f"There is no model {model.name!r}; there are {', '.join(self._models)}.")
        return self._models[model.name]

    def _checkpoint(self, model: ModelName) -> Checkpoint:
        if model.name not in self._checkpoints:
            self._checkpoints[model.name] = self._open(self._described(model))
        return self._checkpoints[model.name]

    def _open(self, described: LessonModel) -> Checkpoint:
        if described.kind == "toy" and described.toy is not None:
            return toy_checkpoint(described.toy, described.name)
        if described.kind == "bundled":
            if self._opened is not None and self._opened.name == "bundled":
                return self._opened
            return open_checkpoint(None)
        if described.kind == "open":
            if self._opened is None:
                raise LessonError("No model is open; open one, and this number is read from it.")
            return self._opened
        raise LessonError(f"The model {described.name!r} has sizes but no weights, so nothing can be run on it.")

    def _decoder(self, model: ModelName) -> Decoder:
        return self._checkpoint(model).model

    def _ids(self, model: ModelName, prompt: str = "") -> list[int]:
        described, checkpoint = self._described(model), self._checkpoint(model)
        words = prompt or described.prompt
        if words and checkpoint.tokenizer is not None:
            return checkpoint.tokenizer.encode(words)
        trace = self._trace_in_view
        if not words and described.kind == "open" and trace is not None and trace.ids is not None:
            return [int(token) for token in trace.ids[0]]
        raise LessonError(
            f"There is nothing to run on {described.name!r}: "
            + ("it has no tokenizer." if words else "the lesson gives it no prompt.")
        )

    def _trace(self, model: ModelName, prompt: str = "") -> Trace:
        key = (model.name, prompt)
        if key not in self._traces:
            self._traces[key] = run(self._decoder(model), self._ids(model, prompt))
        return self._traces[key]

    def _batch(self, model: ModelName) -> Trace:
        """The run of the prompt together with the other sequences of its batch."""
        key = (model.name, "\0batch")
        if key not in self._traces:
            others = self._described(model).others
            rows = [self._ids(model), *(self._ids(model, other) for other in others)]
            if len({len(row) for row in rows}) != 1:
                raise LessonError(f"The sequences of {model.name!r} are not equally long, so they make no batch.")
            self._traces[key] = run(self._decoder(model), rows)
        return self._traces[key]

    def _tokenizer(self, model: ModelName) -> Any:
        checkpoint = self._checkpoint(model)
        if checkpoint.tokenizer is None:
            raise LessonError(f"{checkpoint.name} has no tokenizer, so its tokens cannot be read.")
        return checkpoint.tokenizer

    def _shown(self, model: ModelName, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(token.text for token in self._tokenizer(model).describe(ids))

    # A run ------------------------------------------------------------------------------------------------------------

    def tokens(self, model: ModelName, prompt: str = "") -> int:
        """How many tokens the prompt has."""
        return len(self._ids(model, prompt))

    def token(self, model: ModelName, row: int, prompt: str = "") -> str:
        """The token of a row, as it is shown."""
        ids = self._ids(model, prompt)
        return self._shown(model, ids)[_place(row, len(ids))]

    def point(self, model: ModelName, name: str, row: int, layer: int = 0, prompt: str = "") -> Vector | Matrix:
        """What passes a hook point in a row; a line for each head."""
        met = self._met(model, name, layer, prompt)
        at = met[..., _place(row, met.shape[-2]), :]
        return _matrix(at) if at.ndim == 2 else _vector(at)

    def points(self, model: ModelName, name: str, layer: int = 0, prompt: str = "") -> Matrix:
        """What passes a hook point in every row, its heads joined."""
        met = self._met(model, name, layer, prompt)
        return _matrix(met if met.ndim == 2 else met.transpose(0, 1).flatten(1))

    def _met(self, model: ModelName, name: str, layer: int, prompt: str) -> Tensor:
        """The tensor of the first sequence at a point: [heads, T, Dh] or [T, D]."""
        decoder = self._decoder(model)
        if name in ATTENTION_POINTS:
            path = f"blocks.{layer}.attn.hook_{name}"
        elif name in BLOCK_POINTS:
            path = f"blocks.{layer}.hook_{name}"
        elif name in OUTER_POINTS:
            path = f"hook_{name}"
        else:
            known = ", ".join((*ATTENTION_POINTS, *BLOCK_POINTS, *OUTER_POINTS))
            raise LessonError(f"There is no point {name!r}; there are {known}.")
        key = (model.name, prompt, path)
        if key not in self._points:
            with torch.no_grad(), capture(decoder, (path,)) as record:
                decoder(torch.tensor([self._ids(model, prompt)], device=_device(decoder)))
            self._points[key] = record[path][0].float().cpu()
        return self._points[key]

    def norm_output(self, model: ModelName, name: str, layer: int = 0, prompt: str = "") -> Matrix:
        """What a block's norm makes of every row of the stream."""
        point = {"attn_norm": "resid_pre", "mlp_norm": "resid_mid"}.get(name)
        if point is None:
            raise LessonError(f"There is no norm {name!r} in a block; there are attn_norm and mlp_norm.")
        norm = self._decoder(model).block(layer).get_submodule(name)
        with torch.no_grad():
            return _matrix(norm(self._met(model, point, layer, prompt)))

    def scores(self, model: ModelName, layer: int, head: int, prompt: str = "") -> Matrix:
        """Scaled scores before the mask."""
        trace = self._trace(model, prompt)
        rows = (lens.read_row(trace[layer], head, row).scores for row in range(trace.length))
        return tuple(tuple(row.tolist()) for row in rows)

    def weights(self, model: ModelName, layer: int, head: int, prompt: str = "") -> Matrix:
        """Weights after softmax."""
        return _matrix(torch.tensor(lens.weights(self._trace(model, prompt)[layer], head)))

    def score(self, model: ModelName, layer: int, head: int, query: int, key: int, prompt: str = "") -> float:
        """One scaled score."""
        return self._cell(model, layer, head, query, key, prompt).score

    def weight(self, model: ModelName, layer: int, head: int, query: int, key: int, prompt: str = "") -> float:
        """One weight."""
        return self._cell(model, layer, head, query, key, prompt).weight

    def product(self, model: ModelName, layer: int, head: int, query: int, key: int, prompt: str = "") -> float:
        """One q·k, before the scale."""
        return self._cell(model, layer, head, query, key, prompt).dot

    def _cell(self, model: ModelName, layer: int, head: int, query: int, key: int, prompt: str) -> CellReading:
        trace = self._trace(model, prompt)
        return lens.read_cell(trace[layer], head, _place(query, trace.length), _place(key, trace.length))

    def entropy(self, model: ModelName, layer: int, head: int, query: int, prompt: str = "") -> float:
        """The entropy of a row of weights, in nats."""
        trace = self._trace(model, prompt)
        return lens.read_row(trace[layer], head, _place(query, trace.length)).entropy

    def strongest_key(self, model: ModelName, layer: int, head: int, query: int, prompt: str = "") -> int:
        """The key that a row weighs most."""
        trace = self._trace(model, prompt)
        return int(lens.read_row(trace[layer], head, _place(query, trace.length)).weights.argmax())

    def plane_shares(self, model: ModelName, layer: int, head: int, query: int, key: int, prompt: str = "") -> Vector:
        """What each rotation plane adds to a scaled score."""
        trace = self._trace(model, prompt)
        reading = lens.read_planes(trace[layer], head, _place(query, trace.length), _place(key, trace.length))
        if reading is None:
            raise LessonError(f"Layer {layer} of {model.name!r} does not rotate, so it has no planes.")
        return tuple(reading.shares.tolist())

    def stream_sizes(self, model: ModelName, row: int = -1, prompt: str = "") -> Vector:
        """The root mean square of the stream after the embedding and after each block."""
        layers = self.config_of(model).layers
        stream = [self._met(model, "resid_pre", 0, prompt)]
        stream += [self._met(model, "resid_post", layer, prompt) for layer in range(layers)]
        return tuple(_rms(x[_place(row, x.shape[0])]) for x in stream)

    def likely(self, model: ModelName, row: int = -1, count: int = 1, prompt: str = "") -> tuple[str, ...]:
        """The most probable next tokens after a row."""
        probabilities = self._probabilities(model, row, prompt)
        return self._shown(model, probabilities.topk(count).indices.tolist())

    def probability(self, model: ModelName, row: int = -1, rank: int = 0, prompt: str = "") -> float:
        """The probability of the next token of that rank after a row."""
        return float(self._probabilities(model, row, prompt).topk(rank + 1).values[rank])

    def _probabilities(self, model: ModelName, row: int, prompt: str) -> Tensor:
        trace = self._trace(model, prompt)
        logits, _ = row_logits(self._decoder(model), trace, _place(row, trace.length))
        return logits.double().softmax(-1)

    def next_probability(self, model: ModelName, row: int, prompt: str = "") -> float:
        """The probability that a row gives to the token that really follows it."""
        ids = self._ids(model, prompt)
        if not 0 <= row < len(ids) - 1:
            raise LessonError(f"Nothing follows row {row} of {len(ids)} rows.")
        return float(self._probabilities(model, row, prompt)[ids[row + 1]])

    def value_gap(self, model: ModelName, prompt: str = "") -> float:
        """The largest difference between V as projected and V as the cache keeps it."""
        trace = self._trace(model, prompt)
        return max(
            float((self._met(model, "v", layer, prompt) - trace[layer].values.tensor[0].float().cpu()).abs().max())
            for layer in range(trace.config.layers)
        )

    def point_gap(self, model: ModelName, name: str, row: int, other: str, layer: int = 0, prompt: str = "") -> float:
        """How much a hook point's row differs between the prompt and another one."""
        here, there = self._met(model, name, layer, prompt), self._met(model, name, layer, other)
        return float((here[..., row, :] - there[..., row, :]).abs().max())

    # Heads ------------------------------------------------------------------------------------------------------------

    def head_scores(self, model: ModelName, score: str, repeat: int = 0, seed: int = 0, prompt: str = "") -> Matrix:
        """A score of every head, on random tokens twice or on the prompt."""
        key = (model.name, repeat, seed, prompt)
        if key not in self._head_scores:
            if repeat:
                vocabulary = self.config_of(model).vocabulary
                trace = run(self._decoder(model), repeated_ids(repeat, vocabulary, seed), logits="none")
            else:
                trace = self._trace(model, prompt)
            found, undefined = head_scores(trace)
            self._head_scores[key] = {
                name: tuple(tuple(row) for row in values.tolist())
                for name, values in found.items()
                if name not in undefined
            }
        scores = self._head_scores[key]
        if score not in scores:
            raise LessonError(f"There is no score {score!r} for these tokens; there are {', '.join(scores)}.")
        return scores[score]

    def best_head(self, model: ModelName, score: str, repeat: int = 0, seed: int = 0, prompt: str = "") -> Head:
        """The head with the largest score."""
        return self.heads_over(model, score, -math.inf, repeat, seed, prompt)[0]

    def best_score(self, model: ModelName, score: str, repeat: int = 0, seed: int = 0, prompt: str = "") -> float:
        """The largest score of any head."""
        return max(max(row) for row in self.head_scores(model, score, repeat, seed, prompt))

    def heads_over(
        self, model: ModelName, score: str, least: float, repeat: int = 0, seed: int = 0, prompt: str = ""
    ) -> tuple[Head, ...]:
        """The heads whose score reaches so much, best first."""
        scores = self.head_scores(model, score, repeat, seed, prompt)
        found = [(value, Head(layer, head)) for layer, row in enumerate(scores) for head, value in enumerate(row)]
        return tuple(head for value, head in sorted(found, key=lambda pair: -pair[0]) if value >= least)

    def score_without_rope(self, model: ModelName, head: Head, score: str, prompt: str = "") -> float:
        """A head's score on the prompt when nothing is rotated."""
        still = run(self._decoder(model), self._ids(model, prompt), experiments=(RopeOff(),))
        found, undefined = head_scores(still)
        if score not in found or score in undefined:
            raise LessonError(f"There is no score {score!r} for these tokens; there are {', '.join(found)}.")
        return float(found[score][head.layer, head.head])

    def repeat_loss(
        self, model: ModelName, repeat: int, without: tuple[Head, ...] = (), part: str = "second", seed: int = 0
    ) -> float:
        """Mean −ln p of the tokens in one round of random tokens twice, with some heads zeroed."""
        if part not in ("first", "second"):
            raise LessonError(f"Random tokens twice have a first and a second round, not {part!r}.")
        decoder = self._decoder(model)
        rows = [repeated_ids(repeat, decoder.config.vocabulary, seed + row) for row in range(ROWS)]
        ids = torch.tensor(rows, device=_device(decoder))
        with torch.no_grad(), _zeroed(decoder, without):
            logits = decoder(ids)[:, :-1]
        losses = functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none")
        losses = losses.view(ROWS, -1)
        return float(losses[:, : repeat - 1].mean() if part == "first" else losses[:, repeat:].mean())

    def probability_without(
        self, model: ModelName, head: Head, row: int = -1, rank: int = 0, prompt: str = ""
    ) -> float:
        """The probability of the token that is likeliest without the change, after a head has been zeroed."""
        decoder = self._decoder(model)
        token = int(self._probabilities(model, row, prompt).topk(rank + 1).indices[rank])
        ids = torch.tensor([self._ids(model, prompt)], device=_device(decoder))
        with torch.no_grad(), _zeroed(decoder, (head,)):
            logits = decoder(ids)[0]
        return float(logits[_place(row, ids.shape[1])].double().softmax(-1)[token])

    def looks_back(self, model: ModelName, word: str, text: str, count: int = 3) -> tuple[str, ...]:
        """What the heads weigh most from a word of a text, past its neighbour: which head looks at which token."""
        shown = self._shown(model, self._ids(model, text))
        looks = self._looks(model, word, text)[:count]
        return tuple(f"L{head.layer}H{head.head} looks at {shown[key]} ({weight:.2f})" for weight, head, key in looks)

    def looking_head(self, model: ModelName, word: str, text: str) -> Head:
        """The head that looks back most from a word of a text, past its neighbour."""
        return self._looks(model, word, text)[0][1]

    def row_of(self, model: ModelName, word: str, text: str) -> int:
        """The row of a word in a text: the token that its last occurrence ends in."""
        shown = self._shown(model, self._ids(model, text))
        row = _row_of(word, shown)
        if row < 0:
            raise LessonError(f"{text!r} has no {word!r}; its tokens are {', '.join(shown)}.")
        return row

    def _looks(self, model: ModelName, word: str, text: str) -> list[tuple[float, Head, int]]:
        """Weights from a word's row to the tokens after the first and before its neighbour, largest first.

        The first token (a sink) and the one just before (a habit of its own) would drown what is looked for.
        """
        row = self.row_of(model, word, text)
        if row < 3:
            raise LessonError(f"{word!r} has fewer than three tokens before it in {text!r}.")
        trace = self._trace(model, text)
        found = []
        for layer in range(trace.config.layers):
            for number in range(trace.config.heads):
                weights = lens.read_row(trace[layer], number, row).weights[1 : row - 1]
                key = int(weights.argmax())
                found.append((float(weights[key]), Head(layer, number), key + 1))
        return sorted(found, key=lambda one: -one[0])

    # Rotation ---------------------------------------------------------------------------------------------------------

    def frequencies(self, config: ModelConfig, length: int = 0) -> Vector:
        """θ of every plane, in radians a position."""
        rope = config.rope_of(0)
        if rope is None:
            raise LessonError("This config does not rotate, so it has no frequencies.")
        return _vector(frequencies(rope, config.rotary_width(0), length)[0])

    def wavelengths(self, config: ModelConfig, length: int = 0) -> Vector:
        """Positions that every plane needs for a full turn."""
        return tuple(2 * math.pi / theta for theta in self.frequencies(config, length))

    def turning_planes(self, config: ModelConfig, length: int) -> int:
        """Planes that finish a turn within so many positions."""
        return sum(wavelength <= length for wavelength in self.wavelengths(config))

    def turned(self, vector: Vector, position: float, frequencies: Vector, pairing: str = "half") -> Vector:
        """A head vector turned to a position."""
        return _vector(_turned(vector, position, frequencies, pairing))

    def turned_product(self, q: Vector, k: Vector, m: int, n: int, frequencies: Vector, pairing: str = "half") -> float:
        """q turned to position m times k turned to position n."""
        return float(_turned(q, m, frequencies, pairing) @ _turned(k, n, frequencies, pairing))

    def shift_gap(self, model: ModelName, offset: int, prompt: str = "") -> float:
        """The largest change of any score when every position grows by an offset."""
        decoder, ids = self._decoder(model), torch.tensor([self._ids(model, prompt)])
        positions = torch.arange(ids.shape[1])[None] + offset
        moved = run(decoder, ids.to(_device(decoder)), positions=positions.to(_device(decoder)), logits="none")
        return _score_gap(self._trace(model, prompt), moved)

    def pairing_gap(self, model: ModelName, prompt: str = "") -> float:
        """How far logits move when the model's rotation is read in the other pairing."""
        decoder = self._decoder(model)
        rope = decoder.config.rope
        if rope is None:
            raise LessonError(f"{model.name!r} does not rotate, so it has no pairing.")
        other = replace(rope, pairing="adjacent" if rope.pairing == "half" else "half")
        misread = Decoder(decoder.config.changed(rope=other))
        misread.load_state_dict(decoder.state_dict())
        misread.to(_device(decoder)).eval()
        ids = torch.tensor([self._ids(model, prompt)], device=_device(decoder))
        with torch.no_grad():
            return float((misread(ids) - decoder(ids)).abs().max())

    def permuted_gap(self, model: ModelName, order: Vector, prompt: str = "") -> float:
        """How far attention without a mask is from permuting with its input."""
        decoder, ids = self._decoder(model), self._ids(model, prompt)
        chosen = [int(place) for place in order]
        if sorted(chosen) != list(range(len(ids))):
            raise LessonError(f"The order {chosen} does not name each of {len(ids)} rows once.")
        block = decoder.block(0)
        with torch.no_grad(), _unmasked(block.attn):

            def attended(tokens: Sequence[int]) -> Tensor:
                x, call = decoder.begin(torch.tensor([tokens]))
                out: Tensor = block.attn(block.attn_norm(x), call)
                return out[0]

            return float((attended([ids[place] for place in chosen]) - attended(ids)[chosen]).abs().max())

    def row_gap(self, model: ModelName, other: str, prompt: str = "") -> float:
        """How much the last row's logits differ between the prompt and another one."""
        first, second = (self._trace(model, words) for words in (prompt, other))
        logits = [row_logits(self._decoder(model), trace, trace.length - 1)[0] for trace in (first, second)]
        return float((logits[0] - logits[1]).abs().max())

    def table_gap(self, config: ModelConfig) -> float:
        """How far rotation tables made on the meta device are from true ones once memory is there."""
        with torch.device("meta"):
            empty = Decoder(_narrow(config))
        empty.to_empty(device="cpu")
        made = [module for module in empty.rotaries if isinstance(module, Rotary)]
        true = [Rotary(module.rope, module.width, module.limit) for module in made]
        gaps = [(a.cos - b.cos).abs().max() + (a.sin - b.sin).abs().max() for a, b in zip(made, true, strict=True)]
        return float(max(gaps))

    def stored_tables(self, config: ModelConfig) -> int:
        """How many rotation tables a checkpoint of this config would store."""
        return sum("rotaries" in name for name in Decoder(_narrow(config)).state_dict())

    # Scale ------------------------------------------------------------------------------------------------------------

    def score_spread(self, model: ModelName) -> float:
        """The standard deviation of all scaled scores, over batch, heads and cells."""
        every = range(self._batch(model).length)
        squares = list(self._rows(model, every, lambda reading: float((reading.scores**2).mean())))
        means = list(self._rows(model, every, lambda reading: float(reading.scores.mean())))
        return math.sqrt(sum(squares) / len(squares) - (sum(means) / len(means)) ** 2)

    def mean_entropy(self, model: ModelName, row: int = -1) -> float:
        """The entropy of a row of weights, meant over batch and heads; of all rows for −1."""
        rows = range(self._batch(model).length) if row < 0 else (row,)
        return _mean(self._rows(model, rows, lambda reading: reading.entropy))

    def peak(self, model: ModelName, row: int) -> float:
        """The largest weight of a row, meant over batch and heads."""
        return _mean(self._rows(model, (row,), lambda reading: float(reading.weights.max())))

    def slope(self, model: ModelName, row: int) -> float:
        """How much a row's weights can still move, 1 − Σ w², meant over batch and heads."""
        return _mean(self._rows(model, (row,), lambda reading: 1 - float((reading.weights**2).sum())))

    def _rows(self, model: ModelName, rows: Sequence[int], read: Callable[[RowReading], float]) -> Iterator[float]:
        trace = self._batch(model)
        for batch in range(trace.batch):
            for head in range(trace.config.heads):
                for row in rows:
                    yield read(lens.read_row(trace[0], head, _place(row, trace.length), batch=batch))

    def weight_variance(self, model: ModelName, name: str, layer: int = 0) -> float:
        """The variance of the numbers of a matrix: query, key, value or output."""
        if name not in ("query", "key", "value", "output"):
            raise LessonError(f"There is no matrix {name!r}; there are query, key, value and output.")
        weight = self._decoder(model).block(layer).attn.get_submodule(name).weight
        assert isinstance(weight, Tensor)
        return float(weight.detach().var())

    # Norms, MLP and depth ---------------------------------------------------------------------------------------------

    def rms(self, vector: Vector) -> float:
        """The root mean square."""
        return _rms(torch.tensor(vector, dtype=torch.float64))

    def rms_norm(self, vector: Vector, eps: float = 0.0) -> Vector:
        """RMSNorm with a gain of ones."""
        with torch.no_grad():
            return _vector(Norm((len(vector),), "rms", eps)(torch.tensor(vector)))

    def layer_norm(self, vector: Vector, eps: float = 0.0) -> Vector:
        """LayerNorm with a gain of ones and no shift."""
        with torch.no_grad():
            return _vector(Norm((len(vector),), "layer", eps)(torch.tensor(vector)))

    def activated(self, name: str, number: float) -> float:
        """An activation of a number."""
        if name not in ("silu", "gelu", "relu"):
            raise LessonError(f"There is no activation {name!r} here; there are silu, gelu and relu.")
        return float({str(key): act for key, act in ACTIVATIONS.items()}[name](torch.tensor(number)))

    def first_gradient(self, model: ModelName, place: str) -> float:
        """The gradient of the first block's W_v over the last one's, at the start of training.

        The model's own parts are stacked in one of two orders: x + f(norm(x)), as the engine does (``pre``), or
        norm(x + f(x)), as the first transformers did (``post``).
        """
        if place not in ("pre", "post"):
            raise LessonError(f"A norm stands before a sub-layer (pre) or after the sum (post), not {place!r}.")
        decoder = self._decoder(model)
        ids = torch.tensor([self._ids(model)])
        x, call = decoder.begin(ids, branch="explicit")
        blocks = [decoder.block(layer) for layer in range(decoder.config.layers)]
        with torch.enable_grad():
            for block in blocks:
                for norm, part in ((block.attn_norm, _attending(block, call)), (block.mlp_norm, block.mlp)):
                    x = x + part(norm(x)) if place == "pre" else norm(x + part(x))
            loss = next_token_loss(decoder.finish(x), ids)
            ends = [blocks[0].attn.value.weight, blocks[-1].attn.value.weight]
            first, last = torch.autograd.grad(loss, ends)
        return float(first.norm() / last.norm())

    # Cache, branches, mixtures ----------------------------------------------------------------------------------------

    def cached_gap(
        self, model: ModelName, prefill: int, steps: int, branch: str = "fused", padding: int = 0, seed: int = 0
    ) -> float:
        """How far the last row's logits, had through the cache, are from those of a full pass, on random tokens."""
        decoder, kind = self._decoder(model), _branch(branch)
        ids, real = _random(decoder, prefill + steps, padding, seed)
        before = None if real is None else real[:, :prefill]
        trace = run(decoder, ids[:, :prefill], padding=before, branch=kind)
        for row in range(prefill, prefill + steps):
            trace = append(decoder, trace, ids[:, row].tolist())
        cached = trace.logits_of(trace.length - 1)
        assert cached is not None
        with torch.no_grad():
            full = decoder(ids, padding=real, branch=kind, last_only=True)[:, 0]
        return float((cached - full).abs().max())

    def branch_gap(self, model: ModelName, tokens: int, past: int = 0, padding: int = 0, seed: int = 0) -> float:
        """How far the fused branch's logits are from the explicit one's, on random tokens."""
        decoder = self._decoder(model)
        ids, real = _random(decoder, past + tokens, padding, seed)
        before = None if real is None else real[:, : max(past, 1)]
        logits = []
        for branch in ("fused", "explicit"):
            with torch.no_grad():
                if not past:
                    logits.append(decoder(ids, padding=real, branch=_branch(branch)))
                    continue
                cache = run(decoder, ids[:, :past], padding=before, branch=_branch(branch))
                logits.append(_continued(decoder, cache, ids[:, past:], real, branch))
        seen = logits[0].new_ones(logits[0].shape[:2], dtype=torch.bool) if real is None else real[:, past:]
        return float((logits[0] - logits[1])[seen].abs().max())

    def tied(self, model: ModelName) -> bool:
        """Whether lm_head's weight is the embedding's own object."""
        decoder = self._decoder(model)
        return decoder.head.weight is decoder.embed.weight

    def cache_bytes(self, model: ModelName, prompt: str = "") -> float:
        """Bytes of the KV cache, counted from the tensors of a run."""
        return float(lens.read_cache(self._trace(model, prompt)).bytes_measured)

    def experts(self, model: ModelName, row: int, layer: int = 0, prompt: str = "") -> Vector:
        """The experts that a row's token was sent to."""
        chosen = self._chosen(model, layer, prompt)
        return tuple(float(expert) for expert in chosen[_place(row, chosen.shape[0])])

    def expert_load(self, model: ModelName, layer: int = 0, prompt: str = "") -> Vector:
        """How many tokens each expert was sent."""
        moe = self.config_of(model).moe
        chosen = self._chosen(model, layer, prompt).flatten()
        return tuple(float((chosen == expert).sum()) for expert in range(0 if moe is None else moe.experts))

    def _chosen(self, model: ModelName, layer: int, prompt: str) -> Tensor:
        """[T, k] experts of each token."""
        decoder = self._decoder(model)
        if not isinstance(decoder.block(layer).mlp, MoeMlp):
            raise LessonError(f"Layer {layer} of {model.name!r} has one MLP, no experts.")
        path = f"blocks.{layer}.mlp.hook_expert_index"
        with torch.no_grad(), capture(decoder, (path,)) as record:
            decoder(torch.tensor([self._ids(model, prompt)], device=_device(decoder)))
        return record[path]


# ----------------------------------------------------------------------------------------------------------------------
# Parts


def _device(decoder: Decoder) -> torch.device:
    return decoder.embed.weight.device


def _place(row: int, length: int) -> int:
    """A row counted from the start, −1 being the last."""
    if not -length <= row < length:
        raise LessonError(f"Row {row} was asked for, but the run has {length} rows.")
    return row % length


def _row_of(word: str, shown: Sequence[str]) -> int:
    """The token that the last occurrence of a word ends in; −1 where it does not occur."""
    at = "".join(shown).rfind(word)
    ends, last = 0, at + len(word) - 1
    for row, token in enumerate(shown):
        ends += len(token)
        if at >= 0 and last < ends:
            return row
    return -1


def _vector(x: Tensor) -> Vector:
    return tuple(float(number) for number in x.tolist())


def _matrix(x: Tensor) -> Matrix:
    return tuple(_vector(row) for row in x)


def _rms(x: Tensor) -> float:
    return float(x.double().square().mean().sqrt())


def _mean(values: Iterator[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _turned(vector: Vector, position: float, theta: Vector, pairing: str) -> Tensor:
    """A vector turned in float64, [Dh]."""
    if 2 * len(theta) > len(vector) or pairing not in ("half", "adjacent"):
        raise LessonError(
            f"A vector of {len(vector)} features cannot be turned in {len(theta)} planes, {pairing!r} pairing."
        )
    angles = position * torch.tensor(theta, dtype=torch.float64)[None, None]  # [1, 1, F]
    x = torch.tensor(vector, dtype=torch.float64)[None, None, None]
    return rotate(x, angles.cos(), angles.sin(), "half" if pairing == "half" else "adjacent")[0, 0, 0]


def _score_gap(first: Trace, second: Trace) -> float:
    """The largest difference of any visible score."""
    worst = 0.0
    for layer in range(first.config.layers):
        for head in range(first.config.heads):
            a, b = (torch.tensor(lens.scores(trace[layer], head)) for trace in (first, second))
            seen = torch.isfinite(a)
            worst = max(worst, float((a[seen] - b[seen]).abs().max()))
    return worst


@contextmanager
def _zeroed(decoder: Decoder, heads: Sequence[Head]) -> Iterator[None]:
    """Set the output of some heads to zero for a moment."""
    layers: dict[int, list[int]] = {}
    for head in heads:
        layers.setdefault(head.layer, []).append(head.head)

    def without(chosen: list[int]) -> Change:
        def change(z: Tensor) -> Tensor:  # [B, H, T, Dh]
            z = z.clone()
            z[:, chosen] = 0.0
            return z

        return change

    with ExitStack() as stack:
        for layer, chosen in layers.items():
            stack.enter_context(intervening(decoder, {f"blocks.{layer}.attn.hook_z": without(chosen)}))
        yield


@contextmanager
def _unmasked(attention: Attention) -> Iterator[None]:
    """Let every query see every key for a moment."""
    kept = attention.rule
    attention.rule = replace(kept, causal=False)
    try:
        yield
    finally:
        attention.rule = kept


def _attending(block: Block, call: Call) -> Callable[[Tensor], Tensor]:
    """A block's attention as a function of the stream alone."""

    def attend(x: Tensor) -> Tensor:
        out: Tensor = block.attn(x, call)
        return out

    return attend


def _narrow(config: ModelConfig) -> ModelConfig:
    """The same rotary rule in a model that costs nothing to build."""
    return config.changed(
        layers=1, vocabulary=SMALL_VOCABULARY, width=8, mlp_width=8, moe=None, window_layers=None, rope_layers=None
    )


def _branch(name: str) -> Any:
    if name not in ("fused", "explicit"):
        raise LessonError(f"The branches are fused and explicit, not {name!r}.")
    return name


def _random(decoder: Decoder, tokens: int, padding: int, seed: int) -> tuple[Tensor, Tensor | None]:
    """Random ids [B, T], and which are real: with padding there are two sequences, the second padded on the left."""
    draw = torch.Generator().manual_seed(seed)
    batch = 2 if padding else 1
    ids = torch.randint(decoder.config.vocabulary, (batch, tokens), generator=draw).to(_device(decoder))
    if not padding:
        return ids, None
    real = torch.ones(batch, tokens, dtype=torch.bool, device=ids.device)
    real[1, :padding] = False
    return ids, real


def _continued(decoder: Decoder, trace: Trace, ids: Tensor, real: Tensor | None, branch: str) -> Tensor:
    """Logits of several tokens at once on a trace's rows."""
    cache = KvCache.holding([layer.keys for layer in trace], [layer.values for layer in trace])
    logits: Tensor = decoder(ids, cache=cache, padding=real, branch=_branch(branch))
    return logits
