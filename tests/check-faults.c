// SPDX-License-Identifier: MIT
/*
 * Everything fails once (ST7): each scenario is run with its first, second,
 * third... allocation failing, then with its n-th request to the driver
 * failing with each errno that it may answer, until it needs no more. A failure
 * has exactly the status of its row and a sentence, leaks nothing, leaves every
 * count inside the library as it was, and the same call works the next time.
 */
#include "check-faults.h"

#include <drm.h>
#include <errno.h>
#include <sched.h>

#include "count-alloc.h"
#include "kmd-watch.h"
#include "uapi/qbnpu_drm.h"
#include "util.h"

#define MAX_FAULTS 2000

/* As often as a call asks before it gives up: two regions, twice each. */
#define MAX_TRIES 4

/* What fails. */
struct kind {
	const char *name;
	int err;  /* of a request; 0: an allocation fails */
	long num; /* so often */
	bool (*may_answer)(unsigned long request);
};

static bool takes_memory(unsigned long request)
{
	return request != DRM_IOCTL_GEM_CLOSE &&
	       request != DRM_IOCTL_SYNCOBJ_DESTROY &&
	       request != DRM_IOCTL_QBNPU_PROGRAM_DESTROY &&
	       request != DRM_IOCTL_QBNPU_QUEUE_DESTROY;
}

/* not those that a lost device still takes */
static bool needs_device(unsigned long request)
{
	return request == DRM_IOCTL_QBNPU_BO_CREATE ||
	       request == DRM_IOCTL_QBNPU_BO_SYNC ||
	       request == DRM_IOCTL_QBNPU_PROGRAM_CREATE ||
	       request == DRM_IOCTL_QBNPU_QUEUE_CREATE ||
	       request == DRM_IOCTL_QBNPU_SUBMIT ||
	       request == DRM_IOCTL_QBNPU_WAIT ||
	       request == DRM_IOCTL_QBNPU_CANCEL ||
	       request == DRM_IOCTL_PRIME_FD_TO_HANDLE;
}

static bool fills_table(unsigned long request)
{
	return request == DRM_IOCTL_QBNPU_PROGRAM_CREATE ||
	       request == DRM_IOCTL_QBNPU_QUEUE_CREATE ||
	       request == DRM_IOCTL_QBNPU_SUBMIT;
}

static bool takes_descriptor(unsigned long request)
{
	return request == DRM_IOCTL_QBNPU_BO_CREATE ||
	       request == DRM_IOCTL_PRIME_HANDLE_TO_FD ||
	       request == DRM_IOCTL_PRIME_FD_TO_HANDLE ||
	       request == DRM_IOCTL_SYNCOBJ_EVENTFD;
}

/* K009: the two requests that only wait */
static bool only_waits(unsigned long request)
{
	return request == DRM_IOCTL_QBNPU_WAIT ||
	       request == DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT;
}

static const struct kind kinds[] = {
	{ "allocation", 0, 1, NULL },
	{ "ENOMEM", -ENOMEM, 1, takes_memory },
	{ "ENOMEM at each try", -ENOMEM, MAX_TRIES, takes_memory },
	{ "ENODEV", -ENODEV, 1, needs_device },
	{ "ENODEV at each try", -ENODEV, MAX_TRIES, needs_device },
	{ "ENOSPC", -ENOSPC, 1, fills_table },
	{ "ENOSPC at each try", -ENOSPC, MAX_TRIES, fills_table },
	{ "EMFILE", -EMFILE, 1, takes_descriptor },
	{ "EMFILE at each try", -EMFILE, MAX_TRIES, takes_descriptor },
	{ "EINTR", -EINTR, 1, only_waits },
	{ "EINTR at each try", -EINTR, MAX_TRIES, only_waits },
};

static void begin_faults(const struct kind *kind, long n)
{
	if (kind->err) {
		kmd_watch.fail_err = kind->err;
		kmd_watch.may_fail = kind->may_answer;
		atomic_store(&kmd_watch.fail_more, kind->num - 1);
		atomic_store(&kmd_watch.fail_at, n);
	}
	count_alloc_begin(kind->err ? 0 : n);
}

/* true: the n-th was reached. */
static bool end_faults(const struct kind *kind, long n)
{
	long num_allocs = count_alloc_end();

	if (!kind->err)
		return num_allocs >= n;
	atomic_store(&kmd_watch.fail_at, 0);
	atomic_store(&kmd_watch.fail_more, 0);
	return atomic_load(&kmd_watch.num_failed);
}

/* Who asks makes room by giving up freed buffers, and asks once more. */
static bool is_tried_again(int err, unsigned long request)
{
	return (err == -ENOMEM || err == -EMFILE) &&
	       (request == DRM_IOCTL_QBNPU_BO_CREATE ||
		request == DRM_IOCTL_QBNPU_PROGRAM_CREATE ||
		request == DRM_IOCTL_PRIME_HANDLE_TO_FD ||
		request == DRM_IOCTL_PRIME_FD_TO_HANDLE);
}

