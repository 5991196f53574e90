# SPDX-License-Identifier: MIT
"""Wrong arguments of every public call: a TypeError or a ValueError that names the
argument, before anything is looked for. There is no device here, no model is
launched, and what else would be refused comes later."""

import re

import pytest
from runtime_cases import COPY64
from test_audit import CLASSES, MODULE

qbruntime = pytest.importorskip("qbruntime")
from qbruntime import Accelerator, Cluster, CoreId, DataType, Future  # noqa: E402
from qbruntime import Model, ModelConfig  # noqa: E402

INTS = ("0", 0.0, True, [0], b"0")
INTS_ONLY = (*INTS, None)
FLOATS = ("0.5", True, None, [0.5], 1j)
PATHS = (5, None, [str(COPY64)], 1.5)
CONFIGS = ({}, 5, "single", ModelConfig)
ARRAYS = (None, 5, "words", {"x": 1}, [None])
# OUTPUTS: bytes are an array of inputs, and a tuple cannot be filled
OUTPUTS = (5, bytearray(64), (bytearray(64),), "words")
CLUSTERS = (Cluster.Cluster0, "ab", [1.5], [True], [None], {1})
CORES = ("0", 1.5, True)
SHAPES = ("4", 4.0, None, b"\4", bytearray(b"\4"))

# for each call a good one's arguments by name, and for each the wrong types of it
CALLS = {
    "estimate_memory": {
        "path": (COPY64, PATHS),
        "model_config": (None, CONFIGS),
    },
    "get_available_device_numbers": {"device_name": ("aries", (1, b"aries", []))},
    "get_model_summary": {"mxq_path": (COPY64, PATHS)},
    "load": {"path": (COPY64, PATHS), "model_config": (None, CONFIGS)},
    "set_log_level": {"level": (3, ("debug", 1.0, None, True))},
    "start_tracing_events": {"path": ("/nowhere/x", PATHS)},
    "Accelerator": {
        "device_name": ("aries", (b"aries", 0.0, [], True)),
        "dev_no": (0, INTS),
    },
    "Accelerator.allocate_pinned_memory": {
        "shape": (4, (*SHAPES, {4}, (4, "x"), (4, True), (None,))),
        "dtype": ("f4", (object, "S4", [("a", "f4")], ">f4", "no type")),
        "require_contiguous": (False, (0, "no", None)),
        "alignment": (64, INTS_ONLY),
    },
    "Accelerator.events": {"first_sequence": (1, INTS_ONLY)},
    "Accelerator.import_pinned_memory": {
        "fd": (0, INTS_ONLY),
        "shape": (4, SHAPES),
        "dtype": ("f4", (object, "S4", "<M8[s]")),
        "offset": (0, INTS_ONLY),
    },
    "ModelConfig": {"num_cores": (1, INTS)},
    "ModelConfig.exclude": {"cluster": (65536, INTS_ONLY), "core": (1, CORES)},
    "ModelConfig.force_single_npu_bundle": {"npu_bundle_index": (0, INTS_ONLY)},
    "ModelConfig.include": {"cluster": (65536, INTS_ONLY), "core": (1, CORES)},
    "ModelConfig.set_activation_slots": {"count": (1, INTS_ONLY)},
    "ModelConfig.set_async_pipeline_enabled": {"enable": (True, (0, 1, None, "yes"))},
    "ModelConfig.set_auto_mode": {"num_cores": (1, INTS_ONLY)},
    "ModelConfig.set_global4_core_mode": {"clusters": (None, CLUSTERS)},
    "ModelConfig.set_global_core_mode": {"clusters": (None, CLUSTERS)},
    "ModelConfig.set_multi_core_mode": {"clusters": (None, CLUSTERS)},
    "ModelConfig.set_single_core_mode": {
        "num_cores": (None, INTS),
        "core_ids": (None, (CoreId(65536, 1), "ab", [1], [None], 5)),
    },
    "Model": {"path": (COPY64, PATHS), "model_config": (None, CONFIGS)},
    "Model.allocate_inputs": {"variant_idx": (0, INTS_ONLY)},
    "Model.allocate_outputs": {"variant_idx": (0, INTS_ONLY)},
    "Model.get_model_variant_handle": {"variant_idx": (0, INTS_ONLY)},
    "Model.infer_pinned_memory": {
        "inputs": ([], (None, 5, "words", [None], bytes(64))),
        "cache_size": (0, INTS_ONLY),
    },
    "Model.infer_pinned_memory_async": {
        "inputs": ([], (None, 5, "words", [None], bytes(64))),
    },
    "Model.infer_speedrun": {"variant_idx": (0, INTS_ONLY)},
    "Model.is_target": {"core_id": (CoreId(65536, 1), (0, None, (65536, 1)))},
    "Model.launch": {"acc": (Accelerator.__new__(Accelerator), (None, 0, "aries"))},
    "Future.add_done_callback": {"fn": (print, (None, 5, "print"))},
    "Future.exception": {"timeout": (0, ("0", True, [0]))},
    "Future.wait_for": {"timeout_ms": (0, INTS_ONLY)},
    "CoreId": {
        "cluster": (65536, INTS_ONLY),
        "core": (1, INTS_ONLY),
    },
    "Scale": {
        "scale": (0.5, FLOATS),
        "is_uniform": (True, (0, "yes", None)),
        "scale_list": ([0.5], (0.5, "1", b"1", None, {0.5}, *([x] for x in FLOATS))),
        "zero_point": (0, INTS_ONLY),
        "is_asymmetric": (False, (0, "yes", None)),
    },
}
for form in ("infer", "infer_chw", "infer_hwc"):
    CALLS[f"Model.{form}"] = {
        "inputs": (bytes(64), ARRAYS),
        "outputs": (None, OUTPUTS),
        "cache_size": (0, INTS_ONLY),
        "params": (None, (0, [object()], "words")),
    }
    CALLS[f"Model.{form}_to_float"] = {
        "inputs": (bytes(64), ARRAYS),
        "cache_size": (0, INTS_ONLY),
    }
