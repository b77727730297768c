"""What documents say holds: code runs and gives what stands beside it, commands are understood, paths are there."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ropewalk
from ropewalk.app.commands.line import parser
from ropewalk.app.commands.typed import ENGINE, names_file, split_engine
from ropewalk.app.files import session_file
from ropewalk.app.lessons.loading import load_shelf
from ropewalk.model import errors
from ropewalk.model.checkpoints.families.table import FAMILIES
from ropewalk.model.decoder import interventions
from ropewalk.model.limits import LIMITS
from ropewalk.model.tokens import chat
from ropewalk.views import keys

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    "README.md",
    "SECURITY.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
    "resources/bundled/MODEL_CARD.md",
)
GIVES = "# → "
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d*)?(?:e[-+]?\d+)?(?![\w.])")


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    """The fenced blocks of a page in a language, blank lines before each so that line numbers are the page's."""
    found = re.finditer(rf"^```{language}\n(.*?)^```$", page(name), flags=re.MULTILINE | re.DOTALL)
    return ["\n" * page(name)[: one.start(1)].count("\n") + one[1] for one in found]


def same(stated: str, found: object) -> bool:
    """Whether a value reads as stated: its text but for commas and spaces, and each number to the digits that stand."""

    def text(value: str) -> str:
        return re.sub(r"[\s,]", "", NUMBER.sub("#", value))

    given = shown(found)
    numbers = zip(NUMBER.findall(stated), NUMBER.findall(given), strict=False)
    return text(stated) == text(given) and all(near(one, float(other)) for one, other in numbers)


def shown(found: object) -> str:
    if isinstance(found, torch.Tensor):
        return f"tensor({found.tolist()})"
    if isinstance(found, np.ndarray | np.generic):
        return repr(found.tolist())
    return f"({', '.join(map(shown, found))})" if type(found) is tuple else repr(found)


def near(stated: str, value: float) -> bool:
    digits = len(stated.partition(".")[2])
    return abs(float(stated) - value) <= (10.0**-digits if digits else 0.0)


def run(name: str) -> Iterator[str]:
    """Run the blocks of a page in one namespace; yields what is not as stated."""
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(name, "python"):
        lines = block.splitlines()
        for statement in ast.parse(block).body:
            _, gives, stated = lines[(statement.end_lineno or 1) - 1].partition(GIVES)
            if isinstance(statement, ast.Expr):
                found = eval(compile(ast.Expression(statement.value), name, "eval"), names)
                if gives and not same(stated, found):
                    yield f"{name}:{statement.lineno}: {stated} is stated, {found!r} was found"
            else:
                assert not gives, f"{name}:{statement.lineno}: a value is stated of what has none"
                exec(compile(ast.Module([statement], []), name, "exec"), names)


@pytest.mark.parametrize("name", ["README.md", "docs/python.md"])
def test_code_runs_and_gives_what_stands_beside_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert blocks(name, "python")
    assert list(run(name)) == []


@pytest.mark.parametrize(
    ("stated", "found", "holds"),
    [
        ("0.897", 0.8972, True),
        ("0.897", 0.8991, False),
        ("(6, 6)", (6, 6), True),
        ("(6, 6)", (6, 7), False),
        ("'be'", "be", True),
        ("'be'", "or", False),
        ("[0.5 -1.0]", np.array([0.5, -1.0]), True),
        ("tensor([0.50])", torch.tensor([0.52]), False),
        ("0.0", 1e-15, True),
    ],
)
def test_what_is_stated_is_compared_to_its_digits(stated: str, found: object, holds: bool) -> None:
    assert same(stated, found) is holds


STUDIES = {
    "prompts = [ropewalk.repeated_ids": """
once = torch.randint(model.cfg.d_vocab, (5, 24))
_, cache = model.run_with_cache(torch.cat([once, once], 1))
layers = range(model.cfg.n_layers)
scores = torch.stack([cache["pattern", layer].diagonal(-23, -2, -1).mean((0, -1)) for layer in layers])
""",
    "patch = model.patch(clean": """
clean, corrupted = model.to_tokens("to be or not to be"), model.to_tokens("to be if not to be")
right, wrong = model.to_single_token(" or"), model.to_single_token(" if")
_, cache = model.run_with_cache(clean)
def metric(logits):
    return logits[0, -1, right] - logits[0, -1, wrong]
by_position = patching.get_act_patch_resid_pre(model, corrupted, cache, metric)
by_head = patching.get_act_patch_attn_head_out_all_pos(model, corrupted, cache, metric)
""",
    "found = run.attribution(": """
tokens = model.to_tokens("to be or not to be")
directions = model.tokens_to_residual_directions(torch.tensor([right, wrong]))
logits, cache = model.run_with_cache(tokens)
parts = cache.apply_ln_to_stack(cache.stack_head_results(pos_slice=-1), pos_slice=-1)
heads = parts @ (directions[0] - directions[1])
gradients = {}
model.add_hook(lambda name: name.endswith("pattern"), lambda grad, hook: gradients.update({hook.name: grad}), "bwd")
metric(model(tokens)).backward()
model.reset_hooks()
""",
    "to_itself = ropewalk": """
def to_itself(pattern, hook):
    pattern[:, 3] = torch.eye(6)
    return pattern
logits = model.run_with_hooks("to be or not to be", fwd_hooks=[("blocks.1.attn.hook_pattern", to_itself)])
""",
}
"""Of each study of the page a line that it has, and the same as TransformerLens's pages would write it."""


