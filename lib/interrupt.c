// SPDX-License-Identifier: MIT
/*
 * The lock guards the function and its argument as a pair and is not held
 * while the function runs. Whether there is one is read without it.
 */
#include "interrupt.h"

#include <pthread.h>
#include <stdatomic.h>

#include <qbruntime/qbrt.h>

#include "util.h"

#define SLICE_NS (100 * QBRT_NS_PER_MS)

atomic_bool qbrt_interrupt_is_on;
static pthread_mutex_t function_lock = PTHREAD_MUTEX_INITIALIZER;
static qbrt_interrupt_function interrupt_function; /* function_lock */
static void *interrupt_arg;                        /* function_lock */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static _Thread_local unsigned int depth; /* of functions on this thread */

static void lock_function(void)
{
	(void)pthread_mutex_lock(&function_lock);
}

static void unlock_function(void)
{
	(void)pthread_mutex_unlock(&function_lock);
}

/* A child of fork must not inherit the lock from a thread that it lacks. */
static void register_fork(void)
{
	(void)pthread_atfork(lock_function, unlock_function, unlock_function);
}

QBRT_API void qbrt_set_interrupt_function(qbrt_interrupt_function function,
					  void *arg)
{
	(void)pthread_once(&fork_once, register_fork);
	lock_function();
	interrupt_function = function;
	interrupt_arg = arg;
	atomic_store(&qbrt_interrupt_is_on, function != NULL);
	unlock_function();
}

int64_t qbrt_interrupt_cut(int64_t deadline_ns)
{
	int64_t end_ns = qbrt_now_ns() + SLICE_NS;

	return end_ns < deadline_ns ? end_ns : deadline_ns;
}

bool qbrt_interrupt_ask(void)
{
	qbrt_interrupt_function function;
	bool is_to_stop;
	void *arg;

	if (!atomic_load_explicit(&qbrt_interrupt_is_on, memory_order_relaxed))
		return false;
	lock_function();
	function = interrupt_function;
	arg = interrupt_arg;
	unlock_function();
	if (!function)
		return false;
	depth++;
	is_to_stop = function(arg);
	depth--;
	return is_to_stop;
}

bool qbrt_interrupt_is_asking(void)
{
	return depth;
}
