# SPDX-License-Identifier: MIT
"""qbm run: a model on the device, by the package qbruntime.

Imported when a model is to run, and not before: the rest of qbm needs neither
the package nor NumPy.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

import numpy as np
import qbruntime

from . import container, files
from .cut import cut
from .sections import MAX_FILE


class BadInput(ValueError):
    """An array does not fit; the sentence says which."""


def load_array(path: Path) -> Any:
    """The array of an .npy file; BadInput. Nothing in it is executed."""
    try:
        file = io.BytesIO(files.read_regular(path, MAX_FILE))
        return np.lib.format.read_array(file, allow_pickle=False)
    except files.FileError as error:
        raise BadInput(f"{path}: {error.reason}") from None
    except (ValueError, EOFError, MemoryError) as error:
        raise BadInput(f"{path} is not read as .npy: {error}") from None


def _fill(name: str, memory: Any, path: Path) -> None:
    array = load_array(path)
    shape, dtype = memory.shape(), memory.dtype()
    if array.dtype != dtype or array.shape not in (shape, (1, *shape)):
        raise BadInput(
            f"input '{name}' is {dtype} {list(shape)}, "
            f"{path} has {array.dtype} {list(array.shape)}"
        )
    memory[...] = array.reshape(shape)


def _bytes_of(array: Any) -> bytes:
    """What an .npy file of it holds."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def run(path: Path, given: Mapping[str, Path]) -> tuple[list[str], list[bytes]]:
    """A line and the .npy bytes of each output; inputs not given are zeros."""
    with qbruntime.Model(path) as model:
        names = model.get_input_names()
        for name in given:
            if name not in names:
                raise BadInput(f"there is no input '{name}', but {', '.join(names)}")
        with qbruntime.Accelerator() as acc:
            model.launch(acc)
            inputs, outputs = model.allocate_inputs(), model.allocate_outputs()
            for name, memory in zip(names, inputs):
                if name in given:
                    _fill(name, memory, given[name])
                else:
                    memory.fill(0)
            model.infer_pinned_memory(inputs, outputs)
            arrays = [np.asarray(memory) for memory in outputs]
            lines = [
                f"output {index} {json.dumps(name)} dtype={array.dtype} "
                f"shape={list(array.shape)} "
                f"sha256={hashlib.sha256(array.tobytes()).hexdigest()}"
                for index, (name, array) in enumerate(
                    zip(model.get_output_names(), arrays)
                )
            ]
            return lines, [_bytes_of(array) for array in arrays]


def run_cut(
    file: container.File,
    last: Optional[int],
    names: Sequence[str],
    given: Mapping[str, Path],
) -> tuple[list[str], list[bytes]]:
    """As run(), up to a command, with inner tensors as the last outputs (QM07)."""
    data = container.write(cut(file, last, names))
    with tempfile.NamedTemporaryFile(suffix=".qbm") as temporary:
        temporary.write(data)
        temporary.flush()
        return run(Path(temporary.name), given)
