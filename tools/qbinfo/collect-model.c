// SPDX-License-Identifier: MIT
/*
 * A model file: the library reads and checks it whole and tells shapes, types
 * and scales. What it has no calls for (sections, metadata, sizes) is read here
 * from the published format (docs/spec/device-and-format.md, section 3), by
 * offsets, again checked against the bytes that are there, since another
 * program may write the file meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <qbruntime/qbrt.h>

#include "collect.h"
#include "qbm-reader.h"

/* ---- header and sections ---- */

/* The bits of section 4.2; bit 2 is reserved. */
static void set_features(struct record *model, uint64_t bits)
{
	static const char *const words[] = { "int8",   "half",    NULL,
					     "state",  "dynamic", "lstm",
					     "gather", "diag" };
	const char *texts[8];
	size_t num = 0;

	for (size_t i = 0; i < 8; i++) {
		if (bits >> i & 1 && words[i])
			texts[num++] = words[i];
	}
	set_texts(model, FIELD_MODEL_ISA_FEATURES, texts, num);
}

static void set_head(struct record *model, const struct qbm_reader *reader)
{
	const struct qbm_bytes *header = &reader->header;
	char content[65] = "";

	set_text(model, FIELD_MODEL_FORMAT,
		 inventory_format("qbm %u.%u", (unsigned)qbm_get(header, 8, 2),
				  (unsigned)qbm_get(header, 10, 2)));
	set_text(model, FIELD_MODEL_ISA,
		 inventory_format("%u.%u", (unsigned)qbm_get(header, 12, 2),
				  (unsigned)qbm_get(header, 14, 2)));
	set_features(model, qbm_get(header, 40, 8));
	for (size_t i = 0; i < 32; i++)
		(void)snprintf(content + 2 * i, 3, "%02x",
			       (unsigned)qbm_get(header, 96 + i, 1));
	set_text(model, FIELD_MODEL_CONTENT, content);
	if (header->size >= 96)
		set_text(model, FIELD_MODEL_PRODUCER,
			 inventory_format("%.32s",
					  (const char *)header->data + 64));
}

static bool is_known_kind(const char *kind)
{
	static const char kinds[] = "STRS META VARI IOTB CACH PROG WGHT DBGI";

	return strstr(kinds, kind) && !strchr(kind, ' ');
}

/* The library has checked those that it knows, and skips the others. */
static void set_sections(struct record *model, const struct qbm_reader *reader)
{
	struct records *sections = records_alloc(LIST_SECTIONS);

	for (size_t i = 0; i < reader->num_sections; i++) {
		const struct qbm_part *section = &reader->sections[i];
		struct record *record = records_add(sections);
		char kind[5] = "";

		for (size_t j = 0; j < 4; j++)
			kind[j] = (char)(section->kind >> 8 * j & 0xFF);
		set_text(record, FIELD_SECTION_KIND, kind);
		set_integer(record, FIELD_SECTION_OFFSET, section->offset);
		set_integer(record, FIELD_SECTION_SIZE, section->size);
		if (is_known_kind(kind))
			set_boolean(record, FIELD_SECTION_CRC, true);
		else
			set_absent(record, FIELD_SECTION_CRC, REASON_ABSENT,
				   NULL);
	}
	set_records(model, FIELD_MODEL_SECTIONS, sections);
}

static void set_metadata(struct record *model, const struct qbm_reader *reader)
{
	struct qbm_bytes meta = qbm_read_section(reader, "META");
	size_t num = qbm_get32(&meta, 0);
	const char **texts;

	if (num > meta.size / 8)
		num = meta.size / 8;
	texts = inventory_alloc((2 * num + 1) * sizeof(*texts));
	for (size_t i = 0; i < num; i++) {
		texts[2 * i] =
			qbm_get_string(reader, qbm_get32(&meta, 8 + 8 * i));
		texts[2 * i + 1] =
			qbm_get_string(reader, qbm_get32(&meta, 12 + 8 * i));
	}
	set_texts(model, FIELD_MODEL_METADATA, texts, 2 * num);
}

