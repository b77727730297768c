"""What an engine process serves: the engine's requests, and those about files, lessons and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ropewalk.app.files import serving as files
from ropewalk.app.lessons import serving as lessons
from ropewalk.app.models import serving as models
from ropewalk.model.engine import serving
from ropewalk.model.engine.serving import Serve

SERVED: Final[Mapping[type[Any], Serve]] = {**serving.SERVED, **files.SERVED, **lessons.SERVED, **models.SERVED}
"""What serves each request."""
