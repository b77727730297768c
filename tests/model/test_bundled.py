"""The model that comes with Ropewalk reaches what it is meant to, on text and sequences that it was not trained on.

``make`` it again or measure it in full as its card says; here a few pages of other plays have to do.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ropewalk.model.checkpoints import Checkpoint, open_checkpoint
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.progress import finished
from ropewalk.model.training.grading import Bar, bars, grade_steps, side_by_side, token_losses
from ropewalk.model.training.heads_kept import look_at_heads
from ropewalk.model.training.history import read_history
from ropewalk.model.training.training import TrainOptions
from ropewalk.resources import resource
from tests.closeness import assert_close

TEXT = Path(__file__).with_name("unseen_verse.txt")
"""Speeches from plays of which the text that it was trained on has no scene."""


@pytest.fixture(scope="module")
def bundled() -> Checkpoint:
    return open_checkpoint(None)


def holding(found: tuple[Bar, ...]) -> dict[str, bool]:
    return {bar.name: bar.holds for bar in found}


def test_it_is_the_model_the_design_names(bundled: Checkpoint) -> None:
    assert bundled.config == TrainOptions().config
    assert bundled.config == ModelConfig(
        vocabulary=1024,
        width=128,
        layers=4,
        heads=8,
        kv_heads=2,
        head_width=16,
        mlp_width=384,
        max_position=512,
        qk_norm="head",
        tied=True,
    )
    assert bundled.parameters == 886_016
    assert bundled.family == "qwen3"


def test_its_folder_is_complete_and_small() -> None:
    files = {path.name: path.stat().st_size for path in resource("bundled").iterdir()}
    assert files.keys() == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "MODEL_CARD.md",
        "history.safetensors",
    }
    assert sum(files.values()) < 7_000_000


def test_its_tokenizer_spells_everything(bundled: Checkpoint) -> None:
    tokenizer = bundled.tokenizer
    assert tokenizer is not None
    assert (tokenizer.vocabulary, tokenizer.bos_id, tokenizer.eos_id) == (1024, None, 0)
    text = "First Citizen:\nBefore we proceed, 猫 👍 \t é\x00"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    spelled = {piece.data for token in range(1024) if (piece := tokenizer.codec.piece(token)) is not None}
    assert {bytes([byte]) for byte in range(256)} <= spelled
    assert [token.text for token in tokenizer.describe(tokenizer.encode("to be\n"))] == ["to", "·be", "⏎"]


def test_it_reaches_the_bars_on_repeats(bundled: Checkpoint) -> None:
    found = holding(bars(finished(grade_steps(bundled.model))))
    assert found == {
        "induction head, 24 random tokens twice": True,
        "induction head, 48 random tokens twice": True,
        "induction head, 128 random tokens twice": True,
        "loss on the second half of 48 random tokens twice, nats": True,
        "previous-token head, 48 random tokens twice": True,
    }


def test_it_reaches_the_bars_on_text_it_never_saw(bundled: Checkpoint) -> None:
    assert bundled.tokenizer is not None
    ids = torch.tensor(bundled.tokenizer.encode(TEXT.read_text(encoding="utf-8")))
    grades = finished(grade_steps(bundled.model, ids, sequences=1))
    found = holding(bars(grades))
    names = ("previous-token head, validation text", "rise of the validation loss with position, nats")
    assert {name: found[name] for name in names} == dict.fromkeys(names, True)
    assert grades.text is not None
    assert grades.text.loss < 4.0, "other plays are harder than the end of the text that it learnt from"


def test_what_it_knows_of_the_text_is_the_order_of_its_words(bundled: Checkpoint) -> None:
    """Or its loss would say nothing: the same words in another order cost most of a nat a token more."""
    assert bundled.tokenizer is not None
    words = TEXT.read_text(encoding="utf-8").split(" ")
    shuffled = [words[place] for place in torch.randperm(len(words), generator=torch.Generator().manual_seed(0))]
    losses = []
    for text in (words, shuffled):
        windows = side_by_side(torch.tensor(bundled.tokenizer.encode(" ".join(text))), 512)
        losses.append(float(token_losses(bundled.model, windows).mean()))
    assert losses[1] > losses[0] + 0.8


def test_its_card_states_every_bar_and_how_to_measure_it() -> None:
    card = (resource("bundled") / "MODEL_CARD.md").read_text(encoding="utf-8")
    rows = [line for line in card.splitlines() if line.endswith("| ✓ |")]
    assert len(rows) == 8
    assert "missed" not in card
    assert "python main.py train --grade DIR --text FILE" in card


def test_its_history_ends_with_what_its_heads_do_and_shows_two_of_them_come_into_being(bundled: Checkpoint) -> None:
    history = read_history(resource("bundled"), bundled.config)
    assert history is not None
    assert len(history.steps) >= 40
    assert (history.steps[0], history.steps[-1], len(history.text_loss)) == (0, 3500, 3500)
    now = look_at_heads(bundled.model, 3500)
    assert np.abs(now.maps.astype(np.float64) - history.maps[-1]).max() < 0.005
    assert {"previous", "induction"} <= set(history.scores) <= set(now.scores)
    for name, values in history.scores.items():  # the statistics that there were when it was trained
        assert_close(values[-1], now.scores[name], terms=1000, size=1.0)
    for name in ("previous", "induction"):
        scores = history.scores[name]
        layer, head = np.unravel_index(int(scores[-1].argmax()), scores[-1].shape)
        assert scores[0, layer, head] < 0.1
        assert scores[-1, layer, head] > 0.7
    assert f"- steps: {len(history.text_loss)}" in (resource("bundled") / "MODEL_CARD.md").read_text(encoding="utf-8")


def test_transformers_opens_it_with_equal_logits(bundled: Checkpoint) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(resource("bundled"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(resource("bundled"))
    assert bundled.tokenizer is not None
    text = "What light through yonder window breaks? What light\n"
    ids = bundled.tokenizer.encode(text)
    assert tokenizer(text)["input_ids"] == ids
    assert tokenizer.decode(ids) == text
    with torch.no_grad():
        difference = (theirs(torch.tensor([ids])).logits - bundled.model(torch.tensor([ids]))).abs().max()
    assert float(difference) < 5e-5
