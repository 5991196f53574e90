# SPDX-License-Identifier: MIT
"""Layouts of docs/spec/device-and-format.md, sections 3 to 5, as data.

Each table line is `offset type name [default]`, in the notation of the page;
a default is 0 unless it is NONE or a number. `op` is a u16 tensor operand,
whose default is NONE. Offsets are checked against the types when the module
is loaded, and against the page by tests/qbcompile/test_container.py.
"""

from __future__ import annotations

from .layout import Struct

NONE8 = 0xFF
NONE16 = 0xFFFF
NONE32 = 0xFFFFFFFF

# Data types (section 2): name and bytes per element, by code.
DTYPE_NAMES = (
    "f32 u8 i8 f16 i16 u16 i32 u32 i64 u64 f64 bool bf16".split()  # fmt: skip
)
DTYPE_SIZES = (4, 1, 1, 2, 2, 2, 4, 4, 8, 8, 8, 1, 2)
F32, U8, I8, F16, I16, U16, I32, U32, I64, U64, F64, BOOL, BF16 = range(13)

ROLE_INPUT, ROLE_OUTPUT, ROLE_STATE = range(3)
ROLE_NAMES = ("input", "output", "state")

WEIGHTS, SCRATCH, STATE, INPUT, OUTPUT = range(1, 6)
BINDING_NAMES = ("", "weights", "scratch", "state", "input", "output")
ACCESS = (0, 1, 3, 3, 1, 2)  # by binding kind: bit 0 reads, bit 1 writes

TARGET_NAMES = (
    "any aries-rb regulus-ra regulus-rb regulus-ra-usb regulus-rb-usb".split()
)

# Core modes (bundle.program index, mode_mask bit); 2 is not used.
SINGLE, MULTI, GLOBAL4, GLOBAL8 = 0, 1, 3, 4

# Feature bits (4.2)
FEATURE_INT8 = 1 << 0
FEATURE_HALF = 1 << 1
FEATURE_STATE = 1 << 3
FEATURE_DYNAMIC = 1 << 4
FEATURE_LSTM = 1 << 5
FEATURE_GATHER = 1 << 6
FEATURE_DIAG = 1 << 7
FEATURES_ISA = 0xFB

CMD_IN_PLACE = 1
POST_AFFINE = 1
PROGRAM_TIMESTAMPS = 1

# Container, section 3 ----------------------------------------------------

HEADER = Struct(
    "qbm_header",
    256,
    """
    0 char[8] magic
    8 u16 format_major 1
    10 u16 format_minor
    12 u16 isa_major 1
    14 u16 isa_minor
    16 u32 header_size 256
    20 u32 section_count
    24 u32 section_entry_size 80
    28 u16 min_reader_minor
    30 u16 target
    32 u64 file_size
    40 u64 isa_features
    48 u64 section_table_offset 256
    56 u32 section_table_crc32
    60 u32 flags
    64 char[32] producer
    96 char[32] content_id
    128 u8[124] reserved
    252 u32 header_crc32
    """,
)

SECTION = Struct(
    "qbm_section",
    80,
    """
    0 u32 kind
    4 u32 flags
    8 u32 instance
    12 u8 align_log2
    13 u8[3] reserved0
    16 u64 offset
    24 u64 size
    32 u32 crc32
    36 u32 reserved1
    40 char[32] sha256
    72 u64 reserved2
    """,
)

META = Struct("qbm_meta", 8, "0 u32 count; 4 u32 reserved")
META_ENTRY = Struct("qbm_meta_entry", 8, "0 u32 key; 4 u32 value")

VARI = Struct(
    "qbm_vari",
    32,
    """
    0 u32 variant_count
    4 u32 variant_size 128
    8 u32 bundle_count
    12 u32 bundle_size 64
    16 u32 variants_offset 32
    20 u32 bundles_offset
    24 u32 default_variant
    28 u32 reserved
    """,
)

