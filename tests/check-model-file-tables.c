// SPDX-License-Identifier: MIT
/*
 * Rules of the reader for VARI, IOTB and CACH, for themselves and against the
 * programs.
 */
#include "model-file.h"

#include <string.h>

#include "edit-model.h"
#include "test-util.h"
#include "util.h"

/* LD05 FM23 */
START_TEST(variants_and_bundles_are_checked)
{
	static const struct edit edits[] = {
		{ VARI(variant_count), 0, 20, "variant_count is 0, must be" },
		{ VARI(variant_count), 65, 20, "variant_count is 65" },
		{ VARI(variant_size), 127, 20, "variant_size is 127, must be" },
		{ VARI(bundle_count), 3, 20, "bundle_count is 3, must be 2" },
		{ VARI(bundle_size), 65, 20, "bundle_size is 65, must be 64" },
		{ VARI(variants_offset), 40, 20, "variants_offset is 40" },
		{ VARI(bundles_offset), 280, 20, "bundles_offset is 280" },
		{ VARI(bundles_offset), 292, 20, "bundles_offset is 292" },
		{ VARI(bundles_offset), 296, 20, "bundles_offset is 296" },
		{ VARI(bundles_offset), 0xfffffff8, 20, "bundles_offset is" },
		{ VARI(default_variant), 1, 20, "default_variant is 1, must" },
		{ VARI(reserved), 1, 20, "reserved is not 0" },
		{ VARIANT(0, flags), 2, 20, "flags is 2, must be 0 to 1" },
		{ VARIANT(1, first_bundle), 0, 20, "first_bundle is 0, must" },
		{ VARIANT(1, bundle_count), 2, 20, "bundle_count is 2, must" },
		{ VARIANT(0, first_input), 1, 20,
		  "IOTB entry 1 is not its input 0" },
		{ VARIANT(0, first_input), 10, 20,
		  "first_input 10 and input_count 1, IOTB has 10 entries" },
		{ VARIANT(0, input_count), 65, 20, "input_count is 65" },
		{ VARIANT(0, input_count), 0, 20, "10 entries, the variants" },
		{ VARIANT(0, input_count), 2, 20, "entry 1 is not its input" },
		{ VARIANT(0, first_output), 2, 20, "is not its output 0" },
		{ VARIANT(0, output_count), 0, 20, "output_count is 0, must" },
		{ VARIANT(0, output_count), 65, 20, "output_count is 65" },
		{ VARIANT(1, output_count), 1, 20, "output_count is 1, must" },
		{ VARIANT(0, first_state), 4, 20, "is not its state 0" },
		{ VARIANT(0, first_state), 0xffffffff, 20,
		  "first_state 42949" },
		{ VARIANT(1, state_count), 3, 20, "state_count is 3, must be" },
		{ VARIANT(1, reserved0), 1, 20, "reserved0 is not 0" },
		{ VARIANT(0, batch), 0, 20, "batch is 0, must be 1 to" },
		{ VARIANT(0, batch), 2, 20, "batch 1" },
		{ VARIANT(0, mode_mask), 8, 20, "mode_mask is 8, must be 1" },
		{ VARIANT(0, mac_count), 8, 20, "mac_count is 8, must be 0" },
		{ VARIANT(1, reserved1), 1, 20, "reserved1 is not 0" },
		{ VARIANT(1, reserved2), 1, 20, "reserved2 is not 0" },
		{ VARIANT(0, max_cache), 31, 20,
		  "max_cache of variant 0 is 31, must be 32" },
		{ VARIANT(0, max_tokens), 9, 20, "seq_param 0" },
		{ VARIANT(0, seq_param), 1, 20, "seq_param 1" },
		{ VARIANT(0, seq_param), 2, 20, "seq_param 2" },
		{ VARIANT(0, past_param), 0, 20, "past_param 0" },
		{ VARIANT(0, past_param), 4, 20, "past_param 4" },
		{ VARIANT(1, activation_slots), 0, 20,
		  "activation_slots is 0, must be 1 with states" },
		{ BUNDLE(2, 0, mode_mask), 0, 20, "mode_mask is 0, must be" },
		{ BUNDLE(2, 0, mode_mask), 4, 20, "mode_mask is 0x4, must be" },
		{ PROGRAM_OF(2, 1, 0), 2, 20,
		  "program[0] is 2, the file has 2 programs" },
		{ PROGRAM_OF(2, 1, 0), 0xffffffff, 20, "the file has 2 prog" },
		{ BUNDLE(2, 1, reserved0), 1, 20, "reserved0 is not 0" },
		{ BUNDLE(2, 1, reserved1), 1, 20, "reserved1 is not 0" },
		{ BUNDLE(2, 1, scratch_size), 64, 20,
		  "scratch 0: variant and bundle 1 say 0, 1, 0, 64" },
		/* another program: its bindings are another variant's */
		{ PROGRAM_OF(2, 1, 0), 0, 20, "io of binding 0 is 0" },
	};

	check_edits(build_full, edits, qbrt_array_size(edits));
}
END_TEST

