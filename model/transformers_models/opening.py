"""A folder opened by transformers itself, for models that are none of our families.

Only what transformers has classes for, from safetensors alone, and from this machine: no code of a checkpoint is ever
run, and nothing is fetched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers.utils import logging

from ropewalk.model.checkpoints.config_file import read_json
from ropewalk.model.checkpoints.opening import DTYPES, Outline, device_of, dtype_of, free_bytes
from ropewalk.model.checkpoints.tokenizers.beside import tokenizer_beside
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.costs import format_bytes, kv_bytes
from ropewalk.model.decoder.interventions import AblateHeads, Intervention
from ropewalk.model.errors import CheckpointError, DeviceError, TokenizerError
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.runs.budget import Logits
from ropewalk.model.runs.trace import Trace
from ropewalk.model.tokens.tokenizer import Tokenizer
from ropewalk.model.transformers_models.model import TransformersModel, first_of
from ropewalk.model.transformers_models.threads import on_thread

CONFIG = "config.json"
LOCAL = {"local_files_only": True, "trust_remote_code": False}
"""What every call of transformers is told."""
DEPTH = re.compile(r"layers?$|depth$|blocks$")
MOST_LAYERS = 10_000
"""How deep a model may say it is: transformers counts to it before anybody could stop it."""
AUTOMATIC = ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForImageTextToText", "AutoModel")
"""Where a class is looked for when the config names none."""


@dataclass(frozen=True, eq=False)
class TransformersCheckpoint:
    """An open folder, run by transformers; the rest is as in ``model.checkpoints.opening``."""

    model: TransformersModel
    config: ModelConfig
    tokenizer: Tokenizer | None
    name: str
    path: str
    family: str
    parameters: int
    weight_bytes: int
    notes: tuple[str, ...] = ()
    unread: str = ""
    questions: tuple[Any, ...] = ()
    shapes_only: bool = False
    ends: frozenset[int] = frozenset()
    _device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def has_logits(self) -> bool:
        """Whether the model says what comes next."""
        return self.model.has_logits

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self._device

    def capture_steps(
        self,
        ids: Sequence[int] | Sequence[Sequence[int]],
        *,
        run_id: int,
        logits: Logits | None,
        interventions: Sequence[Intervention],
        what: str,
    ) -> Steps[Trace]:
        """Run a prompt on a thread of its own, which a pause can end at the next layer."""
        work = partial(self.model.capture, ids, run_id=run_id, logits=logits, interventions=interventions)
        return on_thread(self.model, work, what)

    def append_steps(self, trace: Trace, ids: int | Sequence[int]) -> Steps[Trace]:
        """Decode one step likewise."""
        return on_thread(self.model, partial(self.model.append, trace, ids), "Decoding a token")

    def logits_under_steps(self, trace: Trace, row: int, interventions: Sequence[Intervention]) -> Steps[Tensor]:
        """Logits [V] after a row of the first prompt under other interventions than the run's."""
        self.model.check_interventions(interventions)
        work = partial(self.model.logits_after, trace, row, interventions)
        return (yield from on_thread(self.model, work, "Running the row again"))[0]

    def mean_heads_steps(self, trace: Trace, layer: int, heads: Sequence[int]) -> Steps[AblateHeads]:
        """The ablation that replaces heads by their mean output over the rows of a run without interventions."""
        return on_thread(self.model, partial(self.model.mean_heads, trace, layer, heads), "Running the prompt")

    def logits_after(self, trace: Trace, row: int) -> Tensor:
        """Logits [B, V] of a row that were not kept."""
        return self.model.logits_after(trace, row)