VARIANT = Struct(
    "qbm_variant",
    128,
    """
    0 u32 name
    4 u32 flags
    8 u32 first_bundle
    12 u32 bundle_count
    16 u32 first_input
    20 u32 input_count
    24 u32 first_output
    28 u32 output_count
    32 u32 first_state
    36 u32 state_count
    40 u32[2] reserved0
    48 u32 batch
    52 u32 mode_mask
    56 u64 mac_count
    64 u64 reserved1
    72 u32 max_tokens
    76 u32 max_cache
    80 u32 seq_param NONE
    84 u32 past_param NONE
    88 u32 activation_slots
    92 u8[36] reserved2
    """,
)

BUNDLE = Struct(
    "qbm_bundle",
    64,
    """
    0 u32 name
    4 u32 mode_mask
    8 u32[5] program NONE
    28 u32 reserved0
    32 u64 mac_count
    40 u64 scratch_size
    48 u8[16] reserved1
    """,
)

IOTB = Struct(
    "qbm_iotb",
    32,
    """
    0 u32 count
    4 u32 entry_size 256
    8 u32 scale_count
    12 u32 scales_offset
    16 u64 state_size
    24 u64 reserved
    """,
)

IO = Struct(
    "qbm_io",
    256,
    """
    0 u32 name
    4 u32 variant
    8 u8 role
    9 u8 device_dtype
    10 u8 host_dtype
    11 u8 layout
    12 u32 accepted_dtypes
    16 u32 index
    20 u16 flags
    22 u8 rank
    23 u8 source_rank
    24 u64 size
    32 i32[6] shape
    56 i32[6] source_shape
    80 u8[6] source_perm NONE
    86 u8 dyn_axis NONE
    87 u8 dyn_param NONE
    88 u32[13] buffer_info
    140 u32 source_dtype
    144 f32 scale
    148 i32 zero_point
    152 u32 scale_first
    156 u32 scale_count
    160 u8 scale_axis NONE
    161 u8 state_init
    162 u8 norm_channels
    163 u8 reserved0
    164 u32 alias NONE
    168 f32[4] mean
    184 f32[4] std
    200 u64 init_offset
    208 u64 state_offset
    216 u32 cache NONE
    220 u8[36] reserved1
    """,
)

CACH = Struct(
    "qbm_cach",
    32,
    """
    0 u32 count
    4 u32 entry_size 96
    8 u32 cache_count
    12 u32 max_tokens
    16 u32 cache_type
    20 u32 reserved0
    24 u64 state_size
    """,
)

CACHE = Struct(
    "qbm_cache",
    96,
    """
    0 u32 name
    4 u32 dtype
    8 u64 layer_hash
    16 u64 offset
    24 u64 size
    32 u32 max_tokens
    36 u32 outer_count
    40 u64 outer_stride
    48 u64 token_stride
    56 u64 token_size
    64 u32 state
    68 u8[28] reserved
    """,
)

DBGI = Struct("qbm_dbgi", 16, "0 u32 count; 4 u32 entry_size 16; 8 u64 reserved")
DEBUG = Struct(
    "qbm_debug", 16, "0 u32 nodes; 4 u32 op_types; 8 u32 fused; 12 u32 reserved"
)

# Program, section 4 ------------------------------------------------------

PROGRAM_MAGIC = 0x47504251
PROGRAM = Struct(
    "qbnpu_program",
    128,
    """
    0 u32 magic
    4 u16 isa_major 1
    6 u16 isa_minor
    8 u64 isa_features
    16 u64 size
    24 u32 binding_count
    28 u32 tensor_count
    32 u32 list_count 1
    36 u32 command_count
    40 u32 param_count
    44 u32 pool_count
    48 u32 bindings_offset
    52 u32 tensors_offset
    56 u32 lists_offset
    60 u32 params_offset
    64 u32 pool_offset
    68 u32 commands_offset
    72 u32 commands_size
    76 u32 barrier_count
    80 u64 mac_count
    88 u64 byte_count
    96 u32 core_mode
    100 u32 batch
    104 u32 flags
    108 u8[20] reserved
    """,
)

