// SPDX-License-Identifier: MIT
/* Launch and dispose: what is refused, what a failure leaves, and again. */
#include "check-model.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accelerator.h"
#include "count-alloc.h"
#include "kmd-watch.h"
#include "models.h"
#include "soft/soft.h"
#include "util.h"

#define MAX_ALLOCATIONS 1000

/* Q262 Q263 Q265 Q267 */
START_TEST(a_model_is_launched_once_and_again_after_dispose)
{
	struct qbrt_accelerator *acc = open_device(NULL, -1);
	struct qbrt_model *model = models_load_copy64();

	ck_assert_ok(qbrt_model_dispose(model));
	ck_assert_ok(qbrt_model_launch(model, acc));
	ck_assert_status(qbrt_model_launch(model, acc),
			 QBRT_MODEL_ALREADY_LAUNCHED);
	ck_assert_detail("aries-rb:0");
	check_copies(model);
	for (int i = 0; i < 3; i++) {
		ck_assert_ok(qbrt_model_dispose(model));
		ck_assert_ok(qbrt_model_dispose(model));
		ck_assert_ok(qbrt_model_launch(model, acc));
		check_copies(model);
	}
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q267 */
START_TEST(a_model_moves_to_another_device)
{
	struct qbrt_accelerator *first = open_device("aries:2", 0);
	struct qbrt_accelerator *second = open_device(NULL, 1);
	struct qbrt_model *model = models_load_copy64();

	ck_assert_ok(qbrt_model_launch(model, first));
	check_copies(model);
	ck_assert_ok(qbrt_model_dispose(model));
	ck_assert_ok(qbrt_model_launch(model, second));
	qbrt_accelerator_close(first);
	check_copies(model);
	qbrt_model_free(model);
	qbrt_accelerator_close(second);
}
END_TEST

/* Q266 Q490 */
START_TEST(unlaunched_and_disposed_models_have_no_buffers)
{
	struct qbrt_accelerator *acc = open_device(NULL, -1);
	struct qbrt_model *model = models_load_copy64();
	struct qbrt_pinned_memory *mem = NULL;

	ck_assert_status(qbrt_model_alloc_input(model, 0, &mem),
			 QBRT_MODEL_NOT_LAUNCHED);
	ck_assert_detail("qbrt_model_launch");
	ck_assert_ok(qbrt_model_launch(model, acc));
	ck_assert_status(qbrt_model_alloc_input(model, 1, &mem),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_alloc_output(model, 0, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_ok(qbrt_model_dispose(model));
	ck_assert_status(qbrt_model_alloc_output(model, 0, &mem),
			 QBRT_MODEL_NOT_ALIVE);
	ck_assert_detail("disposed");
	ck_assert_ptr_null(mem);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q153 MM14 */
START_TEST(a_model_of_another_target_is_refused)
{
	struct prog prog;
	struct models_spec spec = {
		.programs = { &prog },
		.num_programs = 1,
		.target = 3, /* regulus-rb */
	};
	struct qbrt_accelerator *acc = NULL;
	struct qbrt_model *model;

	setenv("QBRUNTIME_SOFT_DEVICES", "aries,regulus-rb", 1);
	ck_assert_ok(qbrt_accelerator_open("aries-rb", 0, &acc));
	prog_copy64(&prog);
	model = models_load(&spec);
	ck_assert_status(qbrt_model_launch(model, acc),
			 QBRT_MODEL_IS_NOT_SUPPORTED_HARDWARE);
	ck_assert_detail("regulus-rb");
	ck_assert_detail("aries-rb");
	qbrt_accelerator_close(acc);
	ck_assert_ok(qbrt_accelerator_open("regulus-rb", 0, &acc));
	ck_assert_ok(qbrt_model_launch(model, acc));
	check_copies(model);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
	prog_end(&prog);
}
END_TEST

/* Q156 */
START_TEST(a_mode_that_the_device_lacks_is_refused)
{
	struct prog prog;
	struct models_spec spec = {
		.programs = { &prog },
		.num_programs = 1,
		.mode_mask = 1u << QBRT_CORE_MODE_MULTI,
	};
	struct qbrt_accelerator *acc = open_device("regulus", -1);
	struct qbrt_model *model;

	prog_copy64(&prog);
	model = models_load(&spec);
	ck_assert_int_eq(qbrt_model_get_core_mode(model), QBRT_CORE_MODE_MULTI);
	ck_assert_status(qbrt_model_launch(model, acc),
			 QBRT_MODEL_NO_GLOBAL_CORE_WITH_GLOBAL_MULTI_MODE);
	ck_assert_detail("Multi");
	ck_assert_detail("regulus-ra:0");
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
	prog_end(&prog);
}
END_TEST

/* Q748: a launch that failed leaves no owner, so a child may try as well. */
START_TEST(a_failed_launch_is_not_remembered_after_fork)
{
	struct qbrt_accelerator *acc = open_device("regulus", -1);
	struct prog prog;
	struct models_spec spec = {
		.programs = { &prog },
		.num_programs = 1,
		.mode_mask = 1u << QBRT_CORE_MODE_MULTI,
	};
	struct qbrt_model *model;
	pid_t child;
	int status;

	prog_copy64(&prog);
	model = models_load(&spec);
	ck_assert_status(qbrt_model_launch(model, acc),
			 QBRT_MODEL_NO_GLOBAL_CORE_WITH_GLOBAL_MULTI_MODE);
	child = fork();
	if (!child) {
		struct qbrt_accelerator *own = NULL;

		alarm(30);
		if (qbrt_accelerator_open(NULL, -1, &own))
			_exit(1);
		_exit(qbrt_model_launch(model, own) !=
		      QBRT_MODEL_NO_GLOBAL_CORE_WITH_GLOBAL_MULTI_MODE);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
	prog_end(&prog);
}
END_TEST

/* A capability is refused before any side effect. */
START_TEST(a_model_with_state_is_refused)
{
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	struct qbrt_accelerator *acc = open_device(NULL, -1);
	struct qbrt_model *model;
	uint16_t state;

	prog_begin(&prog);
	state = prog_state(&prog, QBNPU_DTYPE_U8, DIMS(64));
	prog_copy(&prog, state, prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64)));
	model = models_load(&spec);
	kmd_watch_begin(acc);
	ck_assert_status(qbrt_model_launch(model, acc), QBRT_NOT_IMPLEMENTED);
	ck_assert_detail("state");
	ck_assert_uint_eq(atomic_load(&kmd_watch.total), 0);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
	prog_end(&prog);
}
END_TEST

/* Q615 K061 */
START_TEST(an_opcode_without_a_kernel_is_named)
{
	struct prog prog;
	struct models_spec spec = {
		.programs = { &prog },
		.num_programs = 1,
		.node = "resize_node",
	};
	struct qbrt_accelerator *acc = open_device(NULL, -1);
	uint64_t free = get_memory_free(acc);
	struct qbrt_model *model;

	ck_assert_int_eq(prog_good(&prog, QBNPU_OP_RESIZE), 1);
	model = models_load(&spec);
	ck_assert_status(qbrt_model_launch(model, acc),
			 QBRT_MODEL_IS_NOT_SUPPORTED_HARDWARE);
	ck_assert_detail("opcode 0x0030");
	ck_assert_detail("(resize_node)");
	ck_assert_uint_eq(get_memory_free(acc), free);
	qbrt_model_free(model);
	spec.node = NULL;
	model = models_load(&spec);
	ck_assert_status(qbrt_model_launch(model, acc),
			 QBRT_MODEL_IS_NOT_SUPPORTED_HARDWARE);
	ck_assert_ptr_null(strchr(qbrt_error_detail(), '('));
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
	prog_end(&prog);
}
END_TEST

/* Q264: too much scratch for the device, then room on a larger one. */
START_TEST(too_little_memory_leaves_nothing_and_may_be_tried_again)
{
	struct qbrt_model *model = models_load_copy(64, 1u << 20);
	struct qbrt_accelerator *acc;
	uint64_t free;

	setenv("QBRUNTIME_SOFT_MEMORY", "4M", 1);
	acc = open_device("aries:2", 0);
	free = get_memory_free(acc);
	for (int i = 0; i < 3; i++) {
		ck_assert_status(qbrt_model_launch(model, acc), QBRT_BAD_ALLOC);
		ck_assert_str_eq(qbrt_status_name(QBRT_BAD_ALLOC), "BadAlloc");
		ck_assert_detail("memory");
		ck_assert_uint_eq(get_memory_free(acc), free);
	}
	qbrt_accelerator_close(acc);
	setenv("QBRUNTIME_SOFT_MEMORY", "64M", 1);
	acc = open_device("aries:2", 1);
	ck_assert_ok(qbrt_model_launch(model, acc));
	check_copies(model);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Two programs and weights, so that every rung of the ladder is there. */
struct qbrt_model *load_two_variants(void)
{
	static const uint8_t weights[64] = { 1, 2, 3 };
	struct prog progs[2];
	struct models_spec spec = {
		.programs = { &progs[0], &progs[1] },
		.num_programs = 2,
		.weights = weights,
		.weights_size = sizeof(weights),
	};
	struct qbrt_model *model;

	for (uint32_t i = 0; i < 2; i++) {
		struct prog *prog = &progs[i];
		uint32_t num = 64 + 64 * i;
		uint16_t in;
		uint16_t scratch;

		prog_begin(prog);
		in = prog_input(prog, QBNPU_DTYPE_U8, DIMS(num));
		scratch = prog_scratch(prog, QBNPU_DTYPE_U8, DIMS(64));
		prog_copy(prog, prog_weights(prog, QBNPU_DTYPE_U8, DIMS(64)),
			  scratch);
		prog_copy(prog, in,
			  prog_output(prog, QBNPU_DTYPE_U8, DIMS(num)));
	}
	model = models_load(&spec);
	prog_end(&progs[0]);
	prog_end(&progs[1]);
	return model;
}

struct failing_request {
	unsigned long request;
	unsigned int nth;
	int err;
	enum qbrt_status status;
};

static const struct failing_request failing_requests[] = {
	{ DRM_IOCTL_QBNPU_BO_CREATE, 1, ENODEV, QBRT_ACC_DEVICE_LOST },
	{ DRM_IOCTL_QBNPU_PROGRAM_CREATE, 1, ENOEXEC,
	  QBRT_MODEL_PROGRAM_REJECTED },
	{ DRM_IOCTL_QBNPU_PROGRAM_CREATE, 2, ENOEXEC,
	  QBRT_MODEL_PROGRAM_REJECTED },
	{ DRM_IOCTL_QBNPU_PROGRAM_CREATE, 2, EOPNOTSUPP,
	  QBRT_MODEL_IS_NOT_SUPPORTED_HARDWARE },
	{ DRM_IOCTL_QBNPU_PROGRAM_CREATE, 2, ENOSPC,
	  QBRT_DRIVER_ALLOCATE_MODEL_MEMORY },
	{ DRM_IOCTL_QBNPU_PROGRAM_CREATE, 2, ETIMEDOUT, QBRT_ACC_NPU_TIMEOUT },
	{ DRM_IOCTL_QBNPU_PROGRAM_CREATE, 2, EIO, QBRT_ACC_DRIVER_PROTOCOL },
	{ DRM_IOCTL_QBNPU_PROGRAM_CREATE, 2, ENODEV, QBRT_ACC_DEVICE_LOST },
};

/* Q615 Q264 */
START_TEST(a_failed_request_leaves_nothing)
{
	const struct failing_request *failing = &failing_requests[_i];
	struct qbrt_accelerator *acc = open_device(NULL, -1);
	struct qbrt_model *model = load_two_variants();
	uint64_t free = get_memory_free(acc);

	qbnpu_soft_fail(failing->request, failing->nth, failing->err);
	ck_assert_status(qbrt_model_launch(model, acc), failing->status);
	ck_assert_uint_eq(get_memory_free(acc), free);
	ck_assert_uint_eq(qbrt_model_get_activation_slots(model), 0);
	ck_assert_ok(qbrt_model_launch(model, acc));
	check_copies(model);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Freed buffers that are kept for reuse must not cost a launch its memory. */
START_TEST(a_launch_that_lacks_memory_is_tried_with_an_empty_pool)
{
	struct qbrt_accelerator *acc = open_device(NULL, -1);
	struct qbrt_model *model = load_two_variants();

	qbnpu_soft_fail(DRM_IOCTL_QBNPU_PROGRAM_CREATE, 2, ENOMEM);
	ck_assert_ok(qbrt_model_launch(model, acc));
	check_copies(model);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

/* One request for the weights and one per program, when launched and after. */
START_TEST(a_launch_asks_once_per_program)
{
	struct qbrt_accelerator *acc = open_device(NULL, -1);
	struct qbrt_model *model = load_two_variants();

	kmd_watch_begin(acc);
	ck_assert_ok(qbrt_model_launch(model, acc));
	ck_assert_uint_eq(kmd_watch_count(DRM_IOCTL_QBNPU_PROGRAM_CREATE), 2);
	ck_assert_uint_eq(kmd_watch_count(DRM_IOCTL_QBNPU_BO_CREATE), 1);
	ck_assert_ok(qbrt_model_dispose(model));
	ck_assert_uint_eq(kmd_watch_count(DRM_IOCTL_QBNPU_PROGRAM_DESTROY), 2);
	ck_assert_uint_eq(kmd_watch_count(DRM_IOCTL_GEM_CLOSE), 1);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Of a launch whose n-th allocation fails; true: there was none. */
static bool launch_without(struct qbrt_model *model,
			   struct qbrt_accelerator *acc, long n)
{
	enum qbrt_status status;
	long num;

	kmd_watch_begin(acc);
	count_alloc_begin(n);
	status = qbrt_model_launch(model, acc);
	num = count_alloc_end();
	/* the driver's: the request is made again */
	if (num < n || atomic_load(&kmd_watch.num_failed)) {
		ck_assert_ok(status);
		check_copies(model);
		ck_assert_ok(qbrt_model_dispose(model));
	} else {
		ck_assert_status(status,
				 QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
	}
	return num < n;
}

/* ST7: for each n until there is none. */
START_TEST(every_failed_allocation_of_a_launch_leaves_nothing)
{
	struct qbrt_accelerator *acc = open_device(NULL, -1);
	struct qbrt_model *model = load_two_variants();
	uint64_t free = get_memory_free(acc);
	long n = 1;

	while (!launch_without(model, acc, n) && n < MAX_ALLOCATIONS) {
		ck_assert_uint_eq(get_memory_free(acc), free);
		n++;
	}
	ck_assert_int_gt(n, 3);
	ck_assert_int_lt(n, MAX_ALLOCATIONS);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

/* ST7 */
START_TEST(every_failed_allocation_of_a_load_leaves_nothing)
{
	struct qbrt_model *model = NULL;
	enum qbrt_status status = QBRT_BAD_ALLOC;
	long n;

	for (n = 1; status && n < MAX_ALLOCATIONS; n++) {
		count_alloc_begin(n);
		status = qbrt_model_load(GOLDEN_MODEL, NULL, &model);
		count_alloc_end();
		if (!status)
			break;
		ck_assert_status(status,
				 QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
		ck_assert_ptr_null(model);
	}
	ck_assert_int_gt(n, 3);
	ck_assert_ok(status);
	qbrt_model_free(model);
}
END_TEST

void add_model_launch_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_model_is_launched_once_and_again_after_dispose),
		QBRT_TEST(a_model_moves_to_another_device),
		QBRT_TEST(unlaunched_and_disposed_models_have_no_buffers),
		QBRT_TEST(a_model_of_another_target_is_refused),
		QBRT_TEST(a_mode_that_the_device_lacks_is_refused),
		QBRT_TEST(a_failed_launch_is_not_remembered_after_fork),
		QBRT_TEST(a_model_with_state_is_refused),
		QBRT_TEST(an_opcode_without_a_kernel_is_named),
		QBRT_TEST(
			too_little_memory_leaves_nothing_and_may_be_tried_again),
		QBRT_LOOP_TEST(a_failed_request_leaves_nothing,
			       qbrt_array_size(failing_requests)),
		QBRT_TEST(
			a_launch_that_lacks_memory_is_tried_with_an_empty_pool),
		QBRT_TEST(a_launch_asks_once_per_program),
		QBRT_TEST(every_failed_allocation_of_a_launch_leaves_nothing),
		QBRT_TEST(every_failed_allocation_of_a_load_leaves_nothing),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
