// SPDX-License-Identifier: MIT
/*
 * The configuration as a value: what each setting takes, what it refuses, and
 * that a refused one changes nothing. What load and launch make of it is
 * check-model-modes.c's and check-model-cores.c's.
 */
#include "model-config.h"

#include <stdint.h>
#include <string.h>

#include "count-alloc.h"
#include "test-util.h"
#include "util.h"

#define CORE(cluster, core) \
	{ \
		QBRT_CLUSTER_##cluster, QBRT_CORE_##core \
	}

static struct qbrt_model_config *alloc_config(void)
{
	struct qbrt_model_config *config = NULL;

	ck_assert_ok(qbrt_model_config_alloc(&config));
	return config;
}

/* Q221 Q235 Q237 Q238 Q239 Q240 Q242 Q245 */
START_TEST(the_defaults_leave_all_open)
{
	struct qbrt_model_config *config = alloc_config();
	size_t num = 9;

	ck_assert_int_eq(qbrt_model_config_get_core_mode(config),
			 QBRT_CORE_MODE_AUTO);
	ck_assert_int_eq(qbrt_model_config_get_core_policy(config),
			 QBRT_CORE_POLICY_AUTO);
	ck_assert_uint_eq(qbrt_model_config_get_num_cores(config), 0);
	ck_assert_ptr_null(qbrt_model_config_get_core_ids(config, &num));
	ck_assert_uint_eq(num, 0);
	num = 9;
	ck_assert_ptr_null(qbrt_model_config_get_clusters(config, &num));
	ck_assert_uint_eq(num, 0);
	ck_assert_int_eq(qbrt_model_config_get_forced_npu_bundle(config), -1);
	ck_assert(!qbrt_model_config_get_async_pipeline(config));
	ck_assert_uint_eq(qbrt_model_config_get_activation_slots(config), 0);
	qbrt_model_config_free(config);
}
END_TEST

/* Q226 Q236 Q237 Q238 */
START_TEST(single_takes_a_count_of_1_to_8_or_all)
{
	struct qbrt_model_config *config = alloc_config();

	for (size_t num = 0; num <= 8; num++) {
		ck_assert_ok(
			qbrt_model_config_set_single_core_mode(config, num));
		ck_assert_int_eq(qbrt_model_config_get_core_mode(config),
				 QBRT_CORE_MODE_SINGLE);
		ck_assert_int_eq(qbrt_model_config_get_core_policy(config),
				 QBRT_CORE_POLICY_AUTO);
		ck_assert_uint_eq(qbrt_model_config_get_num_cores(config), num);
		ck_assert_ptr_null(
			qbrt_model_config_get_core_ids(config, NULL));
	}
	qbrt_model_config_free(config);
}
END_TEST

/* Q226 Q237 Q238 Q239 Q736 */
START_TEST(single_takes_a_list_and_keeps_its_order)
{
	struct qbrt_core_id list[] = { CORE(1, 3), CORE(0, 0), CORE(0, 1) };
	struct qbrt_model_config *config = alloc_config();
	const struct qbrt_core_id *core_ids;
	size_t num = 0;

	ck_assert_ok(qbrt_model_config_set_single_core_ids(config, list, 3));
	memset(list, 0, sizeof(list));
	ck_assert_int_eq(qbrt_model_config_get_core_mode(config),
			 QBRT_CORE_MODE_SINGLE);
	ck_assert_int_eq(qbrt_model_config_get_core_policy(config),
			 QBRT_CORE_POLICY_MANUAL);
	ck_assert_uint_eq(qbrt_model_config_get_num_cores(config), 3);
	core_ids = qbrt_model_config_get_core_ids(config, &num);
	ck_assert_uint_eq(num, 3);
	ck_assert_int_eq(core_ids[0].cluster, QBRT_CLUSTER_1);
	ck_assert_int_eq(core_ids[0].core, QBRT_CORE_3);
	ck_assert_int_eq(core_ids[2].cluster, QBRT_CLUSTER_0);
	ck_assert_int_eq(core_ids[2].core, QBRT_CORE_1);
	/* a list that was got may be set */
	ck_assert_ok(
		qbrt_model_config_set_single_core_ids(config, core_ids + 1, 2));
	core_ids = qbrt_model_config_get_core_ids(config, &num);
	ck_assert_uint_eq(num, 2);
	ck_assert_int_eq(core_ids[0].core, QBRT_CORE_0);
	ck_assert_int_eq(core_ids[1].core, QBRT_CORE_1);
	/* an empty one means all */
	ck_assert_ok(qbrt_model_config_set_single_core_ids(config, NULL, 0));
	ck_assert_int_eq(qbrt_model_config_get_core_policy(config),
			 QBRT_CORE_POLICY_AUTO);
	ck_assert_uint_eq(qbrt_model_config_get_num_cores(config), 0);
	qbrt_model_config_free(config);
}
END_TEST

