// SPDX-License-Identifier: MIT
/*
 * model --commands: the commands of each program of a variant, by the published
 * format (docs/spec/device-and-format.md, sections 3.4, 4 and 5.2). The library
 * has validated them; what another program made of the file since then reads as
 * nothing or ends the list.
 */
#include <string.h>

#include <qbruntime/qbrt.h>

#include "collect.h"
#include "qbm-reader.h"

#define NUM(array) (sizeof(array) / sizeof(*(array)))
#define NONE16 0xFFFFu
#define NONE32 UINT32_MAX
#define PROGRAM 0x474F5250u    /* PROG */
#define DEBUG_INFO 0x49474244u /* DBGI */
#define NUM_MODES 5

/* Where the numbers of tensors stand in a command. */
static const struct opcode {
	uint16_t code;
	const char *name;
	uint8_t reads[6], writes[2];
} opcodes[] = {
	{ 0x0000, "nop", { 0 }, { 0 } },
	{ 0x0001, "barrier", { 0 }, { 0 } },
	{ 0x0002, "timestamp", { 0 }, { 16 } },
	{ 0x0003, "fill", { 0 }, { 16 } },
	{ 0x0004, "copy", { 16 }, { 18 } },
	{ 0x0005, "crc", { 16 }, { 18 } },
	{ 0x0010, "conv2d", { 16, 18, 20, 48 }, { 22 } },
	{ 0x0011, "deconv2d", { 16, 18, 20, 48 }, { 22 } },
	{ 0x0012, "matmul", { 16, 18, 20, 32 }, { 22 } },
	{ 0x0013, "pool", { 16 }, { 18 } },
	{ 0x0020, "unary", { 16 }, { 18 } },
	{ 0x0021, "binary", { 16, 18 }, { 20 } },
	{ 0x0022, "compare", { 16, 18 }, { 20 } },
	{ 0x0023, "select", { 16, 18, 20 }, { 22 } },
	{ 0x0024, "reduce", { 16 }, { 18 } },
	{ 0x0025, "softmax", { 16, 20 }, { 18 } },
	{ 0x0026, "layernorm", { 16, 18, 20 }, { 22 } },
	{ 0x0030, "resize", { 16 }, { 18 } },
	{ 0x0031, "pad_reflect", { 16 }, { 18 } },
	{ 0x0032, "gather", { 16, 18 }, { 20 } },
	{ 0x0040, "quant", { 16, 20, 22 }, { 18 } },
	{ 0x0041, "cast", { 16, 22, 24 }, { 18 } },
	{ 0x0042, "lut8", { 16, 18 }, { 20 } },
	{ 0x0050, "lstm_cell", { 16, 18, 20, 22, 24, 26 }, { 28, 30 } },
};

/* One program, and what names its commands. */
struct program {
	const struct qbm_reader *reader;
	uint32_t number, modes;
	struct qbm_bytes bytes, debug;
};

static struct qbm_bytes read_part(const struct qbm_reader *reader,
				  uint32_t kind, uint32_t instance)
{
	for (size_t i = 0; i < reader->num_sections; i++) {
		const struct qbm_part *part = &reader->sections[i];

		if (part->kind == kind && part->instance == instance)
			return qbm_read_bytes(reader->fd, part->offset,
					      part->size);
	}
	return (struct qbm_bytes){ .size = 0 };
}

/* ---- tensors ---- */

/* Its place in the program; what is none is behind the end. */
static size_t find_tensor(const struct program *program, size_t number)
{
	if (number >= qbm_get32(&program->bytes, 28))
		return program->bytes.size;
	return qbm_get32(&program->bytes, 52) + 128 * number;
}

/* The names of the tensors at these places of a command, numbers of others. */
static void set_tensors(struct record *record, enum field_id field,
			const struct program *program, size_t command,
			const uint8_t *places, size_t max)
{
	const char *names[6];
	size_t num = 0;

	for (size_t i = 0; i < max && places[i]; i++) {
		size_t number =
			qbm_get(&program->bytes, command + places[i], 2);
		const char *name;

		if (number == NONE16)
			continue;
		name = qbm_get_string(
			program->reader,
			qbm_get32(&program->bytes,
				  find_tensor(program, number) + 108));
		names[num++] = *name ? name : inventory_format("%zu", number);
	}
	set_texts(record, field, names, num);
}

