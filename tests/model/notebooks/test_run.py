"""Prompts of every kind become one run, whose numbers are those of transformers; what cannot be is a sentence."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ropewalk
from ropewalk.model.errors import RopewalkError
from ropewalk.model.notebooks.model import Model
from ropewalk.model.notebooks.run import Run
from ropewalk.model.readings.patterns import repeated_ids
from ropewalk.model.tokens.prompt import Prompt
from tests.app.tiny_checkpoint import write_checkpoint
from tests.closeness import assert_close
from tests.model.checkpoints.reference import build, reference_logits, save
from tests.model.notebooks.conftest import CASES, Pair

FIRST, SECOND = [5, 9, 2, 7, 7, 30], [11, 4, 60]
NEAR = 2e-5
"""What float32 and two orders of adding make of the tiny models; a wrong mask or position is off by 0.1 and more."""


def padded(left: bool) -> tuple[torch.Tensor, torch.Tensor]:
    gap = [0] * (len(FIRST) - len(SECOND))
    hidden, shown = [0] * len(gap), [1] * len(SECOND)
    ids = torch.tensor([FIRST, gap + SECOND if left else SECOND + gap])
    return ids, torch.tensor([[1] * len(FIRST), hidden + shown if left else shown + hidden])


def test_prompts_of_different_lengths_run_as_in_transformers(pair: Pair) -> None:
    run = pair.ours.capture([FIRST, SECOND])
    logits, attentions = reference_logits(pair.theirs, *padded(left=False))
    expected = torch.stack(attentions, 1)
    assert (run.patterns() - expected)[0].abs().max() < NEAR
    assert (run.patterns() - expected)[1, :, :, :3].abs().max() < NEAR
    assert (run.logits - logits)[0].abs().max() < NEAR
    assert (run.next_logits - logits[[0, 1], [5, 2]]).abs().max() < NEAR
    assert torch.equal(run.patterns(1), run.patterns()[:, 1])


def test_a_prompt_of_a_batch_is_the_prompt_alone(pair: Pair) -> None:
    of_batch, alone = pair.ours.capture([FIRST, SECOND])[1], pair.ours.capture(SECOND)
    assert of_batch.trace.padding is None
    assert of_batch.ids.tolist() == [SECOND]
    for found, expected in ((of_batch.patterns(), alone.patterns()), (of_batch.logits, alone.logits)):
        assert found.shape == expected.shape
        assert (found - expected).abs().max() < NEAR
    assert_close(of_batch.decode(2).logits, alone.decode(2).logits, terms=200)


def test_a_mask_says_what_is_padding_on_the_left(pair: Pair) -> None:
    ids, mask = padded(left=True)
    run = pair.ours.capture(ids, mask=mask)
    alone = pair.ours.capture(SECOND)
    assert run.trace.positions[1].tolist() == [0, 0, 0, 0, 1, 2]
    assert (run.patterns()[1, :, :, 3:, 3:] - alone.patterns()[0]).abs().max() < NEAR
    assert (run.next_logits[1] - alone.next_logits[0]).abs().max() < NEAR
    assert (run[1].residual(2)[0, 3:] - alone.residual(2)[0]).abs().max() < 10 * NEAR
    together, expected = run.append([8, 9]), alone.append(9)  # all of them end together, so they go on together
    for longer in (together[1], run[1].append(9)):
        assert (longer.next_logits - expected.next_logits).abs().max() < NEAR
        assert (longer.patterns()[0, :, :, 3:, 3:] - expected.patterns()[0]).abs().max() < NEAR


@pytest.mark.parametrize(
    "same",
    [
        lambda ids: [ids],
        torch.tensor,
        lambda ids: torch.tensor([ids], dtype=torch.int32),
        np.array,
        lambda ids: np.array([ids], dtype=np.uint16),
        lambda ids: [np.array(ids)],
        lambda ids: [torch.tensor(ids)],
        lambda ids: tuple(np.int64(one) for one in ids),
    ],
)
def test_ids_may_come_as_anything(bundled: Model, same: Callable[[list[int]], Any]) -> None:
    assert bundled.capture(same(FIRST)).ids.tolist() == [FIRST]


def test_texts_and_vectors(bundled: Model) -> None:
    run = bundled.capture(["to be or not to be", "not to be"])
    assert run.texts == ("to be or not to be", "not to be")
    assert run.tokens == [["to", "·be", "·or", "·not", "·to", "·be"], ["not", "·to", "·be"]]
    assert [one.texts for one in run] == [("to be or not to be",), ("not to be",)]
    vectors = bundled.decoder.embed(run.ids[:1]).detach()
    as_vectors = bundled.capture(vectors)
    assert_close(as_vectors.logits, run[0].logits, terms=200)
    with pytest.raises(RopewalkError, match="given vectors, not tokens"):
        _ = as_vectors.ids


@pytest.mark.parametrize(
    ("prompts", "sentence"),
    [
        ("", "empty"),
        ([], "There is no prompt|empty"),
        ([[1], []], "Prompt 1 is empty"),
        (torch.zeros(1, 0, dtype=torch.long), "empty"),
        (["a", [1]], "Some prompts are text and some are ids"),
        ([1.5], "1.5 is not a token id"),
        ([True], "True is not a token id"),
        ([[1, None]], "None is not a token id"),
        ({1, 2}, "text or token ids, but set was given"),
        (7, "text or token ids, but int was given"),
        (np.array([True]), "ids are whole numbers"),
        (torch.zeros(1, 2, 3, dtype=torch.long), "ids are whole numbers"),
        (torch.zeros(3), "Vectors have shape"),
        (torch.zeros(1, 3, 5), r"must be \[B, T, 128\]"),
        ([[5], [1024]], "Token id 1024"),
        ([-1], "Token id -1"),
        (list(range(600)), "limit of 512"),
        ([2**70], "is not a token id"),
        (b"abc", "text or token ids, but bytes was given"),
        (torch.zeros(1, 3, dtype=torch.long).to_sparse(), "a sparse one"),
        (torch.zeros(3, dtype=torch.long, device="meta"), "one without numbers"),
    ],
)
def test_what_cannot_run_is_refused_in_a_sentence(bundled: Model, prompts: Any, sentence: str) -> None:
    with pytest.raises(RopewalkError, match=sentence) as refused:
        bundled.capture(prompts)
    assert refused.value.sentence.endswith(".")


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda run: run[2], "Prompt 2 was asked for, but this run has 2"),
        (lambda run: run["a"], "Prompt 'a'"),
        (lambda run: run.patterns(4), "Layer 4"),
        (lambda run: run.patterns(-1), "Layer -1"),
        (lambda run: run.patterns("one"), "Layer 'one'"),
        (lambda run: run.patterns(budget=1000), "the budget is 1.0 kB|the budget is 1"),
        (lambda run: run.head(1, 8), "L1H8"),
        (lambda run: run.head(1, "3"), "Head '3'"),
        (lambda run: run.attribution(3, row="last"), "Row 'last'"),
        (lambda run: run.residual(5), "The stream at 5"),
        (lambda run: run.residual(1.0), "The stream at 1.0"),
        (lambda run: run.residual("blocks.0.hook_nothing"), "no hook point named"),
        (lambda run: run.points("blocks.0.attn.hook_pattern"), "explicit branch alone"),
        (lambda run: run.head_outputs(9), "Layer 9"),
        (lambda run: run.attribution(" or not"), "is 2 tokens of this model"),
        (lambda run: run.attribution(5000), "Token id 5000"),
        (lambda run: run.attribution(1.5), "neither a token's text nor its id"),
        (lambda run: run.attribution(3, row=6), "Row 6"),
        (lambda run: run.append([1, 2]), "go on with one of them"),
        (lambda run: run[0].append([1, 2]), "2 tokens were given to go on with"),
        (lambda run: run.head_scores(["nothing"]), "no head statistic 'nothing'"),
        (lambda run: run.head_scores().best("induction"), "needs two tokens in a row"),
        (lambda run: run.head_scores().best("nothing"), "no score 'nothing' here; there are previous"),
        (lambda run: run[True], "Prompt True"),
        (lambda run: run.head(1, True), "Head True"),
        (lambda run: run.points(5), "5 is no hook point"),
        (lambda run: run.attribution(None), "None is neither a token's text nor its id"),
        (lambda run: run.attribution(3, row=True), "Row True"),
        (lambda run: run.logit_lens(count=0), "0 tokens were to be named"),
        (lambda run: run[0].append(None), "None is neither a token's text nor its id"),
        (lambda run: run[0].append(1.5), "1.5 is neither a token's text nor its id"),
        (lambda run: run[0].decode(-1), "-1 steps were asked for"),
        (lambda run: run[0].decode("two"), "'two' steps were asked for"),
        (lambda run: run[0].decode(1, "greedy"), "'greedy' is no way to draw"),
    ],
)
def test_what_a_run_cannot_say_is_refused_in_a_sentence(
    bundled: Model, ask: Callable[[Any], Any], sentence: str
) -> None:
    with pytest.raises(RopewalkError, match=sentence) as refused:
        ask(bundled.capture(["to be or not to be", "not to be"]))
    assert refused.value.sentence.endswith((".", "?"))


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"logits": "some"}, "The logits of 'some' were to be kept; choose all, last or none"),
        ({"branch": "flash"}, "no branch 'flash'"),
        ({"interventions": None}, "Interventions come in a list, but None was given"),
        ({"interventions": ropewalk.interventions.RopeOff()}, "come in a list, but RopeOff"),
        ({"interventions": ["no RoPE"]}, "'no RoPE' is no intervention"),
        ({"interventions": [ropewalk.interventions.AblateHeads(0, 1)]}, "holds what it cannot hold"),  # type: ignore[arg-type]
        ({"interventions": [ropewalk.interventions.ScaleScores("2")]}, "holds what it cannot hold"),  # type: ignore[arg-type]
        (
            {"interventions": [ropewalk.interventions.AblateHeads(0, (1,), ((math.nan,) * 16,))]},
            "holds what is no finite number",
        ),
    ],
)
def test_words_and_interventions_that_are_none(bundled: Model, asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RopewalkError, match=sentence) as refused:
        bundled.capture([1, 2, 3], **asked)
    assert refused.value.sentence.endswith(".")
    assert not any(point.is_watched for point in ropewalk.hooks.hook_points(bundled.decoder).values())


def test_numbers_of_numpy_and_torch_count_as_numbers(bundled: Model) -> None:
    run = bundled.capture(["to be or not", "not to be"])
    one: Any = np.int64(1)
    two: Any = torch.tensor(2)
    assert run[one].tokens == [["not", "·to", "·be"]]
    assert torch.equal(run.patterns(two), run.patterns(2))
    assert np.array_equal(run.head(one, two).pattern, run.head(1, 2).pattern)
    assert torch.equal(run.residual(two), run.residual(2))
    alone = run[0]
    for token in (np.int64(5), torch.tensor(5), torch.tensor([5]), np.array([5]), [np.int32(5)]):
        assert alone.append(token).ids[0, -1] == 5  # type: ignore[arg-type]
    assert alone.decode(one).trace.length == 5
    assert set(run.head_scores("sink")) == {"sink"}
    assert bundled.capture(np.array(["to be or not", "not to be"])).tokens == run.tokens


def test_interventions_take_arrays_and_travel(bundled: Model, tmp_path: Path) -> None:
    made = ropewalk.interventions
    mean = torch.linspace(-1, 1, 16)
    heads: dict[str, Any] = {"layer": np.int64(1), "heads": [np.int64(3)], "means": mean[None]}
    zeros: Any = np.zeros(128)
    given: list[Any] = [made.AblateHeads(**heads), made.AblateMlp(0, zeros), made.NoScale()]
    plain = [made.AblateHeads(1, (3,), (tuple(mean.tolist()),)), made.AblateMlp(0, (0.0,) * 128), made.NoScale()]
    assert given == plain
    run = bundled.capture("to be or not", interventions=given)
    run.save(tmp_path / "run.safetensors")
    loaded = ropewalk.load(tmp_path / "run.safetensors", model=bundled)
    assert loaded.trace.interventions == tuple(plain)
    assert torch.equal(loaded.append(5).next_logits, run.append(5).next_logits)


def test_an_order_of_tokens_is_that_of_each_prompts_own(bundled: Model) -> None:
    order = [ropewalk.interventions.PermuteTokens((1, 0))]
    assert bundled.capture([[5, 6, 7], [8, 9]], interventions=order).ids.tolist() == [[6, 5, 7], [9, 8, 0]]
    assert bundled.capture([[0, 6, 7]], mask=[[0, 1, 1]], interventions=order).ids.tolist() == [[0, 7, 6]]
    swapped, plain = bundled.patch([6, 7], [8, 9], (1, 2), interventions=order), bundled.patch([7, 6], [9, 8], (1, 2))
    assert np.array_equal(swapped.values, plain.values)
    for prompt, sentence in (([5], "names 2 tokens, but the prompt has 1"), (torch.zeros(1, 3, 128), "of ids")):
        with pytest.raises(RopewalkError, match=sentence):
            bundled.capture(prompt, interventions=order)


def test_scores_do_not_know_of_padding(bundled: Model) -> None:
    ids = [5, 6, 7, 5, 6, 7]
    padded = bundled.capture([[0, 0, 0, *ids], ids + [0] * 3], mask=[[0] * 3 + [1] * 6, [1] * 6 + [0] * 3]).trace
    expected, _ = ropewalk.head_scores(bundled.capture(ids).trace)
    for batch in (0, 1):
        found, undefined = ropewalk.head_scores(padded, batch=batch)
        assert not undefined
        for name, values in expected.items():
            assert np.abs(found[name] - values).max() < 1e-4
    lone = bundled.capture([[0, 0, 5]], mask=[[0, 0, 1]]).head_scores()
    assert set(lone.undefined) == {"previous", "sink", "induction", "duplicate"}


def test_masks_that_do_not_fit(bundled: Model) -> None:
    for mask, sentence in (([[1, 1]], "shape"), ([[0, 0, 0]], "hides every token"), ("abc", "not an array")):
        with pytest.raises(RopewalkError, match=sentence):
            bundled.capture([1, 2, 3], mask=mask)


def test_the_stream_and_the_heads_are_those_of_transformers(pair: Pair) -> None:
    run = pair.ours.capture([FIRST, SECOND])
    ids, mask = padded(left=False)
    with torch.no_grad():
        streams = pair.theirs(ids, attention_mask=mask, output_hidden_states=True, use_cache=False).hidden_states
    layers = run.trace.config.layers
    for layer in range(layers):  # after the last one transformers norms
        assert (run.residual(layer) - streams[layer])[0].abs().max() < 10 * NEAR
        assert (run.residual(layer) - streams[layer])[1, :3].abs().max() < 10 * NEAR
        outputs, block = run.head_outputs(layer).sum(2), pair.ours.decoder.block(layer).attn.output
        written = run.residual(f"blocks.{layer}.hook_attn_out")
        assert_close(outputs + (0 if block.bias is None else block.bias.detach()), written, terms=200)
    assert_close(run.residual(layers), run.residual(f"blocks.{layers - 1}.hook_resid_post"), terms=1)


def test_points_of_a_run_that_was_decoded_are_those_of_its_whole_prompt(bundled: Model) -> None:
    decoded = bundled.capture("to be or not to be").decode(3)
    whole = bundled.capture(decoded.ids)
    for name in ("blocks.2.hook_resid_mid", "blocks.1.attn.hook_q", "blocks.3.attn.hook_result"):
        found, expected = decoded.points(name)[name], whole.points(name)[name]
        assert found.shape == expected.shape
        assert (found - expected).abs().max() < 1e-3


def test_an_attribution_adds_up_to_the_difference_of_logits(bundled: Model) -> None:
    run = bundled.capture(["to be or not to be", "not to be"])
    first, other = (bundled.tokenizer.encode(text, add_special=False)[0] for text in (" or", " not"))  # type: ignore[union-attr]
    for prompt in range(2):
        found = run.attribution(" or", against=" not", prompt=prompt)
        together = found.heads.sum() + found.mlps.sum() + found.embedding + found.rest
        difference = float(run.next_logits[prompt, first] - run.next_logits[prompt, other])
        assert together == pytest.approx(difference, abs=1e-3)
        assert found.logit == pytest.approx(difference, abs=1e-3)
    frame = found.to_frame()
    assert frame["value"].sum() == pytest.approx(difference, abs=1e-3)
    assert list(frame["part"][:3]) == ["embedding", "rest", "L0 MLP"]


def test_scores_of_several_prompts_are_their_mean_and_spread(bundled: Model) -> None:
    prompts = [repeated_ids(20, 1024, seed) for seed in range(3)]
    each = [ropewalk.head_scores(bundled.capture(ids).trace)[0]["induction"] for ids in prompts]
    found = bundled.capture(prompts).head_scores()
    assert found["induction"] == pytest.approx(np.mean(each, 0), abs=1e-4)
    assert found.deviation["induction"] == pytest.approx(np.std(each, 0, ddof=1), abs=1e-4)
    assert found.best("induction") == divmod(int(np.argmax(np.mean(each, 0))), 8)
    assert np.isnan(bundled.capture(prompts[0]).head_scores().deviation["induction"]).all()
    frame = found.to_frame()
    assert list(frame.columns) == ["layer", "head", "score", "value", "deviation"]
    assert len(frame) == 32 * len(found)
    one = frame[(frame.layer == 1) & (frame["head"] == 3) & (frame.score == "induction")]
    assert float(one.value.iloc[0]) == pytest.approx(found["induction"][1, 3])


def test_a_lens_reads_the_last_place_as_the_model_does(bundled: Model) -> None:
    run = bundled.capture("to be or not to be")
    lens = run.logit_lens()
    assert lens.top[-1, :, 0].tolist() == run.logits[0].argmax(-1).tolist()
    frame = lens.to_frame()
    assert len(frame) == 5 * 6
    said = bundled.tokenizer.describe([int(run.logits[0, -1].argmax())])[0].text  # type: ignore[union-attr]
    assert frame.iloc[-1].token == said


def test_a_run_is_saved_and_loaded(bundled: Model, tmp_path: Path) -> None:
    run = bundled.capture("to be or not to be")
    run.save(tmp_path / "run.safetensors")
    loaded = ropewalk.load(tmp_path / "run.safetensors")
    assert torch.equal(loaded.patterns(), run.patterns())
    assert loaded.tokens == run.tokens
    assert (loaded.model.name, loaded.texts) == ("bundled", ("to be or not to be",))
    assert loaded.model.origin == bundled.origin
    with pytest.raises(RopewalkError, match=r"without its model.*ropewalk\.load\(path, model=ropewalk\.open"):
        loaded.residual(1)
    with pytest.raises(RopewalkError, match=r"is a trace, .*; read it with ropewalk\.load"):
        ropewalk.open(tmp_path / "run.safetensors")
    whole = ropewalk.load(tmp_path / "run.safetensors", model=bundled)
    assert torch.equal(whole.residual(1), run.residual(1))


def test_a_file_of_a_run_says_how_it_was_asked_for_and_drawn(bundled: Model, tmp_path: Path) -> None:
    path, sampling = tmp_path / "run.safetensors", ropewalk.Sampling(temperature=0.7, seed=3)
    run = bundled.capture("to be or not", special=False).decode(2, sampling).decode()
    run.save(path)
    for _ in range(2):  # as often as it is written
        about = ropewalk.load_trace(path).about
        assert about.drawn == (sampling, sampling, ropewalk.Sampling())
        assert about.prompt == Prompt("to be or not", special=False)
        ropewalk.load(path, model=bundled).save(path)
    run.append(5).save(path)
    assert ropewalk.load_trace(path).about.drawn == ()


def test_a_run_is_given_no_model_that_did_not_make_it(bundled: Model, tmp_path: Path) -> None:
    path, tiny = tmp_path / "run.safetensors", write_checkpoint(tmp_path / "tiny")
    bundled.capture("to be").save(path)
    with pytest.raises(RopewalkError, match="tiny has 2 layers, but the run was made with 4"):
        ropewalk.load(path, model=ropewalk.open(tiny))
    ropewalk.open(tiny).capture("to be").save(path)
    (tiny / "notes.txt").write_text("another one")
    other = ropewalk.open(tiny)
    with pytest.raises(RopewalkError, match="was made with tiny, and the files of tiny are not those"):
        ropewalk.load(path, model=other)
    assert ropewalk.load(path, model=other, other_weights=True).decode(1).trace.length == 6


def test_a_run_under_interventions_goes_on_when_it_was_loaded(bundled: Model, tmp_path: Path) -> None:
    run = bundled.capture("to be or not to be", interventions=[ropewalk.interventions.AblateHeads(1, (3,))])
    run.save(tmp_path / "run.safetensors")
    loaded = ropewalk.load(tmp_path / "run.safetensors", model=bundled)
    assert_close(loaded.decode(2).logits, run.decode(2).logits, terms=1)
    assert not torch.equal(run.logits, bundled.capture("to be or not to be").logits)


def test_a_frame_without_pandas_is_a_sentence(bundled: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas  # here, so that no worker waits for it while it collects

    head = bundled.capture("to be or not").head(1, 3)
    frame = head.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == 4 * 5 / 2
    assert frame.iloc[-1].weight == head.pattern[3, 3]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RopewalkError, match="pip install pandas"):
        head.to_frame()


def test_a_run_without_a_tokenizer_shows_ids(pair: Pair) -> None:
    run = pair.ours.capture([FIRST, SECOND])
    assert run.tokens == [list(map(str, FIRST)), list(map(str, SECOND))]
    with pytest.raises(RopewalkError, match="no tokenizer"):
        pair.ours.capture("text")
    with pytest.raises(RopewalkError, match="give the token's id"):
        run.attribution("text")


def test_another_kind_of_model_is_one_method() -> None:
    """A model that is no decoder of ours runs prompts, and explains what it cannot do."""
    inner = ropewalk.open()

    class Elsewhere(Model):
        name, tokenizer, config = "elsewhere", inner.tokenizer, inner.config

        def _run(self, *args: Any) -> Any:
            return inner._run(*args)

    run = Elsewhere().capture("to be or not to be")
    assert isinstance(run, Run)
    assert repr(run.model) == "<Model elsewhere: 4 layers of 8 heads, 2 kv heads>"
    assert repr(run) == "<Run of elsewhere: 1 prompt of 6 tokens>"
    assert repr(run.head(1, 3)) == "<Head L1H3: pattern and scores of 6 tokens>"
    assert run.patterns().shape == (1, 4, 8, 6, 6)
    with pytest.raises(RopewalkError, match="elsewhere does not run in Ropewalk's own decoder"):
        run.logit_lens()


def test_a_checkpoint_without_a_last_matrix_has_everything_but_logits(tmp_path: Path) -> None:
    whole = build(CASES["llama"])
    whole.base_model.save_pretrained(tmp_path)
    model = ropewalk.open(tmp_path)
    run = model.capture([FIRST, SECOND])
    _, attentions = reference_logits(whole, *padded(left=False))
    assert (run.patterns() - torch.stack(attentions, 1))[0].abs().max() < NEAR
    assert run.residual(4).shape == (2, 6, 48)
    asked: list[Callable[[], Any]] = [
        lambda: run.logits,
        lambda: run.next_logits,
        run.logit_lens,
        lambda: run.attribution(3),
        lambda: model.patch(FIRST, FIRST, (1, 2)),
        lambda: model.gradients(FIRST, (1, 2), "z"),
    ]
    for ask in asked:
        with pytest.raises(RopewalkError, match="has no last matrix, so it has no logits"):
            ask()


def test_what_is_asked_for_when_opening_is_handed_on_and_remembered(tmp_path: Path) -> None:
    config = build(CASES["llama"]).config
    with pytest.raises(RopewalkError, match="nothing-like-it"):
        ropewalk.open(family="nothing-like-it")
    with pytest.raises(RopewalkError, match="adapter"):
        ropewalk.open(adapter=tmp_path)
    folder = save(build(CASES["llama"]), tmp_path / "odd")
    written = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(written | {"odd_switch": True}))
    with pytest.raises(RopewalkError, match="odd_switch"):
        ropewalk.open(folder)
    model = ropewalk.open(folder, ignore=["odd_switch"])
    assert config.num_hidden_layers == model.config.layers
    model.capture(FIRST).save(tmp_path / "run.safetensors")
    origin = ropewalk.load(tmp_path / "run.safetensors").model.origin
    assert origin is not None
    assert origin.options == (("ignore", "odd_switch"),)
