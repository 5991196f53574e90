/* SPDX-License-Identifier: MIT */
/*
 * Instruction set 1.0: the layout of a device program, its commands, and the
 * caps that bound it. The other half of the contract beside qbnpu_drm.h; rules
 * in docs/spec/device-and-format.md, sections 4 to 7.
 *
 * Freestanding: fixed-width types only, so that the kernel module, the
 * library, the device and the compiler build the same bytes. Everything is
 * little endian and naturally aligned. Floating point numbers are carried as
 * the bits of IEEE binary32 ("f32") and binary64 ("f64"): no file of isa/
 * computes with them.
 */
#ifndef QBNPU_ISA_H
#define QBNPU_ISA_H

#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/types.h>
#else
#include <asm/errno.h>
#include <stddef.h>
#include <stdint.h>
#endif

#define QBNPU_PROGRAM_MAGIC 0x47504251u /* "QBPG" */
#define QBNPU_ISA_MAJOR 1
#define QBNPU_ISA_MINOR 0

/* "There is none", in a field of that width. 0 is a valid index everywhere. */
#define QBNPU_NONE8 0xffu
#define QBNPU_NONE16 0xffffu
#define QBNPU_NONE32 0xffffffffu

/* Caps (5.7) */
#define QBNPU_MAX_PROGRAM_SIZE (1u << 24)
#define QBNPU_MIN_PROGRAM_SIZE 128u
#define QBNPU_MAX_BINDINGS 64u
#define QBNPU_MAX_TENSORS 16384u
#define QBNPU_MAX_COMMANDS 65536u
#define QBNPU_MAX_RANK 6u
#define QBNPU_MAX_EXTENT (1u << 24)
#define QBNPU_MAX_SPAN (1ull << 32)
#define QBNPU_MAX_BINDING_SIZE (1ull << 34)
#define QBNPU_MAX_STRIDE (1ull << 34)
#define QBNPU_MAX_POOL (1u << 20)
#define QBNPU_MAX_PARAMS 4u
#define QBNPU_MAX_PARAM_VALUE (1u << 24)
#define QBNPU_MAX_KERNEL 64u
#define QBNPU_MAX_PAD 4032u
#define QBNPU_MAX_COMMAND_MACS (1ull << 36)
#define QBNPU_MAX_PROGRAM_MACS (1ull << 48)
#define QBNPU_MAX_BYTE_COUNT (1ull << 48)
#define QBNPU_MAX_INTERVALS 1024u
#define QBNPU_MAX_ITEMS 65535u
#define QBNPU_MAX_DELAY_NS 1000000000ull
#define QBNPU_MAX_DELAYS_NS 60000000000ull
#define QBNPU_MIN_ALIGN_LOG2 6u
#define QBNPU_MAX_ALIGN_LOG2 21u

enum qbnpu_dtype {
	QBNPU_DTYPE_F32 = 0,
	QBNPU_DTYPE_U8 = 1,
	QBNPU_DTYPE_I8 = 2,
	QBNPU_DTYPE_F16 = 3,
	QBNPU_DTYPE_I16 = 4,
	QBNPU_DTYPE_U16 = 5,
	QBNPU_DTYPE_I32 = 6,
	QBNPU_DTYPE_U32 = 7,
	QBNPU_DTYPE_I64 = 8,
	QBNPU_DTYPE_U64 = 9,
	QBNPU_DTYPE_F64 = 10,
	QBNPU_DTYPE_BOOL = 11,
	QBNPU_DTYPE_BF16 = 12,
};
#define QBNPU_NUM_DTYPES 13u

enum qbnpu_binding_kind {
	QBNPU_BINDING_WEIGHTS = 1,
	QBNPU_BINDING_SCRATCH = 2,
	QBNPU_BINDING_STATE = 3,
	QBNPU_BINDING_INPUT = 4,
	QBNPU_BINDING_OUTPUT = 5,
};

