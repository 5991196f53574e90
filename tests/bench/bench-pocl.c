// SPDX-License-Identifier: MIT
/*
 * PoCL beside us, as it is packaged: an empty kernel of one work item on
 * its CPU device, and an empty program on ours, in the same run. Neither is
 * pinned, since PoCL places its threads itself.
 */
#define CL_TARGET_OPENCL_VERSION 220

#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>

#include "subject.h"
#include "util.h"

#define PLATFORM "Portable Computing Language"
#define MAX_PLATFORMS 8
/* jobs before a wait for all of them */
#define DEPTH 256

struct peer {
	cl_context context;
	cl_command_queue queue;
	cl_program program;
	cl_kernel kernel;
	cl_mem out;
};

static char pocl_version[64];

static bool find_device(cl_device_id *device)
{
	cl_platform_id platforms[MAX_PLATFORMS];
	cl_uint num = 0;

	if (clGetPlatformIDs(MAX_PLATFORMS, platforms, &num))
		return false;
	for (cl_uint i = 0; i < num && i < MAX_PLATFORMS; i++) {
		char name[64] = "";

		if (!clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME,
				       sizeof(name), name, NULL) &&
		    !strcmp(name, PLATFORM) &&
		    !clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, device,
				    NULL))
			return !clGetDeviceInfo(*device, CL_DRIVER_VERSION,
						sizeof(pocl_version),
						pocl_version, NULL);
	}
	return false;
}

static bool make_kernel(struct peer *peer, cl_device_id device)
{
	const char *source = "kernel void nop(global uchar *out) { }";
	cl_int err;

	peer->context = clCreateContext(NULL, 1, &device, NULL, NULL, &err);
	if (err)
		return false;
	peer->queue = clCreateCommandQueueWithProperties(peer->context, device,
							 NULL, &err);
	if (err)
		return false;
	peer->program = clCreateProgramWithSource(peer->context, 1, &source,
						  NULL, &err);
	if (err || clBuildProgram(peer->program, 1, &device, "", NULL, NULL))
		return false;
	peer->kernel = clCreateKernel(peer->program, "nop", &err);
	if (err)
		return false;
	peer->out = clCreateBuffer(peer->context, CL_MEM_READ_WRITE, 64, NULL,
				   &err);
	return !err && !clSetKernelArg(peer->kernel, 0, sizeof(peer->out),
				       (const void *)&peer->out);
}

static void close_peer(void *state)
{
	struct peer *peer = state;

	if (peer->out)
		(void)clReleaseMemObject(peer->out);
	if (peer->kernel)
		(void)clReleaseKernel(peer->kernel);
	if (peer->program)
		(void)clReleaseProgram(peer->program);
	if (peer->queue)
		(void)clReleaseCommandQueue(peer->queue);
	if (peer->context)
		(void)clReleaseContext(peer->context);
	free(peer);
}

static void *open_peer(const struct bench_case *bench_case)
{
	struct peer *peer = calloc(1, sizeof(*peer));
	cl_device_id device;

	(void)bench_case;
	if (!peer)
		return NULL;
	if (!find_device(&device)) {
		bench_set_reason("PoCL is not here: scripts/setup --bench");
		free(peer);
		return NULL;
	}
	if (make_kernel(peer, device))
		return peer;
	bench_set_reason("PoCL does not build an empty kernel");
	close_peer(peer);
	return NULL;
}

static bool enqueue(const struct peer *peer)
{
	const size_t one = 1;

	return !clEnqueueNDRangeKernel(peer->queue, peer->kernel, 1, NULL, &one,
				       &one, 0, NULL, NULL);
}

static int64_t run_finish(void *state, uint32_t num)
{
	const struct peer *peer = state;
	int64_t begin = bench_now_ns();

	while (num--)
		if (!enqueue(peer) || clFinish(peer->queue))
			return -1;
	return bench_now_ns() - begin;
}

static int64_t run_enqueue(void *state, uint32_t num)
{
	const struct peer *peer = state;
	int64_t sum = 0;

	for (uint32_t i = 0; i < num; i++) {
		int64_t begin = bench_now_ns();

		if (!enqueue(peer))
			return -1;
		sum += bench_now_ns() - begin;
		if (i % DEPTH == DEPTH - 1 && clFinish(peer->queue))
			return -1;
	}
	return clFinish(peer->queue) ? -1 : sum;
}

static int64_t run_rate(void *state, uint32_t num)
{
	const struct peer *peer = state;
	int64_t begin = bench_now_ns();

	for (uint32_t i = 0; i < num * DEPTH; i++)
		if (!enqueue(peer))
			return -1;
	if (clFinish(peer->queue))
		return -1;
	return (bench_now_ns() - begin) / DEPTH;
}

static const struct bench_probe pocl_finish = {
	.name = "PoCL enqueue and finish",
	.version = pocl_version,
	.open = open_peer,
	.run = run_finish,
	.close = close_peer,
};

static const struct bench_probe pocl_enqueue = {
	.name = "PoCL enqueue",
	.version = pocl_version,
	.open = open_peer,
	.run = run_enqueue,
	.close = close_peer,
};

static const struct bench_probe pocl_rate = {
	.name = "PoCL, queue full",
	.version = pocl_version,
	.open = open_peer,
	.run = run_rate,
	.close = close_peer,
};

int main(int argc, char **argv)
{
	const struct bench_metric metrics[] = {
		{ .name = "infer.blocking, PoCL",
		  .row = "P22",
		  .placements = BENCH_FREE,
		  .subject = &probe_blocking,
		  .floor = &pocl_finish,
		  .factor = 1.0 / 3,
		  .target = "PoCL >= 3 times slower" },
		{ .name = "submit.nowake, PoCL",
		  .row = "P23",
		  .placements = BENCH_FREE,
		  .subject = &probe_submit,
		  .floor = &pocl_enqueue,
		  .factor = 1,
		  .target = "<= PoCL's enqueue" },
		{ .name = "rate.pipelined, PoCL",
		  .row = "P25",
		  .placements = BENCH_FREE,
		  .subject = &probe_pipelined,
		  .floor = &pocl_rate,
		  .factor = 1,
		  .target = ">= PoCL's rate" },
	};

	subject_setup();
	return bench_main(argc, argv, metrics, qbrt_array_size(metrics));
}
