// SPDX-License-Identifier: MIT
/*
 * Every field of three containers that together use the whole format, one at a
 * time, set to 0, 1, all ones, one more, one less, and with its bytes in
 * reverse. With the old checksums: refused. With right ones: refused with a
 * status of section 8.1 and a sentence, or loaded, and then everything that a
 * user of the tables relies on holds. Made for a run under ASan and UBSan.
 */
#include "model-file.h"

#include <stdlib.h>
#include <string.h>

#include "build-model.h"
#include "status.h"
#include "test-util.h"
#include "util.h"

#define NUM_VALUES 6

struct field {
	size_t offset;
	size_t size; /* of one element */
	size_t count;
};

#define FIELD(type, member) \
	{ \
		offsetof(struct type, member), \
			sizeof(((struct type *)NULL)->member), 1 \
	}
#define ARRAY(type, member) \
	{ \
		offsetof(struct type, member), \
			sizeof(((struct type *)NULL)->member[0]), \
			qbrt_array_size(((struct type *)NULL)->member) \
	}

static const struct field header_fields[] = {
	ARRAY(qbm_header, magic),
	FIELD(qbm_header, format_major),
	FIELD(qbm_header, format_minor),
	FIELD(qbm_header, isa_major),
	FIELD(qbm_header, isa_minor),
	FIELD(qbm_header, header_size),
	FIELD(qbm_header, section_count),
	FIELD(qbm_header, section_entry_size),
	FIELD(qbm_header, min_reader_minor),
	FIELD(qbm_header, target),
	FIELD(qbm_header, file_size),
	FIELD(qbm_header, isa_features),
	FIELD(qbm_header, section_table_offset),
	FIELD(qbm_header, flags),
	ARRAY(qbm_header, producer),
	ARRAY(qbm_header, content_id),
	ARRAY(qbm_header, reserved),
};

static const struct field section_fields[] = {
	FIELD(qbm_section, kind),      FIELD(qbm_section, flags),
	FIELD(qbm_section, instance),  FIELD(qbm_section, align_log2),
	ARRAY(qbm_section, reserved0), FIELD(qbm_section, offset),
	FIELD(qbm_section, size),      FIELD(qbm_section, reserved1),
	ARRAY(qbm_section, sha256),    FIELD(qbm_section, reserved2),
};

/* of META and of its entries */
static const struct field pair_fields[] = {
	FIELD(qbm_meta_entry, key),
	FIELD(qbm_meta_entry, value),
};

static const struct field vari_fields[] = {
	FIELD(qbm_vari, variant_count),   FIELD(qbm_vari, variant_size),
	FIELD(qbm_vari, bundle_count),    FIELD(qbm_vari, bundle_size),
	FIELD(qbm_vari, variants_offset), FIELD(qbm_vari, bundles_offset),
	FIELD(qbm_vari, default_variant), FIELD(qbm_vari, reserved),
};

static const struct field variant_fields[] = {
	FIELD(qbm_variant, name),         FIELD(qbm_variant, flags),
	FIELD(qbm_variant, first_bundle), FIELD(qbm_variant, bundle_count),
	FIELD(qbm_variant, first_input),  FIELD(qbm_variant, input_count),
	FIELD(qbm_variant, first_output), FIELD(qbm_variant, output_count),
	FIELD(qbm_variant, first_state),  FIELD(qbm_variant, state_count),
	ARRAY(qbm_variant, reserved0),    FIELD(qbm_variant, batch),
	FIELD(qbm_variant, mode_mask),    FIELD(qbm_variant, mac_count),
	FIELD(qbm_variant, reserved1),    FIELD(qbm_variant, max_tokens),
	FIELD(qbm_variant, max_cache),    FIELD(qbm_variant, seq_param),
	FIELD(qbm_variant, past_param),   FIELD(qbm_variant, activation_slots),
	ARRAY(qbm_variant, reserved2),
};

