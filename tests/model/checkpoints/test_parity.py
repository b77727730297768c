"""Every family against transformers: one parametrised test over the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from ropewalk.model.checkpoints import open_checkpoint
from ropewalk.model.checkpoints.families.table import FAMILIES
from tests.model.checkpoints import reference
from tests.model.checkpoints.parity import measure, measure_half, prompt, read
from tests.model.checkpoints.reference import CASES, Case
from tests.model.checkpoints.traits import DIFFERENT

WITHOUT_REFERENCE = {"minimind", "meta_llama"}
"""Families that transformers does not have; their own tests compare them with another layout of the same numbers."""


def test_every_family_has_a_case() -> None:
    assert {case.family for case in CASES} == {family.name for family in FAMILIES} - WITHOUT_REFERENCE


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in DIFFERENT else pytest.mark.slow) for case in CASES], ids=str
)
def test_equals_transformers(case: Case, tmp_path: Path) -> None:
    found = measure(case, tmp_path)
    assert found.logits <= 5e-5
    assert found.weights <= 1e-5
    assert found.uncounted == 0
    assert found.spread > 0.05  # otherwise the test could not fail


CASES_BY_FAMILY = {case.family: case for case in reversed(CASES)}
"""The first case of each family."""
FIRSTS = {name: case for name, case in CASES_BY_FAMILY.items() if name not in ("gptj", "codegen", "gpt2", "phi3")}
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


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(name, marks=() if place % 3 == 0 else pytest.mark.slow)
        for place, name in enumerate(sorted(CASES_BY_FAMILY))
    ],
)
def test_bfloat16_errs_no_more_than_transformers(family: str, tmp_path: Path) -> None:
    found = measure_half(CASES_BY_FAMILY[family], tmp_path)
    assert found.ours <= 1.3 * found.theirs  # measured: 0.88 to 1.23
    assert found.apart <= 2e-2  # measured: 0.006 to 0.016; transformers' own two paths: 0.005 to 0.012
    assert found.row_sums <= 1e-5  # in float32, before they are stored
    assert found.theirs > 1e-3  # otherwise it was not bfloat16 that was compared
