// SPDX-License-Identifier: MIT
/*
 * Faults through the software driver: what a request, an event and a counter
 * say of each, and that nothing else on the device notices. Order comes from
 * jobs that hang and from how often a plan has fired.
 */
#include "check-soft-fault.h"

#include <drm.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "prog.h"
#include "soft/soft.h"
#include "util.h"

void fault_begin_set(struct fault_set *set, const char *plan, bool poison)
{
	struct drm_qbnpu_program_create create;
	struct prog prog;

	kmd_begin(0);
	kmd_end();
	strcpy(kmd_options.soft_fault_plan, plan);
	kmd_options.soft_poison = poison;
	ck_assert_int_eq(kmd->open(&kmd_options, kmd_node.path, &kmd_file), 0);
	set->npu = qbnpu_soft_npu(0);
	kmd_alloc(&set->input, 4096);
	kmd_alloc(&set->output, 4096);
	for (uint32_t i = 0; i < 4096; i++)
		set->input.data[i] = (uint8_t)(i + i / 64 + 1);
	prog_copy64(&prog);
	create = kmd_make_create(&prog);
	create.core_mask = 0xf;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create), 0);
	prog_end(&prog);
	set->copy64 = create.handle;
	set->queue = kmd_create_queue(0, &set->syncobj);
}

void fault_end_set(struct fault_set *set)
{
	kmd_destroy_queue(set->queue);
	kmd_unload(set->copy64);
	kmd_free(&set->input);
	kmd_free(&set->output);
	kmd_end();
}

void fault_prepare(struct kmd_job *job, const struct fault_set *set,
		   uint32_t queue, uint32_t slot)
{
	kmd_prepare(job, queue, set->copy64, &set->input, &set->output);
	job->bindings[0].offset = slot * KMD_BYTES;
	job->bindings[1].offset = slot * KMD_BYTES;
}

bool fault_has_copied(const struct fault_set *set, uint32_t slot)
{
	const uint32_t offset = slot * KMD_BYTES;

	return !memcmp(set->output.data + offset, set->input.data + offset,
		       KMD_BYTES);
}

uint64_t fault_submit(struct kmd_job *job, int64_t limit_ns)
{
	int err;

	do {
		job->submit.deadline_ns = qbrt_now_ns() + limit_ns;
		err = kmd_call(DRM_IOCTL_QBNPU_SUBMIT, &job->submit);
		limit_ns *= 2;
	} while (err == -ETIME);
	ck_assert_int_eq(err, 0);
	return job->submit.job;
}

uint32_t fault_add(const struct fault_set *set, const char *plan)
{
	uint32_t id = 0;

	ck_assert_int_eq(qbnpu_fault_add(set->npu, plan, &id), 0);
	return id;
}

void fault_remove(const struct fault_set *set, uint32_t id)
{
	ck_assert_int_eq(qbnpu_fault_remove(set->npu, id), 0);
}

void fault_wait_fired(const struct fault_set *set, uint32_t id)
{
	while (!qbnpu_fault_fired(set->npu, id))
		(void)sched_yield();
}

static void *run_call(void *arg)
{
	struct fault_call *call = arg;

	kmd_submit(call->job);
	return NULL;
}

void fault_call_start(struct fault_call *call, struct kmd_job *job)
{
	call->job = job;
	ck_assert_int_eq(pthread_create(&call->thread, NULL, run_call, call),
			 0);
}

void fault_call_join(struct fault_call *call)
{
	ck_assert_int_eq(pthread_join(call->thread, NULL), 0);
}

void fault_check_end(const struct drm_qbnpu_wait *wait,
		     const struct fault_end *end)
{
	ck_assert_uint_eq(wait->state, DRM_QBNPU_JOB_COMPLETE);
	ck_assert_int_eq(wait->status, end->status);
	ck_assert_uint_eq(wait->cause, end->cause);
	ck_assert_uint_eq(wait->list, end->list);
	ck_assert_uint_eq(wait->command, end->command);
	ck_assert_uint_eq(wait->item, end->item);
	ck_assert_int_eq(wait->start_ns != 0, end->is_started);
	ck_assert_uint_eq(wait->core, end->is_started ? 0 : DRM_QBNPU_NONE);
}

