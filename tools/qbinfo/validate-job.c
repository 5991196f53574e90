// SPDX-License-Identifier: MIT
/* What tests that run jobs share; loopback and noop. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "print.h"
#include "validate.h"

/* ---- shared ---- */

static bool load(struct validate *validate, const struct qbm_writer *writer,
		 struct validate_job *job)
{
	int fd = qbm_finish(writer);
	enum qbrt_status status;

	if (fd < 0)
		return validate_fail(validate, "no memory for a model: %s",
				     strerror(-fd));
	status = qbrt_model_load_fd(fd, NULL, &job->model);
	(void)close(fd);
	return validate_try(validate, "loading a model", status) &&
	       validate_try(validate, "launching a model",
			    qbrt_model_launch(job->model, validate->acc));
}

bool validate_launch(struct validate *validate, struct qbm_writer *writer,
		     struct validate_job *job)
{
	memset(job, 0, sizeof(*job));
	job->num_inputs = writer->num_inputs;
	job->num_outputs = writer->num_tensors - writer->num_inputs;
	if (!load(validate, writer, job))
		return false;
	for (size_t i = 0; i < job->num_inputs; i++) {
		if (!validate_try(validate, "allocating an input",
				  qbrt_model_alloc_input(job->model, i,
							 &job->inputs[i])))
			return false;
	}
	for (size_t i = 0; i < job->num_outputs; i++) {
		if (!validate_try(validate, "allocating an output",
				  qbrt_model_alloc_output(job->model, i,
							  &job->outputs[i])))
			return false;
	}
	return true;
}

enum qbrt_status validate_infer(struct validate_job *job, int64_t timeout,
				uint32_t flags)
{
	const struct qbrt_infer_options options = {
		.size = sizeof(options),
		.timeout = timeout,
		.flags = flags,
	};

	return qbrt_model_infer_pinned_memory(job->model, &options, job->inputs,
					      job->num_inputs, job->outputs,
					      job->num_outputs);
}

void validate_dispose(struct validate_job *job)
{
	for (size_t i = 0; i < job->num_inputs; i++)
		qbrt_pinned_memory_free(job->inputs[i]);
	for (size_t i = 0; i < job->num_outputs; i++)
		qbrt_pinned_memory_free(job->outputs[i]);
	qbrt_model_free(job->model);
	memset(job, 0, sizeof(*job));
}

void validate_write_copy(struct qbm_writer *writer, uint32_t num)
{
	uint16_t operands[2];

	qbm_begin(writer);
	operands[0] = qbm_add_input(writer, QBNPU_DTYPE_U8, QBM_DIMS(num));
	operands[1] = qbm_add_output(writer, QBNPU_DTYPE_U8, QBM_DIMS(num));
	(void)qbm_add_command(writer, QBNPU_OP_COPY,
			      sizeof(struct qbnpu_cmd_copy), operands, 2);
}

static unsigned char get_byte(size_t i, uint32_t seed)
{
	return (unsigned char)(((uint32_t)i * 2654435761u + seed * 40503u) >>
			       13);
}

void validate_fill(void *data, size_t num, uint32_t seed)
{
	unsigned char *bytes = data;

	for (size_t i = 0; i < num; i++)
		bytes[i] = get_byte(i, seed);
}

bool validate_has_pattern(const void *data, size_t num, uint32_t seed)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < num; i++) {
		if (bytes[i] != get_byte(i, seed))
			return false;
	}
	return true;
}

/* ---- loopback ---- */

#define LOOPBACK_SIZE (1u << 20)
#define SHORT_SIZE 4096u /* where little memory may be locked */

static uint32_t get_crc(const struct qbrt_pinned_memory *mem)
{
	return (uint32_t)crc32_z(0, qbrt_pinned_memory_get_data(mem),
				 qbrt_pinned_memory_get_nbytes(mem));
}

