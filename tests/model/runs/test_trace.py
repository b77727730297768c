"""A trace keeps what attention was, grows by rows, and can replay any of them."""

from __future__ import annotations

import pytest
import torch

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import capture as recording
from ropewalk.model.decoder.hooks import hook_points
from ropewalk.model.errors import PromptError, TraceError
from ropewalk.model.progress import Progress, finished
from ropewalk.model.readings import readout
from ropewalk.model.runs.budget import ALL_LOGITS_UP_TO, ROOM
from ropewalk.model.runs.trace import append, capture, capture_steps, replay
from tests.closeness import assert_close, terms_of
from tests.model.memory_meter import MemoryMeter
from tests.model.small_models import BASE, CONFIGS, make, random_ids


@pytest.mark.parametrize("name", CONFIGS)
def test_the_kept_logits_are_those_of_a_plain_forward(name: str) -> None:
    model, ids = make(name), random_ids(12, batch=2)
    trace = capture(model, ids)
    with torch.no_grad():
        expected = model(ids)
    assert trace.logits is not None
    # the keys of a run lie in rows with room to grow, those of a plain forward do not
    assert_close(trace.logits.tensor[:, 0], expected, terms_of(width=BASE.mlp_width, layers=3))


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "dynamic"])
def test_decode_steps_stitch_onto_the_prefill(name: str) -> None:
    model, ids = make(name), random_ids(12)
    trace = capture(model, ids[:, :9])
    for token in ids[0, 9:].tolist():
        trace = append(model, trace, token)
    whole = capture(model, ids)
    assert trace.length == 12
    assert trace.prefill == 9
    for layer in range(3):
        for head in range(4):
            assert readout.weights(trace[layer], head) == pytest.approx(readout.weights(whole[layer], head), abs=1e-5)
    assert trace.logits is not None
    assert whole.logits is not None
    assert torch.allclose(trace.logits.tensor, whole.logits.tensor, atol=1e-4)


def test_a_prompt_of_a_batch_is_a_run_of_its_own() -> None:
    model, ids = make("plain"), random_ids(6, batch=3)
    both = append(model, capture(model, ids), [3, 4, 5])
    alone = both.prompt(1)
    assert (alone.batch, alone.length, alone.specs) == (1, 7, both.specs)
    assert alone.ids is not None
    assert alone.ids.tolist() == [[*ids[1].tolist(), 4]]
    for one, other in zip(alone.rows, both.rows, strict=True):
        assert torch.equal(one.tensor, other.tensor[1:2])
    longer, whole = append(model, alone, 9), append(model, both, [8, 9, 7])
    assert torch.allclose(longer[2].keys.tensor, whole[2].keys.tensor[1:2], atol=1e-5)
    with pytest.raises(TraceError, match="Prompt 3 was asked for, but this run's prompts are 0 to 2"):
        both.prompt(3)


def test_dynamic_scaling_gives_each_late_row_its_own_rotation() -> None:
    # original length 8, so rows 8, 9 and 10 of a decode are each rotated with a base of their own
    trace = capture(make("dynamic"), random_ids(8))
    for token in (1, 2, 3):
        trace = append(make("dynamic"), trace, token)
    segments = trace.specs[0].segments
    assert [(one.start, one.stop) for one in segments] == [(0, 8), (8, 9), (9, 10), (10, 11)]
    assert len({one.frequencies for one in segments}) == 4


def test_static_scaling_keeps_one_segment() -> None:
    model = make("yarn")
    trace = append(model, capture(model, random_ids(20)), 3)
    assert [(one.start, one.stop) for one in trace.specs[0].segments] == [(0, 21)]


def test_a_step_leaves_the_older_trace_alone_and_shares_its_storage() -> None:
    model = make("plain")
    first = capture(model, random_ids(2 * ROOM))  # leaves room for two rows
    second = append(model, first, 7)
    third = append(model, second, 8)
    assert (first.length, second.length, third.length) == (128, 129, 130)
    shared = [trace[1].keys.tensor.untyped_storage().data_ptr() for trace in (first, second, third)]
    assert len(set(shared)) == 1


def test_going_on_from_an_earlier_step_forks() -> None:
    model = make("plain")
    start = capture(model, random_ids(6))
    one = append(model, append(model, start, 7), 8)
    kept = one[0].keys.tensor.clone()
    other = append(model, one.at(7), 9)
    assert torch.equal(one[0].keys.tensor, kept)
    assert other[0].keys.tensor.untyped_storage().data_ptr() != one[0].keys.tensor.untyped_storage().data_ptr()
    assert one.ids is not None
    assert other.ids is not None
    assert one.ids[0, -1] == 8
    assert other.ids[0, -1] == 9
    expected = capture(model, other.ids)
    assert readout.weights(other[2], 3) == pytest.approx(readout.weights(expected[2], 3), abs=1e-5)


def test_an_earlier_step_is_a_slice() -> None:
    model = make("window")
    trace = append(model, append(model, capture(model, random_ids(6)), 1), 2)
    earlier = trace.at(7)
    assert earlier.length == 7
    assert readout.weights(earlier[1], 1) == pytest.approx(readout.weights(trace[1], 1)[:7, :7])
    assert earlier.logits is not None
    assert earlier.logits.length == 7
    assert earlier.specs[0].segments[-1].stop == 7
    with pytest.raises(TraceError, match="from 6 to 8"):
        trace.at(5)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("row", [0, 5, 9, 10])
