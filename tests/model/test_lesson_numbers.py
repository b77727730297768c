"""Expressions, values, texts and the table of functions: what a lesson may write, and what comes of it."""

from __future__ import annotations

import inspect
import math
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ropewalk.model.decoder.config import ModelConfig, MoeConfig
from ropewalk.model.decoder.known_configs import KNOWN
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.evaluation import Scope, check, evaluate, is_measured
from ropewalk.model.lessons.expressions import Call, Constant, Items, Name, calls, names, read_expression
from ropewalk.model.lessons.kinds import KINDS
from ropewalk.model.lessons.measured import attention, layers
from ropewalk.model.lessons.models import LessonModel
from ropewalk.model.lessons.runs import Runs
from ropewalk.model.lessons.table import TABLE
from ropewalk.model.lessons.text import fill, fill_line, holes, plain_text, read_line, read_text
from ropewalk.model.lessons.toy_spec import ToySpec
from ropewalk.model.lessons.values import (
    Cell,
    Head,
    ModelName,
    Quantity,
    Shape,
    Value,
    check_format,
    latex,
    plain,
    write,
)
from tests.model.lessons.test_toys import CAPSTONE, VIEWS

ROOT = Path(__file__).resolve().parents[2]

TINY = ToySpec(
    ModelConfig(vocabulary=6, width=16, layers=2, heads=4, kv_heads=2, head_width=4, mlp_width=16, max_position=256),
    ("a", "b", "c", "d", "e", "f"),
    seed=1,
)
ROUTED = ToySpec(
    TINY.config.changed(moe=MoeConfig(experts=4, per_token=2, width=8), tied=True),
    TINY.words,
    seed=1,
)


def declared(**toys: ToySpec) -> dict[str, LessonModel]:
    prompts = {"views": "x y", "capstone": "a b"}
    return {
        name: LessonModel(name, "toy", prompts.get(name, "a b c a b c"), ("c d e f a b",), toy, toy.config)
        for name, toy in toys.items()
    }


MODELS = declared(views=VIEWS, capstone=CAPSTONE, tiny=TINY, routed=ROUTED)


@pytest.fixture(scope="module")
def scope() -> Scope:
    """A scope with four toys, some numbers, and runs."""
    configs = {name: model.config for name, model in MODELS.items() if model.config is not None}
    given: dict[str, Value] = {"T": 4096, "v": (3, 4)}
    lets = {"best": read_expression('best_head(tiny, "previous")')}
    return Scope(given, configs, frozenset(MODELS), lets, Runs(MODELS))


def worth(scope: Scope, source: str) -> Any:
    return evaluate(read_expression(source), scope)


# ----------------------------------------------------------------------------------------------------------------------
# Expressions


def test_expressions_are_data() -> None:
    read = read_expression("kv_bytes(llama3_70b, tokens=times(2, T), dtype='float32')")
    assert read == Call(
        "kv_bytes",
        (Name("llama3_70b"),),
        (("tokens", Call("times", (Constant(2), Name("T")))), ("dtype", Constant("float32"))),
    )
    assert [call.function for call in calls(read)] == ["kv_bytes", "times"]
    assert list(names(read)) == ["llama3_70b", "T"]
    assert read_expression("[1, -2.5, (x, true)]") == Items(
        (Constant(1), Constant(-2.5), Items((Name("x"), Constant(True))))
    )


@pytest.mark.parametrize(
    ("source", "reasons"),
    [
        ("", "is empty"),
        ("1 + 2", "BinOp"),
        ("x.y", "Attribute"),
        ("f(**x)", r"\*\*"),
        ("f(1", "cannot be read"),
        ("__import__('os').system('x')", "Call"),
        ("[x for x in y]", "ListComp"),
        ("lambda: 1", "Lambda"),
        ("x" * 500, "more than the 400"),
        ("b'x'", "Constant"),
    ],
)
def test_nothing_else_is_an_expression(source: str, reasons: str) -> None:
    with pytest.raises(LessonError, match=reasons):
        read_expression(source)


