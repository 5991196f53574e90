// SPDX-License-Identifier: MIT
/*
 * Steps 4 to 9 of SUBMIT (qbnpu_check_bindings): each fault alone and each
 * pair of faults, from one table. The geometry of a copy is check-bind-copy.c.
 */
#include "check-bind.h"

#include <errno.h>
#include <string.h>

#define READ QBNPU_ACCESS_READ
#define WRITE QBNPU_ACCESS_WRITE
#define RIGHTS (QBNPU_RIGHT_READ | QBNPU_RIGHT_WRITE)
#define NONE QBNPU_NONE32

/* One call: four of the program's six bindings are given. */
struct call {
	struct qbnpu_facts *facts; /* in memory, two pairs behind it */
	_Alignas(struct qbnpu_facts)
		uint8_t memory[sizeof(struct qbnpu_facts) +
			       2 * sizeof(struct qbnpu_param_pair)];
	struct qbnpu_bound bound[6];
	uint32_t count;
	uint32_t params[QBNPU_MAX_PARAMS];
	uint32_t items;
};

static void set_binding(struct call *call, uint32_t index, uint32_t kind,
			uint32_t access)
{
	call->facts->bindings[index] = (struct qbnpu_binding_facts){
		.size = 200,
		.kind = kind,
		.access = access,
		.align_log2 = 8,
		.alias = NONE,
	};
}

static void give(struct call *call, uint32_t index, uint64_t buffer_id)
{
	call->bound[call->count++] = (struct qbnpu_bound){
		.index = index,
		.access = call->facts->bindings[index].access,
		.rights = RIGHTS,
		.align_log2 = 12,
		.buffer_id = buffer_id,
		.buffer_size = 4096,
		.offset = 512,
		.length = 3 * 256 + 200,
		.item_stride = 256,
	};
}

/* INPUT 0, OUTPUT 1, STATE 2, WEIGHTS 3, SCRATCH 4, OUTPUT 5 alias 0. */
static void fill_call(struct call *call)
{
	memset(call, 0, sizeof(*call));
	call->facts = (struct qbnpu_facts *)(void *)call->memory;
	call->facts->binding_count = 6;
	call->facts->param_count = 2;
	call->facts->pair_count = 2;
	call->facts->params[0] =
		(struct qbnpu_param){ 2, 8, 2, QBNPU_PARAM_TOKENS };
	call->facts->params[1] =
		(struct qbnpu_param){ 0, 9, 1, QBNPU_PARAM_CACHE };
	call->facts->pairs[0] = (struct qbnpu_param_pair){ 3, 0, 17 };
	call->facts->pairs[1] = (struct qbnpu_param_pair){ 3, 2, 12 };
	set_binding(call, 0, QBNPU_BINDING_INPUT, READ);
	set_binding(call, 1, QBNPU_BINDING_OUTPUT, WRITE);
	set_binding(call, 2, QBNPU_BINDING_STATE, READ | WRITE);
	set_binding(call, 3, QBNPU_BINDING_WEIGHTS, READ);
	set_binding(call, 4, QBNPU_BINDING_SCRATCH, READ | WRITE);
	set_binding(call, 5, QBNPU_BINDING_OUTPUT, READ | WRITE);
	call->facts->bindings[5].alias = 0;
	give(call, 0, 100);
	give(call, 1, 101);
	give(call, 2, 102);
	give(call, 5, 103);
	call->params[0] = 4;
	call->params[1] = 4;
	call->items = 4;
}

static int run(struct call *call, struct qbnpu_report *report)
{
	memset(report, 0xa5, sizeof(*report));
	return qbnpu_check_bindings(call->facts, call->bound, call->count,
				    call->params, call->items, report);
}

static void break_index(struct call *call)
{
	call->bound[3].index = 6;
}

static void break_twice(struct call *call)
{
	call->bound[1].index = 0;
}

static void break_missing(struct call *call)
{
	call->count = 3;
}

static void break_weights(struct call *call)
{
	give(call, 3, 104);
}

