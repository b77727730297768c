"""A trace file is read back as it was written, and by anything that reads safetensors."""

from __future__ import annotations

import json
import math
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from ropewalk.model.codec import to_json, to_plain
from ropewalk.model.decoder.config import ModelConfig, MoeConfig
from ropewalk.model.decoder.hooks import capture as recording
from ropewalk.model.decoder.interventions import (
    AblateHeads,
    AblateMlp,
    AblatePlane,
    NoCausalMask,
    NoScale,
    PermuteTokens,
    ReadKvHead,
    RopeScaling,
    ScaleScores,
)
from ropewalk.model.decoder.spec import AttentionSpec, RotationSegment
from ropewalk.model.errors import TraceError
from ropewalk.model.readings import readout
from ropewalk.model.readings.next_token import likeliest
from ropewalk.model.readings.records import Sampling, TokenText
from ropewalk.model.runs.trace import append, capture
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.model.trace_files.header import About, Origin, RunNumbers, TraceHeader
from ropewalk.model.trace_files.trace_file import AXES, candidates_of, load_trace, save_trace
from tests.closeness import assert_close, assert_identical
from tests.model.small_models import CONFIGS, make, random_ids

BY_0_1_0 = {
    "format": "ropewalk-trace",
    "version": "0.1.0",
    "axes": AXES,
    "config": r"""{"vocabulary": 5, "width": 4, "layers": 1, "heads": 2, "kv_heads": 1, "head_width": 2, "mlp_width": 3,
"max_position": 8, "position": "rotary", "rope": {"width": null, "base": 10000.0, "pairing": "half",
"scaling": "default", "factor": 1.0, "original_max_position": null, "attention_factor": null,
"beta_fast": 32.0, "beta_slow": 1.0, "mscale": null, "mscale_all_dim": null, "truncate": true,
"low_freq_factor": 1.0, "high_freq_factor": 4.0, "short_factor": null, "long_factor": null,
"frequencies": null}, "local_rope": null, "rope_layers": [true], "window": null, "window_layers": null,
"norm": "rms", "norm_place": "pre", "norm_eps": 1e-06, "norm_offset": 0.0, "norm_bias": false,
"norm_gain": true, "final_norm": true, "parallel_residual": false, "shared_norm": false, "qk_norm": "none",
"qk_norm_kind": "rms", "qk_norm_bias": false, "qk_norm_after_rope": false, "query_bias": false,
"key_bias": false, "value_bias": false, "output_bias": false, "qkv_clip": null, "score_scale": null,
"score_cap": null, "sink": true, "mlp": "gated", "activation": "silu", "mlp_bias": false,
"mlp_limit": null, "up_offset": 0.0, "moe": {"experts": 2, "per_token": 1, "width": 3, "renormalise": true,
"scoring": "softmax", "shared_width": 0, "shared_gate": false, "aux_loss_weight": 0.0,
"router_bias": false, "layers": null}, "embedding_scale": 1.0, "residual_scale": 1.0, "logit_scale": 1.0,
"logit_cap": null, "logit_bias": false, "tied": false}""",
    "specs": r"""[{"layer": 0, "heads": 2, "kv_heads": 1, "head_width": 2, "scale": 0.7071067811865475, "cap": null,
"window": null, "causal": true, "sinks": [-Infinity, 0.5], "rotary_width": 2, "pairing": "half",
"segments": [{"start": 0, "stop": 3, "frequencies": [1.0], "factor": 1.0}], "kv_map": null,
"experiments": []}]""",
    "strings": r"""["a", "b\u4e2d", "\udcff"]""",
    "run": r"""{"run_id": 3, "prefill": 3, "first_logit_row": 0, "branch": "fused"}""",
}
"""The header of a trace that Ropewalk 0.1.0 wrote; -Infinity is the sink of a head that has none."""


