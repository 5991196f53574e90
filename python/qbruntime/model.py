# SPDX-License-Identifier: MIT
"""Models: compiled files that run on an Accelerator."""

import os as _os

from . import _refused
from .qbruntime import Accelerator as _Accelerator
from .qbruntime import Model, estimate_memory
from .type import (
    BufferInfo,
    CacheInfo,
    Cluster,
    Core,
    CoreId,
    CoreMode,
    ModelConfig,
    Scale,
)

_refused.refuse_attributes(Model, _refused.MODEL)


def load(
    path: "str | bytes | _os.PathLike[str] | _os.PathLike[bytes]",
    model_config: ModelConfig | None = None,
) -> Model:
    """Open the default device, load a model file and launch it there.

    The model keeps the device. On failure nothing stays open, and the error is
    that of the step that failed.
    """
    if not isinstance(path, (str, bytes, _os.PathLike)):
        raise TypeError(f"path is a str, bytes or os.PathLike, got {type(path)!r}")
    if not isinstance(model_config, ModelConfig | None):
        raise TypeError(
            f"model_config is a ModelConfig or None, got {type(model_config)!r}"
        )
    acc = _Accelerator()
    model = Model(path, model_config)
    model.launch(acc)
    return model


__all__ = [
    "BufferInfo",
    "CacheInfo",
    "Cluster",
    "Core",
    "CoreId",
    "CoreMode",
    "Model",
    "ModelConfig",
    "Scale",
    "estimate_memory",
    "load",
]
