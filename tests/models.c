// SPDX-License-Identifier: MIT
/*
 * The container writer of models.h: STRS, META, VARI, IOTB, PROG, WGHT, DBGI.
 * Checksums are zlib's; the SHA-256 fields stay 0, which only tools look at.
 */
#include "models.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "model-file.h"

/* beside the weights */
#define MAX_FILE (1u << 22)
#define MAX_SECTIONS 16u
#define STATE_ROLE 2

/* A file that grows: bytes behind the section table, and its entries. */
struct writer {
	uint8_t *bytes;
	size_t nbytes;
	size_t max_nbytes;
	struct qbm_section sections[MAX_SECTIONS];
	uint32_t num_sections;
	uint32_t num_expected;
};

static uint32_t kind_of(const char *name)
{
	uint32_t kind;

	memcpy(&kind, name, sizeof(kind));
	return kind;
}

static size_t align(size_t at, unsigned int log2)
{
	return (at + ((size_t)1 << log2) - 1) & ~(((size_t)1 << log2) - 1);
}

/* Appends a section; returns its bytes. */
static void *add_section(struct writer *writer, const char *kind,
			 uint32_t instance, uint8_t align_log2,
			 const void *from, size_t size)
{
	struct qbm_section *section = &writer->sections[writer->num_sections++];

	writer->nbytes = align(writer->nbytes, align_log2);
	ck_assert(writer->num_sections <= writer->num_expected);
	ck_assert(writer->nbytes + size <= writer->max_nbytes);
	memset(section, 0, sizeof(*section));
	section->kind = kind_of(kind);
	section->flags = strcmp(kind, "DBGI") != 0;
	section->instance = instance;
	section->align_log2 = align_log2;
	section->offset = writer->nbytes;
	section->size = size;
	memcpy(writer->bytes + writer->nbytes, from, size);
	writer->nbytes += size;
	section->crc32 = (uint32_t)crc32(0, from, (uInt)size);
	return writer->bytes + section->offset;
}

/* Offsets into STRS: "" model.name test v0 v1 v2 v3 t0 t1 ... t9, the node */
#define AT_NAME_KEY 1u
#define AT_NAME 12u
#define AT_VARIANT(i) (17u + 3u * (i))
#define AT_TENSOR(i) (29u + 3u * ((i) % 10))
#define AT_NODE 59u

static void add_strings(struct writer *writer, const struct models_spec *spec)
{
	char text[256] = "\0model.name\0test\0v0\0v1\0v2\0v3\0"
			 "t0\0t1\0t2\0t3\0t4\0t5\0t6\0t7\0t8\0t9\0";
	size_t size = AT_NODE;

	if (spec->node) {
		ck_assert(AT_NODE + strlen(spec->node) < sizeof(text));
		memcpy(text + AT_NODE, spec->node, strlen(spec->node));
		size += strlen(spec->node) + 1;
	}
	add_section(writer, "STRS", 0, 3, text, size);
}

static void add_meta(struct writer *writer)
{
	struct {
		struct qbm_meta head;
		struct qbm_meta_entry entry;
	} meta = { { 1, 0 }, { AT_NAME_KEY, AT_NAME } };

	add_section(writer, "META", 0, 3, &meta, sizeof(meta));
}

static uint32_t count_bindings(const struct prog *prog, uint32_t kind)
{
	uint32_t num = 0;

	for (uint32_t i = 0; i < prog->num_bindings; i++)
		num += prog->bindings[i].kind == kind;
	return num;
}

static uint32_t count_ios(const struct prog *prog)
{
	return count_bindings(prog, QBNPU_BINDING_INPUT) +
	       count_bindings(prog, QBNPU_BINDING_OUTPUT) +
	       count_bindings(prog, QBNPU_BINDING_STATE);
}

static void fill_variant(const struct models_spec *spec, uint32_t number,
			 uint32_t first_io, struct qbm_variant *variant)
{
	struct prog *prog = spec->programs[number];
	uint32_t num_inputs = count_bindings(prog, QBNPU_BINDING_INPUT);
	uint32_t num_outputs = count_bindings(prog, QBNPU_BINDING_OUTPUT);
	uint32_t num_states = count_bindings(prog, QBNPU_BINDING_STATE);

	variant->name = AT_VARIANT(number);
	variant->first_bundle = number;
	variant->bundle_count = 1;
	variant->first_input = num_inputs ? first_io : 0;
	variant->input_count = num_inputs;
	variant->first_output = first_io + num_inputs;
	variant->output_count = num_outputs;
	variant->state_count = num_states;
	if (num_states)
		variant->first_state = first_io + num_inputs + num_outputs;
	variant->batch = prog->batch;
	variant->mode_mask = spec->mode_mask ? spec->mode_mask : 1;
	variant->mac_count = prog_at_header(prog)->mac_count;
	variant->seq_param = QBNPU_NONE32;
	variant->past_param = QBNPU_NONE32;
	variant->activation_slots = num_states ? 1 : spec->activation_slots;
}

