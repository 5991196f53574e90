// SPDX-License-Identifier: MIT
/*
 * What a launch makes of a configuration of mode Single: cores, slots, memory.
 * Modes are check-model-modes.c's.
 */
#include "check-model.h"

#include <stdlib.h>
#include <unistd.h>

#include "accelerator.h"
#include "counters.h"
#include "device/fault.h"
#include "future.h"
#include "model.h"
#include "models.h"
#include "soft/soft.h"
#include "util.h"

struct qbrt_model_config *alloc_model_config(void)
{
	struct qbrt_model_config *config = NULL;

	ck_assert_ok(qbrt_model_config_alloc(&config));
	return config;
}

enum qbrt_status try_load_modes(uint32_t mode_mask, uint32_t slots,
				const struct qbrt_model_config *config,
				struct qbrt_model **model)
{
	struct prog prog;
	struct models_spec spec = {
		.programs = { &prog },
		.num_programs = 1,
		.mode_mask = mode_mask,
		.activation_slots = slots,
	};
	enum qbrt_status status;
	uint16_t in;
	uint16_t out;
	size_t nbytes;
	void *bytes;
	int fd;

	prog_begin(&prog);
	if (mode_mask == MODE_BIT(GLOBAL4) || mode_mask == MODE_BIT(GLOBAL8))
		prog.core_mode = (uint32_t)__builtin_ctz(mode_mask);
	in = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(64));
	out = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64));
	prog_fill(&prog, prog_scratch(&prog, QBNPU_DTYPE_U8, DIMS(4096)), 0);
	prog_copy(&prog, in, out);
	bytes = models_build(&spec, &nbytes);
	fd = models_write(bytes, nbytes);
	status = qbrt_model_load_fd(fd, config, model);
	close(fd);
	free(bytes);
	prog_end(&prog);
	return status;
}

struct qbrt_model *load_modes(uint32_t mode_mask,
			      const struct qbrt_model_config *config)
{
	struct qbrt_model *model = NULL;

	ck_assert_ok(try_load_modes(mode_mask, 0, config, &model));
	return model;
}

/* A model of mode Single on so many cores. */
static struct qbrt_model *load_count(size_t num_cores)
{
	struct qbrt_model_config *config = alloc_model_config();
	struct qbrt_model *model;

	ck_assert_ok(qbrt_model_config_set_single_core_mode(config, num_cores));
	model = load_modes(0, config);
	qbrt_model_config_free(config);
	return model;
}

uint64_t get_target_mask(const struct qbrt_model *model)
{
	struct qbrt_core_id cores[16];
	uint64_t mask = 0;
	size_t num = 0;

	ck_assert_ok(qbrt_model_query_target_cores(model, cores, 16, &num));
	ck_assert_uint_le(num, 16);
	for (size_t i = 0; i < num; i++) {
		unsigned int cluster = (cores[i].cluster >> 16) - 1u;

		ck_assert(qbrt_model_is_target(model, cores[i]));
		mask |= cores[i].core == QBRT_CORE_GLOBAL
				? UINT64_C(1) << (32 + cluster)
				: UINT64_C(1) << (8 * cluster + cores[i].core -
						  QBRT_CORE_0);
	}
	ck_assert_int_eq(__builtin_popcountll(mask), (int)num);
	return mask;
}

