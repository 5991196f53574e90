/* SPDX-License-Identifier: MIT */
/*
 * The configuration of a model: a checked value that load copies out of, so
 * whoever holds one may change or free it at any time. Its struct lives in
 * model-config.c; what a launch needs beside the public getters is here.
 */
#ifndef QBRT_MODEL_CONFIG_H
#define QBRT_MODEL_CONFIG_H

#include <stdint.h>

#include <qbruntime/qbrt.h>

/* Inferences of one model at once, whatever the configuration or default. */
#define QBRT_MAX_ACTIVATION_SLOTS 64

/*
 * The local cores that it names, bit cluster * 8 + core: those of the list, or
 * the four of each cluster (Q142). 0: it names none.
 */
uint64_t
qbrt_model_config_get_core_mask(const struct qbrt_model_config *config);

#endif
