// SPDX-License-Identifier: MIT
/*
 * Futures in numbers and on many threads: none of their results is mixed up,
 * whatever others do with the model meanwhile.
 */
#include "check-future.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model.h"
#include "util.h"

#define NUM_THREADS 8
#define NUM_ROUNDS 10000 /* of all threads together */
#define WINDOW 250
#define NUM_MODELS 17
#define NUM_DISPOSES 300

/* Q364 Q366 Q805: none is read until the end of its window. */
START_TEST(ten_thousand_futures_keep_their_own_results)
{
	static struct qbrt_pinned_memory *ins[WINDOW], *outs[WINDOW];
	static struct qbrt_future *futures[WINDOW];
	struct rig rig;

	rig_open(&rig, NULL, load_copy(_i ? 1 : 8));
	for (int i = 0; i < WINDOW; i++) {
		ins[i] = alloc_64(&rig);
		outs[i] = alloc_64(&rig);
	}
	for (unsigned int n = 0; n < NUM_ROUNDS; n += WINDOW) {
		for (unsigned int i = 0; i < WINDOW; i++) {
			fill(ins[i], n + i);
			futures[i] = submit(&rig, ins[i], outs[i]);
		}
		/* a slot is free when the device has finished */
		ck_assert_ok(rig_infer(&rig, NULL));
		for (unsigned int i = 0; i < WINDOW; i++) {
			ck_assert_ok(take(futures[i]));
			ck_assert(holds(outs[i], n + i));
		}
	}
	for (int i = 0; i < WINDOW; i++) {
		qbrt_pinned_memory_free(ins[i]);
		qbrt_pinned_memory_free(outs[i]);
	}
	rig_close(&rig);
}
END_TEST

struct user {
	pthread_t thread;
	struct rig rig; /* its own buffers */
	unsigned int number;
	unsigned int num_ok;
	unsigned int num_wrong;
	enum qbrt_status unexpected;
};

/* Ways from an input to an output. */
enum way {
	WAY_INFER,
	WAY_TAKE,
	WAY_WAIT_TAKE,
	WAY_POLL_TAKE,
	WAY_CANCEL_TAKE,
	WAY_FREE,
	NUM_WAYS,
};

static enum qbrt_status free_and_wait(struct user *user,
				      struct qbrt_future *future)
{
	qbrt_future_free(future);
	return qbrt_pinned_memory_wait(user->rig.out, -1);
}

static enum qbrt_status go(struct user *user, enum way way)
{
	struct qbrt_future *future = NULL;
	enum qbrt_status status;

	if (way == WAY_INFER)
		return rig_infer(&user->rig, NULL);
	status = try_submit(&user->rig, user->rig.in, user->rig.out, NULL,
			    &future);
	if (status)
		return status;
	if (way == WAY_FREE)
		return free_and_wait(user, future);
	if (way == WAY_WAIT_TAKE)
		status = qbrt_future_wait(future, -1);
	if (way == WAY_CANCEL_TAKE)
		status = qbrt_future_cancel(future, NULL);
	while (way == WAY_POLL_TAKE && !is_done(future))
		;
	if (!status)
		return take(future);
	qbrt_future_free(future);
	return status;
}

/* What dispose and cancel do to others' jobs and to one's own. */
static bool is_expected(enum qbrt_status status, enum way way)
{
	return status == QBRT_MODEL_NOT_ALIVE ||
	       status == QBRT_MODEL_NOT_LAUNCHED ||
	       status == QBRT_MODEL_ASYNC_PIPELINE_NOT_ALIVE ||
	       (way == WAY_FREE && status == QBRT_TENSOR_INVALID) ||
	       (way == WAY_CANCEL_TAKE && status == QBRT_CANCELLED);
}

static void relaunch(struct user *user)
{
	enum qbrt_status status = qbrt_model_dispose(user->rig.model);

	if (!status)
		status = qbrt_model_launch(user->rig.model, user->rig.acc);
	if (status)
		user->unexpected = status;
}