def test_replay_gives_back_the_row_it_replays(name: str, row: int) -> None:
    model, ids = make(name), random_ids(10, batch=2)
    trace = append(model, capture(model, ids), [3, 4])
    expected = trace.logits_of(row)
    assert expected is not None
    result = replay(model, trace, row)
    assert torch.allclose(result.logits, expected, atol=1e-5)
    for layer in range(3):
        kept = trace[layer].lse.tensor[:, :, row]
        assert torch.allclose(result.points[f"blocks.{layer}.attn.hook_lse"][..., 0], kept, atol=1e-5)


def test_replay_finds_the_residual_stream_of_the_full_pass() -> None:
    model, ids = make("qk_norm"), random_ids(10)
    trace = capture(model, ids)
    names = [name for name in hook_points(model) if "resid" in name or "mlp_out" in name]
    with torch.no_grad(), recording(model, names) as full:
        model(ids)
    result = replay(model, trace, 6, names)
    assert set(result.points) == set(names)
    for name in names:
        assert torch.allclose(result.points[name][:, 0], full[name][:, 6], atol=1e-5), name


def test_a_batch_with_left_padding_reads_like_the_prompt_alone() -> None:
    model, alone = make("qk_norm"), random_ids(7)
    padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), alone), 1)
    padding = torch.arange(10)[None] >= 3
    positions = (torch.arange(10)[None] - 3).clamp_min(0)
    trace = append(model, capture(model, padded, padding=padding, positions=positions), 5)
    expected = append(model, capture(model, alone), 5)
    assert readout.weights(trace[2], 1)[3:, 3:] == pytest.approx(readout.weights(expected[2], 1), abs=1e-5)
    assert not readout.weights(trace[2], 1)[:, :3].any()
    assert torch.isposinf(trace[0].lse.tensor[0, :, :3]).all()


@pytest.mark.parametrize("chunk", [5, 11, 22])  # the last one has 3 rows, or 1
def test_chunks_against_the_cache_equal_one_piece(chunk: int) -> None:
    for name in CONFIGS:
        model, ids = make(name), random_ids(23)
        whole, pieces = capture(model, ids), finished(capture_steps(model, ids, chunk=chunk))
        assert torch.allclose(whole[2].queries.tensor, pieces[2].queries.tensor, atol=1e-5), name
        assert torch.allclose(whole[2].lse.tensor, pieces[2].lse.tensor, atol=1e-5), name
        assert whole.logits is not None
        assert pieces.logits is not None
        assert torch.allclose(whole.logits.tensor, pieces.logits.tensor, atol=1e-5), name


def test_long_prompts_keep_the_last_logits_only() -> None:
    model = Decoder(BASE.changed(layers=1, max_position=2048))
    tokens = ALL_LOGITS_UP_TO + 1
    trace = capture(model, random_ids(tokens))
    assert trace.first_logit_row == ALL_LOGITS_UP_TO
    assert trace.logits is not None
    assert trace.logits.length == 1
    assert trace.logits_of(0) is None
    assert capture(model, random_ids(tokens), logits="all").logits_of(0) is not None


def test_progress_counts_the_rows_of_a_prompt() -> None:
    model = make("plain")
    seen = list(capture_steps(model, random_ids(6)))
    assert seen == [Progress(done, 6, "Running the prompt") for done in (2, 4, 6)]  # three layers
    pieces = list(capture_steps(model, random_ids(60), chunk=3, logits="none"))
    done = [point.done for point in pieces]
    assert done == sorted(done)
    assert sorted(set(done)) == list(range(61))  # three layers of each three rows
    assert done[-1] == 60


def test_nothing_is_left_attached_when_a_run_is_given_up() -> None:
    model = make("plain")
    steps = capture_steps(model, random_ids(4))
    next(steps)
    steps.close()
    assert not any(point.is_watched for point in hook_points(model).values())


def test_another_forward_between_two_layers_does_not_leak_into_the_trace() -> None:
    model, ids = make("plain"), random_ids(8)
    expected = capture(model, ids)
    steps, other = capture_steps(model, ids), random_ids(8, seed=9)
    result = None
    while result is None:
        try:
            next(steps)
            with torch.no_grad():
                model(other)
        except StopIteration as stop:
            result = stop.value
    for layer in range(3):
        assert torch.equal(result[layer].queries.tensor, expected[layer].queries.tensor)


def test_vectors_are_captured_but_cannot_be_continued() -> None:
    model = make("plain")
    trace = capture(model, torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0)))
    assert trace.ids is None
    assert trace.batch == 2
    with pytest.raises(TraceError, match="vectors, not tokens"):
        append(model, trace, [1, 2])
    with pytest.raises(TraceError, match="vectors, not tokens"):
        replay(model, trace, 0)


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(PromptError, match="empty"):
        capture(make("plain"), [])


@pytest.mark.parametrize("window", [None, 64])
def test_no_tokens_by_tokens_array_is_ever_made(window: int | None) -> None:
    tokens = 2048
    model = Decoder(BASE.changed(layers=1, max_position=tokens, window=window))
    with MemoryMeter() as meter:
        trace = capture(model, random_ids(tokens), logits="last")
    assert meter.largest < tokens * tokens / 4
    kept = tokens * (4 * 8 + 2 * 2 * 8 + 4) * 4  # Q' (H 4, Dh 8), K' and V (Hkv 2), lse (H 4), float32
    assert trace.kept_bytes == kept + 50 * 4  # and the logits of one row
