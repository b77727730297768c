"""Checkpoints: ``open_checkpoint(path)``, one file per container format, and the table of families."""

from ropewalk.model.checkpoints.opening import (
    Checkpoint,
    Outline,
    available_devices,
    device_name,
    device_of,
    dtype_of,
    open_checkpoint,
    open_steps,
    outline_checkpoint,
)
from ropewalk.model.checkpoints.source import Question

__all__ = [
    "Checkpoint",
    "Outline",
    "Question",
    "available_devices",
    "device_name",
    "device_of",
    "dtype_of",
    "open_checkpoint",
    "open_steps",
    "outline_checkpoint",
]