/* Nobody is to know: it is asked again, or there is another way. */
static bool is_borne(const struct scenario *scenario, const struct kind *kind,
		     int err, unsigned long request)
{
	if (scenario->bears_requests ||
	    (scenario->borne && scenario->borne == request))
		return true;
	if (request == DRM_IOCTL_QBNPU_QUEUE_CREATE)
		return err == -ENOSPC && scenario->has_queue;
	if (request == DRM_IOCTL_QBNPU_SUBMIT)
		return err == -ENOSPC;
	if (kind->num == 1 && is_tried_again(err, request))
		return true;
	return err == -EINTR || request == DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL ||
	       request == DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT;
}

/* Q615, Q469 */
static enum qbrt_status translate(const struct scenario *scenario, int err,
				  unsigned long request)
{
	if (request == DRM_IOCTL_QBNPU_WAIT && scenario->of_lost)
		return scenario->of_lost;
	if (err == -ENODEV)
		return QBRT_ACC_DEVICE_LOST;
	if (request == DRM_IOCTL_QBNPU_WAIT)
		return QBRT_INTERNAL_ERROR;
	if (request == DRM_IOCTL_QBNPU_PROGRAM_CREATE)
		return err == -ENOSPC ? QBRT_DRIVER_ALLOCATE_MODEL_MEMORY
				      : QBRT_BAD_ALLOC;
	if (request == DRM_IOCTL_QBNPU_BO_CREATE && err == -ENOMEM &&
	    scenario->of_no_bo)
		return scenario->of_no_bo;
	return QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY;
}

/*
 * Of the faults that there were. An allocation may be the driver's: then a
 * request has failed.
 */
static enum qbrt_status expect_status(const struct scenario *scenario,
				      const struct scene *scene,
				      const struct kind *kind)
{
	unsigned int num = atomic_load(&kmd_watch.num_failed);
	int err = kind->err ? kind->err : -ENOMEM;

	if (!kind->err && !num)
		return scenario->bears_allocations || scene->is_submitted
			       ? QBRT_OK
			       : QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY;
	for (unsigned int i = 0; i < num && i < MAX_TRIES; i++) {
		unsigned long request = atomic_load(&kmd_watch.failed[i]);

		if (!is_borne(scenario, kind, err, request))
			return translate(scenario, err, request);
	}
	return QBRT_OK;
}

static void check_status(const struct scenario *scenario,
			 const struct scene *scene, const struct kind *kind,
			 long n, enum qbrt_status status)
{
	enum qbrt_status expected = expect_status(scenario, scene, kind);

	if (scenario->waits_twice && expected == scenario->of_lost && !status)
		return;
	ck_assert_msg(status == expected,
		      "%s, %s at %ld (request %#lx): %s, not %s (%s)",
		      scenario->name, kind->name, n,
		      atomic_load(&kmd_watch.failed[0]),
		      qbrt_status_name(status), qbrt_status_name(expected),
		      qbrt_error_detail());
	ck_assert_msg(!status || *qbrt_error_detail(), "%s, %ld: no sentence",
		      scenario->name, n);
}

/* With the n-th of them failing. false: there was no n-th. */
static bool run_with_fault(const struct scenario *scenario,
			   const struct kind *kind, long n)
{
	struct scene scene = { .fd = -1 };
	long num_threads = qbrt_test_count_threads();
	struct counts before, after;
	enum qbrt_status status;
	bool was_reached;

	scene.rig = &scene.gated.rig;
	rig_open(scene.rig, NULL, load_copy(2));
	fill(scene.rig->in, 5);
	scenario->set_up(&scene);
	before = get_counts(scene.rig);
	kmd_watch_begin(scene.rig->acc);
	begin_faults(kind, n);
	status = scenario->run(&scene);
	was_reached = end_faults(kind, n);
	if (was_reached)
		check_status(scenario, &scene, kind, n, status);
	else
		ck_assert_ok(status);
	if (status) {
		after = get_counts(scene.rig);
		expect_same_counts(&after, &before, scenario->name);
		ck_assert_ok(scenario->run(&scene));
	}
	scenario->tear_down(&scene);
	expect_rest(scene.rig);
	expect_no_lost_queue(scene.rig, &before);
	close_empty(scene.rig);
	/* the retirement thread may be the last to have had the device */
	while (qbrt_test_count_threads() > num_threads)
		sched_yield();
	return was_reached;
}

/* ST7 */
START_TEST(each_allocation_and_each_request_may_fail)
{
	int num_kinds = qbrt_array_size(kinds);
	const struct scenario *scenario = get_scenario(_i / num_kinds);
	long n = 1;

	while (run_with_fault(scenario, &kinds[_i % num_kinds], n))
		ck_assert_int_lt(++n, MAX_FAULTS);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(
			each_allocation_and_each_request_may_fail,
			(int)(qbrt_array_size(kinds) * count_scenarios())),
	};

	return qbrt_test_run("faults", tests, qbrt_array_size(tests));
}
