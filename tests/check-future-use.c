// SPDX-License-Identifier: MIT
/*
 * More of "inputs wait, outputs refuse", gated: the cases with an input that is
 * also an output, several readers, writers that fail, and the host between.
 */
#include "check-future.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "model.h"
#include "pinned-memory.h"
#include "soft/soft.h"
#include "storage.h"
#include "util.h"

static void set_floats(struct qbrt_pinned_memory *mem, float value)
{
	for (int i = 0; i < 16; i++)
		((float *)qbrt_pinned_memory_get_data(mem))[i] = value;
}

static bool holds_floats(const struct qbrt_pinned_memory *mem, float value)
{
	const float *data = qbrt_pinned_memory_get_data(mem);

	for (int i = 0; i < 16; i++)
		if (data[i] != value)
			return false;
	return true;
}

/* A sum of two inputs that may be written over the first. */
static struct qbrt_model *load_sum(void)
{
	struct prog prog;
	struct models_spec spec = {
		.programs = { &prog },
		.num_programs = 1,
		.may_alias = true,
	};
	struct qbrt_model *model;
	uint16_t a;

	prog_begin(&prog);
	a = prog_input(&prog, QBNPU_DTYPE_F32, DIMS(16));
	prog_binary(&prog, QBNPU_BINARY_ADD, a,
		    prog_input(&prog, QBNPU_DTYPE_F32, DIMS(16)),
		    prog_output(&prog, QBNPU_DTYPE_F32, DIMS(16)));
	((struct qbnpu_cmd *)(void *)prog.commands)->flags = QBNPU_CMD_IN_PLACE;
	model = models_load(&spec);
	prog_end(&prog);
	return model;
}

static enum qbrt_status submit_sum(const struct rig *rig,
				   struct qbrt_pinned_memory *a,
				   struct qbrt_pinned_memory *b,
				   struct qbrt_pinned_memory *sum,
				   struct qbrt_future **future)
{
	struct qbrt_pinned_memory *const inputs[2] = { a, b };

	return qbrt_model_submit_pinned_memory(rig->model, NULL, inputs, 2,
					       &sum, 1, future);
}

/* Q481 PF07: one buffer that is input and output, as an output refuses. */
START_TEST(an_aliased_buffer_is_an_output_first)
{
	struct qbrt_pinned_memory *b;
	struct qbrt_future *first = NULL, *second = NULL;
	struct gated gated;
	struct rig *rig = &gated.rig;

	rig_open(rig, NULL, load_sum());
	sim_attach(&gated.sim, qbnpu_soft_npu(0));
	ck_assert_ok(qbrt_model_alloc_input(rig->model, 1, &b));
	set_floats(rig->in, 1);
	set_floats(b, 2);
	ck_assert_ok(submit_sum(rig, rig->in, b, rig->in, &first));
	ck_assert_status(submit_sum(rig, rig->in, b, rig->in, &second),
			 QBRT_PINNED_MEMORY_IN_USE);
	ck_assert_ptr_null(second);
	/* others read it behind the job that writes it, twice if they like */
	ck_assert_ok(submit_sum(rig, rig->in, rig->in, rig->out, &second));
	ck_assert_uint_eq(sim_num_queued(&gated.sim), 1);
	ck_assert(sim_step(&gated.sim));
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(take(first));
	ck_assert_ok(take(second));
	ck_assert(holds_floats(rig->in, 3));
	ck_assert(holds_floats(rig->out, 6));
	ck_assert_uint_eq(atomic_load(&rig->in->storage->uses), 0);
	qbrt_pinned_memory_free(b);
	gated_close(&gated);
}
END_TEST

/* Q481: two that read one input, and one that reads it behind its writer. */
START_TEST(readers_of_one_input_wait_for_nobody_but_its_writer)
{
	struct qbrt_pinned_memory *middle, *other;
	struct qbrt_future *futures[3];
	struct gated gated;

	gated_open(&gated, 0);
	middle = alloc_64(&gated.rig);
	other = alloc_64(&gated.rig);
	fill(gated.rig.in, 3);
	futures[0] = submit(&gated.rig, gated.rig.in, middle);
	futures[1] = submit(&gated.rig, middle, gated.rig.out);
	futures[2] = submit(&gated.rig, middle, other);
	ck_assert_uint_eq(sim_num_queued(&gated.sim), 1);
	ck_assert(sim_step(&gated.sim));
	/* both are free to run now, side by side */
	ck_assert_ptr_nonnull(sim_begin(&gated.sim));
	ck_assert_ptr_nonnull(sim_begin(&gated.sim));
	sim_finish_all(&gated.sim);
	for (int i = 0; i < 3; i++)
		ck_assert_ok(take(futures[i]));
	ck_assert(holds(gated.rig.out, 3));
	ck_assert(holds(other, 3));
	qbrt_pinned_memory_free(middle);
	qbrt_pinned_memory_free(other);
	gated_close(&gated);
}
END_TEST

