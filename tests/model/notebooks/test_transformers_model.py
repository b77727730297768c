"""``ropewalk.from_transformers``: the same methods as of every model, over a transformers model in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers

import ropewalk
from ropewalk.model.decoder.interventions import AblateHeads
from ropewalk.model.errors import PromptError, RopewalkError, TokenizerError, TraceError
from ropewalk.resources import resource
from tests.model.transformers_models.architectures import own_numbers, tiny_model
from tests.model.transformers_models.test_parity import BAR

VOCABULARY = 1024


@pytest.fixture(scope="module")
def tokenizer() -> transformers.PreTrainedTokenizerFast:
    backend = tokenizers.Tokenizer.from_file(str(Path(resource("bundled")) / "tokenizer.json"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|endoftext|>")


@pytest.fixture(scope="module")
def model(tokenizer: transformers.PreTrainedTokenizerFast) -> ropewalk.Model:
    return ropewalk.from_transformers(tiny_model("opt", vocab_size=VOCABULARY), tokenizer)


def test_texts_become_runs(model: ropewalk.Model, tokenizer: transformers.PreTrainedTokenizerFast) -> None:
    run = model.capture("to be or not to be")
    assert run.tokens == [["to", "·be", "·or", "·not", "·to", "·be"]]
    assert run.ids[0].tolist() == tokenizer.encode("to be or not to be")
    own = own_numbers(tiny_model("opt", vocab_size=VOCABULARY), run.ids)
    assert float((run.patterns() - torch.stack(own.weights, 1)).abs().max()) < BAR
    assert float((run.logits - own.logits).abs().max()) == 0
    longer = run.decode(3)
    assert longer.trace.length == 9
    assert longer.ids[0, 6] == run.next_logits[0].argmax()
    assert "opt" in str(run.model.name).lower()
    assert "<div>" in run._repr_html_()


def test_prompts_of_different_lengths_are_as_alone(model: ropewalk.Model) -> None:
    run = model.capture(["to be", "to be or not to be", "or not"])
    assert run.trace.padding is not None
    for number, text in enumerate(run.texts):
        alone = model.capture(text)
        assert float((run[number].patterns() - alone.patterns()).abs().max()) < BAR
        assert float((run[number].next_logits - alone.next_logits).abs().max()) < BAR
    again = run[1].decode(2)
    assert float((again.patterns() - model.capture("to be or not to be").decode(2).patterns()).abs().max()) < BAR


def test_a_decoder_with_an_encoder_goes_on_alone() -> None:
    model = ropewalk.from_transformers(tiny_model("bart"))
    run = model.capture([[5, 6, 7, 8, 9], [10, 11, 12]])
    alone = model.capture([10, 11, 12])
    assert float((run[1].patterns() - alone.patterns()).abs().max()) < BAR
    assert run[1].decode(2).ids.tolist() == alone.decode(2).ids.tolist()
    other = model.capture([10, 11, 12], inputs={"input_ids": torch.tensor([[20, 21]])})
    assert float((other.logits - alone.logits).abs().max()) > 1e-3


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"attention_mask": torch.tensor([[0, 1, 1]])}, "makes attention_mask itself"),
        ({"input_ids": torch.tensor([[1]])}, "makes input_ids itself"),
        ({"past_key_values": None}, "makes past_key_values itself"),
        (5, "Inputs are named"),
    ],
)
def test_what_a_run_says_itself_is_no_input(model: ropewalk.Model, inputs: Any, says: str) -> None:
    with pytest.raises(ropewalk.RopewalkError, match=says):
        model.capture([10, 11, 12], inputs=inputs)  # type: ignore[call-arg]


def test_heads_are_ablated(model: ropewalk.Model) -> None:
    clean = model.capture("to be or not")
    ablated = model.capture("to be or not", interventions=[AblateHeads(0, (1,))])
    assert float((clean.logits - ablated.logits).abs().max()) > 1e-4


def test_what_needs_our_decoder_says_so(model: ropewalk.Model) -> None:
    run = model.capture("to be")
    with pytest.raises(TraceError, match="does not run in Ropewalk's own decoder"):
        run.logit_lens()
    with pytest.raises(TraceError, match="has no other branch"):
        model.capture("to be", branch="explicit")
    with pytest.raises(PromptError, match="runs of a transformers model are of token ids"):
        model.capture(torch.zeros(1, 3, 32))
    with pytest.raises(PromptError, match="no tokenizer"):
        ropewalk.from_transformers(tiny_model("opt")).capture("to be")
    with pytest.raises(TokenizerError, match="int is no tokenizer of transformers'"):
        ropewalk.from_transformers(tiny_model("opt"), 3)


@pytest.mark.parametrize("name", ["t5", "llama4_text", "deepseek_v3", "gemma4_text"])
def test_a_run_is_saved_with_its_mask_and_its_widths(name: str, tmp_path: Path) -> None:
    model = ropewalk.from_transformers(tiny_model(name))
    run = model.capture([[5, 6, 7, 8, 9, 5, 6], [7, 8, 9, 5, 6, 7, 8]])
    run.save(tmp_path / "run.safetensors")
    again = ropewalk.load(tmp_path / "run.safetensors", model=model)
    assert torch.equal(again.patterns(), run.patterns())
    assert again.trace.config == run.trace.config
    assert float((again.append([3, 4]).patterns() - run.append([3, 4]).patterns()).abs().max()) < BAR


def test_a_mask_of_a_file_must_fit(tmp_path: Path) -> None:
    from safetensors import safe_open
    from safetensors.torch import save_file

    run = ropewalk.from_transformers(tiny_model("t5")).capture([5, 6, 7])
    run.save(tmp_path / "run.safetensors")
    with safe_open(tmp_path / "run.safetensors", "pt") as file:
        tensors, told = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    tensors["blocks.0.attn.bias"] = tensors["blocks.0.attn.bias"][:, :2].clone()
    save_file(tensors, tmp_path / "bad.safetensors", told)
    with pytest.raises(RopewalkError, match="another number of prompts or heads"):
        ropewalk.load(tmp_path / "bad.safetensors")
