# SPDX-License-Identifier: MIT
"""Payload identities: what they are, their registry, what each accepts."""

import copy
import itertools
import pickle
import re
import sys
import threading
import types

import pytest
from runtime_cases import run_child

pytest.importorskip("qbruntime")
np = pytest.importorskip("numpy")
from qbruntime import payload  # noqa: E402
from qbruntime.payload import PayloadType, Tensor, resolve  # noqa: E402

SCALARS = (
    "boolean float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
)
NAMES = ["TensorType", *SCALARS, "pyobject"]
TOKENS = [getattr(payload, name) for name in NAMES]
TAGS = {
    "boolean": 0x01060008,
    "float32": 0x01020020,
    "float64": 0x01020040,
    "TensorType": 0x02000000,
    "pyobject": 0,
    "int8": 0x01000008,
    "int16": 0x01000010,
    "int32": 0x01000020,
    "int64": 0x01000040,
    "uint8": 0x01010008,
    "uint16": 0x01010010,
    "uint32": 0x01010020,
    "uint64": 0x01010040,
}


# H01
@pytest.mark.parametrize("token", TOKENS, ids=NAMES)
def test_a_token_has_a_name_an_epoch_and_a_tag(token):
    assert type(token.name) is str
    assert type(token.epoch) is int
    assert type(token.transport_profile_tag) is int


# H02
@pytest.mark.parametrize("token", TOKENS, ids=NAMES)
def test_nothing_of_it_can_be_assigned(token):
    for name in ("name", "epoch", "transport_profile_tag", "_name", "other"):
        with pytest.raises(AttributeError):
            setattr(token, name, 3)
        with pytest.raises(AttributeError):
            delattr(token, name)
    assert token is resolve(token.name)


# H03
@pytest.mark.parametrize("token", TOKENS, ids=NAMES)
def test_a_token_is_no_constructor(token):
    for args, kw in (((), {}), ((1.0,), {}), ((), {"shape": (2, 3)})):
        with pytest.raises(TypeError, match=token.name):
            token(*args, **kw)


class Pretender:
    __class__ = PayloadType


# H04
def test_equality_takes_any_object():
    others = (3, None, "float32", object(), np.zeros(3), Tensor, PayloadType)
    for other in (*others, Pretender()):
        assert (payload.float32 == other) is False
        assert (payload.float32 != other) is True
    assert (payload.float32 == resolve("float32")) is True


# H05
def test_tokens_are_keys():
    table = {token: token.name for token in TOKENS}
    assert len(table) == len(set(TOKENS)) == 13
    for name in NAMES:
        assert table[resolve(name)] == name
        assert hash(resolve(name)) == hash(resolve(name))


# H06 H16
def test_text_and_tag_are_the_same_in_every_process():
    code = """
        from qbruntime import payload
        for name in sorted(payload.__all__):
            token = getattr(payload, name)
            if isinstance(token, payload.PayloadType):
                print(token, repr(token), token.transport_profile_tag)
        """
    one, other = run_child(code).stdout, run_child(code, PYTHONHASHSEED="7").stdout
    assert one == other and one.count("\n") == 13
    for token in TOKENS:
        assert re.fullmatch(r"<PayloadType \w+>", repr(token))
        assert token.name in repr(token)
        assert f"{token} {token!r} {TAGS[token.name]}\n" in one


# H07 H08
def test_the_built_in_set():
    found = {
        name: value
        for name, value in vars(payload).items()
        if isinstance(value, PayloadType)
    }
    assert sorted(found) == sorted(NAMES)
    assert all(found[name].name == name for name in NAMES)
    pairs = list(itertools.combinations(TOKENS, 2))
    assert len(pairs) == 78
    assert all(one != other and one.name != other.name for one, other in pairs)


def test_the_module_has_its_public_names_and_no_others():
    ours = {name for name in vars(payload) if not name.startswith("_")}
    assert ours == set(payload.__all__) == {*NAMES, "PayloadType", "Tensor", "resolve"}
    assert all(getattr(payload, name).__doc__ for name in payload.__all__)


# H09 H10
@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_resolved_to_its_token(name):
    assert resolve(name) == getattr(payload, name)
    assert resolve(name) is resolve(name=name)
    assert resolve(name).name == name


# H11 H13 D6
@pytest.mark.parametrize("name", ["", "int", "long", "size_t", "Float32", "é" * 99])
def test_an_unknown_name_is_a_key_error(name):
    with pytest.raises(KeyError) as caught:
        resolve(name)
    assert name in caught.value.args[0]


# H12
@pytest.mark.parametrize("name", [3, b"float32", None, payload.float32, ["int8"]])
def test_a_name_is_a_str(name):
    with pytest.raises(TypeError):
        resolve(name)


# H14 H16 D14
def test_tags():
    assert {token.name: token.transport_profile_tag for token in TOKENS} == TAGS
    assert len(set(TAGS.values())) == 13


INTEGERS = {
    name: (-(1 << int(bits) - 1), (1 << int(bits) - 1) - 1)
    if sign == "int"
    else (0, (1 << int(bits)) - 1)
    for name in NAMES
    for sign, bits in re.findall(r"^(u?int)(\d+)$", name)
}
FLOATS = ("float32", "float64")