# ----------------------------------------------------------------------------------------------------------------------
# Writing values


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (4096, "", "4,096"),
        (-1, "", "−1"),
        (1.0, "", "1"),
        (-0.0, "", "0"),
        (math.sqrt(2), "", "1.414"),
        (0.31622, "", "0.316"),
        (0.0316227, "", "0.0316"),
        (12345.678, "", "12,346"),
        (1.23e-7, "", "1.2 × 10⁻⁷"),
        (2e-7, "", "2 × 10⁻⁷"),
        (1.5e12, "", "1,500,000,000,000"),
        (2.55e8 + 0.5, "", "2.6 × 10⁸"),
        (math.inf, "", "∞"),
        (math.nan, "", "not a number"),
        (0.98765, ".2f", "0.99"),
        (True, "", "yes"),
        (Quantity(320 * 1024, "bytes"), "", "320 KiB"),
        (Quantity(320 * 1024, "bytes"), "MiB", "0.312 MiB"),
        (Quantity(12288, "bytes"), "exact", "12,288"),
        (Quantity(8.796e12, "flops"), "", "8.8 TFLOP"),
        (Quantity(176160768, "count"), "", "176.2 M"),
        (Quantity(0.3222, "share"), "", "32.2%"),
        (Quantity(0.3222, "share"), "%", "32.22%"),
        (Quantity(0.0000376, "share"), "", "0.00376%"),
        (12288, "bytes", "12 KiB"),
        (8.796e12, "flops", "8.8 TFLOP"),
        (886016, "count", "886 K"),
        (Shape((1, 8, 12, 12)), "", "1×8×12×12"),
        (Head(2, 5), "", "L2H5"),
        (Cell(4, 2), "", "query 4, key 2"),
        ((1, 2, 0, -1), "", "(1, 2, 0, −1)"),
        ((1.0, 4e-8), "", "(1, 0)"),
        (((1, 2), (0, -1)), "", "(1, 2), (0, −1)"),
        ((Head(1, 3), Head(0, 2)), "", "L1H3, L0H2"),
        (("cat", "dog"), "", "cat, dog"),
        ((), "", "none"),
        ((6.283, 19.87), "rows", "6.283; 19.87"),
        (ModelName("main"), "", "main"),
    ],
)
def test_values_are_written_for_people(value: Value, form: str, text: str) -> None:
    assert write(value, form) == text


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        ((1, 2, -1, 0), "", r"\begin{pmatrix}1 & 2 & -1 & 0\end{pmatrix}"),
        (((1.0, 0.0), (0.5, 0.5)), "", r"\begin{pmatrix}1 & 0 \\ 0.5 & 0.5\end{pmatrix}"),
        (4096, "", "4{,}096"),
        (1.2e-7, "", r"1.2 \times 10^{-7}"),
        (-0.5, ".1f", "-0.5"),
        (Shape((2, 5)), "", r"2 \times 5"),
        (Quantity(2**30, "bytes"), "", r"\text{1 GiB}"),
    ],
)
def test_values_are_written_in_formulas(value: Value, form: str, text: str) -> None:
    assert latex(value, form) == text


def test_formats_are_known() -> None:
    for form in ("", ".3f", "GiB", "exact", "rows"):
        check_format(form)
    with pytest.raises(LessonError, match=r"'\.xf' is not known"):
        check_format(".xf")
    with pytest.raises(LessonError, match="not one number"):
        plain((1, 2))


# ----------------------------------------------------------------------------------------------------------------------
# Texts


def test_a_text_is_blocks_of_parts(scope: Scope) -> None:
    text = read_text(
        r"""
        A **strong** and an *emphatic* word, `code`, $x^{2}$ and {T}.

        - one point
        - another, {item(v, 1):.1f}

        $$ \sqrt{\value{item(v, 0)}} $$

        | a | $|x|$ and {item(v, 0)} |
        | b | \| |
        after the table: \{, \$, \*
        """
    )
    assert [block.kind for block in text] == ["paragraph", "point", "point", "formula", "row", "row", "paragraph"]
    filled = fill(text, lambda expression: evaluate(expression, scope))
    assert [span.kind for span in filled[0].spans] == [
        "words", "strong", "words", "emphasis", "words", "code", "words", "formula", "words", "value", "words",
    ]  # fmt: skip
    assert plain_text(filled).split("\n") == [
        "A strong and an emphatic word, code, x^{2} and 4,096.",
        "- one point",
        "- another, 4.0",
        r" \sqrt{3} ",
        "a | |x| and 3",
        "b | |",
        "after the table: {, $, *",
    ]
    assert filled[0].spans[-2].source == "T"
    assert [hole.source for hole in holes(text)] == ["T", "item(v, 1)", "item(v, 0)", "item(v, 0)"]


