"""Patching and gradients against transformers with hooks of its own, and path patching against its definition."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ropewalk.model.decoder import hooks
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.errors import RopewalkError
from ropewalk.model.notebooks.model import Model
from tests.model.notebooks.conftest import Pair

CLEAN, CORRUPTED = [[5, 9, 2, 7, 7], [8, 1, 4, 3, 60]], [[5, 6, 2, 7, 7], [8, 1, 4, 33, 60]]
WANTED, OTHER = [20, 21], [30, 31]
NEAR = 1e-4


def difference(logits: Tensor) -> Tensor:
    rows = torch.arange(2)
    return (logits[rows, -1, WANTED] - logits[rows, -1, OTHER]).mean()


def blocks_of(theirs: Any) -> Any:
    return theirs.transformer.h if hasattr(theirs, "transformer") else theirs.model.layers


def test_causal_tracing_is_what_hooks_of_transformers_give(pair: Pair) -> None:
    ids, other = torch.tensor(CLEAN), torch.tensor(CORRUPTED)
    with torch.no_grad():
        streams = pair.theirs(ids, output_hidden_states=True, use_cache=False).hidden_states
        ends = [float(difference(pair.theirs(one, use_cache=False).logits)) for one in (ids, other)]
    patch = pair.ours.patch(CLEAN, CORRUPTED, (WANTED, OTHER), at="resid_pre", cells=3)
    assert [patch.clean, patch.corrupted] == pytest.approx(ends, abs=NEAR)
    for layer, block in enumerate(blocks_of(pair.theirs)):
        for row in range(5):

            def put(module: Any, args: tuple[Any, ...], layer: int = layer, row: int = row) -> tuple[Any, ...]:
                x = args[0].clone()
                x[:, row] = streams[layer][:, row]
                return (x, *args[1:])

            with torch.no_grad(), ExitStack() as stack:
                stack.callback(block.register_forward_pre_hook(put).remove)
                expected = float(difference(pair.theirs(other, use_cache=False).logits))
            assert patch.values[layer, row] == pytest.approx(expected, abs=NEAR)
    assert np.ptp(patch.values) > 0.1


def test_a_function_and_two_tokens_measure_alike(pair: Pair) -> None:
    by_tokens = pair.ours.patch(CLEAN, CORRUPTED, (WANTED, OTHER), at="z", over=("head", "position"))
    by_function = pair.ours.patch(CLEAN, CORRUPTED, difference, at="z", over=("head", "position"), cells=2)
    assert by_tokens.axes == ("layer", "head", "position")
    assert by_tokens.values == pytest.approx(by_function.values, abs=NEAR)
    with pytest.raises(RopewalkError, match="one number"):
        pair.ours.patch(CLEAN, CORRUPTED, lambda logits: logits[:, -1, 3])


def test_patching_everything_restores_all_and_nothing_nothing(pair: Pair) -> None:
    whole = pair.ours.patch(CLEAN, CORRUPTED, difference, at="hook_embed", over=())
    assert whole.values.shape == ()
    assert whole.restored == pytest.approx(1, abs=1e-3)
    last = pair.ours.patch(CLEAN, CORRUPTED, difference, at="hook_final")
    assert last.axes == ("position",)
    assert last.restored == pytest.approx([0, 0, 0, 0, 1], abs=1e-3)
    same = pair.ours.patch(CLEAN, CLEAN, difference)
    assert same.values == pytest.approx(np.full(same.values.shape, same.clean), abs=NEAR)


def test_noise_in_the_place_of_a_prompt(pair: Pair) -> None:
    """Causal tracing as it was first done: the corrupted run is given noisy vectors."""
    embedded = pair.ours.decoder.embed(torch.tensor(CLEAN)).detach()
    noisy = embedded.clone()
    noisy[:, 1] += torch.randn(embedded[:, 1].shape, generator=torch.Generator().manual_seed(0))
    patch = pair.ours.patch(CLEAN, noisy, difference)
    assert patch.corrupted != pytest.approx(patch.clean, abs=1e-2)
    assert patch.restored[0, 1] == pytest.approx(1, abs=1e-3)  # before the first block only that row differs
    assert patch.values[:, 0] == pytest.approx(np.full(len(patch.values), patch.corrupted), abs=NEAR)


def fixed_at(value: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: value


def recorded(
    model: Decoder, ids: Tensor, changes: dict[str, Callable[[Tensor], Tensor]]
) -> tuple[dict[str, Tensor], Tensor]:
    with torch.no_grad(), hooks.intervening(model, changes):
        names = [name for name, point in hooks.hook_points(model).items() if not point.read_only]
        with hooks.capture(model, names) as record:
            logits = model(ids)
    return record, logits


@pytest.mark.parametrize("to", [["hook_final"], ["blocks.2.attn.hook_q", ("blocks.1.attn.hook_v", 1)]])
def test_path_patching_is_its_definition(pair: Pair, to: list[Any]) -> None:
    model, layers = pair.ours.decoder, pair.ours.config.layers
    clean, _ = recorded(model, torch.tensor(CLEAN), {})
    held, before = recorded(model, torch.tensor(CORRUPTED), {})
    found = pair.ours.patch(CLEAN, CORRUPTED, difference, at="z", to=to, cells=4)
    moved = 0.0
    for layer, head in ((0, 0), (0, 3), (1, 2), (layers - 1, 1)):
        sender = f"blocks.{layer}.attn.hook_z"
        frozen = held[sender].clone()
        frozen[:, head] = clean[sender][:, head]
        fixed = {
            f"blocks.{at}.{part}": held[f"blocks.{at}.{part}"]
            for at in range(layers)
            for part in ("attn.hook_z", "hook_mlp_out")
        }
        fixed[sender] = frozen
        reached, _ = recorded(model, torch.tensor(CORRUPTED), {name: fixed_at(value) for name, value in fixed.items()})
        receivers: dict[str, Callable[[Tensor], Tensor]] = {}
        for one in to:
            name, of = one if isinstance(one, tuple) else (one, None)
            value = held[name].clone()
            which = slice(None) if of is None else of
            value[:, which] = reached[name][:, which]
            receivers[name] = fixed_at(value)
        _, after = recorded(model, torch.tensor(CORRUPTED), receivers)
        assert found.values[layer, head] == pytest.approx(float(difference(after)), abs=NEAR)
        moved = max(moved, abs(float(difference(after) - difference(before))))
    assert moved > 1e-3


def test_gradients_are_those_of_transformers(pair: Pair) -> None:
    ids = torch.tensor(CLEAN)
    vectors = pair.theirs.get_input_embeddings()(ids).detach().requires_grad_()
    out = pair.theirs(inputs_embeds=vectors, output_attentions=True, output_hidden_states=True, use_cache=False)
    by_layer = [*out.attentions, *out.hidden_states[1:3]]
    expected = torch.autograd.grad(difference(out.logits), [vectors, *by_layer])
    found = pair.ours.gradients(CLEAN, (WANTED, OTHER), ["hook_embed", "pattern", "resid_pre"])
    layers = pair.ours.config.layers
    assert (found["hook_embed"] - expected[0]).abs().max() < NEAR
    for layer in range(layers):
        assert (found[f"blocks.{layer}.attn.hook_pattern"] - expected[1 + layer]).abs().max() < NEAR
    for layer in (1, 2):
        assert (found[f"blocks.{layer}.hook_resid_pre"] - expected[layers + layer]).abs().max() < NEAR
    assert expected[0].abs().max() > 1e-2
    assert all(value.grad is None for value in pair.ours.decoder.parameters())


def test_one_axis_and_one_receiver_need_no_list(bundled: Model) -> None:
    plain = bundled.patch([1, 2], [1, 3], (1, 2), "z", over=["position"], to=["hook_final"])
    assert plain.axes == ("layer", "position")
    alike = bundled.patch([1, 2], [1, 3], (1, 2), "z", over="position", to="hook_final")
    assert np.array_equal(alike.values, plain.values)


def test_a_metric_that_fails_leaves_nothing_behind(bundled: Model) -> None:
    asked: list[Callable[[], Any]] = [
        lambda: bundled.patch([1, 2], [1, 3], lambda logits: 1 / 0, at="z"),
        lambda: bundled.gradients([1, 2], lambda logits: 1 / 0, at="z"),
    ]
    for ask in asked:
        with pytest.raises(ZeroDivisionError):
            ask()
    assert not any(point.is_watched for point in hooks.hook_points(bundled.decoder).values())
    assert torch.is_grad_enabled()
    assert not any(weight.requires_grad and weight.grad is not None for weight in bundled.decoder.parameters())


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda m: m.patch([1, 2], [1, 2, 3], (1, 2)), "2 tokens and the corrupted ones 3"),
        (lambda m: m.patch([[1, 2], [3]], [[1, 2], [3, 4]], (1, 2)), "2, 1 tokens and the corrupted ones 2, 2"),
        (lambda m: m.patch([1, 2], [1, 3], (1, 2), at="residual"), "no point 'residual'"),
        (lambda m: m.patch([1, 2], [1, 3], (1, 2), at="rot_z"), "no point 'rot_z'"),
        (lambda m: m.patch([1, 2], [1, 3], (1, 2), at="blocks.0.attn.hook_result"), "can be read but not changed"),
        (lambda m: m.patch([1, 2], [1, 3], (1, 2), at="resid_pre", over=["head"]), "no axis 'head'"),
        (lambda m: m.patch([1, 2], [1, 3], (1, 2), at="z", over=["layer"]), "no axis 'layer'"),
        (lambda m: m.patch([1, 2], [1, 3], (1, 2), at="z", to=["q"]), "A receiver is one hook point"),
        (lambda m: m.patch([1, 2], [1, 3], (1, 2), at="z", to=[("blocks.1.attn.hook_k", 2)]), "2 heads pass there"),
        (lambda m: m.patch([1, 2], [1, 3], (1, 2), at="z", to=[("hook_final", 0)]), "0 heads pass there"),
        (lambda m: m.patch([1, 2], [1, 3], (1, 2), at=3), "3 is no hook point"),
        (lambda m: m.patch([1, 2], [1, 3], (1, 2), at="z", to=[3]), "3 is no hook point"),
        (lambda m: m.patch([1, 2], [1, 3], 5), "A metric is a function"),
        (lambda m: m.patch([1, 2], [1, 3], (1, 2, 3)), "A metric is a function"),
        (lambda m: m.patch([1, 2], [1, 3], ([1, 2], 3)), "2 tokens were given for 1 prompts"),
        (lambda m: m.patch([1, 2], [1, 3], (1, 5000)), "Token id 5000"),
        (lambda m: m.patch([1, 2], [1, 2], (1, 2)).restored, "nothing to restore"),
        (lambda m: m.gradients([1, 2], (1, 2), "blocks.0.attn.hook_result"), "no gradient at"),
        (lambda m: m.gradients([1, 2], (1, 2), "nothing"), "no point 'nothing'"),
        (lambda m: m.gradients([1, 2], lambda logits: 1.0, "z"), "no gradient at"),
        (lambda m: m.gradients([1, 2], (1, 2), []), "No hook point was named"),
        (lambda m: m.gradients([1, 2], (1, 2), 5), "No hook point was named"),
        (lambda m: m.patch([1, 2], [1, 3], lambda logits: None), "The metric returned None"),
        (lambda m: m.patch([1, 2], [1, 3], lambda logits: "x"), "The metric returned 'x'"),
        (lambda m: m.patch([1, 2], [1, 3], (1, 2), at="pattern"), "'pattern' passes on the explicit branch alone"),
        (lambda m: m.patch([1, 2], [1, 3], (1, 2), at="z", to=[("blocks.1.attn.hook_k", "0")]), "Head '0' of"),
    ],
)
def test_what_cannot_be_patched_is_refused_in_a_sentence(
    bundled: Model, ask: Callable[[Model], Any], sentence: str
) -> None:
    with pytest.raises(RopewalkError, match=sentence) as refused:
        ask(bundled)
    assert refused.value.sentence.endswith(".")
    assert not any(point.is_watched for point in hooks.hook_points(bundled.decoder).values())
