/* SPDX-License-Identifier: MIT */
/*
 * The container: bytes to checked views. Untrusted input: everything but the
 * weights is read with pread into private memory once and checked there, then
 * each program goes through the validator; the weights go into a sealed memfd.
 * Pure of any device. Layout: docs/spec/device-and-format.md, section 3; the
 * structs are the file's own (little endian, naturally aligned).
 */
#ifndef QBRT_MODEL_FILE_H
#define QBRT_MODEL_FILE_H

#include <stddef.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "isa/validate.h"

struct qbm_header {
	/*
	 * 89 51 42 4D 0D 0A 1A 0A (\x89QBM\r\n\x1a\n): a text-mode transfer
	 * breaks it
	 */
	uint8_t magic[8];
	uint16_t format_major;       /* 1 */
	uint16_t format_minor;       /* 0 */
	uint16_t isa_major;          /* 1; highest of all programs */
	uint16_t isa_minor;          /* 0 */
	uint32_t header_size;        /* 256 */
	uint32_t section_count;      /* 5 to 256 */
	uint32_t section_entry_size; /* 80 */
	/* a reader with a smaller format minor refuses the file */
	uint16_t min_reader_minor;
	/*
	 * 0 any, 1 aries-rb, 2 regulus-ra, 3 regulus-rb, 4 regulus-ra-
	 * usb, 5 regulus-rb-usb
	 */
	uint16_t target;
	uint64_t file_size;    /* exact */
	uint64_t isa_features; /* OR of the programs' feature words (4.2) */
	uint64_t section_table_offset; /* 256 */
	uint32_t section_table_crc32;  /* over section_count * 80 bytes */
	uint32_t flags;                /* 0 */
	/* "qbcompile 0.1.0", NUL padded, printable ASCII */
	char producer[32];
	/*
	 * SHA-256 over (kind, instance, sha256) of every section, in table
	 * order. For people and tools; no code keys anything on it
	 */
	uint8_t content_id[32];
	uint8_t reserved[124]; /* 0 */
	uint32_t header_crc32; /* over bytes 0 to 251 */
};

struct qbm_section {
	uint32_t kind; /* four ASCII characters, first in the lowest byte */
	/*
	 * bit 0 REQUIRED: a reader that does not know the kind refuses. Other
	 * bits are 0 in the kinds below; of an unknown kind only bit 0 is
	 * looked at
	 */
	uint32_t flags;
	uint32_t instance;    /* 0, or the program number for PROG and DBGI */
	uint8_t align_log2;   /* offset is a multiple of 1 << this; 3 to 21 */
	uint8_t reserved0[3]; /* 0 */
	uint64_t offset;
	uint64_t size;      /* >= 1 */
	uint32_t crc32;     /* over the section's bytes */
	uint32_t reserved1; /* 0 */
	/* over the section's bytes; checked by qbm verify */
	uint8_t sha256[32];
	uint64_t reserved2; /* 0 */
};

struct qbm_meta {
	uint32_t count;    /* entries that follow */
	uint32_t reserved; /* 0 */
};

struct qbm_meta_entry {
	uint32_t key;   /* string */
	uint32_t value; /* string */
};

struct qbm_vari {
	uint32_t variant_count;   /* 1 to 64 */
	uint32_t variant_size;    /* 128 */
	uint32_t bundle_count;    /* = variant_count in format 1.0 */
	uint32_t bundle_size;     /* 64 */
	uint32_t variants_offset; /* from section start, 32 */
	uint32_t bundles_offset;  /* from section start */
	/*
	 * what variant 0 questions without index mean: always 0 in format
	 * 1.0
	 */
	uint32_t default_variant;
	uint32_t reserved; /* 0 */
};

struct qbm_variant {
	uint32_t name; /* string, unique */
	/* bit 0 BATCH_PARAMS: inference needs params */
	uint32_t flags;
	uint32_t first_bundle; /* the variant's own index in format 1.0 */
	uint32_t bundle_count; /* 1 in format 1.0 */
	/*
	 * index into IOTB; variants own consecutive, non-overlapping ranges
	 * that cover each role
	 */
	uint32_t first_input;
	uint32_t input_count; /* 0 to 64 */
	uint32_t first_output;
	uint32_t output_count; /* 1 to 64 */
	uint32_t first_state;
	uint32_t state_count;
	uint32_t reserved0[2]; /* 0 */
	/*
	 * items that one execution computes (leading extent of batched
	 * tensors), >= 1
	 */
	uint32_t batch;
	/* bit m set: the variant runs in core mode m; = its bundle's */
	uint32_t mode_mask;
	uint64_t mac_count; /* = its bundle's */
	uint64_t reserved1; /* 0 */
	/* largest token count of one call; 0 when not a sequence model */
	uint32_t max_tokens;
	/* largest cache length in tokens; 0 without cache */
	uint32_t max_cache;
	/* parameter number of the token count, or NONE */
	uint32_t seq_param;
	/* parameter number of the cache length, or NONE */
	uint32_t past_param;
	/* upper limit; 0 = no limit of its own; 1 whenever state_count > 0 */
	uint32_t activation_slots;
	uint8_t reserved2[36]; /* 0 */
};

