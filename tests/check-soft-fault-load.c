// SPDX-License-Identifier: MIT
/*
 * Random plans over a mixed load: whatever is done to the jobs, each ends, what
 * says that it succeeded has the right bytes, and nothing is left behind. Every
 * number comes from one seed, which is printed.
 */
#include "check-soft-fault.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <zlib.h>

#include "util.h"

#define SEED 20261129u
#define NUM_PLANS 10000u
#define NUM_QUEUES 3u
#define NUM_JOBS 4u
#define ITEMS 2u /* of the last job */

static uint32_t random_state;

static uint32_t get_random(uint32_t limit)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)random_state * limit >> 32);
}

/* Appends ":key=..." or ",key=..." with this chance in a hundred. */
__attribute__((format(printf, 5, 6))) static size_t
add_key(char *text, size_t used, bool *has_key, uint32_t chance,
	const char *format, ...)
{
	va_list values;

	if (get_random(100) >= chance)
		return used;
	text[used++] = *has_key ? ',' : ':';
	*has_key = true;
	va_start(values, format);
	used += (size_t)vsprintf(text + used, format, values);
	va_end(values);
	return used;
}

/* Room for 200 characters. */
static size_t make_fault(char *text)
{
	static const char *const words[] = { "hang", "error", "slow", "late" };
	const uint32_t word = get_random(4);
	size_t used = (size_t)sprintf(text, "%s", words[word]);
	const bool has_factor = word == 2 && get_random(2);
	bool has_key = false;

	used = add_key(text, used, &has_key, has_factor ? 100 : 0, "factor=%u",
		       get_random(1000) + 1);
	used = add_key(text, used, &has_key, word >= 2 && !has_factor ? 100 : 0,
		       "ns=%u", get_random(400000));
	used = add_key(text, used, &has_key, word < 2 ? 30 : 0, "cmd=%u",
		       get_random(3));
	used = add_key(text, used, &has_key, word < 2 ? 30 : 0, "item=%u",
		       get_random(ITEMS + 1));
	used = add_key(text, used, &has_key, 40, "job=%u",
		       get_random(NUM_JOBS) + 1);
	used = add_key(text, used, &has_key, 30, "every=%u", get_random(3) + 1);
	used = add_key(text, used, &has_key, 40, "count=%u", get_random(4));
	used = add_key(text, used, &has_key, 30, "queue=%u",
		       get_random(NUM_QUEUES + 1) + 1);
	used = add_key(text, used, &has_key, 30, "core=0.%u", get_random(4));
	used = add_key(text, used, &has_key, 30, "p=0.%03u", get_random(1000));
	used = add_key(text, used, &has_key, 30, "seed=%u", get_random(1000));
	return add_key(text, used, &has_key, 10, "dev=%u", get_random(2));
}

static void make_plan(char *text)
{
	uint32_t num = get_random(3) + 1;
	size_t used = 0;

	while (num--) {
		used += make_fault(text + used);
		if (num)
			text[used++] = ';';
	}
}

/* A job of the load: a program's or a copy, queued or inline, of some items. */
struct load {
	uint32_t queue;
	uint64_t job;
	uint32_t slot;
	uint32_t num_slots;
};

static void submit_copy(struct load *load, const struct fault_set *set,
			int64_t limit_ns)
{
	struct drm_qbnpu_copy copy = {
		.queue = load->queue,
		.src = set->input.handle,
		.dst = set->output.handle,
		.src_offset = load->slot * KMD_BYTES,
		.dst_offset = load->slot * KMD_BYTES,
		.rank = 1,
		.element_size = 1,
		.sync_size = sizeof(struct drm_qbnpu_sync),
		.dims = { KMD_BYTES },
		.src_strides = { 1 },
		.dst_strides = { 1 },
	};

	int err;

	do {
		copy.deadline_ns = qbrt_now_ns() + limit_ns;
		err = kmd_call(DRM_IOCTL_QBNPU_COPY, &copy);
		limit_ns *= 2;
	} while (err == -ETIME);
	ck_assert_int_eq(err, 0);
	load->job = copy.job;
}

