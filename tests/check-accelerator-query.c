// SPDX-License-Identifier: MIT
/*
 * What an open device counts and tells, compared with what was done on it:
 * once by the software driver, once by lib/kmd-drm.c above a kernel of ours.
 */
#include "check-accelerator-query.h"

#include <drm.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check-kmd.h"
#include "device/fault.h"
#include "fake-drm.h"
#include "kmd.h"
#include "rig.h"
#include "soft/soft.h"
#include "util.h"

#define NBYTES 64 /* in and out, of one inference of copy64 */

static const struct qbrt_kmd *driver;
static struct qbrt_kmd chosen;
const struct qbrt_kmd *const qbrt_kmd_drivers[] = { &chosen, NULL };
struct reply replies[NUM_QUERIES];
struct qbrt_kmd_options kmd_options; /* of what fake_drm opens */

/* What asks no question: requests that are none, and mappings. */
static atomic_uint num_others;

static int answer(int file, unsigned long request, void *arg)
{
	struct drm_qbnpu_query *query = arg;
	struct reply *reply;
	uint32_t size;

	if (request != DRM_IOCTL_QBNPU_QUERY) {
		if (request != DRM_IOCTL_VERSION)
			atomic_fetch_add(&num_others, 1);
		return driver->ioctl(file, request, arg);
	}
	reply = &replies[query->type];
	atomic_fetch_add(&reply->num_asked, 1);
	atomic_store(&reply->index, query->index);
	if (!reply->is_set)
		return driver->ioctl(file, request, arg);
	if (reply->err)
		return reply->err;
	size = reply->size < query->size ? reply->size : query->size;
	if (size)
		memcpy((void *)(uintptr_t)query->data, reply->data, size);
	query->size = reply->size;
	if (reply->grows)
		reply->size += reply->grows;
	return 0;
}

static int map(int file, uint64_t offset, size_t length, int prot,
	       void **address)
{
	atomic_fetch_add(&num_others, 1);
	return driver->mmap(file, offset, length, prot, address);
}

void choose_driver(int which)
{
	driver = which ? &qbrt_kmd_drm : &qbrt_kmd_soft;
	chosen = *driver;
	chosen.ioctl = answer;
	chosen.mmap = map;
	if (which) {
		fake_drm_begin();
		strcpy(kmd_options.soft_names[0], "aries-rb");
		kmd_options.num_soft_names = 1;
	}
}

struct qbrt_accelerator *open_device(void)
{
	struct qbrt_accelerator *acc;

	choose_driver(0);
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	memset(replies, 0, sizeof(replies));
	return acc;
}

void set_reply(uint32_t type, const void *data, size_t size)
{
	replies[type] = (struct reply){
		.is_set = true,
		.data = data,
		.size = (uint32_t)size,
	};
}

void set_error(uint32_t type, int err)
{
	replies[type] = (struct reply){ .is_set = true, .err = err };
}

static int64_t get_counter(const struct qbrt_accelerator *acc, const char *name)
{
	struct qbrt_reading readings[128];
	int64_t value = -1;
	size_t num, i;

	ck_assert_ok(qbrt_accelerator_query_counters(acc, readings, 128, &num));
	ck_assert_uint_le(num, 128);
	for (i = 0; i < num; i++) {
		ck_assert_uint_eq(readings[i].index, 0);
		if (strcmp(qbrt_counter_name(readings[i].id), name) != 0)
			continue;
		ck_assert_int_eq(value, -1);
		value = readings[i].value;
	}
	return value;
}

#define ck_assert_counter(acc, name, expected) \
	ck_assert_int_eq(get_counter(acc, name), expected)

/* I15: what qbinfo does for readings makes, maps and submits nothing */
START_TEST(readings_ask_and_do_nothing_else)
{
	struct qbrt_firmware_info firmware = { .size = sizeof(firmware) };
	struct qbrt_accelerator *acc;
	size_t num;

	choose_driver(_i);
	atomic_store(&num_others, 0);
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_status(qbrt_accelerator_query_firmware(acc, &firmware),
			 QBRT_NOT_IMPLEMENTED);
	ck_assert_ok(qbrt_accelerator_query_sensors(acc, NULL, 0, &num));
	ck_assert_ok(qbrt_accelerator_query_counters(acc, NULL, 0, &num));
	ck_assert_ok(qbrt_accelerator_query_events(acc, 0, NULL, 0, &num));
	qbrt_accelerator_close(acc);
	ck_assert_uint_eq(atomic_load(&num_others), 0);
}
END_TEST

static void check_no_work(const struct qbrt_accelerator *acc)
{
	static const char *const names[] = {
		"submitted", "completed",  "failed",        "cancelled",
		"timeouts",  "bytes_read", "bytes_written", "copy_bytes",
		"macs",      "busy_ns",    "wait_ns",       "programs_rejected",
	};

	for (size_t i = 0; i < qbrt_array_size(names); i++)
		ck_assert_counter(acc, names[i], 0);
}