/* One way: from the input to the output, which then becomes the input. */
static bool copy_once(struct validate *validate, struct validate_job *job,
		      uint32_t crc)
{
	struct qbrt_pinned_memory *input = job->inputs[0];

	memset(qbrt_pinned_memory_get_data(job->outputs[0]), 0,
	       qbrt_pinned_memory_get_nbytes(job->outputs[0]));
	if (!validate_try(validate, "a copy", validate_infer(job, 0, 0)))
		return false;
	if (get_crc(job->outputs[0]) != crc)
		return validate_fail(validate,
				     "CRC-32 %08x was expected of what came "
				     "back, but it is %08x",
				     crc, get_crc(job->outputs[0]));
	job->inputs[0] = job->outputs[0];
	job->outputs[0] = input;
	return true;
}

static bool check_copied(struct validate *validate,
			 const struct validate_job *job)
{
	struct qbrt_model_counters counters = { .size = sizeof(counters) };
	size_t size = qbrt_pinned_memory_get_nbytes(job->inputs[0]);

	qbrt_model_get_counters(job->model, &counters);
	if (counters.completed != 2 || counters.output_nbytes != 2 * size)
		return validate_fail(
			validate,
			"2 jobs of %zu bytes were done, but the model counts "
			"%llu jobs and %llu bytes",
			size, (unsigned long long)counters.completed,
			(unsigned long long)counters.output_nbytes);
	if (counters.copied_nbytes)
		return validate_fail(
			validate, "the host copied %llu bytes, not 0",
			(unsigned long long)counters.copied_nbytes);
	return validate_ok(validate, "%s both ways, 0 bytes copied",
			   print_amount(size, UNIT_BYTES));
}

bool validate_loopback(struct validate *validate)
{
	struct qbm_writer writer;
	struct validate_job job;
	uint32_t crc, size = validate_has_room(validate, LOOPBACK_SIZE)
				     ? LOOPBACK_SIZE
				     : SHORT_SIZE;
	bool is_good;

	validate_write_copy(&writer, size);
	is_good = validate_launch(validate, &writer, &job);
	if (is_good) {
		validate_fill(qbrt_pinned_memory_get_data(job.inputs[0]), size,
			      1);
		crc = get_crc(job.inputs[0]);
		is_good = copy_once(validate, &job, crc) &&
			  copy_once(validate, &job, crc) &&
			  check_copied(validate, &job);
	}
	validate_dispose(&job);
	return is_good;
}

/* ---- noop ---- */

#define NUM_NOOPS 1000

static int compare_times(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The median of many, and how many a second. */
static bool measure(struct validate *validate, struct validate_job *job,
		    uint32_t flags, const char **text)
{
	int64_t times[NUM_NOOPS], total = 0;

	for (size_t i = 0; i < NUM_NOOPS; i++) {
		int64_t start = validate_now();

		if (!validate_try(validate, "a NOP program",
				  validate_infer(job, 0, flags)))
			return false;
		times[i] = validate_now() - start;
		total += times[i];
	}
	qsort(times, NUM_NOOPS, sizeof(*times), compare_times);
	*text = inventory_format(
		"p50 %s, %s/s",
		print_amount((uint64_t)times[NUM_NOOPS / 2], UNIT_NS),
		print_amount((uint64_t)(NUM_NOOPS * 1e9 / (double)(total + 1)),
			     UNIT_COUNT));
	return true;
}

bool validate_noop(struct validate *validate)
{
	const char *blocking = "", *polling = "";
	struct qbm_writer writer;
	struct validate_job job;
	bool is_good;

	/* every output must be written, so it copies a line, too */
	validate_write_copy(&writer, 64);
	(void)qbm_add_command(&writer, QBNPU_OP_NOP,
			      sizeof(struct qbnpu_cmd_nop), NULL, 0);
	is_good = validate_launch(validate, &writer, &job) &&
		  measure(validate, &job, QBRT_INFER_BLOCKING, &blocking) &&
		  measure(validate, &job, 0, &polling) &&
		  validate_ok(validate, "blocking %s; polling %s", blocking,
			      polling);
	validate_dispose(&job);
	return is_good;
}
