# SPDX-License-Identifier: MIT
"""What a message between programs carries: payload identities, and Tensor.

    payload.resolve("float32").accepts(1.5)     # True
    view = payload.Tensor.as_tensor(array)      # the same bytes, read-only

An identity is a token: it has a name, and a tag that is the same in every
process. Any thread may use one.
"""

import operator as _operator
import struct as _struct
import sys as _sys
import threading as _threading
from typing import Any as _Any
from typing import Callable as _Callable
from typing import NoReturn as _NoReturn
from typing import SupportsIndex as _SupportsIndex
from typing import TypeGuard as _TypeGuard
from typing import final as _final

from .qbruntime import Tensor

__all__ = [
    "PayloadType",
    "Tensor",
    "TensorType",
    "boolean",
    "float32",
    "float64",
    "int16",
    "int32",
    "int64",
    "int8",
    "pyobject",
    "resolve",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
]

# Kinds of identities: a closed set, the first byte of a tag.
_PYOBJECT, _SCALAR, _TENSOR, _SCHEMA, _STRUCT = range(5)
# DLPack's codes of elements, the second byte of a scalar's tag.
_INT, _UINT, _FLOAT, _BOOL = 0, 1, 2, 6


@_final
class PayloadType:
    """A registered payload identity. Users get them by name; see resolve()."""

    __slots__ = ("_name", "_epoch", "_kind", "_code", "_bits", "_accepts")
    _name: str
    _epoch: int
    _kind: int
    _code: int
    _bits: int
    _accepts: _Callable[[object], bool]

    def __new__(cls, *args: object, **kwargs: object) -> "PayloadType":
        raise TypeError("PayloadType is not constructed: use resolve(name)")

    def __init_subclass__(cls, **kwargs: object) -> _NoReturn:
        raise TypeError("PayloadType has no subclasses")

    @property
    def name(self) -> str:
        """Under which resolve() finds it."""
        return self._name

    @property
    def epoch(self) -> int:
        """The registration that it came with: later ones have larger numbers."""
        return self._epoch

    @property
    def transport_profile_tag(self) -> int:
        """What stands for it on a wire: kind << 24 | DLPack code << 16 | bits.

        0: it does not leave the process.
        """
        return self._kind << 24 | self._code << 16 | self._bits

    def accepts(self, x: object) -> bool:
        """Whether x is a value of this identity, of its kind and range."""
        return self._accepts(x)

    def __setattr__(self, name: str, value: object) -> _NoReturn:
        raise AttributeError(f"{self!r} cannot be changed", name=name, obj=self)

    def __delattr__(self, name: str) -> _NoReturn:
        raise AttributeError(f"{self!r} cannot be changed", name=name, obj=self)

    def __call__(self, *args: object, **kwargs: object) -> _NoReturn:
        raise TypeError(f"{self._name} is an identity, not a constructor")

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is PayloadType
            and (self._name, self._epoch) == (other._name, other._epoch)
        )

    def __hash__(self) -> int:
        return hash((self._name, self._epoch))

    def __repr__(self) -> str:
        return f"<PayloadType {self._name}>"

    def __copy__(self) -> "PayloadType":
        return self

    def __deepcopy__(self, memo: dict[int, _Any]) -> "PayloadType":
        return self

    def __reduce__(self) -> tuple[_Callable[[str], "PayloadType"], tuple[str]]:
        return resolve, (self._name,)


