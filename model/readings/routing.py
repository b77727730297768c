"""Reading a mixture of experts: where each token of a run was sent. Reads by running the prompt's rows once more."""

from __future__ import annotations

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import capture as recording
from ropewalk.model.decoder.intervention_contexts import changed_block, turned
from ropewalk.model.decoder.products import multiplying
from ropewalk.model.errors import TraceError
from ropewalk.model.readings.records import Routing
from ropewalk.model.runs.trace import Trace


def read_routing(model: Decoder, trace: Trace, layer: int, *, batch: int = 0) -> Routing | None:
    """Router probabilities and chosen experts of every row of a layer, None where its MLP is dense.

    Raises
    ------
    TraceError
        When the run was given vectors.
    """
    if not model.config.is_moe(layer):
        return None
    if trace.ids is None:
        raise TraceError("This run was given vectors, not tokens, so its rows cannot be run again.")
    with multiplying(trace.products), turned(model, trace.interventions):
        x, call = model.begin(
            trace.ids[batch : batch + 1],
            positions=trace.positions[batch : batch + 1],
            padding=None if trace.padding is None else trace.padding[batch : batch + 1],
            branch=trace.branch,
            rotary_length=trace.rotary_length(trace.length - 1),
        )
    points = ("mlp.hook_router_logits", "mlp.hook_expert_index")
    for below in range(layer):
        with multiplying(trace.products), changed_block(model.block(below), below, trace.interventions):
            x = model.block(below)(x, call)
    block = model.block(layer)
    with (
        multiplying(trace.products),
        changed_block(block, layer, trace.interventions),
        recording(block, points) as record,
    ):
        block(x, call)
    probabilities = record[points[0]].double().softmax(-1).cpu().numpy()  # [S, E]
    return Routing(layer, probabilities, record[points[1]].cpu().numpy())
