/* SPDX-License-Identifier: MIT */
/*
 * Timelines, and all that sleeps or waits in soft/: see soft-sync.c. Part of
 * soft.h; everything is under the file lock, unless it says otherwise.
 */
#ifndef QBNPU_SOFT_SYNC_H
#define QBNPU_SOFT_SYNC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qbnpu_soft_file;
struct qbnpu_soft_job;
struct qbnpu_soft_queue;

/* ---- soft-sync.c: timelines, sleeping, the helper thread ---- */

/*
 * A 64-bit point that only grows. Referred to by its handle, its queue, jobs
 * and threads that wait, and points that are to come. File lock.
 */
struct qbnpu_soft_timeline {
	uint32_t references;
	uint64_t completed;
	uint64_t submitted; /* points up to here will come */
	struct qbnpu_soft_wait *waits;
	struct qbnpu_soft_watch *watches; /* what else waits; NULL: nothing */
};

/* A job that waits for a point. File lock. */
struct qbnpu_soft_wait {
	struct qbnpu_soft_job *job;
	struct qbnpu_soft_timeline *timeline; /* NULL: no longer waits */
	struct qbnpu_soft_wait *next;
	struct qbnpu_soft_wait **link;
	uint64_t point;
	uint32_t flags;
};

/* Whom a locked section woke; done after unlocking. */
struct qbnpu_soft_wakes {
	uint32_t num_words;
	atomic_uint *words[15]; /* futexes */
	uint64_t cores;         /* of npu, which got work */
	struct qbnpu_npu *npu;
	struct qbnpu_soft_eventfd *eventfds;
};

/* What a watch sets off when its point came, with the fence's status. */
struct qbnpu_soft_moves {
	struct qbnpu_soft_queue **todo;
	struct qbnpu_soft_wakes *wakes;
	struct qbnpu_soft_point *ready; /* points that come next */
};

/*
 * Something but a job that waits for a point: a sleeping thread, a later point
 * or an eventfd. Its owner holds a reference to the timeline; only an eventfd
 * ends with it. File lock.
 */
struct qbnpu_soft_watch {
	struct qbnpu_soft_timeline *timeline; /* NULL: does not wait (more) */
	struct qbnpu_soft_watch *next, **link;
	uint64_t point;
	bool is_available; /* waits until the point is submitted, no longer */
	void (*come)(struct qbnpu_soft_watch *watch, int32_t status,
		     struct qbnpu_soft_moves *moves);
};

/* An eventfd that is told of one point, once (SYNCOBJ_EVENTFD). */
struct qbnpu_soft_eventfd {
	struct qbnpu_soft_watch watch;
	struct qbnpu_soft_eventfd *next; /* among the woken */
	int fd;                          /* its own */
};

/*
 * A point that a request added to a timeline: comes after those before it, and
 * after the one that it was taken from (SYNCOBJ_TRANSFER).
 */
struct qbnpu_soft_point {
	struct qbnpu_soft_watch before, source;
	struct qbnpu_soft_timeline *timeline, *source_timeline; /* references */
	struct qbnpu_soft_point *next;
	uint64_t value;
	uint32_t num_pending;
	int32_t status;
};

static inline void qbnpu_soft_wakes_begin(struct qbnpu_soft_wakes *wakes)
{
	wakes->num_words = 0;
	wakes->cores = 0;
	wakes->eventfds = NULL;
}

void qbnpu_soft_wakes_add(struct qbnpu_soft_wakes *wakes, atomic_uint *word);
void qbnpu_soft_wakes_flush_all(struct qbnpu_soft_wakes *wakes);
void qbnpu_soft_wakes_flush_words(struct qbnpu_soft_wakes *wakes);

/* No file lock held: whoever shares an eventfd could hold the writer up. */
static inline void qbnpu_soft_wakes_flush(struct qbnpu_soft_wakes *wakes)
{
	if (wakes->num_words || wakes->cores || wakes->eventfds)
		qbnpu_soft_wakes_flush_all(wakes);
}

/* The file lock is held, and dropped meanwhile if there are eventfds. */
void qbnpu_soft_wakes_flush_locked(struct qbnpu_soft_wakes *wakes,
				   struct qbnpu_soft_file *file);

/* Sleeps while *word is value. 0: look again; -ETIME; -EINTR. */
int qbnpu_soft_sleep(atomic_uint *word, unsigned int value, int64_t timeout_ns);

struct qbnpu_soft_timeline *qbnpu_soft_timeline_alloc(void);
void qbnpu_soft_timeline_unref(struct qbnpu_soft_timeline *timeline);
void qbnpu_soft_wait_start(struct qbnpu_soft_wait *wait,
			   struct qbnpu_soft_timeline *timeline);
void qbnpu_soft_wait_stop(struct qbnpu_soft_wait *wait);

static inline bool
qbnpu_soft_timeline_has(const struct qbnpu_soft_timeline *timeline,
			uint64_t point, bool is_available)
{
	return point <=
	       (is_available ? timeline->submitted : timeline->completed);
}

/* Waits from now on if the point did not come already. */
void qbnpu_soft_watch_start(struct qbnpu_soft_watch *watch,
			    struct qbnpu_soft_timeline *timeline);
void qbnpu_soft_watch_stop(struct qbnpu_soft_watch *watch);

/*
 * The timeline's points moved: tells its watches. status: of the last fence.
 * For a timeline without watches there is nothing to do.
 */
void qbnpu_soft_timeline_tell(struct qbnpu_soft_timeline *timeline,
			      int32_t status, struct qbnpu_soft_queue **todo,
			      struct qbnpu_soft_wakes *wakes);
/*
 * Adds a point that comes after all before it and after source's source_point;
 * source NULL: at once after those. Takes point, which is zeros.
 */
void qbnpu_soft_timeline_add(struct qbnpu_soft_timeline *timeline,
			     uint64_t value, struct qbnpu_soft_point *point,
			     struct qbnpu_soft_timeline *source,
			     uint64_t source_point,
			     struct qbnpu_soft_wakes *wakes);

/*
 * ---- soft-sync-wait.c: threads that wait for points ----
 *
 * A thread inside a waiting request. File lock, but for word.
 */
struct qbnpu_soft_sleeper {
	atomic_uint word; /* futex: counts what woke it */
	struct qbnpu_soft_sleeper *next, **link;
};

/* One of the points that a thread waits for. */
struct qbnpu_soft_place {
	struct qbnpu_soft_watch watch; /* point, is_available: given */
	struct qbnpu_soft_timeline *timeline;
	struct qbnpu_soft_sleeper *sleeper;
};

/*
 * Until one of num points came, or all of them; file lock, dropped meanwhile.
 * Holds references to the timelines. *first: the lowest index that came. 0,
 * -ETIME, -EINTR, -ENODEV: the file is closing.
 */
int qbnpu_soft_places_wait(struct qbnpu_soft_file *file,
			   struct qbnpu_soft_place *places, uint32_t num,
			   bool is_for_all, int64_t timeout_ns,
			   uint32_t *first);

/* Starts the file's thread, once. 0 or -ENOMEM. File lock. */
int qbnpu_soft_helper_start(struct qbnpu_soft_file *file);
/* A job must be complete by then. File lock. */
void qbnpu_soft_helper_note_deadline(struct qbnpu_soft_file *file,
				     int64_t deadline_ns);
/*
 * When the file closes; file lock not held. true: no job is left and the thread
 * has ended. false: jobs go on, and the thread will free the file.
 */
bool qbnpu_soft_helper_stop(struct qbnpu_soft_file *file);

#endif
