/* SPDX-License-Identifier: MIT */
/*
 * The parts of check-model: launching, configurations, and what a model tells
 * about itself.
 */
#ifndef TESTS_CHECK_MODEL_H
#define TESTS_CHECK_MODEL_H

#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "test-util.h"

/* Each adds the tests of its part. */
void add_model_launch_tests(struct qbrt_tests *all);
void add_model_info_tests(struct qbrt_tests *all);
void add_model_cores_tests(struct qbrt_tests *all);
void add_model_modes_tests(struct qbrt_tests *all);
void add_model_query_tests(struct qbrt_tests *all);
void add_model_summary_tests(struct qbrt_tests *all);

#define GOLDEN_MODEL TEST_SRCDIR "/data/golden/copy64.qbm"

/* A device of its own kind by QBRUNTIME_SOFT_DEVICES; NULL: the default. */
struct qbrt_accelerator *open_device(const char *soft_devices, int number);

/* Bytes of device memory that are free now. */
uint64_t get_memory_free(const struct qbrt_accelerator *acc);

/* The defaults. */
struct qbrt_model_config *alloc_model_config(void);

/*
 * A load of copy64 with a page of scratch, compiled for these modes; mode_mask
 * 0: Single alone. slots: the file's bound.
 */
#define MODE_BIT(name) (1u << QBRT_CORE_MODE_##name)
enum qbrt_status try_load_modes(uint32_t mode_mask, uint32_t slots,
				const struct qbrt_model_config *config,
				struct qbrt_model **model);
struct qbrt_model *load_modes(uint32_t mode_mask,
			      const struct qbrt_model_config *config);

/* With weights, of u8[64] each. */
struct qbrt_model *load_two_variants(void);

/* Target cores as the driver numbers them; global cores are bits 32 and 33. */
#define ALL_CORES UINT64_C(0x0f0f)
uint64_t get_target_mask(const struct qbrt_model *model);

/* One inference of a model with one u8[64] input and output: the bytes agree. */
void check_copies(struct qbrt_model *model);

#endif
