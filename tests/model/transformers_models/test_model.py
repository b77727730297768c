"""What wraps, shrinks or spreads a model changes nothing; and a model is left as it was, whatever happens."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from ropewalk.model.decoder.interventions import AblateHeads, AblateMlp
from ropewalk.model.errors import InterventionError, MemoryBudgetError, PromptError, TraceError
from ropewalk.model.readings import readout
from ropewalk.model.readings.patterns import head_scores
from ropewalk.model.readings.tiles import read_head
from ropewalk.model.runs.trace import Trace
from ropewalk.model.transformers_models import rules
from ropewalk.model.transformers_models.attention import EAGER_NAME, SDPA_NAME, Implementation, _own_eager
from ropewalk.model.transformers_models.model import TransformersModel
from tests.model.transformers_models.architectures import own_numbers, tiny_model
from tests.model.transformers_models.test_parity import BAR, check_weights, make_ids


def check_same(model: Any, **inputs: Any) -> Trace:
    """A model's trace against itself, logit for logit."""
    ids = make_ids()
    trace = TransformersModel(model).capture(ids)
    own = own_numbers(model, ids, **inputs)
    check_weights(trace, own)
    assert trace.logits is not None
    assert torch.equal(trace.logits.tensor[:, 0], own.logits)
    return trace


@pytest.mark.filterwarnings("ignore::FutureWarning")  # peft asks for what transformers has renamed
def test_a_lora_adapter_takes_part() -> None:
    peft = pytest.importorskip("peft")
    lora = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    plain = TransformersModel(tiny_model("opt")).capture(make_ids())
    model = peft.get_peft_model(tiny_model("opt"), lora).eval()
    trace = TransformersModel(model).capture(make_ids())
    with torch.no_grad():
        own = model(input_ids=make_ids()).logits
    assert trace.logits is not None
    assert plain.logits is not None
    assert torch.equal(trace.logits.tensor[:, 0], own)
    assert not torch.equal(trace.logits.tensor, plain.logits.tensor)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # peft says past_key_values
@pytest.mark.parametrize(("kind", "said"), [("PromptTuningConfig", "queries of shape"), ("PrefixTuningConfig", "keys")])
def test_what_puts_tokens_before_the_prompt_is_refused(kind: str, said: str) -> None:
    peft = pytest.importorskip("peft")
    config = getattr(peft, kind)(task_type="CAUSAL_LM", num_virtual_tokens=3)
    with pytest.raises(TraceError, match=f"LlamaAttention attends .*{said}"):
        TransformersModel(peft.get_peft_model(tiny_model("llama"), config))


def test_a_quantised_model_is_what_it_is() -> None:
    quanto = pytest.importorskip("optimum.quanto")
    model = tiny_model("opt")
    before = own_numbers(model, make_ids()).logits
    quanto.quantize(model, weights=quanto.qint8)
    quanto.freeze(model)
    trace = check_same(model)
    assert trace.logits is not None
    assert not torch.equal(trace.logits.tensor[:, 0], before)


def test_layers_may_lie_on_disk(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    whole = tiny_model("llama")
    whole.save_pretrained(tmp_path)
    placed = {"model.embed_tokens": "disk", "model.layers.0": "cpu", "model.layers.1": "disk"}
    placed |= {"model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "disk"}
    model = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, device_map=placed, offload_folder=tmp_path / "away"
    )
    trace = check_same(model)
    ours = TransformersModel(model)
    longer = ours.append(ours.capture(make_ids()), [5, 6])
    there = TransformersModel(whole)
    other = there.append(there.capture(make_ids()), [5, 6])
    assert trace.logits is not None
    assert longer.logits is not None
    assert other.logits is not None
    assert torch.equal(longer.logits.tensor, other.logits.tensor)
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu", "meta"}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt_oss"])
def test_other_dtypes(name: str, dtype: torch.dtype) -> None:
    model = tiny_model(name).to(dtype)
    trace = TransformersModel(model).capture(make_ids())
    own = own_numbers(model, make_ids())
    assert trace.dtype == dtype
    for layer, theirs in zip(trace, own.weights, strict=True):
        assert float((layer.weights() - theirs[0]).abs().max()) < 0.05


def test_image_tokens_see_one_another() -> None:
    model = tiny_model("gemma3")
    ids = make_ids(1)
    ids[0, 2:6] = 63
    pixels = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(2))
    inputs = {"pixel_values": pixels, "token_type_ids": (ids == 63).long()}
    ours = TransformersModel(model)
    trace = ours.capture(ids, inputs=inputs)
    check_weights(trace, own_numbers(model, ids, **inputs))
    assert float(readout.weights(trace[0], 0)[2, 5]) > 0
    assert readout.read_cell(trace[0], 0, 2, 7).hidden_because == "the model's own mask hides key 7 from query 2"
    longer = ours.append(trace, 9)
    assert longer[0].mask is not None
    assert float(longer[0].weights()[0, 2, 5]) == pytest.approx(float(trace[0].weights()[0, 2, 5]), abs=BAR)
    assert ours.notes == ()
    assert any("language part" in note for note in TransformersModel(tiny_model("bart")).notes)