static void fill_bundle(const struct models_spec *spec, uint32_t number,
			struct qbm_bundle *bundle)
{
	struct prog *prog = spec->programs[number];

	bundle->name = AT_VARIANT(number);
	bundle->mode_mask = spec->mode_mask ? spec->mode_mask : 1;
	for (uint32_t mode = 0; mode < 5; mode++)
		bundle->program[mode] =
			bundle->mode_mask >> mode & 1 ? number : QBNPU_NONE32;
	bundle->mac_count = prog_at_header(prog)->mac_count;
	for (uint32_t i = 0; i < prog->num_bindings; i++)
		if (prog->bindings[i].kind == QBNPU_BINDING_SCRATCH)
			bundle->scratch_size = prog->bindings[i].size;
}

static void add_variants(struct writer *writer, const struct models_spec *spec)
{
	struct {
		struct qbm_vari head;
		struct qbm_variant variants[MODELS_MAX_VARIANTS];
		struct qbm_bundle bundles[MODELS_MAX_VARIANTS];
	} vari = { 0 };
	struct qbm_bundle *bundles;
	uint32_t num = (uint32_t)spec->num_programs;
	uint32_t first_io = 0;

	vari.head.variant_count = num;
	vari.head.variant_size = sizeof(struct qbm_variant);
	vari.head.bundle_count = num;
	vari.head.bundle_size = sizeof(struct qbm_bundle);
	vari.head.variants_offset = sizeof(vari.head);
	vari.head.bundles_offset =
		(uint32_t)(sizeof(vari.head) + num * sizeof(vari.variants[0]));
	bundles = (struct qbm_bundle *)(void *)&vari.variants[num];
	for (uint32_t i = 0; i < num; i++) {
		fill_variant(spec, i, first_io, &vari.variants[i]);
		first_io += count_ios(spec->programs[i]);
	}
	/* bundles follow the variants directly, wherever that is */
	memset(bundles, 0, num * sizeof(bundles[0]));
	for (uint32_t i = 0; i < num; i++)
		fill_bundle(spec, i, &bundles[i]);
	add_section(writer, "VARI", 0, 3, &vari,
		    vari.head.bundles_offset + num * sizeof(bundles[0]));
}

/* h, w, c of the shape, four times. */
static void fill_buffer_info(const int32_t *shape, uint32_t rank,
			     uint32_t *info)
{
	uint32_t hwc[3] = { 1, 1, 1 };

	for (uint32_t i = 0; i < rank; i++) {
		uint32_t axis = rank - i > 3 ? 0 : 3 - (rank - i);

		hwc[axis] *= (uint32_t)shape[i];
	}
	for (uint32_t i = 0; i < 12; i++)
		info[i] = hwc[i % 3];
}

static void fill_shape(const struct prog *prog,
		       const struct qbnpu_tensor *tensor, struct qbm_io *io)
{
	uint32_t first = 0;
	int32_t largest[6] = { 0 };

	if (prog->batch > 1 && tensor->dims[0] == prog->batch) {
		io->flags = 1;
		first = 1;
	}
	io->rank = (uint8_t)(tensor->rank - first);
	for (uint32_t i = 0; i < io->rank; i++) {
		uint8_t params = tensor->extent_params[first + i];

		largest[i] = (int32_t)tensor->dims[first + i];
		io->shape[i] = largest[i];
		io->source_shape[i] = largest[i];
		io->source_perm[i] = (uint8_t)i;
		if (!params)
			continue;
		io->dyn_axis = (uint8_t)i;
		io->dyn_param = (uint8_t)__builtin_ctz(params);
		io->shape[i] = -(int32_t)prog->params[io->dyn_param].multiple;
		io->source_shape[i] = -1;
	}
	io->source_rank = io->rank;
	fill_buffer_info(largest, io->rank, io->buffer_info);
}

static void fill_io(const struct models_spec *spec, uint32_t variant,
		    const struct qbnpu_binding_desc *binding, uint32_t number,
		    struct qbm_io *io)
{
	const struct prog *prog = spec->programs[variant];

