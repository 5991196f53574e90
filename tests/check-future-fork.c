// SPDX-License-Identifier: MIT
/*
 * A child of fork that was born while its parent's threads were in the middle
 * of everything: it is told so at once, gives its memory back, and works with a
 * device of its own. On the parent's second device nothing moves but by steps,
 * so its futures are queued, running, ended and taken in every child.
 */
#include "check-future.h"

#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "future.h"
#include "model.h"
#include "soft/soft.h"
#include "util.h"

#define NUM_THREADS 8
#define NUM_CHILDREN 100
#define NUM_FUTURES 5

enum {
	RUNNING,
	QUEUED,
	ENDED,
	TAKEN,
	CALLED, /* queued, with a callback */
};

struct parent {
	struct rig busy;  /* used by threads all the time */
	struct rig still; /* its device takes steps */
	struct sim sim;
	struct qbrt_pinned_memory *outs[NUM_FUTURES];
	struct qbrt_future *futures[NUM_FUTURES];
	atomic_uint num_calls;
	int fd;
	struct qbrt_model *spare; /* loaded, never launched: a child's to use */
};

static void count_call(void *arg, struct qbrt_future *future)
{
	(void)future;
	atomic_fetch_add((atomic_uint *)arg, 1);
}

static void open_still(struct parent *parent)
{
	struct rig *rig = &parent->still;

	rig->model = load_copy(4);
	ck_assert_ok(qbrt_accelerator_open(NULL, 1, &rig->acc));
	ck_assert_ok(qbrt_model_launch(rig->model, rig->acc));
	ck_assert_ok(qbrt_model_alloc_input(rig->model, 0, &rig->in));
	ck_assert_ok(qbrt_model_alloc_output(rig->model, 0, &rig->out));
	sim_attach(&parent->sim, qbnpu_soft_npu(1));
	fill(rig->in, 4);
	for (int i = 0; i < NUM_FUTURES; i++)
		parent->outs[i] = alloc_64(rig);
	parent->futures[ENDED] = submit(rig, rig->in, parent->outs[ENDED]);
	ck_assert(sim_step(&parent->sim));
	ck_assert(is_done(parent->futures[ENDED]));
	parent->futures[TAKEN] = submit(rig, rig->in, parent->outs[TAKEN]);
	ck_assert(sim_step(&parent->sim));
	ck_assert_ok(qbrt_future_query_result(parent->futures[TAKEN], NULL, 0));
	parent->futures[RUNNING] = submit(rig, rig->in, parent->outs[RUNNING]);
	ck_assert_ptr_nonnull(sim_begin(&parent->sim));
	parent->futures[QUEUED] = submit(rig, rig->in, parent->outs[QUEUED]);
	parent->futures[CALLED] = submit(rig, rig->in, parent->outs[CALLED]);
	ck_assert_ok(qbrt_future_set_callback(parent->futures[CALLED],
					      count_call, &parent->num_calls));
	ck_assert_ok(
		qbrt_future_export_fd(parent->futures[QUEUED], &parent->fd));
}

static void close_still(struct parent *parent)
{
	struct pollfd ready = { .fd = parent->fd, .events = POLLIN };

	ck_assert_uint_eq(atomic_load(&parent->num_calls), 0);
	ck_assert_int_eq(poll(&ready, 1, 0), 0);
	sim_finish_all(&parent->sim);
	ck_assert_int_eq(poll(&ready, 1, -1), 1);
	ck_assert_int_eq(close(parent->fd), 0);
	while (!atomic_load(&parent->num_calls))
		sched_yield();
	for (int i = 0; i < NUM_FUTURES; i++) {
		ck_assert_status(take(parent->futures[i]),
				 i == TAKEN ? QBRT_FUTURE_NOT_VALID : QBRT_OK);
		ck_assert(holds(parent->outs[i], 4));
		qbrt_pinned_memory_free(parent->outs[i]);
	}
	sim_detach(&parent->sim);
	rig_close(&parent->still);
	ck_assert_uint_eq(atomic_load(&parent->num_calls), 1);
}

