// SPDX-License-Identifier: MIT
/*
 * Rows V07 to V30 of the validator: what the tables must hold, row by row and
 * each over its whole table. A function checks one entry. What it relies on is
 * what the rows before it have refused in every entry.
 */
#include "validate-parts.h"

enum table {
	TABLE_HEADER,
	TABLE_BINDINGS,
	TABLE_PARAMS,
	TABLE_TENSORS
};

/* V07 */
static void check_binding_reserved(struct validator *v, uint32_t i)
{
	const struct qbnpu_binding_desc *binding = &v->bindings[i];

	if (binding->flags ||
	    !is_zero(binding->reserved, sizeof(binding->reserved)))
		note(v, 7, i, 0);
}

/* V07 */
static void check_tensor_reserved(struct validator *v, uint32_t i)
{
	const struct qbnpu_tensor *t = &v->tensors[i];

	if (t->flags || t->reserved0 || t->reserved1)
		note(v, 7, i, 0);
}

/* V08 */
static void check_modes(struct validator *v, uint32_t index)
{
	const struct qbnpu_program *program = v->program;

	if (program->core_mode != QBNPU_MODE_SINGLE &&
	    program->core_mode != QBNPU_MODE_GLOBAL4 &&
	    program->core_mode != QBNPU_MODE_GLOBAL8)
		note(v, 8, HEADER_FIELD(core_mode), 0);
	else if (program->list_count != 1)
		note(v, 8, HEADER_FIELD(list_count), 1);
	else if (!program->batch)
		note(v, 8, HEADER_FIELD(batch), 1);
	else if (v->list->core)
		note(v, 8, index, 0);
}

/* V10 */
static void check_kind(struct validator *v, uint32_t i)
{
	static const uint8_t accesses[] = {
		[QBNPU_BINDING_WEIGHTS] = QBNPU_ACCESS_READ,
		[QBNPU_BINDING_SCRATCH] =
			QBNPU_ACCESS_READ | QBNPU_ACCESS_WRITE,
		[QBNPU_BINDING_STATE] = QBNPU_ACCESS_READ | QBNPU_ACCESS_WRITE,
		[QBNPU_BINDING_INPUT] = QBNPU_ACCESS_READ,
		[QBNPU_BINDING_OUTPUT] = QBNPU_ACCESS_WRITE,
	};
	const struct qbnpu_binding_desc *binding = &v->bindings[i];
	uint32_t access = binding->access;
	uint32_t j;

	if (!binding->kind || binding->kind >= NUM(accesses)) {
		note(v, 10, i, 0);
		return;
	}
	if (binding->kind == QBNPU_BINDING_OUTPUT)
		access &= ~QBNPU_ACCESS_READ;
	if (access != accesses[binding->kind])
		note(v, 10, i, accesses[binding->kind]);
	for (j = 0; j < i && binding->kind < QBNPU_BINDING_INPUT; j++) {
		if (v->bindings[j].kind == binding->kind)
			note(v, 10, i, 1);
	}
}

static _Bool is_io(const struct qbnpu_binding_desc *binding)
{
	return binding->kind >= QBNPU_BINDING_INPUT;
}

/* V11 */
static void check_size(struct validator *v, uint32_t i)
{
	const struct qbnpu_binding_desc *binding = &v->bindings[i];

	if (binding->align_log2 < QBNPU_MIN_ALIGN_LOG2 ||
	    binding->align_log2 > QBNPU_MAX_ALIGN_LOG2)
		note(v, 11, i, QBNPU_MAX_ALIGN_LOG2);
	else if (!binding->size || binding->size > v->caps->max_binding_size)
		note(v, 11, i, v->caps->max_binding_size);
	else if ((binding->kind == QBNPU_BINDING_SCRATCH ||
		  binding->kind == QBNPU_BINDING_STATE) &&
		 binding->size % 64)
		note(v, 11, i, 64);
}

