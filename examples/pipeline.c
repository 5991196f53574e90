// SPDX-License-Identifier: MIT
/*
 * Producer, NPU, consumer: while the NPU infers one picture the producer reads
 * the next ones and the consumer looks at the last one's scores. Usage:
 * pipeline [digits.qbm]; pictures and labels lie beside the model.
 *
 * A few pairs of pinned memory go round. A pair is the producer's until it is
 * submitted, then its future's, then the consumer's, who puts it back:
 *
 *	producer -> submit -> [busy] -> consumer -> [idle] -> producer
 *
 * [busy] and [idle] are pipes of numbers: in order, and closing the first one
 * is the end of the work. A job that fails costs its picture, not the others.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include <qbruntime/qbrt.h>

#include "digits-data.h"

#define NUM_PAIRS 4

#define TRY(call) \
	do { \
		if ((call) != QBRT_OK) \
			return fail(qbrt_error_detail()); \
	} while (0)

struct pair {
	struct qbrt_pinned_memory *in, *out;
	struct qbrt_future *future; /* of the job that has them */
	int image;
	long label;
};

struct pipeline {
	struct qbrt_model *model;
	FILE *pixels, *text;
	struct pair pairs[NUM_PAIRS];
	int idle[2], busy[2];
	atomic_int num_in_flight;
	int num_read, max_in_flight; /* the producer's */
	int num_right, num_failed;   /* the consumer's */
};

static int fail(const char *sentence)
{
	(void)fprintf(stderr, "pipeline: %s\n", sentence);
	return 1;
}

/* So few numbers never fill a pipe: this waits for nothing. */
static bool put(const int pipe[2], int number)
{
	return write(pipe[1], &number, sizeof(number)) == sizeof(number);
}

/* Waits for the number of a pair; -1: no more will come. */
static int take(const int pipe[2])
{
	int number;

	if (read(pipe[0], &number, sizeof(number)) != sizeof(number))
		return -1;
	return number;
}

static int produce(struct pipeline *line, int num_images)
{
	for (int i = 0; i < num_images; i++) {
		int num, number = take(line->idle);
		struct pair *pair;

		if (number < 0)
			return fail("no pair comes back");
		pair = &line->pairs[number];
		pair->image = line->num_read++;
		pair->label = read_label(line->text);
		/* from the file into the NPU's memory */
		if (pair->label < 0 ||
		    !fread(qbrt_pinned_memory_get_data(pair->in), IMAGE_NBYTES,
			   1, line->pixels))
			return fail("an image or its label is missing");
		TRY(qbrt_model_submit_pinned_memory(line->model, NULL,
						    &pair->in, 1, &pair->out, 1,
						    &pair->future));
		num = atomic_fetch_add(&line->num_in_flight, 1) + 1;
		if (num > line->max_in_flight)
			line->max_in_flight = num;
		if (!put(line->busy, number))
			return fail("a pipe is broken");
	}
	return 0;
}

/*
 * As an event loop waits for a job beside its sockets. Who waits for nothing
 * else calls qbrt_future_wait(), or takes the result at once.
 */
static void wait_by_poll(struct qbrt_future *future)
{
	struct pollfd event = { .events = POLLIN };

	if (qbrt_future_export_fd(future, &event.fd) != QBRT_OK)
		return; /* there is none: taking the result waits as well */
	while (poll(&event, 1, -1) < 0 && errno == EINTR)
		;
	(void)close(event.fd);
}

static void print_result(struct pipeline *line, struct pair *pair)
{
	int answer;

	wait_by_poll(pair->future);
	if (qbrt_future_query_result(pair->future, NULL, 0) != QBRT_OK) {
		(void)fprintf(stderr, "pipeline: image %d: %s\n", pair->image,
			      qbrt_error_detail());
		line->num_failed++;
		return;
	}
	answer = find_largest(qbrt_pinned_memory_get_data(pair->out));
	(void)printf("%ld %d\n", pair->label, answer);
	line->num_right += answer == pair->label;
}

static void *consume(void *arg)
{
	struct pipeline *line = arg;
	int number;

	while ((number = take(line->busy)) >= 0) {
		struct pair *pair = &line->pairs[number];

		print_result(line, pair);
		/* the outputs are the future's no more: the pair is idle */
		qbrt_future_free(pair->future);
		atomic_fetch_sub(&line->num_in_flight, 1);
		if (!put(line->idle, number))
			break;
	}
	return NULL;
}

/* What it holds when it fails ends with the process. */
static int begin(struct pipeline *line, const char *path)
{
	struct qbrt_accelerator *acc;

	line->pixels = open_beside(path, "digits-16.u8");
	line->text = open_beside(path, "digits-16.txt");
	if (pipe(line->idle) || pipe(line->busy))
		return fail("no pipe");
	TRY(qbrt_accelerator_open(NULL, -1, &acc));
	TRY(qbrt_model_load(path, NULL, &line->model));
	TRY(qbrt_model_launch(line->model, acc));
	qbrt_accelerator_close(acc); /* the model keeps the device */
	for (int i = 0; i < NUM_PAIRS; i++) {
		struct pair *pair = &line->pairs[i];

		TRY(qbrt_model_alloc_input(line->model, 0, &pair->in));
		TRY(qbrt_model_alloc_output(line->model, 0, &pair->out));
		if (qbrt_pinned_memory_get_nbytes(pair->in) != IMAGE_NBYTES ||
		    qbrt_pinned_memory_get_nbytes(pair->out) !=
			    NUM_DIGITS * sizeof(float))
			return fail("not a model of 64 bytes in and 10 scores "
				    "out");
		if (!put(line->idle, i))
			return fail("a pipe is broken");
	}
	if (!line->pixels || !line->text)
		return fail("an image or its label is missing");
	return 0;
}

/*
 * Every pair is in flight before the first result is looked at. Once the
 * consumer runs it returns when nothing is in flight any more.
 */
static int run(struct pipeline *line)
{
	pthread_t consumer;
	int result = produce(line, NUM_PAIRS);

	if (pthread_create(&consumer, NULL, consume, line))
		return fail("no thread");
	if (!result)
		result = produce(line, NUM_IMAGES - NUM_PAIRS);
	/* the consumer takes what is still in flight, and ends */
	(void)close(line->busy[1]);
	(void)pthread_join(consumer, NULL);
	(void)printf("agree: %d of %d\n", line->num_right, NUM_IMAGES);
	(void)printf("most in flight: %d of %d\n", line->max_in_flight,
		     NUM_PAIRS);
	return result || line->num_failed;
}

static void end(struct pipeline *line)
{
	for (int i = 0; i < NUM_PAIRS; i++) {
		qbrt_pinned_memory_free(line->pairs[i].out);
		qbrt_pinned_memory_free(line->pairs[i].in);
	}
	qbrt_model_free(line->model);
	(void)close(line->idle[0]);
	(void)close(line->idle[1]);
	(void)close(line->busy[0]);
	(void)fclose(line->pixels);
	(void)fclose(line->text);
}

int main(int argc, char **argv)
{
	struct pipeline line = { 0 };
	const char *data_dir = qbrt_get_data_dir();
	char path[4096];
	int result;

	(void)snprintf(path, sizeof(path), "%s/digits.qbm",
		       data_dir ? data_dir : ".");
	if (begin(&line, argc > 1 ? argv[1] : path))
		return 1;
	result = run(&line);
	end(&line);
	return fclose(stdout) ? fail("stdout is full") : result;
}
