// SPDX-License-Identifier: MIT
/*
 * Models from load to free. What the container reader refuses, and where, is
 * check-model-file's; here: what the public calls make of it.
 */
#include "check-model.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counters.h"
#include "model.h"
#include "models.h"
#include "util.h"

#define NUM_THREADS 8

struct qbrt_accelerator *open_device(const char *soft_devices, int number)
{
	struct qbrt_accelerator *acc = NULL;

	if (soft_devices)
		setenv("QBRUNTIME_SOFT_DEVICES", soft_devices, 1);
	ck_assert_ok(qbrt_accelerator_open(NULL, number, &acc));
	return acc;
}

uint64_t get_memory_free(const struct qbrt_accelerator *acc)
{
	struct qbrt_device_info *info = NULL;
	uint64_t free;

	ck_assert_ok(qbrt_accelerator_query_info(acc, &info));
	free = qbrt_device_info_get_memory_free(info);
	qbrt_device_info_free(info);
	return free;
}

void check_copies(struct qbrt_model *model)
{
	struct qbrt_pinned_memory *in = NULL;
	struct qbrt_pinned_memory *out = NULL;
	uint8_t *data;

	ck_assert_ok(qbrt_model_alloc_input(model, 0, &in));
	ck_assert_ok(qbrt_model_alloc_output(model, 0, &out));
	ck_assert_uint_eq(qbrt_pinned_memory_get_nbytes(in), 64);
	data = qbrt_pinned_memory_get_data(in);
	for (int i = 0; i < 64; i++)
		data[i] = (uint8_t)(3 * i + 1);
	ck_assert_ok(
		qbrt_model_infer_pinned_memory(model, NULL, &in, 1, &out, 1));
	ck_assert_mem_eq(qbrt_pinned_memory_get_data(out), data, 64);
	qbrt_pinned_memory_free(in);
	qbrt_pinned_memory_free(out);
}

/* A file of the test's own, from these bytes; the caller unlinks it. */
static void write_file(char *path, const void *bytes, size_t nbytes)
{
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, bytes, nbytes), (ssize_t)nbytes);
	close(fd);
}

static size_t read_golden(uint8_t *bytes, size_t size)
{
	FILE *file = fopen(GOLDEN_MODEL, "r");
	size_t nbytes;

	ck_assert_ptr_nonnull(file);
	nbytes = fread(bytes, 1, size, file);
	fclose(file);
	return nbytes;
}

