/* SPDX-License-Identifier: MIT */
/*
 * Asserts that the structs of model-file.h are the file's bytes: every size
 * and offset of docs/spec/device-and-format.md, section 3. Included by
 * model-file.c alone.
 */
#ifndef QBRT_MODEL_FILE_LAYOUT_H
#define QBRT_MODEL_FILE_LAYOUT_H

#include "model-file.h"

#define LAYOUT_SIZE(type, size) \
	_Static_assert(sizeof(struct type) == (size), #type)
#define LAYOUT(type, member, offset) \
	_Static_assert(offsetof(struct type, member) == (offset), #member)

LAYOUT_SIZE(qbm_header, 256);
LAYOUT(qbm_header, magic, 0);
LAYOUT(qbm_header, format_major, 8);
LAYOUT(qbm_header, format_minor, 10);
LAYOUT(qbm_header, isa_major, 12);
LAYOUT(qbm_header, isa_minor, 14);
LAYOUT(qbm_header, header_size, 16);
LAYOUT(qbm_header, section_count, 20);
LAYOUT(qbm_header, section_entry_size, 24);
LAYOUT(qbm_header, min_reader_minor, 28);
LAYOUT(qbm_header, target, 30);
LAYOUT(qbm_header, file_size, 32);
LAYOUT(qbm_header, isa_features, 40);
LAYOUT(qbm_header, section_table_offset, 48);
LAYOUT(qbm_header, section_table_crc32, 56);
LAYOUT(qbm_header, flags, 60);
LAYOUT(qbm_header, producer, 64);
LAYOUT(qbm_header, content_id, 96);
LAYOUT(qbm_header, reserved, 128);
LAYOUT(qbm_header, header_crc32, 252);
LAYOUT_SIZE(qbm_section, 80);
LAYOUT(qbm_section, kind, 0);
LAYOUT(qbm_section, flags, 4);
LAYOUT(qbm_section, instance, 8);
LAYOUT(qbm_section, align_log2, 12);
LAYOUT(qbm_section, reserved0, 13);
LAYOUT(qbm_section, offset, 16);
LAYOUT(qbm_section, size, 24);
LAYOUT(qbm_section, crc32, 32);
LAYOUT(qbm_section, reserved1, 36);
LAYOUT(qbm_section, sha256, 40);
LAYOUT(qbm_section, reserved2, 72);
LAYOUT_SIZE(qbm_meta, 8);
LAYOUT(qbm_meta, count, 0);
LAYOUT(qbm_meta, reserved, 4);
LAYOUT_SIZE(qbm_meta_entry, 8);
LAYOUT(qbm_meta_entry, key, 0);
LAYOUT(qbm_meta_entry, value, 4);
LAYOUT_SIZE(qbm_vari, 32);
LAYOUT(qbm_vari, variant_count, 0);
LAYOUT(qbm_vari, variant_size, 4);
LAYOUT(qbm_vari, bundle_count, 8);
LAYOUT(qbm_vari, bundle_size, 12);
LAYOUT(qbm_vari, variants_offset, 16);
LAYOUT(qbm_vari, bundles_offset, 20);
LAYOUT(qbm_vari, default_variant, 24);
LAYOUT(qbm_vari, reserved, 28);
LAYOUT_SIZE(qbm_variant, 128);
LAYOUT(qbm_variant, name, 0);
LAYOUT(qbm_variant, flags, 4);
LAYOUT(qbm_variant, first_bundle, 8);
LAYOUT(qbm_variant, bundle_count, 12);
LAYOUT(qbm_variant, first_input, 16);
LAYOUT(qbm_variant, input_count, 20);
LAYOUT(qbm_variant, first_output, 24);
LAYOUT(qbm_variant, output_count, 28);
LAYOUT(qbm_variant, first_state, 32);
LAYOUT(qbm_variant, state_count, 36);
LAYOUT(qbm_variant, reserved0, 40);
LAYOUT(qbm_variant, batch, 48);
LAYOUT(qbm_variant, mode_mask, 52);
LAYOUT(qbm_variant, mac_count, 56);
LAYOUT(qbm_variant, reserved1, 64);
LAYOUT(qbm_variant, max_tokens, 72);
LAYOUT(qbm_variant, max_cache, 76);
LAYOUT(qbm_variant, seq_param, 80);
LAYOUT(qbm_variant, past_param, 84);
LAYOUT(qbm_variant, activation_slots, 88);
LAYOUT(qbm_variant, reserved2, 92);
LAYOUT_SIZE(qbm_bundle, 64);
LAYOUT(qbm_bundle, name, 0);
LAYOUT(qbm_bundle, mode_mask, 4);
LAYOUT(qbm_bundle, program, 8);
LAYOUT(qbm_bundle, reserved0, 28);
LAYOUT(qbm_bundle, mac_count, 32);
LAYOUT(qbm_bundle, scratch_size, 40);
LAYOUT(qbm_bundle, reserved1, 48);
LAYOUT_SIZE(qbm_iotb, 32);
LAYOUT(qbm_iotb, count, 0);
LAYOUT(qbm_iotb, entry_size, 4);
LAYOUT(qbm_iotb, scale_count, 8);
LAYOUT(qbm_iotb, scales_offset, 12);
LAYOUT(qbm_iotb, state_size, 16);
LAYOUT(qbm_iotb, reserved, 24);
LAYOUT_SIZE(qbm_io, 256);
LAYOUT(qbm_io, name, 0);
LAYOUT(qbm_io, variant, 4);
LAYOUT(qbm_io, role, 8);
LAYOUT(qbm_io, device_dtype, 9);
LAYOUT(qbm_io, host_dtype, 10);
LAYOUT(qbm_io, layout, 11);
LAYOUT(qbm_io, accepted_dtypes, 12);
LAYOUT(qbm_io, index, 16);
LAYOUT(qbm_io, flags, 20);
LAYOUT(qbm_io, rank, 22);
LAYOUT(qbm_io, source_rank, 23);
LAYOUT(qbm_io, size, 24);
LAYOUT(qbm_io, shape, 32);
LAYOUT(qbm_io, source_shape, 56);
LAYOUT(qbm_io, source_perm, 80);
LAYOUT(qbm_io, dyn_axis, 86);
LAYOUT(qbm_io, dyn_param, 87);
LAYOUT(qbm_io, buffer_info, 88);
LAYOUT(qbm_io, source_dtype, 140);
LAYOUT(qbm_io, scale, 144);
LAYOUT(qbm_io, zero_point, 148);
LAYOUT(qbm_io, scale_first, 152);
LAYOUT(qbm_io, scale_count, 156);
LAYOUT(qbm_io, scale_axis, 160);
LAYOUT(qbm_io, state_init, 161);
LAYOUT(qbm_io, norm_channels, 162);
LAYOUT(qbm_io, reserved0, 163);
LAYOUT(qbm_io, alias, 164);
LAYOUT(qbm_io, mean, 168);
LAYOUT(qbm_io, std, 184);
LAYOUT(qbm_io, init_offset, 200);
LAYOUT(qbm_io, state_offset, 208);
LAYOUT(qbm_io, cache, 216);
LAYOUT(qbm_io, reserved1, 220);
LAYOUT_SIZE(qbm_cach, 32);
LAYOUT(qbm_cach, count, 0);
LAYOUT(qbm_cach, entry_size, 4);
LAYOUT(qbm_cach, cache_count, 8);
LAYOUT(qbm_cach, max_tokens, 12);
LAYOUT(qbm_cach, cache_type, 16);
LAYOUT(qbm_cach, reserved0, 20);
LAYOUT(qbm_cach, state_size, 24);
LAYOUT_SIZE(qbm_cache, 96);
LAYOUT(qbm_cache, name, 0);
LAYOUT(qbm_cache, dtype, 4);
LAYOUT(qbm_cache, layer_hash, 8);
LAYOUT(qbm_cache, offset, 16);
LAYOUT(qbm_cache, size, 24);
LAYOUT(qbm_cache, max_tokens, 32);
LAYOUT(qbm_cache, outer_count, 36);
LAYOUT(qbm_cache, outer_stride, 40);
LAYOUT(qbm_cache, token_stride, 48);
LAYOUT(qbm_cache, token_size, 56);
LAYOUT(qbm_cache, state, 64);
LAYOUT(qbm_cache, reserved, 68);
LAYOUT_SIZE(qbm_dbgi, 16);
LAYOUT(qbm_dbgi, count, 0);
LAYOUT(qbm_dbgi, entry_size, 4);
LAYOUT(qbm_dbgi, reserved, 8);
LAYOUT_SIZE(qbm_debug, 16);
LAYOUT(qbm_debug, nodes, 0);
LAYOUT(qbm_debug, op_types, 4);
LAYOUT(qbm_debug, fused, 8);
LAYOUT(qbm_debug, reserved, 12);

#undef LAYOUT
#undef LAYOUT_SIZE

#endif
