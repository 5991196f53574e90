// SPDX-License-Identifier: MIT
/* Offsets: docs/spec/device-and-format.md, section 3. */
#include "qbm-writer.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#define HEADER_SIZE 256u
#define SECTION_SIZE 80u
#define NUM_SECTIONS 5u
#define MAX_FILE_SIZE 8192u /* of all that fits into a writer */
#define NONE32 QBNPU_NONE32

/* STRS: "", the pair of META, variant, bundle, one name for each tensor */
static const char strings[] =
	"\0model.name\0qbinfo\0default\0main\0x0\0x1\0x2\0x3\0x4\0x5\0x6\0x7";
#define AT_KEY 1u
#define AT_VALUE 12u
#define AT_VARIANT 19u
#define AT_BUNDLE 27u
#define AT_TENSOR(i) (32u + 3u * (i))

/* ---- program ---- */

void qbm_begin(struct qbm_writer *writer)
{
	memset(writer, 0, sizeof(*writer));
}

static uint64_t get_size(const struct qbnpu_tensor *tensor)
{
	return tensor->strides[0] * tensor->dims[0];
}

static uint16_t add_tensor(struct qbm_writer *writer, uint32_t dtype,
			   uint32_t rank, const uint32_t *dims)
{
	static const uint8_t sizes[] = {
		4, 1, 1, 2, 2, 2, 4, 4, 8, 8, 8, 1, 2
	};
	const float one = 1.0f;
	uint16_t number = (uint16_t)writer->num_tensors++;
	struct qbnpu_tensor *tensor = &writer->tensors[number];
	uint64_t stride = sizes[dtype];

	tensor->dtype = (uint8_t)dtype;
	tensor->rank = (uint8_t)rank;
	tensor->binding = number;
	tensor->quant_axis = QBNPU_NONE8;
	tensor->offset_axis = QBNPU_NONE8;
	tensor->quant = NONE32;
	if (dtype == QBNPU_DTYPE_U8 || dtype == QBNPU_DTYPE_I8 ||
	    dtype == QBNPU_DTYPE_I32)
		memcpy(&tensor->scale, &one, sizeof(one));
	for (uint32_t i = rank; i--;) {
		tensor->dims[i] = dims[i];
		tensor->strides[i] = stride;
		stride *= dims[i];
	}
	tensor->span = get_size(tensor);
	return number;
}

uint16_t qbm_add_input(struct qbm_writer *writer, uint32_t dtype, uint32_t rank,
		       const uint32_t *dims)
{
	writer->num_inputs++;
	return add_tensor(writer, dtype, rank, dims);
}

uint16_t qbm_add_output(struct qbm_writer *writer, uint32_t dtype,
			uint32_t rank, const uint32_t *dims)
{
	return add_tensor(writer, dtype, rank, dims);
}

void *qbm_add_command(struct qbm_writer *writer, uint32_t opcode, size_t size,
		      const uint16_t *operands, size_t num_operands)
{
	unsigned char *at = writer->commands + writer->commands_size;
	const struct qbnpu_cmd head = { .opcode = (uint16_t)opcode,
					.size16 = (uint16_t)(size / 16) };

	memcpy(at, &head, sizeof(head));
	for (size_t i = 0; i < num_operands; i++) {
		memcpy(at + sizeof(head) + 2 * i, &operands[i], 2);
		if (operands[i] != QBNPU_NONE16)
			writer->num_bytes +=
				get_size(&writer->tensors[operands[i]]);
	}
	if (opcode == QBNPU_OP_TIMESTAMP || opcode == QBNPU_OP_CRC)
		writer->features |= QBNPU_FEATURE_DIAG;
	writer->commands_size += size;
	writer->num_commands++;
	return at;
}

static bool has_timestamp(const struct qbm_writer *writer)
{
	const struct qbnpu_cmd *command;

	for (size_t at = 0; at < writer->commands_size;
	     at += 16u * command->size16) {
		command = (const void *)(writer->commands + at);
		if (command->opcode == QBNPU_OP_TIMESTAMP)
			return true;
	}
	return false;
}

