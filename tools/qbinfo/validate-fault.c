// SPDX-License-Identifier: MIT
/*
 * fault: what a software device can be told to do wrong, each in a child whose
 * device it is; reset: of a kernel's device.
 */
#include <stdlib.h>
#include <string.h>

#include "digits.h"
#include "validate.h"

#define FIRST_LIMIT_NS 100000000
#define LAST_LIMIT_NS 3200000000
#define DELAY_NS 10000000

static const struct fault {
	const char *name, *plan;
	enum qbrt_status status; /* of the job that it strikes */
	const char *event;       /* that the device tells then; NULL: none */
	bool is_delay;           /* of DELAY_NS */
} faults[] = {
	{ "hang", "hang:cmd=1", QBRT_ACC_NPU_TIMEOUT, "timeout", false },
	{ "error", "error:cmd=2", QBRT_MODEL_PREDICT_ERROR, "job_error",
	  false },
	{ "slow", "slow:ns=10000000", QBRT_OK, NULL, true },
	{ "late", "late:ns=10000000", QBRT_OK, NULL, true },
};
#define NUM_FAULTS (sizeof(faults) / sizeof(*faults))

/* ---- the job that is struck ---- */

static enum qbrt_status infer(struct digits *digits, int64_t limit)
{
	const struct qbrt_infer_options options = { .size = sizeof(options),
						    .timeout = limit };

	return qbrt_model_infer_pinned_memory(
		digits->model, &options, &digits->input, 1, &digits->output, 1);
}

/* Whether what a job left cannot be read, as it should be. */
static bool is_invalid(const struct digits *digits)
{
	size_t ndim = qbrt_pinned_memory_get_ndim(digits->output);
	int64_t *first = inventory_alloc((ndim + 1) * sizeof(*first));
	float score;

	return qbrt_pinned_memory_read_at(digits->output, first, ndim,
					  QBRT_DTYPE_FLOAT32,
					  &score) == QBRT_TENSOR_INVALID;
}

static bool has_event(const struct validate *validate, const char *name)
{
	struct qbrt_device_event *events =
		inventory_alloc(256 * sizeof(*events));
	size_t num;

	if (qbrt_accelerator_query_events(validate->acc, 0, events, 256, &num))
		return false;
	for (size_t i = 0; i < num && i < 256; i++) {
		if (!strcmp(qbrt_device_event_name(events[i].kind), name))
			return true;
	}
	return false;
}

/* A job that has not begun within the limit has not been struck. */
static bool strike(struct validate *validate, const struct fault *fault,
		   struct digits *digits)
{
	int64_t limit = FIRST_LIMIT_NS;
	enum qbrt_status status;

	do {
		status = infer(digits, limit);
		limit *= 2;
	} while (status == QBRT_ACC_NPU_TIMEOUT && !is_invalid(digits) &&
		 limit <= LAST_LIMIT_NS);
	if (!validate_refused(validate, fault->name, fault->status, status))
		return false;
	if (!is_invalid(digits))
		return validate_fail(validate,
				     "%s: the output of the failed job can "
				     "still be read",
				     fault->name);
	return has_event(validate, fault->event) ||
	       validate_fail(validate, "%s: the device tells of no event %s",
			     fault->name, fault->event);
}

static bool delay(struct validate *validate, const struct fault *fault,
		  struct digits *digits)
{
	int64_t start = validate_now();

	if (!validate_try(validate, fault->name, infer(digits, 0)))
		return false;
	return validate_now() - start >= DELAY_NS ||
	       validate_fail(validate, "%s: the job came before its time",
			     fault->name);
}

