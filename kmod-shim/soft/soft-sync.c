// SPDX-License-Identifier: MIT
/*
 * What waits: jobs for points of timelines, threads on futex words, and the
 * one thread of a file, which ends jobs at their deadlines and frees a file
 * whose jobs outlived close. Sleepers look at their condition under the file
 * lock and take the word's value with it, and who changes the condition also
 * changes the word under that lock, so no wake-up is lost.
 */
#include "soft/soft-queue.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util.h"

/* ---- sleeping ---- */

static void wake_all(atomic_uint *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG,
		      INT32_MAX, NULL, NULL, 0);
}

/* A word may be gone by now: waking at its address then does nothing. */
void qbnpu_soft_wakes_flush_words(struct qbnpu_soft_wakes *wakes)
{
	for (uint32_t i = 0; i < wakes->num_words; i++)
		wake_all(wakes->words[i]);
	wakes->num_words = 0;
	if (wakes->cores)
		qbnpu_npu_wake(wakes->npu, wakes->cores);
	wakes->cores = 0;
}

void qbnpu_soft_wakes_add(struct qbnpu_soft_wakes *wakes, atomic_uint *word)
{
	if (wakes->num_words == qbrt_array_size(wakes->words))
		qbnpu_soft_wakes_flush_words(wakes);
	wakes->words[wakes->num_words++] = word;
}

/*
 * Does not wait for room in the counter: where there is none, the eventfd is
 * readable already, which is all that one more would say. The look and the
 * write are one step for all threads of the process: only the eventfd's own
 * owner can fill it in between.
 */
static void signal_eventfd(struct qbnpu_soft_eventfd *eventfd)
{
	struct pollfd room = { .fd = eventfd->fd, .events = POLLOUT };
	pthread_mutex_t *lock = qbnpu_soft_get_eventfd_lock();
	const uint64_t one = 1;
	int old;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	(void)pthread_mutex_lock(lock);
	if (poll(&room, 1, 0) == 1 && room.revents & POLLOUT)
		(void)!write(eventfd->fd, &one, sizeof(one));
	(void)pthread_mutex_unlock(lock);
	(void)pthread_setcancelstate(old, &old);
	qbnpu_soft_fd_close(eventfd->fd);
	free(eventfd);
}

void qbnpu_soft_wakes_flush_all(struct qbnpu_soft_wakes *wakes)
{
	qbnpu_soft_wakes_flush_words(wakes);
	while (wakes->eventfds) {
		struct qbnpu_soft_eventfd *eventfd = wakes->eventfds;

		wakes->eventfds = eventfd->next;
		signal_eventfd(eventfd);
	}
}

void qbnpu_soft_wakes_flush_locked(struct qbnpu_soft_wakes *wakes,
				   struct qbnpu_soft_file *file)
{
	qbnpu_soft_wakes_flush_words(wakes);
	if (!wakes->eventfds)
		return;
	(void)pthread_mutex_unlock(&file->lock);
	qbnpu_soft_wakes_flush_all(wakes);
	(void)pthread_mutex_lock(&file->lock);
}

int qbnpu_soft_sleep(atomic_uint *word, unsigned int value, int64_t timeout_ns)
{
	struct timespec limit = {
		.tv_sec = timeout_ns / QBRT_NS_PER_SEC,
		.tv_nsec = timeout_ns % QBRT_NS_PER_SEC,
	};
	long ret;

	if (timeout_ns <= 0)
		return -ETIME;
	/* FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time */
	ret = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
		      value, timeout_ns == INT64_MAX ? NULL : &limit, NULL,
		      FUTEX_BITSET_MATCH_ANY);
	if (!ret || errno == EAGAIN)
		return 0;
	return errno == ETIMEDOUT ? -ETIME : -EINTR;
}

/* ---- timelines ---- */

struct qbnpu_soft_timeline *qbnpu_soft_timeline_alloc(void)
{
	struct qbnpu_soft_timeline *timeline = calloc(1, sizeof(*timeline));

	if (timeline)
		timeline->references = 1;
	return timeline;
}

/* Everything but an eventfd that waits holds a reference. */
static void free_eventfds(struct qbnpu_soft_watch *watch)
{
	while (watch) {
		struct qbnpu_soft_eventfd *eventfd;

		eventfd = qbrt_container_of(watch, struct qbnpu_soft_eventfd,
					    watch);
		watch = watch->next;
		qbnpu_soft_fd_close(eventfd->fd);
		free(eventfd);
	}
}

void qbnpu_soft_timeline_unref(struct qbnpu_soft_timeline *timeline)
{
	if (--timeline->references)
		return;
	free_eventfds(timeline->watches);
	free(timeline);
}

