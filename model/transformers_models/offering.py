"""What is said of a checkpoint of no family of ours that transformers can run."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ropewalk.model.errors import CheckpointError, UnknownFamilyError

OFFER = "open it via transformers (--via transformers)"


def with_offer(error: UnknownFamilyError, path: str | None, offer: str = OFFER) -> CheckpointError:
    """What is said of a folder of no family of ours: that transformers can run it, where it can, and how."""
    if path is None or not (Path(path) / "config.json").is_file() or find_spec("transformers") is None:
        return error
    from ropewalk.model.transformers_models.opening import would_open  # here: it takes long to import

    if not would_open(Path(path)):
        return error
    return CheckpointError(f"{error.sentence} Transformers can run it: {offer}.", error.details)