def test_a_trace_of_0_1_0_still_opens(tmp_path: Path) -> None:
    rows = {name: torch.ones(1, heads, 3, 2) for name, heads in (("hook_rot_q", 2), ("hook_rot_k", 1), ("hook_v", 1))}
    tensors = {"lse": torch.zeros(1, 2, 3), **rows}
    path = tmp_path / "old.safetensors"
    save_file(
        {f"blocks.0.attn.{name}": tensor for name, tensor in tensors.items()} | {"positions": torch.arange(3)[None]},
        path,
        metadata=BY_0_1_0,
    )
    back = load_trace(path)
    config = ModelConfig(5, 4, 1, 2, 1, 2, 3, 8, sink=True, rope_layers=(True,), moe=MoeConfig(2, 1, 3))
    turned = (RotationSegment(0, 3, (1.0,)),)
    spec = AttentionSpec(0, 2, 1, 2, 1 / math.sqrt(2), sinks=(-math.inf, 0.5), rotary_width=2, segments=turned)
    assert back.trace.config == config
    assert back.trace.specs == (spec,)
    assert (back.strings, back.version) == (("a", "b中", "\udcff"), "0.1.0")
    assert (back.trace.run_id, back.trace.prefill, back.trace.branch) == (3, 3, "fused")
    save_trace(back.trace, path, strings=back.strings)
    with safe_open(str(path), framework="np") as file:
        written = file.metadata()
    for name in ("config", "specs", "strings", "run"):
        expected = json.loads(BY_0_1_0[name].replace("-Infinity", '"-Infinity"'))
        if name == "config":
            expected["value_width"] = None  # since then
        if name == "run":
            expected["products"] = {"one": "torch", "few": "torch", "many": "torch"}
        if name == "specs":
            expected[0]["written"] = []
        assert json.loads(written[name]) == expected
    assert load_trace(path).trace.specs == (spec,)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("specs", '[{"layer": 0}]', "specs[0].heads is missing"),
        ("config", '{"vocabulary": 5}', "config.width is missing"),
        ("run", "[", "Expecting value"),
        ("strings", "[3]", "strings[0] must be text, not a whole number"),
    ],
)
def test_a_broken_header_is_refused_with_what_is_wrong(name: str, text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"positions": torch.arange(3)}, path, metadata=BY_0_1_0 | {name: text})
    with pytest.raises(TraceError, match="is not a trace file") as caught:
        load_trace(path)
    assert says in caught.value.details


@pytest.mark.parametrize("name", CONFIGS)
def test_back_as_it_was(name: str, tmp_path: Path) -> None:
    model = make(name)
    trace = append(model, capture(model, random_ids(7), run_id=3), 9)
    save_trace(trace, tmp_path / "run.safetensors", strings=["a"] * 8)
    back = load_trace(tmp_path / "run.safetensors")
    assert back.strings == ("a",) * 8
    assert back.trace.specs == trace.specs
    assert back.trace.config == trace.config
    assert (back.trace.run_id, back.trace.prefill, back.trace.length) == (3, 7, 8)
    for layer in range(3):
        for kind in ("queries", "keys", "values", "lse"):
            assert_identical(getattr(back.trace[layer], kind).tensor, getattr(trace[layer], kind).tensor)
        # a score adds Dh products, and is off by as much as what is added; the rows read back lie closer together
        kept = trace[layer]
        size = float(kept.queries.tensor.norm(dim=-1).max() * kept.keys.tensor.norm(dim=-1).max())
        assert_close(
            readout.weights(back.trace[layer], 1), readout.weights(kept, 1), trace.config.head_width, max(1.0, size)
        )
    assert back.trace.logits is not None
    assert trace.logits is not None
    assert_identical(back.trace.logits.tensor, trace.logits.tensor)


def test_names_and_axes_are_those_of_the_hooks(tmp_path: Path) -> None:
    model, ids = make("qk_norm"), random_ids(7, batch=2)
    trace = capture(model, ids)
    save_trace(trace, tmp_path / "run.safetensors", model=model, pattern=True)
    names = [f"blocks.1.attn.hook_{kind}" for kind in ("q", "k", "v", "rot_q", "rot_k", "attn_scores", "pattern")]
    with torch.no_grad(), recording(model, names) as record:
        model(ids, branch="explicit")
    with safe_open(str(tmp_path / "run.safetensors"), framework="np") as file:
        header = file.metadata()
        for name in names:
            found, expected = file.get_tensor(name), record[name].numpy()
            assert found.shape == expected.shape
            finite = np.isfinite(expected)
            assert np.array_equal(finite, np.isfinite(found))
            assert np.abs(found[finite] - expected[finite]).max() < 1e-5, name
        assert file.get_tensor("tokens").tolist() == ids.tolist()
        assert file.get_tensor("logits").shape == (2, 7, 50)
        assert file.get_tensor("blocks.0.attn.lse").shape == (2, 4, 7)
    assert json.loads(header["config"])["heads"] == 4
    assert "query, key" in header["axes"]


