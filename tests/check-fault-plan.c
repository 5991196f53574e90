// SPDX-License-Identifier: MIT
/*
 * The grammar of fault plans (docs/spec/device-and-format.md, 13): what is
 * one, word by word and key by key, and where each other text goes wrong.
 */
#include <errno.h>
#include <string.h>

#include "check-fault.h"
#include "util.h"

#define MAX_FAULTS 8

static const struct {
	const char *text;
	size_t num;
	enum qbnpu_fault_word word; /* of the last one */
	enum qbnpu_fault_key key;   /* given there */
	uint64_t value;
} good[] = {
	{ "hang:job=1", 1, QBNPU_FAULT_HANG, QBNPU_FAULT_JOB, 1 },
	{ "error:job=18446744073709551615", 1, QBNPU_FAULT_ERROR,
	  QBNPU_FAULT_JOB, UINT64_MAX },
	{ "slow:ns=5,every=3", 1, QBNPU_FAULT_SLOW, QBNPU_FAULT_EVERY, 3 },
	{ "late:ns=0,count=0", 1, QBNPU_FAULT_LATE, QBNPU_FAULT_COUNT, 0 },
	{ "hang:queue=4294967295", 1, QBNPU_FAULT_HANG, QBNPU_FAULT_QUEUE,
	  UINT32_MAX },
	{ "hang:core=1.3", 1, QBNPU_FAULT_HANG, QBNPU_FAULT_CORE, 11 },
	{ "hang:core=7.7", 1, QBNPU_FAULT_HANG, QBNPU_FAULT_CORE, 63 },
	{ "hang:p=0", 1, QBNPU_FAULT_HANG, QBNPU_FAULT_P, 0 },
	{ "hang:p=1", 1, QBNPU_FAULT_HANG, QBNPU_FAULT_P, 1000000 },
	{ "hang:p=1.000000", 1, QBNPU_FAULT_HANG, QBNPU_FAULT_P, 1000000 },
	{ "hang:p=0.25", 1, QBNPU_FAULT_HANG, QBNPU_FAULT_P, 250000 },
	{ "hang:p=0.000001", 1, QBNPU_FAULT_HANG, QBNPU_FAULT_P, 1 },
	{ "hang:seed=0", 1, QBNPU_FAULT_HANG, QBNPU_FAULT_SEED, 0 },
	{ "hang:dev=127", 1, QBNPU_FAULT_HANG, QBNPU_FAULT_DEV, 127 },
	{ "hang:cmd=4294967295", 1, QBNPU_FAULT_HANG, QBNPU_FAULT_CMD,
	  UINT32_MAX },
	{ "error:cmd=7", 1, QBNPU_FAULT_ERROR, QBNPU_FAULT_CMD, 7 },
	{ "hang:item=65534", 1, QBNPU_FAULT_HANG, QBNPU_FAULT_ITEM, 65534 },
	{ "error:cmd=2,item=3", 1, QBNPU_FAULT_ERROR, QBNPU_FAULT_ITEM, 3 },
	{ "slow:factor=1000000", 1, QBNPU_FAULT_SLOW, QBNPU_FAULT_FACTOR,
	  1000000 },
	{ "late:ns=1000000000000", 1, QBNPU_FAULT_LATE, QBNPU_FAULT_NS,
	  1000000000000 },
	{ "hang;error;slow:factor=2;late:ns=007", 4, QBNPU_FAULT_LATE,
	  QBNPU_FAULT_NS, 7 },
};

/* FI01: every word, every key, the limits of each value, by round */
START_TEST(plans_of_the_grammar_are_taken)
{
	struct qbnpu_fault faults[MAX_FAULTS], *last;
	size_t num = MAX_FAULTS, at = 77;

	ck_assert_int_eq(qbnpu_fault_parse(good[_i].text, faults, &num, &at),
			 0);
	ck_assert_uint_eq(num, good[_i].num);
	ck_assert_uint_eq(at, 77);
	last = &faults[num - 1];
	ck_assert_int_eq(last->word, good[_i].word);
	ck_assert(qbnpu_fault_has(last, good[_i].key));
	ck_assert_uint_eq(last->values[good[_i].key], good[_i].value);
}
END_TEST

/* FI01 */
START_TEST(what_is_not_given_has_its_default)
{
	struct qbnpu_fault fault;
	size_t num = 1, at;

	ck_assert_int_eq(qbnpu_fault_parse("error", &fault, &num, &at), 0);
	ck_assert_uint_eq(fault.given, 0);
	ck_assert_uint_eq(fault.values[QBNPU_FAULT_JOB], 1);
	ck_assert_uint_eq(fault.values[QBNPU_FAULT_EVERY], 1);
	ck_assert_uint_eq(fault.values[QBNPU_FAULT_COUNT], 1);
	ck_assert_uint_eq(fault.values[QBNPU_FAULT_P], QBNPU_FAULT_P_ALWAYS);
	ck_assert_uint_eq(fault.values[QBNPU_FAULT_CMD], 0);
	ck_assert_uint_eq(fault.values[QBNPU_FAULT_ITEM], 0);
	/* each n-th begins with the n-th, unless job says otherwise */
	ck_assert_int_eq(qbnpu_fault_parse("error:every=4", &fault, &num, &at),
			 0);
	ck_assert_uint_eq(fault.values[QBNPU_FAULT_JOB], 4);
	ck_assert_int_eq(
		qbnpu_fault_parse("error:every=4,job=2", &fault, &num, &at), 0);
	ck_assert_uint_eq(fault.values[QBNPU_FAULT_JOB], 2);
}
END_TEST