for form in ("infer_async", "infer_async_to_float", "try_infer_async"):
    CALLS[f"Model.{form}"] = {"inputs": (bytes(64), ARRAYS)}
CALLS["Model.infer"]["layout"] = ("auto", (None, 5, b"hwc"))


def find(name):
    """A call of a fresh object that has not met a device."""
    owner, _, method = name.rpartition(".")
    if not owner:
        return getattr(qbruntime, name)
    made = {
        "Accelerator": lambda: Accelerator.__new__(Accelerator),
        "Future": Future,
        "Model": lambda: Model(COPY64),
        "ModelConfig": ModelConfig,
    }
    return getattr(made[owner](), method)


@pytest.fixture(autouse=True)
def no_device(request, monkeypatch):
    if "acc" not in request.fixturenames:
        monkeypatch.setenv("QBRUNTIME_SOFT_DEVICES", "none")


def parameters(line):
    names = line.partition("(")[2].rstrip(")").split(", ")
    return {name.partition("=")[0] for name in names} - {"", "*", "/"}


# PinnedMemory needs a device
def test_every_parameter_of_the_surface_is_here():
    due = {line.partition("(")[0]: parameters(line) for line in MODULE.split("\n")}
    for name, text in CLASSES.items():
        if name != "PinnedMemory":
            made, *others = text.strip().splitlines()
            due[name] = parameters(made)
            for line in others:
                due[f"{name}.{line.partition('(')[0]}"] = parameters(line)
    for form in ("infer_pinned_memory", "infer_pinned_memory_async"):
        due[f"Model.{form}"].remove("outputs")  # inputs are taken first
    due = {name: names for name, names in due.items() if names}
    assert {name: set(arguments) for name, arguments in CALLS.items()} == due


def word(argument):
    """Names it, not another that has it in the middle; one of several too."""
    return rf"\b{argument.rstrip('s')}s?\b"


WRONG_TYPES = [
    pytest.param(name, argument, wrong, id=f"{name}-{argument}-{number}")
    for name, arguments in CALLS.items()
    for argument, (_, all_wrong) in arguments.items()
    for number, wrong in enumerate(all_wrong)
]


