// SPDX-License-Identifier: MIT
/*
 * Which kernels a backend means, and the plugin file that decides it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device-case.h"
#include "device/kernels.h"
#include "test-util.h"
#include "util.h"

/* A folder of its own, with the plugin's file in it or not. */
struct folder {
	char path[64];
	char file[128];
};

static void make_folder(struct folder *folder, bool has_file)
{
	FILE *file;

	(void)snprintf(folder->path, sizeof(folder->path),
		       "/tmp/check-kernels-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder->path));
	(void)snprintf(folder->file, sizeof(folder->file), "%s/%s",
		       folder->path, QBNPU_PLUGIN_FILE);
	if (!has_file)
		return;
	file = fopen(folder->file, "we");
	ck_assert_ptr_nonnull(file);
	(void)fclose(file);
}

static void remove_folder(struct folder *folder)
{
	(void)unlink(folder->file);
	ck_assert_int_eq(rmdir(folder->path), 0);
}

/* BE02 */
START_TEST(auto_and_ref_are_the_reference_kernels)
{
	const struct qbnpu_kernels *kernels = NULL;

	ck_assert_int_eq(
		qbnpu_kernels_select(QBNPU_BACKEND_AUTO, "/", &kernels), 0);
	ck_assert_ptr_eq(kernels, &qbnpu_kernels_ref);
	kernels = NULL;
	ck_assert_int_eq(
		qbnpu_kernels_select(QBNPU_BACKEND_REF, NULL, &kernels), 0);
	ck_assert_ptr_eq(kernels, &qbnpu_kernels_ref);
	ck_assert_uint_eq(kernels->abi, QBNPU_KERNELS_ABI);
	ck_assert_uint_eq(kernels->size, sizeof(*kernels));
	ck_assert_str_eq(kernels->name, "ref");
	ck_assert_uint_eq(kernels->caps, 0);
}
END_TEST

/* BE02 BE03: open fails where the plugin's file is not in its folder */
START_TEST(onednn_without_its_file_is_refused_at_open)
{
	struct qbnpu_config config = {
		.name = "regulus-ra",
		.backend = QBNPU_BACKEND_ONEDNN,
	};
	struct qbnpu_npu *npu = NULL;
	struct folder folder;

	ck_assert_int_eq(qbnpu_npu_open(&config, &npu), -ENOENT);
	make_folder(&folder, false);
	config.plugin_dir = folder.path;
	ck_assert_int_eq(qbnpu_npu_open(&config, &npu), -ENOENT);
	remove_folder(&folder);
	config.plugin_dir = "/nowhere/at/all";
	ck_assert_int_eq(qbnpu_npu_open(&config, &npu), -ENOENT);
	ck_assert_ptr_null(npu);
}
END_TEST

/* BE02: a file that does not load opens, and takes no program */
START_TEST(onednn_that_does_not_load_takes_no_program)
{
	struct folder folder;
	struct qbnpu_config config = {
		.name = "regulus-ra",
		.backend = QBNPU_BACKEND_ONEDNN,
		.plugin_dir = folder.path,
	};
	struct qbnpu_executable *executable = NULL;
	struct qbnpu_report report = { 0 };
	struct qbnpu_work work;
	struct qbnpu_npu *npu;
	struct prog prog;

	make_folder(&folder, true);
	ck_assert_int_eq(qbnpu_npu_open(&config, &npu), 0);
	prog_copy64(&prog);
	work = (struct qbnpu_work){
		.size = qbnpu_validate_work_size(prog.bytes, prog.nbytes),
	};
	work.memory = aligned_alloc(16, qbrt_round_up(work.size, 16));
	ck_assert_int_eq(qbnpu_validate(prog.bytes, prog.nbytes,
					&qbnpu_caps_isa, &work, &report),
			 0);
	ck_assert_int_eq(qbnpu_executable_load(npu, prog.bytes, report.facts,
					       NULL, 1, &executable, &report),
			 -EOPNOTSUPP);
	ck_assert_ptr_null(executable);
	ck_assert_uint_eq(report.rule, 32);
	ck_assert_uint_eq(report.command, 0);
	free(work.memory);
	prog_end(&prog);
	qbnpu_npu_close(npu);
	remove_folder(&folder);
}
END_TEST

/* BE02: only these words */
START_TEST(other_backends_are_refused)
{
	const struct qbnpu_config config = {
		.name = "regulus-ra",
		.backend = (enum qbnpu_backend)3,
	};
	struct qbnpu_npu *npu = NULL;

	ck_assert_int_eq(qbnpu_npu_open(&config, &npu), -EINVAL);
	ck_assert_ptr_null(npu);
}
END_TEST

START_TEST(every_dtype_has_its_size)
{
	static const uint32_t sizes[] = {
		4, 1, 1, 2, 2, 2, 4, 4, 8, 8, 8, 1, 2
	};
	uint32_t dtype;

	for (dtype = 0; dtype < QBNPU_NUM_DTYPES; dtype++) {
		ck_assert_uint_eq(qbnpu_dtype_size(dtype), sizes[dtype]);
		ck_assert_uint_eq(qbnpu_dtype_size(dtype),
				  prog_dtype_size(dtype));
	}
	ck_assert_uint_eq(qbnpu_dtype_size(QBNPU_NUM_DTYPES), 0);
	ck_assert_uint_eq(qbnpu_dtype_size(UINT32_MAX), 0);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(auto_and_ref_are_the_reference_kernels),
		QBRT_TEST(onednn_without_its_file_is_refused_at_open),
		QBRT_TEST(onednn_that_does_not_load_takes_no_program),
		QBRT_TEST(other_backends_are_refused),
		QBRT_TEST(every_dtype_has_its_size),
	};

	return qbrt_test_run("kernels", tests, qbrt_array_size(tests));
}
