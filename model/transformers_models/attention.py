"""What transformers' attention layers call while a run is captured: a function of ours that hands on and takes notes.

Transformers keeps attention functions, and what makes their masks, by name (``AttentionInterface``,
``AttentionMaskInterface``); a model's configs say which name it calls. Ours stand under names of their own. Each hands
what it is given to the function that the model would have called, so that what it computes stays its own, and shows the
call to whoever listens on this thread. Where nobody does, it only hands on.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ropewalk.model.errors import TraceError

EAGER = "eager_attention_forward"
"""How every architecture names the function that it calls without an implementation chosen, or ends its name."""


class Implementation(str):
    """A name of ours that is taken for the one in whose place it stands, where a model asks which it is."""

    __slots__ = ("original",)
    original: str

    def __new__(cls, original: str) -> Implementation:
        """The name for what stands in the place of ``original``."""
        name = super().__new__(cls, f"ropewalk_{original}")
        name.original = original
        return name

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) or self.original == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __reduce__(self) -> tuple[type[Implementation], tuple[str]]:
        return Implementation, (self.original,)


EAGER_NAME, SDPA_NAME = Implementation("eager"), Implementation("sdpa")


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """What a layer handed to attention: Q', K' and V as they were used, and everything that changes a score.

    Attributes
    ----------
    module
        The layer's attention.
    query, key, value
        [B, H, T, Dh], [B, Hkv, n, Dh] and [B, Hkv, n, Dv]; n keys, which may be the last of S only.
    scale, cap, window, sinks
        What q·k is multiplied by; the soft cap, the sliding window and the sink logits [H], None where there are none.
    causal
        Whether later keys are hidden where no mask says so.
    mask
        Broadcasts to [B, H, T, n]: booleans, or numbers that are added to the scores; None where all is said.
    bias
        The same, added besides (T5's distances).
    output
        [B, T, H, Dv] what the model's own function made of it.
    """

    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    scale: float
    cap: float | None
    window: int | None
    sinks: Tensor | None
    causal: bool
    mask: Tensor | None
    bias: Tensor | None
    output: Tensor


Listener = Callable[[AttentionCall], Tensor]
"""Hears of a call; returns the output that the model goes on with."""


class _Listening(threading.local):
    """Who listens on this thread."""

    listener: Listener | None = None


_listening = _Listening()
_switching = threading.RLock()


@contextmanager
def listening(model: nn.Module, listener: Listener) -> Iterator[None]:
    """Have a model call our functions meanwhile; its configs are put back as they were, whatever happens.

    Only one thread at a time has models switched: configs are shared by whoever shares a model.
    """
    with _switching:
        before = [(config, config._attn_implementation_internal) for config in _configs(model)]
        listens_before, _listening.listener = _listening.listener, listener
        try:
            for config, name in before:
                config._attn_implementation_internal = EAGER_NAME if name in (None, "eager") else SDPA_NAME
            yield
        finally:
            _listening.listener = listens_before
            for config, name in before:
                config._attn_implementation_internal = name


def _configs(model: nn.Module) -> list[PreTrainedConfig]:
    """Every config that a module of the model reads its implementation from, and those inside it, once each."""
    found: dict[int, PreTrainedConfig] = {}
    waiting = [getattr(module, "config", None) for module in model.modules()]
    while waiting:
        config = waiting.pop()
        if isinstance(config, PreTrainedConfig) and id(config) not in found:
            found[id(config)] = config
            waiting += [getattr(config, name, None) for name in config.sub_configs]
    return list(found.values())


# ----------------------------------------------------------------------------------------------------------------------
# The functions


def _eager(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, Any]:
    """Stand in the place of the architecture's own eager function."""
    own = _own_eager(type(module))
    return _heard(own, module, query, key, value, attention_mask, options)


def _sdpa(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, Any]:
    """Stand in the place of PyTorch's attention, and of kernels that are as exact but have masks of their own."""
    needs_eager = options.get("softcap") is not None or _sinks(module, options) is not None
    own = _own_eager(type(module)) if needs_eager else ALL_ATTENTION_FUNCTIONS["sdpa"]
    mask = _additive(module, query, key, attention_mask, options) if needs_eager else attention_mask
    return _heard(own, module, query, key, value, mask, options)


def _heard(
    own: Callable[..., tuple[Tensor, Any]],
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    options: dict[str, Any],
) -> tuple[Tensor, Any]:
    output, weights = own(module, query, key, value, mask, **options)
    listener = _listening.listener
    if listener is None:
        return output, weights
    scale, window = options.get("scaling"), options.get("sliding_window")
    call = AttentionCall(
        module=module,
        query=query,
        key=key,
        value=value,
        scale=query.shape[-1] ** -0.5 if scale is None else float(scale),
        cap=options.get("softcap"),
        window=window if isinstance(window, int) and window > 0 else None,
        sinks=_sinks(module, options),
        causal=_is_causal(module, options),
        mask=mask,
        bias=options.get("position_bias"),
        output=output,
    )
    return listener(call), weights


def _sinks(module: nn.Module, options: dict[str, Any]) -> Tensor | None:
    found = options.get("s_aux", options.get("sinks"))
    return found if found is not None else getattr(module, "sinks", None)


def _is_causal(module: nn.Module, options: dict[str, Any]) -> bool:
    given = options.get("is_causal")
    return bool(getattr(module, "is_causal", True) if given is None else given)


def _additive(
    module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, options: dict[str, Any]
) -> Tensor | None:
    """A mask as eager functions take it: numbers to add, causality among them."""
    if mask is None and query.shape[2] > 1 and _is_causal(module, options):
        mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()[None, None]
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, torch.finfo(query.dtype).min)


def _own_eager(kind: type[nn.Module]) -> Callable[..., tuple[Tensor, Any]]:
    """The eager function that an attention class calls: the one that its methods name, or the one of its file."""
    for cls in kind.__mro__:
        for method in vars(cls).values():
            if not inspect.isfunction(method):
                continue
            plain = inspect.unwrap(method)
            named = [name for name in plain.__code__.co_names if name.endswith(EAGER)]
            if named:
                found: Callable[..., tuple[Tensor, Any]] = plain.__globals__[named[0]]
                return found
    raise TraceError(
        f"{kind.__name__} names no eager attention function, so its attention cannot be handed on; load the model with "
        "attn_implementation='sdpa'."
    )


ALL_ATTENTION_FUNCTIONS.register(EAGER_NAME, _eager)
ALL_ATTENTION_FUNCTIONS.register(SDPA_NAME, _sdpa)
ALL_MASK_ATTENTION_FUNCTIONS.register(EAGER_NAME, ALL_MASK_ATTENTION_FUNCTIONS["eager"])
ALL_MASK_ATTENTION_FUNCTIONS.register(SDPA_NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