struct qbm_bundle {
	uint32_t name; /* string, for messages */
	/* bits 0 Single, 1 Multi, 3 Global4, 4 Global8 */
	uint32_t mode_mask;
	/*
	 * program instance per core mode number, NONE where the mask has no
	 * bit; index 2 is NONE
	 */
	uint32_t program[5];
	uint32_t reserved0;    /* 0 */
	uint64_t mac_count;    /* equal in all its programs */
	uint64_t scratch_size; /* largest of its programs */
	uint8_t reserved1[16]; /* 0 */
};

struct qbm_iotb {
	uint32_t count;       /* entries, <= 65,536 */
	uint32_t entry_size;  /* 256 */
	uint32_t scale_count; /* f32 values after the entries */
	/* from section start; 0 when scale_count is 0 */
	uint32_t scales_offset;
	uint64_t state_size; /* size of the STATE binding, 0 without state */
	uint64_t reserved;   /* 0 */
};

struct qbm_io {
	uint32_t name; /* the source model's tensor name */
	uint32_t variant;
	uint8_t role; /* 0 input, 1 output, 2 state; 3 reserved */
	/* element type in device memory: what a pinned buffer must have */
	uint8_t device_dtype;
	/* logical type: what the data-type getters answer */
	uint8_t host_dtype;
	/*
	 * 0 as it is, 1 HWC (shape is H, W, C; a CHW form exists for host
	 * arrays)
	 */
	uint8_t layout;
	/*
	 * bit t: host arrays of type t are taken (inputs) or produced
	 * (outputs) by plain infer
	 */
	uint32_t accepted_dtypes;
	uint32_t index; /* position among its role in its variant */
	/*
	 * bit 0 BATCHED: the device tensor has a leading axis of batch; bit
	 * 1 NORMALISED: mean and std are folded in
	 */
	uint16_t flags;
	uint8_t rank;        /* of shape, 1 to 6 */
	uint8_t source_rank; /* of source_shape, 0 to 6 */
	uint64_t size;       /* bytes of the device tensor at its largest */
	/*
	 * what the shape getters answer: without batch axis; negative =
	 * variable: -1, or -k for multiples of k
	 */
	int32_t shape[6];
	/* the ONNX shape, batch axis included; 0 beyond source_rank */
	int32_t source_shape[6];
	/*
	 * device axis i is source axis source_perm[i]; 0xFF where the device
	 * axis does not come from one
	 */
	uint8_t source_perm[6];
	uint8_t dyn_axis; /* variable axis of shape, or NONE. At most one */
	/*
	 * its parameter number, or NONE; equal parameters mean equal extents
	 */
	uint8_t dyn_param;
	/*
	 * BufferInfo in the order of Q538: original h w c, reshaped h w c, h w
	 * c, max h w c, max_cache_size
	 */
	uint32_t buffer_info[13];
	/* type of the ONNX tensor, code of section 2 */
	uint32_t source_dtype;
	float scale; /* 1.0 when not quantised; 0.0 when per channel */
	int32_t zero_point;
	/* index into the f32 values, 0 when scale_count is 0 */
	uint32_t scale_first;
	uint32_t scale_count; /* 0, or the extent of scale_axis */
	uint8_t scale_axis;   /* axis of shape, or NONE */
	/* states: 0 zero, 1 copy from WGHT at init_offset */
	uint8_t state_init;
	/* 0, 1, 3 or 4: how many of mean and std count */
	uint8_t norm_channels;
	uint8_t reserved0; /* 0 */
	/*
	 * outputs: IOTB index of the input that may be the same memory, else
	 * NONE
	 */
	uint32_t alias;
	/*
	 * informative: device input = (x - mean) / std, already inside the
	 * program
	 */
	float mean[4];
	float std[4];
	uint64_t init_offset; /* in WGHT, multiple of 64 */
	/* states: offset inside the STATE binding, multiple of 64 */
	uint64_t state_offset;
	uint32_t cache;        /* states: CACH index, or NONE */
	uint8_t reserved1[36]; /* 0 */
};