/* ---- what is told ---- */

static int64_t get_counter(uint32_t id)
{
	struct drm_qbnpu_query_value values[128];
	struct drm_qbnpu_query query = {
		.type = DRM_QBNPU_QUERY_COUNTERS,
		.data = (uintptr_t)values,
		.size = sizeof(values),
	};

	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
	for (uint32_t i = 0; i < query.size / sizeof(values[0]); i++) {
		if (values[i].id == id)
			return values[i].value;
	}
	ck_abort_msg("no counter %u", id);
	return 0;
}

static struct drm_qbnpu_query_event get_last_event(void)
{
	struct drm_qbnpu_query_event events[QBNPU_SOFT_NUM_EVENTS];
	struct drm_qbnpu_query query = {
		.type = DRM_QBNPU_QUERY_EVENTS,
		.data = (uintptr_t)events,
		.size = sizeof(events),
	};

	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
	ck_assert_uint_ge(query.size, sizeof(events[0]));
	return events[query.size / sizeof(events[0]) - 1];
}

#define NONE DRM_QBNPU_NONE
#define GOOD \
	{ \
		0, DRM_QBNPU_CAUSE_NONE, NONE, NONE, NONE, true \
	}

static const struct {
	const char *plan;
	struct fault_end end;
	bool has_copied;
	uint32_t event;   /* the newest one then */
	uint32_t counter; /* that went up; failed does with timeouts */
} effects[] = {
	{ "hang",
	  { -ETIMEDOUT, DRM_QBNPU_CAUSE_TIME, 0, 0, 0, true },
	  false,
	  DRM_QBNPU_EVENT_TIMEOUT,
	  DRM_QBNPU_COUNTER_TIMEOUTS },
	{ "error",
	  { -EIO, DRM_QBNPU_CAUSE_INJECTED, 0, 0, 0, true },
	  false,
	  DRM_QBNPU_EVENT_JOB_ERROR,
	  DRM_QBNPU_COUNTER_FAILED },
	{ "slow:ns=1000", GOOD, true, DRM_QBNPU_EVENT_ATTACH,
	  DRM_QBNPU_COUNTER_COMPLETED },
	{ "slow:factor=3", GOOD, true, DRM_QBNPU_EVENT_ATTACH,
	  DRM_QBNPU_COUNTER_COMPLETED },
	{ "slow:ns=1000000000000",
	  { -ETIMEDOUT, DRM_QBNPU_CAUSE_TIME, 0, 0, 0, true },
	  true,
	  DRM_QBNPU_EVENT_TIMEOUT,
	  DRM_QBNPU_COUNTER_TIMEOUTS },
	{ "late:ns=1000", GOOD, true, DRM_QBNPU_EVENT_ATTACH,
	  DRM_QBNPU_COUNTER_COMPLETED },
	{ "late:ns=1000000000000",
	  { -ETIMEDOUT, DRM_QBNPU_CAUSE_TIME, NONE, NONE, 0, true },
	  true,
	  DRM_QBNPU_EVENT_TIMEOUT,
	  DRM_QBNPU_COUNTER_TIMEOUTS },
};
#define NUM_EFFECTS ((int)qbrt_array_size(effects))

/*
 * Runs jobs until the plan has struck one: a deadline may pass before the job
 * begins, so it lies farther off each time. Jobs that succeed have none.
 */
