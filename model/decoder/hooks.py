"""Named hook points: where a forward pass can be watched or changed, and the context managers that do it.

A hook point is an identity module whose path in the model is its name, such as ``blocks.3.attn.hook_q``. Watching and
changing go through PyTorch's forward hooks; whatever happens inside a ``with`` block, nothing is left attached after
it. Watches run after changes, so they see what was used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from typing import Any

from torch import Tensor, nn

from ropewalk.model.errors import HookError

Change = Callable[[Tensor], Tensor]
Watch = Callable[[Tensor], None]


class HookPoint(nn.Module):
    """An identity with a name.

    Parameters
    ----------
    read_only
        Whether interventions are refused: the value is only shown, nothing later reads it.
    """

    def __init__(self, read_only: bool = False) -> None:
        super().__init__()
        self.read_only = read_only

    def __call__(self, x: Tensor) -> Tensor:
        """Return ``x``, or what hooks make of it; unwatched, a point costs next to nothing."""
        if not self._forward_hooks:
            return x
        seen: Tensor = super().__call__(x)
        return seen

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x``."""
        return x

    @property
    def is_watched(self) -> bool:
        """Whether any hook is attached."""
        return bool(self._forward_hooks)


def hook_points(model: nn.Module) -> dict[str, HookPoint]:
    """Every hook point of a model by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, HookPoint)}


def _point(points: Mapping[str, HookPoint], name: str) -> HookPoint:
    if name not in points:
        near = get_close_matches(name, points, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise HookError(f"There is no hook point named {name!r} in this model.{hint}")
    return points[name]


@contextmanager
def watching(model: nn.Module, watches: Mapping[str, Watch]) -> Iterator[None]:
    """Call a function with the tensor that passes each named point.

    Raises
    ------
    HookError
        When a name is unknown; nothing is attached then.
    """
    points = hook_points(model)
    chosen = [(_point(points, name), watch) for name, watch in watches.items()]
    with ExitStack() as stack:
        for point, watch in chosen:
            stack.callback(point.register_forward_hook(_watcher(watch)).remove)
        yield


@contextmanager
def intervening(model: nn.Module, changes: Mapping[str, Change]) -> Iterator[None]:
    """Replace the tensor that passes each named point by what a function returns.

    Changes run before every watch, whichever was attached first; of two nested changes the inner one runs first.

    Raises
    ------
    HookError
        When a name is unknown or its point is read-only, or when a change returns another shape.
    """
    points = hook_points(model)
    chosen = [(name, _point(points, name), change) for name, change in changes.items()]
    for name, point, _ in chosen:
        if point.read_only:
            raise HookError(f"{name!r} can be read but not changed: nothing after it uses the value.")
    with ExitStack() as stack:
        for name, point, change in chosen:
            stack.callback(point.register_forward_hook(_changer(name, change), prepend=True).remove)
        yield


@contextmanager
def capture(model: nn.Module, names: Iterable[str]) -> Iterator[dict[str, Tensor]]:
    """Record the tensors that pass the named points during the ``with`` block.

    Yields
    ------
    dict
        Name → the tensor as it was used (detached, not copied); filled while the model runs.
    """
    record: dict[str, Tensor] = {}

    def keeper(name: str) -> Watch:
        def keep(x: Tensor) -> None:
            record[name] = x.detach()

        return keep

    with watching(model, {name: keeper(name) for name in names}):
        yield record


def _watcher(watch: Watch) -> Callable[[nn.Module, Any, Tensor], None]:
    def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
        watch(output)

    return hook


def _changer(name: str, change: Change) -> Callable[[nn.Module, Any, Tensor], Tensor]:
    def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        changed = change(output)
        if changed.shape != output.shape:
            raise HookError(
                f"The change at {name!r} returned shape {tuple(changed.shape)}, but {tuple(output.shape)} passed there."
            )
        return changed

    return hook
