"""Folders that transformers runs, through the engine: opened, run, decoded, ablated, asked; and what is refused."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import ropewalk
from ropewalk.model.decoder.config import FIRST_LAYERS
from ropewalk.model.decoder.interventions import AblateHeads, PermuteTokens, RopeOff
from ropewalk.model.engine import engine, running
from ropewalk.model.engine.interface import TRANSFORMERS_ADVICE, ModelHandle, RunHandle, why_missing
from ropewalk.model.engine.questions import (
    QUESTIONS,
    AskArithmetic,
    AskAtlas,
    AskBoard,
    AskCache,
    AskCell,
    AskHead,
    AskLens,
    AskMean,
    AskNeeds,
    AskNextToken,
    AskNextTokenDifference,
    AskNextTokenUnder,
    AskPlanes,
    AskRepeats,
    AskRow,
    AskStrongWeights,
)
from ropewalk.model.errors import (
    CheckpointError,
    ConfigError,
    InterventionError,
    RopewalkError,
    TooLongError,
    TraceError,
)
from ropewalk.model.ledger.ledger import build_ledger
from ropewalk.model.options import TRANSFORMERS, VIA
from ropewalk.model.progress import finished
from ropewalk.model.readings.records import Sampling
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.model.transformers_models import offering
from tests.model.transformers_models.architectures import own_numbers, tiny_model

WAY = {VIA: TRANSFORMERS}
IDS = "5 6 7 8 9 5 6 7"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders as ``save_pretrained`` writes them."""
    place = tmp_path_factory.mktemp("folders")
    for name in ("opt", "t5", "falcon"):
        tiny_model(name).save_pretrained(place / name)
    return place


@pytest.fixture(scope="module")
def opened(folders: Path) -> ModelHandle:
    return finished(engine.open_model(str(folders / "opt"), "cpu", "float32", options=WAY))


@pytest.fixture
def handle(opened: ModelHandle) -> RunHandle:
    return finished(engine.run(opened, Prompt(IDS), 1))


def test_what_is_open_says_what_it_is(opened: ModelHandle, folders: Path) -> None:
    card = opened.card
    assert (card.name, card.family, card.path) == ("opt", "opt, via transformers", str(folders / "opt"))
    assert (card.config.layers, card.config.heads, card.config.position) == (2, 4, "unknown")
    assert opened.options == ((VIA, TRANSFORMERS),)
    assert opened.can == frozenset({"attention", "logits", "decode", "interventions", "tokens", "run"})
    outlined = finished(engine.outline(str(folders / "opt"), WAY))
    assert (outlined.parameters, outlined.holds_weights) == (card.parameters, True)
    assert (outlined.config.heads, outlined.config.head_width) == (4, card.config.head_width)
    assert outlined.bytes_in["bfloat16"] * 2 == card.weight_bytes


def test_a_run_is_decoded_and_goes_another_way(handle: RunHandle, opened: ModelHandle) -> None:
    longer = finished(engine.step(handle, 3, Sampling()))
    own = own_numbers(tiny_model("opt"), longer.trace.ids)
    assert torch.equal(own.logits[0, 7:-1].argmax(-1), longer.trace.ids[0, 8:])
    assert float((longer.trace[1].weights() - own.weights[1][0]).abs().max()) < 1e-5
    other = finished(engine.branch(longer, 9, 33))
    assert other.trace.ids[0].tolist() == [*longer.trace.ids[0, :9].tolist(), 33]
    assert longer.run.length == 11
    again = finished(engine.run(opened, Prompt(IDS), 2, decoded=longer.trace.ids[0, 8:].tolist()))
    assert (again.run.prefill, again.run.length) == (8, 11)
    assert finished(engine.step(again, 1, Sampling())).run.length == 12


def test_every_question_is_answered_or_says_why_not(handle: RunHandle) -> None:
    asked: list[Any] = [
        AskHead(0, 1),
        AskAtlas(),
        AskBoard(((0, 1), (1, 2)), (0, 2)),
        AskRow(1, 2, 5),
        AskCell(1, 2, 5, 3),
    ]
    asked += [AskCache(), AskNextToken(5, 3, Sampling()), AskStrongWeights(0, (0, 1)), AskNextTokenDifference()]
    for question in asked:
        finished(engine.answer(handle, question))
    for lacking in (AskPlanes(0, 0, 3, 1), AskLens(), AskArithmetic(0, 0, 3, 1)):
        with pytest.raises(TraceError, match="transformers runs this model, and shows no more of it"):
            finished(engine.answer(handle, lacking))
    assert {type(one) for one in asked} < {one for one in QUESTIONS if one.needs <= handle.can}


