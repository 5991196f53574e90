/* SPDX-License-Identifier: MIT */
/*
 * The tests of validate, in the order in which they run. Each proves one
 * thing on the open device by the public API alone, gives back what it took,
 * and returns whether it passed; its last word is that of one of the functions
 * below. The first failure of a test counts: what follows it is not done.
 */
#ifndef QBINFO_VALIDATE_H
#define QBINFO_VALIDATE_H

#include <qbruntime/qbrt.h>

#include "inventory.h"
#include "qbm-writer.h"

#define VALIDATE_MAX_FDS 1024
#define VALIDATE_NO_FDS SIZE_MAX    /* /proc does not tell them */
#define VALIDATE_UNKNOWN UINT64_MAX /* nor bytes */

struct validate {
	const struct record *device;  /* as the inventory has it */
	struct qbrt_accelerator *acc; /* NULL after accounting */
	const char *folder; /* of the library's data; NULL: not found */
	struct record *test;
	uint64_t repeat;
	bool is_software;
	bool is_destructive;
	/* before the device was opened */
	int fds[VALIDATE_MAX_FDS];
	size_t num_fds; /* of all, also of those without room */
	uint64_t locked;
	uint64_t free; /* bytes of the device, before the first test */
};

/* ---- cmd-validate.c: each but validate_ok is false ---- */

bool validate_ok(struct validate *validate, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool validate_fail(struct validate *validate, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool validate_skip(struct validate *validate, enum reason reason,
		   const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Whether a call did what; else the test has failed by its status. */
bool validate_try(struct validate *validate, const char *what,
		  enum qbrt_status status);
/* Whether a call was refused with that status. */
bool validate_refused(struct validate *validate, const char *what,
		      enum qbrt_status wanted, enum qbrt_status status);

/* ---- validate-device.c ---- */

/* That counter of the device; 0 if it does not count that. */
uint64_t validate_count(const struct validate *validate, const char *name);
int64_t validate_now(void); /* ns, CLOCK_MONOTONIC */
uint64_t validate_get_free(const struct validate *validate);

/* ---- validate-memory.c ---- */

/* Bytes of this process that are locked or in huge pages. */
uint64_t validate_get_locked(void);
/* Whether buffers of num bytes fit into what may be locked, some at once. */
bool validate_has_room(const struct validate *validate, uint64_t num);

/* ---- validate-job.c ---- */

/* A launched model and the pinned memory of its inputs and outputs. */
struct validate_job {
	struct qbrt_model *model;
	struct qbrt_pinned_memory *inputs[QBM_MAX_TENSORS];
	struct qbrt_pinned_memory *outputs[QBM_MAX_TENSORS];
	size_t num_inputs, num_outputs;
};

bool validate_launch(struct validate *validate, struct qbm_writer *writer,
		     struct validate_job *job);
/* Submits, waits, and has the outputs written. */
enum qbrt_status validate_infer(struct validate_job *job, int64_t timeout,
				uint32_t flags);
void validate_dispose(struct validate_job *job);
/* num bytes from the input to the output. */
void validate_write_copy(struct qbm_writer *writer, uint32_t num);
/* Bytes of a pattern that no other seed gives. */
void validate_fill(void *data, size_t num, uint32_t seed);
bool validate_has_pattern(const void *data, size_t num, uint32_t seed);

/* ---- validate-child.c ---- */

/*
 * Runs function in a child, which opens the device itself and gives nothing
 * back. Where it fails there, the test has failed here with its words.
 */
typedef bool (*validate_function)(struct validate *validate, const void *arg);
bool validate_in_child(struct validate *validate, validate_function function,
		       const void *arg);
enum qbrt_status validate_open_device(struct validate *validate);

/* ---- the tests ---- */

/* validate-device.c */
bool validate_open(struct validate *validate);
bool validate_accounting(struct validate *validate);
void validate_start_accounting(struct validate *validate);
/* validate-memory.c */
bool validate_alloc(struct validate *validate);
bool validate_index(struct validate *validate);
/* validate-job.c */
bool validate_loopback(struct validate *validate);
bool validate_noop(struct validate *validate);
/* validate-order.c */
bool validate_order(struct validate *validate);
bool validate_fence(struct validate *validate);
/* validate-child.c */
bool validate_export(struct validate *validate);
/* validate-fault.c */
bool validate_fault(struct validate *validate);
bool validate_reset(struct validate *validate);
/* validate-model.c */
bool validate_repeat(struct validate *validate);
bool validate_digits(struct validate *validate);
/* validate-ops.c */
bool validate_ops(struct validate *validate);

#endif