/* 0, or the number of what was not refused. */
static int use_future(struct qbrt_future *future)
{
	const enum qbrt_status refused = QBRT_FORKED_PROCESS;
	struct qbrt_io_info info = { .size = sizeof(info) };
	bool flag = false;
	int fd = -1;

	if (qbrt_future_wait(future, -1) != refused)
		return 1;
	if (qbrt_future_query(future, &flag) != refused || flag)
		return 2;
	if (qbrt_future_query_output(future, 0, &info) != refused)
		return 3;
	if (qbrt_future_query_result(future, NULL, 0) != refused)
		return 4;
	if (qbrt_future_cancel(future, &flag) != refused || flag)
		return 5;
	if (qbrt_future_set_callback(future, count_call, NULL) != refused)
		return 6;
	if (qbrt_future_export_fd(future, &fd) != refused || fd != -1)
		return 7;
	if (qbrt_future_get_status(future) || *qbrt_future_get_detail(future))
		return 8;
	return 0;
}

static int use_memory(struct rig *rig)
{
	const enum qbrt_status refused = QBRT_FORKED_PROCESS;
	struct qbrt_pinned_memory *mem = rig->in;
	struct qbrt_future *future = NULL;
	bool ready = false;
	uint8_t value = 0;

	if (qbrt_pinned_memory_wait(mem, -1) != refused ||
	    qbrt_pinned_memory_query(mem, &ready) != refused || ready)
		return 11;
	if (qbrt_pinned_memory_begin_cpu_access(mem, QBRT_CPU_WRITE) !=
		    refused ||
	    qbrt_pinned_memory_end_cpu_access(mem) != refused)
		return 12;
	if (qbrt_pinned_memory_read_at(mem, (int64_t[]){ 0 }, 1,
				       QBRT_DTYPE_UINT8, &value) != refused ||
	    qbrt_pinned_memory_write_at(mem, (int64_t[]){ 0 }, 1,
					QBRT_DTYPE_UINT8, &value) != refused)
		return 13;
	if (try_submit(rig, mem, rig->out, NULL, &future) != refused ||
	    future || rig_infer(rig, NULL) != refused)
		return 14;
	if (qbrt_model_dispose(rig->model) != refused)
		return 15;
	/* its bytes stay, shared with the parent */
	value = *(uint8_t *)qbrt_pinned_memory_get_data(mem);
	*(volatile uint8_t *)qbrt_pinned_memory_get_data(mem) = value;
	return 0;
}

static void free_rig(const struct rig *rig)
{
	qbrt_pinned_memory_free(rig->in);
	qbrt_pinned_memory_free(rig->out);
	qbrt_model_free(rig->model);
	qbrt_accelerator_close(rig->acc);
}

/* The child may not assert: another thread may have held Check's lock. */
static int work_anew(struct qbrt_model *model)
{
	struct qbrt_future *future = NULL;
	struct rig own = { .model = model };

	if (qbrt_accelerator_open(NULL, -1, &own.acc) ||
	    qbrt_model_launch(model, own.acc) ||
	    qbrt_model_alloc_input(model, 0, &own.in) ||
	    qbrt_model_alloc_output(model, 0, &own.out))
		return 21;
	fill(own.in, 9);
	if (rig_infer(&own, NULL) || !holds(own.out, 9))
		return 22;
	fill(own.in, 8);
	if (try_submit(&own, own.in, own.out, NULL, &future) ||
	    qbrt_future_wait(future, -1) || take(future) || !holds(own.out, 8))
		return 23;
	free_rig(&own);
	return 0;
}

/* The child's exit status; a wait for ever ends in SIGALRM. */
static int live(struct parent *parent)
{
	int err = 0;

	alarm(60);
	for (int i = 0; i < NUM_FUTURES && !err; i++)
		err = use_future(parent->futures[i]);
	err = err ? err : use_memory(&parent->still);
	err = err ? err : use_memory(&parent->busy);
	if (err)
		return err;
	for (int i = 0; i < NUM_FUTURES; i++) {
		qbrt_pinned_memory_free(parent->outs[i]);
		qbrt_future_free(parent->futures[i]);
	}
	free_rig(&parent->still);
	free_rig(&parent->busy);
	return work_anew(parent->spare);
}

struct worker {
	pthread_t thread;
	struct rig rig;
	atomic_bool *is_over;
	unsigned int num_wrong;
	unsigned int number;
};

