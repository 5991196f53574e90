// SPDX-License-Identifier: MIT
/*
 * Starting, stopping and recording. The trace lock guards starting, stopping
 * and the table of devices. Who records takes no lock: it counts itself in,
 * looks whether the trace is on, writes, counts itself out; stopping turns the
 * trace off and waits until nobody is inside before it closes the file. Each
 * thread counts in a shard of its own, as far as there are shards. A child of
 * fork records nothing: the file is its parent's.
 */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <qbruntime/qbrt.h>

#include "fd.h"
#include "log.h"
#include "status.h"
#include "trace-device.h"
#include "trace-line.h"

#define NUM_SHARDS 64
#define CACHE_LINE 64

struct shard {
	_Alignas(CACHE_LINE) atomic_uint num_inside;
};

/* What this thread knows of itself. */
struct self {
	pid_t tid;
	struct shard *shard;
	unsigned int named_in; /* number of the trace that has its name */
	unsigned int num_pairs;
};

atomic_bool qbrt_trace_on;

static pthread_mutex_t trace_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
/* trace lock; constant for who is inside: */
static int trace_fd = -1;
static bool trace_is_limited; /* RLIMIT_FSIZE, when it was started */
static pid_t trace_pid;
static unsigned int trace_number;

static atomic_int failure; /* errno that ended the running trace */
static struct shard shards[NUM_SHARDS];
static _Thread_local struct self self;

/* ---- fork ---- */

static void begin_fork(void)
{
	(void)pthread_mutex_lock(&trace_lock);
}

static void end_fork(void)
{
	(void)pthread_mutex_unlock(&trace_lock);
}

/* Threads that were inside are not here, nor are devices open. */
static void end_fork_in_child(void)
{
	atomic_store(&qbrt_trace_on, false);
	if (trace_fd >= 0)
		(void)close(trace_fd);
	trace_fd = -1;
	for (size_t i = 0; i < NUM_SHARDS; i++)
		atomic_store(&shards[i].num_inside, 0);
	qbrt_trace_table_clear();
	self.tid = 0;
	end_fork();
}

static void watch_forks(void)
{
	(void)pthread_atfork(begin_fork, end_fork, end_fork_in_child);
}

static void take_lock(void)
{
	(void)pthread_once(&fork_once, watch_forks);
	(void)pthread_mutex_lock(&trace_lock);
}

static void give_lock(void)
{
	(void)pthread_mutex_unlock(&trace_lock);
}

/* ---- writing ---- */

/* O_APPEND makes one write one piece of the file. 0 or a negative errno. */
static int write_line(const struct qbrt_trace_line *line)
{
	return trace_is_limited
		       ? qbrt_fd_write(trace_fd, line->text, line->length)
		       : qbrt_fd_write_unlimited(trace_fd, line->text,
						 line->length);
}

/* Ends the trace. true: nobody did before, so the caller logs it, unlocked. */
static bool note_failure(int err)
{
	int none = 0;

	if (!err || !atomic_compare_exchange_strong(&failure, &none, err))
		return false;
	atomic_store(&qbrt_trace_on, false);
	return true;
}

static void log_failure(int err)
{
	qbrt_log(QBRT_LOG_LEVEL_WARN, "trace",
		 "the trace ends early: its file cannot be written: %s",
		 qbrt_errno_words(err));
}

/* ---- recording ---- */

static struct shard *choose_shard(void)
{
	static atomic_uint next;

	return &shards[atomic_fetch_add_explicit(&next, 1,
						 memory_order_relaxed) %
		       NUM_SHARDS];
}

/* true: inside, and the trace stays as it is until leave. */
static bool enter(void)
{
	if (!self.shard)
		self.shard = choose_shard();
	atomic_fetch_add(&self.shard->num_inside, 1);
	if (atomic_load(&qbrt_trace_on))
		return true;
	atomic_fetch_sub(&self.shard->num_inside, 1);
	return false;
}

