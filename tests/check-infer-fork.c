// SPDX-License-Identifier: MIT
/*
 * What a child of fork may do with the model of its parent: nothing, at once,
 * whatever lock or count it inherited.
 */
#include "check-infer.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kmd-watch.h"
#include "model.h"
#include "util.h"

#define GOLDEN_MODEL TEST_SRCDIR "/data/golden/copy64.qbm"

/* The child's exit status; a wait for ever ends in SIGALRM. */
static int use_launched_by_parent(const struct rig *rig)
{
	struct qbrt_pinned_memory *mem = NULL;
	struct qbrt_accelerator *own = NULL;

	alarm(30);
	if (qbrt_accelerator_open(NULL, -1, &own))
		return 1;
	if (rig_infer(rig, NULL) != QBRT_FORKED_PROCESS ||
	    qbrt_model_infer_pinned_memory(rig->model, NULL, NULL, 0, NULL,
					   0) != QBRT_FORKED_PROCESS ||
	    qbrt_model_alloc_output(rig->model, 0, &mem) !=
		    QBRT_FORKED_PROCESS ||
	    qbrt_model_dispose(rig->model) != QBRT_FORKED_PROCESS ||
	    qbrt_model_launch(rig->model, own) != QBRT_FORKED_PROCESS ||
	    !strstr(qbrt_error_detail(), "load it anew"))
		return 2;
	qbrt_model_free(rig->model);
	/* the parent's device was asked for nothing */
	if (atomic_load(&kmd_watch.total))
		return 3;
	qbrt_accelerator_close(own);
	return 0;
}

static void check_child(const struct rig *rig)
{
	pid_t child = fork();
	int status;

	ck_assert_int_ge(child, 0);
	if (!child)
		_exit(use_launched_by_parent(rig));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
}

/* Q748: as if another thread held the lock, or was inside, at that moment. */
START_TEST(a_child_waits_for_no_lock_and_no_count_of_its_parent)
{
	struct qbrt_launched *launched;
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	kmd_watch_begin(rig.acc);
	if (_i == 0) {
		ck_assert(!pthread_mutex_lock(&rig.model->launch_lock));
		check_child(&rig);
		ck_assert(!pthread_mutex_unlock(&rig.model->launch_lock));
	} else {
		ck_assert_ok(qbrt_model_enter(rig.model, &launched));
		if (_i == 2)
			ck_assert_ok(qbrt_model_dispose(rig.model));
		check_child(&rig);
		qbrt_model_leave(rig.model);
	}
	/* the parent notices nothing */
	ck_assert_status(rig_infer(&rig, NULL),
			 _i == 2 ? QBRT_MODEL_NOT_ALIVE : QBRT_OK);
	rig_close(&rig);
}
END_TEST

/* What was only loaded has no device, and is the child's to launch. */
START_TEST(a_child_launches_what_its_parent_loaded)
{
	struct qbrt_model *model = models_load_copy64();
	pid_t child;
	int status;

	child = fork();
	if (!child) {
		struct rig own;

		rig_open(&own, NULL, model);
		fill(own.in, 1);
		status = rig_infer(&own, NULL) || !holds(own.out, 1);
		rig_close(&own);
		_exit(status);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	qbrt_model_free(model);
}
END_TEST

/* A process that has begun nothing before, as one of spawn; 0: all is well. */
static int infer_on_own_core(enum qbrt_core core, int ready, int go)
{
	const struct qbrt_core_id id = { QBRT_CLUSTER_0, core };
	struct qbrt_model_config *config;
	struct qbrt_core_id target = { 0 };
	struct qbrt_model *model;
	struct rig rig;
	char byte = 0;
	size_t num = 0;

	alarm(60);
	if (qbrt_model_config_alloc(&config) ||
	    qbrt_model_config_set_single_core_ids(config, &id, 1) ||
	    qbrt_model_load(GOLDEN_MODEL, config, &model))
		return 1;
	qbrt_model_config_free(config);
	rig_open(&rig, NULL, model);
	if (qbrt_model_query_target_cores(model, &target, 1, &num) ||
	    num != 1 || target.core != core ||
	    qbrt_accelerator_get_number(rig.acc) != 0)
		return 2;
	/* all of them are launched at once */
	if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 1)
		return 3;
	for (unsigned int seed = 0; seed < 100; seed++) {
		fill(rig.in, seed);
		if (rig_infer(&rig, NULL) || !holds(rig.out, seed))
			return 4;
	}
	rig_close(&rig);
	return 0;
}

/* Q743 */
START_TEST(processes_with_a_core_each_work_side_by_side)
{
	int ready[2], go[2], status;
	pid_t children[4];
	char bytes[4] = { 0 };

	ck_assert_int_eq(pipe(ready), 0);
	ck_assert_int_eq(pipe(go), 0);
	for (int i = 0; i < 4; i++) {
		children[i] = fork();
		if (!children[i])
			_exit(infer_on_own_core(QBRT_CORE_0 + (unsigned int)i,
						ready[1], go[0]));
	}
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(read(ready[0], bytes, 1), 1);
	ck_assert_int_eq(write(go[1], bytes, 4), 4);
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
		ck_assert(WIFEXITED(status));
		ck_assert_int_eq(WEXITSTATUS(status), 0);
	}
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(close(ready[i]), 0);
		ck_assert_int_eq(close(go[i]), 0);
	}
}
END_TEST

void add_infer_fork_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(
			a_child_waits_for_no_lock_and_no_count_of_its_parent,
			3),
		QBRT_TEST(a_child_launches_what_its_parent_loaded),
		QBRT_TEST(processes_with_a_core_each_work_side_by_side),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
