"""Quantised weights that Ropewalk does not undo, recognised by the config or by the stored names, and refused by name.

What a refusal says is what the weights are and what to open instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ropewalk.model.errors import CheckpointError

METHODS: Mapping[str, str] = {
    "gptq": "GPTQ",
    "awq": "AWQ",
    "bitsandbytes": "bitsandbytes",
    "fp8": "float8 with a scale for each block (FP8)",
    "fbgemm_fp8": "float8 with a scale for each row (FBGEMM)",
    "compressed-tensors": "compressed-tensors",
    "hqq": "HQQ",
    "eetq": "EETQ",
    "aqlm": "AQLM",
    "quanto": "Quanto",
    "torchao": "torchao",
    "modelopt": "NVIDIA's ModelOpt",
    "bitnet": "BitNet",
    "mlx": "MLX",
}
"""``quant_method`` → how a person calls it."""

SIGNS: Mapping[str, str] = {
    ".qweight": "gptq",
    ".weight.absmax": "bitsandbytes",
    ".weight.quant_map": "bitsandbytes",
    ".SCB": "bitsandbytes",
    ".weight_scale_inv": "fp8",
    ".weight_packed": "compressed-tensors",
    ".W_q": "hqq",
}
"""How a stored name ends → the method, for folders whose config does not say."""


def refuse_quantised(config: Mapping[str, Any], where: str, stored: frozenset[str] | None) -> None:
    """Refuse quantised weights.

    Parameters
    ----------
    stored
        Patterns of the stored names; None when there are no weights.

    Raises
    ------
    CheckpointError
        With the method and what to open instead.
    """
    method = _method(config)
    if method:
        raise CheckpointError(_sentence(f"{where} says that the weights are", method))
    for pattern in sorted(stored or ()):
        sign = next((sign for sign in SIGNS if pattern.endswith(sign)), None)
        if sign is not None:
            raise CheckpointError(_sentence(f"Stored names such as {pattern} say that the weights are", SIGNS[sign]))


def _method(config: Mapping[str, Any]) -> str:
    """The method that a config names; empty for none."""
    quantised = config.get("quantization_config") or config.get("compression_config")
    if quantised:
        named = quantised.get("quant_method") if isinstance(quantised, dict) else None
        return named if isinstance(named, str) else "an unnamed method"
    mlx = config.get("quantization")
    return "mlx" if isinstance(mlx, dict) and "bits" in mlx else ""


def _sentence(beginning: str, method: str) -> str:
    return (
        f"{beginning} quantised by {METHODS.get(method, method):.60}, which Ropewalk does not undo; open an "
        "unquantised copy of the model, or a GGUF."
    )
