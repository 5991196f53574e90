// SPDX-License-Identifier: MIT
/* A model in words: every field of the file, and no byte that a terminal minds. */
#include "check-model.h"

#include <locale.h>
#include <string.h>
#include <unistd.h>

#include "build-model.h"
#include "models.h"
#include "util.h"

static void check_has(const char *text, const char *words)
{
	ck_assert_msg(strstr(text, words), "\"%s\" is not in\n%s", words, text);
}

/* Of the finished file. */
static struct qbrt_model *load_built(struct build *build)
{
	struct qbrt_model *model = NULL;
	int fd = models_write(build->bytes, build->nbytes);

	build_end(build);
	ck_assert_ok(qbrt_model_load_fd(fd, NULL, &model));
	ck_assert_int_eq(close(fd), 0);
	return model;
}

static const char golden[] =
	"format: qbm 1.0, isa 1.0, 4592 bytes\n"
	"content: 08c5ffa5d6d76411ac0faac8d78254c0"
	"0c75d3466e2a3b1cc1eed45a7176f52d\n"
	"compiler: hand\n"
	"target: any device\n"
	"core modes: Single\n"
	"features: none\n"
	"programs: 1, 496 bytes\n"
	"weights: 0 bytes\n"
	"meta model.name: copy64\n"
	"variant 0: default\n"
	"  bundle: main\n"
	"  batch 1, 0 multiply-accumulates, 0 bytes of scratch\n"
	"  input 0: x\n"
	"    Uint8 (64), takes Uint8\n"
	"    pinned memory: Uint8, at most 64 bytes\n"
	"    source tensor: Uint8 (64)\n"
	"    not normalised inside the model\n"
	"    scale 1, zero point 0\n"
	"    extents: original 1x1x64, reshaped 1x1x64, device 1x1x64, "
	"largest 1x1x64\n"
	"  output 0: y\n"
	"    Uint8 (64), gives Uint8\n"
	"    pinned memory: Uint8, at most 64 bytes\n"
	"    source tensor: Uint8 (64)\n"
	"    scale 1, zero point 0\n"
	"    extents: original 1x1x64, reshaped 1x1x64, device 1x1x64, "
	"largest 1x1x64\n";

