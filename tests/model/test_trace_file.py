"""A trace file is read back as it was written, and by anything that reads safetensors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from model import lens
from model.errors import TraceError
from model.probes import capture as recording
from model.trace import append, capture
from model.trace_file import load_trace, save_trace
from tests.closeness import assert_close, assert_identical
from tests.model.small_models import CONFIGS, make, random_ids


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
            assert_identical(getattr(back.trace, kind)[layer].tensor, getattr(trace, kind)[layer].tensor)
        # a score adds Dh products, and is off by as much as what is added; the rows read back lie closer together
        size = float(trace.queries[layer].tensor.norm(dim=-1).max() * trace.keys[layer].tensor.norm(dim=-1).max())
        assert_close(
            lens.weights(back.trace, layer, 1), lens.weights(trace, layer, 1), trace.config.head_width, max(1.0, size)
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