/* qbnpu_binding_desc.access */
#define QBNPU_ACCESS_READ (1u << 0)
#define QBNPU_ACCESS_WRITE (1u << 1)

enum qbnpu_mode {
	QBNPU_MODE_SINGLE = 0,
	QBNPU_MODE_MULTI = 1,
	QBNPU_MODE_GLOBAL4 = 3,
	QBNPU_MODE_GLOBAL8 = 4,
};

/* qbnpu_program.isa_features */
#define QBNPU_FEATURE_INT8 (1ull << 0)
#define QBNPU_FEATURE_HALF (1ull << 1)
#define QBNPU_FEATURE_LISTS (1ull << 2) /* reserved: refused in 1.0 */
#define QBNPU_FEATURE_STATE (1ull << 3)
#define QBNPU_FEATURE_DYNAMIC (1ull << 4)
#define QBNPU_FEATURE_LSTM (1ull << 5)
#define QBNPU_FEATURE_GATHER (1ull << 6)
#define QBNPU_FEATURE_DIAG (1ull << 7)
/* all of ISA 1.0 */
#define QBNPU_FEATURES_ISA (0xffull & ~QBNPU_FEATURE_LISTS)

/* qbnpu_program.flags */
#define QBNPU_PROGRAM_TIMESTAMPS (1u << 0)

/* qbnpu_cmd.flags: the destination is exactly one of the sources */
#define QBNPU_CMD_IN_PLACE (1u << 0)

/* qbnpu_post.flags: mul and add count */
#define QBNPU_POST_AFFINE (1u << 0)

enum qbnpu_param_kind {
	QBNPU_PARAM_TOKENS = 1,
	QBNPU_PARAM_CACHE = 2,
	QBNPU_PARAM_OTHER = 3,
};

enum qbnpu_opcode {
	QBNPU_OP_NOP = 0x0000,
	QBNPU_OP_BARRIER = 0x0001,
	QBNPU_OP_TIMESTAMP = 0x0002,
	QBNPU_OP_FILL = 0x0003,
	QBNPU_OP_COPY = 0x0004,
	QBNPU_OP_CRC = 0x0005,
	QBNPU_OP_CONV2D = 0x0010,
	QBNPU_OP_DECONV2D = 0x0011,
	QBNPU_OP_MATMUL = 0x0012,
	QBNPU_OP_POOL = 0x0013,
	QBNPU_OP_UNARY = 0x0020,
	QBNPU_OP_BINARY = 0x0021,
	QBNPU_OP_COMPARE = 0x0022,
	QBNPU_OP_SELECT = 0x0023,
	QBNPU_OP_REDUCE = 0x0024,
	QBNPU_OP_SOFTMAX = 0x0025,
	QBNPU_OP_LAYERNORM = 0x0026,
	QBNPU_OP_RESIZE = 0x0030,
	QBNPU_OP_PAD_REFLECT = 0x0031,
	QBNPU_OP_GATHER = 0x0032,
	QBNPU_OP_QUANT = 0x0040,
	QBNPU_OP_CAST = 0x0041,
	QBNPU_OP_LUT8 = 0x0042,
	QBNPU_OP_LSTM_CELL = 0x0050,
};

