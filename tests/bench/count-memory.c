// SPDX-License-Identifier: MIT
/*
 * Memory that is kept, exactly: P64 shortened, P66, and of P63 the objects that
 * there are. Heap is what malloc has given out; device memory is what the
 * device says is free.
 */
#include <dirent.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "count.h"
#include "models.h"
#include "prog.h"
#include "subject.h"
#include "util.h"

#define NUM_OBJECTS 256
#define NUM_THREADS 8
#define WEIGHTS_NBYTES (2u << 20) /* whole pages of any size */
#define NUM_INFERS 10000
#define NUM_LOADS 100
#define NUM_ALLOCS 1000

#define TRY(call) \
	do { \
		if ((call) != QBRT_OK) { \
			fprintf(stderr, "%s\n", qbrt_error_detail()); \
			exit(1); \
		} \
	} while (0)

static bool is_good = true;

static void show(const char *what, const char *row, long value, long limit)
{
	printf("%-34s %s %ld, at most %ld\n", what, row, value, limit);
	is_good = is_good && value <= limit;
}

static long count_entries(const char *path)
{
	DIR *dir = opendir(path);
	long num = 0;

	while (dir && readdir(dir))
		num++;
	if (dir)
		(void)closedir(dir);
	return num;
}

/* Bytes that malloc has given out. */
static long get_heap(void)
{
	struct mallinfo2 info = mallinfo2();

	return (long)(info.uordblks + info.hblkhd);
}

/* Of malloc and of the process: nothing where a sanitizer has its own. */
static void show_heap(const char *what, const char *row, long value, long limit)
{
#ifdef COUNT_IS_INSTRUMENTED
	(void)value;
	(void)limit;
	printf("%-34s %s not counted: a sanitizer has its own\n", what, row);
#else
	show(what, row, value, limit);
#endif
}

static long get_resident(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	long size = 0;
	long resident = 0;

	if (file && fscanf(file, "%ld %ld", &size, &resident) != 2)
		resident = 0;
	if (file)
		(void)fclose(file);
	return resident * sysconf(_SC_PAGESIZE);
}

static uint64_t get_device_free(struct qbrt_accelerator *acc)
{
	struct qbrt_device_info *info;
	uint64_t nbytes;

	TRY(qbrt_accelerator_query_info(acc, &info));
	nbytes = qbrt_device_info_get_memory_free(info);
	qbrt_device_info_free(info);
	return nbytes;
}

static struct qbrt_pinned_memory *alloc_one(struct qbrt_accelerator *acc)
{
	const int64_t shape[] = { 64 };
	struct qbrt_pinned_memory *mem;

	TRY(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 1, NULL,
				     &mem));
	return mem;
}

/* P63 */
static void show_objects(void)
{
	struct qbrt_pinned_memory *mems[NUM_OBJECTS];
	struct qbrt_accelerator *acc;
	long before = get_resident();
	long heap;

	TRY(qbrt_accelerator_open("regulus-ra", 0, &acc));
	show_heap("idle software NPU, resident", "P63", get_resident() - before,
		  4 << 20);
	qbrt_pinned_memory_free(alloc_one(acc));
	heap = get_heap();
	for (size_t i = 0; i < NUM_OBJECTS; i++)
		mems[i] = alloc_one(acc);
	show_heap("pinned buffer object", "P63",
		  (get_heap() - heap) / NUM_OBJECTS, 1024);
	for (size_t i = 0; i < NUM_OBJECTS; i++)
		qbrt_pinned_memory_free(mems[i]);
	qbrt_accelerator_close(acc);
}

/* P63: of jobs that have ended, which nobody has taken yet. */
static void show_futures(struct subject *subject)
{
	struct qbrt_future *futures[NUM_OBJECTS];
	struct qbrt_pinned_memory *outs[NUM_OBJECTS];
	long heap;

	for (size_t i = 0; i < NUM_OBJECTS; i++)
		TRY(qbrt_model_alloc_output(subject->model, 0, &outs[i]));
	for (int round = 0; round < 2; round++) {
		heap = get_heap();
		for (size_t i = 0; i < NUM_OBJECTS; i++) {
			TRY(qbrt_model_submit_pinned_memory(
				subject->model, NULL, &subject->in, 1, &outs[i],
				1, &futures[i]));
			TRY(qbrt_future_wait(futures[i], -1));
		}
		heap = get_heap() - heap;
		for (size_t i = 0; i < NUM_OBJECTS; i++)
			qbrt_future_free(futures[i]);
	}
	show_heap("future", "P63", heap / NUM_OBJECTS, 512);
	for (size_t i = 0; i < NUM_OBJECTS; i++)
		qbrt_pinned_memory_free(outs[i]);
}