/* Q733 */
START_TEST(null_arguments_are_refused)
{
	struct qbrt_model *model = models_load_copy64();
	struct qbrt_accelerator *acc = open_device(NULL, -1);
	struct qbrt_model *other = model;

	ck_assert_status(qbrt_model_load(NULL, NULL, &other),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("path");
	ck_assert_status(qbrt_model_load(GOLDEN_MODEL, NULL, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_load_fd(-1, NULL, &other),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("negative");
	ck_assert_status(qbrt_model_load_fd(0, NULL, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_launch(NULL, acc), QBRT_INVALID_ARGUMENT);
	ck_assert_detail("model");
	ck_assert_status(qbrt_model_launch(model, NULL), QBRT_INVALID_ARGUMENT);
	ck_assert_detail("acc");
	ck_assert_ptr_eq(other, model);
	ck_assert_ok(qbrt_model_dispose(NULL));
	qbrt_model_free(NULL);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q261 LD01 */
START_TEST(a_missing_file_gives_the_systems_reason)
{
	struct qbrt_model *model = NULL;

	ck_assert_status(qbrt_model_load("/nonexistent.qbm", NULL, &model),
			 QBRT_MODEL_FAILED_TO_LOAD_MXQ);
	ck_assert_detail("/nonexistent.qbm");
	ck_assert_detail("No such file");
	ck_assert_ptr_null(model);
}
END_TEST

/* A path of a few hundred characters, in a new folder. */
static void make_long_path(char *folder, char *path, size_t size)
{
	char name[201];

	memset(name, 'd', 200);
	name[200] = '\0';
	ck_assert_ptr_nonnull(mkdtemp(folder));
	(void)snprintf(path, size, "%s/%s", folder, name);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	(void)snprintf(path, size, "%s/%s/model.qbm", folder, name);
}

static void remove_long_path(const char *folder, char *path)
{
	(void)unlink(path);
	*strrchr(path, '/') = '\0';
	ck_assert_int_eq(rmdir(path), 0);
	ck_assert_int_eq(rmdir(folder), 0);
}

/* Q597: a sentence has the end of a long path, and the reason. */
START_TEST(a_long_path_is_cut_in_sentences)
{
	char folder[] = "/tmp/qbrt-long-XXXXXX";
	struct qbrt_model *model = NULL;
	char path[300];

	make_long_path(folder, path, sizeof(path));
	ck_assert_status(qbrt_model_load(path, NULL, &model),
			 QBRT_MODEL_FAILED_TO_LOAD_MXQ);
	ck_assert_detail("ddd/model.qbm: cannot be opened: No such file");
	ck_assert_uint_lt(strlen(qbrt_error_detail()), 120);
	ck_assert_int_eq(symlink(GOLDEN_MODEL, path), 0);
	ck_assert_ok(qbrt_model_load(path, NULL, &model));
	ck_assert_str_eq(qbrt_model_get_path(model), path);
	ck_assert_int_eq(strncmp(model->name, "...ddd", 6), 0);
	ck_assert_uint_eq(strlen(model->name), 48);
	qbrt_model_free(model);
	remove_long_path(folder, path);
}
END_TEST

/* Q261 LD01 */
START_TEST(an_unreadable_file_gives_the_systems_reason)
{
	char path[] = "/tmp/qbrt-unreadable-XXXXXX";
	struct qbrt_model *model = NULL;

	write_file(path, "x", 1);
	ck_assert_int_eq(chmod(path, 0), 0);
	if (geteuid() == 0)
		ck_assert_int_eq(seteuid(65534), 0);
	ck_assert_status(qbrt_model_load(path, NULL, &model),
			 QBRT_MODEL_FAILED_TO_LOAD_MXQ);
	ck_assert_detail("Permission denied");
	ck_assert_ptr_null(model);
	(void)!seteuid(getuid());
	unlink(path);
}
END_TEST

/* LD01 LD12 Q151 */
START_TEST(what_is_no_model_is_refused_with_its_own_sentence)
{
	static const char *const texts[] = { "", "not a model at all",
					     "\x08\x07\x12\x07pytorch" };
	char folder[] = "/tmp/qbrt-kinds-XXXXXX";
	struct qbrt_model *model = NULL;
	char path[64];

	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_status(qbrt_model_load(folder, NULL, &model),
			 QBRT_MODEL_FAILED_TO_LOAD_MXQ);
	snprintf(path, sizeof(path), "%s/fifo", folder);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_status(qbrt_model_load(path, NULL, &model),
			 QBRT_MODEL_FAILED_TO_LOAD_MXQ);
	unlink(path);
	for (size_t i = 0; i < qbrt_array_size(texts); i++) {
		char file[] = "/tmp/qbrt-text-XXXXXX";

		write_file(file, texts[i], strlen(texts[i]));
		ck_assert_status(qbrt_model_load(file, NULL, &model),
				 QBRT_MODEL_FAILED_TO_LOAD_MXQ);
		ck_assert_detail(file);
		unlink(file);
	}
	ck_assert_ptr_null(model);
	rmdir(folder);
}
END_TEST

/* Q261 LD04 LD07 */
START_TEST(a_truncated_or_damaged_file_is_broken)
{
	uint8_t bytes[8192];
	size_t nbytes = read_golden(bytes, sizeof(bytes));
	struct qbrt_model *model = NULL;

	for (size_t size = 8; size < nbytes; size += 381) {
		int fd = models_write(bytes, size);

		ck_assert_status(qbrt_model_load_fd(fd, NULL, &model),
				 QBRT_MODEL_BROKEN_MXQ);
		close(fd);
	}
	bytes[nbytes - 1] ^= 1;
	{
		int fd = models_write(bytes, nbytes);

		ck_assert_status(qbrt_model_load_fd(fd, NULL, &model),
				 QBRT_MODEL_BROKEN_MXQ);
		ck_assert_detail("PROG");
		close(fd);
	}
	ck_assert_ptr_null(model);
}
END_TEST

/* Q145 MM08 */
START_TEST(auto_refuses_a_file_of_several_modes)
{
	struct prog prog;
	struct models_spec spec = {
		.programs = { &prog },
		.num_programs = 1,
		.mode_mask = 1u << QBRT_CORE_MODE_SINGLE |
			     1u << QBRT_CORE_MODE_MULTI,
	};
	struct qbrt_model *model = NULL;
	size_t nbytes;
	void *bytes;
	int fd;

	prog_copy64(&prog);
	bytes = models_build(&spec, &nbytes);
	fd = models_write(bytes, nbytes);
	ck_assert_status(qbrt_model_load_fd(fd, NULL, &model),
			 QBRT_MODEL_MXQ_AND_MODEL_CONFIG_NOT_MATCH);
	ck_assert_detail("CoreMode::Auto");
	ck_assert_detail("bundle 0");
	ck_assert_detail("Single, Multi");
	ck_assert_ptr_null(model);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.live_models), 0);
	close(fd);
	free(bytes);
	prog_end(&prog);
}
END_TEST

/* Q293 LD13 */
START_TEST(nothing_reads_the_file_after_load)
{
	char path[] = "/tmp/qbrt-gone-XXXXXX";
	struct qbrt_accelerator *acc = open_device(NULL, -1);
	struct qbrt_model *model = NULL;
	uint8_t bytes[8192];

	write_file(path, bytes, read_golden(bytes, sizeof(bytes)));
	ck_assert_ok(qbrt_model_load(path, NULL, &model));
	ck_assert_int_eq(truncate(path, 0), 0);
	unlink(path);
	ck_assert_str_eq(qbrt_model_get_path(model), path);
	ck_assert_ok(qbrt_model_launch(model, acc));
	check_copies(model);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q293: the descriptor stays the caller's, with its offset. */
START_TEST(a_descriptor_is_borrowed)
{
	int fd = open(GOLDEN_MODEL, O_RDONLY | O_CLOEXEC);
	struct qbrt_model *model = NULL;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(lseek(fd, 100, SEEK_SET), 100);
	ck_assert_ok(qbrt_model_load_fd(fd, NULL, &model));
	ck_assert_int_eq(lseek(fd, 0, SEEK_CUR), 100);
	ck_assert_str_eq(qbrt_model_get_path(model), "");
	ck_assert_int_eq(close(fd), 0);
	qbrt_model_free(model);
}
END_TEST

/* Any closing order (SO2): the six orders of a handle, a model and a buffer. */
START_TEST(any_closing_order_is_safe)
{
	static const int orders[6][3] = {
		{ 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
		{ 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 }
	};
	struct qbrt_accelerator *acc = open_device(NULL, -1);
	struct qbrt_model *model = models_load_copy64();
	struct qbrt_pinned_memory *mem = NULL;

	ck_assert_ok(qbrt_model_launch(model, acc));
	ck_assert_ok(qbrt_model_alloc_input(model, 0, &mem));
	for (int i = 0; i < 3; i++) {
		switch (orders[_i][i]) {
		case 0:
			qbrt_accelerator_close(acc);
			break;
		case 1:
			qbrt_model_free(model);
			break;
		default:
			memset(qbrt_pinned_memory_get_data(mem), 1, 64);
			qbrt_pinned_memory_free(mem);
		}
	}
	ck_assert_uint_eq(atomic_load(&qbrt_counters.open_devices), 0);
}
END_TEST

static void cycle(void)
{
	struct qbrt_accelerator *acc = open_device(NULL, -1);
	struct qbrt_model *model = models_load_copy(64, 4096);

	ck_assert_ok(qbrt_model_launch(model, acc));
	check_copies(model);
	ck_assert_ok(qbrt_model_dispose(model));
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}

/* Q747: descriptors, threads and objects are compared by test-util. */
START_TEST(ten_thousand_cycles_leave_nothing_behind)
{
	bool is_whole = !qbrt_test_is_instrumented();
	int num = is_whole ? 10000 : 100;
	size_t nbytes = 0;

	for (int i = 0; i < num; i++) {
		cycle();
		if (i == 50)
			nbytes = mallinfo2().uordblks;
	}
	/*
	 * A sanitizer's allocator does not tell, and this one counts what it
	 * keeps for a thread as used; a byte of each cycle would be 160 KB.
	 */
	if (is_whole)
		ck_assert_uint_le(mallinfo2().uordblks, nbytes + 4096);
}
END_TEST

/* What every job writes does not lie beside what every call reads. */
START_TEST(counters_have_cache_lines_of_their_own)
{
	struct qbrt_model *model = models_load_copy64();
	size_t begin = offsetof(struct qbrt_model, totals);
	size_t end = begin + sizeof(model->totals);

	ck_assert_uint_eq((uintptr_t)&model->totals % 64, 0);
	ck_assert_uint_ne(offsetof(struct qbrt_model, users) / 64, begin / 64);
	ck_assert_uint_ge(offsetof(struct qbrt_model, launch_lock) / 64,
			  (end + 63) / 64);
	qbrt_model_free(model);
}
END_TEST

/* Every call on inherited handles; the child's exit status. */
static int use_inherited(struct qbrt_model *model, struct qbrt_accelerator *acc,
			 struct qbrt_pinned_memory *mem)
{
	struct qbrt_pinned_memory *other = NULL;
	struct qbrt_accelerator *own = NULL;

	if (qbrt_model_infer_pinned_memory(model, NULL, &mem, 1, &mem, 1) !=
		    QBRT_FORKED_PROCESS ||
	    qbrt_model_launch(model, acc) != QBRT_FORKED_PROCESS ||
	    qbrt_model_dispose(model) != QBRT_FORKED_PROCESS ||
	    qbrt_model_alloc_input(model, 0, &other) != QBRT_FORKED_PROCESS ||
	    qbrt_model_infer_pinned_memory(model, NULL, NULL, 0, NULL, 0) !=
		    QBRT_FORKED_PROCESS)
		return 1;
	/* bytes stay readable and writable */
	((uint8_t *)qbrt_pinned_memory_get_data(mem))[0] = 77;
	qbrt_pinned_memory_free(mem);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
	model = models_load_copy64();
	if (qbrt_accelerator_open(NULL, -1, &own) ||
	    qbrt_model_launch(model, own))
		return 2;
	check_copies(model);
	qbrt_model_free(model);
	qbrt_accelerator_close(own);
	return 0;
}

/* Q748 K016 */
START_TEST(a_child_of_fork_is_told_so_and_may_open_anew)
{
	struct qbrt_accelerator *acc = open_device(NULL, -1);
	struct qbrt_model *model = models_load_copy64();
	struct qbrt_pinned_memory *mem = NULL;
	int status;
	pid_t child;

	ck_assert_ok(qbrt_model_launch(model, acc));
	ck_assert_ok(qbrt_model_alloc_input(model, 0, &mem));
	check_copies(model);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (!child)
		_exit(use_inherited(model, acc, mem));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	ck_assert_uint_eq(((uint8_t *)qbrt_pinned_memory_get_data(mem))[0], 77);
	check_copies(model);
	qbrt_pinned_memory_free(mem);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(null_arguments_are_refused),
		QBRT_TEST(a_missing_file_gives_the_systems_reason),
		QBRT_TEST(a_long_path_is_cut_in_sentences),
		QBRT_TEST(an_unreadable_file_gives_the_systems_reason),
		QBRT_TEST(what_is_no_model_is_refused_with_its_own_sentence),
		QBRT_TEST(a_truncated_or_damaged_file_is_broken),
		QBRT_TEST(auto_refuses_a_file_of_several_modes),
		QBRT_TEST(nothing_reads_the_file_after_load),
		QBRT_TEST(a_descriptor_is_borrowed),
		QBRT_LOOP_TEST(any_closing_order_is_safe, 6),
		QBRT_TEST(ten_thousand_cycles_leave_nothing_behind),
		QBRT_TEST(counters_have_cache_lines_of_their_own),
		QBRT_TEST(a_child_of_fork_is_told_so_and_may_open_anew),
	};
	static struct qbrt_tests all;

	qbrt_tests_add(&all, tests, qbrt_array_size(tests));
	add_model_info_tests(&all);
	add_model_launch_tests(&all);
	add_model_cores_tests(&all);
	add_model_modes_tests(&all);
	add_model_query_tests(&all);
	add_model_summary_tests(&all);
	return qbrt_test_run("model", all.tests, all.num);
}
