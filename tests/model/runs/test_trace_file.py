"""A trace file is read back as it was written, and by anything that reads safetensors."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from ropewalk.model.decoder.config import ModelConfig, MoeConfig
from ropewalk.model.decoder.hooks import capture as recording
from ropewalk.model.decoder.spec import AttentionSpec, RotationSegment
from ropewalk.model.errors import TraceError
from ropewalk.model.readings import readout
from ropewalk.model.runs.trace import append, capture
from ropewalk.model.runs.trace_file import AXES, load_trace, save_trace
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
        assert json.loads(written[name]) == json.loads(BY_0_1_0[name].replace("-Infinity", '"-Infinity"'))
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


@pytest.mark.parametrize("content", [b"", b"not a trace", b"\xff" * 64])
def test_another_file_is_refused_in_a_sentence(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(TraceError, match="is not a trace file"):
        load_trace(path)
    with pytest.raises(TraceError, match="is not a trace file"):
        load_trace(tmp_path / "absent.safetensors")