	io->name = AT_TENSOR(number);
	io->variant = variant;
	io->dyn_axis = QBNPU_NONE8;
	io->dyn_param = QBNPU_NONE8;
	memset(io->source_perm, 0xff, sizeof(io->source_perm));
	io->size = binding->size;
	io->scale = 1.0f;
	io->scale_axis = QBNPU_NONE8;
	io->alias = QBNPU_NONE32;
	io->cache = QBNPU_NONE32;
	io->device_dtype = QBNPU_DTYPE_U8;
	if (binding->kind == QBNPU_BINDING_STATE) {
		io->role = STATE_ROLE;
		io->rank = 1;
		io->shape[0] = (int32_t)binding->size;
	} else {
		const struct qbnpu_tensor *tensor =
			&prog->tensors[binding->tensor];

		io->role = binding->kind == QBNPU_BINDING_OUTPUT;
		io->device_dtype = tensor->dtype;
		fill_shape(prog, tensor, io);
		io->layout = spec->is_hwc && io->rank == 3;
		if (binding->alias != QBNPU_NONE16)
			io->alias = prog->bindings[binding->alias].io;
	}
	io->host_dtype = spec->is_float_host ? 0 : io->device_dtype;
	io->source_dtype = io->host_dtype;
	io->accepted_dtypes = 1u << io->host_dtype | 1u << io->device_dtype;
}

/* Order of IOTB: per variant the inputs, the outputs, the state. */
static void add_ios(struct writer *writer, const struct models_spec *spec)
{
	static const uint32_t kinds[] = { QBNPU_BINDING_INPUT,
					  QBNPU_BINDING_OUTPUT,
					  QBNPU_BINDING_STATE };
	struct {
		struct qbm_iotb head;
		struct qbm_io ios[80];
	} iotb;
	uint32_t num = 0;

	memset(&iotb, 0, sizeof(iotb));
	for (uint32_t v = 0; v < spec->num_programs; v++)
		for (uint32_t k = 0; k < 3; k++) {
			const struct prog *prog = spec->programs[v];
			uint32_t index = 0;

			for (uint32_t i = 0; i < prog->num_bindings; i++) {
				if (prog->bindings[i].kind != kinds[k])
					continue;
				ck_assert(num < 80);
				fill_io(spec, v, &prog->bindings[i], num,
					&iotb.ios[num]);
				iotb.ios[num].index = index++;
				if (kinds[k] == QBNPU_BINDING_STATE)
					iotb.head.state_size =
						prog->bindings[i].size;
				num++;
			}
		}
	iotb.head.count = num;
	iotb.head.entry_size = sizeof(struct qbm_io);
	add_section(writer, "IOTB", 0, 3, &iotb,
		    sizeof(iotb.head) + num * sizeof(iotb.ios[0]));
}

/* Gives the bindings their IOTB numbers, and makes the bytes. */
static void finish_programs(const struct models_spec *spec)
{
	uint32_t num = 0;

	for (uint32_t v = 0; v < spec->num_programs; v++) {
		struct prog *prog = spec->programs[v];
		uint32_t output =
			num + count_bindings(prog, QBNPU_BINDING_INPUT);
		uint32_t input = num;
		uint32_t first_input = QBNPU_NONE16;

		for (uint32_t i = 0; i < prog->num_bindings; i++) {
			struct qbnpu_binding_desc *binding = &prog->bindings[i];

			if (binding->kind == QBNPU_BINDING_INPUT) {
				if (first_input == QBNPU_NONE16)
					first_input = i;
				binding->io = input++;
			} else if (binding->kind == QBNPU_BINDING_OUTPUT) {
				if (spec->may_alias)
					binding->alias = (uint16_t)first_input;
				binding->io = output++;
			}
		}
		for (uint32_t i = 0; i < prog->num_tensors; i++)
			prog->tensors[i].name = 0; /* of another file's STRS */
		num += count_ios(prog);
		prog_finish(prog);
	}
}

static void add_programs(struct writer *writer, const struct models_spec *spec)
{
	for (uint32_t i = 0; i < spec->num_programs; i++) {
		struct prog *prog = spec->programs[i];
		uint32_t at = prog_at_header(prog)->commands_offset;

		for (uint32_t c = 0; spec->node && c < prog->num_commands;
		     c++) {
			struct qbnpu_cmd *cmd =
				(struct qbnpu_cmd *)(void *)(prog->bytes + at);

			cmd->debug = 1;
			at += 16u * cmd->size16;
		}
		add_section(writer, "PROG", i, 12, prog->bytes, prog->nbytes);
	}
}

static void add_nodes(struct writer *writer, const struct models_spec *spec)
{
	struct {
		struct qbm_dbgi head;
		struct qbm_debug entry;
	} dbgi = { { 1, sizeof(struct qbm_debug), 0 }, { AT_NODE, 0, 1, 0 } };

	for (uint32_t i = 0; spec->node && i < spec->num_programs; i++)
		add_section(writer, "DBGI", i, 3, &dbgi, sizeof(dbgi));
}

