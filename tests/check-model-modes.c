// SPDX-License-Identifier: MIT
/*
 * Core modes: what load resolves and refuses, and what a launch asks for.
 * Modes that the software NPU may not run are launched on a driver that says
 * it runs them, keeps what it was asked, and runs nothing.
 */
#include "check-model.h"

#include "accelerator.h"
#include "counters.h"
#include "model.h"
#include "util.h"

/* Q144 Q223 Q272 MM08 MM09 */
START_TEST(the_mode_is_resolved_at_load)
{
	const uint32_t both = MODE_BIT(SINGLE) | MODE_BIT(MULTI);
	struct qbrt_model_config *config = alloc_model_config();
	struct qbrt_model *model;

	model = load_modes(MODE_BIT(MULTI), NULL);
	ck_assert_int_eq(qbrt_model_get_core_mode(model), QBRT_CORE_MODE_MULTI);
	qbrt_model_free(model);
	model = load_modes(MODE_BIT(GLOBAL8), config);
	ck_assert_int_eq(qbrt_model_get_core_mode(model),
			 QBRT_CORE_MODE_GLOBAL8);
	qbrt_model_free(model);
	ck_assert_ok(qbrt_model_config_set_multi_core_mode(config, NULL, 0));
	model = load_modes(both, config);
	/* the model has its own copy */
	ck_assert_ok(qbrt_model_config_set_single_core_mode(config, 2));
	ck_assert_int_eq(qbrt_model_get_core_mode(model), QBRT_CORE_MODE_MULTI);
	ck_assert_uint_eq(qbrt_model_get_core_modes(model), both);
	qbrt_model_free(model);
	model = load_modes(both, config);
	qbrt_model_config_free(config);
	ck_assert_int_eq(qbrt_model_get_core_mode(model),
			 QBRT_CORE_MODE_SINGLE);
	qbrt_model_free(model);
}
END_TEST

/* MM09: code 16 names both sides. */
START_TEST(a_mode_that_the_file_lacks_is_refused_at_load)
{
	struct qbrt_model_config *config = alloc_model_config();
	struct qbrt_model *model = NULL;

	ck_assert_ok(qbrt_model_config_set_global4_core_mode(config, NULL, 0));
	ck_assert_status(try_load_modes(MODE_BIT(SINGLE) | MODE_BIT(MULTI), 0,
					config, &model),
			 QBRT_MODEL_MXQ_AND_MODEL_CONFIG_NOT_MATCH);
	ck_assert_detail("Single, Multi");
	ck_assert_detail("Global4");
	ck_assert_ok(qbrt_model_config_set_single_core_mode(config, 1));
	ck_assert_status(try_load_modes(MODE_BIT(GLOBAL8), 0, config, &model),
			 QBRT_MODEL_MXQ_AND_MODEL_CONFIG_NOT_MATCH);
	ck_assert_detail("core modes Global8");
	ck_assert_detail("Single");
	ck_assert_ptr_null(model);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.live_models), 0);
	qbrt_model_config_free(config);
}
END_TEST

