/* SPDX-License-Identifier: MIT */
/*
 * What outlives a request: open devices and files by number, mappings by
 * address. Part of soft.c; the registry lock is inside.
 */
#ifndef QBNPU_SOFT_REGISTRY_H
#define QBNPU_SOFT_REGISTRY_H

#include <stddef.h>

#include "soft/soft.h"

/* Writes "soft:<number>". path: at least 16 bytes. */
void qbnpu_soft_format_path(char *path, unsigned int number);

/*
 * The open file of this number, or NULL: closed, never opened, or opened by
 * the process that forked this one. No lock, no system call.
 */
struct qbnpu_soft_file *qbnpu_soft_registry_get_file(int number);

/* The same, and the number is free again. */
struct qbnpu_soft_file *qbnpu_soft_registry_remove_file(int number);

/*
 * Gives file its device, which is opened with these options if it is not yet,
 * and its number. Errors as op open's.
 */
int qbnpu_soft_registry_open(const struct qbrt_kmd_options *options, int node,
			     struct qbnpu_soft_file *file, int *number);

/* One file of the device less; the last one closes it. */
void qbnpu_soft_registry_close_device(struct qbnpu_soft_device *device);

/* Op munmap: also after file was closed, which its mappings outlive. */
int qbnpu_soft_registry_munmap(int number, void *address, size_t length);

#endif