/* UNARY fn; 1 to 10 and 15 may also be fused as act */
enum qbnpu_unary_fn {
	QBNPU_UNARY_CLIP = 1,
	QBNPU_UNARY_LEAKY = 2,
	QBNPU_UNARY_SIGMOID = 3,
	QBNPU_UNARY_TANH = 4,
	QBNPU_UNARY_HARD_SIGMOID = 5,
	QBNPU_UNARY_HARD_SWISH = 6,
	QBNPU_UNARY_SILU = 7,
	QBNPU_UNARY_GELU_ERF = 8,
	QBNPU_UNARY_GELU_TANH = 9,
	QBNPU_UNARY_ELU = 10,
	QBNPU_UNARY_SELU = 11,
	QBNPU_UNARY_CELU = 12,
	QBNPU_UNARY_SOFTPLUS = 13,
	QBNPU_UNARY_SOFTSIGN = 14,
	QBNPU_UNARY_MISH = 15,
	QBNPU_UNARY_THRESHOLD = 16,
	QBNPU_UNARY_SHRINK = 17,
	QBNPU_UNARY_ABS = 18,
	QBNPU_UNARY_NEG = 19,
	QBNPU_UNARY_SIGN = 20,
	QBNPU_UNARY_RECIPROCAL = 21,
	QBNPU_UNARY_SQRT = 22,
	QBNPU_UNARY_RSQRT = 23,
	QBNPU_UNARY_SQUARE = 24,
	QBNPU_UNARY_EXP = 25,
	QBNPU_UNARY_LOG = 26,
	QBNPU_UNARY_ERF = 27,
	QBNPU_UNARY_FLOOR = 28,
	QBNPU_UNARY_CEIL = 29,
	QBNPU_UNARY_ROUND = 30,
	QBNPU_UNARY_TRUNC = 31,
	QBNPU_UNARY_SIN = 32,
	QBNPU_UNARY_COS = 33,
	QBNPU_UNARY_TAN = 34,
	QBNPU_UNARY_ASIN = 35,
	QBNPU_UNARY_ACOS = 36,
	QBNPU_UNARY_ATAN = 37,
	QBNPU_UNARY_SINH = 38,
	QBNPU_UNARY_COSH = 39,
	QBNPU_UNARY_ASINH = 40,
	QBNPU_UNARY_ACOSH = 41,
	QBNPU_UNARY_ATANH = 42,
	QBNPU_UNARY_LINEAR = 43,
	QBNPU_UNARY_POW = 44,
	QBNPU_UNARY_NOT = 48,
	QBNPU_UNARY_BITNOT = 49,
	QBNPU_UNARY_ISNAN = 50,
	QBNPU_UNARY_ISINF = 51,
};

enum qbnpu_binary_fn {
	QBNPU_BINARY_ADD = 1,
	QBNPU_BINARY_SUB = 2,
	QBNPU_BINARY_MUL = 3,
	QBNPU_BINARY_DIV = 4,
	QBNPU_BINARY_MAX = 5,
	QBNPU_BINARY_MIN = 6,
	QBNPU_BINARY_POW = 7,
	QBNPU_BINARY_MOD = 8,
	QBNPU_BINARY_FMOD = 9,
	QBNPU_BINARY_PRELU = 10,
	QBNPU_BINARY_AND = 11,
	QBNPU_BINARY_OR = 12,
	QBNPU_BINARY_XOR = 13,
	QBNPU_BINARY_BITAND = 14,
	QBNPU_BINARY_BITOR = 15,
	QBNPU_BINARY_BITXOR = 16,
};

enum qbnpu_compare_fn {
	QBNPU_COMPARE_EQ = 1,
	QBNPU_COMPARE_NE = 2,
	QBNPU_COMPARE_LT = 3,
	QBNPU_COMPARE_LE = 4,
	QBNPU_COMPARE_GT = 5,
	QBNPU_COMPARE_GE = 6,
};

enum qbnpu_reduce_fn {
	QBNPU_REDUCE_SUM = 1,
	QBNPU_REDUCE_MEAN = 2,
	QBNPU_REDUCE_MAX = 3,
	QBNPU_REDUCE_MIN = 4,
	QBNPU_REDUCE_PROD = 5,
	QBNPU_REDUCE_SUM_SQUARE = 6,
	QBNPU_REDUCE_L1 = 7,
	QBNPU_REDUCE_L2 = 8,
	QBNPU_REDUCE_LOG_SUM = 9,
	QBNPU_REDUCE_LOG_SUM_EXP = 10,
	QBNPU_REDUCE_ARGMAX = 11,
	QBNPU_REDUCE_ARGMIN = 12,
};