/* FM20 FM21 */
START_TEST(programs_of_a_bundle_are_checked)
{
	static const struct edit edits[] = {
		{ PROGRAM_OF(1, 0, 0), 0xffffffff, 20,
		  "program[0] is 4294967295" },
		/* index 2 has no mode, index 3 is Global4 */
		{ PROGRAM_OF(1, 0, 2), 0, 20,
		  "program[2] is 0, must be NONE as mode_mask is 0x1b" },
		{ PROGRAM_OF(1, 0, 3), 2, 20, "core_mode 4" },
		{ PROGRAM_OF(1, 0, 1), 1, 20, "core_mode 3" },
		{ VARIANT(0, batch), 1, 20, "batch 2" },
		/* a tensor's name alone differs */
		{ "PROG", 1, 128 + 64 + 108, 4, 1, 20,
		  "differs from program 0 of its bundle" },
	};

	check_edits(build_modes, edits, qbrt_array_size(edits));
}
END_TEST

/* FM22 */
START_TEST(modes_of_variants_are_equal)
{
	struct build build;

	build_full(&build);
	build.variants[1].mode_mask = 3;
	build.bundles[1].mode_mask = 3;
	build.bundles[1].program[1] = 1;
	build_finish(&build);
	check_refused(&build, "variant 1 at byte");
	ck_assert_detail("mode_mask is 3, must be 1");
	build_end(&build);
}
END_TEST

/* LD05 FM19 */
START_TEST(names_of_variants_are_unique_and_empty_ranges_start_at_0)
{
	struct build build;

	build_full(&build);
	build.variants[1].name = build_string(&build, "first");
	build_finish(&build);
	check_refused(&build, "has the name of variant 0");
	build_end(&build);

	build_plain(&build);
	build.variants[0].first_state = 1;
	build_finish(&build);
	check_refused(&build, "first_state 1 and state_count 0");
	build_end(&build);
}
END_TEST