static const struct field bundle_fields[] = {
	FIELD(qbm_bundle, name),      FIELD(qbm_bundle, mode_mask),
	ARRAY(qbm_bundle, program),   FIELD(qbm_bundle, reserved0),
	FIELD(qbm_bundle, mac_count), FIELD(qbm_bundle, scratch_size),
	ARRAY(qbm_bundle, reserved1),
};

static const struct field iotb_fields[] = {
	FIELD(qbm_iotb, count),       FIELD(qbm_iotb, entry_size),
	FIELD(qbm_iotb, scale_count), FIELD(qbm_iotb, scales_offset),
	FIELD(qbm_iotb, state_size),  FIELD(qbm_iotb, reserved),
};

static const struct field io_fields[] = {
	FIELD(qbm_io, name),         FIELD(qbm_io, variant),
	FIELD(qbm_io, role),         FIELD(qbm_io, device_dtype),
	FIELD(qbm_io, host_dtype),   FIELD(qbm_io, layout),
	FIELD(qbm_io, index),        FIELD(qbm_io, accepted_dtypes),
	FIELD(qbm_io, flags),        FIELD(qbm_io, rank),
	FIELD(qbm_io, source_rank),  FIELD(qbm_io, size),
	ARRAY(qbm_io, shape),        ARRAY(qbm_io, source_shape),
	ARRAY(qbm_io, source_perm),  FIELD(qbm_io, dyn_axis),
	FIELD(qbm_io, dyn_param),    ARRAY(qbm_io, buffer_info),
	FIELD(qbm_io, source_dtype), FIELD(qbm_io, scale),
	FIELD(qbm_io, zero_point),   FIELD(qbm_io, scale_first),
	FIELD(qbm_io, scale_count),  FIELD(qbm_io, scale_axis),
	FIELD(qbm_io, state_init),   FIELD(qbm_io, norm_channels),
	FIELD(qbm_io, reserved0),    FIELD(qbm_io, alias),
	ARRAY(qbm_io, mean),         ARRAY(qbm_io, std),
	FIELD(qbm_io, init_offset),  FIELD(qbm_io, state_offset),
	FIELD(qbm_io, cache),        ARRAY(qbm_io, reserved1),
};

static const struct field cach_fields[] = {
	FIELD(qbm_cach, count),       FIELD(qbm_cach, entry_size),
	FIELD(qbm_cach, cache_count), FIELD(qbm_cach, max_tokens),
	FIELD(qbm_cach, cache_type),  FIELD(qbm_cach, reserved0),
	FIELD(qbm_cach, state_size),
};

static const struct field cache_fields[] = {
	FIELD(qbm_cache, name),         FIELD(qbm_cache, dtype),
	FIELD(qbm_cache, layer_hash),   FIELD(qbm_cache, offset),
	FIELD(qbm_cache, size),         FIELD(qbm_cache, max_tokens),
	FIELD(qbm_cache, outer_count),  FIELD(qbm_cache, outer_stride),
	FIELD(qbm_cache, token_stride), FIELD(qbm_cache, token_size),
	FIELD(qbm_cache, state),        ARRAY(qbm_cache, reserved),
};

/* A file under test: the good bytes, a copy to change, and sums. */
struct subject {
	struct build build;
	uint8_t *bytes;
	size_t num_loaded;
	size_t num_refused;
};

static void (*const fills[])(struct build *build) = { build_plain, build_modes,
						      build_full };

static void check_string(const struct qbrt_model_file *file, uint32_t offset)
{
	const char *text = qbrt_model_file_string(file, offset);
	size_t length = strlen(text);
	size_t i;

	ck_assert_uint_le(length, 4096);
	for (i = 0; i < length; i++)
		if (text[i] != '\n')
			ck_assert_uint_gt(
				qbrt_printable_length(text + i, length - i) +
					((text[i] & 0xc0) == 0x80),
				0);
}

