// SPDX-License-Identifier: MIT
/*
 * Files that end before their trace: a writer that is killed, a file that may
 * not grow. The latter by RLIMIT_FSIZE, which a full disk looks like but for
 * the errno and the signal that is not to come. It holds for a buffer's memory
 * too, so those are there before, and for the file in which Check notes each
 * assertion, so none is made meanwhile.
 */
#include "check-trace.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"
#include "models.h"
#include "trace-read.h"
#include "trace.h"
#include "util.h"

#define NUM_MOMENTS 100
#define MAX_FILE_SIZE 4096
#define ONE_LINE_SIZE 200 /* the first fits, a second does not */

/* Infers for ever, and says so; never returns. */
static _Noreturn void infer_and_tell(const char *path, int progress_fd)
{
	struct trace_load load;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	trace_load_open(&load, models_load_copy64());
	load.progress_fd = progress_fd;
	ck_assert_ok(qbrt_trace_start(path));
	trace_load_start(&load, 4, LONG_MAX);
	trace_load_join(&load);
	_exit(1);
}

/* Q783: at the moment when so many calls have been told. */
START_TEST(a_trace_can_be_read_after_kill)
{
	size_t num_cut = 0;

	for (size_t moment = 1; moment <= NUM_MOMENTS; moment++) {
		struct trace_folder folder;
		struct trace_file file;
		char byte;
		pid_t child;
		int fds[2];
		int status;

		trace_folder_make(&folder);
		ck_assert_int_eq(pipe(fds), 0);
		child = fork();
		if (!child)
			infer_and_tell(folder.path, fds[1]);
		ck_assert(!close(fds[1]));
		for (size_t i = 0; i < moment; i++)
			ck_assert_int_eq(read(fds[0], &byte, 1), 1);
		ck_assert_int_eq(kill(child, SIGKILL), 0);
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		ck_assert(!close(fds[0]));
		trace_read(folder.path, true, &file);
		/* what was told had been written */
		ck_assert_uint_ge(trace_count(&file, "run"), moment);
		ck_assert_uint_ge(trace_count(&file, "wait"), moment);
		num_cut += trace_count(&file, "submit") !=
			   trace_count(&file, "wait");
		trace_free(&file);
		trace_folder_remove(&folder);
	}
	printf("# %zu of %d kills came between the events of a call\n", num_cut,
	       NUM_MOMENTS);
}
END_TEST

static void limit_files(rlim_t limit)
{
	const struct rlimit value = { limit, RLIM_INFINITY };

	if (setrlimit(RLIMIT_FSIZE, &value))
		abort();
}

struct warnings {
	atomic_int num;
	char sentence[200];
	const struct trace_load *load;
	struct qbrt_pinned_memory *in;
	struct qbrt_pinned_memory *out;
	enum qbrt_status stopped;
	enum qbrt_status inferred;
};

static void note_warning(void *arg, enum qbrt_log_level level,
			 const char *component, const char *sentence)
{
	struct warnings *warnings = arg;

	if (level == QBRT_LOG_LEVEL_WARN && !strcmp(component, "trace") &&
	    !atomic_fetch_add(&warnings->num, 1))
		(void)snprintf(warnings->sentence, sizeof(warnings->sentence),
			       "%s", sentence);
}

