// SPDX-License-Identifier: MIT
/*
 * Arrays that are pinned memory: used where they lie, or copied where that
 * would change what the call promises.
 */
#include "check-infer-array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "count-alloc.h"
#include "counters.h"
#include "model.h"
#include "pinned-memory.h"
#include "soft/soft.h"
#include "uapi/qbnpu_drm.h"
#include "util.h"

#define NUM_CALLS 100

/* Two pinned buffers of 4096 bytes. */
struct place_rig {
	struct array_rig rig;
	struct qbrt_pinned_memory *mems[2];
	uint8_t *from, *to;
};

static void open_rig(struct place_rig *place, struct qbrt_model *model)
{
	static const int64_t shape[] = { 4096 };

	array_rig_open(&place->rig, model);
	for (int i = 0; i < 2; i++)
		ck_assert_ok(qbrt_pinned_memory_alloc(
			place->rig.acc, QBRT_DTYPE_UINT8, shape, 1, NULL,
			&place->mems[i]));
	place->from = (uint8_t *)place->mems[0]->data;
	place->to = (uint8_t *)place->mems[1]->data;
}

static void close_rig(struct place_rig *place)
{
	for (int i = 0; i < 2; i++)
		qbrt_pinned_memory_free(place->mems[i]);
	array_rig_close(&place->rig);
}

/* One inference of 64 bytes; how many were copied, or the status. */
static enum qbrt_status infer_at(const struct place_rig *place, uint8_t *from,
				 uint8_t *to, uint64_t *copied)
{
	const struct qbrt_array in = ARRAY(from, UINT8, 64);
	const struct qbrt_array out = ARRAY(to, UINT8, 64);
	uint64_t before = get_array_counters(place->rig.model).copied_nbytes;
	enum qbrt_status status = array_infer(&place->rig, NULL, &in, &out);

	*copied = get_array_counters(place->rig.model).copied_nbytes - before;
	return status;
}

/* It succeeds, is right, copies so much, and leaves no use behind. */
static void check_at(const struct place_rig *place, uint8_t *from, uint8_t *to,
		     uint64_t expected)
{
	static unsigned int seed;
	uint64_t copied;

	fill_bytes(from, 64, ++seed);
	ck_assert_ok(infer_at(place, from, to, &copied));
	ck_assert(holds_bytes(to, 64, seed));
	ck_assert_uint_eq(copied, expected);
}

/* P58 H112: in place in whole, or one side of it. */
START_TEST(pinned_arrays_are_used_where_they_lie)
{
	uint8_t host[64] __attribute__((aligned(64)));
	struct place_rig place;

	open_rig(&place, models_load_copy64());
	check_at(&place, place.from, place.to, 0);
	/* nothing was staged */
	ck_assert_uint_eq(place.rig.model->launched->staging.num_sets, 0);
	check_at(&place, place.from + 1024, place.to + 64, 0);
	/* other host memory: exactly its bytes, once */
	check_at(&place, host, place.to, 64);
	check_at(&place, place.from, host, 64);
	ck_assert_uint_eq(place.rig.model->launched->staging.num_sets, 1);
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_eq(atomic_load(&place.mems[i]->storage->uses),
				  0);
		ck_assert_uint_eq(
			atomic_load(&place.mems[i]->storage->references), 1);
	}
	close_rig(&place);
}
END_TEST

/* P58: not where the device would not take it, or others would lose by it. */
START_TEST(pinned_arrays_that_do_not_fit_are_copied)
{
	struct place_rig place;
	struct qbrt_pinned_memory *same;
	int fd;

	open_rig(&place, models_load_copy64());
	/* not aligned */
	check_at(&place, place.from + 16, place.to, 64);
	check_at(&place, place.from, place.to + 8, 64);
	/* a job has the whole storage of an output alone */
	check_at(&place, place.from, place.from + 64, 64);
	/* which is another address of the same memory */
	ck_assert_ok(qbrt_pinned_memory_export_fd(place.mems[0], &fd));
	ck_assert_ok(qbrt_pinned_memory_import_fd(
		place.rig.acc, fd, 0, QBRT_DTYPE_UINT8,
		(const int64_t[]){ 4096 }, 1, &same));
	ck_assert_int_eq(close(fd), 0);
	check_at(&place, place.from, (uint8_t *)same->data + 128, 64);
	qbrt_pinned_memory_free(same);
	close_rig(&place);
}
END_TEST

/* P58: its layout is not the device's. */
START_TEST(arrays_of_other_strides_are_copied)
{
	static const int64_t shape[] = { 64 };
	static const int64_t strides[] = { 2 };
	struct place_rig place;
	struct qbrt_array in, out;

	open_rig(&place, models_load_copy64());
	in = (struct qbrt_array){ place.from,       shape, strides, 1,
				  QBRT_DTYPE_UINT8, 0 };
	out = (struct qbrt_array)ARRAY(place.to, UINT8, 64);
	for (int i = 0; i < 64; i++)
		place.from[2 * i] = (uint8_t)i;
	ck_assert_ok(array_infer(&place.rig, NULL, &in, &out));
	for (int i = 0; i < 64; i++)
		ck_assert_uint_eq(place.to[i], i);
	ck_assert_uint_eq(get_array_counters(place.rig.model).copied_nbytes,
			  64);
	close_rig(&place);
}
END_TEST