struct qbm_cach {
	uint32_t count;      /* layers, 1 to 4,096 */
	uint32_t entry_size; /* 96 */
	/*
	 * num_batches, 1 to 4,096: caches are numbered 0 .. cache_count - 1
	 * (cache_id)
	 */
	uint32_t cache_count;
	uint32_t max_tokens; /* = every variant's max_cache */
	uint32_t cache_type; /* 0 Default, 1 Batch */
	uint32_t reserved0;  /* 0 */
	/* = IOTB state_size: one STATE buffer per cache */
	uint64_t state_size;
};

struct qbm_cache {
	uint32_t name; /* string, unique */
	uint32_t dtype;
	/*
	 * first 8 bytes of SHA-256 of the name, big-endian value; shown as 16
	 * lower-case hex digits
	 */
	uint64_t layer_hash;
	uint64_t offset; /* inside STATE */
	/*
	 * CacheInfo.size: (outer_count - 1) * outer_stride + (max_tokens -
	 * 1) * token_stride + token_size
	 */
	uint64_t size;
	uint32_t max_tokens;
	/* for example heads; 1 if tokens are the outermost axis */
	uint32_t outer_count;
	uint64_t outer_stride; /* bytes */
	uint64_t token_stride; /* bytes */
	uint64_t token_size;   /* bytes of one token within one outer index */
	uint32_t state;        /* IOTB index of the state entry it is part of */
	uint8_t reserved[28];  /* 0 */
};

struct qbm_dbgi {
	uint32_t count;      /* entries */
	uint32_t entry_size; /* 16 */
	uint64_t reserved;   /* 0 */
};

struct qbm_debug {
	/* string: ONNX node names, separated by line feeds */
	uint32_t nodes;
	uint32_t op_types; /* string: their op types, same order */
	uint32_t fused;    /* number of nodes */
	uint32_t reserved; /* 0 */
};
/* One program of the file and what its validation found. */
struct qbrt_model_program {
	const void *data; /* aligned to 16 */
	size_t size;
	struct qbnpu_facts *facts;     /* owned */
	const struct qbm_debug *debug; /* DBGI entries, NULL: none */
	uint32_t num_debug;
};

struct qbrt_model_file {
	struct qbm_header header;
	const char *strings; /* STRS */
	size_t strings_size;
	size_t num_meta;
	const struct qbm_meta_entry *meta;
	const struct qbm_vari *vari;
	const struct qbm_variant *variants; /* vari->variant_count */
	const struct qbm_bundle *bundles;   /* vari->bundle_count */
	const struct qbm_iotb *iotb;
	const struct qbm_io *ios;       /* iotb->count */
	const float *scales;            /* iotb->scale_count */
	const struct qbm_cach *cach;    /* NULL: no caches */
	const struct qbm_cache *caches; /* cach->count */
	size_t num_programs;
	struct qbrt_model_program *programs;
	uint64_t weights_size; /* 0: none */
	int weights_fd;        /* sealed memfd, -1: none */
	void *memory;          /* backs all of the above */
};

/*
 * Reads and checks the whole file behind fd (borrowed; pread from offset 0).
 * path is for sentences only. Statuses of section 8.1: 3, 20, 1300, 1301, and
 * QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY (13) where memory is short.
 */
enum qbrt_status qbrt_model_file_read(int fd, const char *path,
				      struct qbrt_model_file **file);

/* The same from bytes in memory (tests, fuzzing): weights are copied too. */
enum qbrt_status qbrt_model_file_parse(const void *data, size_t size,
				       const char *path,
				       struct qbrt_model_file **file);
void qbrt_model_file_free(struct qbrt_model_file *file);

/*
 * The string at an offset, never NULL: UTF-8 without control characters, but
 * line feeds in values of META and in DBGI.
 */
const char *qbrt_model_file_string(const struct qbrt_model_file *file,
				   uint32_t offset);

/*
 * "" where the program has no DBGI names for the command, else the names in
 * one line, escaped; good until this thread's next call.
 */
const char *qbrt_model_file_get_node(const struct qbrt_model_file *file,
				     size_t program, uint32_t command);

#endif