static struct drm_qbnpu_wait strike(struct fault_set *set, const char *plan,
				    bool has_deadline, bool is_inline,
				    int64_t counter_id, int64_t *before)
{
	int64_t limit = QBRT_NS_PER_MS;
	struct drm_qbnpu_wait wait;
	bool has_fired = false;
	struct kmd_job job;
	uint32_t id;

	for (; !has_fired; limit *= 2) {
		*before = get_counter((uint32_t)counter_id);
		id = fault_add(set, plan);
		fault_prepare(&job, set, set->queue, 0);
		if (is_inline)
			kmd_set_wait(&job);
		if (has_deadline)
			fault_submit(&job, limit);
		else
			kmd_submit(&job);
		wait = kmd_wait(set->queue, job.submit.job);
		if (is_inline)
			ck_assert_int_eq(job.wait.status, wait.status);
		has_fired = qbnpu_fault_fired(set->npu, id);
		ck_assert(has_fired || has_deadline);
		fault_remove(set, id);
	}
	return wait;
}

/* FI03 K114 K120: by round, queued and inline */
START_TEST(requests_events_and_counters_tell_the_end)
{
	const int i = _i % NUM_EFFECTS;
	const bool is_bad = effects[i].end.status;
	struct drm_qbnpu_query_event event;
	struct drm_qbnpu_wait wait;
	struct fault_set set;
	struct kmd_job job;
	int64_t before;

	fault_begin_set(&set, "", false);
	wait = strike(&set, effects[i].plan,
		      effects[i].end.status == -ETIMEDOUT, _i >= NUM_EFFECTS,
		      effects[i].counter, &before);
	fault_check_end(&wait, &effects[i].end);
	ck_assert_int_eq(fault_has_copied(&set, 0), effects[i].has_copied);
	ck_assert_int_eq(get_counter(effects[i].counter), before + 1);
	event = get_last_event();
	ck_assert_uint_eq(event.kind, effects[i].event);
	ck_assert_int_eq(event.status, effects[i].end.status);
	ck_assert_uint_eq(event.queue, is_bad ? set.queue : 0);
	ck_assert_uint_eq(event.core, is_bad ? 0 : NONE);
	if (is_bad)
		ck_assert_uint_gt(event.arg[0], 0);
	/* the queue and the core go on */
	fault_prepare(&job, &set, set.queue, 1);
	ck_assert_int_eq(kmd_wait(set.queue, kmd_submit(&job)).status, 0);
	ck_assert(fault_has_copied(&set, 1));
	fault_end_set(&set);
}
END_TEST

/* FI03 K116: only the core stands still, and it goes on after the hang */
START_TEST(a_hang_stops_its_core_and_nothing_else)
{
	const struct fault_end cancelled = {
		-ECANCELED, DRM_QBNPU_CAUSE_CANCELLED, 0, 0, 0, true,
	};
	struct drm_qbnpu_wait wait;
	uint32_t id, other, behind;
	struct fault_set set;
	struct kmd_job job;
	uint64_t hanging, last;

	fault_begin_set(&set, "", false);
	other = kmd_create_queue(0, NULL);
	behind = kmd_create_queue(0, NULL);
	id = fault_add(&set, "hang");
	fault_prepare(&job, &set, set.queue, 0);
	hanging = fault_submit(&job, FAULT_FAR_NS);
	fault_wait_fired(&set, id);
	fault_prepare(&job, &set, behind, 63);
	last = kmd_submit(&job);
	for (uint32_t slot = 1; slot < 60; slot++) {
		fault_prepare(&job, &set, other, slot);
		job.submit.core_mask = 2u << slot % 3;
		if (slot % 2)
			kmd_set_wait(&job);
		ck_assert_int_eq(kmd_wait(other, kmd_submit(&job)).status, 0);
		ck_assert(fault_has_copied(&set, slot));
	}
	ck_assert_uint_eq(kmd_get_state(set.queue, hanging),
			  DRM_QBNPU_JOB_RUNNING);
	ck_assert_uint_ne(kmd_get_state(behind, last), DRM_QBNPU_JOB_COMPLETE);
	ck_assert(!fault_has_copied(&set, 63));
	kmd_cancel(set.queue, hanging);
	wait = kmd_wait(set.queue, hanging);
	fault_check_end(&wait, &cancelled);
	ck_assert_int_eq(kmd_wait(behind, last).status, 0);
	ck_assert(fault_has_copied(&set, 63));
	ck_assert(!fault_has_copied(&set, 0));
	fault_end_set(&set);
}
END_TEST