/* Q335: item behind item as the device steps, or else not. */
START_TEST(a_batch_in_pinned_memory_stays_there)
{
	struct place_rig place;

	open_rig(&place, models_load_copy64());
	for (int64_t n = 1; n <= 40; n++) {
		const struct qbrt_array in = ARRAY(place.from, UINT8, n, 64);
		const struct qbrt_array out = ARRAY(place.to, UINT8, n, 64);

		fill_bytes(place.from, 4096, (unsigned int)n);
		memset(place.to, 0xee, 4096);
		ck_assert_ok(array_infer(&place.rig, NULL, &in, &out));
		ck_assert_mem_eq(place.to, place.from, (size_t)n * 64);
		ck_assert(holds_value(place.to + n * 64, 4096 - (size_t)n * 64,
				      0xee));
	}
	ck_assert_uint_eq(get_array_counters(place.rig.model).copied_nbytes, 0);
	close_rig(&place);
	open_rig(&place, models_load_copy(100, 0));
	{
		const struct qbrt_array in = ARRAY(place.from, UINT8, 20, 100);
		const struct qbrt_array out = ARRAY(place.to, UINT8, 20, 100);

		fill_bytes(place.from, 4096, 1);
		ck_assert_ok(array_infer(&place.rig, NULL, &in, &out));
		ck_assert_mem_eq(place.to, place.from, 2000);
		ck_assert_uint_eq(
			get_array_counters(place.rig.model).copied_nbytes,
			4000);
	}
	close_rig(&place);
}
END_TEST

/* H112: who is in the way of an output, or has an input open, loses nothing. */
START_TEST(memory_in_use_is_copied_as_any_other)
{
	struct place_rig place;
	struct qbrt_storage *storage;

	open_rig(&place, models_load_copy64());
	storage = place.mems[1]->storage;
	ck_assert(qbrt_storage_begin_write(storage));
	check_at(&place, place.from, place.to, 128);
	qbrt_storage_end_write(storage);
	check_at(&place, place.from, place.to, 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_ok(qbrt_pinned_memory_begin_cpu_access(
			place.mems[i], i ? QBRT_CPU_READ : QBRT_CPU_WRITE));
		/* and it alone */
		check_at(&place, place.from, place.to, 64);
		ck_assert_ok(qbrt_pinned_memory_end_cpu_access(place.mems[i]));
	}
	ck_assert_ok(qbrt_pinned_memory_begin_cpu_access(place.mems[0],
							 QBRT_CPU_READ));
	check_at(&place, place.from, place.to, 0);
	ck_assert_ok(qbrt_pinned_memory_end_cpu_access(place.mems[0]));
	ck_assert_uint_eq(place.rig.model->launched->staging.num_sets, 1);
	close_rig(&place);
}
END_TEST

/* H112 Q485: an input counts, an output becomes what a job makes of it. */
START_TEST(validity_goes_with_the_memory)
{
	struct place_rig place;
	uint64_t copied;

	open_rig(&place, models_load_copy64());
	qbrt_storage_invalidate(place.mems[0]->storage, QBRT_ACC_NPU_TIMEOUT,
				"the first job was late");
	ck_assert_status(infer_at(&place, place.from, place.to, &copied),
			 QBRT_TENSOR_INVALID);
	ck_assert_detail("the first job was late");
	ck_assert_uint_eq(copied, 0);
	/* a part of the memory does not make all of it valid */
	check_at(&place, place.to, place.from, 64);
	ck_assert(!qbrt_storage_is_valid(place.mems[0]->storage));
	place.mems[0]->storage->nbytes = 64;
	check_at(&place, place.to, place.from, 0);
	ck_assert(qbrt_storage_is_valid(place.mems[0]->storage));
	close_rig(&place);
}
END_TEST

/* Q331 Q485: zeros, and no result; a call that began nothing changes nothing. */
START_TEST(a_job_that_fails_leaves_zeros_in_place)
{
	static const struct qbrt_infer_options hurried = {
		.size = sizeof(hurried),
		.timeout = 200 * QBRT_NS_PER_MS,
	};
	struct place_rig place;
	struct qbrt_array in, out;

	/* it has begun by then, on a slow machine too */
	open_rig(&place, models_load_slow(60000, 0));
	in = (struct qbrt_array)ARRAY(place.from, UINT8, 64);
	out = (struct qbrt_array)ARRAY(place.to + 64, UINT8, 64);
	memset(place.to, 0xee, 4096);
	qbnpu_soft_fail(DRM_IOCTL_QBNPU_SUBMIT, 1, ETIME);
	ck_assert_status(array_infer(&place.rig, NULL, &in, &out),
			 QBRT_ACC_NPU_TIMEOUT);
	ck_assert(holds_value(place.to, 4096, 0xee));
	ck_assert_status(array_infer(&place.rig, &hurried, &in, &out),
			 QBRT_ACC_NPU_TIMEOUT);
	ck_assert(holds_value(place.to, 64, 0xee));
	ck_assert(holds_value(place.to + 64, 64, 0));
	ck_assert(holds_value(place.to + 128, 4096 - 128, 0xee));
	ck_assert(!qbrt_storage_is_valid(place.mems[1]->storage));
	ck_assert_uint_eq(atomic_load(&place.mems[1]->storage->uses), 0);
	close_rig(&place);
}
END_TEST

