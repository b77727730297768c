"""What may be asked of the engine, and the type of what comes back for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.engine import questions, requests
from ropewalk.model.engine.interface import CheckpointOutline
from ropewalk.model.ledger.ledger import ShapeLedger
from ropewalk.model.readings import records
from ropewalk.model.survey import records as surveys

REPLIES: Final[Mapping[type[Any], Any]] = {
    requests.OpenModel: requests.OpenedModel,
    requests.OpenToy: requests.OpenedModel,
    requests.OutlineCheckpoint: CheckpointOutline,
    requests.RunPrompt: requests.MadeRun,
    requests.OpenTrace: requests.MadeTrace,
    requests.Attach: requests.Attached,
    requests.Decode: requests.GrownRun,
    requests.PutToken: requests.GrownRun,
    requests.ReadNumbers: records.HeadNumbers,
    requests.FetchTrace: int,
    requests.CountTokens: int,
    requests.Fingerprint: str,
    requests.MeasureProducts: str,
    requests.Tidy: None,
    requests.OpenSurvey: requests.OpenedSurveyFolder,
    requests.ReadSurveyHead: surveys.SurveyHead,
    requests.CompareSurveys: surveys.SurveyDifference,
    requests.ReadSeries: surveys.SeriesOverview,
    requests.ListStatistics: tuple[surveys.SurveyedStatistic, ...],
    requests.RunSurvey: int,
    questions.AskHead: records.HeadPicture,
    questions.AskRefined: records.HeadPicture,
    questions.AskStrongWeights: records.StrongWeights,
    questions.AskAtlas: records.HeadAtlas,
    questions.AskRepeats: records.RepeatScores,
    questions.AskScoreChanges: records.ScoreChanges | None,
    questions.AskBoard: records.BoardReading,
    questions.AskRefinedBoard: records.BoardReading,
    questions.AskRow: records.RowReading,
    questions.AskCell: records.CellReading,
    questions.AskPlanes: records.PlaneReading,
    questions.AskCache: records.CacheReading,
    questions.AskNextToken: records.NextTokenReading,
    questions.AskNextTokenUnder: records.NextTokenReading,
    questions.AskLedger: tuple[ShapeLedger, ShapeLedger | None],
    questions.AskCachedCheck: records.ConsistencyCheck,
    questions.AskBranchCheck: records.ConsistencyCheck,
    questions.AskArithmetic: records.Arithmetic,
    questions.AskWalk: records.WalkReading,
    questions.AskNeeds: records.HeadNeeds,
    questions.AskAttribution: records.DirectAttribution,
    questions.AskRules: tuple[records.RopeRule, ...],
    questions.AskRouting: records.Routing | None,
    questions.AskLens: records.LogitLens,
    questions.AskHeadDifference: records.HeadDifference | None,
    questions.AskNextTokenDifference: records.NextTokenDifference | None,
    questions.AskMean: Intervention,
    questions.AskRandomLayers: tuple[records.RandomLayer, ...],
    questions.AskTraining: records.TrainingHistory | None,
}
"""The result of every request, and of every question where the request is ``AnswerQuestion``."""

PARTS: Final[Mapping[type[Any], Any]] = {
    requests.FetchTrace: bytes,
    questions.AskRefined: records.HeadPatch,
    questions.AskAtlas: records.AtlasPart,
    questions.AskLens: records.LogitLens,
}
"""What comes in parts before that."""