static void *use_model(void *arg)
{
	struct user *user = arg;
	unsigned int number = user->number;

	for (unsigned int i = 0; i < NUM_ROUNDS / NUM_THREADS; i++) {
		enum way way = (i * 7 + number) % NUM_WAYS;
		unsigned int seed = number * NUM_ROUNDS + i;
		enum qbrt_status status;

		if (!number && i % 50 == 49)
			relaunch(user);
		fill(user->rig.in, seed);
		status = go(user, way);
		if (!status) {
			user->num_ok++;
			user->num_wrong += !holds(user->rig.out, seed);
		} else if (!is_expected(status, way)) {
			user->unexpected = status;
		}
		/* until it is launched again, or all rounds may be over */
		while (number &&
		       !qbrt_model_get_activation_slots(user->rig.model))
			(void)sched_yield();
	}
	return NULL;
}

/* Q364 Q382 Q813: everything mixed, and a dispose now and then. */
START_TEST(threads_mix_all_ways_of_one_model)
{
	struct user users[NUM_THREADS];
	struct rig rig;

	rig_open(&rig, NULL, load_copy(_i ? 1 : 4));
	for (unsigned int i = 0; i < NUM_THREADS; i++) {
		users[i] = (struct user){ .rig = rig, .number = i };
		users[i].rig.in = alloc_64(&rig);
		users[i].rig.out = alloc_64(&rig);
	}
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert(!pthread_create(&users[i].thread, NULL, use_model,
					  &users[i]));
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert(!pthread_join(users[i].thread, NULL));
	for (int i = 0; i < NUM_THREADS; i++) {
		ck_assert_int_eq(users[i].unexpected, QBRT_OK);
		ck_assert_uint_eq(users[i].num_wrong, 0);
		ck_assert_uint_gt(users[i].num_ok, 0);
		qbrt_pinned_memory_free(users[i].rig.in);
		qbrt_pinned_memory_free(users[i].rig.out);
	}
	ck_assert_ok(rig_infer(&rig, NULL));
	rig_close(&rig);
}
END_TEST

/* Q337: of eight threads that block in infer two have both their jobs on a
 * core, and the others wait for a slot; nobody fails. */
START_TEST(as_many_blocking_calls_as_slots_are_in_flight_at_once)
{
	struct call calls[NUM_THREADS] = { 0 };
	struct qbnpu_job *first, *second;
	struct qbrt_slots *slots;
	struct gated gated;

	gated_open(&gated, 2);
	slots = &gated.rig.model->launched->slots;
	fill(gated.rig.in, 6);
	for (int i = 0; i < NUM_THREADS; i++) {
		calls[i].rig = &gated.rig;
		calls[i].in = gated.rig.in;
		calls[i].out = alloc_64(&gated.rig);
		call_start(&calls[i]);
	}
	for (unsigned int left = NUM_THREADS; left; left -= 2) {
		sim_wait_submitted(&gated.sim, NUM_THREADS - left + 2);
		while (atomic_load(&slots->num_waiting) != left - 2)
			sched_yield();
		first = sim_begin(&gated.sim);
		second = sim_begin(&gated.sim);
		ck_assert_uint_eq(sim_num_running(&gated.sim), 2);
		ck_assert_uint_eq(sim_num_queued(&gated.sim), 0);
		ck_assert(sim_finish(&gated.sim, first, QBNPU_CAUSE_NONE));
		ck_assert(sim_finish(&gated.sim, second, QBNPU_CAUSE_NONE));
	}
	for (int i = 0; i < NUM_THREADS; i++) {
		ck_assert_int_eq(call_join(&calls[i]), QBRT_OK);
		ck_assert(holds(calls[i].out, 6));
		qbrt_pinned_memory_free(calls[i].out);
	}
	gated_close(&gated);
}
END_TEST

static void *infer_some(void *arg)
{
	struct user *user = arg;

	for (unsigned int i = 0; i < 100; i++) {
		unsigned int seed = user->number * 100 + i;
		enum qbrt_status status;

		fill(user->rig.in, seed);
		status = go(user, i % 2 ? WAY_INFER : WAY_TAKE);
		if (status)
			user->unexpected = status;
		user->num_wrong += !holds(user->rig.out, seed);
	}
	return NULL;
}

