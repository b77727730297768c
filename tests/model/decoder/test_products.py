"""Every library multiplies alike, is asked only where it may be, and a run keeps the one that it began with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from ropewalk.model.decoder import product_choice
from ropewalk.model.decoder.config import Activation, ModelConfig, MoeConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.interventions import AblateHeads
from ropewalk.model.decoder.product_choice import Choice, adopt, find_steps, found, keep, kept, measure_steps
from ropewalk.model.decoder.product_names import BY_TORCH, ProductName, Products
from ropewalk.model.decoder.products import (
    MANY_ROWS,
    PRODUCTS,
    Linear,
    OneDnnProduct,
    TorchProduct,
    for_rows,
    multiplying,
    product_for,
    row_count,
)
from ropewalk.model.engine import engine
from ropewalk.model.errors import CheckpointError
from ropewalk.model.progress import finished
from ropewalk.model.runs.trace import append, capture, replay
from ropewalk.model.tokens.prompt import Prompt
from tests.model.small_models import BASE, CONFIGS, make, random_ids

NAMES: tuple[ProductName, ...] = get_args(ProductName)
ROWS = (1, 2, 7, MANY_ROWS, 50)
EPSILON = float(np.finfo(np.float32).eps)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def bound(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """√K·ε·Σ|x·w|, how far a sum of K terms in float32 may be from the true one."""
    size = x.abs().double() @ weight.abs().double().T + (0 if bias is None else bias.abs().double())
    allowed: Tensor = weight.shape[1] ** 0.5 * EPSILON * size
    return allowed


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("biased", [False, True])
def test_a_product_is_the_sum_in_float64_within_its_rounding(name: ProductName, rows: int, biased: bool) -> None:
    x, weight, bias = numbers(1, rows, 96), numbers(40, 96, seed=1), numbers(40, seed=2) if biased else None
    true = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    with torch.no_grad():
        made = PRODUCTS[name].linear(x, weight, bias)
    assert made.shape == (1, rows, 40)
    assert bool(((made - true).abs() <= bound(x, weight, bias)).all())


def test_rows_come_in_few_numbers_with_few_more_than_asked_for() -> None:
    counts = [row_count(rows) for rows in range(1, 4097)]
    assert all(rows <= count <= rows * 1.25 for rows, count in enumerate(counts, 1))
    assert len({count for count in counts if count > 8}) == 4 * 9
    assert [row_count(rows) for rows in (1, 8, 9, 100, 128, 513)] == [1, 8, 10, 112, 128, 640]


@pytest.mark.parametrize("name", NAMES)
def test_a_vector_is_multiplied_into_its_place(name: ProductName) -> None:
    x, out = numbers(96).numpy(), np.empty(40, np.float32)
    weight = torch.nn.Parameter(numbers(40, 96, seed=1))
    call = PRODUCTS[name].into(weight, x, out)
    for scale in (1.0, -3.0):  # the call reads what the vector has become
        x[:] = scale * numbers(96).numpy()
        with torch.no_grad():
            call()
        true = weight.detach().double() @ torch.from_numpy(x).double()
        allowed = bound(torch.from_numpy(x)[None], weight.detach())[0]
        assert bool(((torch.from_numpy(out) - true).abs() <= allowed).all())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("activation", get_args(Activation))
@pytest.mark.parametrize("rows", [1, 40])
def test_a_gated_product_is_what_torch_makes_of_it(name: ProductName, activation: Activation, rows: int) -> None:
    if activation == "xielu":  # it learns its bend, and goes through the modules
        return
    maps = [(numbers(24, 32, seed=seed) / 6, numbers(24, seed=seed + 9)) for seed in (1, 2)]
    x = numbers(2, rows, 32)
    with torch.no_grad():
        gate, up = ((weight.double(), bias.double()) for weight, bias in maps)
        expected = TorchProduct().gated(x.double(), gate, up, activation)
        made = PRODUCTS[name].gated(x, maps[0], maps[1], activation)
    torch.testing.assert_close(made.double(), expected, rtol=1e-5, atol=1e-5)


def test_who_multiplies_goes_by_the_rows() -> None:
    products = Products("numpy", "torch", "onednn")
    assert [for_rows(products, rows) for rows in (1, 2, MANY_ROWS - 1, MANY_ROWS)] == [
        PRODUCTS[name] for name in ("numpy", "torch", "torch", "onednn")
    ]
    assert str(products) == "numpy for one row, torch for a few, onednn for many"
    assert str(Products.of("onednn")) == "onednn"


def test_what_the_libraries_may_not_be_asked_is_torchs() -> None:
    x, weight = numbers(4, 8), numbers(3, 8, seed=1)
    assert product_for(x, weight) is PRODUCTS["torch"]
    with multiplying(Products.of("numpy")):
        assert product_for(x, weight) is PRODUCTS["numpy"]
        for other in (weight.bfloat16(), weight.double(), weight.to("meta"), numbers(8, 3).T):
            assert product_for(x, other) is PRODUCTS["torch"]
        assert product_for(numbers(8, 4).T, weight) is PRODUCTS["torch"]
        with torch.enable_grad():
            assert product_for(x, weight) is PRODUCTS["torch"]
    assert product_for(x, weight) is PRODUCTS["torch"]


def test_gradients_go_through_every_map() -> None:
    model = Decoder(BASE)
    model.products = Products.of("onednn")
    model(random_ids(40)).square().mean().backward()
    assert all(one.grad is not None for one in model.parameters())


# ----------------------------------------------------------------------------------------------------------------------
# Runs


@pytest.mark.parametrize("name", ["onednn", "numpy"])
@pytest.mark.parametrize("config", CONFIGS)
def test_a_run_by_another_library_is_the_run_by_torch(config: str, name: ProductName) -> None:
    """Prefill, decode steps and a replayed row; three layers of sums of at most 64 terms."""
    model, ids = make(config).pack(), random_ids(MANY_ROWS + 3)
    expected = append(model, capture(model, ids), 5)
    model.products = Products.of(name)
    made = append(model, capture(model, ids), 5)
    assert made.products == Products.of(name)
    assert made.logits is not None
    assert expected.logits is not None
    allowed = 3 * 64**0.5 * EPSILON * float(expected.logits.tensor.abs().max()) * 8
    torch.testing.assert_close(made.logits.tensor, expected.logits.tensor, rtol=0, atol=max(allowed, 2e-5))
    again = replay(model, made, made.length - 1)
    torch.testing.assert_close(again.logits, made.logits.tensor[:, 0, -1], rtol=0, atol=max(allowed, 2e-5))


def test_a_run_keeps_what_it_began_with() -> None:
    model = Decoder(BASE).pack()
    begun = capture(model, random_ids(6))
    model.products = Products.of("numpy")
    asked: list[tuple[str, int]] = []
    with _counted(asked):
        longer = append(model, begun, 4)
        assert asked == []
        replay(model, longer, 3)
        assert asked == []
        capture(model, random_ids(6))
        assert {name for name, _ in asked} == {"numpy"}
    assert longer.products == BY_TORCH
    assert capture(model, random_ids(6), interventions=[AblateHeads(0, (1,))]).products == Products.of("numpy")


@contextmanager
def _counted(asked: list[tuple[str, int]]) -> Iterator[None]:
    """Note who multiplies, and how many rows, but for torch."""
    with pytest.MonkeyPatch.context() as patch:
        for name in (one for one in NAMES if one != "torch"):
            product = PRODUCTS[name]
            patch.setattr(product, "linear", _noting(name, product.linear, asked), raising=False)
        yield


def _noting(name: str, linear: Callable[..., Tensor], asked: list[tuple[str, int]]) -> Callable[..., Tensor]:
    def noted(x: Tensor, *rest: Tensor) -> Tensor:
        asked.append((name, x.numel() // x.shape[-1]))
        return linear(x, *rest)

    return noted


# ----------------------------------------------------------------------------------------------------------------------
# Choosing


class Wrong(OneDnnProduct):
    """Forgets the last number of every row, as a kernel with a wrong edge does."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Multiply all but the last."""
        return super().linear(x[..., :-1].contiguous(), weight[:, :-1].contiguous(), bias)


