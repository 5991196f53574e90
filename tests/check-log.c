// SPDX-License-Identifier: MIT
/*
 * Standard error is a file in memory while lines are written, so that their
 * bytes can be looked at.
 */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "models.h"
#include "test-util.h"
#include "util.h"

#define NUM_THREADS 8
#define NUM_LINES 1000

static int saved_stderr;

static void begin_capture(void)
{
	int fd = memfd_create("stderr", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	/* writes of several threads go one behind the other, as on a pipe */
	ck_assert(!fcntl(fd, F_SETFL, O_APPEND));
	saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	ck_assert_int_ge(saved_stderr, 0);
	ck_assert_int_eq(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	ck_assert(!close(fd));
}

/* What was written, with a NUL behind it; the caller frees it. */
static char *end_capture(size_t *length)
{
	struct stat st;
	char *text;

	ck_assert(!fstat(STDERR_FILENO, &st));
	*length = (size_t)st.st_size;
	text = malloc(*length + 1);
	ck_assert_ptr_nonnull(text);
	ck_assert_int_eq(pread(STDERR_FILENO, text, *length, 0), st.st_size);
	text[*length] = '\0';
	ck_assert_int_eq(dup2(saved_stderr, STDERR_FILENO), STDERR_FILENO);
	ck_assert(!close(saved_stderr));
	return text;
}

/* Q780 Q783: the program does not end by a line that is not its own. */
START_TEST(a_line_that_does_not_fit_in_a_file_is_lost_alone)
{
	const struct rlimit none = { 10, RLIM_INFINITY };
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	size_t length;
	char *text;

	begin_capture();
	if (setrlimit(RLIMIT_FSIZE, &none))
		abort();
	qbrt_log(QBRT_LOG_LEVEL_ERR, "model", "is cut");
	qbrt_log(QBRT_LOG_LEVEL_ERR, "model", "is lost");
	if (setrlimit(RLIMIT_FSIZE, &all))
		abort();
	text = end_capture(&length);
	ck_assert_str_eq(text, "qbruntime:");
	free(text);
}
END_TEST

/* Q780 */
START_TEST(a_line_has_level_component_and_sentence)
{
	size_t length;
	char *text;

	ck_assert_ok(qbrt_set_log_level(QBRT_LOG_LEVEL_DEBUG));
	begin_capture();
	qbrt_log(QBRT_LOG_LEVEL_DEBUG, "model", "loaded %d", 1);
	qbrt_log(QBRT_LOG_LEVEL_INFO, "model", "loaded %d", 2);
	qbrt_log(QBRT_LOG_LEVEL_WARN, "pinned-memory", "loaded %d", 3);
	qbrt_log(QBRT_LOG_LEVEL_ERR, "model", "loaded %d", 4);
	qbrt_log(QBRT_LOG_LEVEL_FATAL, "model", "loaded %d", 5);
	text = end_capture(&length);
	ck_assert_str_eq(text, "qbruntime: debug: model: loaded 1\n"
			       "qbruntime: info: model: loaded 2\n"
			       "qbruntime: warn: pinned-memory: loaded 3\n"
			       "qbruntime: err: model: loaded 4\n"
			       "qbruntime: fatal: model: loaded 5\n");
	free(text);
}
END_TEST

/* Q780 */
START_TEST(each_level_shows_what_is_at_or_above_it)
{
	int limit;
	int level;

	for (limit = QBRT_LOG_LEVEL_DEBUG; limit <= QBRT_LOG_LEVEL_OFF;
	     limit++) {
		size_t length;
		char *text;
		int num_lines = 0;
		size_t i;

		ck_assert_ok(qbrt_set_log_level((enum qbrt_log_level)limit));
		begin_capture();
		/* 0 and 6 are no levels of lines */
		for (level = 0; level <= QBRT_LOG_LEVEL_OFF + 1; level++)
			qbrt_log((enum qbrt_log_level)level, "model", "x");
		text = end_capture(&length);
		for (i = 0; i < length; i++)
			num_lines += text[i] == '\n';
		ck_assert_int_eq(num_lines, QBRT_LOG_LEVEL_OFF - limit);
		free(text);
	}
}
END_TEST

/* Q780 */
START_TEST(default_level_is_warn)
{
	ck_assert(qbrt_log_is_on(QBRT_LOG_LEVEL_WARN));
	ck_assert(!qbrt_log_is_on(QBRT_LOG_LEVEL_INFO));
}
END_TEST

/* Q780 Q175 */
START_TEST(unknown_level_is_refused_and_changes_nothing)
{
	ck_assert_ok(qbrt_set_log_level(QBRT_LOG_LEVEL_ERR));
	ck_assert_status(qbrt_set_log_level((enum qbrt_log_level)0),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_set_log_level((enum qbrt_log_level)7),
			 QBRT_INVALID_ARGUMENT);
	ck_assert(!qbrt_log_is_on(QBRT_LOG_LEVEL_WARN));
	ck_assert(qbrt_log_is_on(QBRT_LOG_LEVEL_ERR));
}
END_TEST

/* Q780 */
START_TEST(control_characters_are_escaped)
{
	size_t length;
	char *text;

	begin_capture();
	qbrt_log(QBRT_LOG_LEVEL_ERR, "model", "a\nb\x1b[1m %s", "\xff");
	text = end_capture(&length);
	ck_assert_str_eq(text,
			 "qbruntime: err: model: a\\x0ab\\x1b[1m \\xff\n");
	free(text);
}
END_TEST

/* Q780 */
START_TEST(a_line_is_at_most_1024_bytes)
{
	char sentence[3000];
	size_t length;
	char *text;

	memset(sentence, '\n', sizeof(sentence) - 1);
	sentence[sizeof(sentence) - 1] = '\0';
	begin_capture();
	qbrt_log(QBRT_LOG_LEVEL_ERR, "model", "%s", sentence);
	text = end_capture(&length);
	ck_assert_uint_le(length, 1024);
	ck_assert_uint_gt(length, 900);
	ck_assert_str_eq(text + length - 8, "\\x0a...\n");
	free(text);

	memset(sentence, 'c', sizeof(sentence) - 1);
	begin_capture();
	qbrt_log(QBRT_LOG_LEVEL_ERR, sentence, "x");
	text = end_capture(&length);
	ck_assert_uint_eq(length, 1024);
	ck_assert_int_eq(text[1023], '\n');
	free(text);
}
END_TEST

static void *log_many(void *arg)
{
	int i;

	for (i = 0; i < NUM_LINES; i++)
		qbrt_log(QBRT_LOG_LEVEL_ERR, "model", "thread %d line %d end",
			 *(const int *)arg, i);
	return NULL;
}

static void log_from_threads(void)
{
	pthread_t threads[NUM_THREADS];
	int numbers[NUM_THREADS];
	int i;

	for (i = 0; i < NUM_THREADS; i++) {
		numbers[i] = i;
		ck_assert(!pthread_create(&threads[i], NULL, log_many,
					  &numbers[i]));
	}
	for (i = 0; i < NUM_THREADS; i++)
		ck_assert(!pthread_join(threads[i], NULL));
}

/* Q780 */
START_TEST(lines_of_threads_are_neither_lost_nor_mixed)
{
	int next[NUM_THREADS] = { 0 };
	size_t length;
	char *rest;
	char *line;
	char *text;
	int i;

	begin_capture();
	log_from_threads();
	text = end_capture(&length);
	for (line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char expected[64];
		int thread;

		ck_assert_int_eq(sscanf(line,
					"qbruntime: err: model: thread %d",
					&thread),
				 1);
		ck_assert(thread >= 0 && thread < NUM_THREADS);
		(void)snprintf(expected, sizeof(expected),
			       "qbruntime: err: model: thread %d line %d end",
			       thread, next[thread]++);
		ck_assert_str_eq(line, expected);
	}
	for (i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(next[i], NUM_LINES);
	free(text);
}
END_TEST

struct taken {
	int num;
	enum qbrt_log_level level;
	char component[32];
	char sentence[64];
};

static void take_line(void *arg, enum qbrt_log_level level,
		      const char *component, const char *sentence)
{
	struct taken *taken = arg;

	taken->num++;
	taken->level = level;
	(void)snprintf(taken->component, sizeof(taken->component), "%s",
		       component);
	(void)snprintf(taken->sentence, sizeof(taken->sentence), "%s",
		       sentence);
}

/* Q780 Q720 */
START_TEST(a_log_function_takes_the_lines)
{
	struct taken taken = { 0 };
	size_t length;
	char *text;

	begin_capture();
	qbrt_set_log_function(take_line, &taken);
	qbrt_log(QBRT_LOG_LEVEL_ERR, "model", "a\nb %d", 1);
	qbrt_log(QBRT_LOG_LEVEL_DEBUG, "model", "not on");
	qbrt_set_log_function(NULL, NULL);
	qbrt_log(QBRT_LOG_LEVEL_ERR, "model", "to the file again");
	text = end_capture(&length);
	ck_assert_int_eq(taken.num, 1);
	ck_assert_int_eq(taken.level, QBRT_LOG_LEVEL_ERR);
	ck_assert_str_eq(taken.component, "model");
	ck_assert_str_eq(taken.sentence, "a\\x0ab 1");
	ck_assert_str_eq(text, "qbruntime: err: model: to the file again\n");
	free(text);
}
END_TEST

static void log_again(void *arg, enum qbrt_log_level level,
		      const char *component, const char *sentence)
{
	int *depth = arg;

	(void)level;
	(void)component;
	(void)sentence;
	if (++*depth >= 3)
		return;
	qbrt_set_log_function(log_again, arg);
	qbrt_log(QBRT_LOG_LEVEL_ERR, "model", "from inside");
}

/* Q780 Q741 */
START_TEST(a_log_function_runs_under_no_lock)
{
	int depth = 0;

	qbrt_set_log_function(log_again, &depth);
	qbrt_log(QBRT_LOG_LEVEL_ERR, "model", "outermost");
	qbrt_set_log_function(NULL, NULL);
	ck_assert_int_eq(depth, 3);
}
END_TEST

struct inference {
	struct qbrt_model *model;
	struct qbrt_pinned_memory *in;
	struct qbrt_pinned_memory *out;
	int num_lines;
};

static void infer(void *arg, enum qbrt_log_level level, const char *component,
		  const char *sentence)
{
	struct inference *own = arg;

	(void)level;
	(void)component;
	(void)sentence;
	own->num_lines++;
	ck_assert_ok(qbrt_model_infer_pinned_memory(own->model, NULL, &own->in,
						    1, &own->out, 1));
}

/* Q780: in the line that opening the default device logs, and in one of ours */
START_TEST(a_log_function_may_infer)
{
	struct inference own = { .model = models_load_copy64() };
	struct qbrt_accelerator *acc = NULL;
	struct qbrt_accelerator *again = NULL;

	ck_assert_int_eq(setenv("QBRUNTIME_SOFT_DEVICES", "aries", 1), 0);
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_int_eq(unsetenv("QBRUNTIME_SOFT_DEVICES"), 0);
	ck_assert_ok(qbrt_model_launch(own.model, acc));
	ck_assert_ok(qbrt_model_alloc_input(own.model, 0, &own.in));
	ck_assert_ok(qbrt_model_alloc_output(own.model, 0, &own.out));
	qbrt_set_log_function(infer, &own);
	ck_assert_ok(qbrt_set_log_level(QBRT_LOG_LEVEL_INFO));
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &again));
	ck_assert_int_eq(own.num_lines, 1);
	qbrt_log(QBRT_LOG_LEVEL_WARN, "model", "a line");
	ck_assert_int_eq(own.num_lines, 2);
	qbrt_set_log_function(NULL, NULL);
	qbrt_pinned_memory_free(own.in);
	qbrt_pinned_memory_free(own.out);
	qbrt_model_free(own.model);
	qbrt_accelerator_close(again);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q780 */
START_TEST(logging_keeps_errno)
{
	ck_assert_int_ge(
		saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3), 0);
	ck_assert(!close(STDERR_FILENO));
	errno = ENOSPC;
	qbrt_log(QBRT_LOG_LEVEL_ERR, "model", "nobody listens");
	ck_assert_int_eq(errno, ENOSPC);
	ck_assert_int_eq(dup2(saved_stderr, STDERR_FILENO), STDERR_FILENO);
	ck_assert(!close(saved_stderr));
}
END_TEST

static void swallow(void *arg, enum qbrt_log_level level, const char *component,
		    const char *sentence)
{
	(void)level;
	(void)component;
	(void)sentence;
	atomic_fetch_add((atomic_long *)arg, 1);
}

static void *log_until_stopped(void *arg)
{
	while (!atomic_load((atomic_bool *)arg))
		qbrt_log(QBRT_LOG_LEVEL_ERR, "model", "busy");
	return NULL;
}

/* Q748 */
START_TEST(a_child_of_fork_can_log)
{
	pthread_t threads[4];
	atomic_long num_lines = 0;
	atomic_bool stop = false;
	size_t i;
	int round;

	qbrt_set_log_function(swallow, &num_lines);
	for (i = 0; i < qbrt_array_size(threads); i++)
		ck_assert(!pthread_create(&threads[i], NULL, log_until_stopped,
					  &stop));
	for (round = 0; round < 50; round++) {
		pid_t pid = fork();
		int status;

		if (!pid) {
			qbrt_log(QBRT_LOG_LEVEL_ERR, "model", "in the child");
			_exit(0);
		}
		ck_assert_int_gt(pid, 0);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
	}
	atomic_store(&stop, true);
	for (i = 0; i < qbrt_array_size(threads); i++)
		ck_assert(!pthread_join(threads[i], NULL));
	qbrt_set_log_function(NULL, NULL);
	ck_assert_int_gt(atomic_load(&num_lines), 0);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_line_has_level_component_and_sentence),
		QBRT_TEST(each_level_shows_what_is_at_or_above_it),
		QBRT_TEST(default_level_is_warn),
		QBRT_TEST(unknown_level_is_refused_and_changes_nothing),
		QBRT_TEST(control_characters_are_escaped),
		QBRT_TEST(a_line_is_at_most_1024_bytes),
		QBRT_TEST(lines_of_threads_are_neither_lost_nor_mixed),
		QBRT_TEST(a_line_that_does_not_fit_in_a_file_is_lost_alone),
		QBRT_TEST(a_log_function_takes_the_lines),
		QBRT_TEST(a_log_function_runs_under_no_lock),
		QBRT_TEST(a_log_function_may_infer),
		QBRT_TEST(logging_keeps_errno),
		QBRT_TEST(a_child_of_fork_can_log),
	};

	return qbrt_test_run("log", tests, qbrt_array_size(tests));
}