def test_a_number_that_cannot_be_had_leaves_a_gap_that_says_why(scope: Scope) -> None:
    filled = fill_line(read_line("x {kv_bytes(open)} y"), lambda expression: evaluate(expression, scope))
    assert [(span.kind, span.text) for span in filled] == [("words", "x "), ("missing", "…"), ("words", " y")]
    assert "No model is open" in filled[1].source


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a {T", "does not end with }"),
        ("a } b", r"without a \{"),
        ("a $x", "does not end with"),
        ("$$x$", "begins with"),
        ("a **b", "never closed"),
        ("a *b", "never closed"),
        ("| a | b", "does not end with"),
        (r"$\value T$", "no braces"),
        (r"$\frac{1}{2$", "braces"),
        ("{T:.9z}", "format"),
        ("{1 + 1}", "BinOp"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused(text: str, why: str) -> None:
    with pytest.raises(LessonError, match=why):
        read_text(text)


# ----------------------------------------------------------------------------------------------------------------------
# The table


def test_an_entry_says_of_its_function_what_is_so() -> None:
    for entry in TABLE.values():
        function = entry.function
        assert (function.__name__, function.__module__) == (entry.name, entry.module)
        parameters = list(inspect.signature(function).parameters.values())
        if entry.takes_runs:
            assert (parameters.pop(0).annotation, entry.measured) == ("Runs", True)
        plain_ones = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
        assert inspect.Signature(plain_ones) == entry.signature, entry.name
        assert {parameter.name: KINDS[parameter.annotation] for parameter in parameters} == entry.kinds
        assert inspect.signature(function).return_annotation == entry.result


def test_functions_have_names_of_their_own() -> None:
    modules = {entry.module for entry in TABLE.values()}
    defined = [
        name
        for module in map(import_module, modules)
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
    ]
    assert sorted(defined) == sorted(name for name in TABLE)


def test_lessons_are_read_and_checked_without_torch() -> None:
    """What needs torch is imported when it is called, not when it is named."""
    code = (
        "import sys\n"
        "from ropewalk.app.lessons.loading import load_shelf\n"
        "from ropewalk.model.lessons.evaluation import Scope, check, evaluate\n"
        "from ropewalk.model.lessons.expressions import read_expression\n"
        "from ropewalk.model.lessons.table import TABLE\n"
        "lessons = load_shelf().lessons\n"
        "check(read_expression('weight(open, 0, 0, strongest_key(open, 0, 0, -1), 0)'), Scope())\n"
        "evaluate(read_expression('kv_bytes(llama3_8b)'), Scope())\n"
        "assert len(lessons) > 10 and len(TABLE) > 80\n"
        "assert 'torch' not in sys.modules\n"
        "assert not [name for name in sys.modules if name.startswith('model.lessons.measured')]\n"
        "sys.modules['torch'] = None\n"
        "try:\n"
        "    evaluate(read_expression('rms([3, 4])'), Scope(runs=object()))\n"
        "except ImportError as error:\n"
        "    assert error.name == 'torch'\n"
        "else:\n"
        "    raise AssertionError('torch was not asked for')\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)


def test_every_function_says_what_it_gives() -> None:
    for entry in TABLE.values():
        assert entry.summary.endswith((".", "…")), entry.name
    assert len(TABLE) > 80


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("kv_byte(llama3_70b)", "no function 'kv_byte'. Did you mean kv_bytes"),
        ("kv_bytes()", "lacks the required argument: 'config'"),
        ("kv_bytes(llama3_70b, token=3)", "unexpected keyword argument 'token'"),
        ("kv_bytes(llama3_7b)", "Nothing is called 'llama3_7b'; did you mean"),
        ("times(2, thing)", "Nothing is called 'thing'"),
        ("weight(tiny, 'first', 0, 0, 0)", "layer of weight is 'first', but it must be a whole number"),
        ("weight(tiny, 0.5, 0, 0, 0)", "layer of weight is 0.5, but it must be a whole number"),
        ("weight(tiny, best, 0, 0, 0)", "layer of weight is what best_head gives, but it must be a whole number"),
        ("weight(tiny, likely(tiny), 0, 0, 0)", "what likely gives, but it must be a whole number"),
        ("times(2, rms(token(tiny, 0)))", "vector of rms is what token gives, but it must be a list of numbers"),
        ("repeat_loss(tiny, 3, 'L0H0')", "without of repeat_loss is 'L0H0', but it must be a list of heads"),
        ("tokens(llama3_8b)", "but it must be a model that can be run"),
        ("wavelengths('tiny')", "config of wavelengths is 'tiny', but it must be a config or a model"),
    ],
)
def test_a_wrong_call_is_found_without_running_it(scope: Scope, source: str, why: str) -> None:
    with pytest.raises(LessonError, match=why.replace("(", r"\(")):
        check(read_expression(source), scope)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("kv_bytes(T)", "config of kv_bytes is 4096, but it must be a config or a model"),
        ("kv_bytes(llama3_70b, 1.5)", "tokens of kv_bytes is 1.5, but it must be a whole number"),
        ("kv_bytes(llama3_70b, 'x')", "whole number"),
        ("score(llama3_70b, 0, 0, 0, 0)", "a model that can be run"),
        ("root(-1)", "no square root"),
        ("log(0)", "no logarithm"),
        ("power(0, -1)", "no number"),
        ("divided(1, 0)", "divided by 0"),
        ("item(v, 5)", "no item 5"),
        ("first(T, 2)", "no list"),
        ("count(T)", "no list"),
        ("dot([1, 2], [1])", "no dot product"),
        ("split([1, 2, 3], 2)", "do not make 2 heads"),
        ("plus([1], [1, 2])", "equally long"),
        ("size(tiny, 'X')", "no size 'X'"),
        ("parameters(tiny, 'legs')", "no part 'legs'"),
        ("shape(tiny, 'legs')", "no row 'legs'"),
        ("weight_shape(tiny, 'scores')", "no weight"),
        ("attention_flops(tiny, 3, part='half')", "full or causal"),
        ("decoder(width=10, heads=3, kv_heads=2)", "3 query heads and 2 kv heads"),
        ("refusal(4, 2)", "does not refuse"),
        ("position_refusal(tiny, 3)", "does not refuse"),
        ("point(tiny, 'legs', 0)", "no point 'legs'"),
        ("token(tiny, 9)", "Row 9 was asked for, but the run has 6 rows"),
        ("norm_output(tiny, 'legs')", "no norm 'legs'"),
        ("plane_shares(views, 0, 0, 0, 0)", "does not rotate"),
        ("experts(tiny, 0)", "no experts"),
        ("head_scores(capstone, 'induction')", "no score 'induction'"),
        ("repeat_loss(tiny, 3, part='third')", "not 'third'"),
        ("looks_back(tiny, 'f', 'a f b')", "fewer than three tokens before it"),
        ("row_of(tiny, 'f', 'a b')", "has no 'f'; its tokens are a, b"),
        ("permuted_gap(tiny, [0, 0, 1])", "does not name each"),
        ("pairing_gap(views)", "no pairing"),
        ("turned([1, 2], 1, [1.0, 2.0])", "cannot be turned"),
        ("weight_variance(tiny, 'legs')", "no matrix"),
        ("activated('swish', 1.0)", "no activation"),
        ("first_gradient(tiny, 'mid')", "not 'mid'"),
        ("cached_gap(tiny, 2, 2, branch='quick')", "fused and explicit"),
        ("next_probability(tiny, 5)", "Nothing follows row 5"),
        ("tokens(open)", "No model is open"),
    ],
)
def test_what_cannot_be_worked_out_says_why(scope: Scope, source: str, why: str) -> None:
    with pytest.raises(LessonError, match=why):
        worth(scope, source)