/* ---- tensors ---- */

static void set_strides(struct record *tensor, const struct qbrt_io_info *info)
{
	int64_t strides[8];
	int64_t stride = (int64_t)qbrt_dtype_itemsize(info->pinned_dtype);

	for (size_t i = info->ndim; i; i--) {
		strides[i - 1] = stride;
		stride *= info->max_shape[i - 1];
	}
	set_integers(tensor, FIELD_TENSOR_STRIDES, strides, info->ndim);
}

/* Without quantisation the scale is 1 or 0 and nothing is shifted. */
static void set_scale(struct record *tensor, const struct qbrt_scale_info *info,
		      enum qbrt_dtype stored)
{
	set_absent(tensor, FIELD_TENSOR_SCALE, REASON_ABSENT, NULL);
	set_absent(tensor, FIELD_TENSOR_ZERO, REASON_ABSENT, NULL);
	if (stored != QBRT_DTYPE_INT8 && stored != QBRT_DTYPE_UINT8)
		return;
	if (info->num_scales == 1 && info->scales[0] == 1.0f &&
	    !info->zero_point)
		return;
	set_numbers(tensor, FIELD_TENSOR_SCALE, info->scales, info->num_scales);
	set_signed(tensor, FIELD_TENSOR_ZERO, info->zero_point);
}

/* The entry of IOTB: entries of 256 bytes behind a head of 32. */
static size_t find_entry(const struct qbm_reader *reader, size_t variant,
			 size_t role, size_t index)
{
	size_t num = qbm_get32(&reader->tensors, 0);

	for (size_t i = 0; i < num && i < reader->tensors.size / 256; i++) {
		size_t at = 32 + 256 * i;

		if (qbm_get32(&reader->tensors, at + 4) == variant &&
		    qbm_get(&reader->tensors, at + 8, 1) == role &&
		    qbm_get32(&reader->tensors, at + 16) == index)
			return at;
	}
	return reader->tensors.size;
}

static void set_entry(struct record *tensor, const struct qbm_reader *reader,
		      size_t at)
{
	const struct qbm_bytes *tensors = &reader->tensors;
	size_t channels = qbm_get(tensors, at + 162, 1);
	float mean[4], std[4];

	set_absent(tensor, FIELD_TENSOR_LAYOUT, REASON_ABSENT, NULL);
	set_absent(tensor, FIELD_TENSOR_MEAN, REASON_ABSENT, NULL);
	set_absent(tensor, FIELD_TENSOR_STD, REASON_ABSENT, NULL);
	if (qbm_get(tensors, at + 11, 1) == 1)
		set_text(tensor, FIELD_TENSOR_LAYOUT, "HWC");
	if (!(qbm_get(tensors, at + 20, 2) & 2) || !channels || channels > 4)
		return;
	for (size_t i = 0; i < channels; i++) {
		mean[i] = qbm_get_float(tensors, at + 168 + 4 * i);
		std[i] = qbm_get_float(tensors, at + 184 + 4 * i);
	}
	set_numbers(tensor, FIELD_TENSOR_MEAN, mean, channels);
	set_numbers(tensor, FIELD_TENSOR_STD, std, channels);
}

