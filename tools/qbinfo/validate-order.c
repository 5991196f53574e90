// SPDX-License-Identifier: MIT
/* order: jobs that read what others write; fence: descriptors of jobs. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "validate.h"

/* ---- order ---- */

#define NUM_GRAPHS 10000
#define NUM_JOBS 8
#define NUM_SOURCES 2
#define NUM_VALUES 16 /* a cache line: buffers are at multiples of it */
#define NUM_BUFFERS (NUM_SOURCES + NUM_JOBS)

/* Job i writes buffer NUM_SOURCES + i, from two of those before it. */
struct graph {
	struct validate_job job;
	struct qbrt_pinned_memory *buffers[NUM_BUFFERS];
	int32_t wanted[NUM_BUFFERS][NUM_VALUES];
	struct qbrt_future *futures[NUM_JOBS];
	uint32_t random;
};

static uint32_t draw(struct graph *graph)
{
	graph->random ^= graph->random << 13;
	graph->random ^= graph->random >> 17;
	graph->random ^= graph->random << 5;
	return graph->random;
}

/* a - b: neither order of the operands nor of the jobs is indifferent. */
static bool start_graphs(struct validate *validate, struct graph *graph)
{
	struct qbm_writer writer;
	struct qbnpu_cmd_binary *binary;
	const int64_t shape = NUM_VALUES;
	uint16_t operands[3];

	graph->random = 2463534242u;
	qbm_begin(&writer);
	operands[0] =
		qbm_add_input(&writer, QBNPU_DTYPE_I32, QBM_DIMS(NUM_VALUES));
	operands[1] =
		qbm_add_input(&writer, QBNPU_DTYPE_I32, QBM_DIMS(NUM_VALUES));
	operands[2] =
		qbm_add_output(&writer, QBNPU_DTYPE_I32, QBM_DIMS(NUM_VALUES));
	binary = qbm_add_command(&writer, QBNPU_OP_BINARY, sizeof(*binary),
				 operands, 3);
	binary->fn = QBNPU_BINARY_SUB;
	if (!validate_launch(validate, &writer, &graph->job))
		return false;
	for (size_t i = 0; i < NUM_BUFFERS; i++) {
		if (!validate_try(validate, "allocating a buffer",
				  qbrt_pinned_memory_alloc(
					  validate->acc, QBRT_DTYPE_INT32,
					  &shape, 1, NULL, &graph->buffers[i])))
			return false;
	}
	return true;
}

static void write_sources(struct graph *graph)
{
	for (size_t i = 0; i < NUM_SOURCES; i++) {
		for (size_t j = 0; j < NUM_VALUES; j++)
			graph->wanted[i][j] = (int32_t)draw(graph);
		memcpy(qbrt_pinned_memory_get_data(graph->buffers[i]),
		       graph->wanted[i], sizeof(graph->wanted[i]));
	}
}

static bool submit_graph(struct validate *validate, struct graph *graph)
{
	for (size_t i = 0; i < NUM_JOBS; i++) {
		size_t out = NUM_SOURCES + i;
		size_t a = draw(graph) % out, b = draw(graph) % out;
		struct qbrt_pinned_memory *inputs[2] = { graph->buffers[a],
							 graph->buffers[b] };

		for (size_t j = 0; j < NUM_VALUES; j++)
			graph->wanted[out][j] =
				(int32_t)((uint32_t)graph->wanted[a][j] -
					  (uint32_t)graph->wanted[b][j]);
		if (!validate_try(validate, "queueing a job",
				  qbrt_model_submit_pinned_memory(
					  graph->job.model, NULL, inputs, 2,
					  &graph->buffers[out], 1,
					  &graph->futures[i])))
			return false;
	}
	return true;
}

static bool finish_graph(struct validate *validate, struct graph *graph,
			 size_t number)
{
	for (size_t i = 0; i < NUM_JOBS; i++) {
		const struct qbrt_pinned_memory *out =
			graph->buffers[NUM_SOURCES + i];

		if (!validate_try(validate, "the result of a job",
				  qbrt_future_query_result(graph->futures[i],
							   NULL, 0)))
			return false;
		qbrt_future_free(graph->futures[i]);
		graph->futures[i] = NULL;
		if (memcmp(qbrt_pinned_memory_get_data(out),
			   graph->wanted[NUM_SOURCES + i],
			   sizeof(graph->wanted[0])) != 0)
			return validate_fail(validate,
					     "job %zu of graph %zu did not see "
					     "what the jobs before it wrote",
					     i, number);
	}
	return true;
}