/* FI01 DV01 Q111: dev= is the n of soft:n; by round */
START_TEST(dev_is_the_number_of_the_node)
{
	struct kmd_buffer input, output;
	struct kmd_job job;
	uint32_t queue, program;
	int file = 77;

	kmd_begin(0);
	kmd_end();
	strcpy(kmd_options.soft_fault_plan,
	       "error:dev=1,count=0;error:dev=0,job=2");
	ck_assert_int_eq(
		kmd->open(&kmd_options, _i ? "soft:1" : "soft:0", &kmd_file),
		0);
	kmd_alloc(&input, 4096);
	kmd_alloc(&output, 4096);
	program = kmd_load_copy64();
	queue = kmd_create_queue(0, NULL);
	kmd_prepare(&job, queue, program, &input, &output);
	for (int i = 1; i <= 3; i++)
		ck_assert_int_eq(kmd_wait(queue, kmd_submit(&job)).status,
				 _i || i == 2 ? -EIO : 0);
	kmd_free(&input);
	kmd_free(&output);
	kmd_end();
	/* of the options as of a variable */
	strcpy(kmd_options.soft_fault_plan, "hang;");
	ck_assert_int_eq(kmd->open(&kmd_options, "soft:0", &file), -EINVAL);
	ck_assert_int_eq(file, 77);
}
END_TEST

/* V60: before a job of a program, queued and inline; a copy needs none */
START_TEST(poison_is_seen_where_nothing_was_written)
{
	struct drm_qbnpu_copy copy = {
		.rank = 1,
		.element_size = 1,
		.sync_size = sizeof(struct drm_qbnpu_sync),
		.src_offset = 128,
		.dst_offset = 128,
		.dims = { KMD_BYTES / 2 },
		.src_strides = { 1 },
		.dst_strides = { 2 },
	};
	struct fault_set set;
	struct kmd_job job;

	fault_begin_set(&set, "error", true);
	fault_prepare(&job, &set, set.queue, 1);
	if (_i)
		kmd_set_wait(&job);
	kmd_wait(set.queue, kmd_submit(&job));
	for (int i = 0; i < 256; i++)
		ck_assert_uint_eq(set.output.data[i],
				  i / KMD_BYTES == 1 ? 0xa5 : 0);
	kmd_wait(set.queue, kmd_submit(&job));
	ck_assert(fault_has_copied(&set, 1));
	/* every second byte is the copy's, the others are nobody's */
	copy.queue = set.queue;
	copy.src = set.input.handle;
	copy.dst = set.output.handle;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_COPY, &copy), 0);
	ck_assert_int_eq(kmd_wait(set.queue, copy.job).status, 0);
	for (int i = 0; i < KMD_BYTES; i++)
		ck_assert_uint_eq(set.output.data[128 + i],
				  i % 2 ? 0 : set.input.data[128 + i / 2]);
	fault_end_set(&set);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(requests_events_and_counters_tell_the_end,
			       2 * NUM_EFFECTS),
		QBRT_TEST(a_hang_stops_its_core_and_nothing_else),
		QBRT_LOOP_TEST(dev_is_the_number_of_the_node, 2),
		QBRT_LOOP_TEST(poison_is_seen_where_nothing_was_written, 2),
	};
	static struct qbrt_tests all;

	qbrt_tests_add(&all, tests, qbrt_array_size(tests));
	fault_stage_tests(&all);
	fault_infer_tests(&all);
	fault_load_tests(&all);
	return qbrt_test_run("soft-fault", all.tests, all.num);
}