/* A point that came already counts as good, whatever became of its job. */
void qbnpu_soft_wait_start(struct qbnpu_soft_wait *wait,
			   struct qbnpu_soft_timeline *timeline)
{
	if (wait->point <= timeline->completed)
		return;
	timeline->references++;
	wait->timeline = timeline;
	wait->link = &timeline->waits;
	wait->next = timeline->waits;
	if (wait->next)
		wait->next->link = &wait->next;
	timeline->waits = wait;
	wait->job->num_pending++;
}

void qbnpu_soft_wait_stop(struct qbnpu_soft_wait *wait)
{
	if (!wait->timeline)
		return;
	*wait->link = wait->next;
	if (wait->next)
		wait->next->link = wait->link;
	wait->job->num_pending--;
	qbnpu_soft_timeline_unref(wait->timeline);
	wait->timeline = NULL;
}

/* ---- what waits besides jobs ---- */

void qbnpu_soft_watch_start(struct qbnpu_soft_watch *watch,
			    struct qbnpu_soft_timeline *timeline)
{
	if (qbnpu_soft_timeline_has(timeline, watch->point,
				    watch->is_available))
		return;
	watch->timeline = timeline;
	watch->link = &timeline->watches;
	watch->next = timeline->watches;
	if (watch->next)
		watch->next->link = &watch->next;
	timeline->watches = watch;
}

void qbnpu_soft_watch_stop(struct qbnpu_soft_watch *watch)
{
	if (!watch->timeline)
		return;
	*watch->link = watch->next;
	if (watch->next)
		watch->next->link = watch->link;
	watch->timeline = NULL;
}

static void come_all(struct qbnpu_soft_timeline *timeline, int32_t status,
		     struct qbnpu_soft_moves *moves)
{
	struct qbnpu_soft_watch *watch = timeline->watches;

	while (watch) {
		struct qbnpu_soft_watch *next = watch->next;

		if (qbnpu_soft_timeline_has(timeline, watch->point,
					    watch->is_available)) {
			qbnpu_soft_watch_stop(watch);
			watch->come(watch, status, moves);
		}
		watch = next;
	}
}

static void free_point(struct qbnpu_soft_point *point)
{
	if (point->source_timeline)
		qbnpu_soft_timeline_unref(point->source_timeline);
	qbnpu_soft_timeline_unref(point->timeline);
	free(point);
}

/* One point after the other: a chain of any length takes no stack. */
static void come_ready(struct qbnpu_soft_moves *moves)
{
	while (moves->ready) {
		struct qbnpu_soft_point *point = moves->ready;
		struct qbnpu_soft_timeline *timeline = point->timeline;

		moves->ready = point->next;
		if (timeline->completed < point->value)
			timeline->completed = point->value;
		qbnpu_soft_queue_end_waits(timeline, point->status,
					   moves->todo);
		come_all(timeline, point->status, moves);
		free_point(point);
	}
}

void qbnpu_soft_timeline_tell(struct qbnpu_soft_timeline *timeline,
			      int32_t status, struct qbnpu_soft_queue **todo,
			      struct qbnpu_soft_wakes *wakes)
{
	struct qbnpu_soft_moves moves = { .todo = todo, .wakes = wakes };

	come_all(timeline, status, &moves);
	come_ready(&moves);
}

static void note_one_less(struct qbnpu_soft_point *point,
			  struct qbnpu_soft_moves *moves)
{
	if (--point->num_pending)
		return;
	point->next = moves->ready;
	moves->ready = point;
}

/* What failed before it is no failure of its own. */
static void come_before(struct qbnpu_soft_watch *watch, int32_t status,
			struct qbnpu_soft_moves *moves)
{
	(void)status;
	note_one_less(qbrt_container_of(watch, struct qbnpu_soft_point, before),
		      moves);
}

static void come_source(struct qbnpu_soft_watch *watch, int32_t status,
			struct qbnpu_soft_moves *moves)
{
	struct qbnpu_soft_point *point;

	point = qbrt_container_of(watch, struct qbnpu_soft_point, source);
	point->status = status;
	note_one_less(point, moves);
}

void qbnpu_soft_timeline_add(struct qbnpu_soft_timeline *timeline,
			     uint64_t value, struct qbnpu_soft_point *point,
			     struct qbnpu_soft_timeline *source,
			     uint64_t source_point,
			     struct qbnpu_soft_wakes *wakes)
{
	struct qbnpu_soft_queue *todo = NULL;
	struct qbnpu_soft_moves moves = { .todo = &todo, .wakes = wakes };