/* In the child; afterwards all is as if nothing had been. */
static bool try_fault(struct validate *validate, const void *arg)
{
	const struct fault *fault = arg;
	struct digits digits = { .model = NULL };
	int right;

	/* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread */
	(void)setenv("QBRUNTIME_SOFT_FAULT", fault->plan, 1);
	if (!digits_read(&digits, validate->folder))
		return validate_fail(validate, "the digits in %s are not whole",
				     validate->folder);
	if (!validate_try(validate, "opening the device",
			  validate_open_device(validate)) ||
	    !validate_try(
		    validate, "launching digits.qbm",
		    digits_launch(&digits, validate->acc, validate->folder)) ||
	    !(fault->is_delay ? delay : strike)(validate, fault, &digits) ||
	    !validate_try(validate, "an inference after it",
			  digits_count(&digits, &right)))
		return false;
	return right == DIGITS_NUM ||
	       validate_fail(validate, "%s: %d of %d digits are right after it",
			     fault->name, right, DIGITS_NUM);
}

/* ---- short memory ---- */

#define MAX_LAUNCHES 64 /* more than there is room for */

static uint64_t get_estimate(const char *folder)
{
	struct qbrt_model *model = NULL;
	uint64_t estimate;

	if (qbrt_model_load(inventory_format("%s/digits.qbm", folder), NULL,
			    &model))
		return 0;
	estimate = qbrt_model_get_memory_estimate(model);
	qbrt_model_free(model);
	return estimate;
}

/* Launches until there is no room; what is given back makes room again. */
static bool try_short_memory(struct validate *validate, const void *arg)
{
	struct digits *all = inventory_alloc(MAX_LAUNCHES * sizeof(*all));
	uint64_t estimate = get_estimate(validate->folder);
	enum qbrt_status status = QBRT_OK;
	size_t num = 0;
	int right;

	(void)arg;
	/* NOLINTBEGIN(concurrency-mt-unsafe): the only thread */
	(void)setenv(
		"QBRUNTIME_SOFT_MEMORY",
		inventory_format("%llu", (unsigned long long)(2 * estimate)),
		1);
	(void)unsetenv("QBRUNTIME_SOFT_FAULT");
	/* NOLINTEND(concurrency-mt-unsafe) */
	if (!validate_try(validate, "opening the device",
			  validate_open_device(validate)))
		return false;
	while (num < MAX_LAUNCHES && !status)
		status = digits_launch(&all[num++], validate->acc,
				       validate->folder);
	if (!validate_refused(validate, "memory that the device has not",
			      QBRT_BAD_ALLOC, status))
		return false;
	digits_free(&all[0]);
	if (!digits_read(&all[0], validate->folder) ||
	    !validate_try(
		    validate, "a launch in memory that was given back",
		    digits_launch(&all[0], validate->acc, validate->folder)) ||
	    !validate_try(validate, "an inference in short memory",
			  digits_count(&all[0], &right)))
		return false;
	return right == DIGITS_NUM ||
	       validate_fail(validate,
			     "%d of %d digits are right in short memory", right,
			     DIGITS_NUM);
}

bool validate_fault(struct validate *validate)
{
	const char *names = "";

	if (!validate->is_software)
		return validate_skip(validate, REASON_NOT_SUPPORTED,
				     "faults are for software devices");
	if (!validate->folder)
		return validate_fail(validate, "the folder of digits.qbm is "
					       "not beside the library");
	for (size_t i = 0; i < NUM_FAULTS; i++) {
		if (!validate_in_child(validate, try_fault, &faults[i]))
			return false;
		names = inventory_format("%s%s, ", names, faults[i].name);
	}
	return validate_in_child(validate, try_short_memory, NULL) &&
	       validate_ok(validate,
			   "%sshort memory: told, nothing else harmed", names);
}

/* ---- reset ---- */

bool validate_reset(struct validate *validate)
{
	const char *levels = validate->is_destructive
				     ? "queue, core and device level"
				     : "queue and core level";

	if (validate->is_software)
		return validate_skip(validate, REASON_NOT_SUPPORTED,
				     "%s: a software device is reset by fault "
				     "only",
				     levels);
	return validate_skip(validate, REASON_NOT_SUPPORTED,
			     "%s: no call of the library resets a device yet",
			     levels);
}
