// SPDX-License-Identifier: MIT
/* repeat and digits: the model that comes with the library. */
#include <string.h>

#include "digits.h"
#include "validate.h"

/* The model, launched, and its digits; what was taken is freed by the caller. */
static bool start(struct validate *validate, struct digits *digits)
{
	memset(digits, 0, sizeof(*digits));
	if (!validate->folder)
		return validate_fail(validate, "the folder of digits.qbm is "
					       "not beside the library");
	if (!digits_read(digits, validate->folder))
		return validate_fail(validate, "the digits in %s are not whole",
				     validate->folder);
	return validate_try(
		validate, "launching digits.qbm",
		digits_launch(digits, validate->acc, validate->folder));
}

/* ---- repeat ---- */

/* Each digit once, and then the runs that must have the same bits. */
static bool repeat(struct validate *validate, struct digits *digits)
{
	const size_t size = qbrt_pinned_memory_get_nbytes(digits->output);
	unsigned char *first = inventory_alloc(DIGITS_NUM * size);
	int answer;

	for (uint64_t i = 0; i < DIGITS_NUM + validate->repeat; i++) {
		size_t digit = i % DIGITS_NUM;
		const void *out = qbrt_pinned_memory_get_data(digits->output);

		if (!validate_try(validate, "an inference",
				  digits_recognise(digits, digit, &answer)))
			return false;
		if (i < DIGITS_NUM)
			memcpy(first + digit * size, out, size);
		else if (memcmp(first + digit * size, out, size) != 0)
			return validate_fail(
				validate,
				"run %llu gives other bits than "
				"the first one of digit %zu",
				(unsigned long long)i + 1 - DIGITS_NUM, digit);
	}
	return true;
}

bool validate_repeat(struct validate *validate)
{
	struct digits digits;
	bool is_good = start(validate, &digits) && repeat(validate, &digits);

	digits_free(&digits);
	return is_good && validate_ok(validate, "digits x %llu: identical",
				      (unsigned long long)validate->repeat);
}

/* ---- digits ---- */

bool validate_digits(struct validate *validate)
{
	struct digits digits;
	int right = 0;
	bool is_good = start(validate, &digits) &&
		       validate_try(validate, "an inference",
				    digits_count(&digits, &right));

	digits_free(&digits);
	if (is_good && right < DIGITS_NUM)
		return validate_fail(validate, "%d of %d recorded answers",
				     right, DIGITS_NUM);
	return is_good && validate_ok(validate, "%d of %d recorded answers",
				      right, DIGITS_NUM);
}