/* REDUCE flags: ARGMAX and ARGMIN take the last of equals */
#define QBNPU_REDUCE_LAST (1u << 0)

/* SOFTMAX flags */
#define QBNPU_SOFTMAX_LOG (1u << 0)
#define QBNPU_SOFTMAX_CAUSAL (1u << 1)

/* LAYERNORM flags */
#define QBNPU_LAYERNORM_RMS (1u << 0)

enum qbnpu_pool_kind {
	QBNPU_POOL_MAX = 0,
	QBNPU_POOL_AVG = 1,
	QBNPU_POOL_AVG_PAD = 2,
};

enum qbnpu_resize_mode {
	QBNPU_RESIZE_NEAREST = 0,
	QBNPU_RESIZE_LINEAR = 1,
};

enum qbnpu_resize_coord {
	QBNPU_COORD_HALF_PIXEL = 0,
	QBNPU_COORD_ALIGN_CORNERS = 1,
	QBNPU_COORD_ASYMMETRIC = 2,
	QBNPU_COORD_PYTORCH_HALF_PIXEL = 3,
	QBNPU_COORD_HALF_PIXEL_SYMMETRIC = 4,
};

enum qbnpu_resize_rounding {
	QBNPU_ROUND_PREFER_FLOOR = 0,
	QBNPU_ROUND_PREFER_CEIL = 1,
	QBNPU_ROUND_FLOOR = 2,
	QBNPU_ROUND_CEIL = 3,
};

enum qbnpu_pad_mode {
	QBNPU_PAD_MODE_REFLECT = 1,
	QBNPU_PAD_MODE_EDGE = 2,
	QBNPU_PAD_MODE_WRAP = 3,
};

enum qbnpu_gather_mode {
	QBNPU_GATHER_AXIS = 0,
	QBNPU_GATHER_ELEMENTS = 1,
};

enum qbnpu_cast_mode {
	QBNPU_CAST_NUMBER = 0,
	QBNPU_CAST_DEQUANTISE = 1,
};

/* Why a job ended (SU06); 8 and 9 are the queue's */
enum qbnpu_cause {
	QBNPU_CAUSE_NONE = 0,
	QBNPU_CAUSE_PROGRAM = 1,
	QBNPU_CAUSE_TIME = 2,
	QBNPU_CAUSE_CANCELLED = 3,
	QBNPU_CAUSE_RESET = 4,
	QBNPU_CAUSE_MEMORY = 5,
	QBNPU_CAUSE_LOST = 6,
	QBNPU_CAUSE_INJECTED = 7,
};

/*
 * A program: header, bindings, tensors, lists, params, pool, commands; each
 * region at the first multiple of 16 after the one before, pad bytes zero.
 */
struct qbnpu_program {
	uint32_t magic;           /* 0x47504251 (QBPG) */
	uint16_t isa_major;       /* 1 */
	uint16_t isa_minor;       /* 0 */
	uint64_t isa_features;    /* features that the program uses */
	uint64_t size;            /* of the whole program, multiple of 16 */
	uint32_t binding_count;   /* 1 to 64 */
	uint32_t tensor_count;    /* 1 to 16,384 */
	uint32_t list_count;      /* 1; 4 and 8 are reserved */
	uint32_t command_count;   /* 1 to 65,536 */
	uint32_t param_count;     /* 0 to 4 */
	uint32_t pool_count;      /* f32 values, <= 1,048,576 */
	uint32_t bindings_offset; /* 128 */
	uint32_t tensors_offset;
	uint32_t lists_offset;
	uint32_t params_offset;
	uint32_t pool_offset;
	uint32_t commands_offset;
	uint32_t commands_size;
	/* 0; reserved with more than one list */
	uint32_t barrier_count;
	/* multiply-accumulates at the largest extents (5.4) */
	uint64_t mac_count;
	/*
	 * sum over commands and operands of elements * element size, at the
	 * largest extents
	 */
	uint64_t byte_count;
	/* 0 Single (also used for Multi), 3 Global4, 4 Global8 */
	uint32_t core_mode;
	uint32_t batch; /* as in the variant */
	/* bit 0 TIMESTAMPS: outputs may hold times, results are not repeatable */
	uint32_t flags;
	uint8_t reserved[20]; /* 0 */
};

