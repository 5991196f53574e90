/* SPDX-License-Identifier: MIT */
/*
 * Staging of array calls: sets of pinned buffers, one per input and output of
 * a variant, that the host copies into and out of. A set belongs to one call
 * (or one future) at a time; in between it rests in the pool of its launched
 * model, so that a call in the steady state allocates nothing. Sets are made
 * when none fits, and end with the launch.
 */
#ifndef QBRT_STAGING_H
#define QBRT_STAGING_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "accelerator.h"

struct qbrt_pinned_memory;

struct qbrt_staging_set {
	struct qbrt_staging_set *next; /* in the pool */
	size_t variant;
	size_t max_items;
	size_t num_buffers;
	/* Uint8; nbytes is what the running call uses of it */
	struct qbrt_pinned_memory *buffers[];
};

struct qbrt_staging_pool {
	pthread_mutex_t lock;           /* guards the rest */
	struct qbrt_staging_set *first; /* the one that rested last */
	size_t num_sets;
	size_t num_out; /* with calls and futures */
};

/* What one buffer of a set is to be. */
struct qbrt_staging_want {
	size_t nbytes;
	size_t alignment; /* of struct qbrt_pinned_options */
};

void qbrt_staging_start(struct qbrt_staging_pool *pool);

/* When no set is out and no thread inside any more. */
void qbrt_staging_free(struct qbrt_staging_pool *pool);

/*
 * A set of the variant for num_items or more; NULL: none rests here. One that
 * is too small ends: the caller makes the larger one that replaces it.
 */
struct qbrt_staging_set *qbrt_staging_take(struct qbrt_staging_pool *pool,
					   size_t variant, size_t num_items);

/* Takes it back; too many that rest end. */
void qbrt_staging_give(struct qbrt_staging_pool *pool,
		       struct qbrt_staging_set *set);

size_t qbrt_staging_count_out(struct qbrt_staging_pool *pool);

/* Of a set whose pool is gone. */
void qbrt_staging_end(struct qbrt_staging_set *set);

/*
 * A new set on the pool's device, all of it or nothing, out with the caller.
 */
enum qbrt_status qbrt_staging_make(struct qbrt_staging_pool *pool,
				   struct qbrt_device *device, size_t variant,
				   size_t max_items,
				   const struct qbrt_staging_want *wants,
				   size_t num_wants,
				   struct qbrt_staging_set **set);

#endif
