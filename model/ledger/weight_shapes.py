"""The weights of a layer as the model stores them, for the shape ledger; no run is needed, nor memory for weights."""

from __future__ import annotations

from torch import Tensor, nn

from ropewalk.model.decoder.decoder import Block, Decoder, Mlp, MoeMlp
from ropewalk.model.decoder.norms import Norm
from ropewalk.model.errors import TraceError
from ropewalk.model.ledger.ledger import Measured, Seen


def seen(x: Tensor) -> Seen:
    """A tensor's shape, dtype and device in plain words."""
    return Seen(tuple(x.shape), str(x.dtype).removeprefix("torch."), str(x.device))


def block_of(model: Decoder, layer: int) -> Block:
    """The block of a layer.

    Raises
    ------
    TraceError
        When the model has no such layer.
    """
    blocks = [block for block in model.blocks if isinstance(block, Block)]
    if not 0 <= layer < len(blocks):
        raise TraceError(f"Layer {layer} was asked for, but this model's layers are 0 to {len(blocks) - 1}.")
    return blocks[layer]


def measure_weights(model: Decoder, layer: int) -> Measured:
    """Measure what needs no run: the weights of a layer, the parameter count, whether lm_head is tied.

    Works on the meta device.

    Raises
    ------
    TraceError
        When the model has no such layer.
    """
    block = block_of(model, layer)
    return Measured(
        layer=layer,
        weights=_weights(model, block),
        parameters=sum(weight.numel() for weight in model.parameters()),
        tied=model.head.weight is model.embed.weight,
    )


def _weights(model: Decoder, block: Block) -> dict[str, Seen]:
    attn, mlp = block.attn, block.mlp
    found: dict[str, nn.Module] = {
        "embedding": model.embed,
        "q": attn.query,
        "k": attn.key,
        "v": attn.value,
        "o": attn.output,
        "lm_head": model.head,
        **{key: norm for key, norm in norms_of(model, block).items() if norm.weight is not None},
    }
    stacked: dict[str, Seen] = {}
    if isinstance(mlp, Mlp):
        found |= linears_of(mlp)
    else:
        found["router"] = mlp.router
        stacked = _stacked(mlp)
        if mlp.shared is not None:
            found |= {f"shared_{key}": linear for key, linear in linears_of(mlp.shared).items()}
        if mlp.shared_gate is not None:
            found["shared_scale"] = mlp.shared_gate
    return {key: seen(module.get_parameter("weight")) for key, module in found.items()} | stacked


def _stacked(mlp: MoeMlp) -> dict[str, Seen]:
    """The matrices of all experts as one; where one is unlike the others, its shape stands for all."""
    weights: dict[str, Seen] = {}
    for key in ("gate", "up", "down"):
        shapes = [seen(linears[key].weight) for linears in map(linears_of, experts_of(mlp)) if key in linears]
        if shapes:
            odd = next((shape for shape in shapes if shape != shapes[0]), shapes[0])
            weights[key] = Seen((len(shapes), *odd.shape), odd.dtype, odd.device)
    return weights


def norms_of(model: Decoder, block: Block) -> dict[str, Norm]:
    """Row key → norm, of those that the stream is read through."""
    places = {
        "attn_norm": block.attn_norm,
        "attn_post_norm": block.attn_post_norm,
        "mlp_norm": block.mlp_norm,
        "mlp_post_norm": block.mlp_post_norm,
        "final_norm": model.norm,
    }
    return {key: norm for key, norm in places.items() if isinstance(norm, Norm)}


def linears_of(mlp: Mlp) -> dict[str, nn.Linear]:
    """Row key → matrix."""
    found = {"gate": mlp.gate, "up": mlp.up, "down": mlp.down}
    return {key: linear for key, linear in found.items() if linear is not None}


def experts_of(mlp: MoeMlp) -> list[Mlp]:
    """The experts of a mixture."""
    return [expert for expert in mlp.experts if isinstance(expert, Mlp)]