/* Q783: the inferences go on, all of them right. */
START_TEST(a_file_that_cannot_grow_ends_the_trace_alone)
{
	struct warnings warnings = { 0 };
	enum qbrt_status started;
	enum qbrt_status other_started;
	enum qbrt_status stopped;
	struct trace_folder folder;
	struct trace_folder other;
	struct trace_load load;
	struct trace_file file;

	trace_folder_make(&folder);
	trace_folder_make(&other);
	qbrt_set_log_function(note_warning, &warnings);
	trace_load_open(&load, models_load_copy64());
	trace_load_start(&load, TRACE_NUM_THREADS, LONG_MAX);
	trace_load_await_all(&load);
	limit_files(MAX_FILE_SIZE);
	started = qbrt_trace_start(folder.path);
	while (qbrt_trace_is_on())
		trace_load_await(&load, 1);
	trace_load_await(&load, 100);
	other_started = qbrt_trace_start(other.path);
	stopped = qbrt_trace_stop();
	limit_files(RLIM_INFINITY);
	ck_assert_int_eq(started, QBRT_OK);
	ck_assert_int_eq(other_started, QBRT_INVALID_ARGUMENT);
	ck_assert_int_eq(stopped, QBRT_INTERNAL_ERROR);
	ck_assert_detail("not whole");
	ck_assert_ok(qbrt_trace_stop());
	/* the next one knows nothing of it */
	ck_assert_ok(qbrt_trace_start(other.path));
	trace_load_await(&load, 100);
	ck_assert_ok(qbrt_trace_stop());
	atomic_store(&load.num_left, 0);
	trace_load_join(&load);
	trace_load_close(&load);
	qbrt_set_log_function(NULL, NULL);
	ck_assert_int_eq(atomic_load(&warnings.num), 1);
	ck_assert_ptr_nonnull(strstr(warnings.sentence, "ends early"));
	trace_read(other.path, false, &file);
	trace_free(&file);
	trace_folder_remove(&folder);
	trace_folder_remove(&other);
}
END_TEST

/* Stops the trace and infers, from inside the line that says it failed. */
static void stop_and_infer(void *arg, enum qbrt_log_level level,
			   const char *component, const char *sentence)
{
	struct warnings *warnings = arg;

	warnings->stopped = qbrt_trace_stop();
	warnings->inferred = qbrt_model_infer_pinned_memory(
		warnings->load->model, NULL, &warnings->in, 1, &warnings->out,
		1);
	note_warning(arg, level, component, sentence);
}

/* Q780 Q783: logging holds no lock of ours, wherever it comes from. */
START_TEST(a_log_function_may_stop_the_trace_and_infer)
{
	struct warnings warnings = { 0 };
	enum qbrt_status started;
	struct trace_folder folder;
	struct trace_load load;

	trace_folder_make(&folder);
	trace_load_open(&load, models_load_copy64());
	warnings.load = &load;
	ck_assert_ok(qbrt_model_alloc_input(load.model, 0, &warnings.in));
	ck_assert_ok(qbrt_model_alloc_output(load.model, 0, &warnings.out));
	qbrt_set_log_function(stop_and_infer, &warnings);
	trace_load_start(&load, TRACE_NUM_THREADS, LONG_MAX);
	trace_load_await_all(&load);
	limit_files(MAX_FILE_SIZE);
	started = qbrt_trace_start(folder.path);
	while (!atomic_load(&warnings.num))
		trace_load_await(&load, 1);
	trace_load_await(&load, 100);
	limit_files(RLIM_INFINITY);
	atomic_store(&load.num_left, 0);
	trace_load_join(&load);
	qbrt_set_log_function(NULL, NULL);
	ck_assert_int_eq(started, QBRT_OK);
	ck_assert_int_eq(atomic_load(&warnings.num), 1);
	ck_assert_int_eq(warnings.stopped, QBRT_INTERNAL_ERROR);
	ck_assert_int_eq(warnings.inferred, QBRT_OK);
	qbrt_pinned_memory_free(warnings.in);
	qbrt_pinned_memory_free(warnings.out);
	trace_load_close(&load);
	trace_folder_remove(&folder);
}
END_TEST

/* Q783: by the rows of a device that is opened then. */
START_TEST(a_device_opened_on_a_full_disk_ends_the_trace)
{
	const struct qbrt_trace_device device = { .instance = 7,
						  .core_mask = 1,
						  .kind = "software" };
	struct warnings warnings = { 0 };
	enum qbrt_status started;
	struct trace_folder folder;

	trace_folder_make(&folder);
	qbrt_set_log_function(note_warning, &warnings);
	limit_files(ONE_LINE_SIZE);
	started = qbrt_trace_start(folder.path);
	qbrt_trace_add_device(&device);
	limit_files(RLIM_INFINITY);
	qbrt_set_log_function(NULL, NULL);
	ck_assert_int_eq(started, QBRT_OK);
	ck_assert_int_eq(atomic_load(&warnings.num), 1);
	ck_assert(!qbrt_trace_is_on());
	ck_assert_status(qbrt_trace_stop(), QBRT_INTERNAL_ERROR);
	qbrt_trace_remove_device(7);
	trace_folder_remove(&folder);
}
END_TEST