/* Fails the next job of the software device. */
static void fail_one(void)
{
	uint32_t id;

	ck_assert_int_eq(
		qbnpu_fault_add(qbnpu_soft_npu(0), "error:count=1", &id), 0);
}

/* The device of the rig, whose copy64 has one program. */
static void open_rig(struct rig *rig, int which)
{
	choose_driver(which);
	rig_open(rig, NULL, models_load_copy64());
}

/* Q722 Q124 Q787 DV24 */
START_TEST(counters_are_what_was_done)
{
	struct qbrt_model_counters own;
	struct rig rig;

	open_rig(&rig, _i);
	ck_assert_int_eq(atomic_load(&fake_drm.num_requests) > 0, _i == 1);
	check_no_work(rig.acc);
	ck_assert_counter(rig.acc, "programs_created", 1);
	for (int i = 0; i < 5; i++)
		ck_assert_ok(rig_infer(&rig, NULL));
	ck_assert_counter(rig.acc, "submitted", 5);
	ck_assert_counter(rig.acc, "completed", 5);
	fail_one();
	ck_assert_status(rig_infer(&rig, NULL), QBRT_MODEL_PREDICT_ERROR);
	ck_assert_counter(rig.acc, "submitted", 6);
	ck_assert_counter(rig.acc, "completed", 5);
	ck_assert_counter(rig.acc, "failed", 1);
	ck_assert_counter(rig.acc, "cancelled", 0);
	ck_assert_counter(rig.acc, "timeouts", 0);
	ck_assert_counter(rig.acc, "bytes_read", 5 * NBYTES);
	ck_assert_counter(rig.acc, "bytes_written", 5 * NBYTES);
	ck_assert_counter(rig.acc, "copy_bytes", 0);
	ck_assert_counter(rig.acc, "macs", 0);
	ck_assert_int_gt(get_counter(rig.acc, "busy_ns"), 0);
	ck_assert_int_ge(get_counter(rig.acc, "wait_ns"), 0);
	own = get_counters(rig.model);
	ck_assert_counter(rig.acc, "submitted", (int64_t)own.submitted);
	ck_assert_counter(rig.acc, "completed", (int64_t)own.completed);
	ck_assert_counter(rig.acc, "failed", (int64_t)own.failed);
	ck_assert_counter(rig.acc, "bytes_read",
			  (int64_t)(own.input_nbytes - NBYTES));
	ck_assert_counter(rig.acc, "bytes_written", (int64_t)own.output_nbytes);
	/* what the device does not have is not there as a zero */
	ck_assert_counter(rig.acc, "doorbells", -1);
	ck_assert_counter(rig.acc, "ecc_corrected", -1);
	rig_close(&rig);
}
END_TEST

/* Q722: counted by the device, whoever did it, and for as long as it is there */
START_TEST(counters_are_of_all_handles_and_models)
{
	struct qbrt_accelerator *other;
	struct rig rig;

	open_rig(&rig, _i);
	ck_assert_ok(rig_infer(&rig, NULL));
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &other));
	ck_assert_counter(other, "submitted", 1);
	ck_assert_ok(qbrt_model_dispose(rig.model));
	ck_assert_counter(other, "programs_created", 1);
	ck_assert_ok(qbrt_model_launch(rig.model, other));
	ck_assert_counter(rig.acc, "programs_created", 2);
	qbrt_accelerator_close(other);
	rig_close(&rig);
}
END_TEST

static void check_event(const struct qbrt_device_event *event,
			uint64_t sequence, const char *kind,
			enum qbrt_status status)
{
	ck_assert_uint_eq(event->sequence, sequence);
	ck_assert_str_eq(qbrt_device_event_name(event->kind), kind);
	ck_assert_int_eq(event->status, status);
	ck_assert_int_gt(event->time, 0);
	ck_assert_int_le(event->time, qbrt_now_ns());
}

