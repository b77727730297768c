"""The folder of a LoRA adapter as peft writes it: what it changes, by how much, and what it was trained on.

``adapter_config.json`` with ``adapter_model.safetensors``, or the older ``adapter_model.bin``. What cannot be merged
truthfully is refused by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ropewalk.model.checkpoints.config_file import read_json
from ropewalk.model.checkpoints.families.fields import Fields
from ropewalk.model.checkpoints.families.knobs import words
from ropewalk.model.checkpoints.formats import safetensors_files, torch_files
from ropewalk.model.checkpoints.formats.hub_cache import name_of, place_of
from ropewalk.model.checkpoints.renamed import OTHER_HEADS
from ropewalk.model.checkpoints.source import TensorFile
from ropewalk.model.errors import CheckpointError

CONFIG = "adapter_config.json"
SAFETENSORS, TORCH = "adapter_model.safetensors", "adapter_model.bin"
PREFIX = "base_model.model."
MAGNITUDE = "lora_magnitude_vector"
"""What a DoRA adapter has of each matrix besides."""
PARTS = re.compile(
    r"(?P<module>.+)\.(?P<part>lora_A|lora_B|lora_embedding_A|lora_embedding_B|lora_magnitude_vector)(?:\.weight)?"
)
WHOLE = re.compile(r"(?P<module>.+?)(?:\.base_layer|\.original_module)?\.(?P<kind>weight|bias)")
INERT = words(
    """
    arrow_config auto_mapping base_model_name_or_path bias corda_config ensure_weight_tying eva_config exclude_modules
    fan_in_fan_out inference_mode init_lora_weights kasa_config layers_pattern layers_to_transform loftq_config
    lora_dropout lora_ga_config megatron_config megatron_core modules_to_save peft_version qalora_group_size revision
    runtime_config target_modules task_type
    """
)
"""Fields that say how it was trained, or what the names of its weights say too."""
REFUSED: Mapping[str, str] = {
    "alora_invocation_tokens": "it works only after certain tokens, so it is no change of weights",
    "layer_replication": "it repeats layers, so it belongs to a model of another depth",
    "lora_bias": "its B matrices have biases",
    "monteclora_config": "it draws its weights anew each time",
    "target_parameters": "it changes stacked parameters of experts",
    "trainable_token_indices": "it trains single rows of the embedding",
    "use_bdlora": "its matrices are in blocks",
    "use_qalora": "it pools its inputs",
    "velora_config": "it is of a kind that compresses its inputs",
}
"""Fields that ask for what is not merged, unless they are off."""
CHANGES_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")
"""Ways of beginning that take something out of the base first, which the files do not hold."""
QUANTIFIERS = re.compile(r"[*+?{]")


@dataclass
class Change:
    """What is added to one matrix of the base: scale · B · A.

    Attributes
    ----------
    scale
        α/r, or α/√r where the ranks are stabilised.
    parts
        ``lora_A`` and the like → what that tensor is called in the files.
    """

    scale: float = 1.0
    parts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Adapter:
    """A LoRA adapter, described.

    Attributes
    ----------
    path, name
        Its folder, and what to call it.
    base
        The model that it was trained on, as its config names it; empty where it does not.
    files
        Its tensors.
    changes
        Module of the base → what is added to its weight.
    whole
        Weight or bias of the base → the tensor that takes its place.
    summary
        What it is, as a clause.
    """

    path: Path
    name: str
    base: str
    files: TensorFile
    changes: Mapping[str, Change]
    whole: Mapping[str, str]
    summary: str


def is_adapter(path: Path) -> bool:
    """Whether a folder, or the folder of one of its files, is an adapter and no model."""
    folder = _folder(path)
    if path.is_file() and path.name not in (CONFIG, SAFETENSORS, TORCH):
        return False
    return (folder / CONFIG).is_file() and not (folder / "config.json").is_file()


def alone(path: Path) -> str:
    """What to say of an adapter where a model was expected."""
    folder = _folder(path)
    fields = Fields(read_json(folder / CONFIG), CONFIG)
    kind, base = fields.text("peft_type", default="LORA"), fields.text("base_model_name_or_path", default="")
    trained = f"trained on {base:.120}" if base else "which does not say what it was trained on"
    what = "LoRA adapter" if kind.upper() == "LORA" else f"{kind:.40} adapter"
    return (
        f"{_name(folder)} is a {what}, {trained}: small changes to a model, not a model. Open the model that it was "
        f"trained on, with this folder as its adapter (--adapter {folder.name})."
    )


def open_adapter(path: Path) -> Adapter:
    """Read an adapter's config and describe its tensors.

    Raises
    ------
    CheckpointError
        For a folder that is none, and for kinds that cannot be merged.
    ConfigError
        For a field that makes no sense.
    """
    folder = _folder(place_of(path).path)
    if not (folder / CONFIG).is_file():
        raise CheckpointError(f"There is no {CONFIG} at {path}, so it is no adapter; give the folder that peft wrote.")
    fields = Fields(read_json(folder / CONFIG), f"{CONFIG} of {_name(folder)}")
    _check_kind(fields, folder)
    rank = fields.count("r", default=8)
    is_dora = fields.flag("use_dora", default=False)
    scales = _Scales(fields, rank)
    if unread := fields.unread(INERT | frozenset(REFUSED)):
        odd = [name for name in unread if fields.values[name] not in (False, 0, "", [], {})]
        if odd:
            raise CheckpointError(
                f"{fields.where} has the field {odd[0]!r:.60}, which Ropewalk does not know in an adapter, so it "
                "cannot say what merging it means; merge it with the peft that wrote it."
            )
    files = _files(folder)
    changes, whole = _sorted_out(files, folder)
    for module, change in changes.items():
        if is_dora and "lora_A" in change.parts and MAGNITUDE not in change.parts:
            raise CheckpointError(
                f"{_name(folder)} is a DoRA adapter, but holds no magnitudes of {module}; download it again."
            )
        stored = files.tensors[change.parts.get("lora_A") or change.parts["lora_embedding_A"]]
        change.scale = scales.of(module, stored.shape[0] if stored.shape else 0)
    return Adapter(
        path=folder,
        name=_name(folder),
        base=fields.text("base_model_name_or_path", default=""),
        files=files,
        changes=changes,
        whole=whole,
        summary=_summary(files, changes, whole),
    )


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _name(folder: Path) -> str:
    whole = folder.resolve()
    return name_of(whole.parent.parent) if whole.parent.name == "snapshots" else whole.name


def _check_kind(fields: Fields, folder: Path) -> None:
    kind = fields.text("peft_type", default="LORA")
    if kind.upper() != "LORA":
        raise CheckpointError(
            f"{_name(folder)} is a {kind:.40} adapter, but Ropewalk merges LoRA alone; merge it with peft and open the "
            "result."
        )
    for name, why in REFUSED.items():
        if fields.raw(name, default=None):
            raise CheckpointError(
                f"{_name(folder)} cannot be merged here: {why} ({name}); merge it with peft and open the result."
            )
    begun = fields.values.get("init_lora_weights", True)
    if isinstance(begun, str) and begun.lower().startswith(CHANGES_BASE):
        raise CheckpointError(
            f"{_name(folder)} cannot be merged here: it began as {begun:.40}, which changes its base before training "
            "(init_lora_weights); convert it to a plain LoRA with peft first."
        )


class _Scales:
    """α/r of each module, by the patterns of the config."""

    def __init__(self, fields: Fields, rank: int) -> None:
        self._fields = fields
        self._rank = rank
        self._alpha = fields.number("lora_alpha", default=8.0)
        self._root = fields.flag("use_rslora", default=False)
        self._ranks, self._alphas = (self._pattern(name) for name in ("rank_pattern", "alpha_pattern"))

    def _pattern(self, name: str) -> dict[str, float]:
        inner = self._fields.inner(name)
        if inner is None:
            return {}
        for key in inner.values:
            if len(QUANTIFIERS.findall(key)) > 3 or re.search(r"\)[*+?{]", key) or len(key) > 200:
                raise CheckpointError(
                    f"{inner.where} has the pattern {key!r:.60}, which is too intricate to be matched safely; name the "
                    "modules plainly."
                )
        return {key: inner.above_zero(key) for key in inner.values}

    def of(self, module: str, stored_rank: int) -> float:
        """The scale of a module whose A has so many rows."""
        rank = self._matched(self._ranks, module, self._rank)
        if rank != stored_rank:
            raise CheckpointError(
                f"{self._fields.where} gives {module:.120} the rank {rank:g}, but its matrices have {stored_rank}; the "
                "files are of different adapters, so download the folder again."
            )
        alpha = self._matched(self._alphas, module, self._alpha)
        return alpha / math.sqrt(rank) if self._root else alpha / rank

    @staticmethod
    def _matched(pattern: Mapping[str, float], module: str, otherwise: float) -> float:
        for key, value in pattern.items():
            try:
                if re.match(rf"(.*\.)?({key})$", module):
                    return value
            except re.error:
                continue
        return otherwise


def _files(folder: Path) -> TensorFile:
    if (folder / SAFETENSORS).is_file():
        return safetensors_files.open_single(folder / SAFETENSORS)
    if (folder / TORCH).is_file():
        return torch_files.open_single(folder / TORCH)
    raise CheckpointError(f"{_name(folder)} has an {CONFIG} but no {SAFETENSORS}; download its weights too.")


def _sorted_out(files: TensorFile, folder: Path) -> tuple[dict[str, Change], dict[str, str]]:
    """What each tensor belongs to."""
    changes: dict[str, Change] = {}
    whole: dict[str, str] = {}
    for name in files.tensors:
        own = name.removeprefix(PREFIX)
        if match := PARTS.fullmatch(own):
            changes.setdefault(match["module"], Change()).parts[match["part"]] = name
        elif OTHER_HEADS.fullmatch(own):
            continue
        elif "lora_" not in own and (match := WHOLE.fullmatch(own)):
            whole[f"{match['module']}.{match['kind']}"] = name
        else:
            raise CheckpointError(
                f"{_name(folder)} holds the tensor {name!r:.120}, which is of no kind that Ropewalk merges; merge it "
                "with peft and open the result."
            )
    for module, change in changes.items():
        pairs = ({"lora_A", "lora_B"}, {"lora_embedding_A", "lora_embedding_B"})
        found = set(change.parts) - {MAGNITUDE}
        if found not in pairs:
            raise CheckpointError(
                f"{_name(folder)} holds {', '.join(sorted(found)) or 'a magnitude alone'} of {module:.120}, but A and "
                "B belong together; download it again."
            )
    if not changes and not whole:
        raise CheckpointError(f"{_name(folder)} holds no tensors, so there is nothing to merge; download it again.")
    return changes, whole


def _summary(files: TensorFile, changes: Mapping[str, Change], whole: Mapping[str, str]) -> str:
    """Such as: LoRA of rank 8 on 64 matrices (q_proj, v_proj)."""
    kinds = sorted({module.rpartition(".")[2] for module in changes})
    named = [change.parts.get("lora_A") or change.parts["lora_embedding_A"] for change in changes.values()]
    ranks = sorted({files.tensors[name].shape[0] for name in named})
    dora = "DoRA" if any(MAGNITUDE in one.parts for one in changes.values()) else "LoRA"
    between = "" if not ranks else f" of rank {ranks[0]}" + (f" to {ranks[-1]}" if len(ranks) > 1 else "")
    taken = f", and {len(whole)} weights of its own" if whole else ""
    return f"{dora}{between} on {len(changes)} matrices ({', '.join(kinds)[:120]}){taken}"
