// SPDX-License-Identifier: MIT
/*
 * No byte is copied: what the library, the driver or the device moves by
 * memcpy or memmove is looked at. None of it may lie in the input; in the
 * output only the last kernel's own store may, one line of sums a call.
 * Linked with -Wl,--wrap=memcpy,--wrap=memmove.
 */
#include "check-infer.h"

#include <stdatomic.h>

#include "util.h"

#define NUM_CALLS 100

/* What is watched; length 0: nothing. */
static const char *watched[2];
static size_t watched_nbytes[2];
static atomic_ulong num_moves[2];

void *__real_memcpy(void *dst, const void *src, size_t size);
void *__real_memmove(void *dst, const void *src, size_t size);
void *__wrap_memcpy(void *dst, const void *src, size_t size);
void *__wrap_memmove(void *dst, const void *src, size_t size);

static void note(const void *address, size_t size)
{
	const char *at = address;

	for (size_t i = 0; i < qbrt_array_size(watched); i++)
		if (watched[i] && at < watched[i] + watched_nbytes[i] &&
		    at + size > watched[i])
			atomic_fetch_add(&num_moves[i], 1);
}

void *__wrap_memcpy(void *dst, const void *src, size_t size)
{
	note(dst, size);
	note(src, size);
	return __real_memcpy(dst, src, size);
}

void *__wrap_memmove(void *dst, const void *src, size_t size)
{
	note(dst, size);
	note(src, size);
	return __real_memmove(dst, src, size);
}

static void watch(const struct qbrt_pinned_memory *in,
		  const struct qbrt_pinned_memory *out, bool is_on)
{
	watched[0] = qbrt_pinned_memory_get_data(in);
	watched[1] = qbrt_pinned_memory_get_data(out);
	watched_nbytes[0] = is_on ? qbrt_pinned_memory_get_nbytes(in) : 0;
	watched_nbytes[1] = is_on ? qbrt_pinned_memory_get_nbytes(out) : 0;
}

/* Q483 P30 */
START_TEST(nothing_but_the_last_store_moves_bytes)
{
	struct qbrt_model *model;
	struct rig rig;
	/* volatile: a compiler would leave out a copy that nobody reads */
	void *(*volatile move)(void *, const void *, size_t) = memcpy;
	char copy[64];

	if (qbrt_test_is_instrumented())
		QBRT_TEST_SKIP("a sanitizer has moves of its own");
	ck_assert_ok(qbrt_model_load(TEST_TOP_SRCDIR "/examples/digits.qbm",
				     NULL, &model));
	rig_open(&rig, NULL, model);
	watch(rig.in, rig.out, true);
	for (int i = 0; i < NUM_CALLS; i++)
		ck_assert_ok(rig_infer(&rig, NULL));
	ck_assert_uint_eq(atomic_load(&num_moves[0]), 0);
	ck_assert_uint_eq(atomic_load(&num_moves[1]), NUM_CALLS);
	/* and one move is seen */
	(void)move(copy, qbrt_pinned_memory_get_data(rig.in), sizeof(copy));
	ck_assert_uint_eq(atomic_load(&num_moves[0]), 1);
	watch(rig.in, rig.out, false);
	rig_close(&rig);
}
END_TEST

void add_infer_copy_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(nothing_but_the_last_store_moves_bytes),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