/* V12 */
static void check_alias(struct validator *v, uint32_t i)
{
	const struct qbnpu_binding_desc *binding = &v->bindings[i];
	uint32_t alias = binding->alias;
	uint32_t j;

	if (alias == QBNPU_NONE16)
		return;
	if (binding->kind != QBNPU_BINDING_OUTPUT ||
	    alias >= v->program->binding_count ||
	    v->bindings[alias].kind != QBNPU_BINDING_INPUT ||
	    v->bindings[alias].size != binding->size)
		note(v, 12, i, binding->size);
	for (j = 0; j < i; j++) {
		if (v->bindings[j].alias == alias)
			note(v, 12, i, alias);
	}
}

/* A dtype or rank that V20 is going to refuse counts as dense. */
static _Bool is_dense(const struct qbnpu_tensor *t, uint64_t size)
{
	uint64_t stride;
	uint32_t i;

	if (t->dtype >= QBNPU_NUM_DTYPES || t->rank > QBNPU_MAX_RANK)
		return 1;
	stride = size_of(t);
	for (i = t->rank; i-- > 0;) {
		if (t->strides[i] != stride)
			return 0;
		stride = mul_sat(stride, t->dims[i]);
	}
	return stride == size;
}

/* V13 */
static void check_io(struct validator *v, uint32_t i)
{
	const struct qbnpu_binding_desc *binding = &v->bindings[i];
	const struct qbnpu_tensor *t;

	if (!is_io(binding)) {
		if (binding->tensor != QBNPU_NONE16 ||
		    binding->io != QBNPU_NONE32)
			note(v, 13, i, 0);
		return;
	}
	if (binding->tensor >= v->program->tensor_count) {
		note(v, 13, i, v->program->tensor_count);
		return;
	}
	t = &v->tensors[binding->tensor];
	if (t->binding != i || t->offset || t->span != binding->size ||
	    !is_dense(t, binding->size))
		note(v, 13, i, binding->size);
}

/* V14 */
static void check_io_twice(struct validator *v, uint32_t i)
{
	uint32_t j;

	for (j = 0; j < i && is_io(&v->bindings[i]); j++) {
		if (v->bindings[j].kind == v->bindings[i].kind &&
		    v->bindings[j].io == v->bindings[i].io)
			note(v, 14, i, j);
	}
}

/* V16 */
static void check_param(struct validator *v, uint32_t i)
{
	const struct qbnpu_param *param = &v->params[i];

	if (!param->multiple || param->min > param->max ||
	    param->max > QBNPU_MAX_PARAM_VALUE)
		note(v, 16, i, QBNPU_MAX_PARAM_VALUE);
	else if (param->min % param->multiple || param->max % param->multiple)
		note(v, 16, i, param->multiple);
	else if (param->kind < QBNPU_PARAM_TOKENS ||
		 param->kind > QBNPU_PARAM_OTHER)
		note(v, 16, i, QBNPU_PARAM_OTHER);
	else if (param->kind == QBNPU_PARAM_TOKENS && !param->min)
		note(v, 16, i, 1);
}

/* V20 */
static void check_shape(struct validator *v, uint32_t i)
{
	const struct qbnpu_tensor *t = &v->tensors[i];
	uint32_t axis;

	if (t->dtype >= QBNPU_NUM_DTYPES || !t->rank ||
	    t->rank > QBNPU_MAX_RANK) {
		note(v, 20, i, QBNPU_MAX_RANK);
		return;
	}
	if (t->binding >= v->program->binding_count)
		note(v, 20, i, v->program->binding_count);
	for (axis = 0; axis < QBNPU_MAX_RANK; axis++) {
		if (axis < t->rank) {
			if (!t->dims[axis] ||
			    t->dims[axis] > v->caps->max_extent)
				note(v, 20, i, v->caps->max_extent);
		} else if (t->dims[axis] || t->strides[axis] ||
			   t->extent_params[axis]) {
			note(v, 20, i, t->rank);
		}
	}
}