def test_a_number_that_must_be_measured_needs_runs() -> None:
    scope = Scope(models=frozenset({"main"}))
    with pytest.raises(LessonError, match="has to be measured"):
        evaluate(read_expression("tokens(main)"), scope)
    with pytest.raises(LessonError, match="known only where models can be opened"):
        evaluate(read_expression("kv_bytes(main)"), scope)


def test_what_has_to_be_measured_is_known_beforehand(scope: Scope) -> None:
    measured = {
        "tokens(tiny)": True,
        "kv_bytes(open)": True,
        "kv_bytes(tiny)": False,
        "best": True,
        "times(T, 2)": False,
    }
    assert {source: is_measured(read_expression(source), scope) for source in measured} == measured


HAND: dict[str, Any] = {
    "times(2, 3, 4)": 24,
    "plus(1, 2)": 3,
    "plus([1, 2], [3, 4])": (4, 6),
    "plus([[1, 1]], [[1, 0]])": ((2, 1),),
    "minus(T, 96)": 4000,
    "divided(12, 3)": 4,
    "divided(kv_bytes(llama3_70b, kv_heads=64), kv_bytes(llama3_70b))": 8,
    "power(2, 10)": 1024,
    "root(64)": 8,
    "log(1)": 0,
    "whole(2.6)": 3,
    "share(1, 4)": Quantity(0.25, "share"),
    "item([5, 6, 7], -1)": 7,
    "item(shape(tiny, 'q', tokens=3), 1)": 3,
    "first([5, 6, 7], 2)": (5, 6),
    "count([5, 6, 7])": 3,
    "largest([1, 9, 3])": 9,
    "largest_place([1, 9, 3])": 1,
    "smallest([4, 2])": 2,
    "total([1, 2, 3])": 6,
    "joined([[1, 2], [3, 4]])": (1, 2, 3, 4),
    "split([1, 2, 3, 4, 5, 6], 3)": ((1, 2), (3, 4), (5, 6)),
    "dot([1, 2], [3, 4])": 11,
    "text(T)": "4,096",
    "size(decoder(width=8, heads=2), 'Dh')": 4,
    "size(decoder(width=12, heads=3), 'Dh')": 4,
    "group(llama3_70b)": 8,
    "kv_head(llama3_8b, 5)": 1,
    "tiled_kv_head(llama3_8b, 9)": 1,
    "sharing(llama3_8b, 1)": (4, 5, 6, 7),
    "planes(ropewalk)": 8,
    "base(llama3_8b)": 500_000,
    "shape(decoder(width=12, heads=3), 'split_q', tokens=5, batch=2)": Shape((2, 3, 5, 4)),
    "shape(decoder(width=12, heads=3), 'scores', tokens=5, batch=2)": Shape((2, 3, 5, 5)),
    "shape(decoder(width=12, heads=3), 'concatenate', tokens=5, batch=2)": Shape((2, 5, 12)),
    "shape(llama3_8b, 'cache_k', tokens=10, past=90)": Shape((1, 8, 100, 128)),
    "symbol(llama3_8b, 'scores')": "[B, H, T, S]",
    "weight_shape(llama3_8b, 'q')": Shape((4096, 4096)),
    "weight_shape(llama3_8b, 'k')": Shape((1024, 4096)),
    "weight_shape(llama3_8b, 'v')": Shape((1024, 4096)),
    "weight_shape(llama3_8b, 'o')": Shape((4096, 4096)),
    "weight_shape(qwen3_0_6b, 'q')": Shape((2048, 1024)),
    "made_of(2, 3)": Shape((2, 3)),
    "row_bytes(tiny, 'embedding', tokens=3)": Quantity(3 * 16 * 4, "bytes"),
    "kv_bytes(llama3_70b)": Quantity(320 * 2**10, "bytes"),
    "kv_bytes(llama3_70b, T)": Quantity(1.25 * 2**30, "bytes"),
    "kv_bytes(llama3_70b, kv_heads=64)": Quantity(2.5 * 2**20, "bytes"),
    "kv_bytes(llama3_70b, T, kv_heads=64)": Quantity(10 * 2**30, "bytes"),
    "kv_bytes(minimind3)": Quantity(12_288, "bytes"),
    "kv_bytes(qwen3_0_6b, 40960)": Quantity(4.375 * 2**30, "bytes"),
    "kv_bytes_at_bits(llama3_70b, T, 4)": Quantity(0.3125 * 2**30, "bytes"),
    "kv_bytes_seen(mistral_7b, 32768)": Quantity(0.5 * 2**30, "bytes"),
    "tokens_that_fit(llama3_70b, 1.25)": 4096,
    "attention_bytes(llama3_8b, T)": Quantity(32 * 2**30, "bytes"),
    "attention_bytes(llama3_8b, T, layers=1)": Quantity(2**30, "bytes"),
    "attention_bytes(llama3_8b, 32768, layers=1)": Quantity(64 * 2**30, "bytes"),
    "attention_bytes(llama3_8b, 32768)": Quantity(2 * 2**40, "bytes"),
    "attention_flops(llama3_8b, T)": Quantity(4 * 32 * 32 * 4096**2 * 128, "flops"),
    "visible_cells(4)": 10,
    "visible_cells(3, past=2)": 12,
    "parameters(llama3_8b, 'mlp')": Quantity(3 * 4096 * 14336, "count"),
    "parameters(llama3_8b, 'attention')": Quantity(2 * 4096 * 4096 + 2 * 1024 * 4096, "count"),
    "parameters(with_kv_heads(llama3_8b, 32), 'attention')": Quantity(4 * 4096 * 4096, "count"),
    "size(with_layers(llama3_8b, 3), 'L')": 3,
    "weight_bytes(ropewalk, 'float32')": Quantity(4 * 886_016, "bytes"),
    "crossover(decoder(width=4, heads=1, mlp_width=4, vocabulary=4))": 16,
    "frequencies(ropewalk)": tuple(10_000 ** (-i / 8) for i in range(8)),
    "wavelengths(capstone)": (4.0,),
    "turning_planes(ropewalk, 512)": 4,
    "turned([1, -1], 1, [1.5707963267948966])": (1.0, 1.0),
    "turned([1, 0, 0, 0], 1, [1.5707963267948966, 0], 'adjacent')": (0.0, 1.0, 0.0, 0.0),
    "turned_product([1, 0], [1, 0], 7, 3, [0.5])": math.cos(2.0),
    "stored_tables(minimind3)": 0,
    "table_gap(minimind3)": 0,
    "rms(v)": math.sqrt(12.5),
    "rms_norm(v)": (3 / math.sqrt(12.5), 4 / math.sqrt(12.5)),
    "layer_norm([1, 3])": (-1.0, 1.0),
    "activated('silu', 2.0)": 2 / (1 + math.exp(-2)),
    "tokens(views)": 2,
    "token(views, -1)": "y",
    "point(views, 'v', 0)": ((2, 2), (0, 1)),
    "point(views, 'resid_pre', 1)": (3, 1, 4, 1),
    "points(views, 'k')": ((1, 2, -1, 0), (3, 1, 1, 4)),
    "norm_output(capstone, 'attn_norm')": ((1, 1), (1, -1)),
    "product(views, 0, 1, 0, 0)": 0,
    "product(views, 0, 0, 1, 0)": 5,
    "scores(capstone, 0, 0)": ((math.sqrt(2),) * 2,) * 2,
    "weights(capstone, 0, 0)": ((1, 0), (0.5, 0.5)),
    "weight(capstone, 0, 0, 1, 0)": 0.5,
    "score(capstone, 0, 0, -1, 0)": math.sqrt(2),
    "entropy(capstone, 0, 0, 1)": math.log(2),
    "plane_shares(capstone, 0, 0, 1, 0)": (math.sqrt(2),),
    "strongest_key(capstone, 0, 0, 0)": 0,
    "value_gap(capstone)": 0,
    "point_gap(views, 'q', 0, 'x z')": None,
    "tied(capstone)": True,
    "tied(views)": False,
    "cache_bytes(capstone)": 2 * 2 * 2 * 4,
}
"""Expressions with their worth by hand; None for one that only has to be refused or measured elsewhere."""


