/* SPDX-License-Identifier: MIT */
/*
 * The function that a program may set to be asked, while a call of its waits,
 * whether to go on (qbrt_set_interrupt_function). Who waits cuts its sleep
 * into slices while one is set, and asks after each; without one nothing is
 * asked and no slice is cut.
 */
#ifndef QBRT_INTERRUPT_H
#define QBRT_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

extern atomic_bool qbrt_interrupt_is_on; /* a function is set */

/* With a function: the absolute deadline, and no more than a slice from now. */
int64_t qbrt_interrupt_cut(int64_t deadline_ns);

/* Until when to sleep at most. */
static inline int64_t qbrt_interrupt_slice(int64_t deadline_ns)
{
	return atomic_load_explicit(&qbrt_interrupt_is_on, memory_order_relaxed)
		       ? qbrt_interrupt_cut(deadline_ns)
		       : deadline_ns;
}

/* true: stop waiting. Called under no lock of ours. */
bool qbrt_interrupt_ask(void);

/*
 * This thread is inside the function: the call that asked stands behind it, and
 * what that call has taken is not given back while it waits.
 */
bool qbrt_interrupt_is_asking(void);

#endif
