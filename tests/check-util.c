// SPDX-License-Identifier: MIT
/*
 * util.h, and the two units that hold nothing but data: counters.c, kmd.c.
 */
#include "test-util.h"

#include <pthread.h>
#include <string.h>

#include "counters.h"
#include "kmd.h"
#include "util.h"

START_TEST(sums_that_do_not_fit_are_told)
{
	uint64_t sum;

	ck_assert(!qbrt_add_overflows(UINT64_MAX - 1, 1, &sum));
	ck_assert_uint_eq(sum, UINT64_MAX);
	ck_assert(qbrt_add_overflows(UINT64_MAX, 1, &sum));
}
END_TEST

START_TEST(products_that_do_not_fit_are_told)
{
	uint64_t product;

	ck_assert(!qbrt_mul_overflows(UINT32_MAX, 1ull << 32, &product));
	ck_assert_uint_eq(product, 0xffffffff00000000u);
	ck_assert(qbrt_mul_overflows(1ull << 32, 1ull << 32, &product));
	ck_assert(!qbrt_mul_overflows(0, UINT64_MAX, &product));
	ck_assert_uint_eq(product, 0);
}
END_TEST

START_TEST(powers_of_two_are_known)
{
	int bit;

	for (bit = 0; bit < 64; bit++)
		ck_assert(qbrt_is_power_of_two(1ull << bit));
	ck_assert(!qbrt_is_power_of_two(0));
	ck_assert(!qbrt_is_power_of_two(3));
	ck_assert(!qbrt_is_power_of_two(UINT64_MAX));
}
END_TEST

START_TEST(rounding_up_keeps_multiples)
{
	ck_assert_uint_eq(qbrt_round_up(0, 64), 0);
	ck_assert_uint_eq(qbrt_round_up(1, 64), 64);
	ck_assert_uint_eq(qbrt_round_up(64, 64), 64);
	ck_assert_uint_eq(qbrt_round_up(65, 64), 128);
}
END_TEST

/* Q735 */
START_TEST(an_answer_fills_a_struct_of_any_size)
{
	const uint8_t answer[4] = { 1, 2, 3, 4 };
	uint8_t room[8];

	memset(room, 9, sizeof(room));
	qbrt_answer(room, 2, answer, sizeof(answer));
	ck_assert_mem_eq(room, "\1\2\x9\x9\x9\x9\x9\x9", 8);
	qbrt_answer(room, 6, answer, sizeof(answer));
	ck_assert_mem_eq(room, "\1\2\3\4\0\0\x9\x9", 8);
}
END_TEST

START_TEST(deadlines_saturate)
{
	ck_assert_int_eq(qbrt_deadline_ns(INT64_MAX), INT64_MAX);
	ck_assert_int_ge(qbrt_deadline_ns(5), qbrt_now_ns() - QBRT_NS_PER_SEC);
}
END_TEST

START_TEST(a_member_leads_to_its_struct)
{
	struct qbrt_kmd_node node;

	ck_assert_ptr_eq(
		qbrt_container_of(&node.number, struct qbrt_kmd_node, number),
		&node);
}
END_TEST

static void *count_many(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 10000; i++)
		qbrt_count(buffer_requests);
	return NULL;
}

START_TEST(counters_lose_nothing)
{
	pthread_t threads[4];
	size_t i;

	for (i = 0; i < qbrt_array_size(threads); i++)
		ck_assert(!pthread_create(&threads[i], NULL, count_many, NULL));
	for (i = 0; i < qbrt_array_size(threads); i++)
		ck_assert(!pthread_join(threads[i], NULL));
	ck_assert_uint_eq(atomic_load(&qbrt_counters.buffer_requests), 40000);
	qbrt_count(live_models);
	qbrt_uncount(live_models);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.live_models), 0);
}
END_TEST

START_TEST(the_software_driver_is_listed)
{
	const struct qbrt_kmd *const *driver = qbrt_kmd_drivers;
	bool has_soft = false;

	for (; *driver; driver++) {
		ck_assert((*driver)->list && (*driver)->open &&
			  (*driver)->close && (*driver)->ioctl &&
			  (*driver)->mmap && (*driver)->munmap &&
			  (*driver)->poll);
		has_soft |= !strcmp((*driver)->name, "soft");
	}
	ck_assert(has_soft);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(sums_that_do_not_fit_are_told),
		QBRT_TEST(products_that_do_not_fit_are_told),
		QBRT_TEST(powers_of_two_are_known),
		QBRT_TEST(rounding_up_keeps_multiples),
		QBRT_TEST(an_answer_fills_a_struct_of_any_size),
		QBRT_TEST(deadlines_saturate),
		QBRT_TEST(a_member_leads_to_its_struct),
		QBRT_TEST(counters_lose_nothing),
		QBRT_TEST(the_software_driver_is_listed),
	};

	return qbrt_test_run("util", tests, qbrt_array_size(tests));
}