static void finish(struct writer *writer, const struct models_spec *spec)
{
	static const uint8_t magic[] = { 0x89, 'Q',  'B',  'M',
					 '\r', '\n', 0x1a, '\n' };
	struct qbm_header header = { 0 };

	memcpy(header.magic, magic, sizeof(magic));
	header.format_major = 1;
	header.isa_major = QBNPU_ISA_MAJOR;
	header.header_size = sizeof(header);
	header.section_count = writer->num_sections;
	header.section_entry_size = sizeof(struct qbm_section);
	header.target = spec->target;
	header.file_size = writer->nbytes;
	for (uint32_t i = 0; i < spec->num_programs; i++)
		header.isa_features |=
			prog_at_header(spec->programs[i])->isa_features;
	header.section_table_offset = sizeof(header);
	header.section_table_crc32 = (uint32_t)crc32(
		0, (const Bytef *)writer->sections,
		(uInt)(writer->num_sections * sizeof(writer->sections[0])));
	memcpy(header.producer, "tests", 5);
	header.header_crc32 = (uint32_t)crc32(0, (const Bytef *)&header, 252);
	memcpy(writer->bytes, &header, sizeof(header));
	memcpy(writer->bytes + sizeof(header), writer->sections,
	       writer->num_sections * sizeof(writer->sections[0]));
}

void *models_build(const struct models_spec *spec, size_t *nbytes)
{
	struct writer writer = { .max_nbytes = MAX_FILE + spec->weights_size };

	writer.bytes = calloc(1, writer.max_nbytes);
	ck_assert(writer.bytes && spec->num_programs <= MODELS_MAX_VARIANTS);
	finish_programs(spec);
	writer.num_expected = 4 + (uint32_t)spec->num_programs;
	writer.num_expected += spec->weights != NULL;
	writer.num_expected += spec->node ? (uint32_t)spec->num_programs : 0;
	writer.nbytes = sizeof(struct qbm_header) +
			writer.num_expected * sizeof(struct qbm_section);
	add_strings(&writer, spec);
	add_meta(&writer);
	add_variants(&writer, spec);
	add_ios(&writer, spec);
	add_programs(&writer, spec);
	if (spec->weights)
		add_section(&writer, "WGHT", 0, 12, spec->weights,
			    spec->weights_size);
	add_nodes(&writer, spec);
	finish(&writer, spec);
	*nbytes = writer.nbytes;
	return writer.bytes;
}

int models_write(const void *bytes, size_t nbytes)
{
	int fd = memfd_create("test-model", MFD_CLOEXEC);

	ck_assert(fd >= 0);
	ck_assert(write(fd, bytes, nbytes) == (ssize_t)nbytes);
	return fd;
}

struct qbrt_model *models_load(const struct models_spec *spec)
{
	struct qbrt_model *model = NULL;
	size_t nbytes;
	void *bytes = models_build(spec, &nbytes);
	int fd = models_write(bytes, nbytes);
	enum qbrt_status status = qbrt_model_load_fd(fd, NULL, &model);

	ck_assert_msg(status == QBRT_OK, "%s", qbrt_error_detail());
	close(fd);
	free(bytes);
	return model;
}

struct qbrt_model *models_load_copy64(void)
{
	return models_load_copy(64, 0);
}

struct qbrt_model *models_load_copy(uint32_t num, uint32_t scratch_size)
{
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	struct qbrt_model *model;
	uint16_t in;
	uint16_t out;

	prog_begin(&prog);
	in = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(num));
	out = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(num));
	if (scratch_size) {
		uint16_t scratch =
			prog_scratch(&prog, QBNPU_DTYPE_U8, DIMS(scratch_size));

		prog_fill(&prog, scratch, 0);
	}
	prog_copy(&prog, in, out);
	model = models_load(&spec);
	prog_end(&prog);
	return model;
}

struct qbrt_model *models_load_slow(uint32_t num_ms, uint32_t activation_slots)
{
	struct prog prog;
	struct models_spec spec = {
		.programs = { &prog },
		.num_programs = 1,
		.activation_slots = activation_slots,
		.node = "slow_node",
	};
	struct qbrt_model *model;
	uint16_t in;
	uint16_t out;

	prog_begin(&prog);
	in = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(64));
	out = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64));
	for (uint32_t i = 0; i < num_ms; i++) {
		struct qbnpu_cmd_nop *nop = prog_cmd(&prog, QBNPU_OP_NOP);

		nop->delay_ns = 1000000;
	}
	prog_copy(&prog, in, out);
	model = models_load(&spec);
	prog_end(&prog);
	return model;
}