/* Returns its size. */
static size_t write_program(const struct qbm_writer *writer,
			    unsigned char *bytes)
{
	const uint32_t num = writer->num_tensors;
	const struct qbnpu_list list = {
		.size = (uint32_t)writer->commands_size,
		.command_count = writer->num_commands,
	};
	struct qbnpu_program header = {
		.magic = QBNPU_PROGRAM_MAGIC,
		.isa_major = QBNPU_ISA_MAJOR,
		.isa_features = writer->features,
		.binding_count = num,
		.tensor_count = num,
		.list_count = 1,
		.command_count = writer->num_commands,
		.bindings_offset = sizeof(header),
		.commands_size = (uint32_t)writer->commands_size,
		.mac_count = writer->num_macs,
		.byte_count = writer->num_bytes,
		.batch = 1,
		.flags = has_timestamp(writer) ? QBNPU_PROGRAM_TIMESTAMPS : 0,
	};
	struct qbnpu_binding_desc *bindings;

	header.tensors_offset =
		header.bindings_offset + num * (uint32_t)sizeof(*bindings);
	header.lists_offset = header.tensors_offset +
			      num * (uint32_t)sizeof(struct qbnpu_tensor);
	header.params_offset = header.lists_offset + (uint32_t)sizeof(list);
	header.pool_offset = header.params_offset;
	header.commands_offset = header.params_offset;
	header.size = header.commands_offset + writer->commands_size;
	memcpy(bytes, &header, sizeof(header));
	bindings = (void *)(bytes + header.bindings_offset);
	for (uint32_t i = 0; i < num; i++) {
		bool is_input = i < writer->num_inputs;

		bindings[i].kind =
			is_input ? QBNPU_BINDING_INPUT : QBNPU_BINDING_OUTPUT;
		bindings[i].access =
			is_input ? QBNPU_ACCESS_READ : QBNPU_ACCESS_WRITE;
		bindings[i].align_log2 = QBNPU_MIN_ALIGN_LOG2;
		bindings[i].tensor = (uint16_t)i;
		bindings[i].alias = QBNPU_NONE16;
		bindings[i].size = get_size(&writer->tensors[i]);
		bindings[i].io = i;
	}
	memcpy(bytes + header.tensors_offset, writer->tensors,
	       num * sizeof(*writer->tensors));
	memcpy(bytes + header.lists_offset, &list, sizeof(list));
	memcpy(bytes + header.commands_offset, writer->commands,
	       writer->commands_size);
	return header.size;
}

/* ---- container ---- */

static void put(unsigned char *at, uint64_t value, size_t width)
{
	for (size_t i = 0; i < width; i++)
		at[i] = (unsigned char)(value >> 8 * i);
}

static void put32(unsigned char *at, uint64_t value)
{
	put(at, value, 4);
}

static size_t write_meta(unsigned char *at)
{
	put32(at, 1);
	put32(at + 8, AT_KEY);
	put32(at + 12, AT_VALUE);
	return 16;
}

/* A variant and its bundle, of core mode Single. */
static size_t write_variants(const struct qbm_writer *writer, unsigned char *at)
{
	unsigned char *variant = at + 32, *bundle = variant + 128;

	put32(at, 1);
	put32(at + 4, 128);
	put32(at + 8, 1);
	put32(at + 12, 64);
	put32(at + 16, 32);
	put32(at + 20, 32 + 128);
	put32(variant, AT_VARIANT);
	put32(variant + 12, 1);
	put32(variant + 20, writer->num_inputs);
	put32(variant + 24, writer->num_inputs);
	put32(variant + 28, writer->num_tensors - writer->num_inputs);
	put32(variant + 48, 1);
	put32(variant + 52, 1);
	put(variant + 56, writer->num_macs, 8);
	put32(variant + 80, NONE32);
	put32(variant + 84, NONE32);
	put32(bundle, AT_BUNDLE);
	put32(bundle + 4, 1);
	for (size_t mode = 1; mode < 5; mode++)
		put32(bundle + 8 + 4 * mode, NONE32);
	put(bundle + 32, writer->num_macs, 8);
	return 32 + 128 + 64;
}