/* Q225 Q230 Q231 Q232 Q238 Q240: each replaces what was there. */
START_TEST(cluster_modes_take_clusters)
{
	static const enum qbrt_cluster both[] = { QBRT_CLUSTER_1,
						  QBRT_CLUSTER_0 };
	static const struct qbrt_core_id core = CORE(0, 2);
	struct qbrt_model_config *config = alloc_config();
	const enum qbrt_cluster *clusters;
	size_t num = 0;

	ck_assert_ok(qbrt_model_config_set_single_core_ids(config, &core, 1));
	ck_assert_ok(qbrt_model_config_set_multi_core_mode(config, both, 2));
	ck_assert_int_eq(qbrt_model_config_get_core_mode(config),
			 QBRT_CORE_MODE_MULTI);
	ck_assert_uint_eq(qbrt_model_config_get_num_cores(config), 0);
	ck_assert_ptr_null(qbrt_model_config_get_core_ids(config, NULL));
	clusters = qbrt_model_config_get_clusters(config, &num);
	ck_assert_uint_eq(num, 2);
	ck_assert_int_eq(clusters[0], QBRT_CLUSTER_1);
	ck_assert_int_eq(clusters[1], QBRT_CLUSTER_0);
	ck_assert_ok(
		qbrt_model_config_set_global4_core_mode(config, clusters, 1));
	ck_assert_int_eq(qbrt_model_config_get_core_mode(config),
			 QBRT_CORE_MODE_GLOBAL4);
	clusters = qbrt_model_config_get_clusters(config, &num);
	ck_assert_uint_eq(num, 1);
	ck_assert_int_eq(clusters[0], QBRT_CLUSTER_1);
	ck_assert_ok(qbrt_model_config_set_multi_core_mode(config, NULL, 0));
	ck_assert_ptr_null(qbrt_model_config_get_clusters(config, &num));
	ck_assert_uint_eq(num, 0);
	ck_assert_ok(qbrt_model_config_set_global4_core_mode(config, both, 2));
	ck_assert_ok(qbrt_model_config_set_global8_core_mode(config));
	ck_assert_int_eq(qbrt_model_config_get_core_mode(config),
			 QBRT_CORE_MODE_GLOBAL8);
	ck_assert_ptr_null(qbrt_model_config_get_clusters(config, NULL));
	ck_assert_ok(qbrt_model_config_set_single_core_mode(config, 3));
	ck_assert_ok(qbrt_model_config_set_auto_core_mode(config));
	ck_assert_int_eq(qbrt_model_config_get_core_mode(config),
			 QBRT_CORE_MODE_AUTO);
	ck_assert_uint_eq(qbrt_model_config_get_num_cores(config), 0);
	qbrt_model_config_free(config);
}
END_TEST

/* Q234 Q235 Q241 Q242 Q243 Q245: no mode touches them. */
START_TEST(other_settings_are_kept)
{
	struct qbrt_model_config *config = alloc_config();

	ck_assert_ok(qbrt_model_config_set_forced_npu_bundle(config, 0));
	ck_assert_ok(qbrt_model_config_set_async_pipeline(config, true));
	ck_assert_ok(qbrt_model_config_set_activation_slots(config, 64));
	ck_assert_ok(qbrt_model_config_set_global8_core_mode(config));
	ck_assert_int_eq(qbrt_model_config_get_forced_npu_bundle(config), 0);
	ck_assert(qbrt_model_config_get_async_pipeline(config));
	ck_assert_uint_eq(qbrt_model_config_get_activation_slots(config), 64);
	ck_assert_ok(qbrt_model_config_set_forced_npu_bundle(config, 7));
	ck_assert_int_eq(qbrt_model_config_get_forced_npu_bundle(config), 7);
	ck_assert_ok(qbrt_model_config_set_forced_npu_bundle(config, -1));
	ck_assert_int_eq(qbrt_model_config_get_forced_npu_bundle(config), -1);
	ck_assert_ok(qbrt_model_config_set_async_pipeline(config, false));
	ck_assert(!qbrt_model_config_get_async_pipeline(config));
	ck_assert_ok(qbrt_model_config_set_activation_slots(config, 1));
	ck_assert_uint_eq(qbrt_model_config_get_activation_slots(config), 1);
	qbrt_model_config_free(config);
}
END_TEST