/* V21 */
static void check_strides(struct validator *v, uint32_t i)
{
	const struct qbnpu_tensor *t = &v->tensors[i];
	uint32_t axis;

	for (axis = 0; axis < t->rank; axis++) {
		if (t->strides[axis] > QBNPU_MAX_STRIDE ||
		    t->strides[axis] % size_of(t))
			note(v, 21, i, QBNPU_MAX_STRIDE);
	}
}

/* V22. A window that is missing or too small is V25's. */
static void check_span(struct validator *v, uint32_t i)
{
	const struct qbnpu_tensor *t = &v->tensors[i];
	uint64_t span = size_of(t);
	uint32_t axis;

	for (axis = 0; axis < t->rank; axis++) {
		uint64_t extent = t->dims[axis];

		if (axis == t->offset_axis && t->offset_params && t->window)
			extent = t->window;
		span = add_sat(span, mul_sat(extent - 1, t->strides[axis]));
	}
	if (t->span != span)
		note(v, 22, i, span);
	else if (span > v->caps->max_span)
		note(v, 22, i, v->caps->max_span);
}

/* V23 */
static void check_place(struct validator *v, uint32_t i)
{
	const struct qbnpu_tensor *t = &v->tensors[i];
	uint64_t size = v->bindings[t->binding].size;

	if (t->offset % size_of(t))
		note(v, 23, i, size_of(t));
	else if (add_sat(t->offset, t->span) > size)
		note(v, 23, i, size);
}

/* V24 */
static void check_quantisation(struct validator *v, uint32_t i)
{
	const struct qbnpu_tensor *t = &v->tensors[i];
	int32_t min = 0;
	int32_t max = 0;

	switch (t->dtype) {
	case QBNPU_DTYPE_U8:
		max = 255;
		break;
	case QBNPU_DTYPE_I8:
		min = -128;
		max = 127;
		break;
	case QBNPU_DTYPE_I32:
		break;
	default:
		if (t->scale || t->zero_point || t->quant != QBNPU_NONE32 ||
		    t->quant_axis != QBNPU_NONE8)
			note(v, 24, i, 0);
		return;
	}
	if (t->zero_point < min || t->zero_point > max)
		note(v, 24, i, (uint64_t)max);
	if (t->quant == QBNPU_NONE32) {
		if (t->quant_axis != QBNPU_NONE8 || !is_scale(t->scale))
			note(v, 24, i, SCALE_MAX);
	} else if (t->quant_axis >= t->rank || t->scale ||
		   !are_scales(v, t->quant, t->dims[t->quant_axis])) {
		note(v, 24, i, v->program->pool_count);
	}
}

/* PF03's pair of a tensor with a run-time offset; equal pairs are one. */
static void add_pair(struct validator *v, const struct qbnpu_tensor *t)
{
	struct qbnpu_facts *facts = v->facts;
	uint32_t offset = t->offset_params;
	uint32_t extent = t->extent_params[t->offset_axis];
	uint64_t limit = t->window - (extent ? 0 : t->dims[t->offset_axis]);
	struct qbnpu_param_pair *pair;

	for (pair = facts->pairs; pair < facts->pairs + facts->pair_count;
	     pair++) {
		if (pair->params == (offset | extent) &&
		    pair->twice == (offset & extent)) {
			if (limit < pair->limit)
				pair->limit = limit;
			return;
		}
	}
	pair->params = offset | extent;
	pair->twice = offset & extent;
	pair->limit = limit;
	facts->pair_count++;
}

/* Sums of the minima and maxima of a set of parameters, and what kinds. */
static uint64_t sum_params(const struct validator *v, uint32_t mask,
			   uint64_t *min, uint32_t *kinds)
{
	uint64_t max = 0;
	uint32_t i;

	*min = 0;
	*kinds = 0;
	for (i = 0; i < v->program->param_count; i++) {
		if (mask >> i & 1) {
			*min += v->params[i].min;
			max += v->params[i].max;
			*kinds |= 1u << v->params[i].kind;
		}
	}
	return max;
}

