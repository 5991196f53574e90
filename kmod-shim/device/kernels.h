/* SPDX-License-Identifier: MIT */
/*
 * What computes commands: the table that `ref` implements here and the oneDNN
 * plugin implements in a file of its own. A kernel sees a command once, with
 * its tensors resolved, and makes a prepared command of it; afterwards it sees
 * binding bases only. Programs are validated before: a kernel checks which
 * forms it takes, never whether an operand is inside its binding.
 */
#ifndef QBNPU_KERNELS_H
#define QBNPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "isa/bind.h"
#include "isa/isa.h"
#include "npu.h"

#define QBNPU_KERNELS_ABI 1u
#define QBNPU_PLUGIN_FILE "qbnpu-onednn.so"

/* qbnpu_kernels.caps: NC10 holds for full 8-bit ranges on this processor */
#define QBNPU_KERNELS_INT8_EXACT (1ull << 0)

/* Largest scratch that one prepared command may ask for. */
#define QBNPU_KERNELS_MAX_SCRATCH ((size_t)16 << 20)

/*
 * Units of work, about a nanosecond each, between two looks at the clock. A
 * kernel may spend this much more than it has before it has to look.
 */
#define QBNPU_PACE_UNITS 1000000

/* A tensor: everything of its table entry that a kernel needs. */
struct qbnpu_operand {
	uint64_t offset; /* bytes from the base of its binding */
	uint64_t strides[QBNPU_MAX_RANK];
	uint32_t dims[QBNPU_MAX_RANK];
	uint32_t binding;
	uint32_t element_size;
	uint32_t dtype;
	uint32_t rank;
	uint32_t is_constant; /* in WEIGHTS: same bytes in every run */
};

struct qbnpu_prepare {
	const struct qbnpu_cmd *cmd;
	const struct qbnpu_operand *operands; /* by tensor number */
	const uint8_t *weights; /* base of WEIGHTS, or NULL; outlives all */
};

/*
 * The way out of long commands. look() is called when left has run out; it
 * refills left and returns 0, or -ECANCELED when the command is to stop at
 * once, whatever it has written of its destination so far.
 */
struct qbnpu_pace {
	int64_t left;
	int (*look)(struct qbnpu_pace *pace);
};

struct qbnpu_run {
	uint8_t *const *bases; /* by binding number */
	void *scratch;         /* as large as scratch_size() said */
	struct qbnpu_pace *pace;
};

/* Each set of kernels defines its own. */
struct qbnpu_prepared;

struct qbnpu_kernels {
	uint32_t abi;
	uint32_t size;
	const char *name;
	const char *isa;
	uint64_t caps;
	/* 0; -EOPNOTSUPP: does not take this command; -ENOMEM */
	int (*prepare)(const struct qbnpu_prepare *prepare,
		       struct qbnpu_prepared **prepared);
	size_t (*scratch_size)(const struct qbnpu_prepared *prepared);
	/* 0 or what look() returned; any number of threads at once */
	int (*run)(const struct qbnpu_prepared *prepared,
		   const struct qbnpu_run *run);
	void (*free)(struct qbnpu_prepared *prepared);
	void (*thread_enter)(void);
	void (*thread_leave)(void);
};

extern const struct qbnpu_kernels qbnpu_kernels_ref;

/*
 * The kernels of a backend. -EINVAL: no such backend; -ENOENT: its plugin
 * file is not in plugin_dir. 0 with NULL: the file is there and does not
 * load, so that no command has a kernel.
 */
int qbnpu_kernels_select(enum qbnpu_backend backend, const char *plugin_dir,
			 const struct qbnpu_kernels **kernels);

/* Bytes of one element; 0 for an unknown type. */
uint32_t qbnpu_dtype_size(uint32_t dtype);

/* Copies the elements of a checked shape. 0, or what look() returned. */
int qbnpu_copy_run(const struct qbnpu_copy_shape *shape, const void *src,
		   void *dst, struct qbnpu_pace *pace);

/* Memory that is only read, as a base beside those that are written. */
static inline uint8_t *qbnpu_read_base(const void *base)
{
	union {
		const void *read;
		uint8_t *base;
	} both = { .read = base };

	return both.base;
}

/* Takes work off the pace; non-zero: stop, and return this value. */
static inline int qbnpu_pace_spend(struct qbnpu_pace *pace, uint64_t work)
{
	pace->left -= (int64_t)work;
	return pace->left > 0 ? 0 : pace->look(pace);
}

#endif
