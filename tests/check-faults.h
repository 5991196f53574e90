/* SPDX-License-Identifier: MIT */
/*
 * The parts of check-faults: what fails and what is expected of it
 * (check-faults.c), what is called meanwhile (check-faults-scenes.c), and the
 * counts that a failure must leave as they were (check-faults-rest.c).
 */
#ifndef TESTS_CHECK_FAULTS_H
#define TESTS_CHECK_FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gated.h"

/* What a scenario may have; the test opens the rig before set_up. */
struct scene {
	struct gated gated; /* sim: only between attach and detach */
	struct rig *rig;
	struct qbrt_model *model;
	struct qbrt_pinned_memory *mem;
	struct qbrt_future *future, *writer;
	atomic_uint num_calls;
	bool is_submitted; /* what fails from now on is not the submit */
	uint8_t from[64], to[64];
	int fd;
};

struct scenario {
	const char *name;
	void (*set_up)(struct scene *scene);
	/* Once with the fault, and again without it if it failed. */
	enum qbrt_status (*run)(struct scene *scene);
	void (*tear_down)(struct scene *scene);
	bool bears_allocations;    /* what fails there is not its caller's */
	bool bears_requests;       /* likewise */
	bool has_queue;            /* that can be shared */
	unsigned long borne;       /* one request whose failure is not */
	bool waits_twice;          /* two threads at once: one word is enough */
	enum qbrt_status of_lost;  /* of a lost result; 0: the plain one */
	enum qbrt_status of_no_bo; /* of ENOMEM at BO_CREATE; 0: likewise */
};

const struct scenario *get_scenario(size_t index);
size_t count_scenarios(void);

/* What calls and jobs count while they last. */
struct counts {
	unsigned int users, model_references; /* of the rig's model */
	uint64_t free_slots;
	unsigned int slot_users, slot_queued, num_waiting, num_jobs;
	size_t num_sets_out;
	unsigned int num_queues, queue_users, queue_jobs;
	unsigned int launches;
	unsigned int uses[2], references[2]; /* of its two buffers */
};

struct counts get_counts(const struct rig *rig);
void expect_same_counts(const struct counts *counts,
			const struct counts *expected, const char *when);

/*
 * Nothing is in flight or held, and the model can be disposed and launched
 * at once.
 */
void expect_rest(const struct rig *rig);

/* The driver has no more than the library knows; the watch began at before. */
void expect_no_lost_queue(const struct rig *rig, const struct counts *before);

/* As rig_close; before it closes the device, no memory is left there. */
void close_empty(struct rig *rig);

/* The retirement thread has let go of the rig's jobs. */
void await_retirement(const struct rig *rig);

#endif