struct rejection {
	enum qbrt_core_mode mode; /* AUTO: what number is for another setting */
	size_t number;
	size_t num_core_ids;
	size_t num_clusters;
	struct qbrt_core_id core_ids[9];
	enum qbrt_cluster clusters[3];
	const char *detail;
};

#define UNKNOWN_CLUSTER ((enum qbrt_cluster)0x30000)
#define UNKNOWN_CORE ((enum qbrt_core)5)

static const struct rejection rejections[] = {
	{ .mode = QBRT_CORE_MODE_SINGLE, .number = 9, .detail = "1 to 8" },
	{ .mode = QBRT_CORE_MODE_SINGLE,
	  .number = SIZE_MAX,
	  .detail = "below 1" },
	{ .num_core_ids = 2,
	  .core_ids = { CORE(0, 1), CORE(0, 1) },
	  .detail = "core_ids[1]" },
	{ .num_core_ids = 9,
	  .core_ids = { CORE(0, 0), CORE(0, 1), CORE(0, 2), CORE(0, 3),
			CORE(1, 0), CORE(1, 1), CORE(1, 2), CORE(1, 3),
			CORE(1, 2) },
	  .detail = "core_ids[8]" },
	{ .num_core_ids = 1,
	  .core_ids = { CORE(0, GLOBAL) },
	  .detail = "0xff" },
	{ .num_core_ids = 1, .core_ids = { CORE(0, ALL) }, .detail = "0xfffc" },
	{ .num_core_ids = 2,
	  .core_ids = { CORE(0, 0), CORE(0, ERROR) },
	  .detail = "core_ids[1]" },
	{ .num_core_ids = 1,
	  .core_ids = { CORE(ERROR, 0) },
	  .detail = "QBRT_CLUSTER_0" },
	{ .num_core_ids = 1,
	  .core_ids = { { UNKNOWN_CLUSTER, QBRT_CORE_0 } },
	  .detail = "0x30000" },
	{ .num_core_ids = 1,
	  .core_ids = { { QBRT_CLUSTER_0, UNKNOWN_CORE } },
	  .detail = "0x5" },
	{ .num_core_ids = 1,
	  .core_ids = { { QBRT_CLUSTER_0, (enum qbrt_core)0 } },
	  .detail = "QBRT_CORE_0" },
	{ .mode = QBRT_CORE_MODE_MULTI,
	  .num_clusters = 2,
	  .clusters = { QBRT_CLUSTER_1, QBRT_CLUSTER_1 },
	  .detail = "clusters[1]" },
	{ .mode = QBRT_CORE_MODE_MULTI,
	  .num_clusters = 1,
	  .clusters = { QBRT_CLUSTER_ERROR },
	  .detail = "0x7fff0000" },
	{ .mode = QBRT_CORE_MODE_GLOBAL4,
	  .num_clusters = 3,
	  .clusters = { QBRT_CLUSTER_0, QBRT_CLUSTER_1, QBRT_CLUSTER_0 },
	  .detail = "clusters[2]" },
	{ .mode = QBRT_CORE_MODE_GLOBAL4,
	  .num_clusters = 1,
	  .clusters = { UNKNOWN_CLUSTER },
	  .detail = "0x30000" },
	{ .mode = QBRT_CORE_MODE_AUTO, .number = 0, .detail = "1 to 64" },
	{ .mode = QBRT_CORE_MODE_AUTO, .number = 65, .detail = "1 to 64" },
	{ .mode = QBRT_CORE_MODE_ERROR, .detail = "-2" },
};

static enum qbrt_status set_rejected(struct qbrt_model_config *config,
				     const struct rejection *bad)
{
	if (bad->num_core_ids)
		return qbrt_model_config_set_single_core_ids(
			config, bad->core_ids, bad->num_core_ids);
	switch (bad->mode) {
	case QBRT_CORE_MODE_SINGLE:
		return qbrt_model_config_set_single_core_mode(config,
							      bad->number);
	case QBRT_CORE_MODE_MULTI:
		return qbrt_model_config_set_multi_core_mode(
			config, bad->clusters, bad->num_clusters);
	case QBRT_CORE_MODE_GLOBAL4:
		return qbrt_model_config_set_global4_core_mode(
			config, bad->clusters, bad->num_clusters);
	case QBRT_CORE_MODE_AUTO:
		return qbrt_model_config_set_activation_slots(config,
							      bad->number);
	default:
		return qbrt_model_config_set_forced_npu_bundle(config, -2);
	}
}