static void break_scratch(struct call *call)
{
	give(call, 4, 105);
}

static void break_access(struct call *call)
{
	call->bound[0].access = READ | WRITE;
}

static void break_read_only(struct call *call)
{
	call->bound[1].rights = QBNPU_RIGHT_READ;
}

static void break_unreadable(struct call *call)
{
	call->bound[0].rights = QBNPU_RIGHT_WRITE;
}

static void break_held(struct call *call)
{
	call->bound[2].rights |= QBNPU_RIGHT_WEIGHTS;
}

static void break_offset(struct call *call)
{
	call->bound[0].offset += 64;
}

static void break_buffer_align(struct call *call)
{
	call->bound[1].align_log2 = 7;
}

static void break_stride(struct call *call)
{
	call->bound[1].item_stride = 320;
}

static void break_short_stride(struct call *call)
{
	call->facts->bindings[2].size = 300;
}

static void break_shared_output(struct call *call)
{
	call->bound[3].item_stride = 0;
}

static void break_buffer_end(struct call *call)
{
	call->bound[1].buffer_size = 512 + 3 * 256 + 199;
}

static void break_overflow(struct call *call)
{
	call->bound[2].offset = ~255ull;
}

static void break_length(struct call *call)
{
	call->bound[3].length--;
}

static void break_min(struct call *call)
{
	call->params[0] = 0;
}

static void break_max(struct call *call)
{
	call->params[1] = 10;
}

static void break_multiple(struct call *call)
{
	call->params[0] = 3;
}

static void break_extra_param(struct call *call)
{
	call->params[2] = 1;
}

static void break_pair(struct call *call)
{
	call->params[0] = 8;
	call->params[1] = 3;
}

static void break_overlap(struct call *call)
{
	call->bound[0].buffer_id = 102;
}

static void break_written_overlap(struct call *call)
{
	call->bound[3].buffer_id = 101;
}

static void break_alias_range(struct call *call)
{
	call->bound[0].buffer_id = 103;
	call->bound[0].offset -= 256;
}

static const struct {
	const char *name;
	uint32_t step;
	int err;
	uint32_t what;
	uint32_t index;
	uint64_t limit;
	void (*apply)(struct call *call);
} faults[] = {
	{ "index", 4, -EINVAL, 1, 3, 6, break_index },
	{ "twice", 4, -EINVAL, 1, 1, 0, break_twice },
	{ "missing", 4, -EINVAL, 1, 5, 0, break_missing },
	{ "weights", 4, -EINVAL, 1, 4, 0, break_weights },
	{ "scratch", 4, -EINVAL, 1, 4, 0, break_scratch },
	{ "access", 5, -EACCES, 1, 0, READ, break_access },
	{ "unreadable", 5, -EACCES, 1, 0, READ, break_unreadable },
	{ "read-only", 5, -EACCES, 1, 1, WRITE, break_read_only },
	{ "held", 5, -EBUSY, 1, 2, READ | WRITE, break_held },
	{ "offset", 6, -EINVAL, 1, 0, 256, break_offset },
	{ "buffer-align", 6, -EINVAL, 1, 1, 256, break_buffer_align },
	{ "stride", 6, -EINVAL, 1, 1, 200, break_stride },
	{ "short-stride", 6, -EINVAL, 1, 2, 300, break_short_stride },
	{ "shared-output", 6, -EINVAL, 1, 3, 200, break_shared_output },
	{ "buffer-end", 7, -ERANGE, 1, 1, 1479, break_buffer_end },
	{ "overflow", 7, -ERANGE, 1, 2, 4096, break_overflow },
	{ "length", 7, -ERANGE, 1, 3, 968, break_length },
	{ "min", 8, -EINVAL, 4, 0, 2, break_min },
	{ "max", 8, -EINVAL, 4, 1, 9, break_max },
	{ "multiple", 8, -EINVAL, 4, 0, 2, break_multiple },
	{ "extra-param", 8, -EINVAL, 4, 2, 0, break_extra_param },
	{ "pair", 8, -EINVAL, 5, 1, 12, break_pair },
	{ "overlap", 9, -EINVAL, 1, 2, 0, break_overlap },
	{ "written-overlap", 9, -EINVAL, 1, 3, 0, break_written_overlap },
	{ "alias-range", 9, -EINVAL, 1, 3, 0, break_alias_range },
};

