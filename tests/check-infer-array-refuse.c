// SPDX-License-Identifier: MIT
/*
 * Which calls on plain arrays are refused before they have any effect, and what
 * becomes of the staging when the launch ends or the process forks.
 */
#include "check-infer-array.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counters.h"
#include "model.h"
#include "util.h"

/* Q328: with an input, with each other; side by side is fine. */
START_TEST(outputs_that_overlap_are_refused)
{
	uint8_t memory[256];
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	const struct qbrt_array in[] = { ARRAY(memory, UINT8, 64),
					 ARRAY(memory, UINT8, 64) };
	const struct qbrt_array good[] = { ARRAY(memory + 64, UINT8, 64),
					   ARRAY(memory + 128, UINT8, 64) };
	const struct qbrt_array each_other[] = {
		ARRAY(memory + 64, UINT8, 64), ARRAY(memory + 127, UINT8, 64)
	};
	const struct qbrt_array an_input[] = { ARRAY(memory + 63, UINT8, 64),
					       ARRAY(memory + 128, UINT8, 64) };
	struct array_rig rig;

	prog_begin(&prog);
	for (int i = 0; i < 2; i++) {
		uint16_t tensor = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(64));

		prog_copy(&prog, tensor,
			  prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64)));
	}
	fill_bytes(memory, sizeof(memory), 1);
	array_rig_open(&rig, models_load(&spec));
	ck_assert_status(
		qbrt_model_infer(rig.model, NULL, in, 2, each_other, 2),
		QBRT_PINNED_MEMORY_ALIASED);
	ck_assert_detail("output 1 overlaps output 0");
	ck_assert_status(qbrt_model_infer(rig.model, NULL, in, 2, an_input, 2),
			 QBRT_PINNED_MEMORY_ALIASED);
	ck_assert_detail("output 0 overlaps input 0");
	ck_assert(holds_bytes(memory, sizeof(memory), 1));
	ck_assert_uint_eq(get_array_counters(rig.model).submitted, 0);
	/* inputs may share memory */
	ck_assert_ok(qbrt_model_infer(rig.model, NULL, in, 2, good, 2));
	ck_assert_mem_eq(memory + 64, memory, 64);
	ck_assert_mem_eq(memory + 128, memory, 64);
	array_rig_close(&rig);
	prog_end(&prog);
}
END_TEST

/* What a log function does with the library, and what it leaves. */
static void launch_anew(void *arg, enum qbrt_log_level level,
			const char *component, const char *sentence)
{
	struct array_rig *rig = arg;

	(void)level;
	(void)component;
	(void)sentence;
	ck_assert_ok(qbrt_model_dispose(rig->model));
	ck_assert_ok(qbrt_model_launch(rig->model, rig->acc));
	ck_assert_status(qbrt_model_launch(rig->model, rig->acc),
			 QBRT_MODEL_ALREADY_LAUNCHED);
}

/* Q311: the line comes when the call is outside the launched model. */
START_TEST(who_logs_a_refused_type_may_launch_anew)
{
	int8_t memory[64] = { 0 };
	uint8_t out[64];
	const struct qbrt_array bad = ARRAY(memory, INT8, 64);
	const struct qbrt_array good = ARRAY(out, UINT8, 64);
	struct qbrt_future *future;
	struct array_rig rig;

	array_rig_open(&rig, models_load_copy64());
	rig.model->has_async_pipeline = true;
	qbrt_set_log_function(launch_anew, &rig);
	ck_assert_status(qbrt_model_infer(rig.model, NULL, &bad, 1, &good, 1),
			 QBRT_MODEL_DTYPE_MISMATCHED);
	ck_assert_detail("Int8 given");
	ck_assert_status(qbrt_model_submit(rig.model, NULL, &bad, 1, &future),
			 QBRT_MODEL_DTYPE_MISMATCHED);
	ck_assert_detail("Int8 given");
	qbrt_set_log_function(NULL, NULL);
	array_rig_close(&rig);
}
END_TEST

