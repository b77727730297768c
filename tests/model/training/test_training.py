"""The recipe: rows, schedule, state, refusals; and what a run leaves behind, on a model small enough to train here."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from ropewalk.model.checkpoints import open_checkpoint
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import capture
from ropewalk.model.decoder.known_configs import KNOWN
from ropewalk.model.errors import ConfigError, TokenizerError, TrainingError
from ropewalk.model.progress import finished
from ropewalk.model.tokens.tokenizer import train_tokenizer
from ropewalk.model.training import training
from ropewalk.model.training.grading import (
    BestHead,
    Grades,
    Reading,
    Repeats,
    bars,
    grade_repeats,
    grade_steps,
    rise,
    side_by_side,
    token_losses,
)
from ropewalk.model.training.model_card import model_card
from ropewalk.model.training.saving import layout_config, layout_weights, save_folder
from ropewalk.model.training.training import (
    STATE,
    Trained,
    TrainOptions,
    draw_batch,
    grade_folder,
    learning_rate,
    load_state,
    new_run,
    read_corpus,
    row_lengths,
    save_state,
    split_text,
    train,
    train_step,
)
from tests.closeness import assert_close

SMALL = TrainOptions(
    layers=2,
    width=16,
    heads=4,
    kv_heads=2,
    vocabulary=270,
    context=64,
    steps=6,
    tokens_a_step=128,
    warm_up=2,
    check_every=2,
)
WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "saw", "two", "rats", "run", "to", "his", "hat", "of", "felt")
TEXT = " ".join(WORDS[(place * place // 7 + 3 * place) % len(WORDS)] for place in range(2000))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "plays.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "plays.txt").write_text(TEXT, encoding="utf-8")
    return finished(train(folder / "plays.txt", folder / "small", SMALL))


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


# Rows -------------------------------------------------------------------------------------------------------------


IDS = torch.arange(1000) % 270


def batches(options: TrainOptions, steps: int = 40, *, opening: bool = False) -> list[training.Batch]:
    return [draw_batch(IDS, options, step, 0.5, opening, begin=0) for step in range(steps)]


def test_a_step_draws_the_same_rows_every_time() -> None:
    first, again, other = (draw_batch(IDS, SMALL, step, 0.5, opening=True) for step in (3, 3, 4))
    assert torch.equal(first.ids, again.ids)
    assert torch.equal(first.counted, again.counted)
    assert not torch.equal(first.ids, other.ids)
    assert not torch.equal(first.ids, draw_batch(IDS, replace(SMALL, seed=1), 3, 0.5, opening=True).ids)


def test_repeats_have_many_periods_and_their_first_round_does_not_count() -> None:
    periods = set()
    for batch in batches(replace(SMALL, tokens_a_step=512)):
        assert batch.repeats == round(len(batch.ids) / 2)
        for row in range(batch.repeats):
            period = int((~batch.counted[row]).sum())
            assert torch.equal(batch.ids[row, period:], batch.ids[row, :-period])
            assert batch.counted[row, period:].all()
            assert 1 < period <= batch.ids.shape[1] // 2
            periods.add(period)
    assert min(periods) <= 4
    assert max(periods) > 24


def test_what_repeats_is_random_and_after_the_opening_tokens_of_the_text_each_once_too() -> None:
    text = torch.arange(1000) % 9  # ids from 9 on never stand in it
    for opening in (False, True):
        batch = draw_batch(text, replace(SMALL, tokens_a_step=512), 0, 0.5, opening)
        for row in range(batch.repeats):
            once = batch.ids[row, : int((~batch.counted[row]).sum())].tolist()
            of_text = all(token < 9 for token in once)
            assert of_text == (row % 2 == 1 and not opening)
            assert not of_text or len(set(once)) == len(once)


def test_rows_of_text_are_pieces_of_the_text() -> None:
    opened = 0
    for batch in batches(SMALL):
        for row in batch.ids[batch.repeats :]:
            start = int(row[1])
            assert row[1:].tolist() == [(start + place) % 270 for place in range(len(row) - 1)]
            opened += int(row[0]) == 0 and start != 1
        assert batch.counted[batch.repeats :].all()
    assert opened > 0


def test_rows_have_four_lengths_up_to_the_context_or_the_shortest_only() -> None:
    assert {batch.ids.shape[1] for batch in batches(SMALL)} == {12, 16, 32, 64}
    assert {batch.ids.shape[1] for batch in batches(SMALL, opening=True)} == {12}
    assert [length for length, _ in row_lengths(512)] == [96, 128, 256, 512]
    assert sum(share for _, share in row_lengths(512)) == pytest.approx(1.0)


def test_the_schedule() -> None:
    options = TrainOptions(steps=1000, warm_up=100, learning_rate=1.0)
    assert learning_rate(options, 0) == 0.01
    assert learning_rate(options, 99) == 1.0
    assert learning_rate(options, 550) == pytest.approx(0.505)
    assert learning_rate(options, 1000) == pytest.approx(0.01)


def test_the_opening_ends_when_repeats_are_solved() -> None:
    options = replace(SMALL, steps=100, solved=1.0, opening_share=0.9, repeat_share=0.5, late_repeat_share=0.1)
    run = new_run(options)
    run.saw(5.0, 3.0, options)
    assert (run.step, run.opened, run.share(options)) == (1, None, 0.9)
    while run.opened is None:
        run.saw(5.0, 0.5, options)
    # 3 · 0.9ⁿ + 0.5 · (1 − 0.9ⁿ) < 1 from n = 16 on
    assert (run.step, run.opened) == (17, 17)
    assert run.share(options) == 0.5
    run.saw(math.nan, 9.0, options)
    assert run.opened == 17
    assert run.text_loss == pytest.approx(5.0)
    run.step = 100
    assert run.share(options) == pytest.approx(0.1)


def test_the_opening_ends_in_time_even_if_repeats_are_not_solved() -> None:
    options = replace(SMALL, steps=10, longest_opening=0.4)
    run = new_run(options)
    for _ in range(4):
        assert run.opened is None
        run.saw(5.0, 5.0, options)
    assert run.opened == 4


def test_weights_start_where_the_recipe_says_and_norm_gains_do_not_decay() -> None:
    run = new_run(SMALL)
    gains = [
        p
        for name, p in run.model.named_parameters()
        if name.endswith(("query_norm.norm.weight", "key_norm.norm.weight"))
    ]
    assert len(gains) == 4
    assert all(bool((gain == 1.5).all()) for gain in gains)
    decaying, steady = run.optimizer.param_groups
    assert (decaying["weight_decay"], steady["weight_decay"]) == (0.1, 0.0)
    assert {p.ndim for p in decaying["params"]} == {2}
    ours, plain = (model.get_parameter("blocks.0.mlp.down.weight") for model in (run.model, Decoder(SMALL.config)))
    assert_close(ours, 0.2 * plain, terms=1)
    assert {p.ndim for p in steady["params"]} == {1}


# A step -----------------------------------------------------------------------------------------------------------


def test_a_step_lowers_the_loss_on_its_own_rows() -> None:
    options = replace(SMALL, dropout=0.0, warm_up=1, steps=100)
    ids = torch.tensor([1, 2, 3, 4, 5, 6, 7] * 40)
    run = new_run(options)
    batch = draw_batch(ids, options, 0, share=0.5)
    train_step(run, batch, options)
    first = run.text_loss
    for _ in range(12):
        train_step(run, batch, options)
    assert run.step == 13
    assert first is not None
    assert run.text_loss is not None
    assert first == pytest.approx(math.log(270), abs=1.0)
    assert run.text_loss < first - 1.0


def test_the_embedding_and_every_sublayer_are_dropped_from_and_only_inside() -> None:
    model = Decoder(SMALL.config, seed=0)
    names = ["hook_embed", *(f"blocks.{layer}.hook_{part}_out" for layer in range(2) for part in ("attn", "mlp"))]
    ids = IDS[None, :64]
    plain = model(ids)
    with training._dropping(model, 0.25, seed=0), capture(model, names) as seen:
        model(ids)
    for name in names:
        assert float((seen[name] == 0).float().mean()) == pytest.approx(0.25, abs=0.06)
    kept = seen["hook_embed"] != 0
    assert torch.allclose(seen["hook_embed"][kept], model.embed(ids)[kept] / 0.75)
    assert torch.equal(model(ids), plain)


def test_nothing_is_dropped_in_the_opening() -> None:
    options = replace(SMALL, dropout=0.9, steps=100)
    batch = draw_batch(IDS, options, 0, share=0.5)
    first, second = new_run(options), new_run(replace(options, dropout=0.0))
    train_step(first, batch, options)
    train_step(second, batch, options)
    assert first.text_loss == second.text_loss
    second.opened = first.opened = 1
    train_step(first, batch, options)
    train_step(second, batch, replace(options, dropout=0.0))
    assert first.text_loss != second.text_loss


# The whole run ----------------------------------------------------------------------------------------------------


def test_a_run_leaves_a_checkpoint_a_card_and_no_state(trained: Trained) -> None:
    assert {path.name for path in trained.folder.iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "MODEL_CARD.md",
        "history.safetensors",
    }
    checkpoint = open_checkpoint(trained.folder)
    assert checkpoint.config == SMALL.config
    assert checkpoint.family == "qwen3"
    assert checkpoint.tokenizer is not None
    assert (checkpoint.tokenizer.vocabulary, checkpoint.tokenizer.eos_id) == (270, 0)
    assert checkpoint.tokenizer.decode(checkpoint.tokenizer.encode("the cat\n猫")) == "the cat\n猫"


def test_the_folder_measures_as_the_run_did(trained: Trained) -> None:
    grades = finished(grade_folder(trained.folder, trained.folder.parent / "plays.txt"))
    assert grades.text is not None
    assert trained.grades.text is not None
    assert grades.text.loss == pytest.approx(trained.grades.text.loss, abs=1e-6)
    assert finished(grade_folder(trained.folder)).text is None


def test_a_run_that_was_stopped_ends_where_it_would_have(trained: Trained, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "stopped"
    first = train(text, out, SMALL)
    for point in first:
        if point.done == 3:
            break
    first.close()
    assert [path.name for path in out.iterdir()] == [STATE]
    rest = train(text, out, SMALL)
    assert next(rest).done == 4
    finished(rest)
    ours, theirs = weights_of(out), weights_of(trained.folder)
    assert ours.keys() == theirs.keys()
    # a step moves a weight by the rate at most; where its gradient is all rounding error, by any share of that
    for name, weight in ours.items():
        assert float((weight - theirs[name]).abs().mean()) < 0.01 * SMALL.learning_rate


def test_progress_counts_steps_and_says_the_loss(text: Path, tmp_path: Path) -> None:
    run = train(text, tmp_path / "out", SMALL)
    points = [next(run) for _ in range(3)]
    run.close()
    assert [(point.done, point.total) for point in points] == [(1, 6), (2, 6), (3, 6)]
    loss = r"\d\.\d{3}"
    wanted = rf"Training: loss on text {loss}, repeats {loss}"
    assert re.fullmatch(wanted, points[0].what)
    assert all(re.fullmatch(rf"{wanted}, validation {loss}", point.what) for point in points[1:])


def test_another_seed_gives_another_model(trained: Trained, text: Path, tmp_path: Path) -> None:
    finished(train(text, tmp_path / "other", replace(SMALL, seed=1)))
    name = "model.embed_tokens.weight"
    assert not torch.equal(weights_of(tmp_path / "other")[name], weights_of(trained.folder)[name])


# The state --------------------------------------------------------------------------------------------------------


def test_a_state_holds_weights_and_both_moments(tmp_path: Path) -> None:
    run = new_run(SMALL)
    train_step(run, draw_batch(IDS, SMALL, 0, share=0.5), SMALL)
    run.checks.append({"step": 1, "validation_loss": 5.5})
    save_state(tmp_path / STATE, run, SMALL, "digest")
    again = load_state(tmp_path / STATE, SMALL, "digest")
    assert (again.step, again.text_loss, again.repeat_loss) == (1, run.text_loss, run.repeat_loss)
    assert (again.opened, again.checks) == (None, run.checks)
    for ours, theirs in zip(run.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
        for key, value in run.optimizer.state[ours].items():
            assert torch.equal(value, again.optimizer.state[theirs][key])


@pytest.mark.parametrize(
    ("options", "digest", "message"),
    [
        (replace(SMALL, layers=3), "digest", "unfinished run with layers 2, but 3 was asked for"),
        (replace(SMALL, seed=5), "digest", "unfinished run with seed 0, but 5 was asked for"),
        (SMALL, "another", "unfinished run on another text"),
    ],
)
def test_a_state_of_another_run_is_refused(tmp_path: Path, options: TrainOptions, digest: str, message: str) -> None:
    save_state(tmp_path / STATE, new_run(SMALL), SMALL, "digest")
    with pytest.raises(TrainingError, match=message):
        load_state(tmp_path / STATE, options, digest)


def test_a_file_that_is_no_state_is_refused(tmp_path: Path) -> None:
    path = tmp_path / STATE
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(TrainingError, match="is not the state of a training run"):
        load_state(path, SMALL, "digest")
    save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(TrainingError, match="is not the state of a training run"):
        load_state(path, SMALL, "digest")


# Refusals ---------------------------------------------------------------------------------------------------------


def test_a_missing_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"no text to read at .*absent\.txt"):
        finished(train(tmp_path / "absent.txt", tmp_path / "out", SMALL))
    assert not (tmp_path / "out").exists()


def test_a_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes("é".encode("latin-1") * 100)
    with pytest.raises(TrainingError, match=r"latin\.txt is not UTF-8"):
        read_corpus(tmp_path / "latin.txt", SMALL)


def test_a_short_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text(TEXT[:4000], encoding="utf-8")
    with pytest.raises(TrainingError, match=r"short\.txt gives \d+ tokens to validate on, but a context of 512"):
        read_corpus(path, replace(SMALL, context=512))
    with pytest.raises(TokenizerError, match="use a longer text"):
        read_corpus(path, replace(SMALL, vocabulary=5000))


def test_a_folder_that_holds_a_model_is_left_alone(trained: Trained, text: Path) -> None:
    before = weights_of(trained.folder)
    with pytest.raises(TrainingError, match="already holds a model"):
        finished(train(text, trained.folder, SMALL))
    after = weights_of(trained.folder)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_folder_that_cannot_be_made_is_refused(text: Path) -> None:
    with pytest.raises(TrainingError, match="cannot be made"):
        finished(train(text, text / "out", SMALL))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "option steps is 0"),
        ({"learning_rate": -1.0}, "option learning_rate is -1"),
        ({"dropout": 1.0}, "option dropout is 1.0, but it must be from 0 to below 1"),
        ({"context": 32}, "context is 32 tokens, but rows that repeat themselves need at least 48"),
        ({"width": 18}, "width 18 cannot be cut into 4 heads"),
    ],
)
def test_options_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        replace(SMALL, **changes)


def test_heads_that_do_not_divide_are_refused_by_the_config() -> None:
    with pytest.raises(ConfigError, match="3 kv heads"):
        _ = replace(SMALL, kv_heads=3).config


def test_the_defaults_make_the_bundled_model() -> None:
    config = TrainOptions().config
    assert config == KNOWN["ropewalk"]
    assert sum(parameter.numel() for parameter in Decoder(config).parameters()) == 886_016


# Grading ----------------------------------------------------------------------------------------------------------


def test_losses_are_those_of_the_next_token() -> None:
    model = Decoder(SMALL.config, seed=3).eval()
    ids = torch.randint(270, (3, 32), generator=torch.Generator().manual_seed(0))
    losses = token_losses(model, ids)
    with torch.no_grad():
        expected = -model(ids, branch="explicit").log_softmax(-1)[2, 9, int(ids[2, 10])]
    assert losses.shape == (3, 31)
    assert float(losses[2, 9]) == pytest.approx(float(expected), abs=1e-5)


def test_repeats_are_graded_by_the_stated_formulas() -> None:
    model = Decoder(SMALL.config, seed=3).eval()
    found = grade_repeats(model, period=8, sequences=2)
    ids = torch.stack([torch.randint(0, 270, (8,), generator=torch.Generator().manual_seed(s)) for s in (1000, 1001)])
    ids = torch.cat((ids, ids), dim=1)
    with torch.no_grad(), capture(model, ["blocks.0.attn.hook_pattern", "blocks.1.attn.hook_pattern"]) as seen:
        logits = model(ids, branch="explicit")
    w = torch.stack(list(seen.values())).mean(1)  # [L, H, T, T]
    induction = torch.stack([w[..., q, q - 7] for q in range(8, 15)]).mean(0)
    previous = torch.stack([w[..., q, q - 1] for q in range(1, 16)]).mean(0)
    loss = -torch.stack([logits[b, q].log_softmax(-1)[ids[b, q + 1]] for b in range(2) for q in range(8, 15)]).mean()
    assert found.induction.weight == pytest.approx(float(induction.max()), abs=1e-6)
    assert float(induction[found.induction.layer, found.induction.head]) == pytest.approx(
        float(induction.max()), abs=1e-6
    )
    assert found.previous_token.weight == pytest.approx(float(previous.max()), abs=1e-6)
    assert found.loss == pytest.approx(float(loss), abs=1e-5)


def test_every_stretch_of_positions_reads_the_same_text() -> None:
    # a decoder without attention or position says the same of a token wherever it stands
    model = Decoder(SMALL.config, seed=0).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("attn.output.weight"):
                parameter.zero_()
    ids = torch.randint(270, (403,), generator=torch.Generator().manual_seed(1))
    found = finished(grade_steps(model, ids)).text
    assert found is not None
    assert len(found.by_position) == 8
    assert found.by_position == pytest.approx([found.by_position[0]] * 8, abs=1e-5)
    assert found.loss == pytest.approx(float(token_losses(model, side_by_side(ids, 64)).mean()), abs=1e-5)


def test_a_text_shorter_than_two_windows_is_refused() -> None:
    with pytest.raises(TrainingError, match="has 127 tokens, but two windows of 64"):
        finished(grade_steps(Decoder(SMALL.config), torch.zeros(127, dtype=torch.long)))


def test_rise_is_the_largest_step_up_from_any_earlier_stretch() -> None:
    assert rise((4.0, 3.8, 3.7)) == 0.0
    assert rise((4.0, 3.7, 3.75, 3.7)) == pytest.approx(0.05)
    assert rise(()) == 0.0


def made_up(induction: float = 0.9, previous: float = 0.8, loss: float = 0.1, text_loss: float = 3.7) -> Grades:
    repeats = Repeats(BestHead(2, 3, induction), BestHead(1, 0, previous), loss)
    text = Reading(1000, text_loss, (3.8, 3.7), BestHead(1, 0, previous))
    return Grades({24: repeats, 48: repeats, 128: repeats}, text)


def test_bars_hold_or_not() -> None:
    assert len(bars(made_up())) == 8
    assert all(bar.holds for bar in bars(made_up()))
    assert [bar.name for bar in bars(made_up(text_loss=3.9)) if not bar.holds] == ["validation loss, nats a token"]
    assert sum(not bar.holds for bar in bars(made_up(induction=0.5))) == 3
    assert sum(not bar.holds for bar in bars(made_up(previous=0.6))) == 2
    assert sum(not bar.holds for bar in bars(made_up(loss=math.nan))) == 1


def test_the_card_states_what_was_measured_and_how_to_measure_it() -> None:
    card = model_card("small", Decoder(SMALL.config), made_up(induction=0.5), {"text": "plays.txt", "seed": 0})
    assert "| induction head, 48 random tokens twice | 0.500 (L2H3) | ≥ 0.6 | missed |" in card
    assert "| validation loss, nats a token | 3.700 | ≤ 3.85 | ✓ |" in card
    assert "python main.py train --grade DIR --text FILE" in card
    assert "| 0–31 | 32–63 |" in card
    assert "- seed: 0" in card


# The folder -------------------------------------------------------------------------------------------------------


def test_weights_have_the_names_of_the_layout() -> None:
    names = set(layout_weights(Decoder(SMALL.config)))
    assert len(names) == 2 + 2 * 11
    assert {
        "model.embed_tokens.weight",
        "model.norm.weight",
        "model.layers.1.self_attn.q_norm.weight",
        "model.layers.0.mlp.down_proj.weight",
        "model.layers.0.post_attention_layernorm.weight",
    } <= names
    assert "lm_head.weight" not in names
    assert "lm_head.weight" in layout_weights(Decoder(SMALL.config.changed(tied=False)))


def test_a_model_that_the_layout_cannot_say_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be saved"):
        layout_config(SMALL.config.changed(norm="layer"))


def test_transformers_opens_the_folder_with_equal_logits(trained: Trained) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(trained.folder)
    ours = open_checkpoint(trained.folder).model
    ids = torch.randint(270, (2, 32), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        assert float((theirs(ids).logits - ours(ids)).abs().max()) < 5e-5


def test_a_saved_folder_can_be_saved_again(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(TEXT, 270)
    model = Decoder(SMALL.config, seed=4)
    save_folder(tmp_path / "again", model, tokenizer)
    first = (tmp_path / "again" / "model.safetensors").read_bytes()
    save_folder(tmp_path / "again", open_checkpoint(tmp_path / "again").model, tokenizer)
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == first
    assert json.loads((tmp_path / "again" / "config.json").read_text())["eos_token_id"] == 0


def test_a_text_is_cut_by_position() -> None:
    assert split_text("abcdefghij", 0.2) == ("abcdefgh", "ij")
    assert split_text("abc", 0.0) == ("abc", "")