static bool add_tensor(struct records *tensors, const struct qbrt_model *model,
		       const struct qbm_reader *reader, size_t variant,
		       size_t index, bool is_output)
{
	struct qbrt_io_info info = { .size = sizeof(info) };
	struct qbrt_scale_info scale = { .size = sizeof(scale) };
	struct record *tensor;

	if (is_output ? qbrt_model_query_output(model, variant, index, &info) ||
				qbrt_model_query_output_scale(model, variant,
							      index, &scale)
		      : qbrt_model_query_input(model, variant, index, &info) ||
				qbrt_model_query_input_scale(model, variant,
							     index, &scale))
		return false;
	tensor = records_add(tensors);
	set_text(tensor, FIELD_TENSOR_NAME, info.name);
	set_integers(tensor, FIELD_TENSOR_SHAPE, info.shape, info.ndim);
	set_text(tensor, FIELD_TENSOR_DTYPE, collect_dtype_word(info.dtype));
	set_text(tensor, FIELD_TENSOR_PINNED,
		 collect_dtype_word(info.pinned_dtype));
	set_strides(tensor, &info);
	set_scale(tensor, &scale, info.pinned_dtype);
	set_entry(tensor, reader,
		  find_entry(reader, variant, is_output, index));
	return true;
}

static struct records *get_tensors(const struct qbrt_model *model,
				   const struct qbm_reader *reader,
				   size_t variant, bool is_output)
{
	struct records *tensors = records_alloc(LIST_TENSORS);

	for (size_t i = 0;
	     add_tensor(tensors, model, reader, variant, i, is_output); i++)
		;
	return tensors;
}

/* ---- variants ---- */

/* Commands of the longest program of a bundle, by the numbers in its head. */
static uint64_t get_commands(const struct qbm_reader *reader, size_t bundle)
{
	uint64_t most = 0;

	for (size_t mode = 0; mode < 5; mode++) {
		uint32_t program =
			qbm_get32(&reader->variants, bundle + 8 + 4 * mode);
		uint32_t instance = 0;

		for (size_t i = 0; i < reader->num_sections; i++) {
			struct qbm_bytes head;
			uint64_t num;

			if (reader->sections[i].kind != 0x474F5250) /* PROG */
				continue;
			if (instance++ != program)
				continue;
			head = qbm_read_bytes(reader->fd,
					      reader->sections[i].offset, 128);
			num = qbm_get32(&head, 36);
			most = num > most ? num : most;
		}
	}
	return most;
}

static void set_variants(struct record *model, const struct qbrt_model *loaded,
			 const struct qbm_reader *reader, bool with_commands)
{
	struct records *variants = records_alloc(LIST_VARIANTS);
	const struct qbm_bytes *table = &reader->variants;
	uint64_t weights = 0;

	for (size_t i = 0; i < reader->num_sections; i++) {
		if (reader->sections[i].kind == 0x54484757) /* WGHT */
			weights = reader->sections[i].size;
	}
	for (size_t i = 0; i < qbrt_model_get_num_variants(loaded); i++) {
		struct record *variant = records_add(variants);
		size_t at = qbm_get32(table, 16) + 128 * i;
		size_t bundle = qbm_get32(table, 20) +
				(size_t)64 * qbm_get32(table, at + 8);

		set_text(variant, FIELD_VARIANT_NAME,
			 qbm_get_string(reader, qbm_get32(table, at)));
		collect_modes(variant, FIELD_VARIANT_MODES,
			      qbm_get32(table, at + 52));
		set_integer(variant, FIELD_VARIANT_BATCH,
			    qbm_get32(table, at + 48));
		set_integer(variant, FIELD_VARIANT_MACS,
			    qbm_get(table, at + 56, 8));
		set_integer(variant, FIELD_VARIANT_WEIGHTS, weights);
		set_integer(variant, FIELD_VARIANT_SCRATCH,
			    qbm_get(table, bundle + 40, 8));
		set_integer(variant, FIELD_VARIANT_STATE,
			    qbm_get(&reader->tensors, 16, 8));
		set_integer(variant, FIELD_VARIANT_COMMANDS,
			    get_commands(reader, bundle));
		set_records(variant, FIELD_VARIANT_INPUTS,
			    get_tensors(loaded, reader, i, false));
		set_records(variant, FIELD_VARIANT_OUTPUTS,
			    get_tensors(loaded, reader, i, true));
		set_absent(variant, FIELD_VARIANT_LISTING, REASON_ABSENT, NULL);
		if (with_commands)
			collect_commands(variant, reader, bundle);
	}
	set_records(model, FIELD_MODEL_VARIANTS, variants);
}

