// SPDX-License-Identifier: MIT
/*
 * Random views, and one command over them. The buffers are exactly as large
 * as their views, so that ASan sees a step outside; gaps inside are compared
 * with what they were.
 */
#include "ref-case.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

void ref_case_begin(struct ref_case *c, uint64_t seed)
{
	*c = (struct ref_case){ .random = seed * 0x9e3779b97f4a7c15u + 1 };
}

void ref_case_end(struct ref_case *c)
{
	uint32_t i;

	for (i = 0; i < c->num_tensors; i++)
		free(c->buffers[i]);
	*c = (struct ref_case){ 0 };
}

/* splitmix64 */
uint64_t ref_case_random(struct ref_case *c)
{
	uint64_t z = c->random += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

uint32_t ref_case_below(struct ref_case *c, uint32_t end)
{
	return (uint32_t)(ref_case_random(c) % end);
}

uint32_t ref_case_between(struct ref_case *c, uint32_t min, uint32_t max)
{
	return min + ref_case_below(c, max - min + 1);
}

double ref_case_real(struct ref_case *c, double min, double max)
{
	return min +
	       (max - min) * ((double)(ref_case_random(c) >> 11) * 0x1p-53);
}

uint32_t ref_case_dims(struct ref_case *c, uint32_t *dims, uint32_t max)
{
	const uint32_t rank = ref_case_between(c, 1, QBNPU_MAX_RANK);
	/* now and then one axis that is longer than a block */
	const uint32_t longest = ref_case_below(c, 2 * rank);
	uint32_t left = max, axis;

	for (axis = 0; axis < rank; axis++) {
		dims[axis] = ref_case_between(c, 1, 6);
		if (dims[axis] > left)
			dims[axis] = 1;
		left /= dims[axis];
	}
	if (longest < rank)
		dims[longest] = ref_case_between(c, 1, left + 1);
	return rank;
}

static void set_strides(struct ref_case *c, struct qbnpu_operand *operand,
			enum ref_case_layout layout)
{
	uint32_t order[QBNPU_MAX_RANK], i;
	uint64_t extent = operand->element_size;

	for (i = 0; i < operand->rank; i++)
		order[i] = operand->rank - 1 - i;
	for (i = 0; layout != REF_CASE_DENSE && i < operand->rank; i++) {
		const uint32_t other = ref_case_below(c, operand->rank);
		const uint32_t axis = order[i];

		/* half of the views stay row-major, with gaps */
		if (c->random & 0x10000)
			continue;
		order[i] = order[other];
		order[other] = axis;
	}
	for (i = 0; i < operand->rank; i++) {
		uint64_t *stride = &operand->strides[order[i]];
		uint64_t gap = 0;

		if (layout != REF_CASE_DENSE && !ref_case_below(c, 3))
			gap = ref_case_below(c, 4);
		*stride = extent + gap * operand->element_size;
		if (layout == REF_CASE_SRC && !ref_case_below(c, 5))
			*stride = operand->element_size *
				  (uint64_t)ref_case_below(c, 2);
		else
			extent = *stride * (operand->dims[order[i]] - 1) +
				 extent;
	}
}

uint16_t ref_case_tensor(struct ref_case *c, enum ref_case_layout layout,
			 uint32_t dtype, uint32_t rank, const uint32_t *dims)
{
	const uint32_t number = c->num_tensors++;
	struct qbnpu_operand *operand = &c->operands[number];
	size_t size, i;
	uint32_t axis;

	ck_assert_uint_lt(number, REF_CASE_TENSORS);
	*operand = (struct qbnpu_operand){
		.binding = number,
		.element_size = qbnpu_dtype_size(dtype),
		.dtype = dtype,
		.rank = rank,
	};
	memcpy(operand->dims, dims, rank * sizeof(*dims));
	set_strides(c, operand, layout);
	if (layout != REF_CASE_DENSE)
		operand->offset =
			(uint64_t)ref_case_below(c, 4) * operand->element_size;
	size = operand->offset + operand->element_size;
	for (axis = 0; axis < rank; axis++)
		size += operand->strides[axis] * (dims[axis] - 1);
	c->sizes[number] = size;
	c->buffers[number] = malloc(size);
	ck_assert_ptr_nonnull(c->buffers[number]);
	for (i = 0; i < size; i++)
		c->buffers[number][i] = (uint8_t)ref_case_random(c);
	return (uint16_t)number;
}

uint16_t ref_case_same(struct ref_case *c, uint16_t tensor)
{
	const uint32_t number = c->num_tensors++;

	ck_assert_uint_lt(number, REF_CASE_TENSORS);
	c->operands[number] = c->operands[tensor];
	return (uint16_t)number;
}

size_t ref_case_count(const struct ref_case *c, uint16_t tensor)
{
	const struct qbnpu_operand *operand = &c->operands[tensor];
	size_t count = 1;
	uint32_t axis;

	for (axis = 0; axis < operand->rank; axis++)
		count *= operand->dims[axis];
	return count;
}

void *ref_case_at(const struct ref_case *c, uint16_t tensor, size_t element)
{
	const struct qbnpu_operand *operand = &c->operands[tensor];
	uint8_t *at = c->buffers[operand->binding] + operand->offset;
	uint32_t axis;

	for (axis = operand->rank; axis-- > 0;) {
		at += element % operand->dims[axis] * operand->strides[axis];
		element /= operand->dims[axis];
	}
	return at;
}

void *ref_case_at_index(const struct ref_case *c, uint16_t tensor,
			const uint32_t *index)
{
	const struct qbnpu_operand *operand = &c->operands[tensor];
	uint8_t *at = c->buffers[operand->binding] + operand->offset;
	uint32_t axis;

	for (axis = 0; axis < operand->rank; axis++)
		at += index[axis] * operand->strides[axis];
	return at;
}

float ref_case_f32(const struct ref_case *c, uint16_t tensor, size_t element)
{
	float value;

	memcpy(&value, ref_case_at(c, tensor, element), sizeof(value));
	return value;
}

void ref_case_set_f32(struct ref_case *c, uint16_t tensor, size_t element,
		      float value)
{
	memcpy(ref_case_at(c, tensor, element), &value, sizeof(value));
}

void ref_case_fill_f32(struct ref_case *c, uint16_t tensor, double min,
		       double max)
{
	const size_t count = ref_case_count(c, tensor);
	size_t i;

	for (i = 0; i < count; i++)
		ref_case_set_f32(c, tensor, i,
				 (float)ref_case_real(c, min, max));
}

#define GET(type) \
	do { \
		type value; \
		memcpy(&value, at, sizeof(value)); \
		return (long double)value; \
	} while (0)

long double ref_case_int(const struct ref_case *c, uint16_t tensor,
			 size_t element)
{
	const void *at = ref_case_at(c, tensor, element);

	switch (c->operands[tensor].dtype) {
	case QBNPU_DTYPE_U8:
		GET(uint8_t);
	case QBNPU_DTYPE_I8:
		GET(int8_t);
	case QBNPU_DTYPE_U16:
		GET(uint16_t);
	case QBNPU_DTYPE_I16:
		GET(int16_t);
	case QBNPU_DTYPE_U32:
		GET(uint32_t);
	case QBNPU_DTYPE_I32:
		GET(int32_t);
	case QBNPU_DTYPE_U64:
		GET(uint64_t);
	case QBNPU_DTYPE_I64:
		GET(int64_t);
	case QBNPU_DTYPE_BOOL:
		return *(const uint8_t *)at != 0;
	default:
		ck_abort_msg("not an integer");
	}
	return 0;
}

/* A pace that counts its looks. */
struct case_pace {
	struct qbnpu_pace pace;
	struct ref_case *c;
};

static int look(struct qbnpu_pace *pace)
{
	struct case_pace *own = (struct case_pace *)(void *)pace;

	own->c->num_looks++;
	if (own->c->looks_left && !--own->c->looks_left)
		return -ECANCELED;
	pace->left = QBNPU_PACE_UNITS;
	return 0;
}

static int prepare(struct ref_case *c, const void *cmd,
		   struct qbnpu_prepared **prepared)
{
	struct qbnpu_prepare given = { .cmd = cmd, .operands = c->operands };
	uint32_t i;

	for (i = 0; i < c->num_tensors; i++) {
		if (c->operands[i].is_constant)
			given.weights = c->buffers[c->operands[i].binding];
	}
	return qbnpu_kernels_ref.prepare(&given, prepared);
}

int ref_case_prepare(struct ref_case *c, const void *cmd)
{
	struct qbnpu_prepared *prepared = NULL;
	const int err = prepare(c, cmd, &prepared);

	if (!err)
		qbnpu_kernels_ref.free(prepared);
	return err;
}

/* Puts dst's elements into an image of its buffer from before the run. */
static void take_elements(const struct ref_case *c, uint16_t dst,
			  uint8_t *before)
{
	const uint32_t binding = c->operands[dst].binding;
	const size_t count = ref_case_count(c, dst);
	size_t i;

	for (i = 0; i < count; i++) {
		const uint8_t *at = ref_case_at(c, dst, i);

		memcpy(before + (at - c->buffers[binding]), at,
		       c->operands[dst].element_size);
	}
}

static int run_prepared(struct ref_case *c,
			const struct qbnpu_prepared *prepared)
{
	const size_t size = qbnpu_kernels_ref.scratch_size(prepared);
	struct case_pace pace = {
		.pace = { .left = QBNPU_PACE_UNITS, .look = look },
		.c = c,
	};
	const struct qbnpu_run run = {
		.bases = c->buffers,
		.scratch = size ? aligned_alloc(64, qbrt_round_up(size, 64))
				: NULL,
		.pace = &pace.pace,
	};
	int err;

	/* what an earlier command left behind must not matter */
	if (size)
		memset(run.scratch, 0xff, size);
	err = qbnpu_kernels_ref.run(prepared, &run);
	free(run.scratch);
	return err;
}

int ref_case_run(struct ref_case *c, const void *cmd, uint16_t dst)
{
	struct qbnpu_prepared *prepared = NULL;
	uint8_t *before[REF_CASE_TENSORS];
	uint32_t i;
	int err;

	for (i = 0; i < c->num_tensors; i++) {
		before[i] = NULL;
		if (!c->buffers[i])
			continue;
		before[i] = malloc(c->sizes[i]);
		memcpy(before[i], c->buffers[i], c->sizes[i]);
	}
	ck_assert_int_eq(prepare(c, cmd, &prepared), 0);
	err = run_prepared(c, prepared);
	qbnpu_kernels_ref.free(prepared);
	take_elements(c, dst, before[c->operands[dst].binding]);
	for (i = 0; i < c->num_tensors; i++) {
		if (before[i])
			ck_assert_mem_eq(before[i], c->buffers[i], c->sizes[i]);
		free(before[i]);
	}
	return err;
}

struct qbnpu_cmd ref_case_head(uint32_t opcode, size_t size)
{
	return (struct qbnpu_cmd){
		.opcode = (uint16_t)opcode,
		.size16 = (uint16_t)(size / 16),
	};
}

uint32_t ref_case_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

struct qbnpu_post ref_case_no_post(void)
{
	return (struct qbnpu_post){
		.residual = QBNPU_NONE16,
		.requant = QBNPU_NONE32,
	};
}

/* |y - t| <= units of the last place of t */
void ref_case_check_ulp(float y, long double t, long double units,
			const char *what, uint32_t fn, long double x)
{
	long double ulp;

	if (isinf((float)t) || isnan(t)) {
		ref_case_demand((float)t == y || (isnan(t) && isnan(y)),
				"%s %u of %La: %a, not %La", what, fn, x,
				(double)y, t);
		return;
	}
	ulp = ldexpl(1, (t == 0 || ilogbl(t) < -126 ? -126 : ilogbl(t)) - 23);
	ref_case_demand(fabsl((long double)y - t) <= units * ulp,
			"%s %u of %La: %a, not %La", what, fn, x, (double)y, t);
}

uint16_t ref_case_random_f32(struct ref_case *c, enum ref_case_layout layout,
			     uint32_t rank, const uint32_t *dims, double min,
			     double max)
{
	const uint16_t tensor =
		ref_case_tensor(c, layout, QBNPU_DTYPE_F32, rank, dims);

	ref_case_fill_f32(c, tensor, min, max);
	return tensor;
}

void ref_case_read_f32(const struct ref_case *c, uint16_t tensor, float *values)
{
	size_t i;

	for (i = 0; i < ref_case_count(c, tensor); i++)
		values[i] = ref_case_f32(c, tensor, i);
}

/* Random bits, small numbers, and the ends of the type. */
void ref_case_fill_ints(struct ref_case *c, uint16_t tensor)
{
	const uint32_t size = c->operands[tensor].element_size;
	uint64_t bits;
	size_t i;

	for (i = 0; i < ref_case_count(c, tensor); i++) {
		bits = ref_case_random(c);
		switch (ref_case_below(c, 4)) {
		case 0:
			bits = (uint64_t)(int64_t)(bits % 11) - 5;
			break;
		case 1:
			bits = (1ull << (8 * size - 1)) - bits % 2;
			break;
		default:
			break;
		}
		memcpy(ref_case_at(c, tensor, i), &bits, size);
	}
}

void ref_case_read_ints(const struct ref_case *c, uint16_t tensor,
			__int128 *values)
{
	size_t i;

	for (i = 0; i < ref_case_count(c, tensor); i++)
		values[i] = (__int128)ref_case_int(c, tensor, i);
}

/* The element is the low bits of the model's value. */
void ref_case_check_int(const struct ref_case *c, uint16_t dst, size_t i,
			__int128 expected)
{
	const uint64_t low = (uint64_t)expected;

	ref_case_demand(!memcmp(ref_case_at(c, dst, i), &low,
				c->operands[dst].element_size),
			"element %zu is not %lld", i, (long long)low);
}