/* Each job sees what those before it wrote, in whatever queue they are. */
bool validate_order(struct validate *validate)
{
	struct graph graph = { .random = 0 };
	bool is_good = start_graphs(validate, &graph);

	for (size_t i = 0; i < NUM_GRAPHS && is_good; i++) {
		write_sources(&graph);
		is_good = submit_graph(validate, &graph) &&
			  finish_graph(validate, &graph, i);
	}
	for (size_t i = 0; i < NUM_JOBS; i++)
		qbrt_future_free(graph.futures[i]);
	for (size_t i = 0; i < NUM_BUFFERS; i++)
		qbrt_pinned_memory_free(graph.buffers[i]);
	validate_dispose(&graph.job);
	return is_good &&
	       validate_ok(validate, "%d random graphs of %d jobs in order",
			   NUM_GRAPHS, NUM_JOBS);
}

/* ---- fence ---- */

#define NUM_FENCES 64

struct fence {
	struct validate_job *job;
	struct qbrt_future *future;
	int fd;
};

/* What the device does not offer may be refused, and nothing else. */
static bool export_fence(struct validate *validate, struct fence *fence)
{
	const struct value *told =
		record_see(validate->device, FIELD_FENCE_EVENTFD);
	enum qbrt_status status =
		qbrt_future_export_fd(fence->future, &fence->fd);

	if (status == QBRT_NOT_IMPLEMENTED && told->is_set && !told->boolean)
		return validate_skip(validate, REASON_NOT_SUPPORTED,
				     "the driver gives no eventfd");
	return validate_try(validate, "the descriptor of a job", status);
}

/* One that is readable says that the job has ended, and that it can be read. */
static bool wait_fence(struct validate *validate, struct fence *fence)
{
	struct pollfd entry = { .fd = fence->fd, .events = POLLIN };
	bool is_done;
	int num;

	do {
		num = poll(&entry, 1, -1);
	} while (num < 0 && errno == EINTR);
	if (num != 1 || entry.revents != POLLIN)
		return validate_fail(validate,
				     "poll says %x of a descriptor, not %x",
				     (unsigned int)entry.revents, POLLIN);
	if (!validate_try(validate, "asking whether a job has ended",
			  qbrt_future_query(fence->future, &is_done)))
		return false;
	if (!is_done)
		return validate_fail(validate, "a descriptor is readable, but "
					       "its job has not ended");
	return validate_try(validate, "the result of a job",
			    qbrt_future_query_result(fence->future, NULL, 0));
}

static bool try_fence(struct validate *validate, struct fence *fence)
{
	bool is_good;

	fence->future = NULL;
	fence->fd = -1;
	is_good = validate_try(
			  validate, "queueing a job",
			  qbrt_model_submit_pinned_memory(
				  fence->job->model, NULL, fence->job->inputs,
				  1, fence->job->outputs, 1, &fence->future)) &&
		  export_fence(validate, fence) && wait_fence(validate, fence);
	qbrt_future_free(fence->future);
	if (fence->fd >= 0)
		(void)close(fence->fd);
	return is_good;
}

bool validate_fence(struct validate *validate)
{
	const struct value *sync_file =
		record_see(validate->device, FIELD_SYNC_FILE);
	struct qbm_writer writer;
	struct validate_job job;
	struct fence fence = { .job = &job };
	bool is_good;

	validate_write_copy(&writer, 4096);
	is_good = validate_launch(validate, &writer, &job);
	for (size_t i = 0; i < NUM_FENCES && is_good; i++)
		is_good = try_fence(validate, &fence);
	validate_dispose(&job);
	return is_good &&
	       validate_ok(validate, "eventfd of %d jobs; %s", NUM_FENCES,
			   sync_file->is_set && sync_file->boolean
				   ? "no call gives a sync_file yet"
				   : "sync_file is not offered");
}