BINDING = Struct(
    "qbnpu_binding_desc",
    32,
    """
    0 u8 kind
    1 u8 access
    2 u8 align_log2
    3 u8 flags
    4 u16 tensor NONE
    6 u16 alias NONE
    8 u64 size
    16 u32 io NONE
    20 u8[12] reserved
    """,
)

TENSOR = Struct(
    "qbnpu_tensor",
    128,
    """
    0 u8 dtype
    1 u8 rank
    2 u16 binding
    4 u16 flags
    6 u8 quant_axis NONE
    7 u8 offset_axis NONE
    8 u64 offset
    16 u64 span
    24 u32[6] dims
    48 u64[6] strides
    96 f32 scale
    100 i32 zero_point
    104 u32 quant NONE
    108 u32 name
    112 u8[6] extent_params
    118 u8 offset_params
    119 u8 reserved0
    120 u32 window
    124 u32 reserved1
    """,
)

LIST = Struct(
    "qbnpu_list", 16, "0 u32 offset; 4 u32 size; 8 u32 command_count; 12 u32 core"
)
PARAM = Struct("qbnpu_param", 16, "0 u32 min; 4 u32 max; 8 u32 multiple; 12 u32 kind")

# Commands, section 5 -----------------------------------------------------

# In text and in Command.fields the header's flags are called in_place and
# those of the post block affine, because some commands have flags of their own.
_HEAD = "0 u16 opcode; 2 u16 size16; 4 u32 in_place; 8 u32 debug; 12 u32 reserved;"
_POST = (
    "0 op residual; 2 u8 act; 3 u8 affine; 4 f32 residual_scale; 8 f32 act_a;"
    "12 f32 act_b; 16 f32 mul; 20 f32 add; 24 u32 requant NONE; 28 u32 requant_count"
)