def expect(*names):
    return {"pyobject", *names}


# H15
@pytest.mark.parametrize(
    "value, names",
    [
        (True, expect("boolean")),
        (np.True_, expect("boolean")),
        (3, expect(*INTEGERS, *FLOATS)),
        (300, expect(*set(INTEGERS) - {"int8", "uint8"}, *FLOATS)),
        (-1, expect(*(n for n in INTEGERS if n[0] == "i"), *FLOATS)),
        (1.5, expect(*FLOATS)),
        (float("nan"), expect(*FLOATS)),
        (-float("inf"), expect(*FLOATS)),
        (1e300, expect("float64")),
        (10**400, expect()),
        (np.float16(1), expect(*FLOATS)),
        (np.float32(1), expect(*FLOATS)),
        (np.float64(1e300), expect("float64")),
        (np.longdouble("1e4000"), expect()),
        (np.longdouble("inf"), expect(*FLOATS)),
        (np.int8(5), expect(*INTEGERS)),
        (np.uint64(2**64 - 1), expect("uint64")),
        (np.zeros(3, "i4"), expect()),
        (np.zeros(1, "f4"), expect()),
        ("3", expect()),
        (None, expect()),
        (object(), expect()),
        (1j, expect()),
    ],
    ids=str,
)
def test_a_token_accepts_values_of_its_kind_and_range(value, names):
    answers = {token.name: token.accepts(value) for token in TOKENS}
    assert {type(answer) for answer in answers.values()} == {bool}
    assert {name for name, answer in answers.items() if answer} == names


# H15
def test_only_tensor_type_accepts_a_tensor():
    tensor = Tensor.as_tensor(np.zeros(1, "i4"))
    accepting = {token.name for token in TOKENS if token.accepts(x=tensor)}
    assert accepting == {"TensorType", "pyobject"}


# H15
@pytest.mark.parametrize("name", INTEGERS)
def test_the_ends_of_a_range(name):
    least, most = INTEGERS[name]
    token = resolve(name)
    assert token.accepts(least) and token.accepts(most)
    assert not token.accepts(least - 1) and not token.accepts(most + 1)


# H17 H18 H19
def test_a_name_that_comes_back_is_another_identity():
    registry = payload._Registry()
    entry = ("odd", 3, 0, 0, lambda x: x == 1)
    (old,) = registry.register(entry)
    assert registry.resolve("odd") is old and old.accepts(1) and not old.accepts(2)
    with pytest.raises(ValueError, match="odd"):
        registry.register(entry)
    registry.unregister("odd")
    with pytest.raises(KeyError):
        registry.resolve("odd")
    one, other = registry.register(entry, ("even", 4, 0, 0, lambda x: True))
    assert one.epoch == other.epoch > old.epoch
    assert one != old and hash(one) != hash(old) and one == registry.resolve("odd")
    assert (old.transport_profile_tag, other.transport_profile_tag) == (
        3 << 24,
        4 << 24,
    )
    for kind in (-1, 5, 255):
        with pytest.raises(ValueError, match="kind"):
            registry.register(("new", 3, 0, 0, bool), ("bad", kind, 0, 0, bool))
    with pytest.raises(KeyError):
        registry.resolve("new")
    assert {token.epoch for token in TOKENS} == {1}


# H19 H20
def test_kinds_and_sizes():
    kinds = {token.name: token.transport_profile_tag >> 24 for token in TOKENS}
    assert kinds == {"TensorType": 2, "pyobject": 0, **{name: 1 for name in SCALARS}}
    sizes = {name: payload._registry.itemsize(name) for name in NAMES}
    assert sizes["boolean"] == 1 and sizes["TensorType"] == sizes["pyobject"] == 0
    for name in set(SCALARS) - {"boolean"}:
        assert sizes[name] == int(re.search(r"\d+", name)[0]) // 8


# H21
def test_names_are_resolved_by_threads():
    found = [set() for _ in range(8)]

    def work(answers):
        for _ in range(10000):
            answers.add(id(resolve("uint16")))

    threads = [threading.Thread(target=work, args=(answers,)) for answers in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set.union(*found) == {id(payload.uint16)}


# H22
@pytest.mark.parametrize("token", TOKENS, ids=NAMES)
def test_copies_are_the_same_token(token):
    assert copy.copy(token) is token and copy.deepcopy([token])[0] is token
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(token, protocol)) is token


# H114
def test_users_do_not_construct_identities():
    for args, kw in (((), {}), (("float32",), {}), ((), {"name": "float32"})):
        with pytest.raises(TypeError):
            PayloadType(*args, **kw)
    with pytest.raises(TypeError):
        type("Mine", (PayloadType,), {})
    for call in (lambda: payload.int8 < payload.int16, lambda: sorted(TOKENS)):
        with pytest.raises(TypeError):
            call()


def test_numpy_is_not_imported():
    code = """
        import sys
        from qbruntime import payload
        assert payload.float32.accepts(1.5) and not payload.boolean.accepts(1)
        assert "numpy" not in sys.modules
        """
    assert run_child(code).stderr == "" and "numpy" in sys.modules


# of another thread, which has all names later
def test_numpy_may_be_half_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", types.ModuleType("numpy"))
    assert payload.float32.accepts(1.5) and payload.boolean.accepts(True)