static void *infer_on(void *arg)
{
	struct worker *worker = arg;
	struct qbrt_future *future;

	for (unsigned int i = 0; !atomic_load(worker->is_over); i++) {
		fill(worker->rig.in, worker->number + i);
		if (i % 4) {
			worker->num_wrong += rig_infer(&worker->rig, NULL) != 0;
		} else {
			worker->num_wrong +=
				try_submit(&worker->rig, worker->rig.in,
					   worker->rig.out, NULL, &future) ||
				take(future);
		}
		worker->num_wrong +=
			!holds(worker->rig.out, worker->number + i);
	}
	return NULL;
}

static void start_workers(struct worker *workers, struct parent *parent,
			  atomic_bool *is_over)
{
	for (unsigned int i = 0; i < NUM_THREADS; i++) {
		workers[i] = (struct worker){ .rig = parent->busy,
					      .is_over = is_over,
					      .number = i };
		workers[i].rig.in = alloc_64(&parent->busy);
		workers[i].rig.out = alloc_64(&parent->busy);
		ck_assert(!pthread_create(&workers[i].thread, NULL, infer_on,
					  &workers[i]));
	}
}

static void end_workers(struct worker *workers)
{
	for (int i = 0; i < NUM_THREADS; i++) {
		ck_assert(!pthread_join(workers[i].thread, NULL));
		ck_assert_uint_eq(workers[i].num_wrong, 0);
		qbrt_pinned_memory_free(workers[i].rig.in);
		qbrt_pinned_memory_free(workers[i].rig.out);
	}
}

/* Whether malloc gives an address out again: then it was freed. */
static bool is_free(uintptr_t address, size_t nbytes)
{
	bool is_found = false;
	void *blocks[64];

	for (int i = 0; i < 64; i++) {
		blocks[i] = malloc(nbytes);
		is_found |= (uintptr_t)blocks[i] == address;
	}
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
	return is_found;
}

static int free_in_child(struct qbrt_future *future)
{
	uintptr_t detail = (uintptr_t)future->job.detail;
	size_t nbytes = malloc_usable_size(future->job.detail);

	qbrt_future_free(future);
	return !is_free(detail, nbytes);
}

/* Q748: the sentence of a failed job too. */
START_TEST(a_child_frees_all_of_a_future)
{
	struct qbrt_future *future;
	struct gated gated;
	pid_t child;
	int status;

	if (qbrt_test_has_sanitizer())
		QBRT_TEST_SKIP("sanitizers do not give memory out again");
	gated_open(&gated, 0);
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert(sim_finish(&gated.sim, sim_begin(&gated.sim),
			     QBNPU_CAUSE_INJECTED));
	ck_assert(is_done(future));
	ck_assert_ptr_nonnull(future->job.detail);
	child = fork();
	if (!child)
		_exit(free_in_child(future));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && !WEXITSTATUS(status));
	ck_assert_status(take(future), QBRT_MODEL_PREDICT_ERROR);
	gated_close(&gated);
}
END_TEST

/* Q748 */
START_TEST(a_child_of_busy_threads_begins_anew)
{
	struct worker workers[NUM_THREADS];
	atomic_bool is_over = false;
	struct parent parent = { .num_calls = 0 };

	if (qbrt_test_has_sanitizer())
		QBRT_TEST_SKIP(
			"sanitizers cannot follow a fork beside threads");
	/* what stands may stand for as long as the children take */
	setenv("QBRUNTIME_NPU_TIMEOUT_MS", "600000", 1);
	rig_open(&parent.busy, "aries-rb,aries-rb", load_copy(4));
	open_still(&parent);
	parent.spare = load_copy(2);
	start_workers(workers, &parent, &is_over);
	for (int i = 0; i < NUM_CHILDREN; i++) {
		pid_t child = fork();
		int status;

		if (!child)
			_exit(live(&parent));
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status),
			      "child %d: status 0x%x", i, status);
	}
	atomic_store(&is_over, true);
	end_workers(workers);
	close_still(&parent);
	qbrt_model_free(parent.spare);
	ck_assert_ok(rig_infer(&parent.busy, NULL));
	rig_close(&parent.busy);
}
END_TEST

void add_future_fork_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_child_frees_all_of_a_future),
		QBRT_TEST(a_child_of_busy_threads_begins_anew),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
