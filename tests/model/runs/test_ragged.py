"""Prompts of different lengths in one batch: each is what it is alone, also where positions are learned."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ropewalk.model.checkpoints import Checkpoint, open_checkpoint
from ropewalk.model.decoder.cache import KvCache
from ropewalk.model.runs.trace import Trace, append, capture
from tests.model.checkpoints import reference
from tests.model.checkpoints.reference import CASES

PROMPTS = ([5, 6, 7, 8, 9, 10, 11, 12], [9, 4, 7], [3, 3, 8, 1, 2])
CLOSE = 1e-5
STEPS = 3


@pytest.fixture(scope="module", params=["gpt2", "llama", "hunyuan_v1_dense"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Checkpoint]:
    """A family with learned positions, one that turns, and one in which turning is not relative."""
    case = next(case for case in CASES if (case.family, case.variant) == (request.param, "plain"))
    model = reference.build(case)
    return model, open_checkpoint(reference.save(model, tmp_path_factory.mktemp(request.param)))


def padded(left: bool) -> tuple[torch.Tensor, torch.Tensor]:
    length = max(map(len, PROMPTS))
    ids, real = torch.zeros(len(PROMPTS), length, dtype=torch.long), torch.zeros(len(PROMPTS), length, dtype=torch.bool)
    for row, prompt in enumerate(PROMPTS):
        place = slice(length - len(prompt), length) if left else slice(0, len(prompt))
        ids[row, place], real[row, place] = torch.tensor(prompt), True
    return ids, real


def last(trace: Trace) -> torch.Tensor:
    logits = trace.logits_of(trace.length - 1)
    assert logits is not None
    return logits


def test_each_is_what_it_is_alone(both: tuple[Any, Checkpoint]) -> None:
    model = both[1].model
    ids, real = padded(left=True)
    batch, alone = capture(model, ids, padding=real), [capture(model, torch.tensor([one])) for one in PROMPTS]
    for step in range(STEPS):
        for row, trace in enumerate(alone):
            assert float((last(batch)[row] - last(trace)[0]).abs().max()) <= CLOSE
            count = trace.length
            ours, theirs = batch[1].lse.tensor[row, ..., -count:], trace[1].lse.tensor[0]
            assert float((ours - theirs).abs().max()) <= CLOSE
        batch = append(model, batch, [20 + step] * 3)
        alone = [append(model, trace, 20 + step) for trace in alone]


def test_padding_behind_changes_nothing_either(both: tuple[Any, Checkpoint]) -> None:
    model = both[1].model
    ids, real = padded(left=False)
    batch = append(model, capture(model, ids, padding=real), [20] * 3)
    for row, prompt in enumerate(PROMPTS):
        alone = append(model, capture(model, torch.tensor([prompt])), 20)
        assert float((last(batch)[row] - last(alone)[0]).abs().max()) <= CLOSE


def test_a_padded_batch_is_what_transformers_generates_from(both: tuple[Any, Checkpoint]) -> None:
    theirs, checkpoint = both
    ids, real = padded(left=True)
    with torch.no_grad():
        out = theirs.generate(
            ids, attention_mask=real.long(), max_new_tokens=STEPS, do_sample=False, output_logits=True,
            return_dict_in_generate=True, pad_token_id=0, eos_token_id=[96],
        )  # fmt: skip
    trace = capture(checkpoint.model, ids, padding=real)
    for step, expected in enumerate(out.logits):
        assert float((last(trace) - expected).abs().max()) <= CLOSE
        trace = append(checkpoint.model, trace, out.sequences[:, ids.shape[1] + step])


def test_a_longer_call_counts_on_from_the_real_tokens(both: tuple[Any, Checkpoint]) -> None:
    model = both[1].model
    ids, real = padded(left=True)
    whole = model(ids, padding=real)
    cache = KvCache(model.config.layers)
    model(ids[:, :5], cache=cache, padding=real[:, :5])
    rest = model(ids[:, 5:], cache=cache, padding=real)
    assert float((rest - whole[:, 5:]).abs().max()) <= CLOSE
