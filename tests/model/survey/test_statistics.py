"""Statistics of a survey against plain numpy on explicit weights: families, batches, padding, shards, one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import ropewalk
from ropewalk.model.decoder.hooks import capture as recording
from ropewalk.model.decoder.interventions import NoCausalMask, ReadKvHead, SetPattern
from ropewalk.model.errors import SurveyError
from ropewalk.model.notebooks.prompts import batch_of
from ropewalk.model.survey import corpus, outputs, recorder
from ropewalk.model.survey.choosing import code_hash, code_settings
from ropewalk.model.survey.recorder import SurveyRecorder
from ropewalk.model.survey.result import Survey
from ropewalk.model.survey.statistics import SURVEYED, SurveyStatistic, Text
from ropewalk.model.survey.tally import Tally
from tests.model.small_models import CONFIGS
from tests.model.survey.small_survey import FAMILIES, SmallModel, expected, texts_of

LENGTHS = (9, 1, 70, 31, 67, 31, 33)
CELLS = [(5, 2), (5, 3), (8, 8), (200, 1)]
OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in CONFIGS if name not in ("plain", "sink", "dynamic")]


def check(found: Survey, each: Sequence[dict[str, NDArray[np.float64]]], within: float = 1e-6) -> None:
    """Hold means, errors and counts to the values of the texts."""
    for statistic in found.names:
        values = np.array([one[statistic] for one in each])
        there = ~np.isnan(values[:, 0, 0])
        assert found.count(statistic) == there.sum(), statistic
        if not there.any():
            continue
        mean, spread = values[there].mean(0), values[there].std(0, ddof=1)
        allowed = within * max(1.0, float(np.abs(mean).max()))
        assert found.mean(statistic) == pytest.approx(mean, abs=allowed), statistic
        assert found.error(statistic) == pytest.approx(spread / np.sqrt(there.sum()), abs=allowed), statistic


@pytest.mark.parametrize("name", [*FAMILIES, "dynamic", *OTHERS])
def test_every_statistic_is_what_numpy_says_of_explicit_weights(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, texts = SmallModel(name), texts_of(LENGTHS)
    each = [expected(model, ids, [cell for cell in CELLS if max(cell) < len(ids)]) for ids in texts]
    whole = ropewalk.survey(model, texts, pairs=lambda tokens, row: CELLS)
    assert set(whole.names) == set(SURVEYED) == set(each[0])
    check(whole, each)
    monkeypatch.setattr(recorder, "BLOCK_CELLS", 1200)  # several blocks of rows, and texts in several chunks
    monkeypatch.setattr(outputs, "PIECE", 1500)
    monkeypatch.setattr(corpus, "SHARD", 4)
    check(ropewalk.survey(model, texts, batch=3, pairs=lambda tokens, row: CELLS), each)


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt_oss"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_changes_nothing(name: str, side: str) -> None:
    model, lengths = SmallModel(name), (9, 31, 33)
    texts = [Text(at, np.array(ids)) for at, ids in enumerate(texts_of(lengths))]
    chosen = [one for one in SURVEYED.values() if one.name != "pairs"]
    padded, mask = np.full((3, 40), 7), np.zeros((3, 40), np.bool_)
    for row, text in enumerate(texts):
        place = slice(len(text)) if side == "right" else slice(40 - len(text), 40)
        padded[row, place], mask[row, place] = text.ids, True
    tally = Tally.empty(len(chosen), 2, 4, 8, 2)
    recording_all = SurveyRecorder(tally, chosen, texts, model.decoder)
    values = model.record(
        batch_of(padded, model.tokenizer, mask=mask), recording_all, recording_all.watches()
    )  # [B, K, L, H]
    alone = Tally.empty(len(chosen), 2, 4, 8, 2)
    for at, text in enumerate(texts):
        one = SurveyRecorder(alone, chosen, [text], model.decoder)
        found = model.record(batch_of([text.ids.tolist()], model.tokenizer), one, one.watches())
        assert values[at] == pytest.approx(found[0], rel=2e-6, abs=2e-6, nan_ok=True)
    assert tally.counts.tolist() == alone.counts.tolist()
    for name in ("distances", "maps", "map_counts"):
        assert getattr(tally, name) == pytest.approx(getattr(alone, name), abs=1e-5), name
    assert tally.values == pytest.approx(alone.values, rel=2e-6, abs=2e-6)
    unlike = [at for at, one in enumerate(chosen) if one.name in ("previous", "duplicate", "induction")]
    assert np.array_equal(tally.places[unlike], alone.places[unlike])  # of others, several queries have as much


def test_scores_beyond_float32_are_worked_out_finer() -> None:
    model, texts = SmallModel("llama"), texts_of((9, 31, 12))
    with torch.no_grad():
        for layer in range(2):
            weight: torch.Tensor = model.decoder.block(layer).attn.query.weight
            weight *= 40.0
    run = model.capture([texts[1]])
    assert max(float(layer.lse.tensor.abs().max()) for layer in run.trace) > 64
    found = ropewalk.survey(model, texts, statistics=["previous", "induction", "entropy", "similarity"])
    check(found, [expected(model, ids) for ids in texts], within=1e-4)


def test_heads_that_were_changed_are_read_as_they_ran() -> None:
    model, ids = SmallModel("llama"), texts_of((12,), vocabulary=6)[0]
    changes = (SetPattern(1, 2, ((1.0, 0.0), (0.25, 0.75))), ReadKvHead(0, 0, 1), NoCausalMask())
    found = ropewalk.survey(model, [ids], statistics=["previous", "largest"], interventions=changes)
    run = model.capture([ids], interventions=changes)
    for layer in (0, 1):
        w = run.patterns(layer=layer)[0].double().numpy()
        assert found.mean("previous")[layer] == pytest.approx(np.diagonal(w, -1, 1, 2).mean(-1), abs=1e-6)
        assert found.mean("largest")[layer] == pytest.approx(w.max(-1).mean(-1), abs=1e-6)
        for head in range(4):
            example = found.top_examples((layer, head), "previous")[0]
            assert example.value == pytest.approx(w[head, example.query, example.key], abs=1e-6)


def test_examples_are_the_strongest_of_many_texts_of_a_length() -> None:
    model, texts = SmallModel("llama"), texts_of([12] * 9, vocabulary=6)
    found = ropewalk.survey(model, texts, top=3, statistics=["duplicate", "special", "local_8"])
    weights = [model.capture([ids]).patterns(layer=1)[0, 2].double().numpy() for ids in texts]
    for name in found.names:
        best = []
        for number, (ids, w) in enumerate(zip(texts, weights, strict=True)):
            meant = {
                "duplicate": [[p for p in range(q) if ids[p] == ids[q]] for q in range(12)],
                "special": [[k for k in range(q + 1) if ids[k] == 49] for q in range(12)],
                "local_8": [[*range(max(q - 7, 0), q + 1)] for q in range(12)],
            }[name]
            value, q = max((w[q, keys].sum(), q) for q, keys in enumerate(meant) if keys or name == "special")
            if value:
                best.append((value, number, q, max(meant[q], key=list(w[q]).__getitem__)))
        wanted = sorted(best, reverse=True)[:3]
        shown = found.top_examples((1, 2), name)
        assert [one.value for one in shown] == pytest.approx([one[0] for one in wanted], abs=1e-6)
        if name != "local_8":  # where several queries see all there is, the values are all 1
            assert [(one.text, one.query, one.key) for one in shown] == [one[1:] for one in wanted]


# ----------------------------------------------------------------------------------------------------------------------
# One's own

EVEN = SurveyStatistic(
    "even",
    "even tokens",
    "mean of Σ w[q, k] over keys k < q with an even token, over q that have one",
    among=lambda cells: (cells.key_token % 2 == 0) & (cells.key < cells.query),
)
SHARP = SurveyStatistic(
    "sharp", "sharpness", "mean over q of Σ w[q, k]²", of_block=lambda block: block.weights.square().sum(-1)
)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_statistic_of_ones_own_is_what_numpy_says_of_explicit_weights(name: str) -> None:
    model, texts = SmallModel(name), texts_of((9, 31, 12))
    found = ropewalk.survey(model, texts, statistics=["self", EVEN, SHARP], batch=2)
    each = []
    for ids in texts:
        with torch.no_grad(), recording(model.decoder, [f"blocks.{at}.attn.hook_pattern" for at in (0, 1)]) as seen:
            model.decoder(torch.tensor([ids]), branch="explicit")
        w = torch.stack(list(seen.values()))[:, 0].double().numpy()  # [L, H, T, T]
        keys = [[k for k in range(q) if ids[k] % 2 == 0] for q in range(len(ids))]
        even = [w[:, :, q, some].sum(-1) for q, some in enumerate(keys) if some]
        each.append({
            "self": np.diagonal(w, axis1=2, axis2=3).mean(-1),
            "even": np.mean(even, 0) if even else np.full(w.shape[:2], np.nan),
            "sharp": np.square(w).sum(-1).mean(-1),
        })  # fmt: skip
    check(found, each)
    assert found.formula("sharp") == "sharpness: mean over q of Σ w[q, k]²"
    for one in found.top_examples((1, 2), "even"):
        assert texts[one.text][one.key] % 2 == 0
        assert one.key < one.query


def changed(**more: Any) -> SurveyStatistic:
    return SurveyStatistic(**{**vars(SHARP), **more})


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (changed(name="self"), "There is a statistic 'self' already"),
        (changed(name=" "), "needs a name, a title and a formula"),
        (changed(of_block=None), "neither which keys it is the weight on"),
        (
            changed(of_block=lambda block: block.weights),
            r"of shape \(1, 4, 3\), but gave float32 of shape \(1, 4, 3, 3",
        ),
        (changed(of_block=lambda block: 1.0), "but gave a float"),
        (changed(among=lambda cells: cells.key), r"by booleans of shape \(1, 3, 3\), but gave int64"),
        (changed(among=lambda cells: cells.key[..., :2] > 0), r"but gave bool of shape \(1, 1, 2\)"),
        (3, "is a name or a SurveyStatistic, but 3 was given"),
    ],
)
def test_a_statistic_that_is_none_is_refused_in_a_sentence(own: Any, said: str) -> None:
    with pytest.raises(SurveyError, match=said):
        ropewalk.survey(SmallModel("llama"), ["1 2 3"], statistics=[own])


def test_all_is_every_statistic_that_needs_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = changed(one_pass=False)
    monkeypatch.setitem(SURVEYED, "sharp", slow)
    model = SmallModel("llama")
    assert "sharp" not in ropewalk.survey(model, ["1 2 3"]).names
    assert ropewalk.survey(model, ["1 2 3"], statistics=["sharp", "self"]).names == ("sharp", "self")
    assert ropewalk.survey(model, ["1 2 3"], statistics=["all", EVEN]).names[-2:] == ("share", "even")


def test_a_survey_with_other_code_is_not_gone_on_with(tmp_path: Any) -> None:
    def first(tokens: list[str], row: Any) -> list[tuple[int, int]]:
        return [(1, 0)]

    def second(tokens: list[str], row: Any) -> list[tuple[int, int]]:
        return [(1, 1)]

    second.__qualname__ = first.__qualname__
    model = SmallModel("llama")
    ropewalk.survey(model, ["1 2 3"], statistics=["pairs", SHARP], pairs=first, out=tmp_path / "s")
    ropewalk.survey(model, ["1 2 3"], statistics=["pairs", SHARP], pairs=first, out=tmp_path / "s")
    with pytest.raises(SurveyError, match="differs in its pairs_code"):
        ropewalk.survey(model, ["1 2 3"], statistics=["pairs", SHARP], pairs=second, out=tmp_path / "s")
    other = changed(of_block=lambda block: block.weights.square().sum(-1) + 1.0)
    with pytest.raises(SurveyError, match="differs in its own_statistics"):
        ropewalk.survey(model, ["1 2 3"], statistics=["pairs", other], pairs=first, out=tmp_path / "s")
    assert code_settings([SURVEYED["self"]], "column") == {"pairs": "column", "pairs_code": None, "own_statistics": {}}


def test_code_without_a_source_is_told_apart_too() -> None:
    typed: dict[str, Any] = {}
    exec("def one(x): return x + 1\ndef other(x): return x + 2", typed)  # as at a prompt
    assert code_hash(typed["one"]) != code_hash(typed["other"])
    exec("def one(x): return x + 1", typed)
    assert code_hash(typed["one"]) == code_hash(typed["one"])