/* Q481 Q485 Q616: the call that waits for a writer ends with its failure. */
START_TEST(a_blocking_call_fails_with_the_writer_of_its_input)
{
	struct qbrt_pinned_memory *middle;
	struct qbrt_future *first;
	struct call call = { 0 };
	struct gated gated;

	gated_open(&gated, 0);
	middle = alloc_64(&gated.rig);
	fill(gated.rig.out, 9);
	first = submit(&gated.rig, gated.rig.in, middle);
	call.rig = &gated.rig;
	call.in = middle;
	call.out = gated.rig.out;
	call_start(&call);
	while (count_submitted(&gated) < 2)
		sched_yield();
	ck_assert(sim_finish(&gated.sim, sim_begin(&gated.sim),
			     QBNPU_CAUSE_INJECTED));
	ck_assert_int_eq(call_join(&call), QBRT_STREAM_FAILED);
	/* nothing ran */
	ck_assert_uint_eq(sim_num_queued(&gated.sim), 0);
	ck_assert(holds(gated.rig.out, 9));
	ck_assert_status(take(first), QBRT_MODEL_PREDICT_ERROR);
	qbrt_pinned_memory_free(middle);
	gated_close(&gated);
}
END_TEST

/* Q481 PM12: an output that the host reads by its pointer. */
START_TEST(an_output_open_for_reading_is_refused_everywhere)
{
	struct qbrt_future *future = NULL;
	struct gated gated;

	gated_open(&gated, 0);
	ck_assert_ok(qbrt_pinned_memory_begin_cpu_access(gated.rig.out,
							 QBRT_CPU_READ));
	ck_assert_status(rig_infer(&gated.rig, NULL),
			 QBRT_PINNED_MEMORY_IN_USE);
	ck_assert_status(try_submit(&gated.rig, gated.rig.in, gated.rig.out,
				    NULL, &future),
			 QBRT_PINNED_MEMORY_IN_USE);
	ck_assert_ptr_null(future);
	/* and leaves no use behind */
	ck_assert_uint_eq(atomic_load(&gated.rig.in->storage->uses), 0);
	ck_assert_uint_eq(atomic_load(&gated.rig.out->storage->uses), 0);
	ck_assert_ok(qbrt_pinned_memory_end_cpu_access(gated.rig.out));
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(take(future));
	gated_close(&gated);
}
END_TEST

/* B60: its pages go to nobody before the last job that reads them has ended. */
START_TEST(a_freed_input_is_kept_for_each_job_that_reads_it)
{
	struct qbrt_pinned_memory *shared, *other, *outs[2];
	struct qbrt_future *futures[2];
	struct gated gated;
	const void *data;

	gated_open(&gated, 0);
	shared = alloc_64(&gated.rig);
	data = qbrt_pinned_memory_get_data(shared);
	fill(shared, 6);
	for (int i = 0; i < 2; i++) {
		outs[i] = alloc_64(&gated.rig);
		futures[i] = submit(&gated.rig, shared, outs[i]);
		ck_assert_ptr_nonnull(sim_begin(&gated.sim));
	}
	qbrt_pinned_memory_free(shared);
	for (int i = 0; i < 2; i++) {
		other = alloc_64(&gated.rig);
		ck_assert_ptr_ne(qbrt_pinned_memory_get_data(other), data);
		fill(other, 9);
		qbrt_pinned_memory_free(other);
		ck_assert(sim_finish(&gated.sim, gated.sim.running[0],
				     QBNPU_CAUSE_NONE));
		ck_assert_ok(take(futures[i]));
		ck_assert(holds(outs[i], 6));
	}
	/* and no longer */
	ck_assert_ptr_null(
		qbrt_storage_find((uintptr_t)data, (uintptr_t)data + 64));
	for (int i = 0; i < 2; i++)
		qbrt_pinned_memory_free(outs[i]);
	gated_close(&gated);
}
END_TEST

struct writer {
	pthread_t thread;
	struct qbrt_pinned_memory *mem;
	atomic_bool is_done;
	enum qbrt_status status;
};

static void *open_and_write(void *arg)
{
	struct writer *writer = arg;

	writer->status = qbrt_pinned_memory_begin_cpu_access(writer->mem,
							     QBRT_CPU_WRITE);
	if (!writer->status) {
		fill(writer->mem, 8);
		writer->status = qbrt_pinned_memory_end_cpu_access(writer->mem);
	}
	atomic_store(&writer->is_done, true);
	return NULL;
}