def test_the_next_token_of_a_row_that_was_not_kept_is_run_again(opened: ModelHandle) -> None:
    last = finished(engine.run(opened, Prompt(IDS), 1, logits="last"))
    every = finished(engine.run(opened, Prompt(IDS), 1))
    ours, theirs = (finished(engine.answer(one, AskNextToken(3, 4, Sampling()))) for one in (last, every))
    assert (ours.replayed, theirs.replayed) == (True, False)
    assert [one.token.id for one in ours.candidates] == [one.token.id for one in theirs.candidates]


def test_heads_are_ablated_and_tokens_put_in_another_order(opened: ModelHandle, handle: RunHandle) -> None:
    ablated = finished(engine.run(opened, Prompt(IDS), 2, interventions=[AblateHeads(0, (1,))]))
    assert float((ablated.trace.logits.tensor - handle.trace.logits.tensor).abs().max()) > 1e-4
    turned = finished(engine.run(opened, Prompt("5 6 7"), 3, interventions=[PermuteTokens((2, 0, 1))]))
    assert turned.trace.ids[0].tolist() == [7, 5, 6]
    with pytest.raises(InterventionError, match="“no RoPE” changes the inside of a layer"):
        finished(engine.run(opened, Prompt(IDS), 4, interventions=[RopeOff()]))
    with pytest.raises(TooLongError, match="its positions are transformers' own"):
        finished(engine.run(opened, Prompt(" ".join(["5"] * 65)), 5))


def test_what_heads_are_for_is_measured(opened: ModelHandle, handle: RunHandle) -> None:
    needs = finished(engine.answer(handle, AskNeeds(5, 33)))
    without = finished(engine.run(opened, Prompt(IDS), 2, interventions=[AblateHeads(1, (2,))]))
    before, after = (float(one.trace.logits_of(5)[0, 33]) for one in (handle, without))
    assert (needs.logit, needs.change[1, 2]) == pytest.approx((before, after - before), abs=1e-5)
    under = finished(engine.answer(handle, AskNextTokenUnder(5, 3, Sampling(), (AblateHeads(1, (2,)),))))
    read = finished(engine.answer(without, AskNextToken(5, 3, Sampling())))
    assert [one.logit for one in under.candidates] == pytest.approx([one.logit for one in read.candidates], abs=1e-5)
    mean = finished(engine.answer(without, AskMean(0, (1, 3))))
    z = handle.trace[0].weights(3) @ handle.trace[0].values.tensor[0, 3]
    assert mean.means[1] == pytest.approx(z.mean(0).tolist(), abs=1e-5)
    finished(engine.run(opened, Prompt(IDS), 3, interventions=[mean]))
    with pytest.raises(InterventionError, match="“L0 MLP → 0” changes the inside"):
        finished(engine.answer(handle, AskMean(0, None)))
    assert finished(engine.answer(handle, AskRepeats(4))).scores["induction"].shape == (2, 4)


def test_a_run_is_cancelled_at_its_next_layer(opened: ModelHandle) -> None:
    steps = engine.run(opened, Prompt(IDS), 1)
    next(steps)
    steps.close()
    assert finished(engine.run(opened, Prompt(IDS), 1)).run.length == 8


def test_a_trace_is_attached_to_the_folder_it_was_made_with(
    opened: ModelHandle, handle: RunHandle, folders: Path, tmp_path: Path
) -> None:
    finished(engine.save_steps(finished(engine.step(handle, 2, Sampling())), tmp_path / "run.safetensors"))
    file = finished(engine.open_model(str(tmp_path / "run.safetensors"), "cpu", "float32"))
    assert file.can == frozenset({"attention", "tokens", "logits"})
    assert why_missing(frozenset({"replay"}), file).endswith(f"; {TRANSFORMERS_ADVICE}.")
    assert why_missing(frozenset({"decode"}), file).endswith("; attach its checkpoint (opt).")
    back = finished(engine.open_trace(file, 1)).handle
    attached = finished(engine.attach(back, str(folders / "opt"), "cpu"))
    ours, theirs = (finished(engine.step(one, 4, Sampling())) for one in (attached, handle))
    assert ours.trace.ids[0, :12].tolist() == theirs.trace.ids[0].tolist()
    with pytest.raises(TraceError, match="cannot be run again"):
        engine.save(handle, tmp_path / "pattern.safetensors", pattern=True)