struct line {
	int num;
	enum qbrt_log_level level;
	char component[32];
	char sentence[256];
};

/* What a log function may do: fail in the library, with another sentence. */
static void take_line(void *arg, enum qbrt_log_level level,
		      const char *component, const char *sentence)
{
	struct line *line = arg;

	line->num++;
	line->level = level;
	strncpy(line->component, component, sizeof(line->component) - 1);
	strncpy(line->sentence, sentence, sizeof(line->sentence) - 1);
	ck_assert_int_eq(qbrt_model_config_alloc(NULL), QBRT_INVALID_ARGUMENT);
}

/* Q229 Q230 Q231 Q234 Q243 Q723: refused, said and logged, nothing changed. */
START_TEST(a_rejected_setting_changes_nothing)
{
	static const struct qbrt_core_id list[] = { CORE(1, 1), CORE(0, 2) };
	const struct rejection *bad = &rejections[_i];
	struct qbrt_model_config *config = alloc_config();
	struct qbrt_model_config *before = NULL;
	struct line line = { 0 };

	ck_assert_ok(qbrt_model_config_set_single_core_ids(config, list, 2));
	ck_assert_ok(qbrt_model_config_set_activation_slots(config, 5));
	ck_assert_ok(qbrt_model_config_copy(config, &before));
	qbrt_set_log_function(take_line, &line);
	ck_assert_status(set_rejected(config, bad), QBRT_INVALID_ARGUMENT);
	qbrt_set_log_function(NULL, NULL);
	ck_assert_detail(bad->detail);
	ck_assert_detail("expected");
	ck_assert(qbrt_model_config_is_equal(config, before));
	ck_assert_int_eq(line.num, 1);
	ck_assert_int_eq(line.level, QBRT_LOG_LEVEL_WARN);
	ck_assert_str_eq(line.component, "model-config");
	ck_assert_str_eq(line.sentence, qbrt_error_detail());
	qbrt_model_config_free(before);
	qbrt_model_config_free(config);
}
END_TEST

/* One setting, so that its number says which getter differs. */
static void set_one(struct qbrt_model_config *config, int number)
{
	static const struct qbrt_core_id ids[] = { CORE(0, 0), CORE(0, 1),
						   CORE(1, 0) };
	static const enum qbrt_cluster clusters[] = { QBRT_CLUSTER_0,
						      QBRT_CLUSTER_1 };
	enum qbrt_status status = QBRT_INTERNAL_ERROR;

	switch (number) {
	case 0:
		status = qbrt_model_config_set_auto_core_mode(config);
		break;
	case 1:
	case 2:
		status = qbrt_model_config_set_single_core_mode(
			config, (size_t)number - 1);
		break;
	case 3: /* differs from 2 in the list's length alone */
	case 4:
	case 5:
		status = qbrt_model_config_set_single_core_ids(
			config, ids + number - 3, 1);
		break;
	case 6:
	case 7:
		status = qbrt_model_config_set_multi_core_mode(
			config, clusters + number - 6, 1);
		break;
	case 8:
		status = qbrt_model_config_set_multi_core_mode(config, NULL, 0);
		break;
	case 9:
		status = qbrt_model_config_set_forced_npu_bundle(config, 0);
		break;
	case 10:
		status = qbrt_model_config_set_async_pipeline(config, true);
		break;
	case 11:
		status = qbrt_model_config_set_activation_slots(config, 3);
		break;
	}
	ck_assert_ok(status);
}

/* Q223 */
START_TEST(a_copy_is_equal_until_one_changes)
{
	for (int i = 0; i < 12; i++) {
		struct qbrt_model_config *config = alloc_config();
		struct qbrt_model_config *copy = NULL;

		set_one(config, i);
		ck_assert_ok(qbrt_model_config_copy(config, &copy));
		ck_assert(qbrt_model_config_is_equal(config, copy));
		for (int k = 0; k < 12; k++) {
			struct qbrt_model_config *other = alloc_config();

			set_one(other, k);
			ck_assert_int_eq(
				qbrt_model_config_is_equal(config, other),
				i == k);
			ck_assert_int_eq(
				qbrt_model_config_is_equal(other, copy),
				i == k);
			qbrt_model_config_free(other);
		}
		ck_assert_ok(qbrt_model_config_set_global8_core_mode(config));
		ck_assert(!qbrt_model_config_is_equal(config, copy));
		qbrt_model_config_free(config);
		qbrt_model_config_free(copy);
	}
}
END_TEST