@pytest.mark.parametrize("source", HAND)
def test_functions_give_what_a_hand_gives(scope: Scope, source: str) -> None:
    expected = HAND[source]
    if expected is None:
        with pytest.raises(LessonError, match="no word 'z'"):
            worth(scope, source)
        return
    assert worth(scope, source) == near(expected)


def near(expected: Any) -> Any:
    if isinstance(expected, tuple):
        return Nearly(expected)
    if isinstance(expected, float):
        return pytest.approx(expected, rel=1e-6, abs=1e-6)
    return expected


class Nearly:
    """Equal to nested tuples whose numbers are close."""

    def __init__(self, expected: Any) -> None:
        self.expected = expected

    def __eq__(self, other: object) -> bool:
        return _near(self.expected, other)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return repr(self.expected)


def _near(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_near(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b) if isinstance(a, str) else math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6)


# ----------------------------------------------------------------------------------------------------------------------
# Measured on toys


def test_what_is_read_of_a_run_agrees_with_itself(scope: Scope) -> None:
    assert worth(scope, "total(plane_shares(tiny, 1, 2, 4, 1))") == pytest.approx(
        worth(scope, "score(tiny, 1, 2, 4, 1)"), abs=1e-5
    )
    assert worth(scope, "dot(item(point(tiny, 'rot_q', 4), 1), item(point(tiny, 'rot_k', 2), 0))") == pytest.approx(
        worth(scope, "product(tiny, 0, 1, 4, 2)"), abs=1e-5
    )
    assert worth(scope, "weight(tiny, 1, 2, 4, strongest_key(tiny, 1, 2, 4))") == pytest.approx(
        worth(scope, "largest(item(weights(tiny, 1, 2), 4))"), abs=1e-6
    )
    sizes = worth(scope, "stream_sizes(tiny)")
    assert len(sizes) == 3
    last = worth(scope, "point(tiny, 'resid_post', -1, layer=1)")
    assert sizes[2] == pytest.approx(math.sqrt(sum(x * x for x in last) / 16), rel=1e-5)