# ----------------------------------------------------------------------------------------------------------------------
# Readers under masks that no rule says


@pytest.mark.parametrize("name", ["llama4_text", "t5", "doge", "deepseek_v3"])
def test_every_reader_agrees_under_a_mask_of_the_models_own(name: str) -> None:
    ours = TransformersModel(tiny_model(name))
    trace = ours.capture(make_ids())
    for layer in trace:
        whole = layer.weights()
        row = readout.read_row(layer, 1, 6)
        assert torch.allclose(torch.tensor(row.weights).float(), whole[1, 6], atol=BAR)
        cell = readout.read_cell(layer, 1, 6, 4)
        assert cell.weight == pytest.approx(float(whole[1, 6, 4]), abs=BAR)
        assert cell.score == pytest.approx(float(layer.raw_scores(1)[6, 4]), abs=1e-4)
        queries, keys = torch.tensor([3, 6, 8]), torch.tensor([1, 6, 2])
        assert torch.allclose(layer.paired_weights(queries, keys), whole[:, queries, keys], atol=BAR)
        every = torch.arange(layer.length)
        counted = layer.count_visible((every, every), (every.new_zeros(()), every.new_tensor(layer.length)))
        assert torch.equal(counted, layer.visible().sum(-1))
        for reduction in ("max", "mean"):
            picture = read_head(layer, 1, pixels=5, reduction=reduction)
            assert picture.weights.cell == (2, 2)
            block, seen = whole[1, 6:8, 4:6], layer.visible()[6:8, 4:6]
            expected = block[seen].max() if reduction == "max" else block[seen].mean()
            assert float(picture.weights.values[3, 2]) == pytest.approx(float(expected), abs=BAR)
        assert torch.allclose(layer.at(5).weights(), whole[:, :5, :5], atol=BAR)
    scores, _ = head_scores(trace, ("entropy", "previous"))
    entropies = torch.special.entr(trace[1].weights()).sum(-1).mean(-1)
    assert scores["entropy"][1].tolist() == pytest.approx(entropies.tolist(), abs=1e-4)
    read = readout.read_cache(ours.append(trace, [5, 6]))
    assert read.bytes_measured == read.bytes_formula
    assert read.values.shape[-1] == trace[0].values.tensor.shape[-1]


def test_layers_of_other_widths_share_a_picture_of_the_cache() -> None:
    trace = TransformersModel(tiny_model("gemma4_text")).capture(make_ids())
    widths = [layer.spec.head_width for layer in trace]
    assert len(set(widths)) == 2
    read = readout.read_cache(trace)
    assert read.keys.shape[-1] == max(widths)
    assert read.bytes_measured == read.bytes_formula


def test_what_does_more_to_its_scores_than_it_says_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.opt import modeling_opt

    def colder(module: nn.Module, query: Tensor, *others: Any, **options: Any) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = own(module, query * 3, *others, **options)
        return found

    own = modeling_opt.eager_attention_forward
    model = tiny_model("opt")
    model.set_attn_implementation("eager")
    ours = TransformersModel(model)
    monkeypatch.setattr(modeling_opt, "eager_attention_forward", colder)
    with pytest.raises(
        TraceError, match="OPTAttention does more to its scores than it hands over: what the trace says"
    ):
        ours.capture(make_ids())


def test_a_bias_too_large_to_keep_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = TransformersModel(tiny_model("t5"))
    monkeypatch.setattr(rules, "MOST_MASK_BYTES", 1000)
    with pytest.raises(MemoryBudgetError, match="adds a number to every score, which for 9 tokens takes"):
        ours.capture(make_ids())


# ----------------------------------------------------------------------------------------------------------------------
# Ablation


def output_projection(model: nn.Module, layer: int) -> nn.Module:
    names = ("o_proj", "out_proj", "c_proj")
    found: list[nn.Module] = [one for name, one in model.named_modules() if name.endswith(names) and "attn" in name]
    return found[layer]


