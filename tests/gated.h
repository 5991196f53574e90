/* SPDX-License-Identifier: MIT */
/*
 * A rig whose device does nothing by itself, so that jobs stand where the test
 * wants them, and what tests do with its futures.
 */
#ifndef TESTS_GATED_H
#define TESTS_GATED_H

#include "rig.h"
#include "sim.h"
#include "test-util.h"

/* A rig with copy64 on a stepped device. */
struct gated {
	struct rig rig;
	struct sim sim;
};

void gated_open(struct gated *gated, unsigned int activation_slots);
/* Steps what is left. */
void gated_close(struct gated *gated);

/* copy64 with so many slots, 0: its default. */
struct qbrt_model *load_copy(unsigned int activation_slots);

struct qbrt_pinned_memory *alloc_64(const struct rig *rig);

struct qbrt_future *submit(const struct rig *rig, struct qbrt_pinned_memory *in,
			   struct qbrt_pinned_memory *out);
enum qbrt_status try_submit(const struct rig *rig,
			    struct qbrt_pinned_memory *in,
			    struct qbrt_pinned_memory *out,
			    const struct qbrt_infer_options *options,
			    struct qbrt_future **future);

bool is_done(const struct qbrt_future *future);

/* Takes and frees it. */
enum qbrt_status take(struct qbrt_future *future);

/* Jobs that the driver has taken on any queue, also those that wait there. */
uint64_t count_submitted(const struct gated *gated);

#endif
