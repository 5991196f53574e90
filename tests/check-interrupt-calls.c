// SPDX-License-Identifier: MIT
/*
 * What each call that waits makes of the interrupt function's answer. It stands
 * behind a gate on a thread of its own and gets SIGINT, whose handler restarts
 * nothing, until it has returned: so no moment has to be met, and whatever the
 * call waits in is interrupted.
 */
#include "check-interrupt.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "gated.h"
#include "model.h"
#include "pinned-memory.h"
#include "util.h"

#define NUM_SIGNALS 100

struct scene {
	struct gated gated; /* one slot */
	struct qbrt_future *gate;
	struct qbrt_pinned_memory *other;
	struct qbrt_future *more[64];
	struct qbrt_pinned_memory *outs[64];
	struct call call; /* has the slot */
	/* the thread that waits */
	pthread_t thread;
	enum qbrt_status (*wait)(struct scene *scene);
	atomic_bool is_over;
	enum qbrt_status status;
};

static enum qbrt_status infer(struct scene *scene)
{
	return qbrt_model_infer_pinned_memory(scene->gated.rig.model, NULL,
					      &scene->gated.rig.in, 1,
					      &scene->other, 1);
}

static enum qbrt_status infer_written(struct scene *scene)
{
	return qbrt_model_infer_pinned_memory(scene->gated.rig.model, NULL,
					      &scene->gated.rig.out, 1,
					      &scene->other, 1);
}

static enum qbrt_status submit_another(struct scene *scene)
{
	struct qbrt_future *future = NULL;
	enum qbrt_status status =
		try_submit(&scene->gated.rig, scene->gated.rig.in, scene->other,
			   NULL, &future);

	qbrt_future_free(future);
	return status;
}

static enum qbrt_status wait_future(struct scene *scene)
{
	return qbrt_future_wait(scene->gate, -1);
}

static enum qbrt_status wait_long(struct scene *scene)
{
	return qbrt_future_wait(scene->gate, INT64_MAX);
}

static enum qbrt_status take_result(struct scene *scene)
{
	return qbrt_future_query_result(scene->gate, NULL, 0);
}

static enum qbrt_status wait_memory(struct scene *scene)
{
	return qbrt_pinned_memory_wait(scene->gated.rig.out, -1);
}

static enum qbrt_status read_memory(struct scene *scene)
{
	uint8_t value;

	return qbrt_pinned_memory_read_at(scene->gated.rig.out,
					  (int64_t[]){ 0 }, 1, QBRT_DTYPE_UINT8,
					  &value);
}

static enum qbrt_status write_memory(struct scene *scene)
{
	enum qbrt_status status = qbrt_pinned_memory_begin_cpu_access(
		scene->gated.rig.in, QBRT_CPU_WRITE);

	if (!status)
		status = qbrt_pinned_memory_end_cpu_access(scene->gated.rig.in);
	return status;
}

/* A future whose job is on the device. */
static void set_gate(struct scene *scene)
{
	scene->gate = submit(&scene->gated.rig, scene->gated.rig.in,
			     scene->gated.rig.out);
}

/* A call has the one slot. */
static void fill_slot(struct scene *scene)
{
	scene->call.rig = &scene->gated.rig;
	scene->call.in = scene->gated.rig.in;
	scene->call.out = scene->gated.rig.out;
	call_start(&scene->call);
	sim_wait_submitted(&scene->gated.sim, 1);
}

/* There is no room for another queued job. */
static void fill_room(struct scene *scene)
{
	set_gate(scene);
	for (int i = 0; i < 64; i++) {
		scene->outs[i] = alloc_64(&scene->gated.rig);
		scene->more[i] = submit(&scene->gated.rig, scene->gated.rig.in,
					scene->outs[i]);
	}
}

static void set_nothing(struct scene *scene)
{
	(void)scene;
}

static const struct {
	const char *name;
	void (*set_up)(struct scene *scene);
	enum qbrt_status (*wait)(struct scene *scene);
	bool has_job; /* of its own, cancelled by an interrupt */
} waits[] = {
	{ "infer", set_nothing, infer, true },
	{ "infer behind a job", set_gate, infer_written, true },
	{ "infer without a slot", fill_slot, infer, false },
	{ "submit without room", fill_room, submit_another, false },
	{ "qbrt_future_wait", set_gate, wait_future, false },
	{ "qbrt_future_wait with a limit", set_gate, wait_long, false },
	{ "qbrt_future_query_result", set_gate, take_result, false },
	{ "qbrt_pinned_memory_wait", set_gate, wait_memory, false },
	{ "qbrt_pinned_memory_read_at", set_gate, read_memory, false },
	{ "qbrt_pinned_memory_begin_cpu_access", set_gate, write_memory,
	  false },
};

static void *run_wait(void *arg)
{
	struct scene *scene = arg;

	scene->status = scene->wait(scene);
	atomic_store(&scene->is_over, true);
	return NULL;
}

static atomic_uint num_signals;

