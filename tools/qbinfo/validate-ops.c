// SPDX-License-Identifier: MIT
/*
 * ops: each opcode, on whole numbers so small that every order of additions
 * gives the same bits, beside the answer that is computed here. So one backend
 * can be tried without another, and the reference itself, too.
 */
#include <string.h>
#include <zlib.h>

#include "print.h"
#include "validate.h"

#define F32 QBNPU_DTYPE_F32
#define U8 QBNPU_DTYPE_U8
#define MAX_VALUES 128

/* A program with inputs, and its one output as it must be. */
struct op {
	const char *name;
	struct qbm_writer writer;
	float inputs[3][MAX_VALUES];
	union {
		float numbers[MAX_VALUES];
		unsigned char bytes[MAX_VALUES];
		uint32_t word;
	} wanted;
};

/* -8 .. 8, of each input another sequence. */
static void fill(struct op *op, size_t input)
{
	for (size_t i = 0; i < MAX_VALUES; i++)
		op->inputs[input][i] = (float)((i * 7 + input * 5) % 17) - 8.0f;
}

static void *add(struct op *op, uint32_t opcode, size_t size,
		 const uint16_t *operands, size_t num)
{
	for (size_t i = 0; i < op->writer.num_inputs; i++)
		fill(op, i);
	return qbm_add_command(&op->writer, opcode, size, operands, num);
}

/* ---- opcodes ---- */

static void make_nop(struct op *op)
{
	const uint16_t pair[2] = { qbm_add_input(&op->writer, F32, QBM_DIMS(7)),
				   qbm_add_output(&op->writer, F32,
						  QBM_DIMS(7)) };

	(void)add(op, QBNPU_OP_NOP, sizeof(struct qbnpu_cmd_nop), NULL, 0);
	(void)add(op, QBNPU_OP_COPY, sizeof(struct qbnpu_cmd_copy), pair, 2);
	memcpy(op->wanted.numbers, op->inputs[0], 7 * sizeof(float));
}

static void make_fill(struct op *op)
{
	struct qbnpu_cmd_fill *command;
	uint16_t dst;

	(void)qbm_add_input(&op->writer, U8, QBM_DIMS(16));
	dst = qbm_add_output(&op->writer, U8, QBM_DIMS(3, 5));
	command = add(op, QBNPU_OP_FILL, sizeof(*command), &dst, 1);
	command->value = 0xA7;
	memset(op->wanted.bytes, 0xA7, 15);
}

static void make_copy(struct op *op)
{
	const uint16_t pair[2] = {
		qbm_add_input(&op->writer, F32, QBM_DIMS(3, 5)),
		qbm_add_output(&op->writer, F32, QBM_DIMS(3, 5))
	};

	(void)add(op, QBNPU_OP_COPY, sizeof(struct qbnpu_cmd_copy), pair, 2);
	memcpy(op->wanted.numbers, op->inputs[0], 15 * sizeof(float));
}

static void make_crc(struct op *op)
{
	const uint16_t pair[2] = {
		qbm_add_input(&op->writer, F32, QBM_DIMS(33)),
		qbm_add_output(&op->writer, QBNPU_DTYPE_U32, QBM_DIMS(1))
	};

	(void)add(op, QBNPU_OP_CRC, sizeof(struct qbnpu_cmd_crc), pair, 2);
	op->wanted.word = (uint32_t)crc32_z(
		0, (const unsigned char *)op->inputs[0], 33 * sizeof(float));
}

/* 3x3 with padding, stride 2 downwards, a bias: 5x7x2 to 3x7x3. */
static void make_conv2d(struct op *op)
{
	const uint16_t operands[4] = {
		qbm_add_input(&op->writer, F32, QBM_DIMS(1, 5, 7, 2)),
		qbm_add_input(&op->writer, F32, QBM_DIMS(3, 3, 3, 2)),
		qbm_add_input(&op->writer, F32, QBM_DIMS(3)),
		qbm_add_output(&op->writer, F32, QBM_DIMS(1, 3, 7, 3)),
	};
	struct qbnpu_cmd_conv2d *conv =
		add(op, QBNPU_OP_CONV2D, sizeof(*conv), operands, 4);

	memset(&conv->kh, 1, 6); /* kh kw sh sw dh dw */
	conv->kh = 3;
	conv->kw = 3;
	conv->sh = 2;
	conv->pad_top = 1;
	conv->pad_left = 1;
	conv->pad_bottom = 1;
	conv->pad_right = 1;
	conv->groups = 1;
	conv->post.residual = QBNPU_NONE16;
	conv->post.requant = QBNPU_NONE32;
	op->writer.num_macs = 3 * 7 * 3 * 3 * 3 * 2;
	for (int i = 0; i < 3 * 7 * 3; i++) {
		int y = i / 21 * 2 - 1, x = i / 3 % 7 - 1, k = i % 3;
		float sum = op->inputs[2][k];

		for (int j = 0; j < 3 * 3 * 2; j++) {
			int row = y + j / 6, column = x + j / 2 % 3;

			if (row >= 0 && row < 5 && column >= 0 && column < 7)
				sum += op->inputs[0][(row * 7 + column) * 2 +
						     j % 2] *
				       op->inputs[1][k * 18 + j];
		}
		op->wanted.numbers[i] = sum;
	}
}