/* The entry's size follows from its shape, however large the variant is. */
static void check_io(const struct qbrt_model_file *file,
		     const struct qbm_io *io, const struct qbnpu_facts *facts)
{
	uint64_t nbytes = prog_dtype_size(io->device_dtype);
	uint32_t i;

	check_string(file, io->name);
	ck_assert_uint_lt(io->device_dtype, QBNPU_NUM_DTYPES);
	ck_assert_uint_lt(io->host_dtype, QBNPU_NUM_DTYPES);
	ck_assert_uint_le(io->rank, 6);
	ck_assert_uint_le(io->source_rank, 6);
	ck_assert_uint_le((uint64_t)io->scale_first + io->scale_count,
			  file->iotb->scale_count);
	if (io->flags & 1)
		nbytes *= file->variants[io->variant].batch;
	for (i = 0; i < io->rank; i++) {
		int64_t extent = io->shape[i];

		if (extent < 0) {
			ck_assert_uint_eq(i, io->dyn_axis);
			ck_assert_uint_lt(io->dyn_param, facts->param_count);
			extent = facts->params[io->dyn_param].max;
		}
		ck_assert_int_gt(extent, 0);
		nbytes *= (uint64_t)extent;
	}
	if (io->role != 2) {
		ck_assert_uint_eq(io->size, nbytes);
		return;
	}
	ck_assert_uint_le(io->state_offset, file->iotb->state_size);
	ck_assert_uint_le(io->size, file->iotb->state_size - io->state_offset);
	if (io->state_init)
		ck_assert_uint_le(io->init_offset + io->size,
				  file->weights_size);
	if (io->cache != QBNPU_NONE32)
		ck_assert_uint_lt(io->cache, file->cach->count);
}

/* The variant's bindings are its entries: as many, with the same sizes. */
static void check_variant(const struct qbrt_model_file *file, uint32_t number)
{
	const struct qbm_variant *variant = &file->variants[number];
	const struct qbm_bundle *bundle = &file->bundles[number];
	uint32_t mode;
	uint32_t i;

	check_string(file, variant->name);
	check_string(file, bundle->name);
	ck_assert_uint_le((uint64_t)variant->first_state + variant->state_count,
			  file->iotb->count);
	for (mode = 0; mode < 5; mode++) {
		const struct qbnpu_facts *facts;
		uint64_t nbytes = 0;

		if (!(bundle->mode_mask & 1u << mode))
			continue;
		ck_assert_uint_lt(bundle->program[mode], file->num_programs);
		facts = file->programs[bundle->program[mode]].facts;
		for (i = 0; i < facts->binding_count; i++)
			if (facts->bindings[i].kind >= QBNPU_BINDING_INPUT)
				nbytes += facts->bindings[i].size;
		for (i = 0; i < variant->input_count; i++) {
			check_io(file, &file->ios[variant->first_input + i],
				 facts);
			nbytes -= file->ios[variant->first_input + i].size;
		}
		for (i = 0; i < variant->output_count; i++) {
			check_io(file, &file->ios[variant->first_output + i],
				 facts);
			nbytes -= file->ios[variant->first_output + i].size;
		}
		for (i = 0; i < variant->state_count; i++)
			check_io(file, &file->ios[variant->first_state + i],
				 facts);
		ck_assert_uint_eq(nbytes, 0);
		ck_assert_uint_eq(facts->batch, variant->batch);
	}
}

static void check_consistent(const struct qbrt_model_file *file)
{
	uint32_t i;

	for (i = 0; i < file->num_meta; i++) {
		check_string(file, file->meta[i].key);
		check_string(file, file->meta[i].value);
	}
	for (i = 0; i < file->vari->variant_count; i++)
		check_variant(file, i);
	for (i = 0; file->cach && i < file->cach->count; i++) {
		const struct qbm_cache *cache = &file->caches[i];

		check_string(file, cache->name);
		ck_assert_uint_le(cache->offset, file->iotb->state_size);
		ck_assert_uint_le(cache->size,
				  file->iotb->state_size - cache->offset);
	}
	for (i = 0; i < file->num_programs; i++)
		ck_assert_uint_lt(strlen(qbrt_model_file_get_node(file, i, 0)),
				  256);
}