static void note_signal(int number)
{
	(void)number;
	atomic_fetch_add(&num_signals, 1);
}

static void handle_interrupts(void)
{
	struct sigaction action = { .sa_handler = note_signal };

	ck_assert_int_eq(sigaction(SIGINT, &action, NULL), 0);
}

static void scene_open(struct scene *scene, int at)
{
	*scene = (struct scene){ .wait = waits[at].wait };
	gated_open(&scene->gated, 1);
	scene->other = alloc_64(&scene->gated.rig);
	fill(scene->gated.rig.in, 6);
	waits[at].set_up(scene);
	handle_interrupts();
}

static void start_wait(struct scene *scene)
{
	ck_assert(!pthread_create(&scene->thread, NULL, run_wait, scene));
}

/* The jobs that were there go on to a good end. */
static void scene_close(struct scene *scene)
{
	sim_finish_all(&scene->gated.sim);
	if (scene->call.rig)
		ck_assert_int_eq(call_join(&scene->call), QBRT_OK);
	if (scene->gate) {
		bool is_taken = scene->wait == take_result && !scene->status;

		ck_assert_status(take(scene->gate),
				 is_taken ? QBRT_FUTURE_NOT_VALID : QBRT_OK);
		ck_assert(holds(scene->gated.rig.out, 6));
	}
	for (int i = 0; i < 64 && scene->more[i]; i++) {
		ck_assert_ok(take(scene->more[i]));
		qbrt_pinned_memory_free(scene->outs[i]);
	}
	qbrt_pinned_memory_free(scene->other);
	gated_close(&scene->gated);
}

/* Until the call is back. */
static void interrupt_until_over(struct scene *scene)
{
	while (!atomic_load(&scene->is_over)) {
		ck_assert(!pthread_kill(scene->thread, SIGINT));
		sched_yield();
	}
	ck_assert(!pthread_join(scene->thread, NULL));
}

/* Q739 Q750 */
START_TEST(a_signal_ends_a_wait_when_the_function_says_so)
{
	struct answer answer = { .says_stop = true };
	struct scene scene;

	scene_open(&scene, _i);
	answer.mem = scene.other;
	qbrt_set_interrupt_function(ask, &answer);
	start_wait(&scene);
	if (waits[_i].has_job)
		while (count_submitted(&scene.gated) < (scene.gate ? 2 : 1))
			sched_yield();
	interrupt_until_over(&scene);
	qbrt_set_interrupt_function(NULL, NULL);
	ck_assert_msg(scene.status == QBRT_INTERRUPTED, "%s: %s",
		      waits[_i].name, qbrt_status_name(scene.status));
	ck_assert_int_eq(answer.status, QBRT_OK);
	ck_assert(pthread_equal(answer.asked_on, scene.thread));
	/* Q485: of a job that was cancelled, not of one that never was */
	ck_assert_status(qbrt_pinned_memory_wait(scene.other, 0),
			 waits[_i].has_job ? QBRT_TENSOR_INVALID : QBRT_OK);
	ck_assert_uint_eq(atomic_load(&scene.other->storage->uses), 0);
	scene_close(&scene);
}
END_TEST

/* Q750: it goes on when the function says so. */
START_TEST(a_function_that_declines_changes_nothing)
{
	struct answer answer = { .says_stop = false };
	struct scene scene;

	scene_open(&scene, _i);
	qbrt_set_interrupt_function(ask, &answer);
	start_wait(&scene);
	/* many waits, many questions */
	while (atomic_load(&answer.num_asked) < 3) {
		ck_assert(!pthread_kill(scene.thread, SIGINT));
		sched_yield();
	}
	ck_assert(!atomic_load(&scene.is_over));
	sim_wait_submitted(&scene.gated.sim, 1);
	while (!atomic_load(&scene.is_over))
		if (!sim_step(&scene.gated.sim))
			sched_yield();
	ck_assert(!pthread_join(scene.thread, NULL));
	qbrt_set_interrupt_function(NULL, NULL);
	ck_assert_msg(scene.status == QBRT_OK, "%s: %s", waits[_i].name,
		      qbrt_status_name(scene.status));
	scene_close(&scene);
}
END_TEST

/* Q739: of any wait a slice ends, without a signal. */
START_TEST(a_wait_asks_after_each_slice)
{
	struct answer answer = { .says_stop = true };
	struct scene scene;

	scene_open(&scene, _i);
	qbrt_set_interrupt_function(ask, &answer);
	start_wait(&scene);
	ck_assert(!pthread_join(scene.thread, NULL));
	qbrt_set_interrupt_function(NULL, NULL);
	ck_assert_msg(scene.status == QBRT_INTERRUPTED, "%s: %s",
		      waits[_i].name, qbrt_status_name(scene.status));
	ck_assert_status(qbrt_pinned_memory_wait(scene.other, 0),
			 waits[_i].has_job ? QBRT_TENSOR_INVALID : QBRT_OK);
	scene_close(&scene);
}
END_TEST