	point->timeline = timeline;
	timeline->references++;
	point->value = value;
	point->before.point = timeline->submitted;
	point->before.come = come_before;
	qbnpu_soft_watch_start(&point->before, timeline);
	if (source) {
		point->source_timeline = source;
		source->references++;
		point->source.point = source_point;
		point->source.come = come_source;
		qbnpu_soft_watch_start(&point->source, source);
	}
	if (timeline->submitted < value)
		timeline->submitted = value;
	point->num_pending =
		1 + !!point->before.timeline + !!point->source.timeline;
	note_one_less(point, &moves);
	/* who waits for it to be submitted */
	come_all(timeline, 0, &moves);
	come_ready(&moves);
	qbnpu_soft_queue_advance_all(todo, wakes);
}

/* ---- the helper thread ---- */

/* File lock. */
static struct qbnpu_soft_job *find_late_job(const struct qbnpu_soft_file *file,
					    int64_t now_ns, int64_t *next_ns)
{
	*next_ns = INT64_MAX;
	for (uint32_t i = 0; i < QBNPU_SOFT_MAX_QUEUES; i++) {
		struct qbnpu_soft_job *job;

		job = file->queues[i] ? file->queues[i]->head : NULL;
		for (; job; job = job->next) {
			if (job->is_complete || job->stop_cause)
				continue;
			if (job->npu.deadline_ns <= now_ns)
				return job;
			if (job->npu.deadline_ns < *next_ns)
				*next_ns = job->npu.deadline_ns;
		}
	}
	return NULL;
}

/* File lock; dropped while a job is cancelled, so it looks again after each. */
static void end_late_jobs(struct qbnpu_soft_file *file)
{
	struct qbnpu_soft_job *job;
	int64_t next_ns;

	while ((job = find_late_job(file, qbrt_now_ns(), &next_ns)))
		qbnpu_soft_job_cancel(job, QBNPU_CAUSE_TIME);
	file->next_deadline_ns = next_ns;
}

static void *run_helper(void *arg)
{
	struct qbnpu_soft_file *file = arg;
	bool is_orphan;

	(void)pthread_mutex_lock(&file->lock);
	while (!file->is_helper_stopping ||
	       (file->is_helper_orphan && file->num_jobs)) {
		int64_t limit_ns = file->next_deadline_ns;
		struct timespec limit = {
			.tv_sec = limit_ns / QBRT_NS_PER_SEC,
			.tv_nsec = limit_ns % QBRT_NS_PER_SEC,
		};

		if (limit_ns == INT64_MAX)
			(void)pthread_cond_wait(&file->helper_wake,
						&file->lock);
		else if (limit_ns > qbrt_now_ns())
			(void)pthread_cond_timedwait(&file->helper_wake,
						     &file->lock, &limit);
		else
			end_late_jobs(file);
	}
	is_orphan = file->is_helper_orphan;
	(void)pthread_mutex_unlock(&file->lock);
	if (is_orphan)
		qbnpu_soft_file_free(file);
	return NULL;
}

int qbnpu_soft_helper_start(struct qbnpu_soft_file *file)
{
	sigset_t all, old;
	int err;

	if (file->has_helper)
		return 0;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&file->helper, NULL, run_helper, file);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return -ENOMEM;
	(void)pthread_setname_np(file->helper, "qbrt-soft");
	file->has_helper = true;
	return 0;
}

void qbnpu_soft_helper_note_deadline(struct qbnpu_soft_file *file,
				     int64_t deadline_ns)
{
	if (deadline_ns >= file->next_deadline_ns)
		return;
	file->next_deadline_ns = deadline_ns;
	(void)pthread_cond_signal(&file->helper_wake);
}

/* Threads that wait for a point that nobody may bring; file lock. */
static void end_sleepers(struct qbnpu_soft_file *file)
{
	struct qbnpu_soft_sleeper *sleeper = file->sleepers;

	for (; sleeper; sleeper = sleeper->next) {
		atomic_fetch_add(&sleeper->word, 1);
		wake_all(&sleeper->word);
	}
	while (file->sleepers)
		(void)pthread_cond_wait(&file->is_idle, &file->lock);
}

bool qbnpu_soft_helper_stop(struct qbnpu_soft_file *file)
{
	bool has_helper, is_idle;

	(void)pthread_mutex_lock(&file->lock);
	end_sleepers(file);
	/* no thread to leave them to: the device ends them at its next look */
	while (!file->has_helper && file->num_jobs)
		(void)pthread_cond_wait(&file->is_idle, &file->lock);
	is_idle = !file->num_jobs;
	has_helper = file->has_helper;
	file->is_helper_stopping = true;
	file->is_helper_orphan = !is_idle;
	(void)pthread_cond_signal(&file->helper_wake);
	/* a job that goes on was queued, and its queueing started the thread */
	if (!is_idle)
		(void)pthread_detach(file->helper);
	(void)pthread_mutex_unlock(&file->lock);
	if (is_idle && has_helper)
		(void)pthread_join(file->helper, NULL);
	return is_idle;
}
