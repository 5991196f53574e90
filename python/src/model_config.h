/* SPDX-License-Identifier: MIT */
/* A ModelConfig: what the files model_config*.c share. */
#ifndef QBPY_MODEL_CONFIG_H
#define QBPY_MODEL_CONFIG_H

#include "module.h"

/*
 * What a call sets of one, checked on another configuration without the GIL,
 * since the library logs what it rejects.
 */
struct qbpy_change {
	const int *bundle; /* NULL: the core mode and what follows */
	enum qbrt_core_mode core_mode;
	const struct qbrt_core_id *core_ids; /* NULL: a number of cores */
	const enum qbrt_cluster *clusters;
	size_t num; /* of any of those */
	bool has_no_core;
};

/* 1: changed, or could be; 0: rejected, and the library has logged why. */
int qbpy_change_config(struct qbpy_config *self,
		       const struct qbpy_change *change);
int qbpy_check_change(struct qbpy_config *self,
		      const struct qbpy_change *change);

/* model_config_set.c, model_config_old.c: setters, and deprecated ones */
extern PyMethodDef qbpy_config_set_methods[];
extern PyMethodDef qbpy_config_old_methods[];
/* Of fewer than 1 what the library rejects. */
int qbpy_parse_num_cores(PyObject *object, size_t *num_cores);
int qbpy_parse_core_ids(struct qbpy_state *state, PyObject *object,
			struct qbrt_core_id core_ids[QBPY_MAX_CORES],
			size_t *num);
int qbpy_parse_clusters(PyObject *object,
			enum qbrt_cluster clusters[QBPY_MAX_CORES],
			size_t *num);
int qbpy_parse_cluster(PyObject *object, enum qbrt_cluster *cluster);
PyObject *qbpy_set_clusters(PyObject *object, PyObject *args, PyObject *kw,
			    const char *format, enum qbrt_core_mode core_mode);

/* model_config_value.c: repr, ==, copies and pickles */
PyObject *qbpy_config_repr(PyObject *object);
PyObject *qbpy_config_compare(PyObject *object, PyObject *other, int op);
extern PyMethodDef qbpy_config_value_methods[];

#endif