def test_matrices_over_the_budget_are_refused_before_they_are_made(tmp_path: Path) -> None:
    model = make("plain")
    trace = capture(model, random_ids(7))
    with pytest.raises(TraceError, match=r"the limit is 0\.0 GiB"):
        save_trace(trace, tmp_path / "run.safetensors", model=model, pattern=True, limit=100)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "run.safetensors"
    trace = capture(make("plain"), random_ids(4))
    save_trace(trace, target)
    before = target.read_bytes()
    with pytest.raises(TraceError, match="could not be written"):
        save_trace(trace, tmp_path / "missing" / "run.safetensors")
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run.safetensors"]


# ----------------------------------------------------------------------------------------------------------------------
# Everything that going on needs

TOLD = About(
    tokens=(
        TokenText(5, "<s>", "special"),
        *(TokenText(one, f"t{one}") for one in range(6)),
        TokenText(9, "<E4>", "bytes", 0, "ä"),
    ),
    prompt=Prompt("typed", chat="chat", system="be brief"),
    rendered="<|user|>typed",
    drawn=(Sampling(0.8, seed=4), Sampling()),
    origin=Origin("smol", "/models/smol", "llama", "ab" * 32, (("first_layers", 3),), "<s>"),
    candidates=(TokenText(3, "·plum"), TokenText(7, "<E4>", "bytes")),
)  # fmt: skip
CHANGES = (
    ScaleScores(2.0, 1), NoScale(), RopeScaling("yarn", 4.0), AblateHeads(1, (0, 2), ((0.5,) * 8, (-1.5,) * 8)),
    AblatePlane(0, 1, 2, (0.25, -0.0)), AblateMlp(2), ReadKvHead(0, 3, 0), PermuteTokens((1, 0, 2)),
)  # fmt: skip


def test_a_file_says_everything_that_going_on_needs(tmp_path: Path) -> None:
    model, path = make("plain"), tmp_path / "run.safetensors"
    trace = capture(model, random_ids(6), interventions=CHANGES)
    trace = append(model, append(model, trace, 5), 9)
    save_trace(trace, path, about=TOLD)
    back = load_trace(path)
    assert back.trace.interventions == CHANGES
    assert (back.notes, back.goes_on) == ((), True)
    about = back.about
    assert (about.prompt, about.rendered, about.drawn, about.origin, about.candidates) == (
        TOLD.prompt, TOLD.rendered, TOLD.drawn, TOLD.origin, TOLD.candidates,
    )  # fmt: skip
    ids = [int(one) for one in trace.ids[0]] if trace.ids is not None else []
    assert [token.id for token in about.tokens] == ids
    same = [replace(token, id=number) for token, number in zip(TOLD.tokens, ids, strict=True)]
    assert list(about.tokens) == same


def test_the_likeliest_tokens_of_all_rows_are_named_best_first_but_for_those_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = capture(make("plain"), random_ids(6))
    monkeypatch.setattr("ropewalk.model.readings.next_token.ROWS_AT_ONCE", 4)
    assert trace.logits is not None
    places = trace.logits.tensor[0, 0].argsort(dim=-1, descending=True, stable=True).argsort(dim=-1).amin(dim=0)
    assert likeliest(trace, 3, 100) == places.sort(stable=True).indices[: int((places < 3).sum())].tolist()
    assert likeliest(trace, 3, 2) == likeliest(trace, 3, 100)[:2]
    own, known = likeliest(trace, 40, 100)[:2], likeliest(trace, 40, 100)[4:]

    def describe(ids: Sequence[int]) -> list[TokenText]:
        return [TokenText(one, f"t{one}" if one in known else f"#{one}") for one in ids]

    named = candidates_of(trace, (TokenText(own[0], "a"), TokenText(known[0], "<E4>", "bytes")), describe)
    assert [(token.id, token.text) for token in named] == [(one, f"t{one}") for one in known if one != own[0]]


def test_what_is_read_back_goes_on_under_its_interventions(tmp_path: Path) -> None:
    model, path = make("plain"), tmp_path / "run.safetensors"
    trace = capture(model, random_ids(6), interventions=CHANGES)
    save_trace(trace, path)
    ours, theirs = append(model, trace, 3).logits_of(6), append(model, load_trace(path).trace, 3).logits_of(6)
    assert ours is not None
    assert theirs is not None
    assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    plain = append(model, replace(load_trace(path).trace, interventions=()), 3).logits_of(6)
    assert plain is not None
    assert not torch.allclose(ours, plain, rtol=1e-2, atol=1e-2)