struct qbnpu_binding_desc {
	/* 1 WEIGHTS, 2 SCRATCH, 3 STATE, 4 INPUT, 5 OUTPUT; 6 reserved */
	uint8_t kind;
	uint8_t access; /* bit 0 device reads, bit 1 device writes */
	/* alignment of the memory given at submit, 6 to 21 */
	uint8_t align_log2;
	uint8_t flags; /* 0 */
	/* INPUT, OUTPUT: the tensor that is the whole binding; else NONE */
	uint16_t tensor;
	/*
	 * OUTPUT: number of the INPUT binding that may be the same memory;
	 * else NONE
	 */
	uint16_t alias;
	uint64_t size; /* bytes that must be there */
	/* INPUT, OUTPUT: IOTB index (opaque to the device); else NONE */
	uint32_t io;
	uint8_t reserved[12]; /* 0 */
};

/* A view; operands of commands are tensor numbers, nothing else. */
struct qbnpu_tensor {
	uint8_t dtype;
	uint8_t rank; /* 1 to 6 */
	uint16_t binding;
	uint16_t flags;     /* 0 */
	uint8_t quant_axis; /* axis of the per-channel scales, or NONE */
	/* axis that the run-time offset moves along, or NONE */
	uint8_t offset_axis;
	uint64_t offset; /* bytes from the start of the binding */
	/*
	 * bytes from the first to one past the last element that the view can
	 * ever touch
	 */
	uint64_t span;
	uint32_t dims[6]; /* extents, >= 1; 0 beyond rank */
	/* bytes; 0 = broadcast (read-only operands); 0 beyond rank */
	uint64_t strides[6];
	/*
	 * U8, I8, I32: > 0 (1.0 for raw bytes); 0.0 when per channel or for
	 * other types
	 */
	uint32_t scale;
	int32_t zero_point; /* U8 0 to 255, I8 -128 to 127, else 0 */
	uint32_t quant;     /* pool index of dims[quant_axis] scales, or NONE */
	uint32_t name;      /* STRS offset; opaque to the device */
	/*
	 * per axis: bit p set = parameter p is part of the run-time extent; 0
	 * = dims as it is
	 */
	uint8_t extent_params[6];
	/* bit p: parameter p is part of the run-time offset along offset_axis */
	uint8_t offset_params;
	uint8_t reserved0; /* 0 */
	/* with offset_params: extent of offset_axis that span covers; else 0 */
	uint32_t window;
	uint32_t reserved1; /* 0 */
};

struct qbnpu_list {
	uint32_t offset; /* of its first command, from commands_offset */
	uint32_t size;   /* bytes */
	uint32_t command_count;
	uint32_t core; /* = its index: the n-th core of the gang */
};

/* A number given at submit. */
struct qbnpu_param {
	uint32_t min;
	uint32_t max; /* <= 2^24 */
	/* >= 1; min, max and the given value are multiples of it */
	uint32_t multiple;
	/* 1 tokens of this call, 2 cache length before it, 3 any other axis */
	uint32_t kind;
};

/* The head of every command, at a multiple of 16. */
struct qbnpu_cmd {
	uint16_t opcode;
	/* whole command in units of 16 bytes; must be the opcode's size */
	uint16_t size16;
	/* bit 0 IN_PLACE: the destination is exactly one of the sources (5.5) */
	uint32_t flags;
	uint32_t debug;    /* DBGI index + 1, or 0; opaque to the device */
	uint32_t reserved; /* 0 */
};