def test_probabilities_are_of_the_tokens_named(scope: Scope) -> None:
    likely = worth(scope, "likely(tiny, 2, 6)")
    assert sorted(likely) == ["a", "b", "c", "d", "e", "f"]
    ranked = [worth(scope, f"probability(tiny, 2, {rank})") for rank in range(6)]
    assert sum(ranked) == pytest.approx(1)
    assert worth(scope, "next_probability(tiny, 2)") == pytest.approx(ranked[likely.index("a")])


def test_head_scores_are_those_of_the_patterns(scope: Scope) -> None:
    weights = [worth(scope, f"weights(tiny, 1, {head})") for head in range(4)]
    by_hand = [sum(w[q][q - 1] for q in range(1, 6)) / 5 for w in weights]
    scores = worth(scope, "head_scores(tiny, 'previous')")
    assert scores[1] == pytest.approx(by_hand, abs=1e-6)
    best = worth(scope, "best_head(tiny, 'previous')")
    assert (best.layer, best.head) == (worth(scope, "layer_of(best)"), worth(scope, "head_of(best)"))
    assert scores[best.layer][best.head] == worth(scope, "best_score(tiny, 'previous')") == max(map(max, scores))
    over = worth(scope, "heads_over(tiny, 'previous', 0.0)")
    assert over[0] == best
    assert len(over) == 8
    induction = sum(weights[0][q][q - 2] for q in (3, 4)) / 2
    assert worth(scope, "head_scores(tiny, 'induction')")[1][0] == pytest.approx(induction, abs=1e-6)
    assert worth(scope, "score_without_rope(tiny, best, 'previous')") != pytest.approx(max(map(max, scores)), abs=1e-4)
    assert worth(scope, "head_scores(tiny, 'sink', 5, 3)") == worth(
        scope, "head_scores(tiny, 'sink', repeat=5, seed=3)"
    )