class _Registry:
    """Names and their identities. What is registered in one call has one epoch."""

    def __init__(self) -> None:
        self._lock = _threading.Lock()
        self._tokens: dict[str, PayloadType] = {}
        self._epoch = 0

    def register(
        self, *entries: tuple[str, int, int, int, _Callable[[object], bool]]
    ) -> list[PayloadType]:
        """Each entry: name, kind, DLPack code, bits, what it accepts."""
        with self._lock:
            for name, kind, *_ in entries:
                if kind not in range(_PYOBJECT, _STRUCT + 1):
                    raise ValueError(f"{name} has kind {kind}, expected 0 to 4")
                if name in self._tokens:
                    raise ValueError(f"{name} is registered already")
            self._epoch += 1
            tokens = [self._make(*entry) for entry in entries]
            self._tokens.update({token.name: token for token in tokens})
        return tokens

    def _make(self, name: str, *rest: object) -> PayloadType:
        token: PayloadType = object.__new__(PayloadType)
        values = (name, self._epoch, *rest)
        for slot, value in zip(PayloadType.__slots__, values, strict=True):
            object.__setattr__(token, slot, value)
        return token

    def unregister(self, name: str) -> None:
        with self._lock:
            del self._tokens[name]

    def resolve(self, name: str) -> PayloadType:
        if not isinstance(name, str):
            raise TypeError(f"name is a str, got {type(name)!r}")
        try:
            return self._tokens[name]
        except KeyError:
            raise KeyError(f"no payload identity is called {name!r}") from None

    def itemsize(self, name: str) -> int:
        """Bytes of one value on a wire; 0: that depends on the value."""
        return self.resolve(name)._bits // 8


def _is_numpy(x: object, name: str) -> bool:
    """An x of NumPy's is no reason to import NumPy."""
    numpy = _sys.modules.get("numpy")
    return numpy is not None and isinstance(x, getattr(numpy, name, ()))


def _is_bool(x: object) -> bool:
    return isinstance(x, bool) or _is_numpy(x, "bool_")


def _is_index(x: object) -> _TypeGuard[_SupportsIndex]:
    return hasattr(x, "__index__") and not _is_bool(x)


def _accepts_int(least: int, most: int) -> _Callable[[object], bool]:
    def accepts(x: object) -> bool:
        try:
            return _is_index(x) and least <= _operator.index(x) <= most
        except TypeError:  # of an array of several elements
            return False

    return accepts


def _accepts_float(code: str) -> _Callable[[object], bool]:
    def accepts(x: object) -> bool:
        is_number = isinstance(x, (float, int)) or _is_numpy(x, "floating")
        if not is_number or _is_bool(x):
            return False
        try:
            packed = _struct.pack(code, x)
        except (OverflowError, _struct.error):
            return False
        # a longer float of NumPy's may have become infinite on the way
        (value,) = _struct.unpack(code, packed)
        return value not in (float("inf"), -float("inf")) or bool(x == value)

    return accepts


def _is_tensor(x: object) -> bool:
    return isinstance(x, Tensor)


def _is_object(x: object) -> bool:
    return True


_registry = _Registry()

_registry.register(
    ("TensorType", _TENSOR, 0, 0, _is_tensor),
    ("boolean", _SCALAR, _BOOL, 8, _is_bool),
    ("float32", _SCALAR, _FLOAT, 32, _accepts_float("<f")),
    ("float64", _SCALAR, _FLOAT, 64, _accepts_float("<d")),
    *(
        (f"int{bits}", _SCALAR, _INT, bits, _accepts_int(-(1 << bits - 1), most >> 1))
        for bits, most in ((bits, (1 << bits) - 1) for bits in (8, 16, 32, 64))
    ),
    *(
        (f"uint{bits}", _SCALAR, _UINT, bits, _accepts_int(0, (1 << bits) - 1))
        for bits in (8, 16, 32, 64)
    ),
    ("pyobject", _PYOBJECT, 0, 0, _is_object),
)


def resolve(name: str) -> PayloadType:
    """The identity that is registered under a name.

    Raises KeyError if none is, TypeError if name is no str.
    """
    return _registry.resolve(name)


TensorType = resolve("TensorType")
boolean = resolve("boolean")
float32 = resolve("float32")
float64 = resolve("float64")
int8 = resolve("int8")
int16 = resolve("int16")
int32 = resolve("int32")
int64 = resolve("int64")
uint8 = resolve("uint8")
uint16 = resolve("uint16")
uint32 = resolve("uint32")
uint64 = resolve("uint64")
pyobject = resolve("pyobject")