/* What follows the sum in CONV2D, DECONV2D and MATMUL. */
struct qbnpu_post {
	uint16_t residual; /* tensor with the extents of dst, or NONE */
	uint8_t act;   /* function code of 5.6 that may be fused, 0 = none */
	uint8_t flags; /* bit 0 AFFINE: mul and add count */
	uint32_t residual_scale; /* rs; 0.0 without residual */
	uint32_t act_a;
	uint32_t act_b;
	uint32_t mul;     /* 0.0 without AFFINE */
	uint32_t add;     /* 0.0 without AFFINE */
	uint32_t requant; /* pool index of the scales, or NONE */
	/*
	 * 0 (f32 source, or I32 destination), 1, or the number of output
	 * channels
	 */
	uint32_t requant_count;
};

/* The commands. Operands are tensor numbers; "reserved" is 0. */
struct qbnpu_cmd_nop {
	struct qbnpu_cmd head;
	uint64_t delay_ns;
	uint64_t reserved;
};

struct qbnpu_cmd_barrier {
	struct qbnpu_cmd head;
	uint32_t id;
	uint8_t reserved[12];
};

struct qbnpu_cmd_timestamp {
	struct qbnpu_cmd head;
	uint16_t dst;
	uint8_t reserved[14];
};

struct qbnpu_cmd_fill {
	struct qbnpu_cmd head;
	uint16_t dst;
	uint8_t reserved[6];
	uint64_t value;
};

struct qbnpu_cmd_copy {
	struct qbnpu_cmd head;
	uint16_t src;
	uint16_t dst;
	uint8_t reserved[12];
};

struct qbnpu_cmd_crc {
	struct qbnpu_cmd head;
	uint16_t src;
	uint16_t dst;
	uint8_t reserved[12];
};

struct qbnpu_cmd_conv2d {
	struct qbnpu_cmd head;
	uint16_t src;
	uint16_t wgt;
	uint16_t bias;
	uint16_t dst;
	uint8_t kh;
	uint8_t kw;
	uint8_t sh;
	uint8_t sw;
	uint8_t dh;
	uint8_t dw;
	uint8_t reserved[2];
	uint16_t pad_top;
	uint16_t pad_left;
	uint16_t pad_bottom;
	uint16_t pad_right;
	uint32_t groups;
	uint32_t reserved1;
	struct qbnpu_post post;
};

struct qbnpu_cmd_deconv2d {
	struct qbnpu_cmd head;
	uint16_t src;
	uint16_t wgt;
	uint16_t bias;
	uint16_t dst;
	uint8_t kh;
	uint8_t kw;
	uint8_t sh;
	uint8_t sw;
	uint8_t dh;
	uint8_t dw;
	uint8_t out_pad_h;
	uint8_t out_pad_w;
	uint16_t pad_top;
	uint16_t pad_left;
	uint16_t pad_bottom;
	uint16_t pad_right;
	uint32_t groups;
	uint32_t reserved;
	struct qbnpu_post post;
};

struct qbnpu_cmd_matmul {
	struct qbnpu_cmd head;
	uint16_t a;
	uint16_t b;
	uint16_t bias;
	uint16_t dst;
	uint32_t alpha; /* binary32 */
	uint32_t reserved;
	struct qbnpu_post post;
};

struct qbnpu_cmd_pool {
	struct qbnpu_cmd head;
	uint16_t src;
	uint16_t dst;
	uint8_t kind;
	uint8_t reserved[3];
	uint8_t kh;
	uint8_t kw;
	uint8_t sh;
	uint8_t sw;
	uint8_t dh;
	uint8_t dw;
	uint8_t ceil_h;
	uint8_t ceil_w;
	uint16_t pad_top;
	uint16_t pad_left;
	uint16_t pad_bottom;
	uint16_t pad_right;
	uint32_t requant; /* binary32 */
	uint32_t reserved1;
};