static void infer_many(struct subject *subject, int num)
{
	while (num--)
		if (!subject_infer(subject, 0))
			exit(1);
}

static void load_many(struct subject *subject, int num)
{
	while (num--) {
		struct qbrt_model *model = subject_load(&subject_nop);

		TRY(qbrt_model_launch(model, subject->acc));
		qbrt_model_free(model);
	}
}

static void alloc_many(struct subject *subject, int num)
{
	while (num--)
		qbrt_pinned_memory_free(alloc_one(subject->acc));
}

/* P64: what grows after the same was done before is kept for ever. */
static void show_growth(const char *what, struct subject *subject,
			void (*repeat)(struct subject *subject, int num),
			int num)
{
	char words[64];
	long growth = LONG_MAX;
	long fds, threads;

	repeat(subject, num);
	fds = count_entries("/proc/self/fd");
	threads = count_entries("/proc/self/task");
	/* what malloc keeps back for a thread counts, and comes and goes */
	for (int round = 0; round < 3 && growth > 0; round++) {
		long heap = get_heap();

		repeat(subject, num);
		heap = get_heap() - heap;
		growth = heap < growth ? heap : growth;
	}
	(void)snprintf(words, sizeof(words), "%s, heap grows by", what);
	show_heap(words, "P64", growth, 0);
	(void)snprintf(words, sizeof(words), "%s, descriptors", what);
	show(words, "P64", count_entries("/proc/self/fd") - fds, 0);
	(void)snprintf(words, sizeof(words), "%s, threads", what);
	show(words, "P64", count_entries("/proc/self/task") - threads, 0);
}

struct worker {
	pthread_t thread;
	struct qbrt_model *model;
	struct qbrt_pinned_memory *out;
};

static void *work(void *arg)
{
	const struct worker *worker = arg;

	for (int i = 0; i < 100; i++)
		TRY(qbrt_model_infer_pinned_memory(worker->model, NULL, NULL, 0,
						   &worker->out, 1));
	return NULL;
}

static struct qbrt_model *load_weights(void)
{
	struct prog prog;
	struct models_spec spec = { .programs = { &prog },
				    .num_programs = 1,
				    .weights_size = WEIGHTS_NBYTES };
	struct qbrt_model *model;
	void *weights = calloc(1, WEIGHTS_NBYTES);

	spec.weights = weights;
	prog_begin(&prog);
	prog_copy(&prog,
		  prog_weights(&prog, QBNPU_DTYPE_U8, DIMS(WEIGHTS_NBYTES)),
		  prog_output(&prog, QBNPU_DTYPE_U8, DIMS(WEIGHTS_NBYTES)));
	model = models_load(&spec);
	prog_end(&prog);
	free(weights);
	return model;
}

/* P66: eight cores, sixteen slots, eight threads, the weights once. */
static void show_slots(void)
{
	struct worker workers[NUM_THREADS] = { 0 };
	struct qbrt_accelerator *acc;
	struct qbrt_model *model = load_weights();
	uint64_t before, launched;

	TRY(qbrt_accelerator_open("aries-rb", 0, &acc));
	before = get_device_free(acc);
	TRY(qbrt_model_launch(model, acc));
	show("launch beyond its weights, device", "P66",
	     (long)(before - get_device_free(acc)) - (long)WEIGHTS_NBYTES,
	     65536);
	for (size_t i = 0; i < NUM_THREADS; i++) {
		workers[i].model = model;
		TRY(qbrt_model_alloc_output(model, 0, &workers[i].out));
	}
	launched = get_device_free(acc);
	for (size_t i = 0; i < NUM_THREADS; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			exit(1);
	for (size_t i = 0; i < NUM_THREADS; i++)
		(void)pthread_join(workers[i].thread, NULL);
	show("eight threads in slots, device", "P66",
	     (long)(launched - get_device_free(acc)), 0);
	for (size_t i = 0; i < NUM_THREADS; i++)
		qbrt_pinned_memory_free(workers[i].out);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}

int main(void)
{
	const struct bench_case bench_case = { .placement = BENCH_FREE };
	struct subject *subject;

	(void)setenv("QBRUNTIME_SOFT_DEVICES", "aries,regulus", 1);
	(void)setenv("QBRUNTIME_SOFT_BACKEND", "ref", 1);
	show_objects();
	show_slots();
	subject_setup();
	subject = subject_open(&bench_case, &subject_nop);
	if (!subject)
		return 1;
	show_futures(subject);
	show_growth("inferences", subject, infer_many, NUM_INFERS);
	show_growth("loads", subject, load_many, NUM_LOADS);
	show_growth("allocations", subject, alloc_many, NUM_ALLOCS);
	subject_close(subject);
	return is_good ? 0 : 1;
}
