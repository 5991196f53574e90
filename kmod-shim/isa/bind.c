// SPDX-License-Identifier: MIT
/*
 * What is checked at each submit (bind.h). Pure: everything comes in through
 * the arguments, the facts are those of a validated program, and nothing is
 * kept. Cost is O(bindings + pairs), but for step 9, which compares each
 * binding with those before it.
 */
#include "bind.h"

#include "extent.h"

/* fail_what of the uAPI */
enum {
	FAIL_STRUCT = 0,
	FAIL_BINDING = 1,
	FAIL_PARAM = 4,
	FAIL_PAIR = 5,
	FAIL_SRC = 8,
	FAIL_DST = 9,
};

/* One call of qbnpu_check_bindings. */
struct check {
	const struct qbnpu_facts *facts;
	const struct qbnpu_bound *bound;
	uint32_t count;
	uint32_t items;
	struct qbnpu_report *report;
};

static int refuse(struct qbnpu_report *report, int err, uint32_t what,
		  uint32_t index, uint64_t limit)
{
	report->rule = what;
	report->operand = index;
	report->limit = limit;
	return err;
}

static void clear_report(struct qbnpu_report *report)
{
	report->rule = 0;
	report->command = QBNPU_NONE32;
	report->operand = 0;
	report->reserved = 0;
	report->limit = 0;
	report->facts = NULL;
}

static inline const struct qbnpu_binding_facts *
get_facts(const struct check *check, uint32_t i)
{
	return &check->facts->bindings[check->bound[i].index];
}

/* The device supplies SCRATCH; WEIGHTS is bound at PROGRAM_CREATE (K064). */
static inline _Bool is_given(const struct qbnpu_binding_facts *binding)
{
	return binding->kind != QBNPU_BINDING_SCRATCH &&
	       binding->kind != QBNPU_BINDING_WEIGHTS;
}

/* Step 4: it exists, is the caller's to give, and was not given before. */
static inline int check_given(const struct check *check, uint32_t i,
			      uint64_t *seen)
{
	const struct qbnpu_facts *facts = check->facts;
	uint32_t index = check->bound[i].index;

	if (index >= facts->binding_count)
		return refuse(check->report, -EINVAL, FAIL_BINDING, i,
			      facts->binding_count);
	if (!is_given(&facts->bindings[index]) || *seen >> index & 1)
		return refuse(check->report, -EINVAL, FAIL_BINDING, i, 0);
	*seen |= 1ull << index;
	return 0;
}

/* Step 4: none is missing; all that were given have passed check_given. */
static inline int check_missing(const struct check *check, uint64_t seen)
{
	const struct qbnpu_facts *facts = check->facts;
	uint32_t i;

	if (check->count == facts->binding_count)
		return 0;
	for (i = 0; i < facts->binding_count; i++) {
		if (is_given(&facts->bindings[i]) && !(seen >> i & 1))
			return refuse(check->report, -EINVAL, FAIL_BINDING, i,
				      0);
	}
	return 0;
}

/* Step 5 */
static inline int check_access(const struct check *check, uint32_t i)
{
	const struct qbnpu_bound *bound = &check->bound[i];
	uint32_t access = get_facts(check, i)->access;

	if (bound->access != access || access & ~bound->rights)
		return refuse(check->report, -EACCES, FAIL_BINDING, i, access);
	if (access & QBNPU_ACCESS_WRITE && bound->rights & QBNPU_RIGHT_WEIGHTS)
		return refuse(check->report, -EBUSY, FAIL_BINDING, i, access);
	return 0;
}

/* Step 6 */
static inline int check_alignment(const struct check *check, uint32_t i)
{
	const struct qbnpu_bound *bound = &check->bound[i];
	const struct qbnpu_binding_facts *binding = get_facts(check, i);
	uint64_t alignment = 1ull << binding->align_log2;
	uint64_t stride = bound->item_stride;

	if (bound->offset % alignment ||
	    bound->align_log2 < binding->align_log2)
		return refuse(check->report, -EINVAL, FAIL_BINDING, i,
			      alignment);
	if (check->items == 1) {
		if (stride)
			return refuse(check->report, -EINVAL, FAIL_BINDING, i,
				      0);
	} else if (stride ? stride < binding->size || stride % alignment
			  : binding->access & QBNPU_ACCESS_WRITE) {
		return refuse(check->report, -EINVAL, FAIL_BINDING, i,
			      binding->size);
	}
	return 0;
}