class WrongSteps(TorchProduct):
    """Wrong for a vector alone."""

    def into(self, weight: Tensor, x: np.ndarray, out: np.ndarray) -> Callable[[], object]:
        """Leave the last map out."""
        return super().into(weight[:-1], x, out[:-1])


class Rounded(TorchProduct):
    """As quick as can be, in half the precision."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Multiply in bfloat16."""
        made = (x.bfloat16() @ weight.bfloat16().T).float()
        return made if bias is None else made + bias


@pytest.mark.parametrize("planted", [Wrong(), WrongSteps(), Rounded()])
def test_a_library_that_is_wrong_is_refused(planted: TorchProduct) -> None:
    choice = finished(measure_steps(Decoder(BASE), {"torch": PRODUCTS["torch"], "numpy": planted}))
    assert choice.refused == ("numpy",)
    assert choice.products == BY_TORCH
    assert "numpy gave wrong numbers here" in str(choice)


@pytest.mark.parametrize(
    "config",
    [
        BASE,
        BASE.changed(query_bias=True, key_bias=True, value_bias=True, mlp_bias=True),
        BASE.changed(activation="relu2"),
        BASE.changed(mlp="plain", activation="gelu"),
        BASE.changed(moe=MoeConfig(experts=4, per_token=2, width=16)),
    ],
    ids=["plain", "biases", "relu2", "two matrices", "mixture"],
)
def test_what_is_right_is_timed(config: ModelConfig) -> None:
    model = Decoder(config)
    choice = finished(measure_steps(model, PRODUCTS))
    assert choice.refused == ()
    assert {(one.rows, one.product) for one in choice.timings} >= {(rows, name) for rows in (1, 8) for name in NAMES}
    assert all(one.seconds > 0 for one in choice.timings)


