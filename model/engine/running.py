"""How the model of a checkpoint runs: in our decoder, or, opened via transformers, by itself.

It is a part of the engine, the only one that knows of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ropewalk.model.checkpoints import Checkpoint
from ropewalk.model.checkpoints.opening import Outline
from ropewalk.model.decoder.config import FIRST_LAYERS
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.interventions import AblateHeads, Intervention, check_interventions
from ropewalk.model.engine.interface import TRANSFORMERS_LACKS
from ropewalk.model.engine.questions import EVERYTHING, Capability
from ropewalk.model.errors import CheckpointError
from ropewalk.model.options import ADAPTER, FAMILY, IGNORE, PRODUCTS, TRANSFORMERS, VIA, Options
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.readings import attribution, next_token
from ropewalk.model.readings.records import HeadNeeds
from ropewalk.model.runs import trace as runs
from ropewalk.model.runs.budget import Logits
from ropewalk.model.runs.trace import Trace

if TYPE_CHECKING:
    from ropewalk.model.transformers_models.opening import TransformersCheckpoint

Opened: TypeAlias = "Checkpoint | TransformersCheckpoint"

OF_OUR_DECODER = {
    FIRST_LAYERS: "Fewer layers",
    FAMILY: "A family",
    IGNORE: "Fields to ignore",
    ADAPTER: "An adapter",
    PRODUCTS: "A library for products",
}
"""Options that are for Ropewalk's own decoder alone."""
HEADLESS_ADVICE = "its model was saved without a last matrix, so open a copy that has one"


def is_via_transformers(options: Options | None, path: str | None) -> bool:
    """Whether a model is to be opened by transformers.

    Raises
    ------
    CheckpointError
        For another name than that one, without a path, and where transformers is not installed.
    """
    via = (options or {}).get(VIA)
    if not via:
        return False
    if via != TRANSFORMERS:
        raise CheckpointError(f"There is no way to open a model via {via!r:.40}; there is {TRANSFORMERS}.")
    if path is None:
        raise CheckpointError("The model that comes with Ropewalk is in its own decoder; name a folder to open.")
    other = next((what for name, what in OF_OUR_DECODER.items() if name in (options or {})), "")
    if other:
        raise CheckpointError(f"{other} cannot be chosen for a model that transformers runs; leave it out.")
    if find_spec("transformers") is None:
        raise CheckpointError(
            "The transformers package is not installed where the engine runs; install it with Ropewalk, as "
            "pip install 'ropewalk[transformers]'."
        )
    return True


def open_via_transformers(path: str, device: str, dtype: str) -> Steps[TransformersCheckpoint]:
    """Open a folder by transformers; its import waits until somebody needs it."""
    from ropewalk.model.transformers_models.opening import open_steps

    return (yield from open_steps(path, device=device, dtype=dtype))


def outline_via_transformers(path: str) -> Outline:
    """Say what such a folder is and would cost."""
    from ropewalk.model.transformers_models.opening import outline

    return outline(path)


def abilities(checkpoint: Opened) -> frozenset[Capability]:
    """What may be done with a checkpoint's model and its runs."""
    can = EVERYTHING if isinstance(checkpoint, Checkpoint) else EVERYTHING - TRANSFORMERS_LACKS
    if not checkpoint.has_logits:
        can -= {"logits", "unembedding", "decode"}
    if not isinstance(checkpoint, Checkpoint) and not checkpoint.model.decodes:
        can -= {"decode"}
    return can


def device_of(checkpoint: Opened) -> torch.device:
    """Where a checkpoint's model runs."""
    return checkpoint.model.embed.weight.device if isinstance(checkpoint, Checkpoint) else checkpoint.device


def decoder_of(checkpoint: Opened) -> Decoder | None:
    """Our decoder, None where transformers runs the model or there is none."""
    return checkpoint.model if isinstance(checkpoint, Checkpoint) and not checkpoint.shapes_only else None


def check_changes(checkpoint: Opened, interventions: Sequence[Intervention]) -> None:
    """Refuse interventions that the model does not take."""
    if isinstance(checkpoint, Checkpoint):
        check_interventions(interventions, checkpoint.config)
    else:
        checkpoint.model.check_interventions(interventions)


def capture_steps(
    checkpoint: Opened,
    ids: Sequence[int] | Sequence[Sequence[int]],
    *,
    run_id: int = 0,
    logits: Logits | None = None,
    chunk: int = 0,
    interventions: Sequence[Intervention] = (),
    what: str = "Running the prompt",
) -> Steps[Trace]:
    """Run a prompt and keep what is needed to look at it; ``chunk`` is for our decoder alone."""
    if not isinstance(checkpoint, Checkpoint):
        return checkpoint.capture_steps(ids, run_id=run_id, logits=logits, interventions=interventions, what=what)
    return runs.capture_steps(
        checkpoint.model, ids, run_id=run_id, logits=logits, chunk=chunk, interventions=interventions, what=what
    )


def append_steps(checkpoint: Opened, trace: Trace, ids: int | Sequence[int]) -> Steps[Trace]:
    """Decode one step: a token for each prompt."""
    if not isinstance(checkpoint, Checkpoint):
        return checkpoint.append_steps(trace, ids)
    return runs.append_steps(checkpoint.model, trace, ids)


def row_logits(checkpoint: Opened, trace: Trace, row: int, *, batch: int = 0) -> tuple[Tensor, bool]:
    """Logits [V] of one row, and whether they had to be computed again because the trace does not keep them."""
    model: Any = checkpoint.model  # None of a trace file, which has what was kept
    if isinstance(checkpoint, Checkpoint) or model is None or trace.logits_of(row) is not None:
        return next_token.row_logits(model, trace, row, batch=batch)
    return checkpoint.logits_after(trace, row)[batch], True


def logits_under_steps(
    checkpoint: Opened, trace: Trace, row: int, interventions: Sequence[Intervention]
) -> Steps[Tensor]:
    """The logits [V] after one row under other interventions than the run's."""
    if isinstance(checkpoint, Checkpoint):
        return attribution.logits_under_steps(checkpoint.model, trace, row, interventions)
    return checkpoint.logits_under_steps(trace, row, interventions)


def head_needs_steps(checkpoint: Opened, trace: Trace, row: int, token: int) -> Steps[HeadNeeds]:
    """Ablate every head in turn and read the change of one token's logit after one row, pausing after each."""
    if isinstance(checkpoint, Checkpoint):
        return (yield from attribution.head_needs_steps(checkpoint.model, trace, row, token))
    c, active = checkpoint.config, trace.interventions
    clean = float((yield from checkpoint.logits_under_steps(trace, row, active))[token])
    change = np.full((c.layers, c.heads), np.nan)
    for layer, head in np.ndindex(change.shape):
        yield Progress(layer * c.heads + head, change.size, "Ablating each head in turn")
        logits = yield from checkpoint.logits_under_steps(trace, row, (*active, AblateHeads(layer, (head,))))
        change[layer, head] = float(logits[token]) - clean
    change.setflags(write=False)
    return HeadNeeds(row, token, clean, change)