/* LD05 FM30 FM34 */
START_TEST(inputs_and_outputs_are_checked)
{
	static const struct edit edits[] = {
		{ IOTB(count), 65537, 20, "count is 65537, must be 1 to" },
		{ IOTB(count), 3, 20, "count is 3, but the section has" },
		{ IOTB(count), 0, 20, "count is 0, must be" },
		{ IOTB(entry_size), 255, 20, "entry_size is 255, must be" },
		{ IOTB(scale_count), 4, 20, "scales_offset is 544" },
		{ IOTB(scale_count), 0, 20, "scales_offset is 544, must be 0" },
		{ IOTB(scales_offset), 540, 20, "scales_offset is 540" },
		{ IOTB(scales_offset), 546, 20, "scales_offset is 546" },
		{ IOTB(reserved), 1, 20, "reserved is not 0" },
		{ IOTB(state_size), (1ull << 34) + 1, 20, "state_size is" },
		{ IOTB(state_size), 64, 20, "0 STATE bindings" },
		{ "IOTB", 0, 544, 4, 0, 20, "scale 0 of the section" },
		{ "IOTB", 0, 552, 4, 0x7fc00000, 20, "scale 2 of the section" },
		{ "IOTB", 0, 548, 4, 0x7f800000, 20, "scale 1 of the section" },
		{ IO(0, variant), 1, 20, "variant is 1, must be 0" },
		{ IO(0, role), 3, 20, "role is 3, must be 0 to 2" },
		{ IO(0, role), 1, 20, "entry 0 is not its input 0" },
		{ IO(0, device_dtype), 13, 20, "device_dtype is 13, must" },
		{ IO(1, device_dtype), 2, 20, "zero_point is 128" },
		{ IO(0, host_dtype), 13, 20, "host_dtype is 13, must be" },
		{ IO(0, host_dtype), 2, 20, "accepted_dtypes is 0x3, must" },
		{ IO(0, layout), 2, 20, "layout is 2, must be 0 to 1" },
		{ IO(0, accepted_dtypes), 7, 20, "accepted_dtypes is 0x7" },
		{ IO(0, accepted_dtypes), 1, 20, "accepted_dtypes is 0x1" },
		{ IO(0, index), 1, 20, "entry 0 is not its input 0" },
		{ IO(0, flags), 4, 20, "flags is 4, must be 0 to 3" },
		{ IO(0, flags), 0, 20, "norm_channels is 3 with flags 0x0" },
		{ IO(0, norm_channels), 2, 20, "norm_channels is 2" },
		{ IO(0, norm_channels), 5, 20, "norm_channels is 5, must" },
		{ IO(0, norm_channels), 0, 20, "norm_channels is 0 with" },
		{ IO(0, norm_channels), 4, 20, "mean[3] or std[3]" },
		{ IO(0, std), 0, 20, "mean[0] or std[0] is no usable number" },
		{ IO(0, mean), 0x7fc00000, 20, "mean[0] or std[0]" },
		{ IO(0, rank), 0, 20, "rank is 0, must be 1 to 6" },
		{ IO(0, rank), 7, 20, "rank is 7, must be 1 to 6" },
		{ IO(0, rank), 2, 20, "shape[2] is 3, with rank 2" },
		{ IO(0, rank), 4, 20, "shape[3] is 0, with rank 4" },
		{ IO(0, source_rank), 7, 20, "source_rank is 7, must be" },
		{ IO(0, source_rank), 2, 20, "source_shape[2] is 3" },
		{ IO(0, size), 0, 20, "size is 0, must be" },
		{ IO(0, size), 49, 20, "IOTB entry 0 says 49" },
		{ IO(1, shape), 1ull << 32, 20, "shape[0] is 0" },
		{ IO(1, shape), 5 | 4ull << 32, 20,
		  "has extent 4 by parameters 0x0, IOTB says 5 by 0x0" },
		{ IO(1, shape), 0xffffffff, 20, "shape[0] is -1" },
		{ "IOTB", 0, 32 + 256 + 32 + 20, 4, 1, 20, "shape[5] is 1" },
		{ "IOTB", 0, 32 + 256 + 56 + 20, 4, 1, 20,
		  "source_shape[5] is 1" },
		{ IO(1, source_perm), 3, 20, "source_perm[0] is 3" },
		{ IO(1, source_perm), 1, 20, "source_perm[2] is 0, with" },
		{ "IOTB", 0, 32 + 256 + 80 + 3, 1, 0, 20, "source_perm[3]" },
		{ IO(1, dyn_axis), 0, 20, "dyn_axis 0 and dyn_param 255" },
		{ IO(1, dyn_param), 0, 20, "dyn_axis 255 and dyn_param 0" },
		{ IO(1, source_dtype), 13, 20, "source_dtype is 13, must" },
		{ IO(1, scale), 0, 20, "scale is 0, must be 2^-60 to 2^16" },
		{ IO(1, scale), 0x7fc00000, 20, "scale is nan, must be" },
		{ IO(0, scale), 0x3f800000, 20, "scale is 1, must be 0" },
		{ IO(0, scale_count), 2, 20, "scale_count 2" },
		{ IO(0, scale_count), 0, 20, "scale_count 0 and scale_axis 2" },
		{ IO(0, scale_first), 1, 20, "scale_first 1" },
		{ IO(1, scale_first), 1, 20, "scale_first 1" },
		{ IO(0, scale_axis), 1, 20, "scale_axis 1" },
		{ IO(0, scale_axis), 3, 20, "scale_axis 3" },
		{ IO(1, scale_axis), 0, 20, "scale_axis 0" },
		{ IO(1, zero_point), 256, 20, "zero_point is 256, must be 0" },
		{ IO(1, zero_point), 0xffffffff, 20, "zero_point is -1" },
		{ IO(1, state_init), 1, 20, "state_init is 1, must be 0" },
		{ IO(1, init_offset), 64, 20, "init_offset is 64, must be 0" },
		{ IO(1, state_offset), 64, 20, "state_offset is 64, must be" },
		{ IO(1, cache), 0, 20, "cache is 0, must be 4294967295" },
		{ IO(0, alias), 1, 20, "alias is 1, must be NONE" },
		{ IO(1, alias), 2, 20, "alias is 2, must be NONE" },
		{ IO(1, alias), 1, 20, "alias is 1, which is no input" },
		{ IO(1, alias), 0, 20, "alias 4294967295, IOTB entry 1 says" },
		{ IO(1, reserved0), 1, 20, "reserved0 is not 0" },
		{ IO(1, reserved1), 1, 20, "reserved1 is not 0" },
		/* a type of the same size */
		{ IO(1, device_dtype), 11, 20, "zero_point is 128" },
	};

	check_edits(build_plain, edits, qbrt_array_size(edits));
}
END_TEST