@pytest.mark.parametrize("name", ["llama", "opt", "deepseek_v3", "gpt2"])
@pytest.mark.parametrize("means", [False, True])
def test_an_ablated_head_gives_the_output_projection_what_was_said(name: str, means: bool) -> None:
    model, ids = tiny_model(name), make_ids()
    ours = TransformersModel(model)
    width = ours.config.width_of_value
    given = tuple(tuple(float(i + head) for i in range(width)) for head in (0, 2)) if means else ()
    ablation = AblateHeads(0, (0, 2), given)

    def replaced(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        z = inputs[0].clone()
        for place, head in enumerate(ablation.heads):
            z[..., head * width : (head + 1) * width] = torch.tensor(given[place]) if means else 0.0
        return (z,)

    handle = output_projection(model, 0).register_forward_pre_hook(replaced)
    own = own_numbers(model, ids)
    longer = own_numbers(model, torch.cat((ids, torch.tensor([[5], [6]])), 1))
    handle.remove()
    trace = ours.capture(ids, interventions=[ablation])
    check_weights(trace, own)
    decoded = ours.append(trace, [5, 6])
    check_weights(decoded, longer)
    assert trace.interventions == (ablation,)
    assert trace.logits is not None
    assert torch.equal(trace.logits.tensor[:, 0], own.logits)
    assert float((trace.logits.tensor[:, 0] - own_numbers(model, ids).logits).abs().max()) > 1e-3


def test_other_interventions_are_refused() -> None:
    ours = TransformersModel(tiny_model("opt"))
    with pytest.raises(InterventionError, match="which in a transformers model is its own; ablate heads"):
        ours.capture(make_ids(), interventions=[AblateMlp(0)])
    with pytest.raises(InterventionError, match="Head 9 was chosen, but the model has 4"):
        ours.capture(make_ids(), interventions=[AblateHeads(0, (9,))])


# ----------------------------------------------------------------------------------------------------------------------
# Left as it was


def state_of(model: Any) -> list[Any]:
    found: list[Any] = [model.config._attn_implementation, model.config.to_dict(), torch.get_rng_state().tolist()]
    for module in model.modules():
        config = getattr(module, "config", None)
        found.append((module.training, len(module._forward_hooks), len(module._forward_pre_hooks)))
        found.append(None if config is None else type(config._attn_implementation))
    return [*found, [parameter.grad for parameter in model.parameters()], torch.is_grad_enabled()]


def test_the_model_is_left_as_it_was() -> None:
    model = tiny_model("opt", dropout=0.5).train()
    model.model.decoder.layers[0].self_attn.eval()
    before = state_of(model)
    ours = TransformersModel(model)
    ours.append(ours.capture(make_ids()), [5, 6])
    assert state_of(model) == before

    def fail(module: nn.Module, inputs: Any) -> None:
        raise KeyboardInterrupt

    handle = model.lm_head.register_forward_pre_hook(fail)
    with pytest.raises(KeyboardInterrupt):
        ours.capture(make_ids())
    handle.remove()
    assert state_of(model) == before


def test_threads_do_not_hear_one_another() -> None:
    model = tiny_model("opt")
    ours = [TransformersModel(model) for _ in range(4)]
    own = own_numbers(model, make_ids(1))
    ready = threading.Barrier(4)

    def run(number: int) -> Tensor | None:
        ready.wait()
        if number == 3:  # runs the model itself meanwhile
            with torch.no_grad():
                logits: Tensor = model(input_ids=make_ids(1)).logits[:, None]
            return logits
        trace = ours[number].capture(make_ids(1))
        assert len(trace) == 2
        return None if trace.logits is None else trace.logits.tensor

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(run, range(4)):
            assert found is not None
            assert torch.equal(found[:, 0], own.logits)
    assert model.config._attn_implementation == "sdpa"
    assert not isinstance(model.config._attn_implementation, Implementation)


def test_a_name_of_ours_is_taken_for_the_one_it_stands_for() -> None:
    assert SDPA_NAME in ("eager", "sdpa")
    assert EAGER_NAME == "eager"
    assert EAGER_NAME not in ("sdpa", "flash_attention_2")
    assert SDPA_NAME != EAGER_NAME
    names: dict[str, int] = {SDPA_NAME: 1}
    assert names["ropewalk_sdpa"] == 1


def test_what_cannot_be_run_is_said_in_a_sentence() -> None:
    with pytest.raises(TraceError, match="Linear is no model of transformers'"):
        TransformersModel(nn.Linear(2, 2))
    ours = TransformersModel(tiny_model("opt"))
    with pytest.raises(PromptError, match="Token id 64 is not there; the ids of this model are 0 to 63"):
        ours.capture([1, 64])
    with pytest.raises(PromptError, match="The prompt is empty"):
        ours.capture([])
    with pytest.raises(TraceError, match="could not run this"):
        ours.capture(make_ids(), inputs={"inputs_embeds": torch.zeros(1)})
    bare = TransformersModel(tiny_model("opt").model)
    trace = bare.capture(make_ids())
    assert trace.logits is None
    with pytest.raises(TraceError, match="has no logits, so it decodes nothing"):
        bare.append(trace, [1, 2])
    with pytest.raises(TraceError, match="gives no logits"):
        bare.logits_after(trace, 3)


@pytest.mark.parametrize("name", ["opt", "bart", "gemma3"])
def test_logits_that_were_not_kept_come_back(name: str) -> None:
    ours = TransformersModel(tiny_model(name))
    every, last = ours.capture(make_ids()), ours.capture(make_ids(), logits="last")
    kept = every.logits_of(4)
    assert kept is not None
    assert last.logits_of(4) is None
    assert float((ours.logits_after(last, 4) - kept).abs().max()) < BAR
    grown = ours.append(last, [5, 6])
    assert grown.logits_of(9) is not None
    assert grown.logits_of(8) is not None


def test_a_class_that_names_no_eager_attention_is_refused_in_a_sentence() -> None:
    with pytest.raises(TraceError, match=r"Linear names no eager attention function, .*'sdpa'"):
        _own_eager(nn.Linear)