/* Step 7 */
static inline int check_range(const struct check *check, uint32_t i)
{
	const struct qbnpu_bound *bound = &check->bound[i];
	uint64_t needed = get_facts(check, i)->size;
	uint64_t end;

	if (check->items > 1)
		needed = add_sat(needed, mul_sat(check->items - 1ull,
						 bound->item_stride));
	if (__builtin_add_overflow(bound->offset, bound->length, &end) ||
	    end > bound->buffer_size)
		return refuse(check->report, -ERANGE, FAIL_BINDING, i,
			      bound->buffer_size);
	if (bound->length < needed)
		return refuse(check->report, -ERANGE, FAIL_BINDING, i, needed);
	return 0;
}

static uint64_t sum_params(uint32_t mask, const uint32_t *params)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < QBNPU_MAX_PARAMS; i++) {
		if (mask >> i & 1)
			sum += params[i];
	}
	return sum;
}

/* Step 8 */
static int check_params(const struct check *check, const uint32_t *params)
{
	const struct qbnpu_facts *facts = check->facts;
	uint32_t i;

	/* the usual program has none, and no pairs of them */
	if (!facts->param_count &&
	    !(params[0] | params[1] | params[2] | params[3]))
		return 0;
	for (i = 0; i < QBNPU_MAX_PARAMS; i++) {
		const struct qbnpu_param *param = &facts->params[i];
		uint32_t value = params[i];

		if (i >= facts->param_count) {
			if (value)
				return refuse(check->report, -EINVAL,
					      FAIL_PARAM, i, 0);
			continue;
		}
		if (value < param->min)
			return refuse(check->report, -EINVAL, FAIL_PARAM, i,
				      param->min);
		if (value > param->max)
			return refuse(check->report, -EINVAL, FAIL_PARAM, i,
				      param->max);
		if (value % param->multiple)
			return refuse(check->report, -EINVAL, FAIL_PARAM, i,
				      param->multiple);
	}
	for (i = 0; i < facts->pair_count; i++) {
		const struct qbnpu_param_pair *pair = &facts->pairs[i];

		if (sum_params(pair->params, params) +
			    sum_params(pair->twice, params) >
		    pair->limit)
			return refuse(check->report, -EINVAL, FAIL_PAIR, i,
				      pair->limit);
	}
	return 0;
}

/*
 * Exactly the same range, item by item, of an OUTPUT and its INPUT. Out of the
 * way: usually no two bindings lie in one buffer.
 */
__attribute__((noinline)) static _Bool is_alias(const struct check *check,
						const struct qbnpu_bound *a,
						const struct qbnpu_bound *b)
{
	const struct qbnpu_binding_facts *bindings = check->facts->bindings;

	return (bindings[a->index].alias == b->index ||
		bindings[b->index].alias == a->index) &&
	       a->offset == b->offset && a->length == b->length &&
	       a->item_stride == b->item_stride;
}

/* Step 9; of two bindings the higher one is told */
static inline int check_overlap(const struct check *check, uint32_t i)
{
	const struct qbnpu_bound *a = &check->bound[i];
	uint32_t j;

	for (j = 0; j < i; j++) {
		const struct qbnpu_bound *b = &check->bound[j];

		if (a->buffer_id != b->buffer_id ||
		    !((a->access | b->access) & QBNPU_ACCESS_WRITE))
			continue;
		if (a->offset < b->offset + b->length &&
		    b->offset < a->offset + a->length && !is_alias(check, a, b))
			return refuse(check->report, -EINVAL, FAIL_BINDING, i,
				      0);
	}
	return 0;
}

static int for_each_binding(const struct check *check,
			    int (*check_one)(const struct check *, uint32_t))
{
	uint32_t i;
	int err;

	for (i = 0; i < check->count; i++) {
		err = check_one(check, i);
		if (err)
			return err;
	}
	return 0;
}

/* Step by step: the first failure decides. */
__attribute__((noinline, cold)) static int
find_failure(const struct check *check, const uint32_t *params)
{
	uint64_t seen = 0;
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < check->count; i++)
		err = check_given(check, i, &seen);
	if (!err)
		err = check_missing(check, seen);
	if (!err)
		err = for_each_binding(check, check_access);
	if (!err)
		err = for_each_binding(check, check_alignment);
	if (!err)
		err = for_each_binding(check, check_range);
	if (!err)
		err = check_params(check, params);
	if (!err)
		err = for_each_binding(check, check_overlap);
	return err;
}

/* The same checks on one walk, which tells no more than that all pass. */
static _Bool is_all_good(const struct check *check, const uint32_t *params)
{
	uint64_t seen = 0;
	uint32_t i;

	for (i = 0; i < check->count; i++) {
		if (check_given(check, i, &seen) || check_access(check, i) ||
		    check_alignment(check, i) || check_range(check, i) ||
		    check_overlap(check, i))
			return 0;
	}
	return !check_missing(check, seen) && !check_params(check, params);
}