def test_a_head_that_is_zeroed_changes_what_follows(scope: Scope) -> None:
    plain_loss = worth(scope, "repeat_loss(tiny, 6)")
    assert worth(scope, "repeat_loss(tiny, 6, [])") == plain_loss
    assert worth(scope, "repeat_loss(tiny, 6, best)") != plain_loss
    assert worth(scope, "repeat_loss(tiny, 6, part='first')") != plain_loss
    assert worth(scope, "probability_without(tiny, best)") != worth(scope, "probability(tiny)")
    assert worth(scope, "repeat_loss(tiny, 6)") == plain_loss  # nothing stays zeroed


def test_looking_back_names_head_and_token(scope: Scope) -> None:
    found = worth(scope, "looks_back(tiny, 'e', 'a b c d e', 2)")
    assert len(found) == 2
    assert all(line.startswith("L") and " looks at " in line for line in found)
    head = worth(scope, "looking_head(tiny, 'e', 'a b c d e')")
    assert found[0].startswith(f"L{head.layer}H{head.head} looks at ")
    assert worth(scope, "row_of(tiny, 'b', 'a b c b e')") == 3
    weights = worth(scope, f"weights(tiny, {head.layer}, {head.head}, 'a b c d e')")[4]
    assert float(found[0].split("(")[1].rstrip(")")) == pytest.approx(max(weights[1:3]), abs=0.006)


def test_gaps_that_must_vanish_do(scope: Scope) -> None:
    assert worth(scope, "shift_gap(tiny, 100)") < 1e-4
    assert worth(scope, "shift_gap(views, 3)") == 0
    assert worth(scope, "permuted_gap(views, [1, 0])") < 1e-6
    assert worth(scope, "row_gap(views, 'y x y', 'y x y')") == 0
    for branch in ("fused", "explicit"):
        for padding in (0, 2):
            assert worth(scope, f"cached_gap(tiny, 5, 4, '{branch}', {padding})") < 1e-4
    assert worth(scope, "branch_gap(tiny, 9)") < 1e-4
    assert worth(scope, "branch_gap(tiny, 3, past=7, padding=2)") < 1e-4


def test_gaps_that_must_not_vanish_do_not(scope: Scope) -> None:
    assert worth(scope, "permuted_gap(tiny, [1, 0, 2, 3, 4, 5])") > 1e-2
    assert worth(scope, "pairing_gap(tiny)") > 1e-2
    assert worth(scope, "row_gap(tiny, 'a b')") > 1e-2
    assert worth(scope, "point_gap(tiny, 'v', 2, 'c b a a b c', layer=1)") > 1e-3