/* Q338: more models than a device has cores. */
START_TEST(seventeen_models_infer_at_once)
{
	struct user users[NUM_MODELS];

	for (unsigned int i = 0; i < NUM_MODELS; i++) {
		users[i] = (struct user){ .number = i };
		rig_open(&users[i].rig, NULL, load_copy(0));
	}
	for (int i = 0; i < NUM_MODELS; i++)
		ck_assert(!pthread_create(&users[i].thread, NULL, infer_some,
					  &users[i]));
	for (int i = 0; i < NUM_MODELS; i++)
		ck_assert(!pthread_join(users[i].thread, NULL));
	for (int i = 0; i < NUM_MODELS; i++) {
		ck_assert_int_eq(users[i].unexpected, QBRT_OK);
		ck_assert_uint_eq(users[i].num_wrong, 0);
		rig_close(&users[i].rig);
	}
}
END_TEST

struct asker {
	pthread_t thread;
	struct qbrt_future *future;
	unsigned int number;
	enum qbrt_status status;
};

/* Until the future is done, whoever's turn it is to find that out. */
static void *ask(void *arg)
{
	struct asker *asker = arg;
	struct qbrt_future *future = asker->future;
	bool done = false;
	int fd;

	while (!done && !asker->status) {
		asker->status = qbrt_future_query(future, &done);
		if (asker->number % 2 && qbrt_future_get_status(future))
			asker->status = QBRT_INTERNAL_ERROR;
		if (*qbrt_future_get_detail(future))
			asker->status = QBRT_INTERNAL_ERROR;
		if (asker->number == 3 && !qbrt_future_export_fd(future, &fd))
			(void)close(fd);
		if (asker->number == 5)
			asker->status = qbrt_future_wait(future, -1);
	}
	return NULL;
}

/* Q383 Q382: all members from any thread. */
START_TEST(any_thread_may_ask_a_future)
{
	struct asker askers[NUM_THREADS];
	struct rig rig;

	rig_open(&rig, NULL, load_copy(0));
	for (unsigned int round = 0; round < 100; round++) {
		struct qbrt_future *future;

		fill(rig.in, round);
		future = submit(&rig, rig.in, rig.out);
		for (unsigned int i = 0; i < NUM_THREADS; i++) {
			askers[i] =
				(struct asker){ .future = future, .number = i };
			ck_assert(!pthread_create(&askers[i].thread, NULL, ask,
						  &askers[i]));
		}
		for (int i = 0; i < NUM_THREADS; i++) {
			ck_assert(!pthread_join(askers[i].thread, NULL));
			ck_assert_int_eq(askers[i].status, QBRT_OK);
		}
		ck_assert_ok(take(future));
		ck_assert(holds(rig.out, round));
	}
	rig_close(&rig);
}
END_TEST

/* Of a thread beside the test's own: named as ours, deaf to every signal. */
static void check_thread(const char *task)
{
	char path[300], line[256] = "", name[32] = "";
	unsigned long long blocked = 0;
	sigset_t all;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
	file = fopen(path, "r");
	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof(line), file)) {
		(void)sscanf(line, "Name: %31s", name);
		(void)sscanf(line, "SigBlk: %llx", &blocked);
	}
	(void)fclose(file);
	ck_assert_msg(!strncmp(name, "qbrt-", 5), "a thread named %s", name);
	(void)sigfillset(&all);
	for (int signal = 1; signal < NSIG; signal++)
		if (signal != SIGKILL && signal != SIGSTOP &&
		    sigismember(&all, signal))
			ck_assert_msg(blocked >> (signal - 1) & 1,
				      "%s hears signal %d", name, signal);
}

static void check_other_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;

	ck_assert_ptr_nonnull(tasks);
	while ((task = readdir(tasks)))
		if (task->d_name[0] != '.' && atoi(task->d_name) != getpid())
			check_thread(task->d_name);
	(void)closedir(tasks);
}

