"""The benchmark: its arithmetic on numbers, its processes when they fail, and that peers compute what we compute."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

from ropewalk.model.decoder.config import ModelConfig, RopeConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.errors import ConfigError
from tests.benchmarks.peers import figures, meters
from tests.benchmarks.peers.__main__ import main
from tests.benchmarks.peers.ours import pictures
from tests.benchmarks.peers.plot import COLOURS, draw_growth, memory_curves, time_curves
from tests.benchmarks.peers.process import Measuring
from tests.benchmarks.peers.report import Figure, Report, bytes_written, written
from tests.benchmarks.peers.suite import full_tasks, quick_tasks
from tests.benchmarks.peers.surveys import THREE, _ratios, of_eager, surveyed, texts_of
from tests.benchmarks.peers.theirs import llama_of

LLAMA = ModelConfig(
    vocabulary=97, width=32, layers=2, heads=4, kv_heads=2, head_width=8, mlp_width=48, max_position=64,
    rope=RopeConfig(base=10_000.0), tied=True,
)  # fmt: skip
SLICES = {"slice_median": 0.01, "slice_95": 0.02, "slice_longest": 0.03}
FIGURES = [
    *figures.prefill(128, {"plain": 1.0, "capture": 1.05, "streamed": 1.3, **SLICES}),
    *figures.prefill(2048, {"plain": 10.0, "capture": 12.0, "streamed": 13.0, **SLICES}),
    *figures.memory(
        2048, {"kept": 100, "plain": 50, "held": 101, "needed": 100, "capture": 140, "streamed": 95, "predicted": 100}
    ),
    *figures.peer(figures.EAGER, 128, {"seconds": 2.1, "peak": 500}),
    *figures.peer(figures.EAGER, 2048, {"seconds": 90.0, "peak": 2000}),
]


def test_a_ratio_is_held_to_its_bar_the_way_round_that_the_bar_reads() -> None:
    below, above, least = (
        Figure("s", "w", ratio=r, bar=b) for r, b in ((1.1, "<= 1.1"), (1.11, "<= 1.1"), (5, ">= 5"))
    )
    assert (below.meets, above.meets, least.meets) == (True, False, True)
    assert Figure("s", "w", ratio=2.0).meets is None
    assert Figure("s", "w", bar="<= 1").meets is None


def test_peers_stand_beside_what_we_took_at_the_same_length() -> None:
    found = {(one.what, one.tokens): one for one in figures.beside_ours(FIGURES) if one.section == figures.PEERS}
    assert found[figures.TIME, 128].ratio == pytest.approx(2.0)
    assert found[figures.TIME, 128].meets is None  # nothing is promised at 128
    assert found[figures.TIME, 2048].ratio == pytest.approx(7.5)
    assert found[figures.TIME, 2048].meets
    assert found[figures.PEAK, 2048].ratio == pytest.approx(2000 / 140)
    assert found[figures.PEAK, 2048].meets is False
    assert found[figures.PEAK, 128].ours is None  # our memory was not measured there


def test_numbers_are_written_with_three_figures_and_a_unit() -> None:
    assert [written(0.01234, "s"), written(1234.0, "s"), written(12.34, "tokens/s")] == [
        "12.3 ms",
        "1,234 s",
        "12.3 tokens/s",
    ]
    assert [bytes_written(size) for size in (999, 1.5 * 2**20, 2.5 * 2**30)] == ["999 B", "1.5 MiB", "2.5 GiB"]


def test_a_report_is_the_same_after_json_and_prints_as_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = {
        "threads": 2, "cores": 4, "processor": "a processor", "memory": 8e9, "copy_bandwidth": 1e10, "system": "S",
        "python": "3", "torch": "2", "wait_policy": "passive", "load": 0.25,
    }  # fmt: skip
    report = Report(machine, {"name": "a model"}, figures.beside_ours(FIGURES), ["TransformerLens"], 3.0)
    file, picture = tmp_path / "report.json", tmp_path / "growth.png"
    file.write_text(json.dumps(report.to_dict()))
    assert Report.from_dict(json.loads(file.read_text())) == report
    assert main(["--again", str(file), "--markdown", "--plot", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "| capture | 2,048 | 12 s | 10 s plain forward | 1.20 | <= 1.1 MISSED |" in printed
    assert "2 threads on 4 cores (a processor)" in printed
    assert "Left out: TransformerLens." in printed
    assert picture.exists()
    file.write_text('{"figures": 3}')
    assert main(["--again", str(file)]) == 1
    assert "not a report of these measurements" in capsys.readouterr().err


def test_the_picture_draws_every_curve_in_its_colour(tmp_path: Path) -> None:
    found = figures.beside_ours(FIGURES)
    assert {curve.name: curve.points for curve in time_curves(found)} == {
        "Ropewalk": ((128.0, 1.05), (2048.0, 12.0)),
        "plain forward": ((128.0, 1.0), (2048.0, 10.0)),
        figures.EAGER: ((128.0, 2.1), (2048.0, 90.0)),
    }
    assert [curve.name for curve in memory_curves(found)] == ["Ropewalk", figures.EAGER]
    draw_growth(found, tmp_path / "growth.png")
    with Image.open(tmp_path / "growth.png") as image:
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 24) or []}
    for name in ("Ropewalk", figures.EAGER):
        assert tuple(bytes.fromhex(COLOURS[name][1:])) in colours


def test_a_measurement_that_fails_says_how_and_the_process_goes_on() -> None:
    with Measuring() as process:
        assert process.ask("nothing", {}) == (None, "KeyError: 'nothing'")
        assert process.alive
        assert process.ask("else", {}) == (None, "KeyError: 'else'")
    assert not process.alive


def test_the_machine_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meters, "LARGE", 1 << 16)
    assert meters.machine()["copy_bandwidth"] > 1e6


def test_a_measurement_that_takes_too_long_is_ended_with_its_process() -> None:
    with Measuring() as process:
        assert process.ask("prefill", {"path": None, "tokens": 4096, "times": 9}, 0.05) == (None, "not done after 0 s")
        assert not process.alive


def test_a_process_that_is_gone_is_reported() -> None:
    with Measuring() as process:
        process._process.kill()
        process._process.wait()
        numbers, why = process.ask("machine", {})
        assert numbers is None
        assert why.startswith("ended by signal 9")


def test_both_plans_name_measurements_that_exist_and_the_quick_one_fits_into_a_minute() -> None:
    import importlib

    from tests.benchmarks.peers.child import WHERE

    for task in (*quick_tasks(), *full_tasks(None)):
        assert callable(getattr(importlib.import_module(f"tests.benchmarks.peers.{WHERE[task.name]}"), task.name)), task
        assert task.section
    assert sum(task.seconds for task in quick_tasks()) <= 60
    assert {task.options.get("tokens") for task in full_tasks(None)} >= {128, 512, 2048, 8192, 32_768}
    assert 32_768 not in {t.options.get("tokens") for t in full_tasks("a checkpoint") if t.name == "long_prefill"}


def test_pictures_are_measured_on_a_small_run() -> None:
    numbers = pictures(None, 256, 1)
    assert {"coarse", "refined", "with_raw", "bare"} <= set(numbers)
    assert min(numbers.values()) > 0


def test_the_peer_computes_what_we_compute() -> None:
    torch.manual_seed(0)
    model = Decoder(LLAMA).eval().pack()
    ids = torch.randint(0, LLAMA.vocabulary, (1, 24))
    for attention in ("eager", "sdpa"):
        with torch.no_grad():
            theirs, ours = llama_of(model, attention)(ids).logits, model(ids)
        assert (theirs - ours).abs().max() < 1e-4


def test_a_survey_reads_what_a_loop_over_attentions_reads() -> None:
    torch.manual_seed(0)
    model = Decoder(LLAMA).eval().pack()
    texts = texts_of(model, 3, 24)
    assert surveyed(model, texts, THREE) == pytest.approx(of_eager(llama_of(model, "eager"), texts), abs=5e-6)
    numbers = _ratios([[1.0, 2.0, 3.0], [2.0, 2.0, 9.0]], "survey", "loop")
    assert numbers == {"survey": 2.0, "loop": 2.0, "loop_ratio": 2.0}
    ours = figures.survey_memory(512, 4, {"three": 100, "all": 120})
    found = figures.beside_ours([*ours, *figures.survey_memory_of(figures.EAGER, 512, 4, {"peak": 1500})])
    assert (found[-1].ours, found[-1].ratio, found[-1].meets) == (100, 15.0, True)


def test_only_a_plain_llama_has_a_peer() -> None:
    with pytest.raises(ConfigError, match="plain Llama"):
        llama_of(Decoder(LLAMA.changed(qk_norm="head")), "eager")
