// SPDX-License-Identifier: MIT
/*
 * The pool is a stack under a lock that is held over no request and no free:
 * the set whose memory is warm goes out first.
 */
#include "staging.h"

#include <stdlib.h>

#include "pinned-memory.h"
#include "status.h"

/* As many calls and futures as may wait in one model, and its slots. */
#define MAX_RESTING 128

void qbrt_staging_end(struct qbrt_staging_set *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < set->num_buffers; i++)
		qbrt_pinned_memory_free(set->buffers[i]);
	free(set);
}

void qbrt_staging_start(struct qbrt_staging_pool *pool)
{
	(void)pthread_mutex_init(&pool->lock, NULL);
	pool->first = NULL;
	pool->num_sets = 0;
	pool->num_out = 0;
}

/* A child of fork frees too: it does not take the lock, which may be held. */
void qbrt_staging_free(struct qbrt_staging_pool *pool)
{
	struct qbrt_staging_set *set = pool->first;

	while (set) {
		struct qbrt_staging_set *next = set->next;

		qbrt_staging_end(set);
		set = next;
	}
	pool->first = NULL;
	(void)pthread_mutex_destroy(&pool->lock);
}

/* With the lock: the link to the best set of the variant, or to the end. */
static struct qbrt_staging_set **find(struct qbrt_staging_pool *pool,
				      size_t variant, size_t num_items)
{
	struct qbrt_staging_set **too_small = NULL;
	struct qbrt_staging_set **link;

	for (link = &pool->first; *link; link = &(*link)->next) {
		if ((*link)->variant != variant)
			continue;
		if ((*link)->max_items >= num_items)
			return link;
		too_small = link;
	}
	return too_small ? too_small : link;
}

struct qbrt_staging_set *qbrt_staging_take(struct qbrt_staging_pool *pool,
					   size_t variant, size_t num_items)
{
	struct qbrt_staging_set **link;
	struct qbrt_staging_set *set;

	(void)pthread_mutex_lock(&pool->lock);
	link = find(pool, variant, num_items);
	set = *link;
	if (set) {
		*link = set->next;
		pool->num_sets--;
		pool->num_out += set->max_items >= num_items;
	}
	(void)pthread_mutex_unlock(&pool->lock);
	if (!set || set->max_items >= num_items)
		return set;
	qbrt_staging_end(set);
	return NULL;
}

void qbrt_staging_give(struct qbrt_staging_pool *pool,
		       struct qbrt_staging_set *set)
{
	bool is_full;

	(void)pthread_mutex_lock(&pool->lock);
	pool->num_out--;
	is_full = pool->num_sets == MAX_RESTING;
	if (!is_full) {
		set->next = pool->first;
		pool->first = set;
		pool->num_sets++;
	}
	(void)pthread_mutex_unlock(&pool->lock);
	if (is_full)
		qbrt_staging_end(set);
}

size_t qbrt_staging_count_out(struct qbrt_staging_pool *pool)
{
	size_t num;

	(void)pthread_mutex_lock(&pool->lock);
	num = pool->num_out;
	(void)pthread_mutex_unlock(&pool->lock);
	return num;
}

enum qbrt_status qbrt_staging_make(struct qbrt_staging_pool *pool,
				   struct qbrt_device *device, size_t variant,
				   size_t max_items,
				   const struct qbrt_staging_want *wants,
				   size_t num_wants,
				   struct qbrt_staging_set **set)
{
	struct qbrt_staging_set *new_set = calloc(
		1, sizeof(*new_set) +
			   num_wants * sizeof(struct qbrt_pinned_memory *));
	enum qbrt_status status = QBRT_OK;

	if (!new_set)
		return qbrt_fail(QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
				 "no memory for the staging of a call");
	new_set->variant = variant;
	new_set->max_items = max_items;
	new_set->num_buffers = num_wants;
	for (size_t i = 0; i < num_wants && !status; i++) {
		const struct qbrt_pinned_options options = {
			.size = sizeof(options),
			.alignment = wants[i].alignment,
		};
		int64_t nbytes = (int64_t)wants[i].nbytes;

		status = qbrt_pinned_memory_alloc_on(device, QBRT_DTYPE_UINT8,
						     &nbytes, 1, &options,
						     &new_set->buffers[i]);
	}
	if (status) {
		qbrt_staging_end(new_set);
		return status;
	}
	(void)pthread_mutex_lock(&pool->lock);
	pool->num_out++;
	(void)pthread_mutex_unlock(&pool->lock);
	*set = new_set;
	return QBRT_OK;
}
