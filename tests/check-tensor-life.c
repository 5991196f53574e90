// SPDX-License-Identifier: MIT
/*
 * Tensors: who keeps what for how long, what is recognised, and what waits for
 * jobs.
 */
#include "test-util.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gated.h"
#include "pinned-memory.h"
#include "tensor.h"
#include "tensors.h"
#include "util.h"

/* ---- lifetimes ---- */

static void *delete_managed(void *arg)
{
	DLManagedTensorVersioned *managed = arg;

	managed->deleter(managed);
	return NULL;
}

/* L4 L5 L8 H104 PM07 B10: the export outlives all, and ends on any thread. */
START_TEST(an_export_outlives_everything)
{
	struct qbrt_pinned_memory *mem = alloc_memory();
	struct qbrt_tensor *tensor = make_tensor(mem, 0);
	DLManagedTensorVersioned *managed =
		export_versioned(tensor, QBRT_COPY_NEVER);
	pthread_t thread;

	qbrt_tensor_free(tensor);
	qbrt_pinned_memory_free(mem);
	ck_assert_double_eq((double)((float *)managed->dl_tensor.data)[5], 5);
	ck_assert_uint_eq(get_stats().storages, 1);
	ck_assert_int_eq(pthread_create(&thread, NULL, delete_managed, managed),
			 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_eq(get_stats().storages, 0);
}
END_TEST

/* H101 L1: others' memory goes back once, after the last export. */
START_TEST(foreign_memory_is_released_once_after_its_last_export)
{
	float data[6] = { 0 };
	struct qbrt_tensor *tensor = import_floats(data, NULL, 0);
	DLManagedTensorVersioned *a = export_versioned(tensor, QBRT_COPY_NEVER);
	DLManagedTensorVersioned *b = export_versioned(tensor, QBRT_COPY_NEVER);

	ck_assert_ptr_eq(a->dl_tensor.data, data);
	qbrt_tensor_free(tensor);
	a->deleter(a);
	ck_assert_int_eq(atomic_load(&num_released), 0);
	b->deleter(b);
	ck_assert_int_eq(atomic_load(&num_released), 1);
}
END_TEST

/* L7: deferred releases wait for whoever may run them. */
START_TEST(a_deferred_release_runs_in_drain_alone)
{
	float data[6] = { 0 };
	size_t num = 99;

	for (int i = 0; i < 3; i++)
		qbrt_tensor_free(
			import_floats(data, NULL, QBRT_TENSOR_DEFER_RELEASE));
	ck_assert_int_eq(atomic_load(&num_released), 0);
	ck_assert_uint_eq(get_stats().deferred_releases, 3);
	ck_assert_uint_eq(get_stats().storages, 3);
	ck_assert_ok(qbrt_bridge_drain(&num));
	ck_assert_uint_eq(num, 3);
	ck_assert_int_eq(atomic_load(&num_released), 3);
	ck_assert_uint_eq(get_stats().deferred_releases, 0);
	ck_assert_uint_eq(get_stats().storages, 0);
	ck_assert_ok(qbrt_bridge_drain(NULL));
}
END_TEST

static struct qbrt_tensor *held;

/* A release that ends another deferred import, and drains by itself. */
static void release_and_drain(void *arg)
{
	struct qbrt_tensor *other = held;

	held = NULL;
	qbrt_tensor_free(other);
	ck_assert_ok(qbrt_bridge_drain(NULL));
	count_release(arg);
}

START_TEST(a_release_may_end_others_and_drain)
{
	float data[6] = { 0 };
	const int64_t shape[] = { 6 };
	const struct qbrt_tensor_desc desc = {
		.size = sizeof(desc),
		.data = data,
		.device = { .type = kDLCPU },
		.dtype = { kDLFloat, 32, 1 },
		.ndim = 1,
		.shape = shape,
	};
	const struct qbrt_tensor_import_options options = {
		.size = sizeof(options),
		.flags = QBRT_TENSOR_DEFER_RELEASE,
	};
	struct qbrt_tensor *tensor;

	held = import_floats(data, NULL, QBRT_TENSOR_DEFER_RELEASE);
	ck_assert_ok(qbrt_tensor_import_memory(&desc, release_and_drain, NULL,
					       &options, &tensor));
	qbrt_tensor_free(tensor);
	ck_assert_ok(qbrt_bridge_drain(NULL));
	ck_assert_int_eq(atomic_load(&num_released), 2);
	ck_assert_uint_eq(get_stats().deferred_releases, 0);
}
END_TEST

/* ---- memory that comes back ---- */

/* H112: also a slice of it; the deleter has done its work at once. */
START_TEST(memory_of_ours_is_recognised)
{
	struct qbrt_pinned_memory *mem = alloc_memory();
	float *data = qbrt_pinned_memory_get_data(mem);
	uint64_t num = get_stats().storages;
	struct qbrt_tensor *tensor;

	for (int i = 0; i < 200; i++)
		qbrt_tensor_free(import_floats(data, NULL, 0));
	ck_assert_int_eq(atomic_exchange(&num_released, 0), 200);
	tensor = import_floats(data, (const int64_t[]){ 4, 4 },
			       QBRT_TENSOR_DEFER_RELEASE);
	ck_assert_int_eq(atomic_load(&num_released), 1);
	ck_assert_uint_eq(get_stats().storages, num);
	ck_assert_ptr_eq(tensor->storage, mem->storage);
	ck_assert_str_eq(qbrt_tensor_get_device(tensor), "aries-rb:0");
	ck_assert(qbrt_tensor_is_read_only(tensor));
	qbrt_pinned_memory_free(mem);
	ck_assert_double_eq((double)data[5], 5);
	qbrt_tensor_free(tensor);
	ck_assert_uint_eq(get_stats().storages, num - 1);
	/* H112: not what is gone */
}
END_TEST

/* Beside it, across its end, and of a storage that has ended. */
START_TEST(other_memory_is_not_taken_for_ours)
{
	struct qbrt_pinned_memory *mem = alloc_memory();
	char *data = qbrt_pinned_memory_get_data(mem);
	size_t size = mem->storage->buffer.size;
	uintptr_t begin = (uintptr_t)data;
	struct qbrt_storage *found;

	ck_assert_ptr_null(qbrt_storage_find(begin - 1, begin + 4));
	ck_assert_ptr_null(
		qbrt_storage_find(begin + size - 4, begin + size + 1));
	ck_assert_ptr_null(qbrt_storage_find(begin + size, begin + size + 4));
	ck_assert_ptr_null(qbrt_storage_find(begin, begin));
	found = qbrt_storage_find(begin, begin + size);
	ck_assert_ptr_eq(found, mem->storage);
	qbrt_storage_unref(found);
	qbrt_pinned_memory_free(mem);
	ck_assert_ptr_null(qbrt_storage_find(begin, begin + 4));
}
END_TEST

#define NUM_MANY 64

/* The tree, by sets of buffers that come and go. */
START_TEST(each_of_many_buffers_is_found)
{
	struct qbrt_pinned_memory *many[NUM_MANY] = { NULL };
	struct qbrt_accelerator *acc;
	const int64_t shape[] = { 8 };
	unsigned int seed = 41;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	for (int round = 0; round < 2000; round++) {
		struct qbrt_pinned_memory **mem;

		seed = seed * 1103515245 + 12345;
		mem = &many[seed >> 16 & (NUM_MANY - 1)];
		if (*mem) {
			qbrt_pinned_memory_free(*mem);
			*mem = NULL;
		} else {
			ck_assert_ok(qbrt_pinned_memory_alloc(
				acc, QBRT_DTYPE_FLOAT32, shape, 1, NULL, mem));
		}
		for (int i = 0; round % 50 == 0 && i < NUM_MANY; i++) {
			uintptr_t begin;
			struct qbrt_storage *found;

			if (!many[i])
				continue;
			begin = (uintptr_t)many[i]->data;
			found = qbrt_storage_find(begin, begin + 32);
			ck_assert_ptr_eq(found, many[i]->storage);
			qbrt_storage_unref(found);
		}
	}
	for (int i = 0; i < NUM_MANY; i++)
		qbrt_pinned_memory_free(many[i]);
	qbrt_accelerator_close(acc);
}
END_TEST

/* ---- jobs ---- */

struct exporter {
	const struct qbrt_tensor *tensor;
	DLManagedTensorVersioned *managed;
	enum qbrt_status status;
	char detail[240];
};

static void *run_export(void *arg)
{
	struct exporter *exporter = arg;

	exporter->status = qbrt_tensor_export_dlpack(exporter->tensor, NULL,
						     &exporter->managed);
	return NULL;
}

/* H42 PM11: an export waits for the job; host_blocks counts it, once. */
START_TEST(an_export_waits_for_the_job_that_writes)
{
	struct gated gated;
	struct qbrt_pinned_memory *in, *out;
	struct qbrt_future *future;
	struct exporter exporter;
	struct qbrt_tensor *tensor, *read_only;
	DLManagedTensor *legacy;
	pthread_t thread;
	bool ready = true;

	gated_open(&gated, 0);
	in = alloc_64(&gated.rig);
	out = alloc_64(&gated.rig);
	fill(in, 7);
	tensor = make_tensor(out, 0);
	future = submit(&gated.rig, in, out);
	ck_assert_ok(qbrt_tensor_query(tensor, &ready));
	ck_assert(!ready);
	ck_assert_status(qbrt_tensor_wait(tensor, 0), QBRT_TIMED_OUT);
	/* H54: what is refused anyway waits for nothing */
	read_only = make_tensor(out, QBRT_TENSOR_FLAG_READ_ONLY);
	ck_assert_status(
		qbrt_tensor_export_dlpack_legacy(read_only, NULL, &legacy),
		QBRT_TENSOR_READ_ONLY);
	qbrt_tensor_free(read_only);
	ck_assert_uint_eq(get_stats().host_blocks, 0);
	exporter = (struct exporter){ .tensor = tensor };
	ck_assert_int_eq(pthread_create(&thread, NULL, run_export, &exporter),
			 0);
	while (!get_stats().host_blocks)
		sched_yield();
	sim_finish_all(&gated.sim);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(exporter.status, QBRT_OK);
	ck_assert(holds(out, 7));
	ck_assert_uint_eq(get_stats().host_blocks, 1);
	exporter.managed->deleter(exporter.managed);
	ck_assert_ok(qbrt_tensor_wait(tensor, -1));
	ck_assert_ok(take(future));
	/* H43: nothing to wait for, nothing counted */
	ck_assert_ok(
		qbrt_tensor_export_dlpack(tensor, NULL, &exporter.managed));
	exporter.managed->deleter(exporter.managed);
	ck_assert_uint_eq(get_stats().host_blocks, 1);
	qbrt_tensor_free(tensor);
	qbrt_pinned_memory_free(in);
	qbrt_pinned_memory_free(out);
	gated_close(&gated);
}
END_TEST

/* PM14: what a failed job left half written is not handed out. */
START_TEST(half_written_memory_is_not_exported)
{
	struct qbrt_pinned_memory *mem = alloc_memory();
	struct qbrt_tensor *tensor = make_tensor(mem, 0);
	DLManagedTensorVersioned *managed;
	struct qbrt_tensor *copy;
	DLTensor borrowed;

	qbrt_storage_invalidate(mem->storage, QBRT_TIMED_OUT, "its limit");
	ck_assert_status(qbrt_tensor_export_dlpack(tensor, NULL, &managed),
			 QBRT_TENSOR_INVALID);
	ck_assert_detail("TimedOut: its limit");
	ck_assert_status(qbrt_tensor_borrow_dlpack(tensor, &borrowed),
			 QBRT_TENSOR_INVALID);
	ck_assert_status(qbrt_tensor_copy(tensor, NULL, &copy),
			 QBRT_TENSOR_INVALID);
	ck_assert_status(qbrt_tensor_wait(tensor, -1), QBRT_TENSOR_INVALID);
	ck_assert_uint_eq(get_stats().tensors, 1);
	qbrt_storage_validate(mem->storage);
	ck_assert_ok(qbrt_tensor_copy(tensor, NULL, &copy));
	qbrt_tensor_free(copy);
	qbrt_tensor_free(tensor);
	qbrt_pinned_memory_free(mem);
}
END_TEST

/* L11: a child ends what it inherited, and is told for all else. */
START_TEST(a_child_of_fork_may_end_what_it_inherited)
{
	struct qbrt_pinned_memory *mem = alloc_memory();
	struct qbrt_tensor *tensor = make_tensor(mem, 0);
	DLManagedTensorVersioned *managed =
		export_versioned(tensor, QBRT_COPY_NEVER);
	DLManagedTensorVersioned *more;
	struct qbrt_tensor *copy;
	float data[6] = { 0 };
	struct qbrt_tensor *foreign = import_floats(data, NULL, 0);
	int status;
	pid_t pid = fork();

	if (!pid) {
		bool is_good = qbrt_tensor_export_dlpack(tensor, NULL, &more) ==
				       QBRT_FORKED_PROCESS &&
			       qbrt_tensor_copy(tensor, NULL, &copy) ==
				       QBRT_FORKED_PROCESS &&
			       !qbrt_storage_find((uintptr_t)mem->data,
						  (uintptr_t)mem->data + 4);

		managed->deleter(managed);
		qbrt_tensor_free(tensor);
		qbrt_pinned_memory_free(mem);
		qbrt_tensor_free(foreign);
		_exit(is_good && atomic_load(&num_released) == 1 ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_ok(qbrt_tensor_export_dlpack(tensor, NULL, &more));
	more->deleter(more);
	managed->deleter(managed);
	qbrt_tensor_free(tensor);
	qbrt_tensor_free(foreign);
	qbrt_pinned_memory_free(mem);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(an_export_outlives_everything),
		QBRT_TEST(
			foreign_memory_is_released_once_after_its_last_export),
		QBRT_TEST(a_deferred_release_runs_in_drain_alone),
		QBRT_TEST(a_release_may_end_others_and_drain),
		QBRT_TEST(memory_of_ours_is_recognised),
		QBRT_TEST(other_memory_is_not_taken_for_ours),
		QBRT_TEST(each_of_many_buffers_is_found),
		QBRT_TEST(an_export_waits_for_the_job_that_writes),
		QBRT_TEST(half_written_memory_is_not_exported),
		QBRT_TEST(a_child_of_fork_may_end_what_it_inherited),
	};

	return qbrt_test_run("tensor-life", tests, qbrt_array_size(tests));
}