/* FM30 */
START_TEST(batched_and_variable_shapes_are_checked)
{
	static const struct edit batched[] = {
		{ IO(0, flags), 0, 20,
		  "and rank 2, IOTB entry 0 says 0 and 1" },
		{ IO(0, device_dtype), 6, 20, "accepted_dtypes" },
		{ IO(0, rank), 6, 20, "shape[1] is 0" },
		{ IO(1, alias), 0xffffffff, 20, "and alias 0, IOTB entry 1" },
	};
	static const struct edit variable[] = {
		{ IO(0, shape), 0xfffffffe, 20, "shape[1] is 0" },
		{ IO(0, shape), 0xfffffffe | 4ull << 32, 20,
		  "has the variable extent -2 by parameter 0" },
		{ IO(0, shape), 0x80000000 | 4ull << 32, 20,
		  "shape[0] is -21" },
		{ IO(0, dyn_param), 1, 20, "IOTB says 24 by 0x2" },
		{ IO(0, dyn_param), 3, 20, "by parameter 3" },
		{ IO(0, dyn_param), 4, 20, "dyn_param 4 do not fit" },
		{ IO(0, dyn_axis), 1, 20, "shape[0] is -1" },
		{ IO(0, dyn_axis), 2, 20, "dyn_axis 2 and dyn_param 0" },
		{ IO(0, layout), 1, 20, "layout HWC with rank 2, must be 3" },
	};

	check_edits(build_modes, batched, qbrt_array_size(batched));
	check_edits(build_full, variable, qbrt_array_size(variable));
}
END_TEST

/* LD05 FM22 FM41 */
START_TEST(states_and_weights_are_checked)
{
	static const struct edit edits[] = {
		{ IO(3, state_offset), 32, 20, "state_offset is 32 and size" },
		{ IO(3, state_offset), 128, 20,
		  "state_offset is 128 and size" },
		{ IO(3, state_offset), 1ull << 63, 20, "state_offset is 9223" },
		{ IO(4, state_offset), 448, 20, "differs from state 1" },
		{ IO(8, state_offset), 64, 20, "differs from state 0" },
		{ IO(8, size), 256, 20, "which is not that of its shape" },
		{ IO(8, name), 0, 20, "differs from state 0" },
		{ IO(8, accepted_dtypes), 0, 20, "accepted_dtypes is 0x0" },
		{ IO(9, state_init), 0, 20, "init_offset is 64, must be 0" },
		{ IO(4, init_offset), 32, 20, "init_offset is 32 and size 64" },
		{ IO(4, init_offset), 128, 20, "init_offset is 128 and size" },
		{ IO(4, init_offset), 1ull << 63, 20, "init_offset is 9223" },
		{ IO(4, cache), 2, 20, "differs from state 1" },
		{ IOTB(state_size), 640, 20, "state_size is 576, must be 640" },
		{ IOTB(state_size), 512, 20, "state_offset is 512 and size" },
	};
	static const struct edit weights[] = {
		{ "PROG", 0, 128 + 3 * 32 + 8, 8, 192, 20,
		  "WEIGHTS has 192 bytes, section WGHT 128" },
	};

	check_edits(build_full, edits, qbrt_array_size(edits));
	check_edits(build_full, weights, qbrt_array_size(weights));
}
END_TEST

/* LD05 */
START_TEST(states_do_not_overlap)
{
	struct build build;

	build_full(&build);
	build.ios[4].state_offset = 448;
	build.ios[9].state_offset = 448;
	build_finish(&build);
	check_refused(&build, "state_offset 448 is inside state 0");
	build_end(&build);
}
END_TEST