/* Of what it writes first; -: none. */
static void set_shape(struct record *record, const struct program *program,
		      size_t command, const struct opcode *opcode)
{
	size_t at =
		find_tensor(program, qbm_get(&program->bytes,
					     command + opcode->writes[0], 2));
	size_t rank = qbm_get(&program->bytes, at + 1, 1);
	int64_t shape[6];

	set_absent(record, FIELD_LISTED_SHAPE, REASON_ABSENT, NULL);
	set_absent(record, FIELD_LISTED_DTYPE, REASON_ABSENT, NULL);
	if (!opcode->writes[0] || !rank || rank > 6)
		return;
	for (size_t i = 0; i < rank; i++)
		shape[i] = qbm_get32(&program->bytes, at + 24 + 4 * i);
	set_integers(record, FIELD_LISTED_SHAPE, shape, rank);
	set_text(record, FIELD_LISTED_DTYPE,
		 collect_dtype_word(
			 (enum qbrt_dtype)qbm_get(&program->bytes, at, 1)));
}

/* ---- commands ---- */

/* Names that stand a line each. */
static void set_lines(struct record *record, enum field_id field,
		      const char *text)
{
	const char **names =
		inventory_alloc((strlen(text) / 2 + 1) * sizeof(*names));
	size_t num = 0;
	char *word, *rest;

	for (word = strtok_r(inventory_copy(text), "\n", &rest); word;
	     word = strtok_r(NULL, "\n", &rest))
		names[num++] = word;
	set_texts(record, field, names, num);
}

static void set_nodes(struct record *record, const struct program *program,
		      uint32_t number)
{
	const struct qbm_bytes *debug = &program->debug;
	size_t at = 16 * (size_t)number;

	if (!number || number > qbm_get32(debug, 0))
		at = debug->size;
	set_lines(record, FIELD_LISTED_NODES,
		  qbm_get_string(program->reader, qbm_get32(debug, at)));
	set_lines(record, FIELD_LISTED_OPS,
		  qbm_get_string(program->reader, qbm_get32(debug, at + 4)));
}

static void add_command(struct records *records, const struct program *program,
			size_t index, size_t at)
{
	const struct qbm_bytes *bytes = &program->bytes;
	struct record *record = records_add(records);
	uint16_t code = (uint16_t)qbm_get(bytes, at, 2);
	static const struct opcode unknown = { .name = NULL };
	const struct opcode *opcode = &unknown;

	for (size_t i = 0; i < NUM(opcodes); i++) {
		if (opcodes[i].code == code)
			opcode = &opcodes[i];
	}
	set_integer(record, FIELD_LISTED_PROGRAM, program->number);
	collect_modes(record, FIELD_LISTED_MODES, program->modes);
	set_integer(record, FIELD_LISTED_INDEX, index);
	set_text(record, FIELD_LISTED_OPCODE,
		 opcode->name ?: inventory_format("0x%04x", code));
	set_tensors(record, FIELD_LISTED_READS, program, at, opcode->reads,
		    NUM(opcode->reads));
	set_tensors(record, FIELD_LISTED_WRITES, program, at, opcode->writes,
		    NUM(opcode->writes));
	set_shape(record, program, at, opcode);
	set_nodes(record, program, qbm_get32(bytes, at + 8));
}

static void add_program(struct records *records, const struct program *program)
{
	const struct qbm_bytes *bytes = &program->bytes;
	size_t num = qbm_get32(bytes, 36);
	size_t at = qbm_get32(bytes, 68);
	size_t end = at + qbm_get32(bytes, 72);

	for (size_t i = 0; i < num && at < end && at < bytes->size; i++) {
		size_t size = 16 * qbm_get(bytes, at + 2, 2);

		if (!size)
			break;
		add_command(records, program, i, at);
		at += size;
	}
}

void collect_commands(struct record *variant, const struct qbm_reader *reader,
		      size_t bundle)
{
	struct records *records = records_alloc(LIST_LISTED);
	uint32_t numbers[NUM_MODES];

	for (size_t i = 0; i < NUM_MODES; i++)
		numbers[i] = qbm_get32(&reader->variants, bundle + 8 + 4 * i);
	for (size_t i = 0; i < NUM_MODES; i++) {
		struct program program = { .reader = reader,
					   .number = numbers[i] };
		bool is_new = numbers[i] != NONE32;

		for (size_t j = 0; j < NUM_MODES; j++) {
			if (numbers[j] != numbers[i])
				continue;
			program.modes |= 1u << j;
			is_new &= j >= i;
		}
		if (!is_new)
			continue;
		program.bytes = read_part(reader, PROGRAM, numbers[i]);
		program.debug = read_part(reader, DEBUG_INFO, numbers[i]);
		add_program(records, &program);
	}
	set_records(variant, FIELD_VARIANT_LISTING, records);
}
