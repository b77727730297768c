"""Records come back from bytes and arrays as they were, and nothing else comes back at all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from random import Random
from typing import Any, Literal

import msgspec
import numpy as np
import pytest

from ropewalk.model.decoder import interventions
from ropewalk.model.decoder.config import ModelConfig, RopeConfig
from ropewalk.model.decoder.interventions import AblateHeads, Intervention, NoScale
from ropewalk.model.engine import questions
from ropewalk.model.engine.interface import CheckpointOutline, Choice
from ropewalk.model.engine.packing import Packing, PackingError
from ropewalk.model.engine.questions import AskAtlas, AskHead, AskRow, Question
from ropewalk.model.ledger.ledger import ShapeLedger, build_ledger
from ropewalk.model.lessons import expressions, models, text, toy_spec, values
from ropewalk.model.lessons.expressions import Call, Constant, Expression, Items, Name
from ropewalk.model.lessons.values import Value
from ropewalk.model.progress import Progress
from ropewalk.model.readings import records
from ropewalk.model.readings.records import (
    Doubles,
    Floats,
    HeadPicture,
    RopeRule,
    Routing,
    Run,
    Tile,
    TokenText,
    TokenTexts,
)
from ropewalk.model.tokens.prompt import Prompt
from tests.examples import alike, example, records_of

LEDGERS = tuple[ShapeLedger, ShapeLedger | None]
TYPES = [
    *records_of(records, questions, interventions, expressions, values, text, toy_spec, models),
    *(Choice, CheckpointOutline, ShapeLedger, Progress, Prompt),
    *(LEDGERS, tuple[RopeRule, ...], str, int, float, bool, None),
]  # fmt: skip
PACKING = Packing(TYPES)


def back(value: Any, packing: Packing = PACKING) -> Any:
    packed = packing.pack(value)
    return packing.unpack(packed.type, packed.data, packed.arrays)


def refused(type_: str, plain: Any, arrays: tuple[Any, ...] = (), packing: Packing = PACKING) -> str:
    with pytest.raises(PackingError) as caught:
        packing.unpack(type_, msgspec.msgpack.encode(plain), arrays)
    return caught.value.sentence


# ----------------------------------------------------------------------------------------------------------------------
# There and back


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_every_record_comes_back_as_it_was(kind: Any) -> None:
    for seed in range(8):
        value = example(kind, Random(seed))
        assert alike(value, back(value)), value


def test_an_array_is_sent_once_and_comes_back_read_only() -> None:
    visible = np.eye(3, dtype=np.bool_)
    tile = Tile("weights", 0, 1, (0, 3), (0, 3), np.ones((3, 3), np.float32).T[::-1], visible)
    packed = PACKING.pack(HeadPicture(0, 1, 0, tile, tile))
    assert len(packed.arrays) == 2
    assert all(array.flags.c_contiguous for array in packed.arrays)
    again = PACKING.unpack(packed.type, packed.data, packed.arrays)
    assert again.scores.visible is again.weights.visible
    with pytest.raises(ValueError, match="read-only"):
        again.scores.values[0, 0] = 2.0


def test_numbers_in_the_other_order_of_bytes_are_turned() -> None:
    (sent,) = PACKING.pack(RopeRule("r", np.arange(3, dtype=">f8"), 1.0)).arrays
    assert sent.tobytes() == np.arange(3, dtype="<f8").tobytes()


def test_a_type_that_holds_itself_comes_back_however_deep() -> None:
    expression: Expression = Constant("\udcff")
    value: Value = 1.0
    for _ in range(60):
        expression = Call("f", (expression, Name("x")), (("k", Items((expression,))),) if _ < 5 else ())
        value = (value, 2, True, "x")

    @dataclass(frozen=True)
    class Held:
        value: Value
        expression: Expression

    packing = Packing([Held])
    assert alike(back(Held(value, expression), packing), Held(value, expression))


def test_a_base_of_questions_stands_for_those_of_the_list() -> None:
    packing = Packing([AskAbout, AskHead, AskRow])
    assert back(AskAbout(AskHead(1, 2)), packing) == AskAbout(AskHead(1, 2))
    assert refused("AskAbout", {"": "AskAbout", "question": {"": "AskAtlas"}}, packing=packing) == (
        "AskAbout cannot be read: question. cannot be 'AskAtlas'."
    )
    with pytest.raises(PackingError, match=r"^The window and the engine say no AskAtlas to one another\.$"):
        packing.pack(AskAtlas())


@dataclass(frozen=True)
class AskAbout:
    question: Question


def test_plain_values_lists_and_nothing_have_names_of_their_own() -> None:
    ledger = build_ledger(ModelConfig(3, 8, 2, 4, 2, 4, 16, rope=RopeConfig()), tokens=3)
    names = ["ShapeLedger", "tuple[ShapeLedger, ShapeLedger | None]", "tuple[RopeRule, ...]", "", "str"]
    sent: list[Any] = [ledger, (ledger, None), (), None, "NaN"]
    assert [PACKING.pack(value).type for value in sent] == names
    assert [back(value) for value in sent] == sent
    assert back((ledger, ledger)) == (ledger, ledger)
    assert math.isnan(back(math.nan))


class Colour(IntEnum):
    RED = 3


@dataclass(frozen=True)
class Rarer:
    colour: Colour
    where: Path
    kinds: frozenset[Literal["a", "b"]]
    counts: dict[int, float]


def test_rarer_values_come_back_and_subclasses_of_plain_ones_as_these() -> None:
    value = Rarer(Colour.RED, Path("/m/\udcff"), frozenset({"a"}), {3: np.float64(0.5)})
    packing = Packing([Rarer])
    again = back(value, packing)
    assert again == value
    assert type(again.colour) is Colour
    assert type(again.counts[3]) is float


# ----------------------------------------------------------------------------------------------------------------------
# What is not sent


class Words(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), "The window and the engine say no object to one another."),
        ((1, 2), "The window and the engine say no tuple to one another."),
        (AskHead(1 << 63, 0), "AskHead cannot be sent: 9223372036854775808 has more than 64 bits."),
        (RopeRule("r", np.array([object()]), 1.0), "RopeRule cannot be sent: an array of object is no plain data."),
        (RopeRule("r", np.zeros(1, "M8[s]"), 1.0), "RopeRule cannot be sent: an array of datetime64[s] is no plain"),
        (Prompt(open), "Prompt cannot be sent: a builtin_function_or_method is no plain data."),  # type: ignore[arg-type]
        (
            records.HeadAtlas(np.zeros(0, np.float32), "exact", {}, {"\udcff": ""}),
            r"HeadAtlas cannot be sent: '\udcff' cannot be a name.",
        ),
    ],
)
def test_what_cannot_be_said_is_refused_before_it_is_sent(value: Any, says: str) -> None:
    with pytest.raises(PackingError) as caught:
        PACKING.pack(value)
    assert caught.value.sentence.startswith(says)


def test_what_is_nested_too_deeply_is_refused_on_both_sides() -> None:
    items = Items(())
    for _ in range(5000):
        items = Items((items,))
    with pytest.raises(PackingError, match="nested too deeply"):
        PACKING.pack(items)
    deep = b"\x82\xa0\xa5Items\xa5items\x91" * 5000 + b"\xc0"
    for name, data in (("Items", deep), ("Items", b"\x91" * 100_000), ("Quantity", b"\x81\xa0" * 100_000)):
        with pytest.raises(PackingError, match="nested too deeply"):
            PACKING.unpack(name, data, ())


def test_two_types_of_one_name_are_not_told_apart() -> None:
    def other() -> type[Any]:
        @dataclass(frozen=True)
        class AskRow:
            pass

        return AskRow

    with pytest.raises(TypeError, match="two types are called AskRow"):
        Packing([AskRow, other()])


# ----------------------------------------------------------------------------------------------------------------------
# What is not believed

ROW = {"": "AskRow", "layer": 1, "head": 2, "query": 3}
RULE = {"": "RopeRule", "name": "r", "frequencies": 0, "factor": 1.0}
THREE = np.arange(3.0)


@pytest.mark.parametrize(
    ("type_", "plain", "arrays", "says"),
    [
        ("Secret", {}, (), "The window and the engine say no 'Secret' to one another."),
        ("AskRow", {**ROW, "": "AskCell"}, (), "AskRow cannot be read: it cannot be 'AskCell'."),
        ("AskRow", {**ROW, "more": 1}, (), "AskRow cannot be read: more is unknown here."),
        ("AskRow", {**ROW, "query": 1.5}, (), "AskRow cannot be read: query must be a whole number, not a number."),
        ("AskRow", {"": "AskRow", "layer": 1, "head": 2}, (), "AskRow cannot be read: query is missing."),
        ("AskAtlas", {"": "AskAtlas", "pixels": 1}, (), "AskAtlas cannot be read: exact is missing."),
        ("AskRow", [], (), "AskRow cannot be read: it must be named values, not a list."),
        ("RopeRule", RULE, (), "RopeRule cannot be read: frequencies is not right (there is no array 0)."),
        ("RopeRule", {**RULE, "frequencies": -1}, (THREE,), "there is no array -1"),
        ("RopeRule", {**RULE, "frequencies": True}, (THREE,), "there is no array True"),
        ("RopeRule", {**RULE, "frequencies": [0]}, (THREE,), "there is no array [0]"),
        ("RopeRule", {**RULE, "frequencies": None}, (THREE,), "there is no array None"),
        ("RopeRule", RULE, (THREE.astype(np.float32),), "array of float32 stands where one of float64 is expected"),
        ("RopeConfig", {"": "RopeConfig"}, (), "say no 'RopeConfig' to"),
        ("NextTokenDifference", 3, (), "must be named values, not a whole number"),
        ("str", 3, (), "str cannot be read: it must be text, not a whole number."),
        ("", 3, (), "must be nothing, not a whole number"),
    ],
)
def test_what_is_not_annotated_is_refused(type_: str, plain: Any, arrays: tuple[Any, ...], says: str) -> None:
    assert says in refused(type_, plain, arrays)


def test_a_record_that_checks_itself_is_refused_in_its_own_words() -> None:
    toy = {"": "ToySpec", **ToySpecFields}
    assert refused("ToySpec", toy).startswith("ToySpec cannot be read: The toy has 1 words, but its vocabulary is 3")


ToySpecFields: dict[str, Any] = {
    "config": msgspec.msgpack.decode(Packing([ModelConfig]).pack(ModelConfig(3, 8, 2, 4, 2, 4, 16)).data),
    "words": ["a"], "weights": [], "mlp_writes": [], "prompt": "", "init": "engine", "seed": 0,
}  # fmt: skip


def test_damaged_records_are_refused_or_are_records() -> None:
    random = Random(12)
    kinds = [kind for kind in TYPES if kind not in (None, str, int, float, bool)]
    for kind in kinds:
        packed = PACKING.pack(example(kind, random))
        for _ in range(12):
            data = bytearray(packed.data)
            for _ in range(random.randint(1, 3)):
                at = random.randrange(len(data) + 1)
                data[at : at + random.randint(0, 2)] = random.randbytes(random.randint(0, 2))
            arrays = random.sample(packed.arrays, random.randint(0, len(packed.arrays)))
            try:
                value = PACKING.unpack(packed.type, bytes(data), arrays)
            except PackingError:
                continue
            PACKING.pack(value)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\xd4\x05a", b"\xd4\x01\xff", b"\xdd\xff\xff\xff\xff", b"\xc0\xc0"])
def test_what_is_no_messagepack_is_refused(data: bytes) -> None:
    with pytest.raises(PackingError):
        PACKING.unpack("AskRow", data, ())


# ----------------------------------------------------------------------------------------------------------------------
# A run's tokens

TOKENS = (
    TokenText(5, "a·"),
    TokenText(7, "<E4>", "bytes", 0, "中"),
    TokenText(8, "\udcff", "special"),
    TokenText(5, "a·"),
)


def run_of(tokens: Any) -> Run:
    run: Run = example(Run, Random(0))
    return Run(**{**vars(run), "tokens": tokens})


def test_the_tokens_of_a_run_come_back_in_columns() -> None:
    tokens = back(run_of(TOKENS)).tokens
    assert type(tokens) is TokenTexts
    assert tokens == TOKENS
    assert tuple(back(run_of(tokens[1:3])).tokens) == TOKENS[1:3]
    assert tuple(back(run_of(())).tokens) == tuple(back(run_of(TokenTexts.of(()))).tokens) == ()
    with pytest.raises(PackingError, match="cannot be sent"):
        PACKING.pack(run_of((TokenText(1 << 31, "x"),)))


@pytest.mark.parametrize(
    ("plain", "arrays", "says"),
    [
        (["ab", 0], [[[1, 0, -1]], [0, 1, 2]], "tokens are a text, their numbers and their bounds"),
        ([3, 0, 1], [[[1, 0, -1]], [0, 1, 2]], "tokens are a text, their numbers and their bounds"),
        (["ab", 0, 2], [[[1, 0, -1]], [0, 1, 2]], "there is no array 2"),
        (["ab", 0, 1], [[[1, 0]], [0, 1, 2]], "columns of (1, 2) numbers and (3,) bounds"),
        (["ab", 0, 1], [[1, 0, -1], [0, 1, 2]], "columns of (3,) numbers and (3,) bounds"),
        (["ab", 0, 1], [[[1, 0, -1]], [0, 1, 2, 2, 2]], "columns of (1, 3) numbers and (5,) bounds"),
        (["ab", 0, 1], [[[1, 0, -1]], [0, 2, 1]], "bounds outside the text"),
        (["ab", 0, 1], [[[1, 0, -1]], [-1, 1, 2]], "bounds outside the text"),
        (["ab", 0, 1], [[[1, 0, -1]], [0, 1, 3]], "bounds outside the text"),
        (["ab", 0, 1], [[[1, 3, -1]], [0, 1, 2]], "an unknown kind of token"),
        (["ab", 0, 1], [[[1, -1, -1]], [0, 1, 2]], "an unknown kind of token"),
    ],
)
def test_columns_that_do_not_fit_one_another_are_refused(plain: Any, arrays: list[Any], says: str) -> None:
    packed = PACKING.pack(run_of(()))
    fields = {**msgspec.msgpack.decode(packed.data, ext_hook=lambda code, data: ""), "tokens": plain}
    assert says in refused("Run", fields, tuple(np.array(array, np.int32) for array in arrays))


def test_lists_of_interventions_are_told_apart_by_their_names() -> None:
    @dataclass(frozen=True)
    class Failure:
        offers: tuple[Intervention, ...]

    value = Failure((NoScale(1), AblateHeads(0, (1,), ((0.5, -0.0),))))
    assert back(value, Packing([Failure])) == value


def test_arrays_that_may_be_missing_and_those_by_name_come_back() -> None:
    @dataclass(frozen=True, eq=False)
    class Maybe:
        raw: Floats | None
        scores: dict[str, Doubles]
        nothing: Routing | None = None

    packing = Packing([Maybe])
    for raw in (None, np.ones((0, 3), np.float32)):
        value = Maybe(raw, {"é": THREE, "b": np.full((), 2.0)})
        assert alike(value, back(value, packing))
