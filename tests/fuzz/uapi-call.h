/* SPDX-License-Identifier: MIT */
/*
 * Requests made of 16 bytes each: a right one, in which any field may then be
 * changed. What would make the target itself unsafe is put right again: a
 * pointer leads into memory that the caller gave for it, or to none; waits end
 * soon; memory is asked for in small pieces, or in far too large ones.
 */
#ifndef TESTS_FUZZ_UAPI_CALL_H
#define TESTS_FUZZ_UAPI_CALL_H

#include <stddef.h>
#include <stdint.h>

/* A record of the input. */
struct uapi_step {
	uint8_t kind, file;
	uint8_t a, b, c, d; /* handles, flags: each request's own */
	uint8_t mutate_at;  /* where; beyond the struct: its size */
	uint8_t mutate_how; /* 0: not at all */
	uint64_t value;     /* of the mutation, and more of the request's */
};

#define UAPI_ARENA_SIZE 65536u
#define UAPI_STACK_SIZE 49152u

/* Memory that requests of one thread point to. */
struct uapi_place {
	uint8_t *arena; /* what follows cannot be touched */
	uint8_t *stack; /* on the stack of the thread that calls */
	int fd;         /* for the requests that take one */
	int event_fd;
};

struct uapi_call {
	unsigned long request;
	/* bytes that the uAPI lets a failing request change */
	size_t changed_from, changed_to;
	uint8_t bytes[264] __attribute__((aligned(8)));
};

/* Waits end that much from now. */
#define UAPI_WAIT_NS 50000

/* Programs are built at the first call, which is to be alone. */
void uapi_call_begin(void);

/* A kind has these bits; numbers from here on are no requests. */
#define UAPI_KIND_MASK 31u
extern const uint8_t uapi_num_kinds;

void uapi_call_fill(struct uapi_call *call, const struct uapi_step *step,
		    const struct uapi_place *place);

/* ---- between uapi-call.c and uapi-tame.c ---- */

struct uapi_kind {
	unsigned long request; /* 0: any */
	uint8_t pointers[3];   /* where they are */
	uint8_t num_pointers;
	uint8_t timeout; /* where the time is at which a wait ends, or 0 */
};

/* At an offset in the arena or on the stack, as the step says. */
uint64_t uapi_choose_memory(const struct uapi_step *step,
			    const struct uapi_place *place, size_t offset);

/* A field, the memory that the request points to, or the request's size. */
void uapi_mutate(struct uapi_call *call, const struct uapi_step *step,
		 const struct uapi_place *place);
void uapi_tame(struct uapi_call *call, const struct uapi_kind *kind,
	       const struct uapi_place *place);

#endif
