# SPDX-License-Identifier: MIT
"""One of the input sizes of a model."""

from .qbruntime import ModelVariantHandle
from .type import BufferInfo, Scale

__all__ = ["BufferInfo", "ModelVariantHandle", "Scale"]