/* LD05 MM07 */
START_TEST(caches_are_checked)
{
	static const struct edit edits[] = {
		{ CACH(count), 0, 20, "count is 0, must be 1 to 4096" },
		{ CACH(count), 4097, 20, "count is 4097, must be" },
		{ CACH(count), 3, 20, "count is 3, but the section has" },
		{ CACH(entry_size), 95, 20, "entry_size is 95, must be 96" },
		{ CACH(cache_count), 0, 20, "cache_count is 0, must be" },
		{ CACH(cache_count), 4097, 20, "cache_count is 4097" },
		{ CACH(max_tokens), 0, 20, "max_tokens is 0, must be 1" },
		{ CACH(max_tokens), 31, 20, "is 32, must be 31" },
		{ CACH(cache_type), 2, 20, "cache_type is 2, must be 0 to 1" },
		{ CACH(reserved0), 1, 20, "reserved0 is not 0" },
		{ CACH(state_size), 64, 20, "state_size is 64, must be 576" },
		{ CACHE(0, name), 2, 20, "CACH entry 0 at byte" },
		{ CACHE(1, dtype), 13, 20, "dtype is 13, must be 0 to 12" },
		{ CACHE(0, offset), 512, 20, "offset is 512 and size 256" },
		{ CACHE(1, offset), 1ull << 63, 20, "offset is 9223" },
		{ CACHE(0, size), 255, 20, "size is 255, which is not that" },
		{ CACHE(0, max_tokens), 0, 20, "max_tokens is 0, must be" },
		{ CACHE(0, max_tokens), 17, 20, "size is 256, which is not" },
		{ CACHE(0, outer_count), 0, 20, "outer_count is 0, must be" },
		{ CACHE(0, outer_count), 0xffffffff, 20, "outer_stride 0" },
		{ CACHE(0, token_stride), 1ull << 63, 20,
		  "size is 256, which" },
		{ CACHE(0, token_stride), 8, 20, "token_stride 8" },
		{ CACHE(0, token_size), 0, 20, "token_size is 0, must be 1" },
		{ CACHE(0, token_size), 1ull << 40, 20, "token_size is 10995" },
		{ CACHE(0, state), 0, 20, "state is 0, which is no state" },
		{ CACHE(0, state), 4, 20, "state is 4, which is no state" },
		{ CACHE(0, state), 99, 20, "state is 99, which is no state" },
		{ CACHE(0, reserved), 1, 20, "reserved is not 0" },
	};
	struct build build;

	check_edits(build_full, edits, qbrt_array_size(edits));

	build_full(&build);
	build.caches[1].name = build_string(&build, "kv.keys");
	build_finish(&build);
	check_refused(&build, "two layers have the name \"kv.keys\"");
	build_end(&build);
}
END_TEST

/* KV01 LD05 */
START_TEST(states_have_no_variable_axis)
{
	struct build build;

	build_full(&build);
	build.ios[3].shape[0] = -1;
	build.ios[3].dyn_axis = 0;
	build.ios[3].dyn_param = 0;
	build_finish(&build);
	check_refused(&build, "dyn_axis is 0, must be NONE for a state");
	build_end(&build);
}
END_TEST

/* LD05 */
START_TEST(states_name_caches_that_lie_in_them)
{
	struct build build;

	build_full(&build);
	build.ios[3].cache = 2;
	build.ios[8].cache = 2;
	build_finish(&build);
	check_refused(&build, "cache of entry 3 is 2, the file has 2 cache");
	build.ios[3].cache = QBNPU_NONE32;
	build.ios[8].cache = QBNPU_NONE32;
	build_finish(&build);
	check_refused(&build, "state is 3, which is no state with a cache");
	build.ios[3].cache = 0;
	build.ios[8].cache = 0;
	build.ios[4].cache = 1;
	build.ios[9].cache = 1;
	build_finish(&build);
	check_refused(&build, "cache of entry 4 is 1, which lies in another");
	build_end(&build);

	/* without CACH no variant has a cache length */
	build_full(&build);
	build.num_caches = 0;
	build.ios[3].cache = QBNPU_NONE32;
	build.ios[8].cache = QBNPU_NONE32;
	build_finish(&build);
	check_refused(&build, "max_cache of variant 0 is 32, must be 0");
	build_end(&build);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(variants_and_bundles_are_checked),
		QBRT_TEST(programs_of_a_bundle_are_checked),
		QBRT_TEST(modes_of_variants_are_equal),
		QBRT_TEST(
			names_of_variants_are_unique_and_empty_ranges_start_at_0),
		QBRT_TEST(inputs_and_outputs_are_checked),
		QBRT_TEST(batched_and_variable_shapes_are_checked),
		QBRT_TEST(states_and_weights_are_checked),
		QBRT_TEST(states_do_not_overlap),
		QBRT_TEST(caches_are_checked),
		QBRT_TEST(states_have_no_variable_axis),
		QBRT_TEST(states_name_caches_that_lie_in_them),
	};

	return qbrt_test_run("model-file-tables", tests,
			     qbrt_array_size(tests));
}