/* V25 */
static void check_tensor_params(struct validator *v, uint32_t i)
{
	const struct qbnpu_tensor *t = &v->tensors[i];
	uint32_t count = v->program->param_count;
	uint64_t max, min;
	uint32_t axis, kinds;

	for (axis = 0; axis < t->rank; axis++) {
		uint32_t mask = t->extent_params[axis];

		if (!mask)
			continue;
		max = sum_params(v, mask, &min, &kinds);
		if (mask >> count || max != t->dims[axis] || !min ||
		    kinds == 1u << QBNPU_PARAM_CACHE)
			note(v, 25, i, max);
	}
	if (has_params(t) &&
	    v->bindings[t->binding].kind == QBNPU_BINDING_WEIGHTS)
		note(v, 25, i, 0);
	if (!t->offset_params) {
		if (t->offset_axis != QBNPU_NONE8 || t->window)
			note(v, 25, i, 0);
		return;
	}
	if (t->offset_axis >= t->rank || t->offset_params >> count) {
		note(v, 25, i, count);
		return;
	}
	max = sum_params(v, t->offset_params, &min, &kinds) +
	      t->dims[t->offset_axis];
	if (t->window < max)
		note(v, 25, i, max);
	else if (!v->rule)
		add_pair(v, t);
}

/* V26 */
static void check_overlap_self(struct validator *v, uint32_t i)
{
	const struct qbnpu_tensor *t = &v->tensors[i];
	uint64_t extent;

	if (v->marks[i] & MARK_DST &&
	    find_overlapping_axis(t->rank, t->dims, t->strides, size_of(t),
				  &extent) != QBNPU_NONE32)
		note(v, 26, i, extent);
}

/* V30 */
static void check_list(struct validator *v, uint32_t index)
{
	const struct qbnpu_list *list = v->list;

	if (list->offset || list->size != v->program->commands_size ||
	    list->size % 16 || v->is_short)
		note(v, 30, index, v->program->commands_size);
	else if (list->command_count != v->program->command_count)
		note(v, 30, index, v->program->command_count);
}

/* V07 to V30 in their order, each over its whole table */
static const struct {
	enum table table;
	void (*check)(struct validator *v, uint32_t index);
} rows[] = {
	{ TABLE_BINDINGS, check_binding_reserved },
	{ TABLE_TENSORS, check_tensor_reserved },
	{ TABLE_HEADER, check_modes },
	{ TABLE_BINDINGS, check_kind },
	{ TABLE_BINDINGS, check_size },
	{ TABLE_BINDINGS, check_alias },
	{ TABLE_BINDINGS, check_io },
	{ TABLE_BINDINGS, check_io_twice },
	{ TABLE_PARAMS, check_param },
	{ TABLE_TENSORS, check_shape },
	{ TABLE_TENSORS, check_strides },
	{ TABLE_TENSORS, check_span },
	{ TABLE_TENSORS, check_place },
	{ TABLE_TENSORS, check_quantisation },
	{ TABLE_TENSORS, check_tensor_params },
	{ TABLE_TENSORS, check_overlap_self },
	{ TABLE_HEADER, check_list },
};

void qbnpu_check_tables(struct validator *v)
{
	const uint32_t counts[] = {
		[TABLE_HEADER] = 1,
		[TABLE_BINDINGS] = v->program->binding_count,
		[TABLE_PARAMS] = v->program->param_count,
		[TABLE_TENSORS] = v->program->tensor_count,
	};
	uint32_t row, i;

	for (row = 0; row < NUM(rows); row++) {
		for (i = 0; i < counts[rows[row].table]; i++) {
			tick(v);
			rows[row].check(v, i);
			if (v->rule)
				return;
		}
	}
}