/* Q739 Q750: without a function the call ends with the job. */
START_TEST(without_a_function_a_signal_ends_no_wait)
{
	unsigned int before;
	struct scene scene;

	scene_open(&scene, _i);
	start_wait(&scene);
	before = atomic_load(&num_signals);
	while (atomic_load(&num_signals) < before + NUM_SIGNALS) {
		ck_assert(!pthread_kill(scene.thread, SIGINT));
		sched_yield();
	}
	ck_assert(!atomic_load(&scene.is_over));
	while (!atomic_load(&scene.is_over))
		if (!sim_step(&scene.gated.sim))
			sched_yield();
	ck_assert(!pthread_join(scene.thread, NULL));
	ck_assert_msg(scene.status == QBRT_OK, "%s: %s", waits[_i].name,
		      qbrt_status_name(scene.status));
	if (waits[_i].wait == infer)
		ck_assert(holds(scene.other, 6));
	scene_close(&scene);
}
END_TEST

/* Q739 K115: a job on the device is waited for, after it was told to stop. */
START_TEST(an_interrupted_inference_waits_for_its_jobs_end)
{
	struct answer answer = { .says_stop = true };
	struct scene scene;
	struct qbnpu_job *job;

	scene_open(&scene, 0);
	start_wait(&scene);
	sim_wait_submitted(&scene.gated.sim, 1);
	job = sim_begin(&scene.gated.sim);
	qbrt_set_interrupt_function(ask, &answer);
	while (!atomic_load(&job->stop_cause)) {
		ck_assert(!pthread_kill(scene.thread, SIGINT));
		sched_yield();
	}
	/* the device may still write: the call does not return */
	for (int i = 0; i < NUM_SIGNALS; i++) {
		ck_assert(!pthread_kill(scene.thread, SIGINT));
		sched_yield();
	}
	ck_assert(!atomic_load(&scene.is_over));
	ck_assert(sim_finish(&scene.gated.sim, job, QBNPU_CAUSE_NONE));
	ck_assert(!pthread_join(scene.thread, NULL));
	qbrt_set_interrupt_function(NULL, NULL);
	ck_assert_int_eq(scene.status, QBRT_INTERRUPTED);
	ck_assert_status(qbrt_pinned_memory_wait(scene.other, 0),
			 QBRT_TENSOR_INVALID);
	ck_assert_detail("Interrupted");
	ck_assert_uint_eq(get_counters(scene.gated.rig.model).cancelled, 1);
	/* the model and its slot go on */
	scene.gate = submit(&scene.gated.rig, scene.gated.rig.in,
			    scene.gated.rig.out);
	scene_close(&scene);
}
END_TEST

/* Q739: launch waits for queued jobs, and for calls that are inside. */
START_TEST(an_interrupted_launch_changes_nothing)
{
	struct answer answer = { .says_stop = true };
	struct qbrt_model *model;
	struct qbnpu_job *job;
	struct scene scene;

	scene_open(&scene, 0);
	model = scene.gated.rig.model;
	if (_i == 0)
		set_gate(&scene);
	else
		fill_slot(&scene);
	job = sim_begin(&scene.gated.sim);
	ck_assert_ok(qbrt_model_dispose(model));
	qbrt_set_interrupt_function(ask, &answer);
	ck_assert_status(qbrt_model_launch(model, scene.gated.rig.acc),
			 QBRT_INTERRUPTED);
	ck_assert(pthread_equal(answer.asked_on, pthread_self()));
	ck_assert_status(qbrt_model_launch(model, scene.gated.rig.acc),
			 QBRT_INTERRUPTED);
	qbrt_set_interrupt_function(NULL, NULL);
	ck_assert_status(infer(&scene), QBRT_MODEL_NOT_ALIVE);
	ck_assert(sim_finish(&scene.gated.sim, job, QBNPU_CAUSE_NONE));
	ck_assert_ok(qbrt_model_launch(model, scene.gated.rig.acc));
	if (_i == 0)
		ck_assert_status(take(scene.gate), QBRT_MODEL_NOT_ALIVE);
	else
		ck_assert_status(call_join(&scene.call), QBRT_MODEL_NOT_ALIVE);
	scene.gate = NULL;
	scene.call.rig = NULL;
	scene_close(&scene);
}
END_TEST

void add_interrupt_call_tests(struct qbrt_tests *all)
{
	const int num = qbrt_array_size(waits);
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(a_signal_ends_a_wait_when_the_function_says_so,
			       num),
		QBRT_LOOP_TEST(a_function_that_declines_changes_nothing, num),
		QBRT_LOOP_TEST(a_wait_asks_after_each_slice, num),
		QBRT_LOOP_TEST(without_a_function_a_signal_ends_no_wait, num),
		QBRT_TEST(an_interrupted_inference_waits_for_its_jobs_end),
		QBRT_LOOP_TEST(an_interrupted_launch_changes_nothing, 2),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
