"""Checkpoints: ``open_checkpoint(path)``, one file per container format, and the table of families."""

from model.checkpoints.opening import Checkpoint, available_devices, device_of, dtype_of, open_checkpoint

__all__ = ["Checkpoint", "available_devices", "device_of", "dtype_of", "open_checkpoint"]
