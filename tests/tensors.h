/* SPDX-License-Identifier: MIT */
/* Tensors of 2 x 3 floats, of ours and of others, and how they are exported. */
#ifndef TESTS_TENSORS_H
#define TESTS_TENSORS_H

#include <stdatomic.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "dlpack-abi.h"

struct qbrt_bridge_stats get_stats(void);

/* Of an accelerator that is closed again; holds 0, 1, ... */
struct qbrt_pinned_memory *alloc_memory(void);
struct qbrt_tensor *make_tensor(struct qbrt_pinned_memory *mem, uint32_t flags);

DLManagedTensorVersioned *export_versioned(const struct qbrt_tensor *tensor,
					   enum qbrt_copy_mode copy);

/* data: released by being counted. strides: bytes; NULL: C order. */
struct qbrt_tensor *import_floats(float *data, const int64_t *strides,
				  uint32_t flags);
extern atomic_int num_released;
void count_release(void *arg);

#endif
