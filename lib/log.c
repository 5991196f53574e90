// SPDX-License-Identifier: MIT
/*
 * One line is one write() to standard error, at most LINE_SIZE bytes, so that
 * lines of several threads and processes do not mix. The lock guards the
 * function and its argument as a pair and is never held while either a
 * function or write() runs.
 */
#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fd.h"
#include "status.h"
#include "util.h"

#define LINE_SIZE 1024

static atomic_int default_level = QBRT_LOG_LEVEL_WARN;
static atomic_int set_level; /* 0: not set, the default counts */

static pthread_mutex_t function_lock = PTHREAD_MUTEX_INITIALIZER;
static qbrt_log_function log_function; /* function_lock */
static void *log_arg;                  /* function_lock */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void lock_function(void)
{
	pthread_mutex_lock(&function_lock);
}

static void unlock_function(void)
{
	pthread_mutex_unlock(&function_lock);
}

/* A child of fork must not inherit the lock from a thread that it lacks. */
static void register_fork(void)
{
	(void)pthread_atfork(lock_function, unlock_function, unlock_function);
}

static bool is_level(enum qbrt_log_level level)
{
	return level >= QBRT_LOG_LEVEL_DEBUG && level <= QBRT_LOG_LEVEL_OFF;
}

bool qbrt_log_is_on(enum qbrt_log_level level)
{
	int limit = atomic_load_explicit(&set_level, memory_order_relaxed);

	if (!limit)
		limit = atomic_load_explicit(&default_level,
					     memory_order_relaxed);
	return (int)level >= limit && level < QBRT_LOG_LEVEL_OFF;
}

void qbrt_log_set_default(enum qbrt_log_level level)
{
	atomic_store_explicit(&default_level, (int)level, memory_order_relaxed);
}

QBRT_API enum qbrt_status qbrt_set_log_level(enum qbrt_log_level level)
{
	if (!is_level(level))
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "log level %d is none of %d (debug) to %d "
				 "(off)",
				 (int)level, QBRT_LOG_LEVEL_DEBUG,
				 QBRT_LOG_LEVEL_OFF);
	atomic_store_explicit(&set_level, (int)level, memory_order_relaxed);
	return QBRT_OK;
}

QBRT_API void qbrt_set_log_function(qbrt_log_function function, void *arg)
{
	(void)pthread_once(&fork_once, register_fork);
	lock_function();
	log_function = function;
	log_arg = arg;
	unlock_function();
}

static void write_line(enum qbrt_log_level level, const char *component,
		       const char *sentence)
{
	static const char *const levels[] = {
		[QBRT_LOG_LEVEL_DEBUG] = "debug",
		[QBRT_LOG_LEVEL_INFO] = "info",
		[QBRT_LOG_LEVEL_WARN] = "warn",
		[QBRT_LOG_LEVEL_ERR] = "err",
		[QBRT_LOG_LEVEL_FATAL] = "fatal",
	};
	char line[LINE_SIZE + 1];
	int length;

	length = snprintf(line, LINE_SIZE, "qbruntime: %s: %s: %s",
			  levels[level], component, sentence);
	if (length >= LINE_SIZE)
		length = LINE_SIZE - 1;
	line[length] = '\n';
	/* nobody is left to be told that standard error is full or closed */
	(void)qbrt_fd_write(STDERR_FILENO, line, (size_t)length + 1);
}

void qbrt_log(enum qbrt_log_level level, const char *component,
	      const char *format, ...)
{
	const int saved_errno = errno;
	char text[LINE_SIZE];
	char sentence[LINE_SIZE - 64]; /* the rest of the line fits too */
	qbrt_log_function function;
	void *arg;
	va_list args;

	if (!is_level(level) || !qbrt_log_is_on(level))
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	qbrt_escape(text, strlen(text), sentence, sizeof(sentence));
	(void)pthread_once(&fork_once, register_fork);
	lock_function();
	function = log_function;
	arg = log_arg;
	unlock_function();
	if (function)
		function(arg, level, component, sentence);
	else
		write_line(level, component, sentence);
	errno = saved_errno;
}