_OPCODES = """
0x0000 nop 32: 16 u64 delay_ns; 24 u64 0
0x0001 barrier 32: 16 u32 id; 20 u8[12] 0
0x0002 timestamp 32: 16 op dst; 18 u8[14] 0
0x0003 fill 32: 16 op dst; 18 u8[6] 0; 24 u64 value
0x0004 copy 32: 16 op src; 18 op dst; 20 u8[12] 0
0x0005 crc 32: 16 op src; 18 op dst; 20 u8[12] 0
0x0010 conv2d 80: 16 op src; 18 op wgt; 20 op bias; 22 op dst; 24 u8 kh; 25 u8 kw;\
 26 u8 sh; 27 u8 sw; 28 u8 dh; 29 u8 dw; 30 u8[2] 0; 32 u16 pad_top; 34 u16 pad_left;\
 36 u16 pad_bottom; 38 u16 pad_right; 40 u32 groups; 44 u32 0; 48 post post
0x0011 deconv2d 80: 16 op src; 18 op wgt; 20 op bias; 22 op dst; 24 u8 kh; 25 u8 kw;\
 26 u8 sh; 27 u8 sw; 28 u8 dh; 29 u8 dw; 30 u8 out_pad_h; 31 u8 out_pad_w;\
 32 u16 pad_top; 34 u16 pad_left; 36 u16 pad_bottom; 38 u16 pad_right; 40 u32 groups;\
 44 u32 0; 48 post post
0x0012 matmul 64: 16 op a; 18 op b; 20 op bias; 22 op dst; 24 f32 alpha; 28 u32 0;\
 32 post post
0x0013 pool 48: 16 op src; 18 op dst; 20 u8 kind; 21 u8[3] 0; 24 u8 kh; 25 u8 kw;\
 26 u8 sh; 27 u8 sw; 28 u8 dh; 29 u8 dw; 30 u8 ceil_h; 31 u8 ceil_w; 32 u16 pad_top;\
 34 u16 pad_left; 36 u16 pad_bottom; 38 u16 pad_right; 40 f32 requant; 44 u32 0
0x0020 unary 32: 16 op src; 18 op dst; 20 u16 fn; 22 u16 0; 24 f32 p_a; 28 f32 p_b
0x0021 binary 48: 16 op a; 18 op b; 20 op dst; 22 u16 fn; 24 f32 scale_a;\
 28 f32 scale_b; 32 f32 out_scale; 36 u8 act; 37 u8[3] 0; 40 f32 act_a; 44 f32 act_b
0x0022 compare 32: 16 op a; 18 op b; 20 op dst; 22 u16 fn; 24 u64 0
0x0023 select 32: 16 op cond; 18 op a; 20 op b; 22 op dst; 24 u64 0
0x0024 reduce 32: 16 op src; 18 op dst; 20 u16 fn; 22 u8 axes; 23 u8 flags;\
 24 f32 requant; 28 u32 0
0x0025 softmax 32: 16 op src; 18 op dst; 20 op mask; 22 u8 axis; 23 u8 flags;\
 24 f32 scale; 28 u32 0
0x0026 layernorm 32: 16 op src; 18 op gamma; 20 op beta; 22 op dst; 24 u8 axis;\
 25 u8 flags; 26 u16 0; 28 f32 epsilon
0x0030 resize 48: 16 op src; 18 op dst; 20 u8 mode; 21 u8 coord; 22 u8 rounding;\
 23 u8 0; 24 f64 scale_h; 32 f64 scale_w; 40 u64 0
0x0031 pad_reflect 48: 16 op src; 18 op dst; 20 u8 mode; 21 u8[3] 0; 24 u32[6] before
0x0032 gather 32: 16 op data; 18 op index; 20 op dst; 22 u8 axis; 23 u8 mode; 24 u64 0
0x0040 quant 32: 16 op src; 18 op dst; 20 op scale; 22 op zero_point; 24 u64 0
0x0041 cast 32: 16 op src; 18 op dst; 20 u8 mode; 21 u8 0; 22 op scale;\
 24 op zero_point; 26 u8[6] 0
0x0042 lut8 32: 16 op src; 18 op table; 20 op dst; 22 u8[10] 0
0x0050 lstm_cell 48: 16 op x; 18 op h; 20 op c; 22 op w; 24 op r; 26 op bias;\
 28 op h_out; 30 op c_out; 32 f32 clip; 36 u32 0; 40 u64 0
"""

_DESTINATIONS = ("dst", "h_out", "c_out")


class Opcode:
    """One opcode: its number, layout, and which fields name tensors."""

    def __init__(self, line: str) -> None:
        head, body = line.split(":")
        code, self.name, size = head.split()
        self.code = int(code, 16)
        reserved = 0
        fields = []
        for item in body.split(";"):
            offset, kind, name = item.split()
            if kind == "post":
                for part in _POST.split(";"):
                    post_offset, rest = part.split(maxsplit=1)
                    fields.append(f"{int(offset) + int(post_offset)} {rest}")
                continue
            if name == "0":
                reserved += 1
                name = f"reserved{reserved}"
            fields.append(f"{offset} {kind} {name}")
        self.layout = Struct(self.name, int(size), _HEAD + ";".join(fields))
        self.size = self.layout.size
        operands = [f.name for f in self.layout.fields.values() if f.type == "op"]
        self.operands = tuple(operands)
        self.sources = tuple(n for n in operands if n not in _DESTINATIONS)
        self.destinations = tuple(n for n in operands if n in _DESTINATIONS)


OPCODES = {op.name: op for op in map(Opcode, _OPCODES.strip().splitlines())}
OPCODE_NAMES = {op.code: op.name for op in OPCODES.values()}