static const struct {
	const char *text;
	size_t at;
} bad[] = {
	/* words: none, unknown, of later, other case, cut, spaces */
	{ "", 0 },
	{ ";", 0 },
	{ "freeze", 0 },
	{ "nomem", 0 },
	{ "unplug", 0 },
	{ "Hang", 0 },
	{ "han", 0 },
	{ "hangs", 0 },
	{ " hang", 0 },
	{ "hang ", 4 },
	{ "hang;", 5 },
	{ "hang;;hang", 5 },
	{ "hang;x", 5 },
	{ "hang\n", 4 },
	{ "hang,error", 4 },
	{ "hang=1", 4 },
	/* keys: none, unknown, of another word, twice, other case, cut */
	{ "hang:", 5 },
	{ "hang:=1", 5 },
	{ "hang:job", 8 },
	{ "hang:jobs=1", 5 },
	{ "hang:Job=1", 5 },
	{ "hang:job:1", 8 },
	{ "hang:job=1:cmd=1", 10 },
	{ "hang:job=1,", 11 },
	{ "hang:job=1,,cmd=1", 11 },
	{ "hang:job=1,job=1", 11 },
	{ "hang:ns=1", 5 },
	{ "hang:factor=2", 5 },
	{ "error:ns=1", 6 },
	{ "slow:ns=1,cmd=1", 10 },
	{ "slow:ns=1,item=1", 10 },
	{ "late:ns=1,cmd=1", 10 },
	{ "late:factor=2", 5 },
	/* values: none, signs, other bases, beyond the limits */
	{ "hang:job=", 9 },
	{ "hang:job=,cmd=1", 9 },
	{ "hang:job=0", 9 },
	{ "hang:job=-1", 9 },
	{ "hang:job=+1", 9 },
	{ "hang:job= 1", 9 },
	{ "hang:job=0x1", 9 },
	{ "hang:job=1x", 10 },
	{ "hang:job=18446744073709551616", 9 },
	{ "hang:job=99999999999999999999999999", 9 },
	{ "hang:every=0", 11 },
	{ "hang:queue=0", 11 },
	{ "hang:queue=4294967296", 11 },
	{ "hang:core=1", 10 },
	{ "hang:core=1.", 10 },
	{ "hang:core=.1", 10 },
	{ "hang:core=8.0", 10 },
	{ "hang:core=0.8", 10 },
	{ "hang:core=0.1.2", 13 },
	{ "hang:p=2", 7 },
	{ "hang:p=1.000001", 7 },
	{ "hang:p=.5", 7 },
	{ "hang:p=0.", 7 },
	{ "hang:p=0.1234567", 7 },
	{ "hang:p=0.5.5", 10 },
	{ "hang:dev=4294967296", 9 },
	{ "hang:cmd=4294967296", 9 },
	{ "hang:item=65535", 10 },
	{ "slow:factor=0", 12 },
	{ "slow:factor=1000001", 12 },
	{ "late:ns=1000000000001", 8 },
	/* what a word cannot do without */
	{ "slow", 4 },
	{ "slow:job=1", 10 },
	{ "slow:factor=2,ns=3", 18 },
	{ "late", 4 },
	{ "late;hang", 4 },
	/* a good fault before or behind does not help */
	{ "hang;slow:ns=1;late", 19 },
	{ "late;hang:job=1", 4 },
};

/* FI01 Q771: by round; the place of the first wrong character, and no more */
START_TEST(what_is_no_plan_is_refused_where_it_goes_wrong)
{
	struct qbnpu_fault faults[MAX_FAULTS];
	size_t num = 77, at = 77;

	ck_assert_int_eq(qbnpu_fault_parse(bad[_i].text, NULL, &num, &at),
			 -EINVAL);
	ck_assert_msg(at == bad[_i].at, "\"%s\": %zu, not %zu", bad[_i].text,
		      at, bad[_i].at);
	ck_assert_uint_eq(num, 77);
	num = MAX_FAULTS;
	ck_assert_int_eq(qbnpu_fault_parse(bad[_i].text, faults, &num, &at),
			 -EINVAL);
	ck_assert_uint_eq(num, MAX_FAULTS);
}
END_TEST

/* FI01 */
START_TEST(a_plan_may_have_any_number_of_faults)
{
	static char text[50000];
	struct qbnpu_fault faults[1] = { { .word = QBNPU_FAULT_NONE } };
	size_t num = 1, at = 0;

	for (size_t i = 0; i + 6 < sizeof(text); i += 6)
		memcpy(text + i, "error;", 6);
	ck_assert_int_eq(qbnpu_fault_parse(text, NULL, &num, &at), -EINVAL);
	ck_assert_uint_eq(at, strlen(text));
	text[strlen(text) - 1] = '\0';
	num = 1;
	/* told are those that there is room for */
	ck_assert_int_eq(qbnpu_fault_parse(text, faults, &num, &at), 0);
	ck_assert_uint_eq(num, sizeof(text) / 6);
	ck_assert_int_eq(faults[0].word, QBNPU_FAULT_ERROR);
}
END_TEST

void fault_plan_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(plans_of_the_grammar_are_taken,
			       qbrt_array_size(good)),
		QBRT_TEST(what_is_not_given_has_its_default),
		QBRT_LOOP_TEST(what_is_no_plan_is_refused_where_it_goes_wrong,
			       qbrt_array_size(bad)),
		QBRT_TEST(a_plan_may_have_any_number_of_faults),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
