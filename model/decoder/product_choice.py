"""Which library multiplies quickest on this machine: each is checked against torch, then timed on a model's weights.

Some BLAS kernels are wrong on some processors, so that one is asked first whether it is right: no result may be further
from torch's than 2·√K·ε·Σ|x·w|, twice what K roundings in any order are expected to add up to. Then those that are
right take turns, with work of torch's own in between, since a second pool of threads costs whoever wakes it. What came
out is kept for the processor, the versions, the threads and the widths it was measured with.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, get_args
from weakref import WeakKeyDictionary

import numpy as np
import torch
from platformdirs import user_cache_dir
from threadpoolctl import threadpool_info, threadpool_limits
from torch import Tensor

from ropewalk.model.codec import CodecError, from_plain, stored, to_plain
from ropewalk.model.decoder.activations import ACTIVATIONS
from ropewalk.model.decoder.config import Activation, ModelConfig
from ropewalk.model.decoder.costs import layer_parameters
from ropewalk.model.decoder.decoder import Decoder, Mlp
from ropewalk.model.decoder.product_names import BY_TORCH, ProductName, Products
from ropewalk.model.decoder.products import MANY_ROWS, PRODUCTS, Map, Product
from ropewalk.model.errors import CheckpointError
from ropewalk.model.file_lock import locked
from ropewalk.model.options import AUTO, CHOICES
from ropewalk.model.progress import Progress, Steps, Watch
from ropewalk.model.whole_file import whole_file

VARIABLE: Final = "ROPEWALK_PRODUCTS"
SETTINGS: Final = (
    "OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", "OPENBLAS_THREAD_TIMEOUT", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT",
    "ONEDNN_MAX_CPU_ISA"
)  # fmt: skip
"""Variables of the environment that change what is quickest."""
FEW_ROWS, MOST_ROWS = 8, 512
FLOPS = 4e9
"""Of a turn with many rows: a few hundredths of a second on a small machine."""
READ_BYTES = 1 << 26
"""Of weights that a turn with few rows reads, so that they come from memory as in a decode step."""
CHECKED = 1 << 22
"""Numbers of a matrix that are checked."""
TURNS = 3
WORTH = 0.95
"""Of torch's time another library has to stay below to take its place."""
ROUNDING = float(np.finfo(np.float32).eps)
SMALLEST = float(np.finfo(np.float32).tiny)
"""What is less may be taken for 0."""
STEEPEST = 1.2
"""No activation rises faster: |act(a) − act(b)| ≤ STEEPEST·|a − b|."""


@stored("rows product seconds")
@dataclass(frozen=True)
class Timing:
    """How long one library took for a model's products of so many rows, at best."""

    rows: int
    product: ProductName
    seconds: float


@stored("products timings refused")
@dataclass(frozen=True)
class Choice:
    """What was found on a machine.

    Attributes
    ----------
    refused
        Libraries whose results were wrong.
    """

    products: Products
    timings: tuple[Timing, ...] = ()
    refused: tuple[ProductName, ...] = ()

    def __str__(self) -> str:
        wrong = f"; {' and '.join(self.refused)} gave wrong numbers here" if self.refused else ""
        return f"{self.products}{wrong}"


# ----------------------------------------------------------------------------------------------------------------------
# Keeping


def wanted(asked: object = None) -> str:
    """What was asked for: ``auto`` or a library, by an option or ``ROPEWALK_PRODUCTS``.

    Raises
    ------
    CheckpointError
        For a name that is none.
    """
    name = str(asked or os.environ.get(VARIABLE) or AUTO)
    if name not in CHOICES:
        raise CheckpointError(f"There is no library {name!r:.40} for products; choose one of {', '.join(CHOICES)}.")
    return name


def found(model: Decoder, asked: object = None) -> Products | None:
    """What a model is to multiply by: as is asked for, or as was measured on this machine; None before it was."""
    name = wanted(asked)
    if name != AUTO:
        return Products.of(next(one for one in get_args(ProductName) if one == name))
    if not is_measurable(model):
        return BY_TORCH
    choice = kept(model.config)
    return None if choice is None else choice.products


def adopt(model: Decoder, asked: object = None) -> None:
    """Let the runs of a model that begin from now on multiply by what was :func:`found`."""
    products = found(model, asked)
    if products is not None:
        model.products = products
        _share_threads(products)


def keep_for(model: Decoder, ids: Sequence[int], products: Products) -> Products:
    """What a prompt was first run by with a model; what is given, where it was not run yet.

    So a run, the same once more and its experiments can be compared: where nothing was changed, nothing differs.
    """
    return _FIRST.setdefault(model, {}).setdefault(hash(tuple(ids)), products)


_FIRST: WeakKeyDictionary[Decoder, dict[int, Products]] = WeakKeyDictionary()


