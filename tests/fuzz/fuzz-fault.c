// SPDX-License-Identifier: MIT
/*
 * Fault plans: whatever the text, it is refused at a place inside it, or every
 * rule of it is one that the device can follow, and the same one each time.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/fault.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int is_true)
{
	if (!is_true)
		abort();
}

static void check_fault(const struct qbnpu_fault *fault)
{
	const uint64_t *values = fault->values;

	require(fault->word >= QBNPU_FAULT_HANG &&
		fault->word <= QBNPU_FAULT_LATE);
	require(!(fault->given >> QBNPU_FAULT_NUM_KEYS));
	require(values[QBNPU_FAULT_JOB] && values[QBNPU_FAULT_EVERY]);
	require(values[QBNPU_FAULT_CORE] < 64);
	require(values[QBNPU_FAULT_P] <= QBNPU_FAULT_P_ALWAYS);
	require(values[QBNPU_FAULT_CMD] <= UINT32_MAX);
	require(values[QBNPU_FAULT_ITEM] < QBNPU_MAX_ITEMS);
	require(values[QBNPU_FAULT_FACTOR] >= 1);
	require(values[QBNPU_FAULT_NS] <= INT64_MAX);
	require(fault->word == QBNPU_FAULT_SLOW ||
		values[QBNPU_FAULT_FACTOR] == 1);
	require(!fault->num_seen && !fault->num_struck);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct qbnpu_fault *faults, *again;
	char *text = malloc(size + 1);
	size_t num = 0, num_again = 0, at = SIZE_MAX;
	int err;

	require(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	err = qbnpu_fault_parse(text, NULL, &num, &at);
	if (err) {
		require(err == -EINVAL && at <= strlen(text) && !num);
		free(text);
		return 0;
	}
	require(num >= 1 && at == SIZE_MAX);
	faults = calloc(num, sizeof(*faults));
	again = calloc(num, sizeof(*again));
	require(faults && again);
	num_again = num;
	require(!qbnpu_fault_parse(text, faults, &num_again, &at));
	require(num_again == num);
	require(!qbnpu_fault_parse(text, again, &num_again, &at));
	require(!memcmp(faults, again, num * sizeof(*faults)));
	for (size_t i = 0; i < num; i++)
		check_fault(&faults[i]);
	free(again);
	free(faults);
	free(text);
	return 0;
}
