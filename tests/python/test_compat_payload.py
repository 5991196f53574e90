# SPDX-License-Identifier: MIT
"""Payload identities and Tensor as Holoscan's page of holoscan.payload has them,
sentence by sentence in our words, and the tests that prove them. What needs streams
or memory of CUDA has the rows that wait for these (tests/rows-later.txt):

the module has PayloadType, Tensor, resolve and thirteen identities:
    test_the_module_has_its_public_names_and_no_others, test_the_built_in_set
PayloadType is the token of a registered identity:
    test_users_do_not_construct_identities, test_a_name_is_resolved_to_its_token
epoch is an int, name a str, transport_profile_tag an int:
    test_a_token_has_a_name_an_epoch_and_a_tag, test_tags
a call of a token with any arguments does not return:
    test_a_token_is_no_constructor
it is compared with any object, and the answer is a bool:
    test_equality_takes_any_object
it has a hash, an int:
    test_tokens_are_keys
its repr is a str:
    test_text_and_tag_are_the_same_in_every_process
resolve(name) gives the identity of a name:
    test_a_name_is_resolved_to_its_token, test_an_unknown_name_is_a_key_error
Tensor is an array of any number of axes that others take, and give, by DLPack and
array interfaces:
    test_default_buffers_go_into_numpy, test_default_buffers_go_into_torch,
    test_array_interfaces, test_size_and_shape
it wraps a managed tensor of DLPack:
    test_a_struct_becomes_a_tensor, test_who_is_kept_by_an_import
one is a cheap handle of memory, and of what may be done with it, that others share:
    test_handles_share_a_storage, test_nothing_is_copied
what is imported without a copy is read-only:
    test_an_import_is_read_only_for_good
who wants to write allocates and copies:
    test_a_copy_is_writable_and_contiguous, test_an_import_is_read_only_for_good
__array_interface__ is NumPy's dict of memory of the host, CUDA's pinned too:
    test_the_array_interface_of_host_memory,
    test_a_writable_tensor_gives_a_writable_view
of memory of a device it is an AttributeError:
    H38
it has no stream, so who asks waits for what is being written:
    test_what_a_job_writes_is_waited_for_without_the_gil
of what the host has written it comes at once:
    test_what_a_job_writes_is_waited_for_without_the_gil
__cuda_array_interface__ is there for memory of CUDA, managed too:
    H39
of memory of the host it is an AttributeError:
    test_the_array_interface_of_host_memory
it says stream 1, and work is ordered before that stream first:
    H45, H46, H47
__dlpack_c_exchange_api__ is there:
    test_the_table_is_one_capsule_of_the_types
byte_offset is an int, from the memory's start to the data:
    test_data_and_byte_offset, test_memory_of_ours_has_no_byte_offset
data is an address, an int:
    test_data_and_byte_offset
device is DLPack's pair:
    test_the_device_is_a_pair
dtype is DLPack's triple:
    test_dtypes_of_numpy, test_dtypes_that_numpy_lacks
is_read_only says whether the memory is so for good, a bool:
    test_read_only_never_changes, test_an_import_is_read_only_for_good
itemsize counts bytes of an element:
    test_dtypes_of_numpy, test_dtypes_that_are_taken
nbytes counts bytes of all:
    test_dtypes_of_numpy, test_strides_are_bytes
ndim counts axes:
    test_size_and_shape
shape is a tuple of int:
    test_size_and_shape
size counts elements:
    test_size_and_shape
strides is a tuple of int, in bytes:
    test_size_and_shape, test_strides_are_bytes
__dlpack__() gives a PyCapsule:
    test_without_arguments_it_is_a_legacy_capsule
its arguments have these names, this order, and may all be left out:
    test_arguments_by_place_and_by_name
stream None and 1 are the legacy default stream, 2 is that of the thread, a larger
one a pointer:
    H57, H58, H60
it may be an object whose __cuda_stream__() gives (0, pointer):
    test_a_stream_may_be_an_object, test_a_broken_stream_exports_nothing
stream is ignored for memory of the host:
    test_a_stream_has_no_effect_on_host_memory
max_version whose major is 1 or more selects the versioned capsule:
    test_max_version_selects_the_capsule
dl_device asks for a device, and for a copy if it is another one:
    test_its_own_device_needs_no_copy,
    test_memory_pinned_for_cuda_is_copied_to_the_cpu, test_another_device_is_refused
copy=True asks for a contiguous copy of its own:
    test_a_copy_owns_its_memory
copy=False refuses another dl_device:
    test_memory_pinned_for_cuda_is_copied_to_the_cpu, test_another_device_is_refused
read-only memory without a versioned capsule is a BufferError:
    test_read_only_memory_needs_a_versioned_capsule
memory of CUDA that went out with stream 2 or -1 is retired with its device's work:
    H58, H59, H106
stream -1 orders nothing:
    H59
__dlpack_device__() is the pair of device, two int:
    test_the_device_is_a_pair
memory of CUDA has its own number there, all else 0:
    test_the_device_is_a_pair, B33
as_tensor(obj, stream=None) is static and makes a Tensor without a copy:
    test_nothing_is_copied, test_arguments_by_name
obj has DLPack or an array interface:
    test_what_offers_no_protocol_is_a_type_error,
    test_the_protocol_is_chosen_by_presence
its stream is an int or an object with __cuda_stream__():
    test_a_stream_may_be_an_object
without one it is the current stream, else the legacy default one:
    H87
a producer of DLPack is asked for that stream:
    H89
one with an array interface or an exchange table keeps what it says is ready, and a
stream that is given comes after it:
    H94
stream 0 is invalid, 1 and the null stream's object are not:
    test_streams_that_order_nothing_are_refused, test_a_stream_may_be_an_object
a Tensor keeps its producer alive:
    test_who_is_kept_by_an_import, test_one_lifetime_through_each_protocol
also until queued work is done, wherever the last of it is dropped:
    H102, H103
views outlive the session:
    test_views_outlive_everything
a view may go on any thread, and by the garbage collector:
    test_consumers_drop_where_they_like, test_one_lifetime_through_each_protocol,
    H105, H107, H108
CUDA's array interface, an exchange without order and exports to a thread's stream
wait for all work of the device at the end:
    H106
what is ready is what was ready at the import, and another import asks anew:
    H97
a read-only Tensor that is imported is given back, a writable one wrapped anew:
    test_a_tensor_that_is_imported_again
the exchange table comes first, then DLPack, CUDA's array interface, NumPy's:
    test_the_protocol_is_chosen_by_presence,
    test_a_failure_of_the_chosen_protocol_is_final
DLPack hands the memory over, whatever becomes of the source:
    test_who_is_kept_by_an_import
the exchange table makes no capsule:
    test_the_protocol_is_chosen_by_presence
from_dlpack(obj, stream=None) is static and makes a Tensor without a copy:
    test_nothing_is_copied, test_arguments_by_name
obj has __dlpack__ and __dlpack_device__:
    test_dlpack_needs_both_methods, test_the_protocol_is_chosen_by_presence
it refuses stream -1 and 0:
    test_streams_that_order_nothing_are_refused
memory of CUDA is asked for with the stream, and an event is recorded there:
    H89, H93
a stream's work is noted before the stream goes:
    H108
is_contiguous() says whether all lies dense in C order:
    test_contiguity
"""

import inspect
import re

import pytest
from runtime_cases import TOP, check_sentences

pytest.importorskip("qbruntime")
from qbruntime.payload import Tensor  # noqa: E402

METHODS = {
    "as_tensor": "(obj, stream=None)",
    "from_dlpack": "(obj, stream=None)",
    "is_contiguous": "(self, /)",
    "__dlpack_device__": "(self, /)",
    "__dlpack__": "(self, /, stream=None, max_version=None, dl_device=None, copy=None)",
}


def test_every_sentence_has_tests_or_rows_that_wait():
    later = (TOP / "tests/rows-later.txt").read_text("utf-8")
    rows = re.findall(r"^(\w+) .*\bstreams\b", later, re.MULTILINE)
    check_sentences(__doc__, 69, rows)


def test_methods_have_the_arguments_of_the_page():
    found = {name: str(inspect.signature(getattr(Tensor, name))) for name in METHODS}
    assert found == METHODS