/* Q178 MM12 */
START_TEST(the_golden_file_in_words)
{
	struct qbrt_accelerator *acc = open_device(NULL, -1);
	struct qbrt_model *model = NULL;
	const char *text;

	ck_assert_ok(qbrt_model_load(GOLDEN_MODEL, NULL, &model));
	text = qbrt_model_get_summary(model);
	ck_assert_str_eq(text, golden);
	ck_assert_ok(qbrt_model_launch(model, acc));
	ck_assert_ptr_eq(qbrt_model_get_summary(model), text);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

/* MM12 FM12 Q808: what copy64 has none of; a line feed is escaped. */
START_TEST(normalisation_scales_and_metadata_in_words)
{
	static struct build build;
	struct qbrt_model *model;
	const char *text;

	build_plain(&build);
	model = load_built(&build);
	text = qbrt_model_get_summary(model);
	check_has(text, "\ntarget: aries-rb\n");
	check_has(text, "\nmeta labels: cat\\x0adog\nmeta model.name: plain\n");
	check_has(text, "\n  needs params\n  input 0: x\n"
			"    Float32 (4, 4, 3) HWC, takes Float32, Uint8\n"
			"    pinned memory: Uint8, at most 48 bytes\n"
			"    source tensor: Uint8 (4, 4, 3)\n"
			"    normalised inside the model: (x - [0.5, 0.5, 0.5])"
			" / [0.25, 0.25, 0.25]\n"
			"    scales of axis 2: 0.125, 0.25, 0.375, zero point "
			"0\n");
	check_has(text, "    scale 1, zero point 128\n");
	ck_assert_ptr_null(strstr(text, "not normalised"));
	qbrt_model_free(model);
}
END_TEST

/* MM12 */
START_TEST(modes_and_shared_memory_in_words)
{
	struct qbrt_model_config *config = alloc_model_config();
	static struct build build;
	struct qbrt_model *model = NULL;
	const char *text;
	int fd;

	build_modes(&build);
	fd = models_write(build.bytes, build.nbytes);
	build_end(&build);
	ck_assert_ok(qbrt_model_config_set_global8_core_mode(config));
	ck_assert_ok(qbrt_model_load_fd(fd, config, &model));
	ck_assert_int_eq(close(fd), 0);
	qbrt_model_config_free(config);
	text = qbrt_model_get_summary(model);
	check_has(text, "\ncore modes: Single, Multi, Global4, Global8\n");
	check_has(text, "\nprograms: 3, ");
	check_has(text, "\n  batch 2, ");
	check_has(text, "    pinned memory: Float32, at most 128 bytes, with "
			"an axis of the batch\n");
	check_has(text, "    may be the memory of input 0\n");
	qbrt_model_free(model);
}
END_TEST

/* MM12: variants, variable axes, state and caches */
START_TEST(caches_in_words)
{
	static struct build build;
	struct qbrt_model *model;
	const char *text;

	build_full(&build);
	model = load_built(&build);
	text = qbrt_model_get_summary(model);
	check_has(text, "\nfeatures: state, dynamic\n");
	check_has(text, "\nweights: 128 bytes\nstate: 2 tensors, 576 bytes\n");
	check_has(text, "\nvariant 0: first\n");
	check_has(text, "\nvariant 1: second\n");
	check_has(text, "\n  at most 8 tokens a call, 32 in the cache\n"
			"  at most 1 activation slot\n"
			"  input 0: x\n"
			"    Float32 (-1, 4), takes Float32\n");
	check_has(text, "\n  output 1: z\n");
	check_has(text, "\ncache: 2 of type Batch, 2 layers, at most 32 "
			"tokens, 576 bytes each\n"
			"  layer 0: kv.keys\n"
			"    Float32, 256 bytes, hash 29bd3d77f230278c\n");
	qbrt_model_free(model);
}
END_TEST

/* MM12 */
START_TEST(of_many_scales_the_first_are_told)
{
	static struct build build;
	struct qbrt_model *model;
	struct qbm_io *io = &build.ios[0];

	build_copy(&build, QBNPU_DTYPE_U8, DIMS(8));
	io->scale = 0.0f;
	io->scale_axis = 0;
	io->scale_count = build.num_scales = 8;
	for (int i = 0; i < 8; i++)
		build.scales[i] = 0.5f + (float)i;
	build_finish(&build);
	model = load_built(&build);
	check_has(qbrt_model_get_summary(model),
		  "    scales of axis 0: 0.5, 1.5, 2.5, 3.5, ..., zero point "
		  "0\n");
	qbrt_model_free(model);
}
END_TEST

/* MM12: LC_NUMERIC has a comma where such a locale is installed */
START_TEST(numbers_are_of_no_locale)
{
	static const char *const locales[] = { "de_DE.UTF-8", "fr_FR.UTF-8",
					       "de_DE", "fr_FR" };
	static struct build build;
	struct qbrt_model *model;

	for (size_t i = 0; i < qbrt_array_size(locales); i++)
		if (setlocale(LC_NUMERIC, locales[i]))
			break;
	build_plain(&build);
	model = load_built(&build);
	setlocale(LC_NUMERIC, "C");
	check_has(qbrt_model_get_summary(model), ": 0.125, 0.25, 0.375, zero");
	qbrt_model_free(model);
}
END_TEST

void add_model_summary_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(the_golden_file_in_words),
		QBRT_TEST(normalisation_scales_and_metadata_in_words),
		QBRT_TEST(modes_and_shared_memory_in_words),
		QBRT_TEST(caches_in_words),
		QBRT_TEST(of_many_scales_the_first_are_told),
		QBRT_TEST(numbers_are_of_no_locale),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