def find_steps(model: Decoder, asked: object = None) -> Steps[None]:
    """Measure and keep what multiplies quickest, where that was not done yet; no run is changed by it."""
    if found(model, asked) is None:
        keep(model.config, (yield from measure_steps(model)))


def settle_steps(model: Decoder, asked: object = None) -> Steps[None]:
    """Measure where that was not done yet, and adopt."""
    yield from find_steps(model, asked)
    adopt(model, asked)


def is_measurable(model: Decoder) -> bool:
    """Whether there is anything to choose: weights in float32 on the CPU."""
    weight = model.embed.weight
    return weight.dtype == torch.float32 and weight.device.type == "cpu"


def kept(config: ModelConfig) -> Choice | None:
    """What was measured on this machine with these widths before, None where nothing was or is no longer true."""
    found = _read().get(_key(config))
    with suppress(CodecError):
        return None if found is None else from_plain(Choice, found)
    return None


def keep(config: ModelConfig, choice: Choice) -> None:
    """Keep what was measured; where nothing can be written it is measured anew next time."""
    path = _path()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path):
            everything = _read() | {_key(config): to_plain(choice)}
            with whole_file(path) as place:
                place.write_text(json.dumps(everything, indent=1), encoding="utf-8")


def _path() -> Path:
    folder = os.environ.get("ROPEWALK_CACHE_DIR") or user_cache_dir("ropewalk", appauthor=False)
    return Path(folder) / "products.json"


