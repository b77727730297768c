"""A quick step computes what the modules compute, and steps aside whenever it might not."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune

from ropewalk.model.decoder.config import ModelConfig, RopeConfig
from ropewalk.model.decoder.decoder import Block, Decoder, Mlp
from ropewalk.model.decoder.hooks import capture as recording
from ropewalk.model.decoder.hooks import intervening
from ropewalk.model.decoder.interventions import AblateHeads
from ropewalk.model.decoder.packing import Joined, pack
from ropewalk.model.decoder.products import Linear
from ropewalk.model.decoder.quick_step import QuickStep
from ropewalk.model.errors import ShapeError
from ropewalk.model.readings import readout
from ropewalk.model.runs.trace import Trace, append, capture
from tests.closeness import assert_close, assert_identical, terms_of
from tests.model.small_models import BASE, CONFIGS, make, random_ids

PLAIN = {
    "plain": BASE,
    "window": BASE.changed(window=5),
    "adjacent": BASE.changed(rope=RopeConfig(pairing="adjacent")),
    "some layers without rope": BASE.changed(rope_layers=(True, False, True)),
    "yarn": BASE.changed(rope=RopeConfig(scaling="yarn", factor=4.0, original_max_position=16)),
    "dynamic": BASE.changed(rope=RopeConfig(scaling="dynamic", factor=2.0, original_max_position=8)),
    "biases": BASE.changed(query_bias=True, key_bias=True, value_bias=True),
    "gelu": BASE.changed(activation="gelu_tanh"),
    "one kv head": BASE.changed(kv_heads=1),
    "no rope at all": BASE.changed(position="none", rope=None),
}


def packed(config: ModelConfig) -> Decoder:
    model = Decoder(config, seed=3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(generator=torch.Generator().manual_seed(len(name)))
    return model.eval().pack()


def continued(model: Decoder, tokens: int = 9, steps: int = 4) -> Trace:
    trace = capture(model, random_ids(tokens))
    for token in range(steps):
        trace = append(model, trace, token + 3)
    return trace


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The layers that quick steps ran."""
    layers: list[int] = []
    run_layer = QuickStep.run_layer

    def counted(self: QuickStep, layer: int, x: torch.Tensor) -> torch.Tensor:
        layers.append(layer)
        return run_layer(self, layer, x)

    monkeypatch.setattr(QuickStep, "run_layer", counted)
    return layers