/* A log function may stop the trace: it runs when this thread is outside. */
static void leave(int err, int saved_errno)
{
	bool is_first = note_failure(err);

	atomic_fetch_sub(&self.shard->num_inside, 1);
	if (is_first)
		log_failure(err);
	errno = saved_errno;
}

/* Before this thread's first event of a trace. */
static int name_thread(void)
{
	struct qbrt_trace_line line;
	char name[16] = "";

	if (!self.tid)
		self.tid = gettid();
	if (self.named_in == trace_number)
		return 0;
	self.named_in = trace_number;
	(void)prctl(PR_GET_NAME, name);
	qbrt_trace_line_begin_names(&line, ',', "thread_name", trace_pid,
				    self.tid);
	qbrt_trace_line_add_text(&line, "name", name);
	qbrt_trace_line_end(&line);
	return write_line(&line);
}

void qbrt_trace_host(const struct qbrt_trace_event *event)
{
	const int saved_errno = errno;
	struct qbrt_trace_line line;
	int err;

	if (!enter())
		return;
	err = name_thread();
	if (!err) {
		qbrt_trace_line_begin(&line, event, 'X', "host", trace_pid,
				      self.tid);
		qbrt_trace_line_begin_args(&line, event);
		qbrt_trace_line_end(&line);
		err = write_line(&line);
	}
	leave(err, saved_errno);
}

/* One end of a pair; the id is the same in both, and in no other pair. */
static int write_pair_end(const struct qbrt_trace_event *event, char phase)
{
	struct qbrt_trace_line line;

	qbrt_trace_line_begin(&line, event, phase, "queue", trace_pid,
			      self.tid);
	qbrt_trace_line_add(&line, ",\"id\":\"%ld.%u\"", (long)self.tid,
			    self.num_pairs);
	qbrt_trace_line_begin_args(&line, event);
	qbrt_trace_line_end(&line);
	return write_line(&line);
}

void qbrt_trace_queue(const struct qbrt_trace_event *event)
{
	const int saved_errno = errno;
	int err;

	if (!enter())
		return;
	self.num_pairs++;
	err = name_thread();
	if (!err)
		err = write_pair_end(event, 'b');
	if (!err)
		err = write_pair_end(event, 'e');
	leave(err, saved_errno);
}

void qbrt_trace_core(uint64_t instance, uint32_t core, uint32_t item,
		     const struct qbrt_trace_event *event)
{
	const int saved_errno = errno;
	struct qbrt_trace_line line;
	long pid;
	long tid;
	int err = 0;

	if (!enter())
		return;
	if (qbrt_trace_table_find(instance, core, &pid, &tid)) {
		qbrt_trace_line_begin(&line, event, 'X', "core", pid, tid);
		qbrt_trace_line_begin_args(&line, event);
		qbrt_trace_line_add_number(&line, "item", item);
		qbrt_trace_line_end(&line);
		err = write_line(&line);
	}
	leave(err, saved_errno);
}

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
	if (value < least)
		return least;
	return value < most ? value : most;
}

void qbrt_trace_job(const struct qbrt_trace_event *call, int64_t submit_ns,
		    int64_t start_ns)
{
	struct qbrt_trace_event event = *call;

	submit_ns = clamp(submit_ns, call->begin_ns, call->end_ns);
	event.name = "submit";
	event.end_ns = submit_ns;
	qbrt_trace_host(&event);
	event.name = "queue";
	event.begin_ns = submit_ns;
	event.end_ns = call->end_ns;
	if (start_ns)
		event.end_ns = clamp(start_ns, submit_ns, call->end_ns);
	qbrt_trace_queue(&event);
	event.name = "wait";
	event.end_ns = call->end_ns;
	qbrt_trace_host(&event);
}

/* ---- devices; trace lock ---- */

static int write_device(const struct qbrt_trace_place *place)
{
	struct qbrt_trace_line line;
	unsigned int number = 0;
	int err = 0;

	while (!err && qbrt_trace_place_line(place, number++, &line))
		err = write_line(&line);
	return err;
}