def test_rows_that_a_new_token_changed_count_as_the_prompt(tmp_path: Path) -> None:
    model, path = make("plain"), tmp_path / "run.safetensors"
    trace = append(model, capture(model, random_ids(6), interventions=[NoCausalMask()]), 5)
    save_trace(trace, path, about=replace(TOLD, tokens=(), drawn=(Sampling(),)))
    back = load_trace(path)
    assert (trace.prefill, back.trace.prefill, back.trace.length) == (6, 7, 7)
    assert (back.about.prompt, back.about.drawn) == (None, ())
    ours, theirs = append(model, trace, 3), append(model, back.trace, 3)
    assert torch.allclose(ours[2].keys.tensor, theirs[2].keys.tensor, rtol=1e-5, atol=1e-5)


def test_what_an_old_file_does_not_say_is_told(tmp_path: Path) -> None:
    model, path = make("plain"), tmp_path / "run.safetensors"
    for changes, first in (
        ((), "does not say whether anything was changed"),
        ((NoScale(),), "names no 1/√Dh, but not"),
    ):
        save_trace(capture(model, random_ids(6), interventions=changes), path)
        rewrite(path, interventions=None, checkpoint=None, prompt=None, rendered=None, sampling=None, marks=None)
        back = load_trace(path)
        assert first in back.notes[0]
        assert [("checkpoint" in note, "prompt" in note) for note in back.notes[1:]] == [(True, False), (False, True)]
        assert back.goes_on == (not changes)
        assert [token.text for token in back.about.tokens] == [f"#{token.id}" for token in back.about.tokens]


# ----------------------------------------------------------------------------------------------------------------------
# Mapped, not read


def write_raw(path: Path, header: dict[str, str], tensors: dict[str, tuple[str, tuple[int, ...]]]) -> int:
    """Write a file whose tensors are a hole of zeros; returns where they begin."""
    entries: dict[str, Any] = {"__metadata__": header}
    end = 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + math.prod(shape) * {"I64": 8, "F32": 4}[dtype]
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": (start, end)}
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return 8 + len(text)


def test_four_gigabytes_are_opened_without_being_read(tmp_path: Path) -> None:
    rows, layers = 32_768, 20
    config = ModelConfig(50, 1024, layers, 16, 4, 64, 64, max_position=rows, position="none")
    specs = tuple(AttentionSpec(layer, 16, 4, 64, 0.125) for layer in range(layers))
    told = TraceHeader(config, specs, ("word",) * rows, RunNumbers(1, rows, rows, "fused"))
    header = {"format": "ropewalk-trace", "version": "0", "axes": AXES}
    header |= {name: to_json(value) for name, value in to_plain(told).items() if value is not None}
    tensors: dict[str, tuple[str, tuple[int, ...]]] = dict.fromkeys(("tokens", "positions"), ("I64", (1, rows)))
    for layer in range(layers):
        for name, heads in (("hook_q", 16), ("hook_k", 4), ("hook_v", 4)):
            tensors[f"blocks.{layer}.attn.{name}"] = "F32", (1, heads, rows, 64)
        tensors[f"blocks.{layer}.attn.lse"] = "F32", (1, 16, rows)
    path = tmp_path / "long.safetensors"
    write_raw(path, header, tensors)
    assert path.stat().st_size > 3 << 30
    before = psutil.Process().memory_info().rss
    back = load_trace(path)
    assert back.trace.kept_bytes > 3 << 30
    assert readout.scores(back.trace[7], 3, (rows - 4, rows), (0, 4)).tolist() == [[0.0] * 4] * 4
    assert psutil.Process().memory_info().rss - before < 400 << 20


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be written there")
def test_numbers_are_read_when_they_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    trace = capture(make("plain"), random_ids(7))
    save_trace(trace, path)
    back = load_trace(path).trace
    with path.open("r+b") as file:  # in place, as nobody should: what was read at opening stays, the rest is zero
        (length,) = struct.unpack("<Q", file.read(8))
        file.seek(8 + length)
        file.write(bytes(path.stat().st_size - 8 - length))
    assert all(bool((rows.tensor == 0).all()) for rows in back.rows)
    assert back.ids is not None
    assert trace.ids is not None
    assert_identical(back.ids, trace.ids)