@pytest.mark.parametrize("name", PLAIN)
def test_a_quick_step_gives_what_the_modules_give(name: str, taken: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    model = packed(PLAIN[name])
    quick = continued(model)
    assert taken == [0, 1, 2] * 4
    monkeypatch.setattr(QuickStep, "of", lambda *whatever: None)
    slow = continued(model)
    assert len(taken) == 12
    assert quick.logits is not None
    assert slow.logits is not None
    assert torch.allclose(quick.logits.tensor, slow.logits.tensor, atol=1e-5)
    for layer in range(3):
        for one, other in zip(quick[layer].rows, slow[layer].rows, strict=True):
            assert torch.allclose(one.tensor, other.tensor, atol=1e-5)
    assert quick.specs == slow.specs


@pytest.mark.parametrize("name", [name for name in CONFIGS if name not in ("plain", "window", "dynamic", "yarn")])
def test_other_kinds_of_block_go_through_the_modules(name: str, taken: list[int]) -> None:
    trace = continued(make(name).pack())
    quick = {"one_kv_head"}
    assert bool(taken) == (name in quick)
    assert trace.length == 13


def test_a_watched_model_goes_through_its_modules(taken: list[int]) -> None:
    model = packed(BASE)
    trace = capture(model, random_ids(6))
    with recording(model, ["blocks.1.attn.hook_z"]) as record:
        append(model, trace, 4)
    assert record["blocks.1.attn.hook_z"].shape == (1, 4, 1, 8)
    with intervening(model, {"blocks.0.hook_mlp_out": torch.zeros_like}):
        changed = append(model, trace, 4)
    assert taken == []
    plain = append(model, trace, 4)
    assert taken == [0, 1, 2]
    assert not torch.allclose(changed[2].values.tensor, plain[2].values.tensor)


def test_interventions_batches_padding_and_half_precision_go_through_the_modules(taken: list[int]) -> None:
    model = packed(BASE)
    append(model, capture(model, random_ids(6), interventions=[AblateHeads(0, (1,))]), 4)
    append(model, capture(model, random_ids(6, batch=2)), [4, 5])
    append(model, capture(model, random_ids(6), padding=torch.arange(6)[None] > 0), 4)
    append(model, capture(model, random_ids(6), branch="explicit"), 4)
    half = packed(BASE).to(torch.bfloat16)
    append(half, capture(half, random_ids(6)), 4)
    assert taken == []


def _replaced_map(block: Block) -> None:
    block.mlp.down = Linear(64, 32, bias=False)


def _replaced_biases(block: Block) -> None:
    block.attn.value.bias = nn.Parameter(torch.ones(16))


def _added_bias(block: Block) -> None:
    block.attn.output.bias = nn.Parameter(torch.ones(32))


def _transposed(block: Block) -> None:
    block.attn.output.weight.data = block.attn.output.weight.data.T


def _transposed_query(block: Block) -> None:
    block.attn.query.weight.data = block.attn.query.weight.data.T


def _other_module(block: Block) -> None:
    block.mlp.down = nn.Sequential(Linear(64, 32), nn.ReLU())


def _parametrized(block: Block) -> None:
    parametrize.register_parametrization(block.attn.output, "weight", nn.Hardtanh(0, 1))


def _pruned(block: Block) -> None:
    prune.l1_unstructured(block.attn.output, "weight", amount=0.5)  # type: ignore[no-untyped-call]


def _hooked_before(block: Block) -> None:
    block.attn.output.register_forward_pre_hook(lambda module, given: (given[0] * 0,))


@pytest.mark.parametrize(
    "change",
    [
        _replaced_map,
        _replaced_biases,
        _added_bias,
        _transposed,
        _transposed_query,
        _other_module,
        _parametrized,
        _pruned,
        _hooked_before,
    ],
)
def test_what_a_block_has_become_since_the_last_step_counts(
    change: Callable[[Block], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = packed(PLAIN["biases"])
    trace = capture(model, random_ids(6))
    before = append(model, trace, 4)
    change(model.block(1))
    after = append(model, trace, 4)
    monkeypatch.setattr(QuickStep, "of", lambda *whatever: None)
    monkeypatch.setattr(Joined, "one_product", lambda self: None)
    expected = append(model, trace, 4)
    assert torch.allclose(after[2].keys.tensor, expected[2].keys.tensor, atol=1e-5)
    assert not torch.allclose(after[2].keys.tensor, before[2].keys.tensor, atol=1e-2)


def test_threads_do_not_write_to_one_anothers_vectors() -> None:
    model = packed(BASE.changed(width=256, heads=8, head_width=32, mlp_width=1024))
    expected = continued(model, steps=20)
    made: list[Trace] = []
    threads = [Thread(target=lambda: made.append(continued(model, steps=20))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 3
    for trace in made:
        assert_identical(trace[2].keys.tensor, expected[2].keys.tensor)


def test_a_step_within_inference_mode_leaves_the_next_one_alone() -> None:
    model = packed(BASE)
    with torch.inference_mode():
        expected = continued(model)
    assert_identical(continued(model)[2].keys.tensor, expected[2].keys.tensor)


def test_a_run_of_another_precision_or_shape_cannot_go_on() -> None:
    model = packed(BASE)
    half = packed(BASE).to(torch.bfloat16)
    for other in (half, packed(BASE.changed(kv_heads=4))):
        with pytest.raises(ShapeError, match="cannot follow rows of shape"):
            append(model, capture(other, random_ids(6)), 4)


def test_an_unpacked_model_goes_through_its_modules(taken: list[int]) -> None:
    model = Decoder(BASE)
    append(model, capture(model, random_ids(6)), 4)
    assert taken == []


# ----------------------------------------------------------------------------------------------------------------------
# Packing


@pytest.mark.parametrize("name", CONFIGS)
def test_packing_changes_no_number_and_no_name(name: str) -> None:
    model, ids = make(name), random_ids(8)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with torch.no_grad():
        expected = model(ids)
        packed_logits = model.pack()(ids)
    assert_close(packed_logits, expected, terms_of(width=BASE.mlp_width, layers=3))
    after = model.state_dict()
    assert list(before) == list(after)
    for key, value in before.items():
        assert_identical(after[key], value)
    if model.config.tied:
        assert model.head.weight is model.embed.weight


def test_a_packed_block_lies_in_one_buffer_in_the_order_of_its_use() -> None:
    model = packed(PLAIN["biases"])
    attn, mlp = model.block(1).attn, model.block(1).mlp
    assert isinstance(mlp, Mlp)
    assert mlp.gate is not None
    weights = [one.weight for one in (attn.query, attn.key, attn.value, attn.output, mlp.gate, mlp.up, mlp.down)]
    places = [one.data_ptr() for one in weights]
    assert places == sorted(places)
    assert len({one.untyped_storage().data_ptr() for one in weights}) == 1
    product = attn.project.one_product()
    assert product is not None
    assert product[0].data_ptr() == attn.query.weight.data_ptr()
    assert product[1] is not None
    assert torch.equal(product[1], torch.cat((attn.query.bias, attn.key.bias, attn.value.bias)))


def test_a_change_of_the_weights_is_seen() -> None:
    model = packed(BASE)
    trace = capture(model, random_ids(6))
    before = append(model, trace, 1)
    with torch.no_grad():
        model.block(0).attn.key.weight.mul_(2.0)  # in place: still side by side
    doubled = append(model, trace, 1)
    assert torch.allclose(doubled[0].keys.tensor[:, :, -1], 2 * before[0].keys.tensor[:, :, -1], atol=1e-5)
    model.block(0).attn.key.weight = torch.nn.Parameter(model.block(0).attn.key.weight.detach() / 2)  # moved away
    halved = append(model, trace, 1)
    assert torch.allclose(halved[0].keys.tensor, before[0].keys.tensor, atol=1e-5)
    assert model.block(0).attn.project.one_product() is None


def test_maps_that_are_watched_or_trained_are_computed_one_by_one() -> None:
    maps = torch.nn.Linear(8, 4), torch.nn.Linear(8, 2)
    pack(torch.nn.ModuleList(maps), [])
    joined, x = Joined(*maps), torch.randn(1, 1, 8, generator=torch.Generator().manual_seed(0))
    expected = [one(x) for one in maps]
    seen: list[torch.Tensor] = []
    with torch.no_grad():
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(joined(x), expected, strict=True))
        with maps[1].register_forward_hook(lambda module, inputs, output: seen.append(output)):
            joined(x)
    assert len(seen) == 1
    assert joined(x)[0].requires_grad


def test_a_model_without_memory_is_left_alone() -> None:
    with torch.device("meta"):
        model = Decoder(BASE)
    assert all(one.is_meta for one in model.pack().parameters())
    assert model.block(0).attn.project.one_product() is None


def test_reading_a_packed_run_is_reading_any_run() -> None:
    trace = continued(packed(BASE))
    whole = capture(packed(BASE), trace.ids if trace.ids is not None else [])
    assert readout.weights(trace[1], 2) == pytest.approx(readout.weights(whole[1], 2), abs=1e-5)
