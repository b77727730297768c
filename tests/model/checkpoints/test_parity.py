"""Every family against transformers: one parametrised test over the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from model.checkpoints import open_checkpoint
from model.checkpoints.families import FAMILIES
from tests.model.checkpoints import reference
from tests.model.checkpoints.parity import measure, prompt, read
from tests.model.checkpoints.reference import CASES, Case

WITHOUT_REFERENCE = {"minimind", "meta_llama"}
"""Families that transformers does not have; their own tests compare them with another layout of the same numbers."""


def test_every_family_has_a_case() -> None:
    assert {case.family for case in CASES} == {family.name for family in FAMILIES} - WITHOUT_REFERENCE


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_transformers(case: Case, tmp_path: Path) -> None:
    found = measure(case, tmp_path)
    assert found.logits <= 5e-5
    assert found.weights <= 1e-5
    assert found.uncounted == 0
    assert found.spread > 0.05  # otherwise the test could not fail


FIRSTS = {case.family: case for case in reversed(CASES) if case.family not in ("gptj", "codegen", "gpt2", "phi3")}
"""A case of each family that takes any scaling rule (Phi-3 takes longrope alone, and has its own case)."""


@pytest.mark.slow
@pytest.mark.parametrize("rule", reference.SCALINGS)
@pytest.mark.parametrize("family", FIRSTS)
def test_every_family_under_every_scaling_rule(family: str, rule: str, tmp_path: Path) -> None:
    if family in ("gpt_neox", "stablelm") and rule == "dynamic":
        pytest.skip("a quarter of these tiny heads is one plane, for which dynamic scaling is not defined")
    case = reference.with_rule(FIRSTS[family], rule)
    checkpoint = open_checkpoint(reference.save(reference.build(case), tmp_path))
    expected, _ = reference.reference_logits(reference.build(case), prompt())
    assert float((read(checkpoint, prompt(), None, "fused")[0] - expected).abs().max()) <= 5e-5


def _shallow(case: Case) -> Case:
    """Two layers of a case, every expert visited: in half precision a near tie in the router may fall either way."""
    fields: dict[str, Any] = {
        name: value[:2] if isinstance(value, list) and name.endswith(("layers", "types")) else value
        for name, value in case.fields.items()
    }
    depth = "n_layer" if "n_layer" in fields else "num_hidden_layers"
    experts = [name for name in ("num_experts_per_tok", "moe_topk") if name in fields]
    return replace(case, fields=fields | {depth: 2} | dict.fromkeys(experts, 4))


@pytest.mark.parametrize("case", [case for case in CASES if case.variant in ("plain", "multi-query")], ids=str)
def test_bfloat16_has_its_own_bar(case: Case, tmp_path: Path) -> None:
    model = reference.build(_shallow(case)).to(torch.bfloat16)
    checkpoint = open_checkpoint(reference.save(model, tmp_path), dtype="bfloat16")
    ids = prompt()
    expected, _ = reference.reference_logits(model, ids)
    spread = float(expected.float().std())
    for branch in ("explicit", "fused"):
        logits, patterns = read(checkpoint, ids, None, branch)
        # bfloat16 is relative: the bar of 1e-2 holds for logits of spread 0.1
        assert float((logits.float() - expected.float()).abs().max()) * 0.1 / spread <= 1e-2
        if not checkpoint.config.sink:
            assert all(float((rows.sum(-1) - 1).abs().max()) <= 1e-3 for rows in patterns)
