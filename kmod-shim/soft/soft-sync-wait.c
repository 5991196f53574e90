// SPDX-License-Identifier: MIT
/*
 * Threads that wait for points of several timelines at once (TIMELINE_WAIT,
 * and TRANSFER of a point that is not submitted yet). Each sleeps on a futex
 * word of its own, on its stack, which every watch of its points counts up; it
 * looks at them and takes the word's value under the file lock, so no wake-up
 * is lost.
 */
#include "soft/soft.h"

#include <errno.h>

#include "util.h"

/* A watch that waits no longer has come. */
static uint32_t count_come(const struct qbnpu_soft_place *places, uint32_t num,
			   uint32_t *first)
{
	uint32_t num_come = 0;

	for (uint32_t i = 0; i < num; i++) {
		if (places[i].watch.timeline)
			continue;
		if (!num_come)
			*first = i;
		num_come++;
	}
	return num_come;
}

static bool is_enough(const struct qbnpu_soft_place *places, uint32_t num,
		      bool is_for_all, uint32_t *first)
{
	uint32_t num_come = count_come(places, num, first);

	return is_for_all ? num_come == num : num_come > 0;
}

static void wake(struct qbnpu_soft_watch *watch, int32_t status,
		 struct qbnpu_soft_moves *moves)
{
	struct qbnpu_soft_place *place;

	(void)status;
	place = qbrt_container_of(watch, struct qbnpu_soft_place, watch);
	atomic_fetch_add(&place->sleeper->word, 1);
	qbnpu_soft_wakes_add(moves->wakes, &place->sleeper->word);
}

static void enter(struct qbnpu_soft_file *file,
		  struct qbnpu_soft_sleeper *sleeper)
{
	atomic_init(&sleeper->word, 0);
	sleeper->link = &file->sleepers;
	sleeper->next = file->sleepers;
	if (sleeper->next)
		sleeper->next->link = &sleeper->next;
	file->sleepers = sleeper;
}

static void leave(struct qbnpu_soft_file *file,
		  struct qbnpu_soft_sleeper *sleeper)
{
	*sleeper->link = sleeper->next;
	if (sleeper->next)
		sleeper->next->link = sleeper->link;
	if (file->is_closing && !file->sleepers)
		(void)pthread_cond_signal(&file->is_idle);
}

int qbnpu_soft_places_wait(struct qbnpu_soft_file *file,
			   struct qbnpu_soft_place *places, uint32_t num,
			   bool is_for_all, int64_t timeout_ns, uint32_t *first)
{
	struct qbnpu_soft_sleeper sleeper;
	bool has_come;
	int err = 0;

	enter(file, &sleeper);
	for (uint32_t i = 0; i < num; i++) {
		places[i].sleeper = &sleeper;
		places[i].timeline->references++;
		places[i].watch.come = wake;
		qbnpu_soft_watch_start(&places[i].watch, places[i].timeline);
	}
	while (!(has_come = is_enough(places, num, is_for_all, first)) &&
	       !err) {
		unsigned int value = atomic_load(&sleeper.word);

		if (file->is_closing) {
			err = -ENODEV;
			continue;
		}
		(void)pthread_mutex_unlock(&file->lock);
		err = qbnpu_soft_sleep(&sleeper.word, value, timeout_ns);
		(void)pthread_mutex_lock(&file->lock);
	}
	for (uint32_t i = 0; i < num; i++) {
		qbnpu_soft_watch_stop(&places[i].watch);
		qbnpu_soft_timeline_unref(places[i].timeline);
	}
	leave(file, &sleeper);
	return has_come ? 0 : err;
}