/* Q781: not even its first line can be written. */
START_TEST(a_start_on_a_full_disk_leaves_no_file)
{
	long num_descriptors = qbrt_test_count_descriptors();
	struct trace_folder folder;
	enum qbrt_status status;

	trace_folder_make(&folder);
	limit_files(10);
	status = qbrt_trace_start(folder.path);
	limit_files(RLIM_INFINITY);
	ck_assert_int_eq(status, QBRT_INVALID_ARGUMENT);
	ck_assert_detail("cannot be written");
	ck_assert_int_eq(access(folder.path, F_OK), -1);
	ck_assert_int_eq(qbrt_test_count_descriptors(), num_descriptors);
	ck_assert(!qbrt_trace_is_on());
	trace_folder_remove(&folder);
}
END_TEST

/* Q783: the bracket alone does not fit. */
START_TEST(a_stop_that_cannot_close_the_list_says_so)
{
	struct trace_folder folder;
	struct trace_file file;
	enum qbrt_status status;

	trace_folder_make(&folder);
	ck_assert_ok(qbrt_trace_start(folder.path));
	limit_files(1);
	status = qbrt_trace_stop();
	limit_files(RLIM_INFINITY);
	ck_assert_int_eq(status, QBRT_INTERNAL_ERROR);
	ck_assert(!qbrt_trace_is_on());
	trace_read(folder.path, true, &file);
	trace_free(&file);
	trace_folder_remove(&folder);
}
END_TEST

/* Q788: what goes to the standard three does not go into the file. */
START_TEST(a_trace_is_not_standard_error)
{
	const struct qbrt_trace_event event = { .name = "submit" };
	struct trace_folder folder;
	struct trace_file file;
	enum qbrt_status started;

	trace_folder_make(&folder);
	qbrt_test_close_standard(STDERR_FILENO);
	started = qbrt_trace_start(folder.path);
	qbrt_log(QBRT_LOG_LEVEL_ERR, "trace", "no event");
	qbrt_trace_host(&event);
	qbrt_test_reopen_standard(STDERR_FILENO);
	ck_assert_ok(started);
	ck_assert_ok(qbrt_trace_stop());
	trace_read(folder.path, false, &file);
	ck_assert_uint_eq(trace_count(&file, "submit"), 1);
	trace_free(&file);
	trace_folder_remove(&folder);
}
END_TEST

/* Q783 */
START_TEST(recording_keeps_errno)
{
	const struct qbrt_trace_event event = { .name = "wait" };
	struct warnings warnings = { 0 };
	struct trace_folder folder;
	enum qbrt_status started;
	int err;

	trace_folder_make(&folder);
	qbrt_set_log_function(note_warning, &warnings);
	limit_files(ONE_LINE_SIZE);
	started = qbrt_trace_start(folder.path);
	errno = EXDEV;
	qbrt_trace_host(&event);
	err = errno;
	limit_files(RLIM_INFINITY);
	ck_assert_int_eq(started, QBRT_OK);
	ck_assert_int_eq(err, EXDEV);
	ck_assert_int_eq(atomic_load(&warnings.num), 1);
	ck_assert_status(qbrt_trace_stop(), QBRT_INTERNAL_ERROR);
	qbrt_set_log_function(NULL, NULL);
	trace_folder_remove(&folder);
}
END_TEST

void add_trace_cut_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_trace_can_be_read_after_kill),
		QBRT_TEST(a_file_that_cannot_grow_ends_the_trace_alone),
		QBRT_TEST(a_log_function_may_stop_the_trace_and_infer),
		QBRT_TEST(a_device_opened_on_a_full_disk_ends_the_trace),
		QBRT_TEST(a_start_on_a_full_disk_leaves_no_file),
		QBRT_TEST(a_stop_that_cannot_close_the_list_says_so),
		QBRT_TEST(a_trace_is_not_standard_error),
		QBRT_TEST(recording_keeps_errno),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
