// SPDX-License-Identifier: MIT
/*
 * Tensors under random operations of eight threads: what one makes any other
 * exports, imports again, copies, computes on or ends, while accelerators close.
 */
#include "test-util.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "tensors.h"
#include "util.h"

#define NUM_THREADS 8
#define NUM_SLOTS 8
#define SIZE 64

enum kind {
	ACCELERATOR,
	MEMORY,
	TENSOR,
	EXPORT,
	LEGACY,
	NUM_KINDS
};

/* Who takes an object out has it alone; storages are shared all the same. */
static _Atomic(void *) slots[NUM_KINDS][NUM_SLOTS];
static struct rig rig;
static unsigned int num_operations;

struct worker {
	pthread_t thread;
	unsigned int seed;
};

/* Check notes each assertion that holds: of these there are too many. */
static void expect_ok(enum qbrt_status status)
{
	if (status)
		ck_assert_ok(status);
}

static unsigned int draw(struct worker *worker, unsigned int num)
{
	worker->seed = worker->seed * 1664525 + 1013904223;
	return (worker->seed >> 16) % num;
}

static void end(enum kind kind, void *object)
{
	DLManagedTensorVersioned *managed = object;
	DLManagedTensor *legacy = object;

	if (!object)
		return;
	if (kind == ACCELERATOR)
		qbrt_accelerator_close(object);
	else if (kind == MEMORY)
		qbrt_pinned_memory_free(object);
	else if (kind == TENSOR)
		qbrt_tensor_free(object);
	else if (kind == EXPORT)
		managed->deleter(managed);
	else
		legacy->deleter(legacy);
}

static _Atomic(void *) *pick(struct worker *worker, enum kind kind)
{
	return &slots[kind][draw(worker, NUM_SLOTS)];
}

static void *take(struct worker *worker, enum kind kind)
{
	return atomic_exchange(pick(worker, kind), NULL);
}

static void put(struct worker *worker, enum kind kind, void *object)
{
	end(kind, atomic_exchange(pick(worker, kind), object));
}

/* ---- others' memory ---- */

struct record {
	DLManagedTensorVersioned managed;
	DLManagedTensor legacy;
	int64_t shape[1];
	unsigned char data[SIZE];
};

static atomic_uint num_made, num_deleted;

static void delete_record(void *arg)
{
	atomic_fetch_add(&num_deleted, 1);
	free(arg);
}

static void delete_managed(DLManagedTensorVersioned *managed)
{
	delete_record(managed->manager_ctx);
}

static void delete_legacy(DLManagedTensor *legacy)
{
	delete_record(legacy->manager_ctx);
}

/* data NULL: its own, of bytes that are all the same. */
static struct record *make_record(struct worker *worker, void *data)
{
	struct record *record = malloc(sizeof(*record));
	DLTensor tensor = {
		.device = { kDLCPU, 0 },
		.ndim = 1,
		.dtype = { kDLUInt, 8, 1 },
	};

	if (!record)
		abort();
	tensor.data = data ? data : record->data;
	tensor.shape = record->shape;
	*record = (struct record){
		.managed = {
			.version = { 1, 3 },
			.manager_ctx = record,
			.deleter = delete_managed,
			.dl_tensor = tensor,
		},
		.legacy = {
			.manager_ctx = record,
			.deleter = delete_legacy,
			.dl_tensor = tensor,
		},
		.shape = { SIZE },
	};
	memset(record->data, (int)draw(worker, 256), SIZE);
	atomic_fetch_add(&num_made, 1);
	return record;
}

static void import_record(struct worker *worker, struct record *record)
{
	const struct qbrt_tensor_import_options options = {
		.size = sizeof(options),
		.flags = draw(worker, 2) ? QBRT_TENSOR_DEFER_RELEASE : 0,
	};
	const struct qbrt_tensor_desc desc = {
		.size = sizeof(desc),
		.data = record->managed.dl_tensor.data,
		.device = { .type = kDLCPU },
		.dtype = { kDLUInt, 8, 1 },
		.ndim = 1,
		.shape = record->shape,
	};
	struct qbrt_tensor *tensor;

	switch (draw(worker, 3)) {
	case 0:
		expect_ok(qbrt_tensor_import_dlpack(&record->managed, &options,
						    &tensor));
		break;
	case 1:
		expect_ok(qbrt_tensor_import_dlpack_legacy(&record->legacy,
							   &options, &tensor));
		break;
	default:
		expect_ok(qbrt_tensor_import_memory(&desc, delete_record,
						    record, &options, &tensor));
	}
	put(worker, TENSOR, tensor);
}

/* ---- operations ---- */

static void allocate(struct worker *worker)
{
	struct qbrt_accelerator *acc = take(worker, ACCELERATOR);
	struct qbrt_pinned_memory *mem;

	if (!acc)
		expect_ok(qbrt_accelerator_open(NULL, -1, &acc));
	expect_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8,
					   (const int64_t[]){ SIZE }, 1, NULL,
					   &mem));
	memset(qbrt_pinned_memory_get_data(mem), (int)draw(worker, 256), SIZE);
	put(worker, MEMORY, mem);
	put(worker, ACCELERATOR, acc);
}

static void import_foreign(struct worker *worker)
{
	import_record(worker, make_record(worker, NULL));
}

