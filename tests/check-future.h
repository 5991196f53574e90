/* SPDX-License-Identifier: MIT */
/*
 * The parts of check-future, and what they share: a rig whose device does
 * nothing by itself, so that jobs stand where the test wants them.
 */
#ifndef TESTS_CHECK_FUTURE_H
#define TESTS_CHECK_FUTURE_H

#include "rig.h"
#include "sim.h"
#include "test-util.h"

size_t add_future_order_tests(struct qbrt_test *all);
size_t add_future_end_tests(struct qbrt_test *all);
size_t add_future_thread_tests(struct qbrt_test *all);
size_t add_future_fork_tests(struct qbrt_test *all);

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

#endif