def test_a_decoder_with_an_encoder_says_what_is_left_out(folders: Path) -> None:
    opened = finished(engine.open_model(str(folders / "t5"), "cpu", "float32", options=WAY))
    assert "attend to an encoder are left out" in " ".join(opened.card.notes)
    assert finished(engine.step(finished(engine.run(opened, Prompt(IDS), 1)), 2, Sampling())).run.length == 10


# ----------------------------------------------------------------------------------------------------------------------
# Refused


def refusal(path: Path | str | None, **options: Any) -> str:
    with pytest.raises(RopewalkError) as caught:
        finished(engine.open_model(None if path is None else str(path), "cpu", "float32", options=options))
    return caught.value.sentence


def test_an_unknown_family_is_told_of_transformers_where_that_would_work(folders: Path) -> None:
    offer = "Transformers can run it: open it via transformers (--via transformers)."
    assert offer in refusal(folders / "opt")
    with pytest.raises(CheckpointError, match=r"look at it with ropewalk\.from_transformers"):
        ropewalk.open(folders / "opt")
    with pytest.raises(CheckpointError, match="open it via transformers"):
        finished(engine.outline(str(folders / "t5"), {}))
    config = json.loads((folders / "opt" / "config.json").read_text())
    for kind in ("bloom", "nothing_like_it"):
        place = folders / kind
        place.mkdir()
        (place / "config.json").write_text(json.dumps(config | {"model_type": kind, "architectures": None}))
        assert offer not in refusal(place)


def test_no_code_of_a_checkpoint_is_run(folders: Path) -> None:
    place = folders / "own"
    place.mkdir()
    (place / "config.json").write_text(
        json.dumps({"model_type": "own_thing", "auto_map": {"AutoConfig": "own.Own", "AutoModel": "own.Model"}})
    )
    (place / "own.py").write_text("open('ran', 'w').close()\nraise SystemExit\n")
    assert "code of its own, which Ropewalk never runs" in refusal(place, via=TRANSFORMERS)
    assert not Path("ran").exists()


def test_pickled_weights_are_not_read(folders: Path) -> None:
    place = folders / "pickled"
    model = tiny_model("opt")
    model.config.save_pretrained(place)
    torch.save(model.state_dict(), place / "pytorch_model.bin")
    assert refusal(place, via=TRANSFORMERS).startswith("Transformers could not open pickled")


def test_weights_that_lack_are_not_drawn_at_random(folders: Path) -> None:
    from safetensors.torch import load_file, save_file

    place = folders / "lacking"
    tiny_model("opt").save_pretrained(place)
    tensors = load_file(place / "model.safetensors")
    del tensors["model.decoder.layers.1.self_attn.q_proj.weight"]
    save_file(tensors, place / "model.safetensors", {"format": "pt"})
    assert "lacks 1 weights of OPTForCausalLM, such as model.decoder.layers.1.self_attn.q_proj.weight" in refusal(
        place, via=TRANSFORMERS
    )


def test_other_refusals(folders: Path, opened: ModelHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "FalconForCausalLM computes its attention itself" in refusal(folders / "falcon", via=TRANSFORMERS)
    assert refusal(None, via=TRANSFORMERS).startswith("The model that comes with Ropewalk is in its own decoder")
    assert refusal(folders / "opt", via="vllm") == "There is no way to open a model via 'vllm'; there is transformers."
    assert refusal(folders / "opt", **WAY, **{FIRST_LAYERS: 1}).startswith("Fewer layers cannot be chosen")
    assert "no folder with a config.json" in refusal(folders, via=TRANSFORMERS)
    deep = folders / "deep"
    deep.mkdir()
    config = json.loads((folders / "opt" / "config.json").read_text())
    (deep / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 10**15}))  # nobody counts to it
    assert "says num_hidden_layers is 1,000,000,000,000,000, which no model has" in refusal(deep, via=TRANSFORMERS)
    (deep / "config.json").write_text(json.dumps(config | {"architectures": 5, "model_type": "opt"}))
    assert refusal(deep, via=TRANSFORMERS).startswith("Transformers could not open deep")  # it has no weights
    with pytest.raises(ConfigError, match="of its blocks nothing is known but their attention"):
        build_ledger(opened.card.config)
    for module in (running, offering):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert "pip install 'ropewalk[transformers]'" in refusal(folders / "opt", via=TRANSFORMERS)
    assert "via transformers" not in refusal(folders / "opt")
    assert importlib.util.find_spec("transformers") is not None