void qbrt_trace_add_device(const struct qbrt_trace_device *device)
{
	const struct qbrt_trace_place *place;
	bool is_failed;
	int err = 0;

	take_lock();
	place = qbrt_trace_table_add(device);
	if (place && qbrt_trace_is_on())
		err = write_device(place);
	is_failed = note_failure(err);
	give_lock();
	if (is_failed)
		log_failure(err);
}

void qbrt_trace_remove_device(uint64_t instance)
{
	take_lock();
	qbrt_trace_table_remove(instance);
	give_lock();
}

/* ---- starting and stopping; trace lock ---- */

/* A new file, or a regular one that may be written. */
static int open_file(const char *path, bool *is_new)
{
	const int flags =
		O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	int fd = open(path, flags | O_CREAT | O_EXCL, 0666);

	*is_new = fd >= 0;
	if (fd < 0 && errno == EEXIST)
		fd = open(path, flags);
	fd = qbrt_fd_keep(fd);
	return fd < 0 ? -errno : fd;
}

/* An old file loses what it held. */
static int clear_file(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	return ftruncate(fd, 0) ? -errno : 0;
}

/* What every trace begins with. */
static int write_names(void)
{
	const struct qbrt_trace_place *place;
	struct qbrt_trace_line line;
	size_t index = 0;
	int err;

	qbrt_trace_line_begin_names(&line, '[', "process_name", trace_pid, 0);
	qbrt_trace_line_add_text(&line, "name", program_invocation_short_name);
	qbrt_trace_line_end(&line);
	err = write_line(&line);
	while (!err && (place = qbrt_trace_table_next(&index)))
		err = write_device(place);
	return err;
}

static enum qbrt_status start(const char *path)
{
	bool is_new;
	int err;

	trace_fd = open_file(path, &is_new);
	if (trace_fd < 0)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "%s: the trace file cannot be created: %s",
				 path, qbrt_errno_words(trace_fd));
	trace_is_limited = qbrt_fd_is_limited();
	trace_pid = getpid();
	trace_number++;
	err = is_new ? 0 : clear_file(trace_fd);
	if (!err)
		err = write_names();
	if (!err) {
		atomic_store(&failure, 0);
		atomic_store(&qbrt_trace_on, true);
		return QBRT_OK;
	}
	(void)close(trace_fd);
	trace_fd = -1;
	if (is_new)
		(void)unlink(path);
	return qbrt_fail(QBRT_INVALID_ARGUMENT,
			 "%s: the trace file cannot be written: %s%s", path,
			 qbrt_errno_words(err),
			 err == -EINVAL ? "; it is to be a regular file" : "");
}

QBRT_API enum qbrt_status qbrt_trace_start(const char *path)
{
	enum qbrt_status status;

	if (!path)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_trace_start: path is NULL");
	take_lock();
	if (trace_fd < 0)
		status = start(path);
	else
		status = qbrt_fail(QBRT_INVALID_ARGUMENT,
				   "%s: another trace has been started: stop "
				   "that one first",
				   path);
	give_lock();
	return status;
}

/* They stay for a write at most. */
static void wait_for_recorders(void)
{
	const struct timespec pause = { .tv_nsec = 10000 };

	for (size_t i = 0; i < NUM_SHARDS; i++)
		while (atomic_load(&shards[i].num_inside))
			(void)nanosleep(&pause, NULL);
}

static enum qbrt_status stop(void)
{
	int err;

	atomic_store(&qbrt_trace_on, false);
	wait_for_recorders();
	err = atomic_load(&failure);
	if (!err)
		err = qbrt_fd_write(trace_fd, "]\n", 2);
	if (close(trace_fd) && !err)
		err = -errno;
	trace_fd = -1;
	if (!err)
		return QBRT_OK;
	return qbrt_fail(QBRT_INTERNAL_ERROR,
			 "the trace is not whole: its file could not be "
			 "written to the end: %s",
			 qbrt_errno_words(err));
}

QBRT_API enum qbrt_status qbrt_trace_stop(void)
{
	enum qbrt_status status = QBRT_OK;

	take_lock();
	if (trace_fd >= 0)
		status = stop();
	give_lock();
	return status;
}
