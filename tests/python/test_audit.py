# SPDX-License-Identifier: MIT
"""The whole public surface, written from docs/spec/qbruntime-api.md, sections 6 to
18, and compared both ways: nothing of it is missing, and nothing else is public.

A line is a name, as one calls it: parameters, their kinds (the bare * and /) and
defaults. A name without brackets is an attribute. What the page has and the
package does not offer yet, or never, is not here: who builds it adds its line.
Default values that are lists or types in the page are None here, which means them.
"""

import enum
import importlib
import inspect
import re

import pytest
from runtime_cases import TOP
from test_package_type import ENUMS

qbruntime = pytest.importorskip("qbruntime")

# sections 1, 3, 6, 9, 18: names of the package itself
MODULE = """
__api_version__
__git_version__
__product__
__vendor__
__version__
version
estimate_memory(path, model_config=None)
get_available_device_numbers(device_name=None)
get_available_devices()
get_model_summary(mxq_path)
load(path, model_config=None)
set_log_level(level)
start_tracing_events(path)
stop_tracing_events()
"""
ERRORS = """
QbBufferError QbCancelledError QbClosedError QbDeviceLostError
QbDeviceNotFoundError QbDtypeError QbInvalidArgumentError QbModelFileError
QbNotAliveError QbOutOfMemoryError QbRuntimeError QbShapeError QbTimeoutError
QbUnsupportedError
"""
CLASSES = {
    # section 7
    "Accelerator": """
Accelerator(device_name=None, dev_no=None)
allocate_pinned_memory(shape, dtype=None, *, require_contiguous=False, alignment=64)
close()
core_states()
counters()
events(first_sequence=1)
firmware()
get_available_cores()
get_device_name()
import_pinned_memory(fd, shape, dtype, *, offset=0)
info()
sensors()
supported_core_modes()
""",
    # section 8
    "ModelConfig": """
ModelConfig(num_cores=None)
exclude(cluster, core=None)
exclude_all_cores()
force_single_npu_bundle(npu_bundle_index)
get_activation_slots()
get_async_pipeline_enabled()
get_clusters()
get_core_allocation_policy()
get_core_ids()
get_core_mode()
get_forced_npu_bundle_index()
get_num_cores()
include(cluster, core=None)
include_all_cores()
set_activation_slots(count)
set_async_pipeline_enabled(enable)
set_auto_core_mode()
set_auto_mode(num_cores=1)
set_global4_core_mode(clusters=None)
set_global8_core_mode()
set_global_core_mode(clusters=None)
set_manual_mode()
set_multi_core_mode(clusters=None)
set_single_core_mode(num_cores=None, core_ids=None)
""",
    # sections 9, 10 and 14.3; counters: section 23
    "Model": """
Model(path, model_config=None)
allocate_inputs(variant_idx=0)
allocate_outputs(variant_idx=0)
counters()
dispose()
get_activation_slots()
get_cache_infos()
get_core_mode()
get_identifier()
get_input_buffer_info()
get_input_data_types()
get_input_names()
get_input_pinned_data_types()
get_input_scale()
get_model_input_data_type()
get_model_input_shape()
get_model_output_data_type()
get_model_output_shape()
get_model_path()
get_model_summary()
get_model_variant_handle(variant_idx)
get_num_model_variants()
get_output_buffer_info()
get_output_data_types()
get_output_names()
get_output_pinned_data_types()
get_output_scale()
get_target_cores()
infer(inputs, outputs=None, cache_size=0, params=None, *, layout='auto')
infer_async(inputs)
infer_async_to_float(inputs)
infer_chw(inputs, outputs=None, cache_size=0, params=None)
infer_chw_to_float(inputs, cache_size=0)
infer_hwc(inputs, outputs=None, cache_size=0, params=None)
infer_hwc_to_float(inputs, cache_size=0)
infer_pinned_memory(inputs, outputs=None, *, cache_size=0)
infer_pinned_memory_async(inputs, outputs=None)
infer_speedrun(variant_idx=0)
infer_to_float(inputs, cache_size=0)
is_target(core_id)
launch(acc)
supported_core_modes()
target_cores
try_infer_async(inputs)
""",
    # section 11
    "Future": """
Future()
add_done_callback(fn)
cancel()
done()
exception(timeout=None)
fileno()
get()
wait_for(timeout_ms)
""",
    # section 14
    "PinnedMemory": """
PinnedMemory(_pinned_memory)
contiguity()
cpu_access(write=False)
device_address()
dtype()
export_fd()
fill(value, /)
free()
is_available()
itemsize
nbytes
ndim
shape()
size()
tensor()
strides
""",
    # section 16
    "ModelVariantHandle": """
ModelVariantHandle()
get_input_buffer_info()
get_input_scale()
get_model_input_shape()
get_model_output_shape()
get_output_buffer_info()
get_output_scale()
get_variant_idx()
""",
    "CoreId": """
CoreId(cluster=Cluster.Error, core=Core.Error)
cluster
core
""",
    "Scale": """
Scale(scale, is_uniform, scale_list, zero_point=0, is_asymmetric=False)
is_asymmetric
is_uniform
scale
scale_list
zero_point
zero_points
""",
}
# section 16, and 7 for DeviceInfo: fields in their order, and methods
FIELDS = {
    "BufferInfo": """original_height original_width original_channel
reshaped_height reshaped_width reshaped_channel height width channel
max_height max_width max_channel max_cache_size""",
    "CacheInfo": "cache_type name layer_hash size num_batches",
    "DeviceInfo": """id name number kind family product clusters
local_cores_per_cluster global_cores_per_cluster core_modes dtypes memory_total
memory_free pinned_limit contiguity_classes driver driver_version uapi_version
firmware bus node numa_node container_versions serial uuid state contiguous_free
isa_version isa_features features backends limits""",
    "DeviceLimits": """max_jobs max_queues max_bindings max_programs
max_program_nbytes max_pinned_nbytes default_job_time_ns max_job_time_ns""",
    "Reading": "id name place value",
    "CoreState": "core_id activity queued jobs busy_time_ns resets",
    "DeviceEvent": "sequence time_ns kind status core_id args",
    "FirmwareInfo": "version build crc is_secure heartbeat_ns uptime_ns",
}
METHODS = {
    "BufferInfo": """original_size() reshaped_size() size() original_shape()
original_shape_chw() reshaped_shape() reshaped_shape_chw() shape() shape_chw()"""
}
# what Python's syntax asks for
PROTOCOLS = {
    "Accelerator": "__enter__ __exit__",
    "Future": "__await__",
    "Model": "__copy__ __deepcopy__ __enter__ __exit__",
    "ModelConfig": "__eq__ __reduce__ __setstate__",
    "ModelVariantHandle": "",
    "PinnedMemory": """__array__ __array_interface__ __dlpack__
__dlpack_c_exchange_api__ __dlpack_device__ __enter__ __exit__ __getitem__
__iter__ __len__ __reduce__ __reduce_ex__ __setitem__""",
    "CoreId": "__eq__ __getstate__ __hash__ __lt__",
    "Scale": "__eq__ __getitem__ __getstate__",
}
MODULES = {
    "accelerator": """Accelerator CoreId CoreState DeviceEvent DeviceInfo DeviceLimits
FirmwareInfo Reading get_available_device_numbers get_available_devices""",
    "future": "Future",
    "model": """BufferInfo CacheInfo Cluster Core CoreId CoreMode Model ModelConfig
Scale estimate_memory load""",
    "model_variant_handle": "BufferInfo ModelVariantHandle Scale",
    "pinned_memory": "PinnedMemory",
    "type": """BufferInfo CacheInfo CacheType Cluster Core CoreAllocationPolicy CoreId
CoreMode CoreState DataType DeviceEvent DeviceInfo DeviceLimits FirmwareInfo LogLevel
ModelConfig Reading Scale StatusCode get_available_device_numbers
get_available_devices get_model_summary""",
    "version": """__api_version__ __git_version__ __product__ __vendor__
__version__""",
}