def test_the_scale_is_seen_in_spread_entropy_and_slope() -> None:
    config = ModelConfig(
        vocabulary=32, width=128, layers=1, heads=4, kv_heads=4, head_width=32, mlp_width=8, position="none"
    )
    words = tuple(f"t{i}" for i in range(32))
    first, second = " ".join(words[:16]), " ".join(words[16:])
    models = {
        "scaled": LessonModel("scaled", "toy", first, (second,), ToySpec(config, words)),
        "raw": LessonModel("raw", "toy", first, (second,), ToySpec(config.changed(score_scale=1.0), words)),
        "library": LessonModel("library", "toy", first, (second,), ToySpec(config, words, init="library")),
    }
    runs = Runs(models)
    scaled, raw, library = (ModelName(name) for name in models)
    assert attention.score_spread(runs, raw) == pytest.approx(math.sqrt(32), rel=0.1)
    assert attention.score_spread(runs, raw) / attention.score_spread(runs, scaled) == pytest.approx(
        math.sqrt(32), rel=1e-3
    )
    assert attention.score_spread(runs, scaled) / attention.score_spread(runs, library) == pytest.approx(3, rel=0.15)
    assert layers.weight_variance(runs, scaled, "query") == pytest.approx(1 / 128, rel=0.05)
    assert layers.weight_variance(runs, library, "query") == pytest.approx(1 / 384, rel=0.05)
    assert attention.mean_entropy(runs, raw, 5) < attention.mean_entropy(runs, scaled, 5) < math.log(6)
    assert attention.peak(runs, raw, 5) > attention.peak(runs, scaled, 5)
    assert attention.slope(runs, raw, 5) < attention.slope(runs, scaled, 5)
    assert attention.mean_entropy(runs, scaled) > 0


def test_a_batch_of_unequal_sequences_is_refused() -> None:
    runs = Runs({"x": LessonModel("x", "toy", "a b", ("a",), TINY)})
    with pytest.raises(LessonError, match="not equally long"):
        attention.score_spread(runs, ModelName("x"))


def test_depth_multiplies_with_norms_behind_the_sum() -> None:
    deep = ToySpec(TINY.config.changed(layers=40), TINY.words)
    runs = Runs({"deep": LessonModel("deep", "toy", "a b c d e f", (), deep)})
    pre, post = (layers.first_gradient(runs, ModelName("deep"), place) for place in ("pre", "post"))
    assert pre < post


def test_routes_are_counted(scope: Scope) -> None:
    load = worth(scope, "expert_load(routed, 1)")
    assert sum(load) == 6 * 2
    chosen = worth(scope, "experts(routed, 3, layer=1)")
    assert len(set(chosen)) == 2
    assert set(chosen) <= set(range(4))


def test_known_configs_are_the_published_ones() -> None:
    sizes = {name: f"{plain(evaluate(read_expression(f'parameters({name})'), Scope())):,.0f}" for name in KNOWN}
    assert sizes == {
        "llama3_8b": "8,030,261,248",
        "llama31_8b": "8,030,261,248",
        "llama3_70b": "70,553,706,496",
        "llama2_7b": "6,738,415,616",
        "mistral_7b": "7,241,732,096",
        "qwen3_0_6b": "596,049,920",
        "smollm2_135m": "134,515,008",
        "minimind3": "63,912,192",
        "minimind3_moe": "198,416,640",
        "minimind2_small": "25,829,888",
        "ropewalk": "886,016",
    }


def test_stretching_slows_the_slow_planes(scope: Scope) -> None:
    plain_planes = worth(scope, "wavelengths(ropewalk)")
    for rule in ("linear", "dynamic", "yarn", "llama3"):
        slowed = worth(scope, f"wavelengths(stretched(ropewalk, '{rule}', 4), 2048)")
        assert slowed[-1] > 3.9 * plain_planes[-1]
        assert slowed[0] == pytest.approx(plain_planes[0] * (4 if rule == "linear" else 1))


def test_the_guide_for_authors_lists_every_function_and_config() -> None:
    guide = (ROOT / "docs" / "lessons.md").read_text(encoding="utf-8")
    rows = [f"| `{entry.name}{entry.signature}` | {entry.summary} |" for entry in TABLE.values()]
    missing = [row for row in rows if row not in guide]
    assert not missing, "\n".join(missing)
    assert len(re.findall(r"^\| `\w+\(.*\)` \|", guide, re.MULTILINE)) == len(TABLE)
    for name in KNOWN:
        assert f"`{name}`" in guide