def open_steps(path: str | Path, *, device: str = "cpu", dtype: str = "float32") -> Steps[TransformersCheckpoint]:
    """Open a folder.

    Raises
    ------
    CheckpointError
        When transformers cannot open it without running its code, or lacks weights for it.
    TraceError
        When the model's attention cannot be seen.
    DeviceError
        For a device or dtype that is not there, or memory that does not suffice.
    """
    place, kind, folder = device_of(device), dtype_of(dtype), Path(path)
    yield Progress(0, 1, "Reading the checkpoint")
    config = read_config(folder)
    made = class_of(config)
    count = _empty_parameters(made, config, kind)
    _check_memory(count * kind.itemsize, place)
    loaded = yield from on_thread(None, partial(_loaded, made, folder, config, kind), "Reading the weights")
    model = yield from on_thread(None, lambda: TransformersModel(loaded.to(place), folder.resolve().name), "Looking")
    tokenizer, unread = _tokenizer(folder)
    weights = list(loaded.parameters())
    return TransformersCheckpoint(
        model=model,
        config=model.config,
        tokenizer=tokenizer,
        name=folder.resolve().name,
        path=str(folder),
        family=f"{config.model_type}, via transformers",
        parameters=sum(weight.numel() for weight in weights),
        weight_bytes=sum(weight.numel() * weight.element_size() for weight in weights),
        notes=tuple(note for note in (*model.notes, unread) if note),
        unread=unread,
        ends=_ends(loaded, tokenizer),
        _device=place,
    )


def _ends(loaded: Any, tokenizer: Tokenizer | None) -> frozenset[int]:
    """Tokens that end a text, as the model generates and as its tokenizer says."""
    generated = getattr(getattr(loaded, "generation_config", None), "eos_token_id", None)
    ids = generated if isinstance(generated, list) else [generated]
    return frozenset(one for one in ids if isinstance(one, int)) | (tokenizer.ends if tokenizer else frozenset())


def outline(path: str | Path) -> Outline:
    """Say what a folder is and would cost, from its config alone.

    Raises
    ------
    CheckpointError
        As :func:`open_steps` does.
    """
    folder = Path(path)
    config = read_config(folder)
    made = class_of(config)
    count = _empty_parameters(made, config, torch.float32)
    described = _config_said(config.get_text_config(decoder=True))
    return Outline(
        name=folder.resolve().name,
        path=str(folder),
        family=f"{config.model_type}, via transformers",
        config=described,
        parameters=count,
        bytes_in={name: count * kind.itemsize for name, kind in DTYPES.items()},
        kv_bytes_in={name: kv_bytes(described, 1000, name) for name in DTYPES},
        holds_weights=any(folder.glob("*.safetensors")),
        questions=(),
        notes=("Transformers runs it; what needs Ropewalk's own decoder says so.",),
    )


def would_open(folder: Path) -> bool:
    """Whether transformers has a class for a folder that attends through its interface."""
    try:
        return bool(class_of(read_config(folder))._can_set_attn_implementation())
    except CheckpointError:
        return False


def read_config(folder: Path) -> Any:
    """Read a folder's config with transformers' own classes.

    Raises
    ------
    CheckpointError
        When it has none, is of a make that transformers has no class for, or of a class with code of its own.
    """
    if not (folder / CONFIG).is_file():
        raise CheckpointError(f"{folder.name} is no folder with a {CONFIG}, which is what transformers opens.")
    for name, count in _counts(read_json(folder / CONFIG)):
        if DEPTH.search(name) and count > MOST_LAYERS:
            raise CheckpointError(f"{CONFIG} of {folder.name} says {name} is {count:,}, which no model has.")
    try:
        with _quietly():
            return transformers.AutoConfig.from_pretrained(folder, **LOCAL)
    except Exception as error:
        raise _refusal(folder, error) from error


def _counts(found: Any) -> Iterator[tuple[str, int]]:
    """Every whole number of a config, with its name."""
    if isinstance(found, dict):
        yield from ((name, value) for name, value in found.items() if isinstance(value, int))
    for value in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from _counts(value)


