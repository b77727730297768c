"""Opening the first layers of a checkpoint: their stream is the whole model's, read by its own norm and head."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ropewalk.model.checkpoints import open_checkpoint, outline_checkpoint
from ropewalk.model.decoder.config import FIRST_LAYERS, ModelConfig, MoeConfig, RopeConfig
from ropewalk.model.decoder.costs import parameters
from ropewalk.model.decoder.hooks import capture
from ropewalk.model.errors import CheckpointError, ConfigError

IDS = torch.tensor([[5, 17, 300, 5, 17, 42, 9]])


def stream_after(layer: int) -> Tensor:
    """The whole bundled model's stream after a layer [1, T, D], read as logits [1, T, V]."""
    model = open_checkpoint(None).model
    with torch.no_grad(), capture(model, [f"blocks.{layer}.hook_resid_post"]) as seen:
        model(IDS)
        stream = seen[f"blocks.{layer}.hook_resid_post"]
        logits: Tensor = model.finish(stream)
    return logits


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_logits_are_those_of_the_stream_after_the_last_layer_that_is_open(layers: int) -> None:
    checkpoint = open_checkpoint(None, options={FIRST_LAYERS: layers})
    with torch.no_grad():
        logits = checkpoint.model(IDS)
    assert checkpoint.config.layers == len(checkpoint.model.blocks) == layers
    assert checkpoint.name == f"bundled, {layers} of 4 layers"
    assert checkpoint.parameters == parameters(checkpoint.config).total
    assert f"first {layers} of 4 layers" in checkpoint.notes[0]
    torch.testing.assert_close(logits, stream_after(layers - 1), atol=1e-5, rtol=0)


def test_all_layers_are_nothing_special() -> None:
    checkpoint = open_checkpoint(None, options={FIRST_LAYERS: 4})
    assert (checkpoint.name, checkpoint.notes) == ("bundled", ())


def test_the_outline_counts_what_would_be_open() -> None:
    outline = outline_checkpoint(None, options={FIRST_LAYERS: 2})
    assert outline.config.layers == 2
    assert outline.parameters == parameters(outline.config).total


@pytest.mark.parametrize(("layers", "error"), [(5, ConfigError), (0, CheckpointError), (-1, CheckpointError)])
def test_more_layers_than_there_are_or_none_is_refused(layers: int, error: type[Exception]) -> None:
    with pytest.raises(error, match=str(layers)):
        open_checkpoint(None, options={FIRST_LAYERS: layers})


def test_lists_of_layers_are_cut_with_them() -> None:
    config = ModelConfig(
        vocabulary=32, width=16, layers=3, heads=2, kv_heads=1, head_width=8, mlp_width=16, max_position=32,
        rope=RopeConfig(base=10_000.0), window=4, window_layers=(True, False, True), rope_layers=(True, True, False),
        moe=MoeConfig(experts=4, per_token=2, width=8, layers=(False, True, True)),
    )  # fmt: skip
    first = config.first(2)
    assert (first.layers, first.window_layers, first.rope_layers) == (2, (True, False), (True, True))
    assert first.moe is not None
    assert first.moe.layers == (False, True)