/* Q331: an output of fewer bytes than elements. */
START_TEST(an_output_folded_onto_itself_is_refused)
{
	static const int64_t shape[] = { 64 };
	static const int64_t stands[] = { 0 };
	uint8_t from[64];
	uint8_t to = 0xee;
	const struct qbrt_array in = ARRAY(from, UINT8, 64);
	const struct qbrt_array out = { &to, shape, stands, 1, QBRT_DTYPE_UINT8,
					0 };
	struct array_rig rig;

	fill_bytes(from, 64, 1);
	array_rig_open(&rig, models_load_copy64());
	ck_assert_status(array_infer(&rig, NULL, &in, &out),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("output 0");
	ck_assert_uint_eq(to, 0xee);
	array_rig_close(&rig);
}
END_TEST

/* Q733 and the order of Q481. */
START_TEST(wrong_calls_are_refused)
{
	uint8_t from[64];
	uint8_t to[128];
	const struct qbrt_array in = ARRAY(from, UINT8, 64);
	const struct qbrt_array outs[] = { ARRAY(to, UINT8, 64),
					   ARRAY(to + 64, UINT8, 64) };
	const struct qbrt_array hole = { .ndim = 0 };
	struct array_rig rig;

	memset(to, 0xee, sizeof(to));
	fill_bytes(from, 64, 1);
	array_rig_open(&rig, models_load_copy64());
	ck_assert_status(qbrt_model_infer(NULL, NULL, &in, 1, outs, 1),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_infer(rig.model, NULL, NULL, 1, outs, 1),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("inputs is NULL");
	ck_assert_status(qbrt_model_infer(rig.model, NULL, &in, 1, NULL, 1),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("outputs is NULL");
	ck_assert_status(qbrt_model_infer(rig.model, NULL, &in, 1, &hole, 1),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("output 0: data is NULL");
	ck_assert_status(qbrt_model_infer(rig.model, NULL, &in, 1, outs, 2),
			 QBRT_MODEL_OUTPUT_COUNT_MISMATCHED);
	ck_assert_detail("1 output expected, 2 given");
	ck_assert_ok(qbrt_model_dispose(rig.model));
	/* disposed comes before the count, but after what is no array */
	ck_assert_status(qbrt_model_infer(rig.model, NULL, &in, 1, outs, 2),
			 QBRT_MODEL_NOT_ALIVE);
	ck_assert_status(qbrt_model_infer(rig.model, NULL, &in, 1, &hole, 1),
			 QBRT_INVALID_ARGUMENT);
	ck_assert(holds_value(to, sizeof(to), 0xee));
	array_rig_close(&rig);
}
END_TEST

START_TEST(a_model_that_is_not_launched_says_so)
{
	uint8_t bytes[128] = { 0 };
	const struct qbrt_array in = ARRAY(bytes, UINT8, 64);
	const struct qbrt_array out = ARRAY(bytes + 64, UINT8, 64);
	struct qbrt_model *model = models_load_copy64();

	ck_assert_status(qbrt_model_infer(model, NULL, &in, 1, &out, 1),
			 QBRT_MODEL_NOT_LAUNCHED);
	ck_assert_status(qbrt_model_infer_speedrun(model, 0),
			 QBRT_MODEL_NOT_LAUNCHED);
	qbrt_model_free(model);
}
END_TEST

/* Q748: the parent's staging is not the child's. */
START_TEST(a_child_of_fork_is_refused)
{
	uint8_t bytes[128];
	const struct qbrt_array in = ARRAY(bytes, UINT8, 64);
	const struct qbrt_array out = ARRAY(bytes + 64, UINT8, 64);
	struct array_rig rig;
	int status = 1;
	pid_t pid;

	fill_bytes(bytes, 64, 1);
	array_rig_open(&rig, models_load_copy64());
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	pid = fork();
	if (pid == 0) {
		bool is_refused = array_infer(&rig, NULL, &in, &out) ==
				  QBRT_FORKED_PROCESS;

		qbrt_model_free(rig.model);
		qbrt_accelerator_close(rig.acc);
		_exit(is_refused ? 0 : 2);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	array_rig_close(&rig);
}
END_TEST

/* Staging ends with the launch. */
START_TEST(staging_goes_with_the_launch)
{
	uint8_t bytes[128];
	const struct qbrt_array in = ARRAY(bytes, UINT8, 64);
	const struct qbrt_array out = ARRAY(bytes + 64, UINT8, 64);
	struct array_rig rig;

	fill_bytes(bytes, 64, 1);
	array_rig_open(&rig, models_load_copy64());
	for (int i = 0; i < 3; i++) {
		ck_assert_ok(array_infer(&rig, NULL, &in, &out));
		ck_assert_uint_eq(atomic_load(&qbrt_counters.live_buffers), 2);
		ck_assert_ok(qbrt_model_dispose(rig.model));
		ck_assert_uint_eq(atomic_load(&qbrt_counters.live_buffers), 0);
		ck_assert_ok(qbrt_model_launch(rig.model, rig.acc));
	}
	array_rig_close(&rig);
}
END_TEST

void add_array_refuse_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(outputs_that_overlap_are_refused),
		QBRT_TEST(who_logs_a_refused_type_may_launch_anew),
		QBRT_TEST(an_output_folded_onto_itself_is_refused),
		QBRT_TEST(wrong_calls_are_refused),
		QBRT_TEST(a_model_that_is_not_launched_says_so),
		QBRT_TEST(a_child_of_fork_is_refused),
		QBRT_TEST(staging_goes_with_the_launch),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