/* ---- the file ---- */

/* A file with several core modes must be told one; to look at it any will do.
 */
static enum qbrt_status load_any_mode(const char *path,
				      struct qbrt_model **model)
{
	enum qbrt_status status = qbrt_model_load(path, NULL, model);
	struct qbrt_model_config *config;

	if (status != QBRT_MODEL_MXQ_AND_MODEL_CONFIG_NOT_MATCH)
		return status;
	if (qbrt_model_config_alloc(&config))
		return QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY;
	for (int mode = 0; mode < 4 && status; mode++) {
		if (mode == 0)
			status = qbrt_model_config_set_single_core_mode(config,
									0);
		else if (mode == 1)
			status = qbrt_model_config_set_multi_core_mode(config,
								       NULL, 0);
		else if (mode == 2)
			status = qbrt_model_config_set_global4_core_mode(
				config, NULL, 0);
		else
			status =
				qbrt_model_config_set_global8_core_mode(config);
		if (!status)
			status = qbrt_model_load(path, config, model);
	}
	qbrt_model_config_free(config);
	return status;
}

static int get_exit(enum qbrt_status status)
{
	switch (status) {
	case QBRT_MODEL_FORMAT_TOO_NEW:
		return 5;
	case QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY:
	case QBRT_INTERNAL_ERROR:
		return 1;
	default:
		return 8;
	}
}

/*
 * A FIFO would wait and a device do something: what is no regular file is never
 * opened; if it became one meanwhile, it is never read. -errno, or a descriptor.
 */
static int open_regular(const char *path, struct stat *info,
			const char **sentence)
{
	int fd = -EINVAL;

	if (stat(path, info)) {
		fd = -errno;
	} else if (S_ISREG(info->st_mode)) {
		fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		fd = fd < 0 ? -errno : fd;
	}
	if (fd >= 0 && (fstat(fd, info) || !S_ISREG(info->st_mode))) {
		(void)close(fd);
		fd = -EINVAL;
	}
	if (fd == -EINVAL)
		*sentence = inventory_format("%s: is no regular file", path);
	else if (fd < 0)
		*sentence = inventory_format("%s: %s", path, strerror(-fd));
	return fd;
}

/* The library could not open the file: is that the process's fault? */
static bool is_out_of_descriptors(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (copy < 0)
		return errno == EMFILE;
	(void)close(copy);
	return false;
}

int collect_model(struct inventory *inventory, const char *path,
		  bool with_commands, const char **sentence,
		  const char **status_name)
{
	struct qbm_reader *reader = inventory_alloc(sizeof(*reader));
	struct qbrt_model *model = NULL;
	enum qbrt_status status;
	struct record *record;
	struct stat info;
	int code;

	*status_name = NULL;
	reader->fd = open_regular(path, &info, sentence);
	if (reader->fd == -EMFILE || reader->fd == -ENFILE ||
	    reader->fd == -ENOMEM)
		return 1;
	if (reader->fd < 0)
		return 8;
	status = load_any_mode(path, &model);
	if (status) {
		*sentence = inventory_copy(qbrt_error_detail());
		*status_name = qbrt_status_name(status);
		code = is_out_of_descriptors(reader->fd) ? 1 : get_exit(status);
		(void)close(reader->fd);
		return code;
	}
	qbm_read_head(reader);
	record = records_add(&inventory->models);
	set_text(record, FIELD_MODEL_PATH, path);
	set_integer(record, FIELD_MODEL_SIZE, (uint64_t)info.st_size);
	set_head(record, reader);
	set_metadata(record, reader);
	set_sections(record, reader);
	set_variants(record, model, reader, with_commands);
	qbrt_model_free(model);
	(void)close(reader->fd);
	return 0;
}