def statements(source: str) -> int:
    """How many there are, without imports and lines that only show a value."""
    lines = source.splitlines()
    return sum(
        isinstance(one, ast.stmt)
        and not isinstance(one, ast.Import | ast.ImportFrom)
        and not (isinstance(one, ast.Expr) and GIVES in lines[(one.end_lineno or 1) - 1])
        for one in ast.walk(ast.parse(source))
    )


@pytest.mark.parametrize("begins", STUDIES)
def test_a_study_is_not_longer_than_in_transformer_lens(begins: str) -> None:
    (ours,) = (block for block in blocks("docs/python.md", "python") if begins in block)
    row = f"{statements(ours)} | {statements(STUDIES[begins])} |"
    assert statements(ours) < statements(STUDIES[begins])
    assert row in page("docs/python.md")


def test_every_name_of_the_package_is_there_and_on_its_page() -> None:
    assert set(ropewalk.__all__) == set(ropewalk._MODULES)
    for name in ropewalk.__all__:
        assert getattr(ropewalk, name) is not None
        assert re.search(rf"\b{name}\b", page("docs/python.md")), name
    with pytest.raises(AttributeError, match="has no attribute 'lens'; it has Checkpoint"):
        _ = ropewalk.lens


def commands(name: str) -> list[str]:
    """What comes after ``python main.py`` on lines of a page and in its sentences."""
    text = page(name)
    indented = re.findall(r"^    (?:\S*[/\\])?python main\.py +(.+)$", text, flags=re.MULTILINE)
    return [*indented, *re.findall(r"`python main\.py\s+([^`]+)`", text)]


@pytest.mark.parametrize("name", PAGES)
def test_commands_are_understood(name: str) -> None:
    for command in commands(name):
        engine, words = split_engine(shlex.split(command, comments=True))
        opens = names_file(words) if words else engine is not None
        assert opens or understood(words if engine is None else [*words, ENGINE, engine]), command


def understood(words: list[str]) -> bool:
    try:
        parser(lambda shot: None).parse_args(words)
    except SystemExit as stop:
        return stop.code == 0
    return True


def test_commands_are_found() -> None:
    assert len(commands("README.md")) >= 7
    assert len(commands("docs/command-line.md")) >= 17


@pytest.mark.parametrize("name", ["README.md", "docs/tour.md", "docs/lessons.md"])
def test_keys_that_are_named_do_something(name: str) -> None:
    """And the engine's is named wherever the engine is told of."""
    bound = {key for action in keys.ACTIONS for key in action.keys}
    named = set(re.findall(r"\b(?:Ctrl|Alt)\+(?:Shift\+)?\w+|\b(?:Shift\+)?F\d+\b", page(name)))
    for first, last in re.findall(r"Ctrl\+(\d) to Ctrl\+(\d)", page(name)):
        named |= {f"Ctrl+{number}" for number in range(int(first), int(last))}
    assert named <= bound
    assert ("Ctrl+Shift+E" in named) == ("ssh gpu1 ropewalk engine" in page(name))


@pytest.mark.parametrize("name", PAGES)
def test_targets_and_paths_are_there(name: str) -> None:
    text = page(name)
    targets = set(re.findall(r"^([\w-]+):", page("Makefile"), flags=re.MULTILINE))
    assert set(re.findall(r"(?:`|^    )make ([\w-]+)", text, flags=re.MULTILINE)) <= targets
    links = {(ROOT / name).parent / link for link in re.findall(r"\]\((?!https?:)([^)#]+)", text)}
    quoted = {ROOT / path for path in re.findall(r"`((?:app|docs|model|resources|tests|views)/[\w/.-]*)`", text)}
    gone = {str(path) for path in links | quoted if not path.exists()}
    assert not gone


def test_as_many_lessons_are_promised_as_there_are_and_as_long() -> None:
    words = ["Fourteen", "Fifteen", "Sixteen", "Seventeen", "Eighteen", "Nineteen", "Twenty"]
    lessons = load_shelf().lessons
    for name in ("README.md", "docs/tour.md"):
        found = re.search(r"^(\w+)(?: lessons)?, each (\d+) to (\d+)\s+minutes", page(name), flags=re.MULTILINE)
        assert found is not None, name
        assert words.index(found[1]) + 14 == len(lessons), name
        assert int(found[2]) <= min(one.minutes for one in lessons), name
        assert max(one.minutes for one in lessons) <= int(found[3]), name


def test_the_table_of_families_has_every_family() -> None:
    named = re.findall(r"^\| [^|]+ \| `(\w+)` \|", page("docs/families.md"), flags=re.MULTILINE)[1:]
    in_their_own_files = ["minimind", "meta_llama"]
    assert sorted([*named, *in_their_own_files]) == sorted(family.name for family in FAMILIES)


def test_the_readers_and_their_limits_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .* \| ([\d,]+) \| ([\d,]+) \|$", page("SECURITY.md"), flags=re.MULTILINE)
    template = chat.Limits()
    stated = {name: (float(seconds), int(mebibytes)) for name, seconds, mebibytes in rows}
    assert stated == {name: (limit.seconds, limit.mebibytes) for name, limit in LIMITS.items()} | {
        "template": (template.seconds, template.memory)
    }
    session = f"at most {session_file.LARGEST >> 20} MiB with at most {interventions.MOST_INTERVENTIONS:,} experiments"
    assert session in page("SECURITY.md")
    assert f"at most {errors.LONGEST_QUOTE} characters" in page("SECURITY.md")
