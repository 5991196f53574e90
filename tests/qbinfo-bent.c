// SPDX-License-Identifier: MIT
/*
 * qbinfo above a library that lies: the tool's objects, with some of the calls
 * that they make bent, one kind at a time, by the word in QBRUNTIME_TEST_BEND. What
 * the fault words of a software device cannot do, since none of them has a job
 * succeed with wrong data (docs/spec/qbinfo.md, I61).
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <qbruntime/qbrt.h>

#define DIGITS_NBYTES (10 * sizeof(float))
#define CONV2D_NBYTES (3 * 7 * 3 * sizeof(float))
#define LOOPBACK_NBYTES ((size_t)1 << 20)

#define BEND(type, name, ...) \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

static bool is_bent(const char *word)
{
	const char *bend = getenv("QBRUNTIME_TEST_BEND");

	return bend && !strcmp(bend, word);
}

/* open */
BEND(enum qbrt_status, qbrt_accelerator_query_cores,
     const struct qbrt_accelerator *acc, struct qbrt_core_id *cores,
     size_t max_cores, size_t *num_cores)
{
	enum qbrt_status status = __real_qbrt_accelerator_query_cores(
		acc, cores, max_cores, num_cores);

	*num_cores += is_bent("cores");
	return status;
}

/* alloc */
BEND(enum qbrt_contiguity, qbrt_pinned_memory_get_contiguity,
     const struct qbrt_pinned_memory *mem)
{
	return is_bent("class") ? QBRT_CONTIGUITY_NONE
				: __real_qbrt_pinned_memory_get_contiguity(mem);
}

/* index */
BEND(enum qbrt_status, qbrt_pinned_memory_read_at,
     const struct qbrt_pinned_memory *mem, const int64_t *index, size_t ndim,
     enum qbrt_dtype dtype, void *value)
{
	enum qbrt_status status = __real_qbrt_pinned_memory_read_at(
		mem, index, ndim, dtype, value);

	if (is_bent("element"))
		*(unsigned char *)value ^= 1;
	return status;
}

/* loopback */
BEND(void, qbrt_model_get_counters, const struct qbrt_model *model,
     struct qbrt_model_counters *counters)
{
	__real_qbrt_model_get_counters(model, counters);
	counters->copied_nbytes += is_bent("copied");
}

/*
 * loopback and ops by the size of their outputs; repeat and digits, which have
 * 16 and 100, and then 16 of one size, by the number of the run.
 */
BEND(enum qbrt_status, qbrt_model_infer_pinned_memory, struct qbrt_model *model,
     const struct qbrt_infer_options *options,
     struct qbrt_pinned_memory *const inputs[], size_t num_inputs,
     struct qbrt_pinned_memory *const outputs[], size_t num_outputs)
{
	static unsigned int num_digits;
	enum qbrt_status status = __real_qbrt_model_infer_pinned_memory(
		model, options, inputs, num_inputs, outputs, num_outputs);
	size_t nbytes = qbrt_pinned_memory_get_nbytes(outputs[0]);
	unsigned char *data = qbrt_pinned_memory_get_data(outputs[0]);

	num_digits += nbytes == DIGITS_NBYTES;
	if ((is_bent("loopback") && nbytes == LOOPBACK_NBYTES) ||
	    (is_bent("conv2d") && nbytes == CONV2D_NBYTES) ||
	    (is_bent("repeat") && nbytes == DIGITS_NBYTES && num_digits == 17))
		data[nbytes - 1] ^= 1;
	/* two of its runs say 0 and 1, which is right of neither */
	if (is_bent("digits") && nbytes == DIGITS_NBYTES &&
	    (num_digits == 118 || num_digits == 119)) {
		memset(data, 0, nbytes);
		((float *)(void *)data)[num_digits - 118] = 1.0f;
	}
	return status;
}

/* order: which of the two came first is mistaken */
BEND(enum qbrt_status, qbrt_model_submit_pinned_memory,
     struct qbrt_model *model, const struct qbrt_infer_options *options,
     struct qbrt_pinned_memory *const inputs[], size_t num_inputs,
     struct qbrt_pinned_memory *const outputs[], size_t num_outputs,
     struct qbrt_future **future)
{
	struct qbrt_pinned_memory *const turned[2] = {
		inputs[num_inputs - 1],
		inputs[0],
	};

	return __real_qbrt_model_submit_pinned_memory(
		model, options,
		is_bent("order") && num_inputs == 2 ? turned : inputs,
		num_inputs, outputs, num_outputs, future);
}

/* fence */
BEND(enum qbrt_status, qbrt_future_query, const struct qbrt_future *future,
     bool *done)
{
	enum qbrt_status status = __real_qbrt_future_query(future, done);

	*done = *done && !is_bent("fence");
	return status;
}

/* export */
BEND(enum qbrt_status, qbrt_pinned_memory_import_fd,
     struct qbrt_accelerator *acc, int fd, size_t offset, enum qbrt_dtype dtype,
     const int64_t *shape, size_t ndim, struct qbrt_pinned_memory **mem)
{
	return is_bent("import")
		       ? qbrt_pinned_memory_alloc(acc, dtype, shape, ndim, NULL,
						  mem)
		       : __real_qbrt_pinned_memory_import_fd(
				 acc, fd, offset, dtype, shape, ndim, mem);
}

/* fault; stdin of who holds it is the end of a pipe */
BEND(enum qbrt_status, qbrt_accelerator_query_events,
     const struct qbrt_accelerator *acc, uint64_t first_sequence,
     struct qbrt_device_event *events, size_t max_events, size_t *num_events)
{
	enum qbrt_status status = __real_qbrt_accelerator_query_events(
		acc, first_sequence, events, max_events, num_events);

	if (is_bent("events"))
		*num_events = 0;
	/* a child that does not end */
	if (is_bent("hold")) {
		(void)!write(STDIN_FILENO, "x", 1);
		(void)pause();
	}
	return status;
}

/* accounting */
BEND(void, qbrt_accelerator_close, struct qbrt_accelerator *acc)
{
	if (is_bent("descriptor"))
		(void)!dup(STDERR_FILENO);
	__real_qbrt_accelerator_close(acc);
}
