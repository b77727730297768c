"""The types of what is asked of the engine and given back."""

from __future__ import annotations

from typing import Final

from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.engine.interface import CheckpointOutline
from ropewalk.model.engine.questions import QUESTIONS
from ropewalk.model.engine.requests import (
    AnswerQuestion,
    Attach,
    Attached,
    CompareSurveys,
    CountTokens,
    Decode,
    Failure,
    FetchTrace,
    Fingerprint,
    Greeting,
    GrownRun,
    ListStatistics,
    MadeRun,
    MadeTrace,
    MeasureProducts,
    OpenedModel,
    OpenedSurveyFolder,
    OpenModel,
    OpenSurvey,
    OpenToy,
    OpenTrace,
    OutlineCheckpoint,
    PutToken,
    ReadNumbers,
    ReadSeries,
    ReadSurveyHead,
    RunPrompt,
    RunSurvey,
    Tidy,
)
from ropewalk.model.ledger.ledger import ShapeLedger
from ropewalk.model.progress import Progress
from ropewalk.model.readings import records
from ropewalk.model.survey.records import SeriesOverview, SurveyDifference, SurveyedStatistic, SurveyHead

PASSING: Final = (
    *(OpenModel, OpenToy, OutlineCheckpoint, RunPrompt, Decode, PutToken, AnswerQuestion, ReadNumbers, FetchTrace),
    *(OpenTrace, Attach, CountTokens, MeasureProducts, Tidy, *QUESTIONS),
    *(Greeting, Failure, Progress, OpenedModel, CheckpointOutline, MadeRun, GrownRun, records.HeadNumbers),
    *(records.HeadPicture, records.HeadPatch, records.HeadAtlas, records.AtlasPart, records.RowReading),
    *(records.RepeatScores, records.StrongWeights, records.ScoreChanges, records.BoardReading),
    *(records.CellReading, records.PlaneReading, records.CacheReading, records.NextTokenReading),
    *(tuple[ShapeLedger, ShapeLedger | None], records.ConsistencyCheck, records.Arithmetic, records.HeadNeeds),
    *(records.DirectAttribution, tuple[records.RopeRule, ...], Intervention, records.Routing),
    *(records.WalkReading, MadeTrace, Attached),
    *(records.LogitLens,),
    *(records.HeadDifference, records.NextTokenDifference, tuple[records.RandomLayer, ...], bytes, int, None),
    records.TrainingHistory,
    *(OpenSurvey, OpenedSurveyFolder, ReadSurveyHead, SurveyHead, CompareSurveys, SurveyDifference, ReadSeries),
    *(SeriesOverview, ListStatistics, tuple[SurveyedStatistic, ...], RunSurvey, Fingerprint),
)
"""The types of what is asked and given back."""