def test_going_on_copies_and_leaves_the_file(tmp_path: Path) -> None:
    model, path = make("plain"), tmp_path / "run.safetensors"
    save_trace(capture(model, random_ids(7)), path)
    before = path.read_bytes()
    loaded = load_trace(path).trace
    longer = append(model, append(model, loaded, 3), 4)
    assert (longer.length, loaded.length) == (9, 7)
    assert path.read_bytes() == before
    assert_identical(longer[1].keys.tensor[:, :, :7], loaded[1].keys.tensor)
    assert not {rows.store for rows in longer.rows} & {rows.store for rows in loaded.rows}


# ----------------------------------------------------------------------------------------------------------------------
# Damaged and hostile


def rewrite(path: Path, tensors: Mapping[str, torch.Tensor] = MappingProxyType({}), **changed: str | None) -> None:
    """Write a file again with other keys in its header (None leaves one out), or with other tensors."""
    with safe_open(str(path), framework="pt") as file:
        header = file.metadata() | changed
    kept = load_file(path) | dict(tensors)
    save_file(kept, path, metadata={name: text for name, text in header.items() if text is not None})


def refusal(path: Path) -> str:
    with pytest.raises(TraceError) as caught:
        load_trace(path)
    sentence = caught.value.sentence
    assert sentence.startswith(f"{path} is not a trace file that Ropewalk can read: ")
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize(
    ("where", "value", "says"),
    [
        (("config", "layers"), 4, "specs describes 3 layers, but the config has 4"),
        (("config", "layers"), 10**15, "specs describes 3 layers"),
        (("config", "heads"), 3, "divide evenly"),
        (("config", "heads"), 8, "specs[0] is of another layer or other heads"),
        (("config", "vocabulary"), 51, "logits has the shape [1, 7, 50], but must have [1, 7, 51]"),
        (("config", "vocabulary"), 10**400, "has more than 64 bits"),
        (("config", "vocabulary"), "many", "config.vocabulary must be a whole number, not text"),
        (("config", "colour"), 3, "config.colour is unknown here"),
        (("specs", 1, "layer"), 0, "specs[1] is of another layer"),
        (("specs", 1, "scale"), "NaN", "specs[1] has a scale, a cap or frequencies"),
        (("specs", 1, "cap"), -2.0, "specs[1] has a scale, a cap or frequencies"),
        (("specs", 1, "window"), 0, "specs[1].window is 0"),
        (("specs", 1, "sinks"), [1.0], "specs[1].sinks is not a logit for each of 4 heads"),
        (("specs", 1, "sinks"), ["NaN"] * 4, "specs[1].sinks is not a logit"),
        (("specs", 1, "kv_map"), [0, 1, 2, 0], "specs[1].kv_map is not one of 2 kv heads"),
        (("specs", 1, "rotary_width"), 7, "specs[1].rotary_width is 7"),
        (("specs", 1, "rotary_width"), 0, "specs[1].segments is of a layer that does not rotate"),
        (("specs", 1, "segments"), [], "specs[1].segments does not give 4 frequencies to each of 7 rows"),
        (("specs", 1, "segments", 0, "stop"), 6, "specs[1].segments does not give"),
        (("specs", 1, "segments", 0, "start"), -1, "specs[1].segments does not give"),
        (("specs", 1, "segments", 0, "frequencies"), [1.0], "specs[1].segments does not give"),
        (("run", "prefill"), 8, "run.prefill is 8"),
        (("run", "prefill"), 0, "run.prefill is 0"),
        (("run", "first_logit_row"), 3, "logits has the shape [1, 7, 50], but must have [1, 4, 50]"),
        (("run", "first_logit_row"), -1, "run.first_logit_row is -1"),
        (("run", "branch"), "best", "run.branch cannot be"),
        (("interventions",), [{"kind": "AblateHeads", "layer": 9, "heads": [0], "means": []}], "Layer 9 was chosen"),
        (("interventions",), [{"kind": "Pickle"}], "cannot be"),
        (("strings",), ["a"], "strings has 1 texts, but the run has 7 tokens"),
        (("marks",), [{"row": 7, "kind": "special"}], "marks names row 7"),
        (("marks",), [{"row": -1, "kind": "special"}], "marks names row -1"),
        (("marks",), [{"row": 1, "kind": "bytes", "group": 2**40}], "marks puts row 1 into group 1099511627776"),
        (("sampling",), [{"sampling": {"temperature": -1.0}, "count": 1}], "The temperature is -1.0"),
        (("sampling",), [{"sampling": {}, "count": 10**12}], "sampling is of 1000000000000 tokens, but 0 were decoded"),
        (("prompt",), {"text": 3}, "prompt.text must be text"),
    ],
)
def test_a_header_that_contradicts_itself(where: tuple[Any, ...], value: Any, says: str, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    save_trace(capture(make("plain"), random_ids(7)), path)
    with safe_open(str(path), framework="pt") as file:
        header = file.metadata()
    told = {where[0]: json.loads(header.get(where[0], "null"))}
    inside: Any = told
    for step in where[:-1]:
        inside = inside[step]
    inside[where[-1]] = value
    rewrite(path, {}, **{where[0]: json.dumps(told[where[0]])})
    assert says in refusal(path)


@pytest.mark.parametrize(
    ("name", "tensor", "says"),
    [
        ("positions", torch.zeros(7, dtype=torch.long), "positions has the shape [7], but must have [n, n]"),
        ("positions", torch.zeros(1, 7), "positions is stored as F32, but must be I64"),
        ("positions", torch.full((1, 7), -1), "positions holds a negative number"),
        ("positions", torch.zeros(1, 0, dtype=torch.long), "positions has the shape [1, 0]"),
        ("tokens", torch.full((1, 7), 50), "tokens holds ids outside 0 to 49"),
        ("tokens", torch.full((1, 7), -1), "tokens holds ids outside 0 to 49"),
        ("tokens", torch.zeros(1, 6, dtype=torch.long), "tokens has the shape [1, 6], but must have [1, 7]"),
        ("padding", torch.zeros(1, 7), "padding is stored as F32, but must be BOOL"),
        ("logits", torch.zeros(7, 50), "logits has the shape [7, 50], but must have [1, 7, 50]"),
        ("blocks.1.attn.hook_rot_k", torch.zeros(1, 4, 7, 8), "hook_rot_k has the shape [1, 4, 7, 8], but must have"),
        ("blocks.1.attn.hook_rot_k", torch.zeros(1, 2, 7, 8).half(), "hook_rot_k is stored as F16, but must be F32"),
        ("blocks.1.attn.hook_v", torch.zeros(1, 2, 8, 8), "hook_v has the shape [1, 2, 8, 8]"),
        ("blocks.2.attn.lse", torch.zeros(1, 4, 7, 1), "lse has the shape [1, 4, 7, 1]"),
        ("blocks.0.attn.hook_rot_q", torch.zeros(1, 4, 7, 8, dtype=torch.long), "hook_rot_q is stored as I64"),
    ],
)
def test_a_tensor_that_the_header_does_not_mean(name: str, tensor: torch.Tensor, says: str, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    save_trace(capture(make("plain"), random_ids(7)), path)
    rewrite(path, {name: tensor})
    assert says in refusal(path)


def test_a_tensor_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    save_trace(capture(make("plain"), random_ids(7)), path)
    with safe_open(str(path), framework="pt") as file:
        header = file.metadata()
    kept = load_file(path)
    del kept["blocks.1.attn.lse"]
    save_file(kept, path, metadata=header)
    assert "the tensor blocks.1.attn.lse is missing" in refusal(path)


def test_damage_of_any_kind_ends_in_a_sentence(tmp_path: Path) -> None:
    good, path = tmp_path / "good.safetensors", tmp_path / "bad.safetensors"
    save_trace(capture(make("yarn"), random_ids(5)), good, about=replace(TOLD, tokens=(), drawn=()))
    whole, draw = good.read_bytes(), Random(0)
    (length,) = struct.unpack("<Q", whole[:8])
    opened, sentences = 0, set[str]()
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(draw.choice((1, 1, 2, 8))):
            place = draw.randrange(8 + length)
            damaged[place] = draw.choice((draw.randrange(256), *b'0123456789"{}[],-:'))
        if draw.random() < 0.1:
            del damaged[draw.randrange(len(damaged)) :]
        path.write_bytes(damaged)
        try:
            load_trace(path)
            opened += 1
        except TraceError as error:
            sentences.add(error.sentence)
    assert not any("\n" in sentence for sentence in sentences)
    assert opened < 300  # a digit of a frequency may well be another


@pytest.mark.parametrize("content", [b"", b"not a trace", b"\xff" * 64])
def test_another_file_is_refused_in_a_sentence(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(TraceError, match="is not a trace file"):
        load_trace(path)
    with pytest.raises(TraceError, match="is not a trace file"):
        load_trace(tmp_path / "absent.safetensors")