static void check_mutant(struct subject *subject, const char *what,
			 size_t offset)
{
	struct qbrt_model_file *file = NULL;
	size_t nbytes = subject->build.nbytes;
	enum qbrt_status status;

	status = qbrt_model_file_parse(subject->bytes, nbytes, "m.qbm", &file);
	ck_assert_msg(status != QBRT_OK, "%s at %zu: a wrong checksum loads",
		      what, offset);
	build_seal(subject->bytes, nbytes);
	status = qbrt_model_file_parse(subject->bytes, nbytes, "m.qbm", &file);
	ck_assert_msg(status == QBRT_OK ||
			      status == QBRT_MODEL_FAILED_TO_LOAD_MXQ ||
			      status == QBRT_MODEL_BROKEN_MXQ ||
			      status == QBRT_MODEL_FORMAT_TOO_NEW ||
			      status == QBRT_MODEL_PROGRAM_REJECTED,
		      "%s at %zu: %s", what, offset, qbrt_status_name(status));
	if (status) {
		subject->num_refused++;
		ck_assert(qbrt_test_contains(qbrt_error_detail(), "m.qbm: "));
		return;
	}
	subject->num_loaded++;
	check_consistent(file);
	qbrt_model_file_free(file);
}

static uint64_t mutate(uint64_t value, size_t size, int number)
{
	uint64_t swapped = 0;
	size_t i;

	switch (number) {
	case 0:
	case 1:
		return (uint64_t)number;
	case 2:
		return UINT64_MAX;
	case 3:
		return value + 1;
	case 4:
		return value - 1;
	default:
		for (i = 0; i < size; i++)
			swapped = swapped << 8 | (value >> 8 * i & 0xff);
		return swapped;
	}
}

static void mutate_at(struct subject *subject, const char *what, size_t offset,
		      size_t size)
{
	uint64_t value = 0;
	int number;

	memcpy(&value, subject->build.bytes + offset, size);
	for (number = 0; number < NUM_VALUES; number++) {
		uint64_t mutated = mutate(value, size, number);

		memcpy(subject->bytes, subject->build.bytes,
		       subject->build.nbytes);
		memcpy(subject->bytes + offset, &mutated, size);
		if (memcmp(subject->bytes, subject->build.bytes,
			   subject->build.nbytes))
			check_mutant(subject, what, offset);
	}
}

static void mutate_struct(struct subject *subject, const char *what,
			  size_t offset, const struct field *fields, size_t num)
{
	size_t element;
	size_t i;

	for (i = 0; i < num; i++)
		for (element = 0; element < fields[i].count; element++)
			mutate_at(subject, what,
				  offset + fields[i].offset +
					  element * fields[i].size,
				  fields[i].size);
}

#define MUTATE(subject, name, offset, fields) \
	mutate_struct(subject, name, offset, fields, qbrt_array_size(fields))

static void begin_subject(struct subject *subject, int number)
{
	memset(subject, 0, sizeof(*subject));
	fills[number](&subject->build);
	subject->bytes = malloc(subject->build.nbytes);
	ck_assert_ptr_nonnull(subject->bytes);
}

static void end_subject(struct subject *subject)
{
	/* a test that only refuses, or only loads, looks at nothing */
	ck_assert_uint_gt(subject->num_refused, 0);
	ck_assert_uint_gt(subject->num_loaded, 0);
	free(subject->bytes);
	build_end(&subject->build);
}

static size_t content(const struct subject *subject, const char *kind)
{
	return build_entry(&subject->build, kind, 0)->offset;
}

