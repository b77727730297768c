"""Where the walk through a block stands, whatever block it is."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from ropewalk.app.session.walk import Walk
from ropewalk.model.decoder.config import ModelConfig, MoeConfig

DENSE = ModelConfig(
    vocabulary=9,
    width=8,
    layers=2,
    heads=2,
    kv_heads=1,
    head_width=4,
    mlp_width=16,
    moe=MoeConfig(4, 2, 8, layers=(False, True)),
)


def over(config: ModelConfig, layer: int = 0) -> tuple[Walk, list[int]]:
    """A walk, and the layer that it reads."""
    selected = [layer]
    return Walk(lambda: (config, selected[0])), selected


def test_it_goes_step_by_step_and_stops_at_both_ends(qtbot: QtBot) -> None:
    walk, _ = over(DENSE)
    keys = [step.key for step in walk.steps]
    moves: list[str] = []
    walk.moved.connect(lambda: moves.append(walk.steps[walk.place].key))
    for _ in keys:
        walk.move(1)
    assert moves == keys[1:]
    walk.go_to(len(keys) + 7)
    assert walk.place == len(keys) - 1
    walk.move(-1)
    assert walk.place == len(keys) - 2
    walk.go_to(-3)
    assert walk.place == 0


def test_another_layer_keeps_the_operation_or_the_one_before_it(qtbot: QtBot) -> None:
    walk, selected = over(DENSE)
    walk.put("softmax")
    selected[0] = 1
    assert walk.steps[walk.place].key == "softmax"
    selected[0] = 0
    walk.put("activation")
    selected[0] = 1
    assert walk.steps[walk.place].key == "router"
    selected[0] = 0
    assert walk.steps[walk.place].key == "activation"


def test_a_row_of_the_ledger_leads_to_its_step_and_is_lit_while_somebody_looks(qtbot: QtBot) -> None:
    walk, _ = over(DENSE)
    assert walk.seek("rope_k")
    assert walk.steps[walk.place].key == "rope_q"
    assert walk.lit == frozenset()
    with qtbot.waitSignal(walk.moved):
        walk.show(True)
    assert walk.lit == {"rope_q", "rope_k"}
    assert not walk.seek("lm_head")
    assert walk.lit == {"rope_q", "rope_k"}
    with qtbot.waitSignal(walk.moved):
        walk.show(False)
    assert walk.lit == frozenset()


def test_before_there_is_a_run_nothing_moves(qtbot: QtBot) -> None:
    walk = Walk(lambda: None)
    walk.move(1)
    walk.go_to(3)
    assert (walk.steps, walk.place, walk.lit) == ((), 0, frozenset())