#define NUM_FAULTS (sizeof(faults) / sizeof(faults[0]))

static _Bool is_fault(size_t i, int err, const struct qbnpu_report *report)
{
	return err == faults[i].err && report->rule == faults[i].what &&
	       report->operand == faults[i].index &&
	       report->limit == faults[i].limit && report->command == NONE &&
	       !report->facts;
}

/* SU03 */
START_TEST(good_call_passes)
{
	struct qbnpu_report report;
	struct call call;

	fill_call(&call);
	ck_assert_int_eq(run(&call, &report), 0);
	ck_assert_uint_eq(report.rule, 0);
	ck_assert_uint_eq(report.limit, 0);
	ck_assert_ptr_null(report.facts);
}
END_TEST

/* K080, K064 (weights), PF05 (scratch), PF03 (pair), SU03 */
START_TEST(each_fault_alone_is_told)
{
	struct qbnpu_report report;
	struct call call;
	int err;

	fill_call(&call);
	faults[_i].apply(&call);
	err = run(&call, &report);
	ck_assert_msg(is_fault((size_t)_i, err, &report),
		      "%s: %d, what %u, index %u, limit %llu", faults[_i].name,
		      err, report.rule, report.operand,
		      (unsigned long long)report.limit);
}
END_TEST

/* K080: of two faults the earlier step decides */
START_TEST(two_faults_give_the_earlier_one)
{
	const size_t i = (size_t)_i;
	size_t j;

	for (j = i + 1; j < NUM_FAULTS; j++) {
		struct qbnpu_report report;
		struct call call;
		int err;

		fill_call(&call);
		faults[j].apply(&call);
		faults[i].apply(&call);
		err = run(&call, &report);
		ck_assert_msg(is_fault(i, err, &report) ||
				      (faults[i].step == faults[j].step &&
				       is_fault(j, err, &report)),
			      "%s and %s: %d, what %u, index %u, limit %llu",
			      faults[i].name, faults[j].name, err, report.rule,
			      report.operand, (unsigned long long)report.limit);
	}
}
END_TEST

/* SU03: 1 to 65,535 */
START_TEST(item_count_out_of_range_is_refused)
{
	static const uint32_t counts[] = { 0, 65536, ~0u };
	struct qbnpu_report report;
	struct call call;
	size_t i;

	for (i = 0; i < 3; i++) {
		fill_call(&call);
		call.items = counts[i];
		ck_assert_int_eq(run(&call, &report), -EINVAL);
		ck_assert_uint_eq(report.rule, 0);
		ck_assert_uint_eq(report.limit, 65535);
	}
}
END_TEST

/* The uAPI's binding: item_stride is 0 with one item */
START_TEST(stride_with_one_item_is_refused)
{
	struct qbnpu_report report;
	struct call call;
	uint32_t i;

	fill_call(&call);
	call.items = 1;
	for (i = 0; i < call.count; i++)
		call.bound[i].item_stride = 0;
	ck_assert_int_eq(run(&call, &report), 0);
	call.bound[2].item_stride = 256;
	ck_assert_int_eq(run(&call, &report), -EINVAL);
	ck_assert_uint_eq(report.rule, 1);
	ck_assert_uint_eq(report.operand, 2);
}
END_TEST

/* SU03: item_stride 0 shares an input between items */
START_TEST(input_may_be_shared_by_all_items)
{
	struct qbnpu_report report;
	struct call call;

	fill_call(&call);
	call.bound[0].item_stride = 0;
	call.bound[0].length = 200;
	ck_assert_int_eq(run(&call, &report), 0);
	call.bound[0].length = 199;
	ck_assert_int_eq(run(&call, &report), -ERANGE);
}
END_TEST

