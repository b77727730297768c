"""What serves requests about checkpoints that are not open yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ropewalk.app.models.downloads import download_steps
from ropewalk.app.models.folders import folder_steps
from ropewalk.app.models.local_models import cache_folder, local_models_steps
from ropewalk.app.models.requests import DownloadModel, ListFolder, ListModels
from ropewalk.model.engine.serving import Serve

SERVED: Mapping[type[Any], Serve] = {
    ListModels: lambda handles, asked: local_models_steps(cache_folder()),
    DownloadModel: lambda handles, asked: download_steps(asked.name),
    ListFolder: lambda handles, asked: folder_steps(asked.path),
}