@pytest.mark.parametrize("times", [float("nan"), float("inf"), 1e38, 1e-40, 0.0])
def test_weights_out_of_reach_make_no_library_wrong(times: float) -> None:
    model = Decoder(BASE)
    for name, weight in model.block(0).named_parameters():
        if name in ("attn.query.weight", "mlp.up.weight"):
            weight.data.mul_(times)
    assert finished(measure_steps(model, PRODUCTS)).refused == ()
    wrong = finished(measure_steps(model, {"torch": PRODUCTS["torch"], "numpy": Wrong()}))
    assert wrong.refused == ("numpy",)


@pytest.mark.parametrize(("asked", "given"), [(None, [3]), ("1", [])])
def test_numpy_gets_as_many_threads_as_torch_where_nobody_said_how_many(
    asked: str | None, given: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if asked is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", asked)
    limits: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(product_choice, "threadpool_limits", lambda limit, user_api: limits.append(limit))
    adopt(Decoder(BASE), "numpy")
    assert limits == given


@pytest.mark.parametrize("name", NAMES)
def test_numbers_that_overflow_do_so_without_a_warning(name: ProductName) -> None:
    """Warnings are errors here."""
    model, ids = Decoder(BASE).pack(), random_ids(40)
    model.products = Products.of(name)
    for weight in model.block(0).parameters():
        weight.data.mul_(1e25)
    made = append(model, capture(model, ids), 5).logits
    assert made is not None
    assert not made.tensor.isfinite().all()


def test_the_quickest_takes_the_place_of_torch_only_where_it_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[float] = []

    class Watch:
        @property
        def seconds(self) -> float:
            return turns.pop(0)

    monkeypatch.setattr(product_choice, "Watch", Watch)
    for times, expected in (((1.0, 0.5, 0.7), "onednn"), ((1.0, 0.97, 0.99), "torch"), ((1.0, 2.0, 0.9), "numpy")):
        turns[:] = times * 4 * 3
        assert finished(measure_steps(Decoder(BASE), PRODUCTS)).products == Products.of(expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("api", "threads", "timeout", "is_asked"),
    [
        ("openblas", 2, None, False),
        ("openblas", 2, "14", True),
        ("openblas", 1, None, True),
        ("accelerate", 8, None, True),
    ],
)
def test_numpy_is_asked_where_its_threads_do_not_spin(
    api: str, threads: int, timeout: str | None, is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    if timeout is not None:
        monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", timeout)
    known = [{"internal_api": api, "num_threads": threads}]
    monkeypatch.setattr(product_choice, "threadpool_info", lambda: known)
    assert ("numpy" in product_choice.candidates()) is is_asked


@pytest.fixture
def auto(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine that measures, with an empty cache."""
    monkeypatch.delenv("ROPEWALK_PRODUCTS")
    monkeypatch.setenv("ROPEWALK_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "products.json"


def test_what_was_measured_is_kept_for_machine_versions_threads_and_widths(
    auto: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = Choice(Products("numpy", "torch", "onednn"), refused=())
    keep(BASE, choice)
    keep(BASE.changed(mlp_width=48), Choice(BY_TORCH))
    assert kept(BASE) == choice
    assert kept(BASE.changed(width=64)) is None
    with monkeypatch.context() as other:
        other.setattr(torch, "__version__", "99.0")
        assert kept(BASE) is None
    with monkeypatch.context() as other:
        other.setattr(torch, "get_num_threads", lambda: 77)
        assert kept(BASE) is None
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert kept(BASE) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"x": 1}', "[" * 100_000])
def test_a_damaged_file_is_measured_anew(auto: Path, text: str) -> None:
    auto.parent.mkdir()
    auto.write_text(text)
    model = Decoder(BASE)
    assert found(model) is None
    finished(find_steps(model))
    assert found(model) is not None
    assert model.products == BY_TORCH  # a run that has begun goes on as it did


def test_an_entry_that_means_nothing_is_measured_anew(auto: Path) -> None:
    keep(BASE, Choice(Products.of("numpy")))
    everything = json.loads(auto.read_text())
    auto.write_text(json.dumps({key: {"products": {"one": "mystery"}} for key in everything}))
    assert kept(BASE) is None


def test_nothing_is_measured_where_there_is_nothing_to_choose(auto: Path) -> None:
    with torch.device("meta"):
        shapes = Decoder(BASE)
    for model in (shapes, Decoder(BASE).to(torch.bfloat16)):
        assert found(model) == BY_TORCH


def test_what_is_asked_for_goes_before_what_was_measured(auto: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(BASE, Choice(Products.of("numpy")))
    model = Decoder(BASE)
    adopt(model)
    assert model.products == Products.of("numpy")
    adopt(model, "onednn")
    assert model.products == Products.of("onednn")
    monkeypatch.setenv("ROPEWALK_PRODUCTS", "torch")
    adopt(model)
    assert model.products == BY_TORCH
    with pytest.raises(CheckpointError, match="no library 'abacus' for products; choose one of auto, torch, onednn, n"):
        adopt(model, "abacus")


def test_a_map_is_a_map_of_torch() -> None:
    made = Linear(4, 3)
    assert torch.allclose(made(torch.ones(2, 4)), torch.nn.functional.linear(torch.ones(2, 4), made.weight, made.bias))


def test_a_prompt_multiplies_as_when_it_was_first_run(auto: Path) -> None:
    """So that a pinned run, the same again after the measurement, and an experiment differ nowhere for nothing."""
    model_handle = finished(engine.open_model(None, "cpu", "float32"))
    model = model_handle.checkpoint.model
    pinned = finished(engine.run(model_handle, Prompt("to be or not"), 1, (0, 0))).trace
    keep(model.config, Choice(Products.of("numpy")))
    again = finished(engine.run(model_handle, Prompt("to be or not"), 2, (0, 0))).trace
    ablated = [AblateHeads(2, (1,))]
    changed = finished(engine.run(model_handle, Prompt("to be or not"), 3, (0, 0), interventions=ablated)).trace
    other = finished(engine.run(model_handle, Prompt("that is the question"), 4, (0, 0))).trace
    assert {one.products for one in (pinned, again, changed)} == {BY_TORCH}
    assert other.products == Products.of("numpy")
    for layer in range(2):
        for one, same in zip(pinned[layer].rows, changed[layer].rows, strict=True):
            assert torch.equal(one.tensor, same.tensor)