/* Q226 Q237 Q273: the lowest, then the least loaded; dispose gives back. */
START_TEST(a_count_takes_the_least_loaded_cores)
{
	struct qbrt_accelerator *acc = open_device("aries", -1);
	struct qbrt_model *first = load_count(1);
	struct qbrt_model *second = load_count(1);
	struct qbrt_model *third = load_count(3);
	struct qbrt_model *all = load_count(0);
	struct qbrt_model *fourth = load_count(5);

	ck_assert_uint_eq(get_target_mask(first), 0);
	ck_assert_ok(qbrt_model_launch(first, acc));
	ck_assert_uint_eq(get_target_mask(first), 0x0001);
	ck_assert_ok(qbrt_model_launch(second, acc));
	ck_assert_uint_eq(get_target_mask(second), 0x0002);
	/* one on every core changes no order */
	ck_assert_ok(qbrt_model_launch(all, acc));
	ck_assert_uint_eq(get_target_mask(all), ALL_CORES);
	ck_assert_ok(qbrt_model_launch(third, acc));
	ck_assert_uint_eq(get_target_mask(third), 0x010c);
	ck_assert_ok(qbrt_model_dispose(second));
	ck_assert_uint_eq(get_target_mask(second), 0);
	ck_assert_ok(qbrt_model_launch(fourth, acc));
	ck_assert_uint_eq(get_target_mask(fourth), 0x0e03);
	check_copies(first);
	check_copies(third);
	check_copies(fourth);
	qbrt_model_free(first);
	qbrt_model_free(second);
	qbrt_model_free(third);
	qbrt_model_free(all);
	ck_assert_ok(qbrt_model_dispose(fourth));
	/* idle again */
	ck_assert_ok(qbrt_model_launch(fourth, acc));
	ck_assert_uint_eq(get_target_mask(fourth), 0x010f);
	qbrt_model_free(fourth);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q226 Q271 Q273: known before a launch and after a dispose. */
START_TEST(a_list_is_what_the_model_runs_on)
{
	static const struct qbrt_core_id list[] = {
		{ QBRT_CLUSTER_1, QBRT_CORE_2 }, { QBRT_CLUSTER_0, QBRT_CORE_3 }
	};
	const struct qbrt_core_id other = { QBRT_CLUSTER_0, QBRT_CORE_0 };
	struct qbrt_accelerator *acc = open_device("aries", -1);
	struct qbrt_model_config *config = alloc_model_config();
	struct qbrt_core_id core_id = { 0 };
	struct qbrt_model *models[2];
	size_t num = 0;

	ck_assert_ok(qbrt_model_config_set_single_core_ids(config, list, 2));
	for (int i = 0; i < 2; i++) {
		models[i] = load_modes(0, config);
		ck_assert_uint_eq(get_target_mask(models[i]), 0x0408);
		ck_assert_ok(qbrt_model_query_target_cores(models[i], &core_id,
							   1, &num));
		ck_assert_uint_eq(num, 2);
		ck_assert_int_eq(core_id.cluster, QBRT_CLUSTER_0);
		ck_assert_int_eq(core_id.core, QBRT_CORE_3);
		ck_assert(!qbrt_model_is_target(models[i], other));
		ck_assert_ok(qbrt_model_launch(models[i], acc));
	}
	/* models share the cores that they name */
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_eq(get_target_mask(models[i]), 0x0408);
		check_copies(models[i]);
		ck_assert_ok(qbrt_model_dispose(models[i]));
		ck_assert_uint_eq(get_target_mask(models[i]), 0x0408);
		qbrt_model_free(models[i]);
	}
	qbrt_model_config_free(config);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Submitted and in flight; from the driver, when it began. */
static int64_t get_start(struct qbrt_future *future)
{
	struct drm_qbnpu_wait wait;

	ck_assert_int_eq(qbrt_queue_wait(future->job.queue, future->job.number,
					 0, INT64_MAX, &wait),
			 0);
	return wait.start_ns;
}

/* Q154: jobs of both go in the order in which they were submitted. */
START_TEST(models_share_a_core)
{
	const struct qbrt_core_id id = { QBRT_CLUSTER_1, QBRT_CORE_2 };
	struct qbrt_model_config *config = alloc_model_config();
	struct qbrt_accelerator *acc = open_device(NULL, -1);
	struct qbnpu_npu *npu = qbnpu_soft_npu(0);
	struct qbrt_pinned_memory *in, *outs[7];
	struct qbrt_future *futures[7];
	struct qbrt_model *models[2];
	int64_t last_ns = 0;
	uint32_t hang;

	setenv("QBRUNTIME_NPU_TIMEOUT_MS", "600000", 1);
	ck_assert_ok(qbrt_model_config_set_single_core_ids(config, &id, 1));
	ck_assert_ok(qbrt_model_config_set_activation_slots(config, 8));
	for (int i = 0; i < 2; i++) {
		models[i] = load_modes(0, config);
		ck_assert_ok(qbrt_model_launch(models[i], acc));
		ck_assert_uint_eq(get_target_mask(models[i]), 0x0400);
		check_copies(models[i]);
	}
	ck_assert_ok(qbrt_model_alloc_input(models[0], 0, &in));
	ck_assert_int_eq(qbnpu_fault_add(npu, "hang", &hang), 0);
	for (int i = 0; i < 7; i++) {
		ck_assert_ok(
			qbrt_model_alloc_output(models[i % 2], 0, &outs[i]));
		ck_assert_ok(qbrt_model_submit_pinned_memory(
			models[i % 2], NULL, &in, 1, &outs[i], 1, &futures[i]));
		/* the first one holds the core for the others */
		while (!qbnpu_fault_fired(npu, hang))
			continue;
	}
	ck_assert_ok(qbrt_future_cancel(futures[0], NULL));
	for (int i = 1; i < 7; i++) {
		int64_t start_ns = get_start(futures[i]);

		ck_assert_int_gt(start_ns, last_ns);
		last_ns = start_ns;
	}
	ck_assert_int_eq(qbnpu_fault_remove(npu, hang), 0);
	for (int i = 0; i < 7; i++) {
		qbrt_future_free(futures[i]);
		qbrt_pinned_memory_free(outs[i]);
	}
	qbrt_pinned_memory_free(in);
	qbrt_model_free(models[0]);
	qbrt_model_free(models[1]);
	qbrt_model_config_free(config);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q155: refused by launch alone, with the device's cores. */
START_TEST(cores_that_the_device_lacks_are_refused)
{
	static const struct qbrt_core_id list[] = {
		{ QBRT_CLUSTER_0, QBRT_CORE_0 }, { QBRT_CLUSTER_1, QBRT_CORE_2 }
	};
	struct qbrt_model_config *config = alloc_model_config();
	struct qbrt_accelerator *small = NULL;
	struct qbrt_accelerator *large = NULL;
	struct qbrt_model *listed;
	struct qbrt_model *counted = load_count(2);
	uint64_t free;

	setenv("QBRUNTIME_SOFT_DEVICES", "aries,regulus", 1);
	ck_assert_ok(qbrt_accelerator_open("aries-rb", 0, &large));
	ck_assert_ok(qbrt_accelerator_open("regulus-ra", 0, &small));
	free = get_memory_free(small);
	ck_assert_ok(qbrt_model_config_set_single_core_ids(config, list, 2));
	listed = load_modes(0, config);
	ck_assert_status(qbrt_model_launch(listed, small),
			 QBRT_MODEL_NO_TARGET_CORES);
	ck_assert_detail("lacks (Cluster1/Core2)");
	ck_assert_detail("regulus-ra:0");
	ck_assert_detail("it has Cluster0/Core0");
	ck_assert_status(qbrt_model_launch(counted, small),
			 QBRT_MODEL_NO_TARGET_CORES);
	ck_assert_detail("2 cores");
	ck_assert_detail("has 1: Cluster0/Core0");
	ck_assert_uint_eq(get_target_mask(counted), 0);
	ck_assert_uint_eq(get_memory_free(small), free);
	/* another device has them */
	ck_assert_ok(qbrt_model_launch(listed, large));
	ck_assert_ok(qbrt_model_launch(counted, large));
	ck_assert_uint_eq(get_target_mask(counted), 0x0006);
	check_copies(listed);
	check_copies(counted);
	qbrt_model_free(listed);
	qbrt_model_free(counted);
	qbrt_model_config_free(config);
	qbrt_accelerator_close(small);
	qbrt_accelerator_close(large);
}
END_TEST

/* Q267 Q273: cores are chosen anew by each launch. */
START_TEST(a_relaunch_chooses_for_the_new_device)
{
	struct qbrt_accelerator *first = open_device("aries:2", 0);
	struct qbrt_accelerator *second = open_device(NULL, 1);
	struct qbrt_model *busy = load_count(2);
	struct qbrt_model *model = load_count(1);

	ck_assert_ok(qbrt_model_launch(busy, second));
	ck_assert_ok(qbrt_model_launch(model, first));
	ck_assert_uint_eq(get_target_mask(model), 0x0001);
	ck_assert_ok(qbrt_model_dispose(model));
	ck_assert_ok(qbrt_model_launch(model, second));
	ck_assert_uint_eq(get_target_mask(model), 0x0004);
	check_copies(model);
	qbrt_model_free(model);
	qbrt_model_free(busy);
	qbrt_accelerator_close(first);
	qbrt_accelerator_close(second);
}
END_TEST

/* Q237: a launch that fails has no cores either. */
START_TEST(a_failed_launch_gives_its_cores_back)
{
	struct qbrt_accelerator *acc = open_device("aries", -1);
	struct qbrt_model *model = load_count(1);

	for (int i = 0; i < 3; i++) {
		qbnpu_soft_fail(DRM_IOCTL_QBNPU_PROGRAM_CREATE, 1, ENOSPC);
		ck_assert_status(qbrt_model_launch(model, acc),
				 QBRT_DRIVER_ALLOCATE_MODEL_MEMORY);
	}
	ck_assert_ok(qbrt_model_launch(model, acc));
	ck_assert_uint_eq(get_target_mask(model), 0x0001);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

struct slot_count {
	size_t num_cores;
	size_t asked; /* 0: the default */
	uint32_t bound;
	size_t expected;
};

static const struct slot_count slot_counts[] = {
	{ 0, 0, 0, 16 },  { 1, 0, 0, 2 },  { 3, 0, 0, 6 },
	{ 0, 0, 5, 5 },   { 1, 0, 5, 2 },  { 0, 1, 0, 1 },
	{ 1, 64, 0, 64 }, { 0, 64, 7, 7 }, { 2, 3, 9, 3 },
};

/* Q243 Q244 Q245 Q289 MM11 */
START_TEST(slots_are_the_configured_or_two_per_core)
{
	const struct slot_count *count = &slot_counts[_i];
	struct qbrt_accelerator *acc = open_device("aries", -1);
	struct qbrt_model_config *config = alloc_model_config();
	struct qbrt_model *model = NULL;

	ck_assert_ok(qbrt_model_config_set_single_core_mode(config,
							    count->num_cores));
	if (count->asked)
		ck_assert_ok(qbrt_model_config_set_activation_slots(
			config, count->asked));
	ck_assert_ok(try_load_modes(0, count->bound, config, &model));
	ck_assert_uint_eq(qbrt_model_get_activation_slots(model), 0);
	ck_assert_ok(qbrt_model_launch(model, acc));
	ck_assert_uint_eq(qbrt_model_get_activation_slots(model),
			  count->expected);
	check_copies(model);
	/* resolved for the model, not in the configuration */
	ck_assert_uint_eq(qbrt_model_config_get_activation_slots(config),
			  count->asked);
	qbrt_model_free(model);
	qbrt_model_config_free(config);
	qbrt_accelerator_close(acc);
}
END_TEST

/* MM13 */
START_TEST(the_memory_estimate_follows_the_configuration)
{
	struct qbrt_accelerator *acc;

	if (qbrt_test_has_huge_pages())
		QBRT_TEST_SKIP("2 MiB pages are reserved: sizes are rounded");
	acc = open_device("aries", -1);
	for (size_t num = 0; num <= 8; num++) {
		struct qbrt_model *model = load_count(num);
		uint64_t free = get_memory_free(acc);
		uint64_t estimate = qbrt_model_get_memory_estimate(model);

		ck_assert_uint_eq(estimate, 4096 * (1 + (num ? num : 8)));
		ck_assert_ok(qbrt_model_launch(model, acc));
		ck_assert_uint_eq(free - get_memory_free(acc), estimate);
		ck_assert_uint_eq(qbrt_model_get_memory_estimate(model),
				  estimate);
		qbrt_model_free(model);
	}
	qbrt_accelerator_close(acc);
}
END_TEST

void add_model_cores_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_count_takes_the_least_loaded_cores),
		QBRT_TEST(a_list_is_what_the_model_runs_on),
		QBRT_TEST(models_share_a_core),
		QBRT_TEST(cores_that_the_device_lacks_are_refused),
		QBRT_TEST(a_relaunch_chooses_for_the_new_device),
		QBRT_TEST(a_failed_launch_gives_its_cores_back),
		QBRT_LOOP_TEST(slots_are_the_configured_or_two_per_core,
			       qbrt_array_size(slot_counts)),
		QBRT_TEST(the_memory_estimate_follows_the_configuration),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