# Q594
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name, argument, wrong", WRONG_TYPES)
def test_a_wrong_type_is_a_type_error(name, argument, wrong):
    given = {key: good for key, (good, _) in CALLS[name].items()}
    given[argument] = wrong
    call = find(name)
    with pytest.raises(TypeError) as caught:
        call(**given)
    assert not isinstance(caught.value, qbruntime.QbRuntimeError)
    text = str(caught.value)
    # NumPy says the last
    assert re.search(word(argument), text) or wrong == "no type"
    assert "got" in text or argument == "dtype"


# Q594
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", CALLS)
def test_the_number_and_names_of_arguments(name):
    given = {key: good for key, (good, _) in CALLS[name].items()}
    call = find(name)
    with pytest.raises(TypeError):
        call(**given, nonsense=1)
    with pytest.raises(TypeError):
        call(*given.values(), *[None] * 9)


WRONG_VALUES = {
    "path": (
        lambda: Model("a\0b"),
        lambda: Model(b"a\0b"),
        lambda: qbruntime.estimate_memory("a\0b"),
        lambda: qbruntime.start_tracing_events("a\0b"),
    ),
    "mxq_path": (lambda: qbruntime.get_model_summary("a\0b"),),
    "device_name": (
        lambda: Accelerator("aries\0"),
        lambda: Accelerator("aries\udc80"),
        lambda: qbruntime.get_available_device_numbers("aries\0"),
        lambda: qbruntime.get_available_device_numbers("aries\udc80"),
    ),
    "shape": (lambda: find("Accelerator.allocate_pinned_memory")((1,) * 9),),
    "dtype": (
        lambda: find("Accelerator.allocate_pinned_memory")(4, DataType.Error),
        lambda: find("Accelerator.import_pinned_memory")(0, 4, DataType.Error),
    ),
    "layout": (
        lambda: find("Model.infer")(bytes(64), layout="nhwc"),
        lambda: find("Model.infer")(bytes(64), layout=""),
    ),
    "num_cores": (
        lambda: ModelConfig(0),
        lambda: ModelConfig(9),
        lambda: ModelConfig().set_single_core_mode(1, [CoreId(65536, 1)]),
    ),
    "count": (
        lambda: ModelConfig().set_activation_slots(0),
        lambda: ModelConfig().set_activation_slots(2**70),
    ),
    "Cluster": (lambda: CoreId(0, 1), lambda: CoreId(2**70, 1)),
    "Core": (lambda: CoreId(65536, 0), lambda: CoreId(65536, -1)),
}


# Q594
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("argument", WRONG_VALUES)
def test_a_wrong_value_is_a_value_error(argument):
    for call in WRONG_VALUES[argument]:
        with pytest.raises(ValueError, match=word(argument)) as caught:
            call()
        assert not isinstance(caught.value, qbruntime.QbRuntimeError)


# Q594
def test_values_that_the_library_judges_are_value_errors_too(acc):
    for argument, call in (
        ("shape", lambda: acc.allocate_pinned_memory(-1)),
        ("shape", lambda: acc.allocate_pinned_memory((4, 0))),
        ("alignment", lambda: acc.allocate_pinned_memory(4, alignment=96)),
        ("alignment", lambda: acc.allocate_pinned_memory(4, alignment=2**70)),
        # what the library calls an fd
        ("descriptor", lambda: acc.import_pinned_memory(-1, 4, "f4")),
        ("descriptor", lambda: acc.import_pinned_memory(2**70, 4, "f4")),
        ("level", lambda: qbruntime.set_log_level(7)),
    ):
        with pytest.raises(qbruntime.QbInvalidArgumentError, match=word(argument)):
            call()