def _read() -> dict[str, object]:
    try:
        found = json.loads(_path().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _key(config: ModelConfig) -> str:
    """All that a measurement depends on."""
    c = config
    machine = (_processor(), os.cpu_count(), torch.get_num_threads(), torch.__version__, np.__version__)
    widths = (c.width, c.heads * c.head_width, c.kv_heads * c.head_width, c.mlp_width, c.mlp, c.activation)
    return json.dumps([*machine, [os.environ.get(name) for name in SETTINGS], *widths])


@cache
def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _share_threads(products: Products) -> None:
    """Give numpy's BLAS as many threads as torch has, where nobody said how many: it would take every core."""
    if "numpy" in (products.one, products.few, products.many) and "OPENBLAS_NUM_THREADS" not in os.environ:
        threadpool_limits(torch.get_num_threads(), user_api="blas")


# ----------------------------------------------------------------------------------------------------------------------
# Measuring


@dataclass(frozen=True, eq=False)
class _Maps:
    """Maps of a model's first layers: plain ones, and those of gated MLPs."""

    activation: Activation
    plain: list[Map] = field(default_factory=list)
    gated: list[tuple[Map, Map]] = field(default_factory=list)

    @classmethod
    def of(cls, model: Decoder, layers: int) -> _Maps:
        """Those of so many layers."""
        found = cls(model.config.activation)
        for layer in range(layers):
            block = model.block(layer)
            attn, mlp = block.attn, block.mlp
            linears = [attn.query, attn.key, attn.value, attn.output]
            if isinstance(mlp, Mlp):
                linears.append(mlp.down)
                if mlp.gate is not None and mlp.has_plain_gate:
                    found.gated.append(((mlp.gate.weight, mlp.gate.bias), (mlp.up.weight, mlp.up.bias)))
                else:
                    linears += [mlp.up] if mlp.gate is None else [mlp.gate, mlp.up]
            found.plain.extend((one.weight, one.bias) for one in linears)
        return found

    def made(self, product: Product, rows: int) -> Iterator[Tensor]:
        """What each makes of random rows."""
        inputs: dict[int, Tensor] = {}
        for weight, bias in self.plain:
            yield product.linear(_rows(inputs, rows, weight), weight, bias)
        for gate, up in self.gated:
            yield product.gated(_rows(inputs, rows, gate[0]), gate, up, self.activation)

    def take(self, product: Product, rows: int) -> None:
        """Make all of it, with a little of torch's own work after each product."""
        for made in self.made(product, rows):
            made.mul_(0.5)


def _rows(inputs: dict[int, Tensor], rows: int, weight: Tensor) -> Tensor:
    width = weight.shape[1]
    if width not in inputs:
        inputs[width] = torch.randn(rows, width, generator=torch.Generator().manual_seed(width))
    return inputs[width]


def candidates() -> dict[ProductName, Product]:
    """Who may be asked: numpy only where its threads sleep when they have nothing to do (``app.waiting``).

    Those of OpenBLAS spin for a tenth of a second otherwise, and on a busy machine every product waits for them.
    """
    blas = [one for one in threadpool_info() if one.get("internal_api") == "openblas" and one["num_threads"] > 1]
    spins = bool(blas) and "OPENBLAS_THREAD_TIMEOUT" not in os.environ
    return {name: one for name, one in PRODUCTS.items() if name != "numpy" or not spins}


def measure_steps(model: Decoder, asked: Mapping[ProductName, Product] | None = None) -> Steps[Choice]:
    """Check and time every library on a model's own weights, pausing often."""
    many = int(min(max(FLOPS / (2 * layer_parameters(model.config, 0).total), MANY_ROWS), MOST_ROWS))
    _share_threads(Products.of("numpy"))
    asked = candidates() if asked is None else asked
    first, several = _Maps.of(model, 1), _Maps.of(model, _layers_read(model.config))
    refused: list[ProductName] = []
    right: dict[ProductName, Product] = {"torch": asked["torch"]}
    for name, product in asked.items():
        yield Progress(0, 1, "Measuring what multiplies quickest here")
        if name == "torch":
            continue
        with torch.no_grad():
            if all(is_right(product, first, rows) for rows in (1, FEW_ROWS, many)):
                right[name] = product
            else:
                refused.append(name)
    timings: list[Timing] = []
    for rows, maps in ((1, several), (FEW_ROWS, several), (many, first)):
        best = dict.fromkeys(right, np.inf)
        for _ in range(TURNS + 1):  # the first turn fills caches
            for name, product in right.items():
                yield Progress(0, 1, "Measuring what multiplies quickest here")
                with torch.no_grad():
                    watch = Watch()
                    maps.take(product, rows)
                    best[name] = min(best[name], watch.seconds)
        timings += [Timing(rows, name, seconds) for name, seconds in best.items()]
    quickest = [_quickest(timings, rows) for rows in (1, FEW_ROWS, many)]
    return Choice(Products(*quickest), tuple(timings), tuple(refused))


def _layers_read(config: ModelConfig) -> int:
    """Layers whose weights are ``READ_BYTES``, or all that there are."""
    return max(1, min(config.layers, READ_BYTES // (4 * layer_parameters(config, 0).total)))


def _quickest(timings: list[Timing], rows: int) -> ProductName:
    found = {one.product: one.seconds for one in timings if one.rows == rows}
    name = min(found, key=found.__getitem__)
    return name if found[name] < WORTH * found["torch"] else "torch"


def is_right(product: Product, maps: _Maps, rows: int) -> bool:
    """Whether a library gives what torch gives, of so many rows."""
    inputs: dict[int, Tensor] = {}
    plain = map(_some, maps.plain)
    gated = ((_some(gate), _some(up)) for gate, up in maps.gated)
    return all(_linear_is_right(product, _rows(inputs, rows, one[0]), one) for one in plain) and all(
        _gated_is_right(product, _rows(inputs, rows, gate[0]), gate, up, maps.activation) for gate, up in gated
    )


def _some(one: Map) -> Map:
    """The first maps of a large matrix, so that checking it takes no memory to speak of; 0 for what is no number."""
    weight, bias = one
    count = max(CHECKED // weight.shape[1], MANY_ROWS)
    weight = weight[:count] if bool(weight[:count].isfinite().all()) else weight[:count].nan_to_num(0.0, 0.0, 0.0)
    return weight, None if bias is None else bias[:count].nan_to_num(0.0, 0.0, 0.0)


def _linear_is_right(product: Product, x: Tensor, one: Map) -> bool:
    expected, allowed = _expected(x, one)
    found = [(product.linear(x, *one), expected, allowed)]
    if len(x) == 1:
        out = np.empty(len(one[0]), np.float32)
        product.into(one[0], x[0].numpy(), out)()
        bias = torch.zeros(()) if one[1] is None else one[1]
        found.append((torch.from_numpy(out)[None] + bias, expected, allowed))
    return all(_within(*one) for one in found)


def _gated_is_right(product: Product, x: Tensor, gate: Map, up: Map, activation: Activation) -> bool:
    (bent, of_gate), (risen, of_up) = _expected(x, gate), _expected(x, up)
    acted = ACTIVATIONS[activation](bent)
    steep = 2 * (bent.abs() + of_gate) if activation == "relu2" else STEEPEST
    slope = steep * of_gate
    allowed = slope * risen.abs() + (acted.abs() + slope) * of_up + 8 * ROUNDING * (acted * risen).abs()
    return _within(product.gated(x, gate, up, activation), acted * risen, allowed)


def _expected(x: Tensor, one: Map) -> tuple[Tensor, Tensor]:
    """What torch makes of rows, and how far from it another order of adding may be."""
    weight, bias = one
    expected = PRODUCTS["torch"].linear(x, weight, bias)
    size = PRODUCTS["torch"].linear(x.abs(), weight.abs(), None if bias is None else bias.abs())
    return expected, 2 * ROUNDING * weight.shape[1] ** 0.5 * size + weight.shape[1] * SMALLEST


def _within(made: Tensor, true: Tensor, allowed: Tensor) -> bool:
    """Whether results are as near as allowed; where a model's own numbers overflow, nothing can be told."""
    return bool(((made - true).abs() <= allowed).logical_or_(~allowed.isfinite()).all())