static void write_io(const struct qbm_writer *writer, uint32_t i,
		     unsigned char *io)
{
	const struct qbnpu_tensor *tensor = &writer->tensors[i];
	bool is_output = i >= writer->num_inputs;
	const float one = 1.0f;
	uint32_t hwc[3] = { 1, 1, 1 };

	put32(io, AT_TENSOR(i));
	io[8] = is_output;
	io[9] = tensor->dtype;
	io[10] = tensor->dtype;
	put32(io + 12, 1u << tensor->dtype);
	put32(io + 16, is_output ? i - writer->num_inputs : i);
	io[22] = tensor->rank;
	io[23] = tensor->rank;
	put(io + 24, get_size(tensor), 8);
	memset(io + 80, 0xff, 8); /* source_perm, dyn_axis, dyn_param */
	for (uint32_t j = 0; j < tensor->rank; j++) {
		uint32_t behind = tensor->rank - 1 - j;

		put32(io + 32 + (size_t)4 * j, tensor->dims[j]);
		put32(io + 56 + (size_t)4 * j, tensor->dims[j]);
		io[80 + j] = (unsigned char)j;
		hwc[behind > 2 ? 0 : 2 - behind] *= tensor->dims[j];
	}
	for (size_t j = 0; j < 12; j++)
		put32(io + 88 + 4 * j, hwc[j % 3]);
	put32(io + 140, tensor->dtype);
	memcpy(io + 144, &one, sizeof(one));
	io[160] = QBNPU_NONE8;
	put32(io + 164, NONE32);
	put32(io + 216, NONE32);
}

static size_t write_ios(const struct qbm_writer *writer, unsigned char *at)
{
	put32(at, writer->num_tensors);
	put32(at + 4, 256);
	for (uint32_t i = 0; i < writer->num_tensors; i++)
		write_io(writer, i, at + 32 + (size_t)256 * i);
	return 32 + (size_t)256 * writer->num_tensors;
}

/* Section number i of the table, which lies at offset; its end. */
static size_t end_section(unsigned char *file, size_t i, const char *kind,
			  size_t offset, size_t size)
{
	unsigned char *section = file + HEADER_SIZE + SECTION_SIZE * i;

	memcpy(section, kind, 4);
	put32(section + 4, 1);
	section[12] = strcmp(kind, "PROG") != 0 ? 3 : 12;
	put(section + 16, offset, 8);
	put(section + 24, size, 8);
	put32(section + 32, crc32_z(0, file + offset, size));
	return offset + size;
}

static size_t align(size_t at)
{
	return (at + 7) & ~(size_t)7;
}

/* Returns its size. */
static size_t write_file(const struct qbm_writer *writer, unsigned char *file)
{
	static const char magic[] = "\x89QBM\r\n\x1a\n";
	const size_t table = (size_t)SECTION_SIZE * NUM_SECTIONS;
	size_t at = HEADER_SIZE + table;

	memcpy(file + at, strings, sizeof(strings));
	at = align(end_section(file, 0, "STRS", at, sizeof(strings)));
	at = align(end_section(file, 1, "META", at, write_meta(file + at)));
	at = align(end_section(file, 2, "VARI", at,
			       write_variants(writer, file + at)));
	at = end_section(file, 3, "IOTB", at, write_ios(writer, file + at));
	at = (at + 4095) & ~(size_t)4095;
	at = end_section(file, 4, "PROG", at, write_program(writer, file + at));
	memcpy(file, magic, 8);
	put(file + 8, 1, 2);
	put(file + 12, QBNPU_ISA_MAJOR, 2);
	put32(file + 16, HEADER_SIZE);
	put32(file + 20, NUM_SECTIONS);
	put32(file + 24, SECTION_SIZE);
	put(file + 32, at, 8);
	put(file + 40, writer->features, 8);
	put(file + 48, HEADER_SIZE, 8);
	put32(file + 56, crc32_z(0, file + HEADER_SIZE, table));
	memcpy(file + 64, "qbinfo", 6);
	put32(file + 252, crc32_z(0, file, 252));
	return at;
}

int qbm_finish(const struct qbm_writer *writer)
{
	_Alignas(8) unsigned char bytes[MAX_FILE_SIZE] = { 0 };
	const unsigned char *file = bytes;
	size_t size = write_file(writer, bytes);
	int err, fd = memfd_create("qbinfo-model", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	while (size) {
		ssize_t num = write(fd, file, size);

		if (num < 0 && errno == EINTR)
			continue;
		if (num <= 0) {
			err = num ? -errno : -EIO;
			(void)close(fd);
			return err;
		}
		file += num;
		size -= (size_t)num;
	}
	return fd;
}
