// SPDX-License-Identifier: MIT
/* What a model tells about scales, extents and caches, all of it in its file. */
#include "check-model.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build-model.h"
#include "count-alloc.h"
#include "models.h"
#include "util.h"

#define MAX_ALLOCATIONS 1000

/* Of the finished file; build_end is the caller's. */
static struct qbrt_model *load_built(struct build *build)
{
	struct qbrt_model *model = NULL;
	int fd;

	build_seal(build->bytes, build->nbytes);
	fd = models_write(build->bytes, build->nbytes);
	ck_assert_ok(qbrt_model_load_fd(fd, NULL, &model));
	close(fd);
	return model;
}

/* The file's entry of an input or output. */
static struct qbm_io *get_io(const struct build *build, size_t number)
{
	uint8_t *section = build_content(build, "IOTB", 0);

	return (struct qbm_io *)(void *)(section + sizeof(struct qbm_iotb)) +
	       number;
}

/* MM05 Q279 Q735 Q736 */
START_TEST(scales_are_of_the_tensor_or_per_channel)
{
	struct qbrt_scale_info info = { .size = sizeof(info) };
	static struct build build;
	struct qbrt_model *model;

	ck_assert_uint_eq(sizeof(info), 40);
	build_plain(&build);
	get_io(&build, 1)->scale = 0.5f;
	model = load_built(&build);
	build_end(&build);
	ck_assert_ok(qbrt_model_query_input_scale(model, 0, 0, &info));
	ck_assert_uint_eq(info.is_uniform, 0);
	ck_assert(info.scale == 0.0f);
	ck_assert_uint_eq(info.num_scales, 3);
	for (int i = 0; i < 3; i++)
		ck_assert(info.scales[i] == 0.125f * (float)(i + 1));
	ck_assert_int_eq(info.zero_point, 0);
	ck_assert_uint_eq(info.is_asymmetric, 0);
	ck_assert_ok(qbrt_model_query_output_scale(model, 0, 0, &info));
	ck_assert_uint_eq(info.is_uniform, 1);
	ck_assert(info.scale == 0.5f);
	ck_assert_uint_eq(info.num_scales, 1);
	ck_assert(info.scales[0] == 0.5f);
	ck_assert_int_eq(info.zero_point, 128);
	ck_assert_uint_eq(info.is_asymmetric, 0);
	qbrt_model_free(model);
}
END_TEST

struct zero_point {
	enum qbrt_dtype dtype;
	int32_t value;
	uint32_t is_asymmetric;
};

static const struct zero_point zero_points[] = {
	{ QBRT_DTYPE_UINT8, 0, 0 },  { QBRT_DTYPE_UINT8, 128, 0 },
	{ QBRT_DTYPE_UINT8, 1, 1 },  { QBRT_DTYPE_UINT8, 255, 1 },
	{ QBRT_DTYPE_INT8, 0, 0 },   { QBRT_DTYPE_INT8, 127, 1 },
	{ QBRT_DTYPE_INT8, -128, 1 }
};

/* MM05 */
START_TEST(the_zero_point_says_what_is_asymmetric)
{
	const struct zero_point *expected = &zero_points[_i];
	struct qbrt_scale_info info = { .size = sizeof(info) };
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	struct qbrt_model *model = NULL;
	struct qbm_section section;
	struct qbm_io *io;
	size_t nbytes;
	uint8_t *bytes;
	uint16_t in;
	int fd;

	prog_begin(&prog);
	in = prog_input(&prog, (uint32_t)expected->dtype, DIMS(64));
	prog_copy(&prog, in,
		  prog_output(&prog, (uint32_t)expected->dtype, DIMS(64)));
	bytes = models_build(&spec, &nbytes);
	/* STRS, META, VARI, IOTB */
	memcpy(&section,
	       bytes + sizeof(struct qbm_header) + 3 * sizeof(section),
	       sizeof(section));
	io = (void *)(bytes + section.offset + sizeof(struct qbm_iotb));
	io->zero_point = expected->value;
	build_seal(bytes, nbytes);
	fd = models_write(bytes, nbytes);
	ck_assert_ok(qbrt_model_load_fd(fd, NULL, &model));
	ck_assert_ok(qbrt_model_query_input_scale(model, 0, 0, &info));
	ck_assert_int_eq(info.zero_point, expected->value);
	ck_assert_uint_eq(info.is_asymmetric, expected->is_asymmetric);
	qbrt_model_free(model);
	close(fd);
	free(bytes);
	prog_end(&prog);
}
END_TEST

/* MM06 MM10 Q280 Q735 */
START_TEST(extents_are_as_the_file_tells_them)
{
	struct qbrt_buffer_info info = { .size = sizeof(info) };
	static struct build build;
	struct qbrt_model *model;

	ck_assert_uint_eq(sizeof(info), 112);
	build_full(&build);
	for (uint32_t i = 0; i < 13; i++) {
		get_io(&build, 0)->buffer_info[i] = 100 + i;
		get_io(&build, 6)->buffer_info[i] = 4000000000u + i;
	}
	model = load_built(&build);
	build_end(&build);
	ck_assert_ok(qbrt_model_query_input_buffer(model, 0, 0, &info));
	ck_assert_int_eq(info.original_height, 100);
	ck_assert_int_eq(info.original_width, 101);
	ck_assert_int_eq(info.original_channel, 102);
	ck_assert_int_eq(info.reshaped_height, 103);
	ck_assert_int_eq(info.reshaped_width, 104);
	ck_assert_int_eq(info.reshaped_channel, 105);
	ck_assert_int_eq(info.height, 106);
	ck_assert_int_eq(info.width, 107);
	ck_assert_int_eq(info.channel, 108);
	ck_assert_int_eq(info.max_height, 109);
	ck_assert_int_eq(info.max_width, 110);
	ck_assert_int_eq(info.max_channel, 111);
	ck_assert_int_eq(info.max_cache_size, 112);
	/* the second variant's first output */
	ck_assert_ok(qbrt_model_query_output_buffer(model, 1, 0, &info));
	ck_assert_int_eq(info.original_height, 4000000000);
	ck_assert_int_eq(info.max_cache_size, 4000000012);
	qbrt_model_free(model);
}
END_TEST