int qbnpu_check_bindings(const struct qbnpu_facts *facts,
			 const struct qbnpu_bound *bound, uint32_t count,
			 const uint32_t params[QBNPU_MAX_PARAMS],
			 uint32_t items, struct qbnpu_report *report)
{
	const struct check check = { facts, bound, count, items, report };

	clear_report(report);
	if (!items || items > QBNPU_MAX_ITEMS)
		return refuse(report, -EINVAL, FAIL_STRUCT, 0, QBNPU_MAX_ITEMS);
	return is_all_good(&check, params) ? 0 : find_failure(&check, params);
}

/* Rank, element size and extents; fail_what 0 */
static int check_copy_shape(const struct qbnpu_copy_shape *shape,
			    struct qbnpu_report *report)
{
	uint32_t size = shape->element_size;
	uint32_t axis;

	if (!shape->rank || shape->rank > QBNPU_MAX_RANK)
		return refuse(report, -EINVAL, FAIL_STRUCT, QBNPU_NONE32,
			      QBNPU_MAX_RANK);
	if (!size || size > 16 || size & (size - 1))
		return refuse(report, -EINVAL, FAIL_STRUCT, QBNPU_NONE32, 16);
	for (axis = 0; axis < QBNPU_MAX_RANK; axis++) {
		if (!shape->dims[axis] != (axis >= shape->rank))
			return refuse(report, -EINVAL, FAIL_STRUCT, axis,
				      axis < shape->rank);
	}
	return 0;
}

/* Multiples of the element size, 0 beyond rank (K100) */
static int check_copy_strides(const struct qbnpu_copy_shape *shape,
			      const struct qbnpu_copy_side *side, uint32_t what,
			      struct qbnpu_report *report)
{
	uint32_t size = shape->element_size;
	uint32_t axis;

	if (side->offset % size)
		return refuse(report, -EINVAL, what, QBNPU_NONE32, size);
	for (axis = 0; axis < QBNPU_MAX_RANK; axis++) {
		if (axis < shape->rank ? side->strides[axis] % size
				       : side->strides[axis])
			return refuse(report, -EINVAL, what, axis,
				      axis < shape->rank ? size : 0);
	}
	return 0;
}

/* End of the side's extent, which must be inside its buffer (K100) */
static int check_copy_range(const struct qbnpu_copy_shape *shape,
			    const struct qbnpu_copy_side *side, uint32_t what,
			    uint64_t *end, struct qbnpu_report *report)
{
	uint32_t axis;

	*end = add_sat(side->offset, shape->element_size);
	for (axis = 0; axis < shape->rank; axis++)
		*end = add_sat(*end, mul_sat(shape->dims[axis] - 1ull,
					     side->strides[axis]));
	if (*end > side->buffer_size || *end == ~0ull)
		return refuse(report, -ERANGE, what, QBNPU_NONE32,
			      side->buffer_size);
	return 0;
}

/* K101 */
static int check_copy_overlap(const struct qbnpu_copy_shape *shape,
			      uint64_t src_end, uint64_t dst_end,
			      struct qbnpu_report *report)
{
	const struct qbnpu_copy_side *src = &shape->src;
	const struct qbnpu_copy_side *dst = &shape->dst;
	uint64_t size = shape->element_size;
	uint64_t extent;
	uint32_t axis;

	axis = find_overlapping_axis(shape->rank, shape->dims, dst->strides,
				     size, &extent);
	if (axis != QBNPU_NONE32)
		return refuse(report, -EINVAL, FAIL_DST, axis, extent);
	if (src->buffer_id == dst->buffer_id && src->offset < dst_end &&
	    dst->offset < src_end)
		return refuse(report, -EINVAL, FAIL_DST, QBNPU_NONE32, 0);
	for (axis = 0; axis < shape->rank; axis++)
		size = mul_sat(size, shape->dims[axis]);
	if (size > QBNPU_MAX_COPY_SIZE)
		return refuse(report, -EINVAL, FAIL_STRUCT, QBNPU_NONE32,
			      QBNPU_MAX_COPY_SIZE);
	return 0;
}

int qbnpu_check_copy(const struct qbnpu_copy_shape *shape,
		     struct qbnpu_report *report)
{
	uint64_t src_end = 0;
	uint64_t dst_end = 0;
	int err;

	clear_report(report);
	err = check_copy_shape(shape, report);
	if (!err)
		err = check_copy_strides(shape, &shape->src, FAIL_SRC, report);
	if (!err)
		err = check_copy_strides(shape, &shape->dst, FAIL_DST, report);
	if (!err)
		err = check_copy_range(shape, &shape->src, FAIL_SRC, &src_end,
				       report);
	if (!err)
		err = check_copy_range(shape, &shape->dst, FAIL_DST, &dst_end,
				       report);
	return err ? err : check_copy_overlap(shape, src_end, dst_end, report);
}