/* Q733 */
START_TEST(null_is_refused_or_answers_nothing)
{
	struct qbrt_model_config *config = alloc_config();
	struct qbrt_model_config *copy = config;
	size_t num = 9;

	ck_assert_status(qbrt_model_config_alloc(NULL), QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_config_copy(NULL, &copy),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_config_copy(config, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_ptr_eq(copy, config);
	ck_assert_status(qbrt_model_config_set_auto_core_mode(NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_config_set_single_core_mode(NULL, 1),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_config_set_single_core_ids(NULL, NULL, 0),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_config_set_single_core_ids(config, NULL, 1),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("core_ids");
	ck_assert_status(qbrt_model_config_set_multi_core_mode(NULL, NULL, 0),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(
		qbrt_model_config_set_global4_core_mode(config, NULL, 1),
		QBRT_INVALID_ARGUMENT);
	ck_assert_detail("clusters");
	ck_assert_status(qbrt_model_config_set_global8_core_mode(NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_config_set_forced_npu_bundle(NULL, 0),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_config_set_async_pipeline(NULL, true),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_config_set_activation_slots(NULL, 1),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_int_eq(qbrt_model_config_get_core_mode(NULL), 0);
	ck_assert_int_eq(qbrt_model_config_get_core_policy(NULL), 0);
	ck_assert_uint_eq(qbrt_model_config_get_num_cores(NULL), 0);
	ck_assert_ptr_null(qbrt_model_config_get_core_ids(NULL, &num));
	ck_assert_uint_eq(num, 0);
	num = 9;
	ck_assert_ptr_null(qbrt_model_config_get_clusters(NULL, &num));
	ck_assert_uint_eq(num, 0);
	ck_assert_int_eq(qbrt_model_config_get_forced_npu_bundle(NULL), 0);
	ck_assert(!qbrt_model_config_get_async_pipeline(NULL));
	ck_assert_uint_eq(qbrt_model_config_get_activation_slots(NULL), 0);
	ck_assert(qbrt_model_config_is_equal(NULL, NULL));
	ck_assert(!qbrt_model_config_is_equal(config, NULL));
	ck_assert(!qbrt_model_config_is_equal(NULL, config));
	qbrt_model_config_free(NULL);
	qbrt_model_config_free(config);
}
END_TEST

/* The cores that it names, as the driver numbers them. */
START_TEST(the_mask_has_the_cores_that_are_named)
{
	static const struct qbrt_core_id ids[] = { CORE(1, 3), CORE(0, 1) };
	static const enum qbrt_cluster cluster = QBRT_CLUSTER_1;
	struct qbrt_model_config *config = alloc_config();

	ck_assert_uint_eq(qbrt_model_config_get_core_mask(NULL), 0);
	ck_assert_uint_eq(qbrt_model_config_get_core_mask(config), 0);
	ck_assert_ok(qbrt_model_config_set_single_core_ids(config, ids, 2));
	ck_assert_uint_eq(qbrt_model_config_get_core_mask(config), 0x0802);
	ck_assert_ok(
		qbrt_model_config_set_multi_core_mode(config, &cluster, 1));
	ck_assert_uint_eq(qbrt_model_config_get_core_mask(config), 0x0f00);
	qbrt_model_config_free(config);
}
END_TEST

/* ST7 */
START_TEST(without_memory_there_is_no_configuration)
{
	struct qbrt_model_config *config = alloc_config();
	struct qbrt_model_config *other = NULL;
	enum qbrt_status status;

	count_alloc_begin(1);
	status = qbrt_model_config_alloc(&other);
	count_alloc_end();
	ck_assert_status(status, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
	count_alloc_begin(1);
	status = qbrt_model_config_copy(config, &other);
	count_alloc_end();
	ck_assert_status(status, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
	ck_assert_ptr_null(other);
	qbrt_model_config_free(config);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(the_defaults_leave_all_open),
		QBRT_TEST(single_takes_a_count_of_1_to_8_or_all),
		QBRT_TEST(single_takes_a_list_and_keeps_its_order),
		QBRT_TEST(cluster_modes_take_clusters),
		QBRT_TEST(other_settings_are_kept),
		QBRT_LOOP_TEST(a_rejected_setting_changes_nothing,
			       qbrt_array_size(rejections)),
		QBRT_TEST(a_copy_is_equal_until_one_changes),
		QBRT_TEST(null_is_refused_or_answers_nothing),
		QBRT_TEST(the_mask_has_the_cores_that_are_named),
		QBRT_TEST(without_memory_there_is_no_configuration),
	};

	return qbrt_test_run("model-config", tests, qbrt_array_size(tests));
}
