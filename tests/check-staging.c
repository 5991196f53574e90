// SPDX-License-Identifier: MIT
/* Staging sets: reuse, growth, bounds, and failures while one is made. */
#include "staging.h"

#include "count-alloc.h"
#include "counters.h"
#include "kmd.h"
#include "pinned-memory.h"
#include "soft/soft.h"
#include "test-util.h"
#include "uapi/qbnpu_drm.h"
#include "util.h"

#define NUM_BUFFERS 3
#define MAX_RESTING 128

static const struct qbrt_staging_want wants[NUM_BUFFERS] = {
	{ 64, 64 },
	{ 5000, 4096 },
	{ 1, 64 },
};

struct rig {
	struct qbrt_accelerator *acc;
	struct qbrt_staging_pool pool;
};

static void rig_open(struct rig *rig)
{
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &rig->acc));
	qbrt_staging_start(&rig->pool);
}

static void rig_close(struct rig *rig)
{
	qbrt_staging_free(&rig->pool);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.live_buffers), 0);
	qbrt_accelerator_close(rig->acc);
}

static struct qbrt_staging_set *make(struct rig *rig, size_t variant,
				     size_t max_items)
{
	struct qbrt_staging_set *set = NULL;

	ck_assert_ok(qbrt_staging_make(&rig->pool, rig->acc->device, variant,
				       max_items, wants, NUM_BUFFERS, &set));
	return set;
}

START_TEST(a_set_has_the_buffers_that_were_wanted)
{
	struct qbrt_staging_set *set;
	struct rig rig;

	rig_open(&rig);
	set = make(&rig, 0, 1);
	ck_assert_uint_eq(set->num_buffers, NUM_BUFFERS);
	for (size_t i = 0; i < NUM_BUFFERS; i++) {
		const struct qbrt_buffer *buffer =
			&set->buffers[i]->storage->buffer;

		ck_assert_uint_ge(buffer->size, wants[i].nbytes);
		ck_assert_uint_eq((uintptr_t)buffer->data % wants[i].alignment,
				  0);
	}
	qbrt_staging_give(&rig.pool, set);
	rig_close(&rig);
}
END_TEST

START_TEST(a_set_that_rests_goes_out_again_and_only_once)
{
	struct qbrt_staging_set *sets[3];
	struct rig rig;

	rig_open(&rig);
	ck_assert_ptr_null(qbrt_staging_take(&rig.pool, 0, 1));
	sets[0] = make(&rig, 0, 1);
	sets[1] = make(&rig, 1, 4);
	sets[2] = make(&rig, 0, 1);
	for (int i = 0; i < 3; i++)
		qbrt_staging_give(&rig.pool, sets[i]);
	/* of its variant, the last one given first; larger ones do too */
	ck_assert_ptr_eq(qbrt_staging_take(&rig.pool, 0, 1), sets[2]);
	ck_assert_ptr_eq(qbrt_staging_take(&rig.pool, 1, 2), sets[1]);
	ck_assert_ptr_eq(qbrt_staging_take(&rig.pool, 0, 1), sets[0]);
	ck_assert_ptr_null(qbrt_staging_take(&rig.pool, 0, 1));
	for (int i = 0; i < 3; i++)
		qbrt_staging_give(&rig.pool, sets[i]);
	rig_close(&rig);
}
END_TEST

START_TEST(a_set_that_is_too_small_ends_and_makes_room)
{
	struct qbrt_staging_set *set;
	struct rig rig;

	rig_open(&rig);
	qbrt_staging_give(&rig.pool, make(&rig, 0, 1));
	ck_assert_ptr_null(qbrt_staging_take(&rig.pool, 0, 2));
	ck_assert_uint_eq(atomic_load(&qbrt_counters.live_buffers), 0);
	/* and one that is large enough is found behind it */
	set = make(&rig, 0, 2);
	qbrt_staging_give(&rig.pool, set);
	qbrt_staging_give(&rig.pool, make(&rig, 0, 1));
	ck_assert_ptr_eq(qbrt_staging_take(&rig.pool, 0, 2), set);
	qbrt_staging_give(&rig.pool, set);
	rig_close(&rig);
}
END_TEST

START_TEST(no_more_sets_rest_than_calls_may_wait)
{
	struct qbrt_staging_set *sets[MAX_RESTING + 2];
	struct rig rig;

	rig_open(&rig);
	for (size_t i = 0; i < qbrt_array_size(sets); i++)
		sets[i] = make(&rig, 0, 1);
	for (size_t i = 0; i < qbrt_array_size(sets); i++)
		qbrt_staging_give(&rig.pool, sets[i]);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.live_buffers),
			  MAX_RESTING * NUM_BUFFERS);
	rig_close(&rig);
}
END_TEST

/* ST7: all of it or nothing. */
START_TEST(every_failure_of_making_a_set_leaves_nothing)
{
	enum qbrt_status status = QBRT_BAD_ALLOC;
	struct qbrt_staging_set *set = NULL;
	struct rig rig;
	long n;

	for (n = 1; status; n++) {
		rig_open(&rig);
		set = NULL;
		count_alloc_begin(n);
		status = qbrt_staging_make(&rig.pool, rig.acc->device, 0, 1,
					   wants, NUM_BUFFERS, &set);
		(void)count_alloc_end();
		ck_assert(
			!status ||
			(status == QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY &&
			 *qbrt_error_detail() && !set));
		if (set)
			qbrt_staging_give(&rig.pool, set);
		rig_close(&rig);
	}
	ck_assert_int_gt(n, NUM_BUFFERS);
}
END_TEST

/* ST7 */
START_TEST(every_refused_buffer_of_a_set_leaves_nothing)
{
	struct qbrt_staging_set *set = NULL;
	struct rig rig;

	for (unsigned int n = 1; n <= NUM_BUFFERS; n++) {
		rig_open(&rig);
		qbnpu_soft_fail(DRM_IOCTL_QBNPU_BO_INFO, n, ENODEV);
		ck_assert_status(qbrt_staging_make(&rig.pool, rig.acc->device,
						   0, 1, wants, NUM_BUFFERS,
						   &set),
				 QBRT_ACC_DEVICE_LOST);
		ck_assert_ptr_null(set);
		ck_assert_uint_eq(atomic_load(&qbrt_counters.live_buffers), 0);
		rig_close(&rig);
	}
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_set_has_the_buffers_that_were_wanted),
		QBRT_TEST(a_set_that_rests_goes_out_again_and_only_once),
		QBRT_TEST(a_set_that_is_too_small_ends_and_makes_room),
		QBRT_TEST(no_more_sets_rest_than_calls_may_wait),
		QBRT_TEST(every_failure_of_making_a_set_leaves_nothing),
		QBRT_TEST(every_refused_buffer_of_a_set_leaves_nothing),
	};

	return qbrt_test_run("staging", tests, qbrt_array_size(tests));
}