# Q465 Q500 Q594: not as some int of C holds it
def test_a_refused_number_is_told_as_it_came(acc, launched):
    x = launched.allocate_inputs()
    for argument, numbers, status, call in (
        (
            "alignment",
            (0, -64, 2**70),
            1000,
            lambda n: acc.allocate_pinned_memory(4, alignment=n),
        ),
        (
            "fd",
            (-1, 2**31, 2**70),
            1000,
            lambda n: acc.import_pinned_memory(n, 4, "u1"),
        ),
        (
            "offset",
            (-64, 2**70),
            1000,
            lambda n: acc.import_pinned_memory(0, 4, "u1", offset=n),
        ),
        ("variant_idx", (-1, 1, 2**70), 64, launched.allocate_inputs),
        ("variant_idx", (-1, 1, 2**70), 64, launched.allocate_outputs),
        ("variant_idx", (-1, 1, 2**70), 64, launched.infer_speedrun),
        ("variant_idx", (-1, 1, 2**70), 64, launched.get_model_variant_handle),
        (
            "cache_size",
            (-1, 2**70),
            1000,
            lambda n: launched.infer_pinned_memory(x, cache_size=n),
        ),
        (
            "cache_size",
            (-1, 2**70),
            1000,
            lambda n: launched.infer(bytes(64), cache_size=n),
        ),
        ("level", (7, 0, -1, 2**40), 1000, qbruntime.set_log_level),
    ):
        for number in numbers:
            with pytest.raises(
                qbruntime.QbRuntimeError, match=f"{argument} is {number}, expected"
            ) as caught:
                call(number)
            assert caught.value.status == status
    for shape in (2**70, (4, -(2**70))):
        with pytest.raises(ValueError, match=f"shape is -?{2**70}, expected"):
            acc.allocate_pinned_memory(shape)


# Q594: Python itself does not write such an int, which is a ValueError of its own
def test_an_int_of_thousands_of_digits_is_refused_as_a_shorter_one(acc, launched):
    for name, status, call in (
        ("alignment", 1000, lambda n: acc.allocate_pinned_memory(4, alignment=n)),
        ("fd", 1000, lambda n: acc.import_pinned_memory(n, 4, "u1")),
        ("offset", 1000, lambda n: acc.import_pinned_memory(0, 4, "u1", offset=n)),
        ("variant_idx", 64, launched.allocate_inputs),
        ("cache_size", 1000, lambda n: launched.infer(bytes(64), cache_size=n)),
        ("level", 1000, qbruntime.set_log_level),
    ):
        match = f"{name} .*, expected"
        with pytest.raises(qbruntime.QbRuntimeError, match=match) as caught:
            call(10**5000)
        assert caught.value.status == status
    tensor = acc.allocate_pinned_memory(4).tensor()
    for name, call in (
        ("shape", acc.allocate_pinned_memory),
        ("count", ModelConfig().set_activation_slots),
        ("stream", lambda n: tensor.__dlpack__(stream=n)),
        ("stream", lambda n: tensor.__dlpack__(stream=-n)),
        ("max_version", lambda n: tensor.__dlpack__(max_version=(-n, 0))),
    ):
        with pytest.raises(ValueError, match=f"{name} .*, expected"):
            call(10**5000)


def test_arguments_of_pinned_memory(acc):
    pinned = acc.allocate_pinned_memory(4)
    for wrong in (0, 1, None, "yes"):
        with pytest.raises(TypeError, match="write is a bool, got"):
            pinned.cpu_access(write=wrong)
    for wrong in ([1, 2], (), bytearray(3)):
        with pytest.raises(ValueError, match="sequence"):
            pinned.fill(wrong)
    for wrong in (None, pinned, acc, b"1234"):
        with pytest.raises(TypeError, match="allocate_pinned_memory"):
            qbruntime.PinnedMemory(wrong)
    model = Model(COPY64)
    for infer in (model.infer_pinned_memory, model.infer_pinned_memory_async):
        for wrong in (5, "words"):
            with pytest.raises(TypeError, match="for outputs, got"):
                infer(pinned, wrong)
        for wrong in ([None], bytes(64)):
            with pytest.raises(TypeError, match=r"^outputs\[0\]: expected a Pinned"):
                infer(pinned, wrong)
        with pytest.raises(TypeError, match=r"^inputs\[1\]: .* got <class 'NoneType'>"):
            infer([pinned, None])