def public(names):
    return {name for name in names if not name.startswith("_")}


def lines(text):
    return set(text.strip().splitlines())


def signature(name, function, has_self=False):
    """A line of the tables."""
    given = list(inspect.signature(function).parameters.values())[has_self:]
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty) for parameter in given
    ]
    return name + str(inspect.Signature(bare))


def members(cls, base=object):
    """The public members of a class, as lines; what raises is none."""
    for name in public(dir(cls)) - public(dir(base)):
        if hasattr(cls, name):
            member = getattr(cls, name)
            is_call = callable(member)
            yield signature(name, member, True) if is_call else name


def test_names_of_the_package():
    due = {line.partition("(")[0] for line in lines(MODULE)}
    due |= {*ERRORS.split(), *CLASSES, *FIELDS, *ENUMS, "StatusCode", "QbLayoutWarning"}
    assert set(qbruntime.__all__) == due
    assert len(qbruntime.__all__) == len(due)
    # the bridge's have their names to themselves (tensor-interop.md, section 9)
    ours = public(vars(qbruntime)) - {"qbruntime", "payload", "streams", *MODULES}
    assert ours == public(due) - {"version"}
    for line in lines(MODULE):
        name, bracket, _ = line.partition("(")
        if bracket:
            assert signature(name, getattr(qbruntime, name)) == line


