// SPDX-License-Identifier: MIT
// A library made with nanobind: it takes arrays, and gives views of its own.
#include <cstring>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

// keeps an array as nanobind hands it over
struct Holder {
	nb::ndarray<nb::ro> array;
	bool is_writable;
};

static Holder take(nb::object source)
{
	nb::ndarray<> writable;
	nb::ndarray<nb::ro> array;

	if (nb::try_cast(source, writable))
		return {nb::ndarray<nb::ro>(writable), true};
	if (!nb::try_cast(source, array))
		throw nb::type_error("no array");
	return {array, false};
}

static size_t address(const Holder &held)
{
	return reinterpret_cast<size_t>(held.array.data());
}

static nb::tuple type(const Holder &held)
{
	const nb::dlpack::dtype dtype = held.array.dtype();

	return nb::make_tuple(dtype.code, dtype.bits, dtype.lanes);
}

static std::vector<int64_t> shape(const Holder &held)
{
	return {held.array.shape_ptr(), held.array.shape_ptr() + held.array.ndim()};
}

static std::vector<int64_t> strides(const Holder &held)
{
	return {held.array.stride_ptr(), held.array.stride_ptr() + held.array.ndim()};
}

// all bytes of a compact array
static void write_bytes(const Holder &held, nb::bytes bytes)
{
	if (!held.is_writable || held.array.nbytes() != bytes.size())
		throw nb::value_error("expects a writable array of as many bytes");
	memcpy(const_cast<void *>(held.array.data()), bytes.data(), bytes.size());
}

static nb::ndarray<nb::array_api> give(const Holder &held)
{
	return nb::ndarray<nb::array_api>(held.array);
}

// a view of memory of its own that begins at byte_offset; strides in elements
static nb::ndarray<nb::array_api> view(nb::bytes bytes, std::vector<size_t> extents,
	std::vector<int64_t> steps, uint64_t byte_offset, uint8_t code, uint8_t bits)
{
	char *data = new char[bytes.size() + 1];
	nb::capsule owner(data, [](void *p) noexcept { delete[] static_cast<char *>(p); });

	memcpy(data, bytes.data(), bytes.size());
	return {data, extents.size(), extents.data(), owner, steps.data(),
		nb::dlpack::dtype{code, bits, 1}, nb::device::cpu::value, 0, 'C', byte_offset};
}

NB_MODULE(nanobind_peer, module)
{
	nb::class_<Holder>(module, "Holder")
		.def_prop_ro("address", address)
		.def_prop_ro("dtype", type)
		.def_prop_ro("shape", shape)
		.def_prop_ro("strides", strides)
		.def_ro("is_writable", &Holder::is_writable)
		.def("write", write_bytes)
		.def("give", give);
	module.def("take", take);
	module.def("view", view);
}
