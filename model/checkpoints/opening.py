"""From a path to a model that runs: recognise the format, read the config, build on the meta device, load.

Nothing is allocated before names, shapes, config and free memory agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import torch

from ropewalk.model.checkpoints.adapter_file import Adapter, alone, is_adapter, open_adapter
from ropewalk.model.checkpoints.adapter_merging import merge_steps, merges_of, unties
from ropewalk.model.checkpoints.config_file import whole_option
from ropewalk.model.checkpoints.families.layouts import WeightMap
from ropewalk.model.checkpoints.families.reading import family_of, read_config
from ropewalk.model.checkpoints.families.table import Family
from ropewalk.model.checkpoints.formats.hub_cache import place_of
from ropewalk.model.checkpoints.formats.magic import kind_of
from ropewalk.model.checkpoints.formats.mxfp4 import unpacked_source
from ropewalk.model.checkpoints.formats.table import FORMATS
from ropewalk.model.checkpoints.multimodal import text_part
from ropewalk.model.checkpoints.renamed import under_family_names
from ropewalk.model.checkpoints.source import Question, Source, TensorFile
from ropewalk.model.checkpoints.weights import (
    empty_model_steps,
    load_steps,
    of_first_layers,
    pattern_of,
    patterns_of,
    plan,
    same_matrix_steps,
    stored_under,
    without_later_layers,
)
from ropewalk.model.decoder import product_choice
from ropewalk.model.decoder.config import FIRST_LAYERS, ModelConfig
from ropewalk.model.decoder.costs import format_bytes, kv_bytes, parameters, weight_bytes
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.errors import CheckpointError, DeviceError, TokenizerError
from ropewalk.model.limits import limited
from ropewalk.model.options import ADAPTER, FAMILY, PRODUCTS, Options, ignored, with_asked
from ropewalk.model.progress import SLICE_SECONDS, Progress, Steps, finished
from ropewalk.model.tokens.tokenizer import Tokenizer, library_errors
from ropewalk.resources import resource

BUNDLED = resource("bundled")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
WRITERS = re.compile("LMHead|CausalLM|ConditionalGeneration")
"""Classes of transformers that have a last matrix are called so."""
WITHOUT_HEAD = (
    "There is no last matrix here, as AutoModel saves a model, and the config does not say that it is the embedding "
    "(tie_word_embeddings): everything is there but logits and what follows from them."
)
UNREADABLE = "The tokenizer cannot be read, because its files contradict each other; type token ids instead."
MOST_EXPERTS = 1 << 16
"""Experts of all layers together; more would take minutes to build even without memory."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """An open checkpoint.

    Attributes
    ----------
    model
        The decoder, in evaluation mode, on its device; on the meta device, without numbers, where there are only
        shapes.
    tokenizer
        None where the checkpoint has none; then ids are typed instead of text.
    name, path, family
        What to call it, where it lies, and the entry of the family table that it is.
    parameters, weight_bytes
        Numbers in the model, a tied matrix counted once, and the bytes they take.
    questions, notes
        What the file left open and was assumed; what was inferred or left out, in sentences.
    has_logits
        Whether there is a last matrix; without one, logits are not numbers.
    unread
        Why there is no tokenizer although there is a file of one, in a sentence; it is among the notes too.
    ends
        Tokens that end a text or a turn of it.
    """

    model: Decoder
    config: ModelConfig
    tokenizer: Tokenizer | None
    name: str
    path: str
    family: str
    parameters: int
    weight_bytes: int
    questions: tuple[Question, ...] = ()
    notes: tuple[str, ...] = ()
    unread: str = ""
    has_logits: bool = True
    ends: frozenset[int] = frozenset()

    @property
    def shapes_only(self) -> bool:
        """Whether there are no weights, so that only shapes, costs and frequencies can be shown."""
        return self.model.embed.weight.is_meta


@dataclass(frozen=True)
class Outline:
    """A checkpoint before it is loaded: what it is and what it would cost.

    Attributes
    ----------
    bytes_in
        Dtype → bytes of the weights.
    kv_bytes_in
        Dtype → bytes that a thousand tokens of K and V take.
    holds_weights
        False where there are only shapes.
    tokenizer
        The tokenizer, where it was asked for and there is one.
    """

    name: str
    path: str
    family: str
    config: ModelConfig
    parameters: int
    bytes_in: Mapping[str, int]
    kv_bytes_in: Mapping[str, int]
    holds_weights: bool
    questions: tuple[Question, ...]
    notes: tuple[str, ...]
    tokenizer: Tokenizer | None = None


@dataclass(frozen=True, eq=False)
class _Described:
    """A source whose config is read; ``headless`` where there is no last matrix.

    ``baked`` is what the files have added to the gains of norms already.
    """

    source: Source
    family: Family
    config: ModelConfig
    weights: WeightMap
    headless: bool
    baked: float


def open_checkpoint(
    path: str | Path | None = None,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    options: Options | None = None,
    adapter: str | Path | None = None,
    family: str | None = None,
    ignore: Sequence[str] = (),
) -> Checkpoint:
    """Open a checkpoint without pausing; :func:`open_steps` says what is taken and raised."""
    asked = with_asked(options, adapter=adapter, family=family, ignore=ignore)
    return finished(open_steps(path, device=device, dtype=dtype, options=asked))


def open_steps(
    path: str | Path | None,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    options: Options | None = None,
    adapter: str | Path | None = None,
    family: str | None = None,
    ignore: Sequence[str] = (),
    large_pages: bool = False,
) -> Steps[Checkpoint]:
    """Open a checkpoint, pausing after every slice of time; when it is given up, its files are closed.

    Parameters
    ----------
    path
        A folder or a file; None is the model that comes with Ropewalk.
    device, dtype
        Where the weights go and as what.
    options
        Answers to what a file leaves open, by the names that :attr:`Outline.questions` lists; and ``FIRST_LAYERS``,
        how many layers to open. What comes next may be among them by the names of ``model.options``, as the window
        remembers it.
    adapter
        The folder of a LoRA adapter to merge into the weights.
    family
        The family to take, whatever ``model_type`` the config has.
    ignore
        Fields of the config to leave out because they are known to change nothing.
    large_pages
        Whether the weights lie in large pages where the system has them, for many decode steps
        (``model.decoder.packing``).

    Raises
    ------
    CheckpointError
        For a file that cannot be opened: what was found, what was expected, what to do.
    ShapeError, ConfigError
        For weights or fields that contradict each other.
    DeviceError
        For a device or dtype that is not there, or memory that does not suffice.
    """
    options = with_asked(options, adapter=adapter, family=family, ignore=ignore)
    place, kind, products = device_of(device), dtype_of(dtype), product_choice.wanted(options.get(PRODUCTS))
    yield Progress(0, 1, "Reading the checkpoint")
    with _described(path, options) as described, _adapter(options) as lora:
        source, files = described.source, described.source.files
        config = yield from _tied_steps(described)
        layers = whole_option(options, FIRST_LAYERS, config.layers)
        whole, config = config, config.first(layers)
        if files is not None:
            _check_memory(config, place, dtype)
        model = yield from empty_model_steps(config if files is None else whole)
        yield Progress(0, 1, "Reading the checkpoint")
        if files is not None:
            where = source.path.name
            placements = plan(files, described.weights, model, where, described.family.name, described.headless)
            if layers < whole.layers:
                model, placements = without_later_layers(model, config), of_first_layers(placements, layers)
            merges = () if lora is None else merges_of(lora, described.family.weights, model, whole.layers)
            yield from load_steps(model, placements, files, device=place, dtype=kind, large_pages=large_pages)
            if described.headless:
                model.head.weight.fill_(torch.nan)
            if lora is not None:
                yield from merge_steps(model, merges, lora, described.baked)
                config = model.config
        elif lora is not None:
            merges_of(lora, described.family.weights, model, whole.layers)
        tokenizer, unread = yield from _tokenizer_steps(source)
        assumed = () if tokenizer is None else tokenizer.notes
        ends = {*source.ends, *(() if tokenizer is None else tokenizer.ends)}
        model.eval()
        product_choice.adopt(model, products)
        count = sum(value.numel() for value in model.parameters())
        if described.headless:
            count -= model.head.weight.numel()
        return Checkpoint(
            model=model,
            config=config,
            tokenizer=tokenizer,
            name=_name(path, source, lora, layers, whole),
            path=str(source.path),
            family=described.family.name,
            parameters=count,
            weight_bytes=count * kind.itemsize,
            questions=source.questions,
            notes=(*assumed, *_notes(source, lora, layers, whole, unread)),
            unread=unread,
            has_logits=not described.headless,
            ends=frozenset(token for token in ends if 0 <= token < config.vocabulary),
        )


@contextmanager
def _adapter(options: Options) -> Iterator[Adapter | None]:
    """The adapter that is asked for; its files are closed at the end."""
    path = options.get(ADAPTER)
    if not path:
        yield None
        return
    with _readable(Path(str(path))):
        lora = open_adapter(Path(str(path)).expanduser())
        try:
            yield lora
        finally:
            lora.files.close()


def _name(path: str | Path | None, source: Source, lora: Adapter | None, layers: int, whole: ModelConfig) -> str:
    """What to call what is open: the checkpoint, its adapter, and how much of it."""
    name = ("bundled" if path is None else source.name) + ("" if lora is None else f" + {lora.name}")
    return name + ("" if layers == whole.layers else f", {layers} of {whole.layers} layers")


def _notes(source: Source, lora: Adapter | None, layers: int, whole: ModelConfig, unread: str) -> tuple[str, ...]:
    return tuple(note for note in (*source.notes, _of_adapter(lora), _of_layers(layers, whole), unread) if note)


def _of_adapter(lora: Adapter | None) -> str:
    """What was merged, in a sentence; empty where nothing was."""
    if lora is None:
        return ""
    trained = f"trained on {lora.base:.120}" if lora.base else "which does not say what it was trained on"
    return f"{lora.name} is merged into the weights: {lora.summary}, {trained}."


def _of_layers(layers: int, config: ModelConfig) -> str:
    """What is left out, in a sentence; empty where nothing is."""
    if layers == config.layers:
        return ""
    return f"Only the first {layers} of {config.layers} layers are open; the final norm and the head read their stream."


def outline_checkpoint(
    path: str | Path | None,
    *,
    options: Options | None = None,
    adapter: str | Path | None = None,
    family: str | None = None,
    ignore: Sequence[str] = (),
    tokenizer: bool = False,
) -> Outline:
    """Say what a checkpoint is and would cost, without loading it; parameters as in :func:`open_steps`.

    ``tokenizer`` says whether to read the tokenizer too, which may take a second.

    Raises
    ------
    CheckpointError, ConfigError
        As :func:`open_checkpoint` does.
    """
    options = with_asked(options, adapter=adapter, family=family, ignore=ignore)
    with _described(path, options) as described, _adapter(options) as lora:
        source, whole = described.source, finished(_tied_steps(described, pieces=1))
        if lora is not None:
            merges = merges_of(lora, described.family.weights, finished(empty_model_steps(whole)), whole.layers)
            whole = whole.changed(tied=False) if unties(whole, merges) else whole
        config = whole.first(whole_option(options, FIRST_LAYERS, whole.layers))
        missing = config.vocabulary * config.width if described.headless else 0
        read, unread = finished(_tokenizer_steps(source)) if tokenizer else (None, "")
        return Outline(
            name=_name(path, source, lora, config.layers, whole),
            path=str(source.path),
            family=described.family.name,
            config=config,
            parameters=parameters(config).total - missing,
            bytes_in={name: weight_bytes(config, name) - missing * dtype.itemsize for name, dtype in DTYPES.items()},
            kv_bytes_in={dtype: kv_bytes(config, 1000, dtype) for dtype in DTYPES},
            holds_weights=source.files is not None,
            questions=source.questions,
            notes=_notes(source, lora, config.layers, whole, unread),
            tokenizer=read,
        )


@contextmanager
def _described(path: str | Path | None, options: Options) -> Iterator[_Described]:
    """A source with its config read; its files are closed at the end."""
    place = BUNDLED if path is None else Path(path)
    with _readable(place):
        with limited("checkpoint", place.name):
            source = describe(place, options)
        try:
            with limited("checkpoint", place.name):
                described = _configured(unpacked_source(text_part(source)), options)
            yield described
        finally:
            if source.files is not None:
                source.files.close()


@contextmanager
def _readable(place: Path) -> Iterator[None]:
    """What the system raises becomes a sentence."""
    try:
        yield
    except PermissionError as error:
        name = Path(error.filename or place).name
        raise CheckpointError(
            f"{name} may not be read by this user; change its permissions or copy it somewhere else.", str(error)
        ) from error
    except OSError as error:
        raise CheckpointError(
            f"{Path(error.filename or place).name} cannot be read ({error.strerror or error}); check the disk and the "
            "path.",
            str(error),
        ) from error


def describe(path: Path, options: Options) -> Source:
    """Recognise the format of a path and read its descriptions, not its tensors."""
    if not path.exists():
        raise CheckpointError(f"There is nothing at {path}; check the path.")
    place = place_of(path)
    path = place.path
    if is_adapter(path):
        raise CheckpointError(alone(path))
    for format_ in FORMATS:
        if format_.recognises(path):
            source = format_.open(path, options)
            named = place.name if path.is_dir() and place.name else source.name
            return replace(source, name=named, notes=(*place.notes, *source.notes))
    if path.is_dir():
        empty = not any(path.iterdir())
        found = "is empty" if empty else "has no config.json, params.json or other description of a model"
        raise CheckpointError(f"The folder {path.resolve().name} {found}; open the folder or file that holds a model.")
    if kind_of(path) == "safetensors":
        raise CheckpointError(
            f"{path.name} holds weights, but no config.json beside it says of what; put its config.json into the same "
            "folder."
        )
    raise CheckpointError(
        f"{path.name} is not a checkpoint that Ropewalk knows; it opens {', '.join(one.name for one in FORMATS)}."
    )


def _configured(source: Source, options: Options) -> _Described:
    forced, headless = str(options.get(FAMILY, "")), False
    family = family_of(source.config, source.config_name, forced)
    weights = family.weights if source.weights is None else source.weights
    if source.files is not None and source.weights is None:
        named = under_family_names(source.files, weights)
        source = replace(source, files=named.files, notes=(*source.notes, *named.notes))
        headless = (named.bare or _is_bare(source.config)) and stored_under("head.weight", weights, named.files) is None
    files = source.files
    stored = None if files is None else patterns_of(files.tensors)
    read = read_config(
        source.config, source.config_name, stored, forced=forced, ignore=ignored(options), headless=headless
    )
    config, notes, baked = read.config, [*source.notes, *read.notes], 0.0
    headless = headless and not config.tied
    if headless:
        notes.append(WITHOUT_HEAD)
    if source.adjust is not None:
        config = source.adjust(config)
        baked = read.config.norm_offset - config.norm_offset
    if config.moe is not None and config.moe.experts * config.layers > MOST_EXPERTS:
        raise CheckpointError(
            f"{source.config_name} asks for {config.moe.experts:,} experts in {config.layers:,} layers, more than "
            f"Ropewalk builds ({MOST_EXPERTS:,} in all)."
        )
    if files is not None:
        _check_depth(config, files, source)
    return _Described(replace(source, notes=tuple(notes)), family, config, weights, headless, baked)


def _is_bare(config: Mapping[str, Any]) -> bool:
    """Whether the class that saved the weights is one without a last matrix, such as ``MistralModel``."""
    named = config.get("architectures")
    first = named[0] if isinstance(named, list) and named else None
    return isinstance(first, str) and WRITERS.search(first) is None


def _check_depth(config: ModelConfig, files: TensorFile, source: Source) -> None:
    """Refuse a config with another number of layers than the file before anything is built."""
    numbers = [numbers for _, numbers in map(pattern_of, files.tensors) if numbers]
    stored = 1 + max((int(first[0]) for first in numbers if len(first[0]) < 7), default=-1)
    if stored != config.layers:
        raise CheckpointError(
            f"{source.config_name} asks for {config.layers:,} layers, but the weights hold {stored:,}; the download is "
            "not complete or the config is of another model."
        )


def _tied_steps(described: _Described, pieces: int | None = None) -> Steps[ModelConfig]:
    """A config that ties the last matrix, for a file that holds it with other numbers, is taken at the file's word.

    ``pieces`` is how much of the two is compared at most, None for all.
    """
    config, files = described.config, described.source.files
    if not config.tied or files is None:
        return config
    head, embed = (stored_under(target, described.weights, files) for target in ("head.weight", "embed.weight"))
    if head is None or embed is None or (yield from same_matrix_steps(files, head, embed, pieces)):
        return config
    return config.changed(tied=False)


def _tokenizer_steps(source: Source) -> Steps[tuple[Tokenizer | None, str]]:
    """The tokenizer, or why it cannot be read; that refuses nothing, since ids can still be typed.

    It is read on a thread of its own, which ends here: a large vocabulary takes a second that no slice can hold.
    """
    with ThreadPoolExecutor(1, "ropewalk-tokenizer") as pool:
        reading = pool.submit(_tokenizer_of, source)
        while not reading.done():
            wait([reading], timeout=SLICE_SECONDS)
            yield Progress(1, 1, "Reading the tokenizer")
    try:
        return reading.result(), ""
    except TokenizerError as error:
        return None, error.sentence


def _tokenizer_of(source: Source) -> Tokenizer | None:
    with limited("tokenizer", source.name), library_errors(UNREADABLE):
        return source.tokenizer()


# ----------------------------------------------------------------------------------------------------------------------
# Devices, dtypes and memory


def device_of(name: str) -> torch.device:
    """A device by name.

    Raises
    ------
    DeviceError
        When the machine does not have it.
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise DeviceError(
            f"There is no device named {name!r:.40}; choose {', '.join(available_devices())}.", str(error)
        ) from error
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }
    if not there.get(device.type, False):
        raise DeviceError(f"The device {name} is not there; choose {', '.join(available_devices())}.")
    return device