/* Q234 MM15 */
START_TEST(only_a_bundle_that_the_file_has_may_be_forced)
{
	struct qbrt_accelerator *acc = open_device("aries", -1);
	struct qbrt_model_config *config = alloc_model_config();
	struct qbrt_model *model = NULL;

	ck_assert_ok(qbrt_model_config_set_forced_npu_bundle(config, 1));
	ck_assert_status(try_load_modes(0, 0, config, &model),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("bundle 1");
	ck_assert_detail("number of bundles is 1");
	ck_assert_status(qbrt_model_load(GOLDEN_MODEL, config, &model),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_ptr_null(model);
	ck_assert_ok(qbrt_model_config_set_forced_npu_bundle(config, 0));
	model = load_modes(0, config);
	ck_assert_ok(qbrt_model_launch(model, acc));
	check_copies(model);
	qbrt_model_free(model);
	qbrt_model_config_free(config);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q223 Q724 */
START_TEST(the_model_keeps_what_the_configuration_said)
{
	struct qbrt_model_config *config = alloc_model_config();
	struct qbrt_model *model = NULL;

	ck_assert_ok(qbrt_model_config_set_async_pipeline(config, true));
	ck_assert_ok(qbrt_model_load(GOLDEN_MODEL, config, &model));
	ck_assert_ok(qbrt_model_config_set_async_pipeline(config, false));
	ck_assert(model->has_async_pipeline);
	qbrt_model_free(model);
	ck_assert_ok(qbrt_model_load(GOLDEN_MODEL, config, &model));
	ck_assert(!model->has_async_pipeline);
	qbrt_model_free(model);
	ck_assert_ok(qbrt_model_load(GOLDEN_MODEL, NULL, &model));
	ck_assert(!model->has_async_pipeline);
	qbrt_model_free(model);
	qbrt_model_config_free(config);
}
END_TEST

/* A driver that says it runs all modes; the last program it was asked for. */
static const struct qbrt_kmd *below;
static struct qbrt_kmd all_modes;
static struct drm_qbnpu_program_create last_create;

static int all_modes_ioctl(int file, unsigned long request, void *arg)
{
	if (request == DRM_IOCTL_QBNPU_PROGRAM_CREATE) {
		struct drm_qbnpu_program_create *create = arg;

		last_create = *create;
		create->handle = 1;
		return 0;
	}
	if (request == DRM_IOCTL_QBNPU_PROGRAM_DESTROY)
		return 0;
	return below->ioctl(file, request, arg);
}

static void run_all_modes(struct qbrt_accelerator *acc)
{
	below = acc->device->kmd;
	all_modes = *below;
	all_modes.ioctl = all_modes_ioctl;
	acc->device->kmd = &all_modes;
	acc->device->facts.core_modes = MODE_BIT(SINGLE) | MODE_BIT(MULTI) |
					MODE_BIT(GLOBAL4) | MODE_BIT(GLOBAL8);
}

#define BOTH_GLOBAL (UINT64_C(3) << 32)

struct cluster_case {
	enum qbrt_core_mode mode;
	size_t num_clusters;
	enum qbrt_cluster clusters[2];
	uint64_t targets;
	uint64_t num_arenas;
	size_t slots;
};

static const struct cluster_case cluster_cases[] = {
	{ QBRT_CORE_MODE_MULTI, 0, { 0 }, ALL_CORES | BOTH_GLOBAL, 8, 4 },
	{ QBRT_CORE_MODE_MULTI,
	  2,
	  { QBRT_CLUSTER_1, QBRT_CLUSTER_0 },
	  ALL_CORES | BOTH_GLOBAL,
	  8,
	  4 },
	{ QBRT_CORE_MODE_MULTI,
	  1,
	  { QBRT_CLUSTER_1 },
	  0x0f00 | UINT64_C(2) << 32,
	  4,
	  2 },
	{ QBRT_CORE_MODE_GLOBAL4, 0, { 0 }, ALL_CORES | BOTH_GLOBAL, 2, 4 },
	{ QBRT_CORE_MODE_GLOBAL4,
	  1,
	  { QBRT_CLUSTER_0 },
	  0x000f | UINT64_C(1) << 32,
	  1,
	  2 },
	{ QBRT_CORE_MODE_GLOBAL8, 0, { 0 }, ALL_CORES | BOTH_GLOBAL, 1, 2 },
};

static struct qbrt_model *load_clusters(const struct cluster_case *it)
{
	struct qbrt_model_config *config = alloc_model_config();
	struct qbrt_model *model;
	enum qbrt_status status;

	if (it->mode == QBRT_CORE_MODE_MULTI)
		status = qbrt_model_config_set_multi_core_mode(
			config, it->clusters, it->num_clusters);
	else if (it->mode == QBRT_CORE_MODE_GLOBAL4)
		status = qbrt_model_config_set_global4_core_mode(
			config, it->clusters, it->num_clusters);
	else
		status = qbrt_model_config_set_global8_core_mode(config);
	ck_assert_ok(status);
	model = load_modes(1u << it->mode, config);
	qbrt_model_config_free(config);
	return model;
}

/* Q230 Q231 Q232 Q244 Q271 Q273 Q887 MM13 */
START_TEST(cluster_modes_take_whole_clusters)
{
	const struct cluster_case *it = &cluster_cases[_i];
	struct qbrt_accelerator *acc = open_device("aries", -1);
	struct qbrt_model *model = load_clusters(it);
	uint64_t nbytes = 4096 * (1 + it->num_arenas);

	run_all_modes(acc);
	ck_assert_uint_eq(get_target_mask(model), 0);
	ck_assert_uint_eq(qbrt_model_get_memory_estimate(model), nbytes);
	ck_assert_ok(qbrt_model_launch(model, acc));
	ck_assert_uint_eq(last_create.mode, it->mode);
	ck_assert_uint_eq(last_create.core_mask, it->targets & ALL_CORES);
	ck_assert_uint_eq(get_target_mask(model), it->targets);
	ck_assert_uint_eq(qbrt_model_get_activation_slots(model), it->slots);
	ck_assert_uint_eq(qbrt_model_get_memory_estimate(model), nbytes);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q155: with a driver that runs the mode on fewer clusters. */
START_TEST(clusters_that_the_device_lacks_are_refused)
{
	static const struct cluster_case one = {
		.mode = QBRT_CORE_MODE_GLOBAL4,
		.num_clusters = 1,
		.clusters = { QBRT_CLUSTER_1 },
	};
	struct qbrt_accelerator *acc = open_device("aries", -1);
	struct qbrt_model *model = load_clusters(&one);

	run_all_modes(acc);
	acc->device->facts.core_mask = 0x0f;
	acc->device->facts.clusters = 1;
	ck_assert_status(qbrt_model_launch(model, acc),
			 QBRT_MODEL_NO_TARGET_CORES);
	ck_assert_detail("Cluster1/Core0");
	ck_assert_detail("it has Cluster0/Core0, Cluster0/Core1");
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

void add_model_modes_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(the_mode_is_resolved_at_load),
		QBRT_TEST(a_mode_that_the_file_lacks_is_refused_at_load),
		QBRT_TEST(only_a_bundle_that_the_file_has_may_be_forced),
		QBRT_TEST(the_model_keeps_what_the_configuration_said),
		QBRT_LOOP_TEST(cluster_modes_take_whole_clusters,
			       qbrt_array_size(cluster_cases)),
		QBRT_TEST(clusters_that_the_device_lacks_are_refused),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