/* Q499 PM11: the host waits to write, and a stream of submits goes by. */
START_TEST(a_host_write_gets_its_turn_while_submits_go_on)
{
	struct qbrt_pinned_memory *other, *outs[4];
	struct qbrt_future *first, *more, *futures[4];
	struct writer writer = { .status = QBRT_OK };
	struct gated gated;

	gated_open(&gated, 0);
	other = alloc_64(&gated.rig);
	fill(gated.rig.in, 2);
	fill(other, 4);
	first = submit(&gated.rig, gated.rig.in, gated.rig.out);
	writer.mem = gated.rig.in;
	ck_assert(
		!pthread_create(&writer.thread, NULL, open_and_write, &writer));
	while (!atomic_load(&writer.mem->storage->waiters))
		sched_yield();
	/* others' submits go by, on both sides of its buffer */
	for (int i = 0; i < 4; i++) {
		outs[i] = alloc_64(&gated.rig);
		futures[i] = submit(&gated.rig, other, outs[i]);
	}
	ck_assert(!atomic_load(&writer.is_done));
	sim_finish_all(&gated.sim);
	ck_assert(!pthread_join(writer.thread, NULL));
	ck_assert_int_eq(writer.status, QBRT_OK);
	ck_assert_ok(take(first));
	ck_assert(holds(gated.rig.out, 2));
	for (int i = 0; i < 4; i++) {
		ck_assert_ok(take(futures[i]));
		ck_assert(holds(outs[i], 4));
		qbrt_pinned_memory_free(outs[i]);
	}
	more = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(take(more));
	ck_assert(holds(gated.rig.out, 8));
	qbrt_pinned_memory_free(other);
	gated_close(&gated);
}
END_TEST

/* One use: no bracket, within which an inference would be refused. */
static void *write_all(void *arg)
{
	const uint8_t value = 77;
	struct writer *writer = arg;

	writer->status =
		qbrt_pinned_memory_fill(writer->mem, QBRT_DTYPE_UINT8, &value);
	return NULL;
}

/* Q481: a call that reads what the host waits to write comes after it. */
START_TEST(a_call_waits_behind_a_host_write_that_waits)
{
	struct qbrt_pinned_memory *other;
	struct qbrt_future *first, *second;
	struct writer writer = { .status = QBRT_OK };
	struct call call = { 0 };
	struct gated gated;

	gated_open(&gated, 0);
	other = alloc_64(&gated.rig);
	fill(gated.rig.in, 2);
	first = submit(&gated.rig, gated.rig.in, gated.rig.out);
	writer.mem = gated.rig.in;
	ck_assert(!pthread_create(&writer.thread, NULL, write_all, &writer));
	while (!(atomic_load(&writer.mem->storage->uses) &
		 QBRT_STORAGE_WAITING_WRITER))
		sched_yield();
	call.rig = &gated.rig;
	call.in = gated.rig.in;
	call.out = other;
	call_start(&call);
	while (atomic_load(&writer.mem->storage->waiters) < 2)
		sched_yield();
	ck_assert_uint_eq(sim_num_queued(&gated.sim), 1);
	ck_assert(sim_step(&gated.sim));
	ck_assert(!pthread_join(writer.thread, NULL));
	sim_wait_submitted(&gated.sim, 2);
	ck_assert(sim_step(&gated.sim));
	ck_assert_int_eq(call_join(&call), QBRT_OK);
	ck_assert_int_eq(writer.status, QBRT_OK);
	ck_assert_uint_eq(*(uint8_t *)qbrt_pinned_memory_get_data(other), 77);
	ck_assert_ok(take(first));
	second = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(take(second));
	qbrt_pinned_memory_free(other);
	gated_close(&gated);
}
END_TEST

/* Q365: an input that the host writes, or waits to write behind a reader. */
START_TEST(a_try_does_not_wait_for_an_input)
{
	const struct qbrt_infer_options tries = {
		.size = sizeof(tries),
		.flags = QBRT_INFER_TRY,
	};
	const unsigned int uses =
		_i ? QBRT_STORAGE_WAITING_WRITER | 1 : QBRT_STORAGE_WRITER;
	struct qbrt_future *future = NULL;
	struct qbrt_storage *storage;
	struct gated gated;

	gated_open(&gated, 0);
	storage = gated.rig.in->storage;
	atomic_store(&storage->uses, uses);
	ck_assert_status(try_submit(&gated.rig, gated.rig.in, gated.rig.out,
				    &tries, &future),
			 QBRT_WOULD_BLOCK);
	ck_assert_detail("input 0");
	ck_assert_ptr_null(future);
	ck_assert_uint_eq(atomic_load(&storage->uses), uses);
	ck_assert_uint_eq(atomic_load(&gated.rig.out->storage->uses), 0);
	ck_assert_uint_eq(count_submitted(&gated), 0);
	atomic_store(&storage->uses, 0);
	ck_assert_ok(try_submit(&gated.rig, gated.rig.in, gated.rig.out, &tries,
				&future));
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(take(future));
	gated_close(&gated);
}
END_TEST

void add_future_use_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(an_aliased_buffer_is_an_output_first),
		QBRT_TEST(readers_of_one_input_wait_for_nobody_but_its_writer),
		QBRT_TEST(a_blocking_call_fails_with_the_writer_of_its_input),
		QBRT_TEST(an_output_open_for_reading_is_refused_everywhere),
		QBRT_TEST(a_freed_input_is_kept_for_each_job_that_reads_it),
		QBRT_TEST(a_host_write_gets_its_turn_while_submits_go_on),
		QBRT_TEST(a_call_waits_behind_a_host_write_that_waits),
		QBRT_LOOP_TEST(a_try_does_not_wait_for_an_input, 2),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