struct qbnpu_cmd_unary {
	struct qbnpu_cmd head;
	uint16_t src;
	uint16_t dst;
	uint16_t fn;
	uint16_t reserved;
	uint32_t p_a; /* binary32 */
	uint32_t p_b; /* binary32 */
};

struct qbnpu_cmd_binary {
	struct qbnpu_cmd head;
	uint16_t a;
	uint16_t b;
	uint16_t dst;
	uint16_t fn;
	uint32_t scale_a;   /* binary32 */
	uint32_t scale_b;   /* binary32 */
	uint32_t out_scale; /* binary32 */
	uint8_t act;
	uint8_t reserved[3];
	uint32_t act_a; /* binary32 */
	uint32_t act_b; /* binary32 */
};

struct qbnpu_cmd_compare {
	struct qbnpu_cmd head;
	uint16_t a;
	uint16_t b;
	uint16_t dst;
	uint16_t fn;
	uint64_t reserved;
};

struct qbnpu_cmd_select {
	struct qbnpu_cmd head;
	uint16_t cond;
	uint16_t a;
	uint16_t b;
	uint16_t dst;
	uint64_t reserved;
};

struct qbnpu_cmd_reduce {
	struct qbnpu_cmd head;
	uint16_t src;
	uint16_t dst;
	uint16_t fn;
	uint8_t axes;
	uint8_t flags;
	uint32_t requant; /* binary32 */
	uint32_t reserved;
};

struct qbnpu_cmd_softmax {
	struct qbnpu_cmd head;
	uint16_t src;
	uint16_t dst;
	uint16_t mask;
	uint8_t axis;
	uint8_t flags;
	uint32_t scale; /* binary32 */
	uint32_t reserved;
};

struct qbnpu_cmd_layernorm {
	struct qbnpu_cmd head;
	uint16_t src;
	uint16_t gamma;
	uint16_t beta;
	uint16_t dst;
	uint8_t axis;
	uint8_t flags;
	uint16_t reserved;
	uint32_t epsilon; /* binary32 */
};

struct qbnpu_cmd_resize {
	struct qbnpu_cmd head;
	uint16_t src;
	uint16_t dst;
	uint8_t mode;
	uint8_t coord;
	uint8_t rounding;
	uint8_t reserved;
	uint64_t scale_h; /* binary64 */
	uint64_t scale_w; /* binary64 */
	uint64_t reserved1;
};

struct qbnpu_cmd_pad_reflect {
	struct qbnpu_cmd head;
	uint16_t src;
	uint16_t dst;
	uint8_t mode;
	uint8_t reserved[3];
	uint32_t before[6];
};

struct qbnpu_cmd_gather {
	struct qbnpu_cmd head;
	uint16_t data;
	uint16_t index;
	uint16_t dst;
	uint8_t axis;
	uint8_t mode;
	uint64_t reserved;
};

struct qbnpu_cmd_quant {
	struct qbnpu_cmd head;
	uint16_t src;
	uint16_t dst;
	uint16_t scale;
	uint16_t zero_point;
	uint64_t reserved;
};

struct qbnpu_cmd_cast {
	struct qbnpu_cmd head;
	uint16_t src;
	uint16_t dst;
	uint8_t mode;
	uint8_t reserved;
	uint16_t scale;
	uint16_t zero_point;
	uint8_t reserved1[6];
};

struct qbnpu_cmd_lut8 {
	struct qbnpu_cmd head;
	uint16_t src;
	uint16_t table;
	uint16_t dst;
	uint8_t reserved[10];
};

struct qbnpu_cmd_lstm_cell {
	struct qbnpu_cmd head;
	uint16_t x;
	uint16_t h;
	uint16_t c;
	uint16_t w;
	uint16_t r;
	uint16_t bias;
	uint16_t h_out;
	uint16_t c_out;
	uint32_t clip; /* binary32 */
	uint32_t reserved;
	uint64_t reserved1;
};

#endif