/* Q722 Q616 FI03: the event's status is the one that the job's caller got */
START_TEST(events_tell_jobs_that_failed)
{
	struct qbrt_device_event events[4];
	enum qbrt_status status;
	struct rig rig;
	size_t num = 0;

	open_rig(&rig, _i);
	ck_assert_ok(
		qbrt_accelerator_query_events(rig.acc, 0, events, 4, &num));
	ck_assert_uint_eq(num, 1);
	check_event(&events[0], 1, "attach", QBRT_OK);
	ck_assert_int_eq(events[0].core_id.cluster, QBRT_CLUSTER_ERROR);
	ck_assert_int_eq(events[0].core_id.core, QBRT_CORE_ERROR);
	ck_assert_ok(rig_infer(&rig, NULL));
	fail_one();
	status = rig_infer(&rig, NULL);
	ck_assert_int_eq(status, QBRT_MODEL_PREDICT_ERROR);
	ck_assert_ok(
		qbrt_accelerator_query_events(rig.acc, 1, events, 4, &num));
	ck_assert_uint_eq(num, 2);
	check_event(&events[0], 1, "attach", QBRT_OK);
	check_event(&events[1], 2, "job_error", status);
	ck_assert_int_eq(events[1].core_id.cluster, QBRT_CLUSTER_0);
	ck_assert_int_ge(events[1].core_id.core, QBRT_CORE_0);
	ck_assert_int_le(events[1].core_id.core, QBRT_CORE_3);
	ck_assert_uint_eq(events[1].args[0], 2);
	ck_assert_uint_eq(events[1].args[1], 0);
	ck_assert_int_ge(events[1].time, events[0].time);
	rig_close(&rig);
}
END_TEST

/* Q722 Q124 Q616 */
START_TEST(a_job_past_its_limit_is_counted_and_told)
{
	/* not so short that the limit passes before the job is queued */
	const struct qbrt_infer_options options = {
		.size = sizeof(options),
		.timeout = 200 * QBRT_NS_PER_MS,
	};
	struct qbrt_device_event event;
	struct rig rig;
	size_t num;

	choose_driver(_i);
	rig_open(&rig, NULL, models_load_slow(60000, 0));
	ck_assert_status(rig_infer(&rig, &options), QBRT_ACC_NPU_TIMEOUT);
	ck_assert_counter(rig.acc, "timeouts", 1);
	ck_assert_counter(rig.acc, "failed", 1);
	ck_assert_counter(rig.acc, "completed", 0);
	ck_assert_counter(rig.acc, "bytes_written", 0);
	ck_assert_ok(
		qbrt_accelerator_query_events(rig.acc, 2, &event, 1, &num));
	ck_assert_uint_eq(num, 1);
	check_event(&event, 2, "timeout", QBRT_ACC_NPU_TIMEOUT);
	ck_assert_uint_eq(event.args[0], 1);
	rig_close(&rig);
}
END_TEST

static size_t count_busy(const struct qbrt_accelerator *acc, uint64_t *jobs,
			 int64_t *busy_time, uint32_t *queued)
{
	struct qbrt_core_state states[16];
	size_t num, num_busy = 0;

	*jobs = 0;
	*busy_time = 0;
	*queued = 0;
	ck_assert_ok(qbrt_accelerator_query_core_states(acc, states, 16, &num));
	ck_assert_uint_eq(num, 10);
	for (size_t i = 0; i < num; i++) {
		*jobs += states[i].jobs;
		*busy_time += states[i].busy_time;
		*queued += states[i].queued;
		num_busy += states[i].activity == QBRT_CORE_ACTIVITY_BUSY;
		ck_assert_uint_eq(states[i].resets, 0);
		ck_assert_uint_eq(states[i].reserved, 0);
	}
	return num_busy;
}

/* Q722 Q124 */
START_TEST(a_busy_core_says_so_until_its_job_is_cancelled)
{
	int64_t busy_time, before;
	struct qbrt_future *future;
	bool was_cancelled;
	uint32_t queued;
	uint64_t jobs;
	struct rig rig;

	choose_driver(_i);
	rig_open(&rig, NULL, models_load_slow(60000, 0));
	ck_assert_uint_eq(count_busy(rig.acc, &jobs, &before, &queued), 0);
	ck_assert_int_eq(before, 0);
	ck_assert_ok(qbrt_model_submit_pinned_memory(rig.model, NULL, &rig.in,
						     1, &rig.out, 1, &future));
	while (count_busy(rig.acc, &jobs, &before, &queued) == 0)
		(void)sched_yield();
	ck_assert_counter(rig.acc, "submitted", 1);
	ck_assert_counter(rig.acc, "completed", 0);
	/* it grows while the job runs */
	do
		(void)count_busy(rig.acc, &jobs, &busy_time, &queued);
	while (busy_time == before);
	ck_assert_int_gt(busy_time, before);
	ck_assert_ok(qbrt_future_cancel(future, &was_cancelled));
	ck_assert_status(qbrt_future_wait(future, -1), QBRT_OK);
	ck_assert_int_eq(qbrt_future_get_status(future), QBRT_CANCELLED);
	ck_assert_counter(rig.acc, "cancelled", 1);
	ck_assert_counter(rig.acc, "failed", 0);
	ck_assert_uint_eq(count_busy(rig.acc, &jobs, &busy_time, &queued), 0);
	ck_assert_uint_eq(jobs, 0);
	ck_assert_uint_eq(queued, 0);
	ck_assert_counter(rig.acc, "busy_ns", busy_time);
	qbrt_future_free(future);
	rig_close(&rig);
}
END_TEST

