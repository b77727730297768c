"""What serves requests: models and runs by their numbers, runs that grow, and a trace file in parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.engine import engine, requests, serving
from ropewalk.model.engine.questions import AskRow
from ropewalk.model.engine.requests import (
    AnswerQuestion,
    Attach,
    Attached,
    CountTokens,
    Decode,
    FetchTrace,
    GrownRun,
    MadeRun,
    MadeTrace,
    MeasureProducts,
    OpenedModel,
    OpenModel,
    OpenToy,
    OpenTrace,
    PutToken,
    ReadNumbers,
    RunInView,
    RunPrompt,
    Tidy,
)
from ropewalk.model.engine.serving import PART, SERVED, Handles
from ropewalk.model.errors import TraceError
from ropewalk.model.lessons.toy_spec import ToySpec
from ropewalk.model.progress import Partial, Progress, Steps, finished
from ropewalk.model.readings.records import Sampling
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.model.trace_files.trace_file import load_trace

TOY = ToySpec(
    ModelConfig(vocabulary=4, width=8, layers=2, heads=2, kv_heads=1, head_width=4, mlp_width=8, max_position=32),
    ("a", "b", "c", "d"),
)
GREEDY = Sampling(temperature=0.0)
LAST = AskRow(layer=0, head=0, query=0)


def no_pulse(point: Progress) -> None:
    """Nothing here is ended."""


class Asking:
    """Asks as a window does, and remembers what it was given."""

    def __init__(self) -> None:
        self.handles = Handles(lambda: engine, no_pulse)
        self.model: OpenedModel = self.ask(OpenToy(TOY, "toy"))
        self.made: MadeRun = self.ask(RunPrompt(self.model.number, Prompt("a b c d a b"), 1, None))

    def ask(self, request: Any) -> Any:
        return finished(SERVED[type(request)](self.handles, request))

    def view(self, length: int = 6, number: int | None = None) -> RunInView:
        return RunInView(self.made.number if number is None else number, length)

    def refusal(self, request: Any) -> str:
        with pytest.raises(TraceError) as caught:
            self.ask(request)
        assert "\n" not in caught.value.sentence
        return caught.value.sentence


@pytest.fixture
def asking() -> Asking:
    return Asking()


# ----------------------------------------------------------------------------------------------------------------------
# Numbers


def test_what_is_made_has_a_number_of_its_own_until_it_is_released(asking: Asking) -> None:
    assert (asking.model.number, asking.made.number) == (1, 2)
    assert len(asking.handles) == 2
    assert asking.handles.made() == [1, 2]
    assert asking.handles.made() == []
    asking.handles.release(2)
    asking.handles.release(2)
    assert "is no longer there; run the prompt again" in asking.refusal(Decode(asking.view(), 1, GREEDY))
    assert asking.ask(RunPrompt(1, Prompt("a"), 2, None)).number == 3


@pytest.mark.parametrize(
    "request_of",
    [
        lambda a: RunPrompt(a.made.number, Prompt("a"), 2, None),
        lambda a: CountTokens(a.made.number, Prompt("a")),
        lambda a: MeasureProducts(a.made.number),
        lambda a: Decode(a.view(number=a.model.number), 1, GREEDY),
        lambda a: PutToken(a.view(number=a.model.number), 6, 0),
        lambda a: AnswerQuestion(a.view(number=a.model.number), LAST),
        lambda a: AnswerQuestion(a.view(), LAST, a.view(number=a.model.number)),
        lambda a: ReadNumbers(a.view(number=a.model.number), 0, 0, (0, 1), (0, 1)),
        lambda a: FetchTrace(a.view(number=a.model.number)),
    ],
)
def test_a_number_of_something_else_is_refused(asking: Asking, request_of: Callable[[Asking], Any]) -> None:
    assert asking.refusal(request_of(asking)) == "What was asked about is something else; run the prompt again."


@pytest.mark.parametrize("length", [-1, 0, 5, 7])
def test_rows_that_a_run_does_not_have_are_refused(asking: Asking, length: int) -> None:
    assert f"Row {length} was asked for, but the run has 6 to 6 rows" in asking.refusal(
        AnswerQuestion(asking.view(length), LAST)
    )


def test_a_trace_is_opened_and_attached_by_numbers(asking: Asking, tmp_path: Path) -> None:
    model: OpenedModel = asking.ask(OpenModel(None, "cpu", "float32"))
    made: MadeRun = asking.ask(RunPrompt(model.number, Prompt("to be or not to be"), 3, (1, 3)))
    grown: GrownRun = asking.ask(Decode(asking.view(6, made.number), 2, GREEDY))
    path = tmp_path / "run.safetensors"
    engine.save(asking.handles.run(asking.view(8, grown.number)), path, drawn=[GREEDY] * 2)
    trace: OpenedModel = asking.ask(OpenModel(str(path), "cpu", "float32"))
    assert trace.origin is not None
    assert (trace.origin.name, "run" in trace.can) == ("bundled", False)
    back: MadeTrace = asking.ask(OpenTrace(trace.number, 9, (1, 3), tile_bytes=12_345))
    assert (back.run.run.run_id, back.run.run.length, back.run.can) == (9, 8, trace.can)
    assert (back.prompt, back.drawn, back.interventions) == (Prompt("to be or not to be"), (GREEDY,) * 2, ())
    attached: Attached = asking.ask(Attach(asking.view(8, back.run.number), None, "cpu", tile_bytes=12_345))
    assert (attached.model.card.name, attached.run.run.length, attached.prompt) == ("bundled", 8, back.prompt)
    assert asking.ask(Decode(asking.view(8, attached.run.number), 1, GREEDY)).since == 8
    assert asking.handles.thing(attached.run.number).tiles.limit == asking.handles.thing(back.run.number).tiles.limit


def test_an_earlier_length_of_a_run_can_be_asked_about(asking: Asking) -> None:
    grown: GrownRun = asking.ask(Decode(asking.view(), 3, GREEDY))
    row = AskRow(layer=0, head=0, query=6)
    at_seven = asking.ask(AnswerQuestion(asking.view(7, grown.number), row))
    assert len(at_seven.weights) == 7
    assert "has 6 to 9 rows" in asking.refusal(AnswerQuestion(asking.view(10, grown.number), row))
    assert asking.handles.run(asking.view(9, grown.number)).run.length == 9


# ----------------------------------------------------------------------------------------------------------------------
# What is given back


def test_a_model_and_a_run_are_given_back_as_the_engine_describes_them(asking: Asking) -> None:
    kept = asking.handles.model(1)
    assert asking.model.card is kept.card
    assert (asking.model.devices, asking.model.shapes_only) == (kept.devices, False)
    run = asking.handles.run(asking.view())
    assert asking.made.run is run.run
    assert (asking.made.cell, asking.made.can) == (run.cell, run.can)
    assert asking.ask(CountTokens(1, Prompt("a b c"))) == 3
    assert asking.ask(Tidy()) is None


def test_what_refined_pictures_may_keep_is_the_windows_wish(asking: Asking) -> None:
    made = asking.ask(RunPrompt(1, Prompt("a b"), 2, None, tile_bytes=12_345))
    tiles = asking.handles.run(RunInView(made.number, 2)).tiles
    assert tiles.limit == 12_345


def test_a_run_grows_by_its_new_tokens_alone_and_the_one_before_stays(asking: Asking) -> None:
    grown: GrownRun = asking.ask(Decode(asking.view(), 2, GREEDY))
    after = asking.handles.run(asking.view(8, grown.number)).run
    assert (grown.since, len(grown.tokens), grown.specs) == (6, 2, None)
    assert list(grown.tokens) == list(after.tokens[6:])
    assert (grown.seconds, grown.trace_bytes) == (after.seconds, after.trace_bytes)
    assert asking.handles.run(asking.view()).run is asking.made.run


def test_another_token_in_the_place_of_one_leaves_the_rows_before_it(asking: Asking) -> None:
    grown: GrownRun = asking.ask(Decode(asking.view(), 3, GREEDY))
    other: GrownRun = asking.ask(PutToken(asking.view(9, grown.number), 7, 2))
    assert (other.since, [token.id for token in other.tokens]) == (7, [2])
    assert asking.handles.run(asking.view(8, other.number)).run.tokens[6] == grown.tokens[0]


def test_numbers_of_a_rectangle_are_read(asking: Asking) -> None:
    numbers = asking.ask(ReadNumbers(asking.view(), 1, 0, (2, 6), (0, 3)))
    assert numbers.scores.shape == (4, 3)
    assert numbers.weights[0].sum() == pytest.approx(1)  # the third row sees three keys


def outcome(steps: Steps[int]) -> tuple[int, list[Progress]]:
    """What a job returns, and its points."""
    points: list[Progress] = []
    while True:
        try:
            points.append(next(steps))
        except StopIteration as stop:
            return stop.value, points


def contents(path: Path) -> tuple[dict[str, str], dict[str, bytes]]:
    """What a trace file says of itself, and its arrays; their order in a file is drawn anew each time."""
    with safe_open(path, "np") as file:
        return file.metadata(), {name: file.get_tensor(name).tobytes() for name in file.keys()}  # noqa: SIM118


def test_a_trace_file_comes_in_parts_that_are_the_file(
    asking: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "saved.safetensors"
    engine.save(asking.handles.run(asking.view()), path)
    size = path.stat().st_size
    monkeypatch.setattr(serving, "PART", 1000)
    folders: list[Path] = []
    save_steps = engine.save_steps

    def remembering(handle: Any, place: Path, *, drawn: Sequence[Sampling]) -> Any:
        folders.append(place.parent)
        return save_steps(handle, place, drawn=drawn)

    monkeypatch.setattr(engine, "save_steps", remembering)
    total, points = outcome(SERVED[FetchTrace](asking.handles, FetchTrace(asking.view())))
    parts: list[Any] = [point.reading for point in points if isinstance(point, Partial)]
    done = [point.done for point in points if isinstance(point, Partial)]
    assert done == [*range(1000, size, 1000), size]
    assert total == size
    came = tmp_path / "came.safetensors"
    came.write_bytes(b"".join(parts))
    assert contents(came) == contents(path)
    assert max(map(len, parts)) == 1000 < PART
    assert load_trace(came).trace.length == 6
    assert not any(folder.exists() for folder in folders)
    assert len(folders) == 1


def test_a_trace_that_is_given_up_leaves_no_file(
    asking: Asking, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    steps = SERVED[FetchTrace](asking.handles, FetchTrace(asking.view()))
    while not isinstance(next(steps), Partial):
        pass
    assert list(tmp_path.iterdir())
    steps.close()
    assert not list(tmp_path.iterdir())


def test_every_request_has_something_that_serves_it() -> None:
    asked = {
        kind
        for kind in vars(requests).values()
        if getattr(kind, "__module__", "") == requests.__name__ and "→" in kind.__doc__
    }
    assert len(asked) == 21
    assert set(SERVED) == asked