/* PF07: the alias may be the same memory, at exactly the same range */
START_TEST(alias_at_the_same_range_passes)
{
	struct qbnpu_report report;
	struct call call;

	fill_call(&call);
	call.bound[0].buffer_id = 103;
	ck_assert_int_eq(run(&call, &report), 0);
	call.bound[0].length++;
	ck_assert_int_eq(run(&call, &report), -EINVAL);
	ck_assert_uint_eq(report.operand, 3);
	call.bound[0].length--;
	call.bound[0].item_stride = 0; /* item 1 would write item 0's input */
	ck_assert_int_eq(run(&call, &report), -EINVAL);
	ck_assert_uint_eq(report.operand, 3);
}
END_TEST

/* Step 9 is about written ranges, and about bytes */
START_TEST(ranges_that_touch_or_are_read_only_pass)
{
	struct qbnpu_report report;
	struct call call;

	fill_call(&call);
	call.bound[1].buffer_id = 102;
	call.bound[1].offset = 512 + 1024;
	call.bound[2].length = 1024;
	ck_assert_int_eq(run(&call, &report), 0);
	call.bound[2].length++;
	ck_assert_int_eq(run(&call, &report), -EINVAL);

	fill_call(&call);
	call.facts->bindings[5].access = READ;
	call.facts->bindings[5].alias = NONE;
	call.bound[3].access = READ;
	call.bound[3].buffer_id = call.bound[0].buffer_id;
	call.bound[3].offset += 256;
	ck_assert_int_eq(run(&call, &report), 0);
}
END_TEST

/* The largest numbers that a caller can write */
START_TEST(sums_do_not_overflow)
{
	struct qbnpu_report report;
	struct call call;

	fill_call(&call);
	call.bound[0].item_stride = ~255ull;
	ck_assert_int_eq(run(&call, &report), -ERANGE);
	ck_assert_uint_eq(report.limit, ~0ull);
	fill_call(&call);
	call.bound[0].length = ~0ull;
	ck_assert_int_eq(run(&call, &report), -ERANGE);
	ck_assert_uint_eq(report.limit, 4096);
	fill_call(&call);
	call.params[0] = ~1u;
	call.params[1] = ~0u;
	ck_assert_int_eq(run(&call, &report), -EINVAL);
	ck_assert_uint_eq(report.rule, 4);
}
END_TEST

/* PF03: twice counts a parameter twice */
START_TEST(pair_limit_is_reached_but_not_passed)
{
	struct qbnpu_report report;
	struct call call;

	fill_call(&call);
	call.params[0] = 8;
	call.params[1] = 2;
	ck_assert_int_eq(run(&call, &report), 0); /* 8 + 2 + 2 */
	call.facts->pairs[1].limit = 11;
	ck_assert_int_eq(run(&call, &report), -EINVAL);
	ck_assert_uint_eq(report.rule, 5);
	ck_assert_uint_eq(report.operand, 1);
	ck_assert_uint_eq(report.limit, 11);
}
END_TEST

int main(void)
{
	const struct qbrt_test own[] = {
		QBRT_TEST(good_call_passes),
		QBRT_LOOP_TEST(each_fault_alone_is_told, NUM_FAULTS),
		QBRT_LOOP_TEST(two_faults_give_the_earlier_one, NUM_FAULTS - 1),
		QBRT_TEST(item_count_out_of_range_is_refused),
		QBRT_TEST(stride_with_one_item_is_refused),
		QBRT_TEST(input_may_be_shared_by_all_items),
		QBRT_TEST(alias_at_the_same_range_passes),
		QBRT_TEST(ranges_that_touch_or_are_read_only_pass),
		QBRT_TEST(sums_do_not_overflow),
		QBRT_TEST(pair_limit_is_reached_but_not_passed),
	};
	static struct qbrt_tests all;

	qbrt_tests_add(&all, own, sizeof(own) / sizeof(own[0]));
	add_copy_tests(&all);
	return qbrt_test_run("bind", all.tests, all.num);
}