def class_of(config: Any) -> Any:
    """The class that a config names, or the one that transformers has for its make.

    Raises
    ------
    CheckpointError
        When there is none.
    """
    named = config.architectures
    for name in named if isinstance(named, list) else ():
        found = getattr(transformers, str(name), None)
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found
    for name in AUTOMATIC:
        found = getattr(transformers, name)._model_mapping.get(type(config), None)
        if found is not None:
            return found[0] if isinstance(found, tuple) else found
    raise CheckpointError(f"Transformers has no model for {config.model_type!r:.60}, so it cannot open it.")


def _loaded(made: Any, folder: Path, config: Any, dtype: torch.dtype) -> Any:
    try:
        with _quietly():
            model, loading = made.from_pretrained(
                folder, config=config, dtype=dtype, use_safetensors=True, output_loading_info=True, **LOCAL
            )
    except Exception as error:
        raise _refusal(folder, error) from error
    lacking = sorted(loading["missing_keys"])
    if lacking:
        raise CheckpointError(
            f"{folder.name} lacks {len(lacking)} weights of {made.__name__}, such as {lacking[0]}; transformers would "
            "draw them at random, so it is not opened."
        )
    return model.eval()


def _empty_parameters(made: Any, config: Any, dtype: torch.dtype) -> int:
    """How many numbers the model has, without room for them."""
    try:
        with _quietly(), torch.device("meta"):
            return sum(weight.numel() for weight in made(config).parameters())
    except Exception as error:
        raise CheckpointError(
            f"Transformers could not build {made.__name__} from this config ({_first_line(error)}).", str(error)
        ) from error


def _check_memory(wanted: int, device: torch.device) -> None:
    free = free_bytes(device)
    if wanted > free:
        raise DeviceError(
            f"The weights would take {format_bytes(wanted)}, but {format_bytes(free)} are free; open it in bfloat16, "
            "or load it with a device_map and look at it from Python (ropewalk.from_transformers)."
        )


def _tokenizer(folder: Path) -> tuple[Tokenizer | None, str]:
    try:
        return tokenizer_beside(folder), ""
    except TokenizerError as error:
        return None, error.sentence


def _config_said(text: Any) -> ModelConfig:
    """What a config says of the model before it is there; how its layers attend is known when it has run."""
    width = first_of(text, ("hidden_size", "d_model", "n_embd"), 1)
    heads = first_of(text, ("num_attention_heads", "decoder_attention_heads", "n_head", "num_heads"), 1)
    plain = first_of(text, ("head_dim", "d_kv"), max(width // heads, 1))
    latent = getattr(text, "kv_lora_rank", None) is not None
    key = first_of(text, ("qk_nope_head_dim",), plain) + first_of(text, ("qk_rope_head_dim",), 0) if latent else plain
    return ModelConfig(
        vocabulary=first_of(text, ("vocab_size",), 1),
        width=width,
        layers=first_of(text, ("num_decoder_layers", "decoder_layers", "num_hidden_layers", "n_layer"), 1),
        heads=heads,
        kv_heads=heads if latent else min(first_of(text, ("num_key_value_heads",), heads), heads),
        head_width=key,
        value_width=first_of(text, ("v_head_dim",), plain),
        mlp_width=first_of(text, ("intermediate_size", "ffn_dim", "decoder_ffn_dim", "d_ff", "n_inner"), 1),
        max_position=first_of(text, ("max_position_embeddings", "n_positions"), 1 << 20),
        position="unknown",
    )


def _refusal(folder: Path, error: Exception) -> CheckpointError:
    """What transformers raised, in a sentence of ours."""
    try:
        own = "auto_map" in json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        own = False
    if own:
        return CheckpointError(
            f"{folder.name} comes with code of its own, which Ropewalk never runs, and transformers cannot open it "
            "without; look for a version that transformers has classes for.",
            str(error),
        )
    return CheckpointError(f"Transformers could not open {folder.name} ({_first_line(error)}).", str(error))


def _first_line(error: Exception) -> str:
    lines = (str(error) or type(error).__name__).strip().splitlines()
    return f"{lines[0]:.200}".rstrip(".")


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what transformers prints while it reads; its settings are put back."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