def device_name(name: str) -> str:
    """A device as :func:`available_devices` calls it: of several, the first is ``cuda:0``."""
    return "cuda:0" if name == "cuda" and torch.cuda.device_count() > 1 else name


def available_devices() -> tuple[str, ...]:
    """The devices that this machine has, each by a name of its own."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    cuda = ("cuda",) if count == 1 else tuple(f"cuda:{index}" for index in range(count))
    mps = ("mps",) if torch.backends.mps.is_available() else ()
    return ("cpu", *cuda, *mps)


def dtype_of(name: str) -> torch.dtype:
    """A dtype by name.

    Raises
    ------
    DeviceError
        When it is not one that models run in.
    """
    if name not in DTYPES:
        raise DeviceError(f"The dtype {name!r:.40} is not one that models run in; choose {', '.join(DTYPES)}.")
    return DTYPES[name]


def free_bytes(device: torch.device) -> int:
    """Memory that is free on a device; of the machine, where the device shares it."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    return int(psutil.virtual_memory().available)


def _check_memory(config: ModelConfig, device: torch.device, dtype: str) -> None:
    """Refuse a model that cannot fit before it is tried, and say what would."""
    free, wanted = free_bytes(device), weight_bytes(config, dtype)
    if wanted <= free:
        return
    fitting = [name for name in DTYPES if weight_bytes(config, name) <= free]
    advice = f"open it in {' or '.join(fitting)}" if fitting else "open its config.json alone for shapes and costs"
    raise DeviceError(
        f"The weights take {format_bytes(wanted)} in {dtype}, but {format_bytes(free)} of memory are free on "
        f"{device}; {advice}."
    )
