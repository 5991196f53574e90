/* SPDX-License-Identifier: MIT */
/* Host arrays of a call. */
#ifndef QBPY_ARRAYS_H
#define QBPY_ARRAYS_H

#include "module.h"

/* What keeps the bytes of one: a buffer, or pinned memory by a use. */
struct qbpy_hold {
	Py_buffer view;             /* obj NULL: none */
	struct qbpy_native *native; /* NULL: none */
	int num_accesses;           /* of an output, open now; 0: a use alone */
	bool is_invalid;            /* what an output has */
};
struct qbpy_arrays {
	size_t num;
	struct qbrt_array *arrays;
	struct qbpy_hold *holds; /* one for each */
};
/*
 * One array or a list or tuple of them (Q300, Q301); nothing is held on
 * failure. name: of the argument.
 */
int qbpy_take_arrays(struct qbpy_state *state, PyObject *object,
		     const char *name, struct qbpy_arrays *arrays);
/*
 * What a call is to write (Q326, Q328): with a ValueError for what is
 * read-only, a TypeError for what may be copied on the way.
 */
int qbpy_take_outputs(struct qbpy_state *state, PyObject *list,
		      struct qbpy_arrays *arrays);
/* Of an output that has some: a use alone keeps it from now on. */
void qbpy_leave_accesses(struct qbpy_hold *hold);
void qbpy_release_arrays(struct qbpy_arrays *arrays);
/*
 * A new ndarray, writable, in C order, aligned to 64 bytes and not cleared
 * (Q329); data: where its bytes are.
 */
PyObject *qbpy_new_array(struct qbpy_state *state, enum qbrt_dtype dtype,
			 const int64_t *shape, size_t ndim, void **data);

#endif