/* V62 LD03 LD04 */
START_TEST(mutated_heads_are_refused_or_consistent)
{
	const struct qbm_header *header;
	struct subject subject;
	uint32_t i;

	begin_subject(&subject, _i);
	header = (const struct qbm_header *)(void *)subject.build.bytes;
	MUTATE(&subject, "header", 0, header_fields);
	for (i = 0; i < header->section_count; i++)
		MUTATE(&subject, "section",
		       sizeof(*header) + i * sizeof(struct qbm_section),
		       section_fields);
	end_subject(&subject);
}
END_TEST

/* V62 LD05 */
START_TEST(mutated_tables_are_refused_or_consistent)
{
	struct subject subject;
	struct build *build = &subject.build;
	size_t at;
	uint32_t i;

	begin_subject(&subject, _i);
	at = content(&subject, "META");
	MUTATE(&subject, "META", at, pair_fields);
	for (i = 0; i < build->num_meta; i++)
		MUTATE(&subject, "META entry", at + 8 + i * 8, pair_fields);
	at = content(&subject, "VARI");
	MUTATE(&subject, "VARI", at, vari_fields);
	for (i = 0; i < build->num_variants; i++) {
		MUTATE(&subject, "variant", at + 32 + i * 128, variant_fields);
		MUTATE(&subject, "bundle",
		       at + 32 + build->num_variants * 128 + i * 64,
		       bundle_fields);
	}
	if (build->num_caches) {
		at = content(&subject, "CACH");
		MUTATE(&subject, "CACH", at, cach_fields);
		for (i = 0; i < build->num_caches; i++)
			MUTATE(&subject, "cache", at + 32 + i * 96,
			       cache_fields);
	}
	if (build->num_debug) {
		at = content(&subject, "DBGI");
		/* u32 fields throughout, but a reserved one */
		for (i = 0; i < 16 + build->num_debug * 16; i += 4)
			mutate_at(&subject, "DBGI", at + i, 4);
	}
	end_subject(&subject);
}
END_TEST

/* V62 LD05 */
START_TEST(mutated_ios_are_refused_or_consistent)
{
	struct subject subject;
	struct build *build = &subject.build;
	size_t at;
	uint32_t i;

	begin_subject(&subject, _i);
	at = content(&subject, "IOTB");
	MUTATE(&subject, "IOTB", at, iotb_fields);
	for (i = 0; i < build->num_ios; i++)
		MUTATE(&subject, "io", at + 32 + i * 256, io_fields);
	for (i = 0; i < build->num_scales; i++)
		mutate_at(&subject, "scale",
			  at + 32 + build->num_ios * 256 + i * 4, 4);
	end_subject(&subject);
}
END_TEST

/* V62 LD06 */
START_TEST(mutated_programs_are_refused_or_consistent)
{
	struct subject subject;
	size_t at;
	size_t i;

	begin_subject(&subject, _i);
	at = content(&subject, "PROG");
	for (i = 0; i < subject.build.programs[0].nbytes; i += 4)
		mutate_at(&subject, "PROG", at + i, 4);
	at = content(&subject, "STRS");
	for (i = 0; i < subject.build.strings_size; i++)
		mutate_at(&subject, "STRS", at + i, 1);
	end_subject(&subject);
}
END_TEST

int main(void)
{
	const int num_fills = (int)qbrt_array_size(fills);
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(mutated_heads_are_refused_or_consistent,
			       num_fills),
		QBRT_LOOP_TEST(mutated_tables_are_refused_or_consistent,
			       num_fills),
		QBRT_LOOP_TEST(mutated_ios_are_refused_or_consistent,
			       num_fills),
		QBRT_LOOP_TEST(mutated_programs_are_refused_or_consistent,
			       num_fills),
	};

	return qbrt_test_run("model-file-mutation", tests,
			     qbrt_array_size(tests));
}