static void make_matmul(struct op *op)
{
	const uint16_t operands[4] = {
		qbm_add_input(&op->writer, F32, QBM_DIMS(3, 5)),
		qbm_add_input(&op->writer, F32, QBM_DIMS(5, 2)),
		qbm_add_input(&op->writer, F32, QBM_DIMS(2)),
		qbm_add_output(&op->writer, F32, QBM_DIMS(3, 2)),
	};
	struct qbnpu_cmd_matmul *matmul =
		add(op, QBNPU_OP_MATMUL, sizeof(*matmul), operands, 4);
	const float half = 0.5f;

	memcpy(&matmul->alpha, &half, sizeof(half));
	matmul->post.residual = QBNPU_NONE16;
	matmul->post.requant = QBNPU_NONE32;
	op->writer.num_macs = 3 * 2 * 5;
	for (size_t i = 0; i < 6; i++) {
		float sum = 0;

		for (size_t j = 0; j < 5; j++)
			sum += op->inputs[0][i / 2 * 5 + j] *
			       op->inputs[1][j * 2 + i % 2];
		op->wanted.numbers[i] = half * sum + op->inputs[2][i % 2];
	}
}

/* The largest of 2x2. */
static void make_pool(struct op *op)
{
	const uint16_t pair[2] = {
		qbm_add_input(&op->writer, F32, QBM_DIMS(1, 4, 6, 3)),
		qbm_add_output(&op->writer, F32, QBM_DIMS(1, 2, 3, 3)),
	};
	struct qbnpu_cmd_pool *pool =
		add(op, QBNPU_OP_POOL, sizeof(*pool), pair, 2);

	pool->kind = QBNPU_POOL_MAX;
	memset(&pool->kh, 2, 4); /* kh kw sh sw */
	memset(&pool->dh, 1, 2); /* dh dw */
	for (size_t i = 0; i < 18; i++) {
		size_t first = i / 9 * 36 + i / 3 % 3 * 6 + i % 3;
		float largest = op->inputs[0][first];

		for (size_t j = 1; j < 4; j++) {
			float value =
				op->inputs[0][first + j / 2 * 18 + j % 2 * 3];

			if (value > largest)
				largest = value;
		}
		op->wanted.numbers[i] = largest;
	}
}

static void make_unary(struct op *op)
{
	const uint16_t pair[2] = {
		qbm_add_input(&op->writer, F32, QBM_DIMS(17)),
		qbm_add_output(&op->writer, F32, QBM_DIMS(17))
	};
	struct qbnpu_cmd_unary *unary =
		add(op, QBNPU_OP_UNARY, sizeof(*unary), pair, 2);
	const float quarter = 0.25f;

	unary->fn = QBNPU_UNARY_LEAKY;
	memcpy(&unary->p_a, &quarter, sizeof(quarter));
	for (size_t i = 0; i < 17; i++) {
		float x = op->inputs[0][i];

		op->wanted.numbers[i] = x >= 0 ? x : quarter * x;
	}
}

static void make_binary(struct op *op)
{
	const uint16_t operands[3] = {
		qbm_add_input(&op->writer, F32, QBM_DIMS(2, 9)),
		qbm_add_input(&op->writer, F32, QBM_DIMS(2, 9)),
		qbm_add_output(&op->writer, F32, QBM_DIMS(2, 9)),
	};
	struct qbnpu_cmd_binary *binary =
		add(op, QBNPU_OP_BINARY, sizeof(*binary), operands, 3);

	binary->fn = QBNPU_BINARY_SUB;
	for (size_t i = 0; i < 18; i++)
		op->wanted.numbers[i] = op->inputs[0][i] - op->inputs[1][i];
}