/* MM07 Q283 Q735 Q736 */
START_TEST(cache_layers_are_described)
{
	struct qbrt_cache_info info = { .size = sizeof(info) };
	static struct build build;
	struct qbrt_model *model;

	ck_assert_uint_eq(sizeof(info), 40);
	build_full(&build);
	model = load_built(&build);
	build_end(&build);
	ck_assert_uint_eq(qbrt_model_get_num_cache_layers(model), 2);
	ck_assert_ok(qbrt_model_query_cache(model, 0, &info));
	ck_assert_str_eq(info.name, "kv.keys");
	ck_assert_str_eq(info.layer_hash, "29bd3d77f230278c");
	ck_assert_uint_eq(info.nbytes, 256);
	ck_assert_uint_eq(info.num_caches, 2);
	ck_assert_int_eq(info.type, QBRT_CACHE_TYPE_BATCH);
	ck_assert_ok(qbrt_model_query_cache(model, 1, &info));
	ck_assert_str_eq(info.name, "kv.values");
	ck_assert_str_eq(info.layer_hash, "8fecb8444b455d96");
	ck_assert_status(qbrt_model_query_cache(model, 2, &info),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("layer 2");
	ck_assert_str_eq(info.name, "kv.values");
	ck_assert_status(qbrt_model_query_cache(NULL, 0, &info),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_query_cache(model, 0, NULL),
			 QBRT_INVALID_ARGUMENT);
	info.size = 0;
	ck_assert_status(qbrt_model_query_cache(model, 0, &info),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("size");
	qbrt_model_free(model);
	model = models_load_copy64();
	info.size = sizeof(info);
	info.nbytes = 7;
	ck_assert_status(qbrt_model_query_cache(model, 0, &info),
			 QBRT_MODEL_NO_CACHE);
	ck_assert_uint_eq(info.nbytes, 7);
	qbrt_model_free(model);
}
END_TEST

/* ST7: with caches, whose text is the model's own. */
START_TEST(every_failed_allocation_of_a_load_with_caches_leaves_nothing)
{
	enum qbrt_status status = QBRT_BAD_ALLOC;
	struct qbrt_model *model = NULL;
	static struct build build;
	long n;
	int fd;

	build_full(&build);
	fd = models_write(build.bytes, build.nbytes);
	build_end(&build);
	for (n = 1; status && n < MAX_ALLOCATIONS; n++) {
		count_alloc_begin(n);
		status = qbrt_model_load_fd(fd, NULL, &model);
		count_alloc_end();
		if (!status)
			break;
		ck_assert_status(status,
				 QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
		ck_assert_ptr_null(model);
	}
	ck_assert_ok(status);
	ck_assert_int_gt(n, 4);
	qbrt_model_free(model);
	close(fd);
}
END_TEST

/* Q275 Q733 Q735 */
START_TEST(scale_and_extent_queries_refuse_what_is_not_there)
{
	struct qbrt_scale_info scale = { .size = sizeof(scale), .scale = 7.0f };
	struct qbrt_buffer_info buffer = { .size = sizeof(buffer), .width = 7 };
	struct qbrt_model *model = models_load_copy64();

	ck_assert_status(qbrt_model_query_input_scale(model, 1, 0, &scale),
			 QBRT_MODEL_INVALID_VARIANT_IDX);
	ck_assert_status(qbrt_model_query_output_scale(model, 0, 1, &scale),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("output 1");
	ck_assert_status(qbrt_model_query_input_scale(NULL, 0, 0, &scale),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_query_input_scale(model, 0, 0, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_query_input_buffer(model, 0, 1, &buffer),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("input 1");
	ck_assert_status(qbrt_model_query_output_buffer(model, 1, 0, &buffer),
			 QBRT_MODEL_INVALID_VARIANT_IDX);
	ck_assert_status(qbrt_model_query_output_buffer(NULL, 0, 0, &buffer),
			 QBRT_INVALID_ARGUMENT);
	ck_assert(scale.scale == 7.0f);
	ck_assert_int_eq(buffer.width, 7);
	/* no more than the caller has room for */
	buffer.size = 16;
	ck_assert_ok(qbrt_model_query_input_buffer(model, 0, 0, &buffer));
	ck_assert_int_eq(buffer.original_height, 1);
	ck_assert_int_eq(buffer.width, 7);
	qbrt_model_free(model);
}
END_TEST

void add_model_query_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(scales_are_of_the_tensor_or_per_channel),
		QBRT_LOOP_TEST(the_zero_point_says_what_is_asymmetric,
			       qbrt_array_size(zero_points)),
		QBRT_TEST(extents_are_as_the_file_tells_them),
		QBRT_TEST(cache_layers_are_described),
		QBRT_TEST(
			every_failed_allocation_of_a_load_with_caches_leaves_nothing),
		QBRT_TEST(scale_and_extent_queries_refuse_what_is_not_there),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