# Q007
@pytest.mark.parametrize("name", MODULES)
def test_names_of_a_module(name):
    module = importlib.import_module(f"qbruntime.{name}")
    due = set(MODULES[name].split())
    assert set(module.__all__) == due and len(module.__all__) == len(due)
    for item in public(due):
        assert getattr(module, item) is getattr(qbruntime, item)


# Q819: no call of ours changes its parameters
@pytest.mark.parametrize("name", CLASSES)
def test_members_of_a_class(name):
    cls = getattr(qbruntime, name)
    made, *others = CLASSES[name].strip().splitlines()
    assert signature(name, cls) == made
    assert set(members(cls)) == set(others)


# of every class, or of how it is made in C or Python
OTHER = """__doc__ __init__ __module__ __new__ __repr__ __slots__ __hash__
__ge__ __gt__ __le__ __lt__ __ne__ __delitem__ __weaklistoffset__ __buffer__
__release_buffer__ __slotnames__ __firstlineno__ __static_attributes__"""


@pytest.mark.parametrize("name", PROTOCOLS)
def test_protocols_of_a_class(name):
    cls = getattr(qbruntime, name)
    due = set(PROTOCOLS[name].split())
    ours = {item for item in vars(cls) if re.fullmatch("__.*__", item)}
    assert due - ours == set() and ours - due - set(OTHER.split()) == set()


@pytest.mark.parametrize("name", FIELDS)
def test_fields_of_a_value(name):
    cls = getattr(qbruntime, name)
    fields = FIELDS[name].split()
    assert signature(name, cls) == f"{name}({', '.join(fields)})"
    due = {*fields, *METHODS.get(name, "").split()}
    assert set(members(cls, tuple)) - due == set()
    assert due - set(members(cls, tuple)) == {"index", "count"} & due


# Q560 Q561 Q562 Q563 Q564 Q565 Q566 Q575
def test_enumerations_are_these_and_no_others():
    ours = {
        name
        for name in qbruntime.__all__
        if isinstance(getattr(qbruntime, name), enum.EnumMeta)
    }
    assert ours == {*ENUMS, "StatusCode"}
    spellings = {level.upper() for level in ENUMS["LogLevel"]}
    for name, values in ENUMS.items():
        own = getattr(qbruntime, name).__members__
        aliases = spellings if name == "LogLevel" else set()
        assert set(own) == {*values, *aliases}
        assert {member: int(own[member]) for member in values} == values


def read_codes():
    """Number and name of each status in the tables of section 18.2."""
    text = (TOP / "docs/spec/qbruntime-api.md").read_text(encoding="utf-8")
    text = text[text.index("**Q600**") : text.index("| Q610 |")]
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for numbers, names in zip(cells[::2], cells[1::2]):
            if re.fullmatch("[0-9, ]+", numbers):
                found = re.findall("`([A-Za-z0-9_]+)`", names)
                yield from zip(map(int, numbers.split(",")), found)


# Q568 Q600 Q605
def test_status_codes_are_those_of_the_page():
    codes = dict(read_codes())
    assert len(codes) > 100 and not {31, 1066} & set(codes)
    assert {int(code): code.name for code in qbruntime.StatusCode} == codes


# Q596
def test_exceptions():
    own = {"status", "code_name", "detail", "device"}
    for name in ERRORS.split():
        error = getattr(qbruntime, name)
        bases = [base for base in error.__bases__ if not hasattr(base, "status")]
        names = public(dir(error)) - set().union(*map(dir, [RuntimeError, *bases]))
        assert names == own
