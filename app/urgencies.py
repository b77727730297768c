"""How urgent each question of a panel is: one entry for each kind.

What is under the pointer comes first, what fills a whole page last. What a question means is not known here.
"""

from __future__ import annotations

from app.jobs import Urgency
from app.questions import (
    AskArithmetic,
    AskAtlas,
    AskAttribution,
    AskBranchProof,
    AskCache,
    AskCell,
    AskHead,
    AskHeadDifference,
    AskLedger,
    AskMean,
    AskNeeds,
    AskNextToken,
    AskNextTokenDifference,
    AskPlanes,
    AskProof,
    AskRandomLayers,
    AskRefined,
    AskRouting,
    AskRow,
    AskRules,
    Question,
)

URGENCIES: dict[type[Question], Urgency] = {
    AskRow: Urgency.POINTER,
    AskCell: Urgency.POINTER,
    AskPlanes: Urgency.POINTER,
    AskHead: Urgency.PICTURE,
    AskNextToken: Urgency.COARSE,
    AskCache: Urgency.COARSE,
    AskArithmetic: Urgency.COARSE,
    AskAttribution: Urgency.COARSE,
    AskRules: Urgency.COARSE,
    AskHeadDifference: Urgency.COARSE,
    AskNextTokenDifference: Urgency.COARSE,
    AskMean: Urgency.COARSE,
    AskRandomLayers: Urgency.COARSE,
    AskProof: Urgency.REFINEMENT,
    AskBranchProof: Urgency.REFINEMENT,
    AskLedger: Urgency.REFINEMENT,  # it measures a whole layer, and must not keep a head from being shown
    AskRefined: Urgency.REFINEMENT,
    AskRouting: Urgency.REFINEMENT,
    AskAtlas: Urgency.THUMBNAILS,
    AskNeeds: Urgency.THUMBNAILS,
}
