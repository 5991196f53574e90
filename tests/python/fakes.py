# SPDX-License-Identifier: MIT
"""Doubles of libraries that exchange tensors: FP, a producer that offers what a
test wants and keeps a log, and FC, the consumer of the extension fake_dlpack."""

import ctypes
import itertools

import fake_dlpack
from fake_dlpack import Record

from qbruntime import streams

FLOAT32, UINT8, BFLOAT16 = (2, 32, 1), (1, 8, 1), (4, 16, 1)
READ_ONLY, IS_COPIED, IS_PADDED = 1, 2, 4
LEGACY, NEWEST = (0, 0), (1, 3)


class Memory:
    """Plain memory of C, aligned to 64 bytes, whose bytes count from 0 on."""

    def __init__(self, nbytes):
        self._buffer = ctypes.create_string_buffer(nbytes + 64)
        self.address = -(-ctypes.addressof(self._buffer) // 64) * 64
        self.nbytes = nbytes
        self.bytes = (ctypes.c_ubyte * nbytes).from_address(self.address)
        self.bytes[:] = [i % 251 for i in range(nbytes)]


class Producer:
    """What the protocols share; producer() makes a class with those wanted.

    records: of each struct that was handed out. log: the calls, in order.
    """

    def __init__(
        self,
        shape=(2, 3),
        dtype=FLOAT32,
        device=(1, 0),
        version=NEWEST,
        error=None,  # that __dlpack__ raises
        rejects=(),  # keywords that it does not know
        is_used=False,  # its capsule was consumed
        answer=None,  # of __dlpack__, in place of a capsule
        interface=None,  # more items, or others, of the dictionaries
        address=None,
        owns=False,  # a struct keeps the producer, else its memory alone
        **record,  # further arguments of Record
    ):
        nbytes = 16 * 8
        for extent in shape or ():
            nbytes *= max(extent, 1) if extent < 1 << 20 else 1
        self.memory = Memory(nbytes)
        self.address = self.memory.address if address is None else address
        self.shape, self.dtype, self.device, self.version = (
            shape,
            dtype,
            device,
            version,
        )
        self.error, self.rejects, self.is_used = error, rejects, is_used
        self.answer, self.interface, self.owns = answer, interface or {}, owns
        self.record = record
        self.records, self.log = [], []

    @property
    def deleter_calls(self):
        return sum(record.deleter_calls for record in self.records)

    def make_record(self):
        record = Record(
            self.address,
            self.shape,
            dtype=self.dtype,
            device=self.device,
            version=self.version,
            owner=self if self.owns else self.memory,
            **self.record,
        )
        self.records.append(record)
        return record

    def _dlpack(self, **keywords):
        self.log.append(("__dlpack__", keywords))
        for name in keywords:
            if name in self.rejects:
                raise TypeError(f"__dlpack__() knows no {name}")
        if self.error:
            raise self.error
        if self.answer is not None:
            return self.answer
        record = self.make_record()
        return record.used_capsule() if self.is_used else record.capsule()

    def _dlpack_device(self):
        self.log.append(("__dlpack_device__", {}))
        return self.device

    def _exchange(self):
        self.log.append(("exchange", {}))
        return self.make_record()

    def make_interface(self, name):
        self.log.append((name, {}))
        return {
            "shape": self.shape,
            "typestr": "<f4",
            "data": (self.address, False),
            "version": 3,
            **self.interface,
        }


PROTOCOLS = {
    "exchange": {"__dlpack_c_exchange_api__": fake_dlpack.exchange_capsule()},
    "__dlpack__": {"__dlpack__": Producer._dlpack},
    "__dlpack_device__": {"__dlpack_device__": Producer._dlpack_device},
    "cuda": {
        "__cuda_array_interface__": property(
            lambda self: self.make_interface("__cuda_array_interface__")
        )
    },
    "array": {
        "__array_interface__": property(
            lambda self: self.make_interface("__array_interface__")
        )
    },
}
DLPACK = ("__dlpack__", "__dlpack_device__")
ALL = tuple(PROTOCOLS)


def producer(*protocols, members=None, **knobs):
    """A Producer with these protocols (DLPACK without any)."""
    attributes = {}
    for name in protocols or DLPACK:
        attributes.update(PROTOCOLS[name])
    attributes.update(members or {})
    return type("FakeProducer", (Producer,), attributes)(**knobs)


def compact(shape):
    """Strides in elements."""
    extents = [max(extent, 1) for extent in shape[:0:-1]]
    steps = list(itertools.accumulate([1, *extents], lambda a, b: a * b))
    return tuple(reversed(steps)) if shape else ()


def consume(source, *args, **keywords):
    """FC's hold on an export of source."""
    return fake_dlpack.consume(source.__dlpack__(*args, **keywords))


def fields(source, *args, **keywords):
    """What an export says, which is dropped again."""
    consumer = consume(source, *args, **keywords)
    found = consumer.fields()
    consumer.drop()
    return found


def count_exports():
    """How many are alive: without a version, with one, by the table."""
    stats = streams.bridge_stats()
    return tuple(
        stats[name]
        for name in ("exports_legacy", "exports_versioned", "exports_owned_c")
    )


def name_of(capsule):
    return repr(capsule).split('"')[1]
