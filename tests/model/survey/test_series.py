"""Surveys of several steps of a model, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ropewalk
from ropewalk.model.decoder.interventions import AblateHeads, NoCausalMask, PermuteTokens
from ropewalk.model.errors import InterventionError, SurveyError
from ropewalk.model.survey.comparison import benjamini_hochberg, two_sided
from ropewalk.model.survey.result import Survey
from ropewalk.model.survey.series import SurveySeries, survey_series
from tests.model.survey.small_survey import SmallModel, texts_of

TEXTS = texts_of((9, 20, 13, 17, 11))
NAMES = ("previous", "sink", "duplicate")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three checkpoints, told out of order."""
    found = [tmp_path_factory.mktemp("series") / f"step{step}" for step in (2000, 0, 500)]
    for seed, out in enumerate(found):
        ropewalk.survey(SmallModel("plain", seed), TEXTS, out=out, statistics=NAMES)
    return found


@pytest.fixture(scope="module")
def series(folders: list[Path]) -> SurveySeries:
    return survey_series(folders)


def values(seed: int, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """[N, L, H] a text at a time; NaN where one has none."""
    found = [ropewalk.survey(SmallModel("plain", seed), [ids], statistics=[name]) for ids in TEXTS]
    return np.array([one.mean(name) for one in found])


def test_means_stand_in_the_order_of_their_steps(series: SurveySeries, folders: list[Path]) -> None:
    assert series.steps == (0, 500, 2000)
    assert series.names == NAMES
    loaded = [ropewalk.load_survey(folders[at]) for at in (1, 2, 0)]
    assert np.array_equal(series.mean("sink"), [one.mean("sink") for one in loaded])
    assert np.array_equal(series.error("sink"), [one.error("sink") for one in loaded])
    assert series.count("sink") == (5, 5, 5)
    frame = series.frame
    assert list(frame) == ["step", "layer", "head", "statistic", "value", "error", "n"]
    row = frame[(frame.step == 500) & (frame.statistic == "sink") & (frame.layer == 2) & (frame["head"] == 1)]
    assert row.value.item() == loaded[1].mean("sink")[2, 1]


@pytest.mark.parametrize(("since", "before"), [("previous", (1, 2)), ("first", (1, 1))])
def test_changes_are_paired_by_text(since: Any, before: tuple[int, int], series: SurveySeries) -> None:
    changes = series.changes(since)
    assert changes.steps == (500, 2000)
    p = []
    for at, (seed, other) in enumerate(zip((2, 0), before, strict=True)):
        differences = values(seed, "duplicate") - values(other, "duplicate")
        differences = differences[~np.isnan(differences[:, 0, 0])]
        n = len(differences)
        error = differences.std(0, ddof=1) / n**0.5
        assert changes.difference("duplicate")[at] == pytest.approx(differences.mean(0), abs=1e-6)
        assert changes.error("duplicate")[at] == pytest.approx(error, abs=1e-6)
        p.append(two_sided(differences.mean(0) / error, n - 1))
    assert changes.adjusted("duplicate") == pytest.approx(benjamini_hochberg(np.array(p)), rel=1e-2)
    assert np.array_equal(changes.significant("sink", 0.2), changes.adjusted("sink") <= 0.2)
    frame = changes.frame
    assert len(frame) == 2 * 3 * 12
    assert frame[frame.statistic == "sink"].adjusted.to_numpy().reshape(2, 3, 4) == pytest.approx(
        changes.adjusted("sink")
    )


def test_what_is_no_series_is_a_sentence(series: SurveySeries, folders: list[Path], tmp_path: Path) -> None:
    one = series.surveys[0]
    with pytest.raises(SurveyError, match="two surveys or more"):
        ropewalk.survey_series([one])
    for steps in ([1], [1, 1], [1, "x"]):
        with pytest.raises(SurveyError, match="2 surveys need as many steps"):
            ropewalk.survey_series([one, one], steps)  # type: ignore[arg-type]
    assert ropewalk.survey_series([one, one]).steps == (0, 1)
    assert ropewalk.survey_series(folders[:2], [7, 9]).steps == (7, 9)
    with pytest.raises(SurveyError, match="of other texts"):
        ropewalk.survey_series([one, ropewalk.survey(SmallModel("plain"), TEXTS[:2])])
    with pytest.raises(SurveyError, match="no statistic in common"):
        ropewalk.survey_series([one, ropewalk.survey(SmallModel("plain"), TEXTS, statistics=["self"])])
    with pytest.raises(SurveyError, match="the 'previous' one or the 'first', not with 'last'"):
        series.changes("last")  # type: ignore[arg-type]


def test_a_model_is_compared_with_its_ablation() -> None:
    model, heads = SmallModel("plain"), [AblateHeads(0, (1, 2))]
    base = ropewalk.survey(model, TEXTS, statistics=["previous", "output"])
    without = ropewalk.survey(model, TEXTS, statistics=["previous", "output"], interventions=heads)
    assert without.manifest["settings"]["interventions"][0]["heads"] == [1, 2]
    assert (without.mean("output")[0] == 0).tolist() == [False, True, True, False]
    weights = model.capture([TEXTS[1]], interventions=heads).patterns(layer=2)[0, 3].double().numpy()
    alone = ropewalk.survey(model, [TEXTS[1]], statistics=["previous"], interventions=heads)
    assert alone.mean("previous")[2, 3] == pytest.approx(np.diag(weights, -1).mean(), abs=1e-6)
    compared = base.compare(without)
    assert not compared.difference[0, 0].any()  # the first layer sees the same
    assert compared.difference[0, 1:].all()
    free = ropewalk.survey(model, TEXTS, statistics=["self"], interventions=[NoCausalMask()])
    assert free.mean("self") != pytest.approx(ropewalk.survey(model, TEXTS, statistics=["self"]).mean("self"))
    with pytest.raises(InterventionError, match="Head 9 was chosen"):
        ropewalk.survey(model, TEXTS, interventions=[AblateHeads(0, (9,))])
    with pytest.raises(SurveyError, match="no order of tokens in common"):
        ropewalk.survey(model, TEXTS, interventions=[PermuteTokens((1, 0))])


def test_notebooks_show_maps(series: SurveySeries) -> None:
    one: Survey = series.surveys[0]
    shown = one._repr_html_()
    assert shown.count("<svg") == 3
    assert "&lt;Survey of plain" in shown
    assert "duplicate, n = " in shown
    assert one.compare(series.surveys[1])._repr_html_().count("<svg") == 3
    assert repr(series) == "<SurveySeries of 3 steps, 0 to 2000: 3 statistics>"