static void submit_run(struct load *load, const struct fault_set *set,
		       int64_t limit_ns)
{
	struct kmd_job job;

	fault_prepare(&job, set, load->queue, load->slot);
	job.submit.core_mask = get_random(15) + 1;
	if (load->num_slots > 1) {
		job.submit.item_count = load->num_slots;
		for (int i = 0; i < 2; i++) {
			job.bindings[i].length = load->num_slots * KMD_BYTES;
			job.bindings[i].item_stride = KMD_BYTES;
		}
	} else if (get_random(2)) {
		kmd_set_wait(&job);
	}
	load->job = fault_submit(&job, limit_ns);
}

/* Fresh input, and an output that holds none of it. */
static void fill_slots(struct fault_set *set, const struct load *load)
{
	const uint32_t from = load->slot * KMD_BYTES;

	for (uint32_t i = 0; i < load->num_slots * KMD_BYTES; i++) {
		set->input.data[from + i] = (uint8_t)get_random(256);
		set->output.data[from + i] =
			(uint8_t)~set->input.data[from + i];
	}
}

static uint32_t compute_crc(const uint8_t *data, const struct load *load)
{
	return (uint32_t)crc32(0, data + load->slot * KMD_BYTES,
			       load->num_slots * KMD_BYTES);
}

struct totals {
	uint64_t good, errors, timeouts;
};

static void collect(struct fault_set *set, const struct load *load,
		    const char *plan, struct totals *totals)
{
	const struct drm_qbnpu_wait wait = kmd_wait(load->queue, load->job);

	switch (wait.status) {
	case 0:
		ck_assert_msg(compute_crc(set->input.data, load) ==
				      compute_crc(set->output.data, load),
			      "%s: success with wrong bytes", plan);
		totals->good++;
		return;
	case -EIO:
		ck_assert_uint_eq(wait.cause, DRM_QBNPU_CAUSE_INJECTED);
		totals->errors++;
		return;
	default:
		ck_assert_msg(wait.status == -ETIMEDOUT, "%s: %d", plan,
			      wait.status);
		ck_assert_uint_eq(wait.cause, DRM_QBNPU_CAUSE_TIME);
		totals->timeouts++;
	}
}

static void run_plan(struct fault_set *set, const uint32_t *queues,
		     struct totals *totals)
{
	struct load loads[NUM_JOBS];
	char plan[1024];
	uint32_t id;

	make_plan(plan);
	id = fault_add(set, plan);
	for (uint32_t i = 0; i < NUM_JOBS; i++) {
		struct load *load = &loads[i];
		int64_t limit_ns;

		load->queue = queues[get_random(NUM_QUEUES)];
		load->slot = i;
		load->num_slots = i == NUM_JOBS - 1 ? ITEMS : 1;
		fill_slots(set, load);
		limit_ns = 50000 + get_random(300000);
		if (i == 1)
			submit_copy(load, set, limit_ns);
		else
			submit_run(load, set, limit_ns);
	}
	for (uint32_t i = 0; i < NUM_JOBS; i++)
		collect(set, &loads[i], plan, totals);
	fault_remove(set, id);
}

/* FI06 Q125 */
START_TEST(no_plan_makes_a_job_lie_or_stay)
{
	struct totals totals = { 0 };
	uint32_t queues[NUM_QUEUES];
	struct fault_set set;
	struct kmd_job job;

	printf("# seed %u\n", SEED);
	(void)fflush(stdout);
	random_state = SEED;
	fault_begin_set(&set, "", false);
	for (uint32_t i = 0; i < NUM_QUEUES; i++)
		queues[i] = kmd_create_queue(0, NULL);
	for (uint32_t i = 0; i < NUM_PLANS; i++)
		run_plan(&set, queues, &totals);
	ck_assert_uint_eq(totals.good + totals.errors + totals.timeouts,
			  (uint64_t)NUM_PLANS * NUM_JOBS);
	/* a load of one fate would show nothing */
	ck_assert_uint_gt(totals.good, NUM_PLANS / 100);
	ck_assert_uint_gt(totals.errors, NUM_PLANS / 100);
	ck_assert_uint_gt(totals.timeouts, NUM_PLANS / 100);
	fault_prepare(&job, &set, set.queue, 0);
	ck_assert_int_eq(kmd_wait(set.queue, kmd_submit(&job)).status, 0);
	ck_assert(fault_has_copied(&set, 0));
	fault_end_set(&set);
}
END_TEST

void fault_load_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(no_plan_makes_a_job_lie_or_stay),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
