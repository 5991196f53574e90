# SPDX-License-Identifier: MIT
"""Models for the tests of calls on plain arrays, and arrays of other libraries."""

import numpy as np

IMAGE = """
qbm 1.0 isa 1.0 producer="hand"
meta "model.name" = "image"
variant "default" inputs=0+1 outputs=1+2 bundles=0+1 batch=1 mode_mask=1
bundle "main" mode_mask=1 program=0,-,-,-,-
io 0 "x" role=input device_dtype=i8 host_dtype=f32 layout=1 {image}
io 1 "image" role=output device_dtype=i8 host_dtype=f32 layout=1 {image}
io 2 "stored" role=output device_dtype=i8 host_dtype=f32 {line}
program 0
  binding 0 input tensor=%x io=0
  binding 1 output tensor=%image io=1
  binding 2 output tensor=%stored io=2
  tensor %x i8 [1,{shape}] binding=0 scale=0.5
  tensor %x_line i8 [1,{size}] binding=0 scale=0.5
  tensor %image i8 [1,{shape}] binding=1 scale=0.5
  tensor %stored i8 [1,{size}] binding=2 scale=0.5
  list 0
    copy src=%x dst=%image
    copy src=%x_line dst=%stored
"""


def write_image_model(qbm, folder, shape):
    """Its outputs are the image, and the line of elements that the device has."""
    size = int(np.prod(shape))
    text = IMAGE.format(
        shape=",".join(map(str, shape)),
        size=size,
        image=f"flags=1 shape=[{','.join(map(str, shape))}] scale=0.5",
        line=f"flags=1 shape=[{size}] scale=0.5",
    )
    source, path = folder / "image.txt", folder / "image.qbm"
    source.write_text(text.lstrip(), encoding="utf-8")
    assert qbm.main(["asm", str(source), "-o", str(path)]) == 0
    return path


class Interface:
    """An array of a library that has __array_interface__ alone."""

    def __init__(self, array):
        self.array = array

    @property
    def __array_interface__(self):
        return self.array.__array_interface__


class DLPack:
    """One that has DLPack alone, as tensors have it; device: type and number."""

    def __init__(self, array, device=(1, 0)):
        self.array = array
        self.device = device

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.device


class ToArray:
    """One that makes an ndarray when it is asked."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


class OddDLPack(DLPack, ToArray):
    """One whose type NumPy does not take by DLPack."""

    def __dlpack__(self, **arguments):
        raise BufferError("no such type")
