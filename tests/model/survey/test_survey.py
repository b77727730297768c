"""Surveys against plain numpy on explicit weights; in batches, shards and after an end; and what comes out of them."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pyarrow import parquet

import ropewalk
from ropewalk.model.errors import SurveyError
from ropewalk.model.survey import corpus
from ropewalk.model.survey.array_file import write_arrays
from ropewalk.model.survey.comparison import benjamini_hochberg, comparison_of, two_sided
from ropewalk.model.survey.running import survey_steps
from ropewalk.model.survey.tally import Tally
from ropewalk.model.tokens.tokenizer import Tokenizer
from tests.model.survey.small_survey import PIECES, SmallModel, expected, texts_of
from tests.model.survey.small_survey import Numbers as SmallNumbers

LENGTHS = (9, 1, 70, 31, 67, 31)


def test_distances_add_up_and_agree_with_the_weights() -> None:
    model, texts = SmallModel("plain"), texts_of(LENGTHS)
    found = ropewalk.survey(model, texts, statistics=["self", "local_8"])
    seen = found.mean_map((1, 2))
    assert seen.ranges[:4].tolist() == [[0, 1], [1, 2], [2, 4], [4, 8]]
    assert seen.share.sum() == pytest.approx(1.0, abs=1e-6)
    assert seen.share[0] == pytest.approx(found.mean("self")[1, 2], abs=1e-6)
    assert seen.error[0] == pytest.approx(found.error("self")[1, 2], abs=1e-6)
    assert np.nansum(seen.grid, -1) == pytest.approx(np.ones(32), abs=1e-6)
    assert not np.triu(seen.grid, 1).any()
    first = ropewalk.survey(model, [texts[2][:64]]).mean_map((1, 2)).grid
    w = model.capture([texts[2][:64]]).patterns(layer=1)[0, 2].double().numpy()
    assert first == pytest.approx(w.reshape(32, 2, 32, 2).sum(-1).mean(1), abs=1e-6)
    assert seen.share[:4].sum() == pytest.approx(found.mean("local_8")[1, 2], abs=1e-6)


def test_examples_are_the_largest_values_one_of_a_text(tmp_path: Path) -> None:
    model, texts = SmallModel("plain"), texts_of(LENGTHS)
    found = ropewalk.survey(model, texts, top=4)
    alone = [ropewalk.survey(model, [ids], top=1) for ids in texts]
    for statistic in ("duplicate", "induction", "previous"):
        best = sorted(
            (
                (-one.value, number, one.query, one.key)
                for number, survey in enumerate(alone)
                for one in survey.top_examples((2, 3), statistic)
            ),
        )[:4]
        shown = found.top_examples((2, 3), statistic)
        assert [(one.text, one.query, one.key) for one in shown] == [one[1:] for one in best]
        assert [one.value for one in shown] == pytest.approx([-one[0] for one in best], abs=1e-6)
    for one in found.top_examples((2, 3), "duplicate"):
        ids = texts[one.text]
        assert one.key < one.query
        assert ids[one.key] == ids[one.query]


def test_shards_merge_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "SHARD", 2)
    model, texts = SmallModel("plain"), texts_of(LENGTHS)
    whole = ropewalk.survey(model, texts, out=tmp_path / "s", top=2)
    assert (whole.texts, len(whole._shards)) == (len(texts), 3)
    parts = []
    for number, shard in whole._shards.items():
        part = ropewalk.survey(model, [texts[one] for one in sorted(shard.texts.numbers)], top=2)._tally
        part.places[..., 0][part.places[..., 0] >= 0] += 2 * number
        parts.append(part)
    for order in permutations(parts):
        total = Tally.empty(len(whole.names), 3, 4, len(whole._tally.distances), 2)
        for one in order:
            total.merge(one)
        assert total.counts.tolist() == whole._tally.counts.tolist()
        assert total.mean == pytest.approx(whole._tally.mean, rel=1e-12, nan_ok=True)
        assert np.array_equal(total.places, whole._tally.places)


@pytest.mark.parametrize("pauses", [1, 3, 6])
def test_a_survey_that_was_ended_goes_on(pauses: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "SHARD", 2)
    model, texts = SmallModel("plain"), texts_of(LENGTHS)
    whole = ropewalk.survey(model, texts, out=tmp_path / "whole", batch=1)
    steps = survey_steps(model, texts, out=tmp_path / "cut", batch=1)
    for _ in range(pauses):
        next(steps)
    steps.close()
    shards = tmp_path / "cut" / "shards"
    committed = {path.name: path.stat().st_mtime_ns for path in shards.iterdir()}
    assert len(committed) == (pauses - 1) // 2
    if committed:
        begun = ropewalk.load_survey(tmp_path / "cut")
        assert (begun.texts, begun.complete) == (2 * len(committed), False)
        best = begun.top_examples((1, 1), "self")[0]
        assert best.of.ids.tolist() == texts[best.text]
    again = ropewalk.survey(model, texts, out=tmp_path / "cut", batch=1)
    assert {name: (shards / name).stat().st_mtime_ns for name in committed} == committed
    assert again.complete
    for name in ("heads", "distances", "examples"):
        first, second = (tmp_path / one / f"{name}.parquet" for one in ("whole", "cut"))
        assert first.read_bytes() == second.read_bytes()
    assert whole.texts == again.texts == len(texts)


def test_another_survey_is_not_gone_on_with(tmp_path: Path) -> None:
    model, texts = SmallModel("plain"), texts_of((4, 5))
    ropewalk.survey(model, texts, out=tmp_path / "s")
    with pytest.raises(SurveyError, match="another survey, which differs in its corpus"):
        ropewalk.survey(model, texts[:1], out=tmp_path / "s")
    with pytest.raises(SurveyError, match="another survey, which differs in its top"):
        ropewalk.survey(model, texts, out=tmp_path / "s", top=3)


def test_a_folder_is_of_one_survey_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "SHARD", 2)
    model, texts = SmallModel("plain"), texts_of((4, 5, 6))
    first = survey_steps(model, texts, out=tmp_path / "s")
    next(first)
    with pytest.raises(SurveyError, match=r"A survey runs in .* already"):
        ropewalk.survey(model, texts, out=tmp_path / "s")
    first.close()  # as when its process ends
    assert ropewalk.survey(model, texts, out=tmp_path / "s").texts == 3


def test_what_failed_before_anything_was_committed_is_begun_anew(tmp_path: Path) -> None:
    model, texts = SmallModel("plain"), [{"text": "1 2 1", "cells": [[2, 0]]}]
    with pytest.raises(SurveyError, match="no column 'cell' of pairs; it has text, cells"):
        ropewalk.survey(model, texts, out=tmp_path / "s", pairs="cell")
    assert ropewalk.survey(model, texts, out=tmp_path / "s", pairs="cells").count("pairs") == 1


def test_no_more_examples_are_kept_than_there_are_texts(tmp_path: Path) -> None:
    found = ropewalk.survey(SmallModel("plain"), texts_of((4, 5)), out=tmp_path / "s", top=100_000)
    assert len(found.top_examples((0, 0), "self")) == 2
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.*")) < 1 << 20


def test_a_long_text_is_read_from_its_start_alone() -> None:
    text = " ".join(str(one % 50) for one in range(40_000))
    read = list[int]()

    class Watched(SmallNumbers):
        def encode(self, text: str, add_special: bool, names_special: bool = False) -> list[int]:
            read.append(len(text))
            return super().encode(text, add_special, names_special)

    assert corpus.first_ids(Tokenizer(Watched()), text, 30) == [one % 50 for one in range(30)]
    assert max(read) <= 2 * corpus.START * 30
    assert corpus.first_ids(Tokenizer(Watched()), text, 9_999_999) == [one % 50 for one in range(40_000)]


def test_pairs_are_arrays_too() -> None:
    model, texts = SmallModel("plain"), ["1 2 1 3 1"]
    cells = [(2, 0), (4, 2)]
    means = [
        ropewalk.survey(model, texts, pairs=lambda tokens, row, made=made: made(cells)).mean("pairs")
        for made in (list, np.array, torch.tensor)
    ]
    assert np.array_equal(means[0], means[1])
    assert np.array_equal(means[0], means[2])


def test_tables_are_read_as_they_are(tmp_path: Path) -> None:
    model, texts = SmallModel("plain"), texts_of(LENGTHS)
    found = ropewalk.survey(model, texts, out=tmp_path / "s", pairs=lambda tokens, row: [])
    heads = pd.read_parquet(tmp_path / "s" / "heads.parquet")
    assert list(heads) == ["layer", "head", "statistic", "value", "error", "n"]
    chosen = heads[(heads.statistic == "sink") & (heads.layer == 1) & (heads["head"] == 2)].iloc[0]
    assert (chosen.value, chosen.error) == (found.mean("sink")[1, 2], found.error("sink")[1, 2])
    assert chosen.n == found.count("sink") == 5
    assert heads.value[heads.n == 0].isna().all()
    assert heads.dtypes[["layer", "head", "value", "error", "n"]].tolist() == ["i4", "i4", "f8", "f8", "i4"]
    nothing = parquet.read_table(tmp_path / "s" / "heads.parquet", filters=[("statistic", "=", "pairs")])
    assert (nothing.num_rows, nothing["value"].null_count) == (12, 12)  # null, which every reader leaves out of a mean
    distances = pd.read_parquet(tmp_path / "s" / "distances.parquet")
    assert distances.groupby(["layer", "head"]).value.sum().to_numpy() == pytest.approx(np.ones(12), abs=1e-6)
    loaded = ropewalk.load_survey(tmp_path / "s")
    assert np.array_equal(loaded.mean("entropy"), found.mean("entropy"))
    assert loaded.frame.equals(found.frame)
    manifest = json.loads((tmp_path / "s" / "manifest.json").read_text())
    assert manifest["corpus"]["sources"] == ["memory"]
    assert manifest["model"]["fingerprint"] == "f"
    assert manifest["complete"] is True


def test_examples_are_read_without_corpus_and_model(tmp_path: Path) -> None:
    import pandas as pd

    texts = texts_of(LENGTHS)
    ropewalk.survey(SmallModel("plain"), texts, out=tmp_path / "s", top=3, values=False)
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == [
        *("distances.parquet", "examples.parquet", "heads.parquet", "manifest.json"),
        *("tally.safetensors", "texts.safetensors"),
    ]
    found = ropewalk.load_survey(tmp_path / "s")
    examples = found.top_examples((2, 3), "duplicate")
    table = pd.read_parquet(tmp_path / "s" / "examples.parquet")
    rows = table[(table.layer == 2) & (table["head"] == 3) & (table.statistic == "duplicate")]
    assert rows.value.tolist() == [one.value for one in examples]
    for row, example in zip(rows.itertuples(), examples, strict=True):
        ids, text = texts[example.text], found.text(example.text)
        assert (row.text, row.query, row.key) == (example.text, example.query, example.key)
        assert text.ids.tolist() == example.of.ids.tolist() == ids
        assert [token.id for token in text.tokens] == ids
        assert row.query_token == row.key_token == text.token(example.key) == PIECES[ids[example.key] % 9].decode()
        before, _, rest = row.query_context.partition("«")
        around = [b"<s>" if one == 49 else PIECES[one % 9] for one in ids]
        at = example.query
        assert before == b"".join(around[max(at - 15, 0) : at]).decode()
        assert rest == f"{row.query_token}»" + b"".join(around[at + 1 : at + 16]).decode()
    special = next(one.of for one in found.top_examples((0, 0), "self") if one.text == 0)
    assert (special.tokens[0].text, special.tokens[0].kind) == ("<s>", "special")
    with pytest.raises(SurveyError, match="Text 99 is not among those"):
        found.text(99)
    with pytest.raises(SurveyError, match="cannot be compared by text"):
        found.compare(found)
    again = ropewalk.survey(SmallModel("plain"), texts, out=tmp_path / "s", top=3, values=False)
    assert again.texts == len(texts)  # nothing is left to run, and no shard is looked for


@pytest.mark.parametrize("kept", ["folders", "memory"])
def test_two_surveys_are_compared_text_by_text(kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "SHARD", 4)
    texts, out = texts_of(LENGTHS), {one: tmp_path / one if kept == "folders" else None for one in ("a", "b")}
    first = ropewalk.survey(SmallModel("plain"), texts, out=out["a"], batch=1)
    second = ropewalk.survey(SmallModel("plain", seed=3), texts, out=out["b"], statistics=["induction", "sink"])
    found = first.compare(second)
    assert found.names == ("sink", "induction")
    pairs = [(expected(SmallModel("plain"), ids), expected(SmallModel("plain", seed=3), ids)) for ids in texts]
    differences = np.array([after["induction"] - before["induction"] for before, after in pairs])
    differences = differences[~np.isnan(differences[:, 0, 0])]
    assert found.count[1] == len(differences)
    assert found.difference[1] == pytest.approx(differences.mean(0), abs=1e-6)
    assert found.error[1] == pytest.approx(differences.std(0, ddof=1) / len(differences) ** 0.5, abs=1e-6)
    t = np.abs(found.difference[1] / found.error[1])
    assert found.p[1] == pytest.approx(two_sided(t, len(differences) - 1))
    assert np.array_equal(found.significant("sink", 0.3), found.adjusted("sink") <= 0.3)
    assert len(found.frame) == 2 * 3 * 4
    assert not first.compare(first).significant("sink").any()
    with pytest.raises(SurveyError, match="other texts: they differ in their corpus"):
        first.compare(ropewalk.survey(SmallModel("plain"), texts[:2]))


def test_a_folder_is_compared_as_its_survey_is(tmp_path: Path) -> None:
    first, second = (
        ropewalk.survey(SmallModel("plain", seed), texts_of((9, 5)), out=tmp_path / name, statistics=["self"])
        for seed, name in enumerate("ab")
    )
    for folder in (tmp_path / "b", str(tmp_path / "b")):
        assert np.array_equal(first.compare(folder).difference, first.compare(second).difference)
    with pytest.raises(SurveyError, match="gone holds no survey"):
        first.compare(tmp_path / "gone")
    with pytest.raises(SurveyError, match=r"^A survey or the path of its folder is needed here, not 5\.$"):
        first.compare(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("t", "freedom", "p"),
    [(12.706, 1, 0.05), (4.303, 2, 0.05), (2.571, 5, 0.05), (2.228, 10, 0.05), (3.169, 10, 0.01), (1.96, 1001, 0.05)],
)
def test_tails_are_those_of_the_printed_tables(t: float, freedom: int, p: float) -> None:
    assert two_sided(np.array([t, -t, 0.0]), freedom) == pytest.approx([p, p, 1.0], abs=2e-4)


def test_what_float32_leaves_of_no_difference_is_none() -> None:
    before = np.linspace(0.5, 1.0, 20).reshape(20, 1, 1, 1)
    shaken = before * (1 + 1e-7 * np.linspace(0.9, 1.1, 20).reshape(before.shape))
    moved = before + 1e-4 * np.linspace(0.9, 1.1, 20).reshape(before.shape)
    found = comparison_of(["self"], (1, 2), iter([(before.repeat(2, -1), np.concatenate((shaken, moved), -1))]))
    assert found.p[0, 0].tolist() == [1.0, pytest.approx(0.0, abs=1e-9)]


def test_false_discoveries_are_adjusted_for() -> None:
    p = np.array([[0.01, 0.04, np.nan], [0.039, 0.005, 0.5]])
    wanted = np.array([[0.025, 0.05, np.nan], [0.05, 0.025, 0.5]])
    assert benjamini_hochberg(p) == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize(
    ("texts", "options", "said"),
    [
        ([], {}, "no text to survey"),
        ([None], {}, "holds None, which is neither text nor token ids"),
        ([""], {}, "Every text is empty"),
        ({"text": "1 2"}, {}, "of one record give \\[record\\]"),
        (pd.DataFrame({"text": ["1 2"]}), {}, "of a data frame the list of its records"),
        (3, {}, "Texts come in a list, or as the path of a file, but 3"),
        ([b"1 2"], {}, "holds b'1 2', which is neither"),
        ([[10**30]], {}, "Text 1 holds a number that is no token's"),
        ([{"text": "1 2", "cells": 5}], {"pairs": "cells"}, "was given 5, but pairs are a list"),
        ([{"note": "x"}], {}, "has no column 'text'; it has note"),
        (["1 2"], {"tokens": 0}, "tokens is 0"),
        (["1 2"], {"statistics": ["luck"]}, "no statistic 'luck'"),
        (["1 2"], {"pairs": lambda tokens, row: [5]}, "given the pair 5"),
    ],
)
def test_what_cannot_be_surveyed_is_a_sentence(texts: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(SurveyError, match=said):
        ropewalk.survey(SmallModel("plain"), texts, **options)


def test_a_damaged_tally_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "SHARD", 1)
    model, texts = SmallModel("plain"), texts_of((4, 5))
    steps = survey_steps(model, texts, out=tmp_path / "s")
    next(steps), next(steps)
    steps.close()
    tally = tmp_path / "s" / "tally.safetensors"
    tally.write_bytes(tally.read_bytes()[:-40])
    with pytest.raises(SurveyError, match=r"tally\.safetensors is no file of a survey, or is damaged; delete it"):
        ropewalk.survey(model, texts, out=tmp_path / "s")
    tally.unlink()
    assert ropewalk.survey(model, texts, out=tmp_path / "s").texts == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"settings": []}, "is that of something else"),
        ({"model": {}}, "is that of something else"),
        ({"settings": {"tokens": "x"}}, "or of another version"),
        ({"settings": {"statistics": 3}}, "or of another version"),
        ({"settings": {"statistics": ["self", "self"]}}, "does not say of which statistics it is"),
        ({"settings": {"own_statistics": {"self": 3}}}, "does not say what its own statistics are"),
        ({"settings": {"statistics": ["self"]}}, "is said to be of 1 statistics, but 2 are committed"),
    ],
)
def test_a_manifest_that_is_of_other_numbers_is_refused(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    ropewalk.survey(SmallModel("plain"), texts_of((9, 5)), out=tmp_path, statistics=["self", "previous"])
    manifest = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    if isinstance(change.get("settings"), dict):
        change = {"settings": manifest["settings"] | change["settings"]}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest | change), encoding="utf-8")
    with pytest.raises(SurveyError, match=said):
        ropewalk.load_survey(tmp_path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("counts", lambda one: one * np.nan),
        ("places", lambda one: one.astype(np.float32)),
        ("distances", lambda one: one[:0]),
        ("sums", lambda one: one[:, :0]),
    ],
)
def test_a_tally_of_other_numbers_is_refused(name: str, change: Any, tmp_path: Path) -> None:
    found = ropewalk.survey(SmallModel("plain"), texts_of((9, 5)), out=tmp_path, statistics=["self"])
    arrays = {**found._tally.arrays, "shards": np.array([0])}
    part = {"counts": ("counts",), "places": ("places",), "distances": ("distances", "distance_squares")}
    for one in part.get(name, ("sums", "squares")):
        arrays[one] = change(arrays[one])
    write_arrays(tmp_path / "tally.safetensors", arrays)
    with pytest.raises(SurveyError, match=r"tally\.safetensors is .*; delete it"):
        ropewalk.load_survey(tmp_path)


def test_a_statistic_of_a_later_version_is_shown_by_its_name(tmp_path: Path) -> None:
    ropewalk.survey(SmallModel("plain"), texts_of((9, 5)), out=tmp_path, statistics=["self"])
    manifest = (tmp_path / "manifest.json").read_text(encoding="utf-8")
    (tmp_path / "manifest.json").write_text(manifest.replace('"self"', '"later"'), encoding="utf-8")
    assert ropewalk.load_survey(tmp_path).formula("later") == "later: as another version of Ropewalk computes it"


def test_a_shard_of_another_survey_is_refused(tmp_path: Path) -> None:
    for name, statistics in (("a", ["self"]), ("b", ["self", "sink"])):
        ropewalk.survey(SmallModel("plain"), texts_of((9, 5)), out=tmp_path / name, statistics=statistics)
    shard = "shards/000000.safetensors"
    (tmp_path / "a" / shard).write_bytes((tmp_path / "b" / shard).read_bytes())
    found = ropewalk.load_survey(tmp_path / "a")
    with pytest.raises(SurveyError, match=r"Shard 0 of the survey in .* is of another one"):
        found.compare(found)