/* What comes back is recognised, as it is or in another's struct. */
static void import_own(struct worker *worker)
{
	struct qbrt_pinned_memory *mem = take(worker, MEMORY);

	if (!mem)
		return;
	import_record(worker,
		      make_record(worker, qbrt_pinned_memory_get_data(mem)));
	put(worker, MEMORY, mem);
}

static void import_export(struct worker *worker)
{
	DLManagedTensorVersioned *managed = take(worker, EXPORT);
	struct qbrt_tensor *tensor;

	if (!managed)
		return;
	expect_ok(qbrt_tensor_import_dlpack(managed, NULL, &tensor));
	put(worker, TENSOR, tensor);
}

static void view(struct worker *worker)
{
	struct qbrt_pinned_memory *mem = take(worker, MEMORY);

	if (!mem)
		return;
	put(worker, TENSOR,
	    make_tensor(mem, draw(worker, 2) ? QBRT_TENSOR_FLAG_READ_ONLY : 0));
	put(worker, MEMORY, mem);
}

/* No job writes while it reads: the bytes are all the same. */
static void copy(struct worker *worker)
{
	struct qbrt_tensor *tensor = take(worker, TENSOR);
	const unsigned char *data;
	struct qbrt_tensor *result;

	if (!tensor)
		return;
	expect_ok(qbrt_tensor_copy(tensor, NULL, &result));
	data = qbrt_tensor_get_first_element(result);
	if (memcmp(data, data + 1, SIZE - 1))
		ck_abort_msg("bytes of two writers");
	put(worker, TENSOR, result);
	put(worker, TENSOR, tensor);
}

static void export(struct worker *worker)
{
	struct qbrt_tensor *tensor = take(worker, TENSOR);
	DLManagedTensor *legacy;
	DLTensor borrowed;

	if (!tensor)
		return;
	put(worker, EXPORT,
	    export_versioned(tensor, draw(worker, 4) ? QBRT_COPY_NEVER
						     : QBRT_COPY_ALWAYS));
	if (!qbrt_tensor_is_read_only(tensor)) {
		expect_ok(qbrt_tensor_export_dlpack_legacy(tensor, NULL,
							   &legacy));
		put(worker, LEGACY, legacy);
		expect_ok(qbrt_tensor_borrow_dlpack(tensor, &borrowed));
	}
	put(worker, TENSOR, tensor);
}

/* The output is refused while a copy reads it. */
static void infer(struct worker *worker)
{
	struct qbrt_pinned_memory *in = take(worker, MEMORY);
	struct qbrt_pinned_memory *out = take(worker, MEMORY);
	enum qbrt_status status = QBRT_OK;

	if (in && out)
		status = qbrt_model_infer_pinned_memory(rig.model, NULL, &in, 1,
							&out, 1);
	if (status != QBRT_PINNED_MEMORY_IN_USE)
		expect_ok(status);
	put(worker, MEMORY, in);
	put(worker, MEMORY, out);
}

static void drain(struct worker *worker)
{
	(void)worker;
	expect_ok(qbrt_bridge_drain(NULL));
}

static void drop(struct worker *worker)
{
	enum kind kind = draw(worker, NUM_KINDS);

	end(kind, take(worker, kind));
}

static void *work(void *arg)
{
	void (*const operations[])(struct worker *) = {
		allocate, allocate, import_foreign, import_own, import_export,
		view,     view,     copy,           export,     export,
		infer,    drain,    drop,           drop,
	};
	struct worker *worker = arg;

	for (unsigned int i = 0; i < num_operations; i++)
		operations[draw(worker, qbrt_array_size(operations))](worker);
	return NULL;
}

/* L1 L4 L5 L7 L8 H104 H112: and each deleter runs once. */
START_TEST(threads_end_what_others_made)
{
	struct worker workers[NUM_THREADS];

	num_operations = getenv("QBRUNTIME_TEST_LONG") ? 100000 : 2000;
	rig_open(&rig, NULL, models_load_copy64());
	for (unsigned int i = 0; i < NUM_THREADS; i++) {
		workers[i].seed = i;
		ck_assert(!pthread_create(&workers[i].thread, NULL, work,
					  &workers[i]));
	}
	for (unsigned int i = 0; i < NUM_THREADS; i++)
		ck_assert(!pthread_join(workers[i].thread, NULL));
	for (unsigned int i = 0; i < NUM_KINDS * NUM_SLOTS; i++)
		end(i / NUM_SLOTS, slots[i / NUM_SLOTS][i % NUM_SLOTS]);
	rig_close(&rig);
	ck_assert_ok(qbrt_bridge_drain(NULL));
	ck_assert_uint_gt(atomic_load(&num_made), num_operations / 2);
	ck_assert_uint_eq(atomic_load(&num_deleted), atomic_load(&num_made));
	ck_assert_uint_eq(get_stats().storages, 0);
	ck_assert_uint_eq(get_stats().tensors, 0);
	ck_assert_uint_eq(get_stats().exports_versioned, 0);
	ck_assert_uint_eq(get_stats().exports_legacy, 0);
	ck_assert_uint_eq(get_stats().deferred_releases, 0);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(threads_end_what_others_made),
	};

	return qbrt_test_run("tensor-stress", tests, qbrt_array_size(tests));
}