static void make_cast(struct op *op)
{
	const uint16_t operands[4] = {
		qbm_add_input(&op->writer, F32, QBM_DIMS(17)),
		qbm_add_output(&op->writer, U8, QBM_DIMS(17)),
	};
	struct qbnpu_cmd_cast *cast =
		add(op, QBNPU_OP_CAST, sizeof(*cast), operands, 2);

	cast->scale = QBNPU_NONE16;
	cast->zero_point = QBNPU_NONE16;
	for (size_t i = 0; i < 17; i++)
		op->wanted.bytes[i] =
			(unsigned char)(op->inputs[0][i] > 0 ? op->inputs[0][i]
							     : 0);
}

/* The time of the device's work, between those of submit and end. */
static void make_timestamp(struct op *op)
{
	uint16_t dst;

	(void)qbm_add_input(&op->writer, U8, QBM_DIMS(16));
	dst = qbm_add_output(&op->writer, QBNPU_DTYPE_U64, QBM_DIMS(1));
	(void)add(op, QBNPU_OP_TIMESTAMP, sizeof(struct qbnpu_cmd_timestamp),
		  &dst, 1);
}

static const struct {
	const char *name;
	void (*make)(struct op *op);
} ops[] = {
	{ "NOP", make_nop },       { "TIMESTAMP", make_timestamp },
	{ "FILL", make_fill },     { "COPY", make_copy },
	{ "CRC", make_crc },       { "CONV2D", make_conv2d },
	{ "MATMUL", make_matmul }, { "POOL", make_pool },
	{ "UNARY", make_unary },   { "BINARY", make_binary },
	{ "CAST", make_cast },
};
#define NUM_OPS (sizeof(ops) / sizeof(*ops))

/* ---- the test ---- */

static bool check(struct validate *validate, const struct op *op,
		  const struct validate_job *job, int64_t start)
{
	const void *out = qbrt_pinned_memory_get_data(job->outputs[0]);
	size_t size = qbrt_pinned_memory_get_nbytes(job->outputs[0]);
	const unsigned char *bytes = out;
	int64_t time;
	size_t i = 0;

	if (!strcmp(op->name, "TIMESTAMP")) {
		memcpy(&time, out, sizeof(time));
		return (time >= start && time <= validate_now()) ||
		       validate_fail(validate,
				     "TIMESTAMP gives %lld, not a time between "
				     "submit and end",
				     (long long)time);
	}
	while (i < size && bytes[i] == op->wanted.bytes[i])
		i++;
	return i == size ||
	       validate_fail(validate, "%s gives a wrong byte %zu of %zu",
			     op->name, i, size);
}

static bool try_op(struct validate *validate, struct op *op)
{
	struct validate_job job;
	int64_t start;
	bool is_good = validate_launch(validate, &op->writer, &job);

	for (size_t i = 0; i < job.num_inputs && is_good; i++)
		memcpy(qbrt_pinned_memory_get_data(job.inputs[i]),
		       op->inputs[i],
		       qbrt_pinned_memory_get_nbytes(job.inputs[i]));
	start = validate_now();
	is_good =
		is_good &&
		validate_try(validate, op->name, validate_infer(&job, 0, 0)) &&
		check(validate, op, &job, start);
	validate_dispose(&job);
	return is_good;
}

static bool is_offered(const struct validate *validate, const struct op *op)
{
	const struct value *features =
		record_see(validate->device, FIELD_ISA_FEATURES);

	if (!op->writer.features)
		return true;
	for (size_t i = 0; i < features->texts.num; i++) {
		if (!strcmp(features->texts.items[i], "diag"))
			return true;
	}
	return false;
}

bool validate_ops(struct validate *validate)
{
	const char *backend = record_get_text(validate->device, FIELD_BACKEND);
	struct op *op = inventory_alloc(sizeof(*op));
	size_t num = 0;

	for (size_t i = 0; i < NUM_OPS; i++) {
		memset(op, 0, sizeof(*op));
		op->name = ops[i].name;
		qbm_begin(&op->writer);
		ops[i].make(op);
		if (!is_offered(validate, op))
			continue;
		if (!try_op(validate, op))
			return false;
		num++;
	}
	return validate_ok(validate,
			   "%zu opcodes give the answers computed here%s%s",
			   num, backend ? "; backend " : "", backend ?: "");
}