/* An output of one device is no output of another. */
START_TEST(memory_of_another_device_is_copied)
{
	static const int64_t shape[] = { 64 };
	struct qbrt_accelerator *other;
	struct qbrt_pinned_memory *mem;
	struct place_rig place;

	ck_assert_int_eq(setenv("QBRUNTIME_SOFT_DEVICES", "aries:2", 1), 0);
	open_rig(&place, models_load_copy64());
	ck_assert_ok(qbrt_accelerator_open(NULL, 1, &other));
	ck_assert_ok(qbrt_pinned_memory_alloc(other, QBRT_DTYPE_UINT8, shape, 1,
					      NULL, &mem));
	check_at(&place, (uint8_t *)mem->data, place.to, 64);
	check_at(&place, place.from, (uint8_t *)mem->data, 64);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(other);
	close_rig(&place);
}
END_TEST

/* P58: and in the steady state nothing is allocated either. */
START_TEST(calls_in_place_allocate_nothing)
{
	struct place_rig place;
	struct qbrt_array in, out;
	bool is_good = true;

	open_rig(&place, models_load_copy64());
	in = (struct qbrt_array)ARRAY(place.from, UINT8, 64);
	out = (struct qbrt_array)ARRAY(place.to, UINT8, 64);
	ck_assert_ok(array_infer(&place.rig, NULL, &in, &out));
	count_alloc_begin(0);
	for (int i = 0; i < NUM_CALLS; i++)
		is_good &= !array_infer(&place.rig, NULL, &in, &out);
	ck_assert_int_eq(count_alloc_end(), 0);
	ck_assert(is_good);
	ck_assert_uint_eq(get_array_counters(place.rig.model).copied_nbytes, 0);
	close_rig(&place);
}
END_TEST

/* P58: as many as a program can have; in place, and as other host memory. */
START_TEST(all_bindings_are_used_where_they_lie)
{
	static const int64_t shape[] = { 64 };
	static uint8_t host[2][4096];
	struct qbrt_array in[QBNPU_MAX_BINDINGS - 1];
	struct prog prog;
	const struct models_spec spec = { .programs = { &prog },
					  .num_programs = 1 };
	struct place_rig place;
	uint16_t last = 0;

	prog_begin(&prog);
	for (size_t i = 0; i < qbrt_array_size(in); i++)
		last = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(64));
	prog_copy(&prog, last, prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64)));
	open_rig(&place, models_load(&spec));
	for (unsigned int is_host = 0; is_host < 2; is_host++) {
		uint8_t *from = is_host ? host[0] : place.from;
		const struct qbrt_array out =
			ARRAY(is_host ? host[1] : place.to, UINT8, 64);

		for (size_t i = 0; i < qbrt_array_size(in); i++)
			in[i] = (struct qbrt_array){ .data = from + i * 64,
						     .shape = shape,
						     .ndim = 1,
						     .dtype =
							     QBRT_DTYPE_UINT8 };
		fill_bytes(from, 4096, is_host);
		ck_assert_ok(qbrt_model_infer(place.rig.model, NULL, in,
					      qbrt_array_size(in), &out, 1));
		ck_assert_mem_eq(out.data, in[62].data, 64);
		ck_assert_uint_eq(
			get_array_counters(place.rig.model).copied_nbytes,
			is_host * 64 * QBNPU_MAX_BINDINGS);
	}
	for (int i = 0; i < 2; i++)
		ck_assert_uint_eq(
			atomic_load(&place.mems[i]->storage->references), 1);
	close_rig(&place);
	prog_end(&prog);
}
END_TEST

void add_array_place_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(pinned_arrays_are_used_where_they_lie),
		QBRT_TEST(pinned_arrays_that_do_not_fit_are_copied),
		QBRT_TEST(arrays_of_other_strides_are_copied),
		QBRT_TEST(a_batch_in_pinned_memory_stays_there),
		QBRT_TEST(memory_in_use_is_copied_as_any_other),
		QBRT_TEST(validity_goes_with_the_memory),
		QBRT_TEST(a_job_that_fails_leaves_zeros_in_place),
		QBRT_TEST(memory_of_another_device_is_copied),
		QBRT_TEST(calls_in_place_allocate_nothing),
		QBRT_TEST(all_bindings_are_used_where_they_lie),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