static void count_call(void *arg, struct qbrt_future *future)
{
	(void)future;
	atomic_fetch_add((atomic_uint *)arg, 1);
}

/* Q749: none at open, nor for what runs inline; ST6 sees that they end. */
START_TEST(threads_start_when_they_are_needed)
{
	long num = qbrt_test_count_threads();
	struct qbrt_future *future;
	atomic_uint num_calls = 0;
	struct rig rig;

	if (qbrt_test_has_sanitizer())
		QBRT_TEST_SKIP("a sanitizer has threads of its own");
	rig_open(&rig, NULL, load_copy(0));
	ck_assert_int_eq(qbrt_test_count_threads(), num);
	ck_assert_ok(rig_infer(&rig, NULL));
	ck_assert_int_eq(qbrt_test_count_threads(), num);
	future = submit(&rig, rig.in, rig.out);
	ck_assert_ok(qbrt_future_set_callback(future, count_call, &num_calls));
	while (!atomic_load(&num_calls))
		(void)sched_yield();
	ck_assert_int_gt(qbrt_test_count_threads(), num);
	check_other_threads();
	ck_assert_ok(take(future));
	rig_close(&rig);
}
END_TEST

static void free_called(void *arg, struct qbrt_future *future)
{
	qbrt_future_free(future);
	atomic_fetch_add((atomic_int *)arg, 1);
}

static void *dispose_model(void *arg)
{
	(void)!qbrt_model_dispose(arg);
	return NULL;
}

/* Q378 Q742: it may be called, and free the future, before it is set. */
START_TEST(a_callback_may_free_its_future_while_it_is_set)
{
	unsigned int random = 1;
	atomic_int num_calls = 0;
	struct rig rig;

	ck_assert(
		!setenv("QBRUNTIME_SOFT_FAULT", "slow:ns=1000000,count=0", 1));
	rig_open(&rig, NULL, load_copy(2));
	for (int i = 0; i < NUM_DISPOSES; i++) {
		struct qbrt_future *future = submit(&rig, rig.in, rig.out);
		pthread_t thread;

		random = random * 1103515245u + 12345u;
		ck_assert(!pthread_create(&thread, NULL, dispose_model,
					  rig.model));
		for (unsigned int n = random >> 16 & 0xff; n; n--)
			sched_yield();
		ck_assert_ok(qbrt_future_set_callback(future, free_called,
						      &num_calls));
		ck_assert(!pthread_join(thread, NULL));
		while (atomic_load(&num_calls) <= i)
			sched_yield();
		ck_assert_ok(qbrt_model_launch(rig.model, rig.acc));
	}
	rig_close(&rig);
	ck_assert(!unsetenv("QBRUNTIME_SOFT_FAULT"));
}
END_TEST

/* Q749: with jobs that would last for hours */
START_TEST(exit_does_not_wait_for_jobs)
{
	int status;
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (!child) {
		struct qbrt_pinned_memory *out;
		struct rig rig;

		alarm(60);
		setenv("QBRUNTIME_NPU_TIMEOUT_MS", "600000", 1);
		setenv("QBRUNTIME_SOFT_FAULT", "hang:count=0", 1);
		rig_open(&rig, NULL, load_copy(2));
		(void)submit(&rig, rig.in, rig.out);
		out = alloc_64(&rig);
		qbrt_future_free(submit(&rig, rig.in, out));
		qbrt_pinned_memory_free(out);
		exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

void add_future_thread_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(ten_thousand_futures_keep_their_own_results, 2),
		QBRT_LOOP_TEST(threads_mix_all_ways_of_one_model, 2),
		QBRT_TEST(
			as_many_blocking_calls_as_slots_are_in_flight_at_once),
		QBRT_TEST(seventeen_models_infer_at_once),
		QBRT_TEST(any_thread_may_ask_a_future),
		QBRT_TEST(threads_start_when_they_are_needed),
		QBRT_TEST(a_callback_may_free_its_future_while_it_is_set),
		QBRT_TEST(exit_does_not_wait_for_jobs),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