/* Q722 Q124 Q110: local cores by cluster, then the global ones */
START_TEST(cores_are_listed_in_order_with_their_account)
{
	struct qbrt_core_id cores[8];
	struct qbrt_core_state states[10];
	uint64_t jobs = 0;
	struct rig rig;
	size_t num, i;

	open_rig(&rig, _i);
	for (i = 0; i < 3; i++)
		ck_assert_ok(rig_infer(&rig, NULL));
	ck_assert_ok(qbrt_accelerator_query_cores(rig.acc, cores, 8, &num));
	ck_assert_uint_eq(num, 8);
	ck_assert_ok(
		qbrt_accelerator_query_core_states(rig.acc, states, 10, &num));
	ck_assert_uint_eq(num, 10);
	for (i = 0; i < 10; i++) {
		const struct qbrt_core_state *state = &states[i];

		if (i < 8) {
			ck_assert_mem_eq(&state->core_id, &cores[i],
					 sizeof(cores[i]));
		} else {
			ck_assert_int_eq(state->core_id.cluster,
					 i == 8 ? QBRT_CLUSTER_0
						: QBRT_CLUSTER_1);
			ck_assert_int_eq(state->core_id.core, QBRT_CORE_GLOBAL);
		}
		ck_assert_int_eq(state->activity, QBRT_CORE_ACTIVITY_IDLE);
		ck_assert_uint_eq(state->queued, 0);
		ck_assert(!state->jobs == !state->busy_time);
		jobs += state->jobs;
	}
	ck_assert_uint_eq(jobs, 3);
	rig_close(&rig);
}
END_TEST

/* Q123 K033 Q722 */
START_TEST(a_software_device_makes_nothing_up)
{
	struct qbrt_firmware_info info, untouched;
	struct qbrt_reading reading, same;
	struct qbrt_accelerator *acc;
	size_t num = 77;

	choose_driver(_i);
	memset(&info, 0x5a, sizeof(info));
	info.size = sizeof(info);
	untouched = info;
	memset(&reading, 0x5a, sizeof(reading));
	same = reading;
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_ok(qbrt_accelerator_query_sensors(acc, &reading, 1, &num));
	ck_assert_uint_eq(num, 0);
	ck_assert_mem_eq(&reading, &same, sizeof(same));
	ck_assert_status(qbrt_accelerator_query_firmware(acc, &info),
			 QBRT_NOT_IMPLEMENTED);
	ck_assert_detail("aries-rb:0");
	ck_assert_mem_eq(&info, &untouched, sizeof(info));
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q748 */
START_TEST(a_child_of_fork_is_told_nothing)
{
	struct qbrt_firmware_info info = { .size = sizeof(info) };
	struct qbrt_accelerator *acc;
	int status;
	size_t num;
	pid_t pid;

	choose_driver(_i);
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	pid = fork();
	if (!pid) {
		const enum qbrt_status gone = QBRT_FORKED_PROCESS;
		bool is_refused =
			qbrt_accelerator_query_firmware(acc, &info) == gone &&
			qbrt_accelerator_query_sensors(acc, NULL, 0, &num) ==
				gone &&
			qbrt_accelerator_query_counters(acc, NULL, 0, &num) ==
				gone &&
			qbrt_accelerator_query_core_states(acc, NULL, 0,
							   &num) == gone &&
			qbrt_accelerator_query_events(acc, 0, NULL, 0, &num) ==
				gone;

		_exit(is_refused ? 0 : 1);
	}
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	qbrt_accelerator_close(acc);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(readings_ask_and_do_nothing_else, NUM_DRIVERS),
		QBRT_LOOP_TEST(counters_are_what_was_done, NUM_DRIVERS),
		QBRT_LOOP_TEST(counters_are_of_all_handles_and_models,
			       NUM_DRIVERS),
		QBRT_LOOP_TEST(events_tell_jobs_that_failed, NUM_DRIVERS),
		QBRT_LOOP_TEST(a_job_past_its_limit_is_counted_and_told,
			       NUM_DRIVERS),
		QBRT_LOOP_TEST(a_busy_core_says_so_until_its_job_is_cancelled,
			       NUM_DRIVERS),
		QBRT_LOOP_TEST(cores_are_listed_in_order_with_their_account,
			       NUM_DRIVERS),
		QBRT_LOOP_TEST(a_software_device_makes_nothing_up, NUM_DRIVERS),
		QBRT_LOOP_TEST(a_child_of_fork_is_told_nothing, NUM_DRIVERS),
	};
	struct qbrt_tests all = { .num = 0 };

	qbrt_tests_add(&all, tests, qbrt_array_size(tests));
	add_reply_tests(&all);
	add_refuse_tests(&all);
	return qbrt_test_run("accelerator-query", all.tests, all.num);
}
