/* SPDX-License-Identifier: MIT */
/*
 * qbruntime: the C API of an open NPU runtime.
 *
 * An accelerator is an open device. It allocates pinned memory that the host
 * and the NPU share, and runs models on it without a copy. Handles are opaque
 * and keep what they need alive: any closing order is safe.
 *
 * Every function that can fail returns enum qbrt_status, 0 is QBRT_OK; after a
 * failure qbrt_error_detail() gives this thread's sentence, outputs are
 * untouched and nothing has happened. The exception is an inference whose job
 * ran and failed: its outputs in pinned memory are invalid until they are
 * rewritten whole, those of a batch of arrays that ended in the middle are
 * zeros. get_ functions never fail; of NULL they answer 0, NULL, false or an
 * empty struct. A NULL handle or required output is QBRT_INVALID_ARGUMENT.
 * Sizes are bytes, times nanoseconds.
 *
 * "Threads:" any (concurrent calls on one object are fine), one per object
 * (the caller serialises per object), last use (nobody else may be inside).
 */
#ifndef QBRT_H
#define QBRT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define QBRT_MUST_CHECK __attribute__((warn_unused_result))
#else
#define QBRT_MUST_CHECK
#endif

/*
 * Status codes. 1 to 65 carry the names and numbers of the vendor's runtime,
 * 31 is unused; ours start at 1000. Frozen: numbers are never reused, new ones
 * only added. qbrt_status_name gives the name, qbrt_error_detail the sentence.
 */
enum qbrt_status {
	QBRT_OK = 0,
	QBRT_DRIVER_NOT_INITIALIZED = 1,
	QBRT_MODEL_NO_TARGET_CORES = 2,
	QBRT_MODEL_FAILED_TO_LOAD_MXQ = 3,
	QBRT_MODEL_FAILED_TO_OPEN_SCALE_FILE = 4,
	QBRT_MODEL_INVALID_SCALE_VALUE = 5,
	QBRT_MODEL_FAILED_TO_OPEN_OUTPUT_SCALE = 6,
	QBRT_MODEL_INVALID_OUTPUT_SCALE_VALUE = 7,
	QBRT_MODEL_FAILED_TO_OPEN_SECTION_BINARY = 8,
	QBRT_MODEL_NOT_LAUNCHED = 9,
	QBRT_MODEL_NOT_ALIVE = 10,
	QBRT_ACC_CORE_ALREADY_IN_USE = 11,
	QBRT_ACC_NO_SUCH_MODEL = 12,
	QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY = 13,
	QBRT_DRIVER_WRITE_MEMORY_BUFFER = 14,
	QBRT_DRIVER_READ_MEMORY_BUFFER = 15,
	QBRT_MODEL_MXQ_AND_MODEL_CONFIG_NOT_MATCH = 16,
	QBRT_MODEL_NO_GLOBAL_CORE_WITH_GLOBAL_MULTI_MODE = 17,
	QBRT_NOT_IMPLEMENTED = 18,
	QBRT_MODEL_FAILED_TO_OPEN_MODEL_DESC_FILE = 19,
	QBRT_MODEL_BROKEN_MXQ = 20,
	QBRT_MODEL_SHAPE_MISMATCHED = 21,
	QBRT_MODEL_DTYPE_MISMATCHED = 22,
	QBRT_INTERNAL_ERROR = 23,
	QBRT_DRIVER_CLAIM_CORES = 24,
	QBRT_DRIVER_UNCLAIM_CORES = 25,
	QBRT_MODEL_IS_PACKED = 26,
	QBRT_MODEL_IS_NOT_PACKED = 27,
	QBRT_ACC_TASK_QUEUE_NOT_FOUND = 28,
	QBRT_MEMORY_POOL_BUF_NOT_FOUND = 29,
	QBRT_MEMORY_POOL_ALLOCATOR_NOT_SET = 30,
	QBRT_MODEL_FAILED_TO_ALLOC_MEMORY = 32,
	QBRT_DRIVER_POST_INFER = 33,
	QBRT_DRIVER_WAIT_DONE = 34,
	QBRT_DRIVER_WAIT_DONE_TIMEOUT = 35,
	QBRT_MODEL_PREDICT_ERROR = 36,
	QBRT_MODEL_FAILED_TO_SAVE_TENSOR = 37,
	QBRT_MODEL_UNEXPECTED_MEMORY_FORMAT = 38,
	QBRT_BAD_ALLOC = 39,
	QBRT_MODEL_TASK_QUEUE_CLOSED = 40,
	QBRT_MODEL_TASK_QUEUE_TIMEOUT = 41,
	QBRT_ACC_NPU_TIMEOUT = 42,
	QBRT_ACC_NO_I_MEM_INIT_FOUND = 43,
	QBRT_DRIVER_ALLOCATE_MODEL_MEMORY = 44,
	QBRT_DRIVER_BUILD_CMA_IO_REQ = 45,
	QBRT_DRIVER_FREE_MODEL_MEMORY = 46,
	QBRT_DRIVER_WRONG_BASE_ADDRESS = 47,
	QBRT_MODEL_IS_NOT_SUPPORTED_HARDWARE = 48,
	QBRT_DRIVER_LOCK_CORE = 49,
	QBRT_DRIVER_UNLOCK_CORE = 50,
	QBRT_MODEL_INVALID_NPU_DTYPE = 51,
	QBRT_MODEL_INVALID_RMEM_TYPE = 52,
	QBRT_MODEL_CACHE_OVERFLOW = 53,
	QBRT_MODEL_NO_CACHE = 54,
	QBRT_MODEL_ASYNC_PIPELINE_CHECK_FAILED = 55,
	QBRT_MODEL_ASYNC_PIPELINE_NOT_ALIVE = 56,
	QBRT_MODEL_ASYNC_PIPELINE_TIMEOUT = 57,
	QBRT_FUTURE_NOT_VALID = 58,
	QBRT_MODEL_INVALID_SUPPLEMENTARY = 59,
	QBRT_MODEL_NUM_CACHE_MISMATCHED = 60,
	QBRT_MODEL_FAILED_TO_FIND_DIRECTORY = 61,
	QBRT_MODEL_FAILED_TO_OPEN_CACHE_FILE = 62,
	QBRT_MODEL_BUFFER_SIZE_MISMATCHED = 63,
	QBRT_MODEL_INVALID_VARIANT_IDX = 64,
	QBRT_MODEL_ALREADY_LAUNCHED = 65,
	QBRT_INVALID_ARGUMENT = 1000,
	QBRT_ACC_DEVICE_NOT_FOUND = 1001,
	QBRT_ACC_AMBIGUOUS_DEVICE_NAME = 1002,
	QBRT_ACC_PERMISSION_DENIED = 1003,
	QBRT_ACC_DEVICE_LOST = 1004,
	QBRT_ACC_VERSION_MISMATCH = 1005,
	QBRT_ACC_DRIVER_PROTOCOL = 1006,
	QBRT_PINNED_MEMORY_NOT_AVAILABLE = 1010,
	QBRT_PINNED_MEMORY_OUT_OF_BOUNDS = 1011,
	QBRT_PINNED_MEMORY_NOT_CONTIGUOUS = 1012,
	QBRT_PINNED_MEMORY_IN_USE = 1013,
	QBRT_PINNED_MEMORY_WRONG_ACCELERATOR = 1014,
	QBRT_PINNED_MEMORY_ALIASED = 1015,
	QBRT_PINNED_MEMORY_READ_ONLY = 1016,
	QBRT_MODEL_INPUT_COUNT_MISMATCHED = 1030,
	QBRT_MODEL_OUTPUT_COUNT_MISMATCHED = 1031,
	QBRT_NPU_DATA_WRONG_RESIDENCY = 1051,
	QBRT_CANCELLED = 1060,
	QBRT_TIMED_OUT = 1061,
	QBRT_WOULD_BLOCK = 1062,
	QBRT_INTERRUPTED = 1063,
	QBRT_FORKED_PROCESS = 1065,
	QBRT_NOT_FOUND = 1067,
	QBRT_STREAM_FAILED = 1100,
	QBRT_STREAM_GONE = 1101,
	QBRT_STREAM_CAPTURING = 1102,
	QBRT_EVENT_NOT_RECORDED = 1110,
	QBRT_EVENT_NO_TIMING = 1111,
	QBRT_EVENT_NOT_READY = 1112,
	QBRT_EVENT_PEER_GONE = 1113,
	QBRT_BRIDGE_DEVICE_MISMATCH = 1120,
	QBRT_BRIDGE_NO_DRIVER = 1121,
	QBRT_TENSOR_REFUSED = 1200,
	QBRT_TENSOR_READ_ONLY = 1201,
	QBRT_TENSOR_INVALID = 1202,
	QBRT_MODEL_FORMAT_TOO_NEW = 1300,
	QBRT_MODEL_PROGRAM_REJECTED = 1301,
	QBRT_MODEL_STATE_INVALID = 1305
};

/* Element types; the numbers are also those of model files. */
enum qbrt_dtype {
	QBRT_DTYPE_FLOAT32 = 0,
	QBRT_DTYPE_UINT8 = 1,
	QBRT_DTYPE_INT8 = 2,
	QBRT_DTYPE_FLOAT16 = 3,
	QBRT_DTYPE_INT16 = 4,
	QBRT_DTYPE_UINT16 = 5,
	QBRT_DTYPE_INT32 = 6,
	QBRT_DTYPE_UINT32 = 7,
	QBRT_DTYPE_INT64 = 8,
	QBRT_DTYPE_UINT64 = 9,
	QBRT_DTYPE_FLOAT64 = 10,
	QBRT_DTYPE_BOOL = 11,
	QBRT_DTYPE_BFLOAT16 = 12,
	QBRT_DTYPE_ERROR = 0xF
};

/* Clusters of cores; with enum qbrt_core in struct qbrt_core_id. */
enum qbrt_cluster {
	QBRT_CLUSTER_0 = 0x10000,
	QBRT_CLUSTER_1 = 0x20000,
	QBRT_CLUSTER_ERROR = 0x7FFF0000
};

/* Cores of a cluster: local ones from 0 on, the global one beside them. */
enum qbrt_core {
	QBRT_CORE_0 = 1,
	QBRT_CORE_1 = 2,
	QBRT_CORE_2 = 3,
	QBRT_CORE_3 = 4,
	QBRT_CORE_ALL = 0xFFFC, /* deprecated */
	QBRT_CORE_GLOBAL = 0xFFFE,
	QBRT_CORE_ERROR = 0xFFFF
};

/*
 * How an inference uses cores. Single: one core. Multi: a batch spread over a
 * cluster's cores. Global4, Global8: all cores of one or two clusters reserved
 * for one inference. Auto: the one mode that the model file has.
 */
enum qbrt_core_mode {
	QBRT_CORE_MODE_SINGLE = 0,
	QBRT_CORE_MODE_MULTI = 1,
	QBRT_CORE_MODE_GLOBAL = 2, /* deprecated */
	QBRT_CORE_MODE_GLOBAL4 = 3,
	QBRT_CORE_MODE_GLOBAL8 = 4,
	QBRT_CORE_MODE_AUTO = 5,
	QBRT_CORE_MODE_ERROR = 0xF
};

/* Who chooses the cores of mode Single: the library, or a list. */
enum qbrt_core_policy {
	QBRT_CORE_POLICY_AUTO = 0,
	QBRT_CORE_POLICY_MANUAL = 1
};

/* Whose tokens a KV cache holds: of one sequence, or of a batch of them. */
enum qbrt_cache_type {
	QBRT_CACHE_TYPE_DEFAULT = 0,
	QBRT_CACHE_TYPE_BATCH = 1,
	QBRT_CACHE_TYPE_ERROR = 0xF
};

/* Levels of log lines; a level shows what is at or above it, Off nothing. */
enum qbrt_log_level {
	QBRT_LOG_LEVEL_DEBUG = 1,
	QBRT_LOG_LEVEL_INFO = 2,
	QBRT_LOG_LEVEL_WARN = 3,
	QBRT_LOG_LEVEL_ERR = 4,
	QBRT_LOG_LEVEL_FATAL = 5,
	QBRT_LOG_LEVEL_OFF = 6
};

/* What answers: a software device always says so. */
enum qbrt_device_kind {
	QBRT_DEVICE_KIND_NONE = 0, /* of NULL */
	QBRT_DEVICE_KIND_HARDWARE = 1,
	QBRT_DEVICE_KIND_SOFTWARE = 2
};

/* How a device is. */
enum qbrt_device_state {
	QBRT_DEVICE_STATE_NONE = 0, /* could not be read */
	QBRT_DEVICE_STATE_READY = 1,
	QBRT_DEVICE_STATE_RESETTING = 2,
	QBRT_DEVICE_STATE_DEGRADED = 3, /* a core is off */
	QBRT_DEVICE_STATE_LOST = 4
};

/* What a core does now. */
enum qbrt_core_activity {
	QBRT_CORE_ACTIVITY_IDLE = 0,
	QBRT_CORE_ACTIVITY_BUSY = 1,
	QBRT_CORE_ACTIVITY_STUCK = 2, /* recovery is under way */
	QBRT_CORE_ACTIVITY_OFF = 3
};

/*
 * Physical contiguity of a buffer: locked but not proven contiguous, one huge
 * page or run of them (contiguous by construction), guaranteed by the driver.
 */
enum qbrt_contiguity {
	QBRT_CONTIGUITY_NONE = 0,
	QBRT_CONTIGUITY_LOCKED = 1,
	QBRT_CONTIGUITY_HUGEPAGE = 2,
	QBRT_CONTIGUITY_DRIVER = 3
};

/* Order of axes of image tensors: height, width, channels, or C first. */
enum qbrt_layout {
	QBRT_LAYOUT_AUTO = 0,
	QBRT_LAYOUT_HWC = 1,
	QBRT_LAYOUT_CHW = 2
};

/* Flags of struct qbrt_pinned_options and of struct qbrt_infer_options. */
#define QBRT_PINNED_REQUIRE_CONTIGUOUS 0x1u /* else refused */
#define QBRT_INFER_BLOCKING 0x1u /* sleep at once instead of spinning first */
#define QBRT_INFER_TRY 0x2u      /* submit only: wait for nothing */
#define QBRT_INFER_HWC 0x4u      /* plain forms: the layout is fixed */
#define QBRT_INFER_CHW 0x8u
#define QBRT_INFER_TO_FLOAT 0x10u /* plain forms: int8 in, float32 out */

/* Flags of the functions of tensors. */
#define QBRT_TENSOR_FLAG_READ_ONLY 0x1u /* from_pinned_memory */
#define QBRT_TENSOR_DEFER_RELEASE 0x1u  /* import: by qbrt_bridge_drain alone */
#define QBRT_TENSOR_NO_ORDER 0x1u       /* export: nothing is ordered */
#define QBRT_TENSOR_OWNED_C 0x2u        /* export: counted as exports_owned_c */

/* Whether an export may copy. */
enum qbrt_copy_mode {
	QBRT_COPY_IF_NEEDED = 0, /* to another device alone */
	QBRT_COPY_ALWAYS = 1,
	QBRT_COPY_NEVER = 2
};

/* Flags of qbrt_pinned_memory_begin_cpu_access(). */
#define QBRT_CPU_READ 0x1u
#define QBRT_CPU_WRITE 0x2u

/* Flags of struct qbrt_firmware_info. */
#define QBRT_FIRMWARE_CRC 0x1u       /* crc is known */
#define QBRT_FIRMWARE_SECURE 0x2u    /* the device calls it secure */
#define QBRT_FIRMWARE_HEARTBEAT 0x4u /* heartbeat is offered */

/* Handles: opaque, made and freed by the functions of their sections. */
struct qbrt_device_info;
struct qbrt_accelerator;
struct qbrt_pinned_memory;
struct qbrt_model_config;
struct qbrt_model;
struct qbrt_future;
struct qbrt_tensor;
struct qbrt_stream;

/*
 * DLPack's structs (github.com/dmlc/dlpack), of dlpack/dlpack.h or of whoever
 * exchanges tensors; a DLTensor has no tag to declare it by.
 */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/*
 * Value types. Frozen for good: qbrt_core_id, qbrt_slice, qbrt_array,
 * qbrt_batch_item, qbrt_reading, qbrt_core_state, qbrt_device_event,
 * qbrt_dlpack_device, qbrt_dlpack_dtype. The others
 * begin with size, which the caller sets to sizeof: of options, a shorter
 * struct is filled up with defaults and unknown bytes must be 0; of answers,
 * that many bytes are written. Fields called reserved are 0.
 */

/* One core. */
struct qbrt_core_id {
	enum qbrt_cluster cluster;
	enum qbrt_core core;
};

/* Elements start, start + step, ..., count of them, along one axis. */
struct qbrt_slice {
	int64_t start;
	int64_t count;
	int64_t step;
};

/* Host memory of the caller, borrowed for the call. */
struct qbrt_array {
	void *data;
	const int64_t *shape;
	const int64_t *strides; /* bytes; NULL: C order */
	size_t ndim;
	enum qbrt_dtype dtype;
	uint32_t reserved;
};

/*
 * One item of a batched call of a model with caches. Not used in 0.1: see
 * qbrt_infer_options.
 */
struct qbrt_batch_item {
	uint64_t sequence_length; /* tokens of this call */
	uint64_t cache_size;      /* tokens before them */
	int32_t cache_id;
	uint32_t reserved;
};

/* How to allocate pinned memory; NULL or all 0: the defaults. */
struct qbrt_pinned_options {
	size_t size;
	uint32_t flags; /* QBRT_PINNED_... */
	uint32_t reserved;
	size_t alignment; /* a power of two, 64 to 2 MiB; 0 = 64 */
};

/*
 * How to run an inference; NULL or all 0: the defaults. Streams and caches are
 * not offered in 0.1: a stream is QBRT_NOT_IMPLEMENTED; cache_size, items or
 * num_items other than 0 is QBRT_INVALID_ARGUMENT, or QBRT_NOT_IMPLEMENTED of a
 * model with a cache (which cannot be launched either).
 */
struct qbrt_infer_options {
	size_t size;
	struct qbrt_stream *stream; /* NULL: one of the model's slots */
	/*
	 * ns from the call on, waiting for inputs and a slot included; 0 =
	 * QBRUNTIME_NPU_TIMEOUT_MS, negative = the longest the device takes,
	 * which bounds the others too
	 */
	int64_t timeout;
	uint64_t cache_size; /* 0 for a model without a cache */
	uint32_t flags;      /* QBRT_INFER_... */
	uint32_t reserved;
	const struct qbrt_batch_item *items; /* plain infer and submit only */
	size_t num_items;
};

/* A DLPack device: where memory is. 1, 0: the host's; 2: CUDA; 3: pinned. */
struct qbrt_dlpack_device {
	int32_t type;
	int32_t id;
};

/* A DLPack dtype: code 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool... */
struct qbrt_dlpack_dtype {
	uint8_t code;
	uint8_t bits;
	uint16_t lanes;
};

/* Memory of others; the arrays are borrowed for the call. */
struct qbrt_tensor_desc {
	size_t size;
	void *data; /* the element of index 0, 0, ... */
	struct qbrt_dlpack_device device;
	struct qbrt_dlpack_dtype dtype;
	uint32_t reserved;
	size_t ndim;
	const int64_t *shape;
	const int64_t *strides; /* bytes; NULL: C order */
};

/* stream is not offered in 0.1: others than NULL are QBRT_NOT_IMPLEMENTED. */
struct qbrt_tensor_import_options {
	size_t size;
	struct qbrt_stream *stream; /* where the producer's work is */
	uint32_t flags;             /* QBRT_TENSOR_DEFER_RELEASE */
	uint32_t reserved;
};

/* stream is not offered in 0.1: others than NULL are QBRT_NOT_IMPLEMENTED. */
struct qbrt_tensor_export_options {
	size_t size;
	struct qbrt_stream *stream; /* whose later work may use the data */
	struct qbrt_dlpack_device device; /* type 0: the tensor's own */
	enum qbrt_copy_mode copy;
	uint32_t flags; /* QBRT_TENSOR_NO_ORDER, QBRT_TENSOR_OWNED_C */
};

/*
 * Counters of the process, never reset. In 0.1 those of streams, events,
 * crossings, CUDA and other processes are 0.
 */
struct qbrt_bridge_stats {
	size_t size;
	/* live */
	uint64_t storages; /* allocations, of ours and of others */
	uint64_t tensors;
	uint64_t streams;
	uint64_t events;
	/* live exports, by struct; those with QBRT_TENSOR_OWNED_C apart */
	uint64_t exports_legacy;
	uint64_t exports_versioned;
	uint64_t exports_owned_c;
	uint64_t exports_borrowed; /* total */
	/* storages that wait: for work, for a drain, for good */
	uint64_t pending_retirements;
	uint64_t deferred_releases;
	uint64_t quarantined;
	uint64_t leaked;
	/* total */
	uint64_t events_created;
	uint64_t events_reused;
	uint64_t device_waits;
	uint64_t host_blocks; /* a caller waited for a job without asking to */
	uint64_t rung1;
	uint64_t rung2;
	uint64_t rung3;
	/* live */
	uint64_t cuda_registrations;
	uint64_t ipc_entries;
};

/* What an input or output of a model looks like; name: as long as the model. */
struct qbrt_io_info {
	size_t size;
	const char *name;
	enum qbrt_dtype dtype;        /* what infer takes */
	enum qbrt_dtype pinned_dtype; /* what a pinned buffer must have */
	size_t ndim;
	int64_t shape[8]; /* -k: any positive multiple of k */
	/*
	 * of a pinned buffer of max_shape; n times that: with a leading axis
	 * of n, what one inference computes
	 */
	size_t max_nbytes;
	int64_t max_shape[8];
};

/*
 * Quantisation of an input or output: real = (stored - zero_point) * scale.
 * scales: as long as the model.
 */
struct qbrt_scale_info {
	size_t size;
	const float *scales; /* num_scales values: 1, or one per channel */
	size_t num_scales;
	float scale; /* 0 if not uniform */
	int32_t zero_point;
	uint32_t is_uniform;
	uint32_t is_asymmetric;
};

/*
 * Extents of an input or output, in elements: of the source model, as
 * rearranged by the host, on the device with its padding, and the largest that
 * a variable size allows; for the plain layout all are equal.
 */
struct qbrt_buffer_info {
	size_t size;
	int64_t original_height, original_width, original_channel;
	int64_t reshaped_height, reshaped_width, reshaped_channel;
	int64_t height, width, channel;
	int64_t max_height, max_width, max_channel;
	int64_t max_cache_size; /* tokens; 0 without a cache */
};

/* One layer of the KV cache; name and layer_hash: as long as the model. */
struct qbrt_cache_info {
	size_t size;
	const char *name;
	const char *layer_hash; /* 16 lower-case hexadecimal digits */
	size_t nbytes;          /* of this layer in one cache */
	uint32_t num_caches;
	enum qbrt_cache_type type;
};

/* How arrays fit a model. */
struct qbrt_match {
	size_t size;
	size_t variant;
	size_t batch; /* inferences; 0: no batch axis */
	enum qbrt_layout layout;
	uint32_t is_ambiguous; /* HWC and CHW both match and differ */
};

/* Sums since a model was loaded. */
struct qbrt_model_counters {
	size_t size;
	/*
	 * jobs: one per inference, of a batch of arrays one per up to 16 of
	 * its items; completed: with success, and every job ends in one of
	 * three
	 */
	uint64_t submitted, completed, failed, cancelled;
	/*
	 * of submitted jobs, of completed ones, written by the host into
	 * staging and into arrays (pinned: 0)
	 */
	uint64_t input_nbytes, output_nbytes, copied_nbytes;
	/* ns between submit and start; on cores, summed over those used */
	int64_t queue_time, device_time;
};

/*
 * One value of a sensor or a counter. Ids, their names, indices and units:
 * qbrt_accelerator_query(3).
 */
struct qbrt_reading {
	uint32_t id;    /* for qbrt_sensor_name, qbrt_counter_name */
	uint32_t index; /* which one, where there are several */
	int64_t value;
};

/* One core and its account. */
struct qbrt_core_state {
	struct qbrt_core_id core_id;
	enum qbrt_core_activity activity;
	uint32_t queued;   /* job items that wait for it */
	uint64_t jobs;     /* job items done; a job has one per batch item */
	int64_t busy_time; /* ns since attach, grows while it is busy */
	uint32_t resets;
	uint32_t reserved;
};

/* Something that happened to a device. */
struct qbrt_device_event {
	uint64_t sequence; /* counts from 1, without gaps */
	int64_t time;      /* ns, CLOCK_MONOTONIC */
	uint32_t kind;     /* for qbrt_device_event_name */
	enum qbrt_status status;
	struct qbrt_core_id core_id; /* both ERROR: no core */
	/*
	 * of the kind's own, else 0: [0] is the number of a job in its queue,
	 * of this process, or the rule that a device's lie broke
	 */
	uint64_t args[2];
};

/* What one device takes. */
struct qbrt_device_limits {
	size_t size;
	uint32_t max_jobs;     /* queued and running, in one queue */
	uint32_t max_queues;   /* of one open device */
	uint32_t max_bindings; /* inputs, outputs, states of one program */
	uint32_t max_programs; /* of one open device; a variant has one */
	uint64_t max_program_nbytes;
	uint64_t max_pinned_nbytes; /* of one buffer */
	int64_t default_job_time;   /* ns, of a job without a limit */
	int64_t max_job_time;       /* ns, the longest limit of a job */
};

/* The firmware; version and build: as long as the accelerator. */
struct qbrt_firmware_info {
	size_t size;
	const char *version; /* NULL: not known */
	const char *build;   /* NULL: not known */
	int64_t heartbeat; /* ns, CLOCK_MONOTONIC, of the last sign of life; 0:
			      not known */
	int64_t uptime;    /* ns; 0: not known */
	uint32_t crc;
	uint32_t flags; /* QBRT_FIRMWARE_... */
};

/*
 * Takes a log line. component and sentence are borrowed for the call, UTF-8
 * without control characters. It runs on the thread that logs, on several at
 * once, under no lock of the library's but often inside a call, and may use the
 * library: not launch a model.
 */
typedef void (*qbrt_log_function)(void *arg, enum qbrt_log_level level,
				  const char *component, const char *sentence);

/*
 * Called once, when the future's job has ended, on a thread of the library's
 * or inside qbrt_future_set_callback(), under no lock: it may call the library,
 * also free the future.
 */
typedef void (*qbrt_future_function)(void *arg, struct qbrt_future *future);

/*
 * Called on the thread that waits, under no lock, but inside the call: it may
 * use the library, and not launch a model. true: stop waiting.
 */
typedef bool (*qbrt_interrupt_function)(void *arg);

/*
 * Gives memory back that a tensor was made of; called once, on any thread that
 * ends the last use of it, or by qbrt_bridge_drain. It may not fail.
 */
typedef void (*qbrt_release_function)(void *arg);

/* Status, version, log, trace */

/*
 * The library's version, "0.1.0".
 * Ownership: static. Threads: any. Since: 0.1. Source: __version__ of the
 * vendor's package.
 */
const char *qbrt_version(void);

/*
 * The commit that the library was built from, "" for a release.
 * Ownership: static. Threads: any. Since: 0.1. Source: __git_version__ of the
 * vendor's package.
 */
const char *qbrt_git_version(void);

/*
 * The folder of what comes with the library and is not code: a small model,
 * digits.qbm, and 16 images of digits. It lies beside the library's real path.
 * NULL: there is none.
 * Ownership: static. Threads: any. Since: 0.1.
 */
const char *qbrt_get_data_dir(void);

/*
 * The name of a status, "Model_DtypeMismatched"; "Unknown" for a number that
 * is none.
 * Ownership: static. Threads: any. Since: 0.1.
 */
const char *qbrt_status_name(enum qbrt_status status);

/*
 * The status of a name, the inverse of qbrt_status_name; case matters.
 * QBRT_NOT_FOUND: no status has that name.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_status_from_name(const char *name, enum qbrt_status *status);

/*
 * The sentence of this thread's last failing call: what was wrong, what was
 * expected, what to do. "" before the first; success leaves it alone. Never
 * NULL.
 * Ownership: good until the thread's next failing call. Threads: any, each
 * with its own. Since: 0.1.
 */
const char *qbrt_error_detail(void);

/*
 * The name of an element type, "Float32"; "Unknown" for a number that is none.
 * Ownership: static. Threads: any. Since: 0.1. Source: DataType of the
 * vendor's package.
 */
const char *qbrt_dtype_name(enum qbrt_dtype dtype);

/*
 * Bytes of one element; 0 for a number that is no type.
 * Threads: any. Since: 0.1.
 */
size_t qbrt_dtype_itemsize(enum qbrt_dtype dtype);

/*
 * From now on log lines at or above level are written, in the whole process.
 * Without a call: what QBRUNTIME_LOG_LEVEL says, else QBRT_LOG_LEVEL_WARN.
 * QBRT_INVALID_ARGUMENT: not a level; nothing changes.
 * Threads: any. Since: 0.1. Source: set_log_level of the vendor's package.
 */
QBRT_MUST_CHECK enum qbrt_status qbrt_set_log_level(enum qbrt_log_level level);

/*
 * From now on function takes the lines that are on, instead of standard error,
 * in the whole process. function NULL: standard error again. arg: handed to
 * each call; another thread may still be inside a call of the previous
 * function when this returns.
 * Threads: any. Since: 0.1.
 */
void qbrt_set_log_function(qbrt_log_function function, void *arg);

/*
 * Has every wait of the library ask function whether to go on: when a signal
 * interrupted the wait, and at least every 100 ms of any wait. To be able to
 * ask, the library runs no long inference on the caller's own thread while one
 * is set.
 * When it says true the call ends with QBRT_INTERRUPTED: a blocking inference
 * cancels its job first and waits for its end, its outputs are invalid; every
 * other wait leaves the jobs alone. The function may be asked while its call
 * holds an activation slot and buffers, so it must not infer on the same model;
 * buffers that a call uses give QBRT_PINNED_MEMORY_IN_USE in there. function: NULL: nothing is asked; borrowed,
 * with arg, until it is replaced. A thread that is about to call the old
 * function may still do so when this returns.
 * Threads: any. Since: 0.1.
 */
void qbrt_set_interrupt_function(qbrt_interrupt_function function, void *arg);

/*
 * From now on what the library and its devices do is recorded in a file of
 * trace events, which ui.perfetto.dev and chrome://tracing show: launch,
 * dispose, submit, wait and copy in the row of the thread that called, run and
 * copy in the row of the core, queue (from submit to start) beside the rows.
 * path: of a new file, or of a regular one whose contents are lost. Each event
 * is one line and one write, so that the file can be read after a crash too.
 * A file that cannot grow ends the trace with a log line at
 * QBRT_LOG_LEVEL_WARN, and disturbs nothing else: no SIGXFSZ comes where
 * RLIMIT_FSIZE was set when the trace was started. A child of fork does not
 * record; it may start a trace of its own.
 * QBRT_INVALID_ARGUMENT: path cannot be created or written, or a trace has been
 * started and not stopped; nothing changes.
 * Threads: any. Since: 0.1. Source: start_tracing_events of the vendor's
 * package; Chrome's Trace Event Format.
 */
QBRT_MUST_CHECK enum qbrt_status qbrt_trace_start(const char *path);

/*
 * Ends the trace and closes its file, which is complete then; without a trace
 * it does nothing.
 * QBRT_INTERNAL_ERROR: the file could not be written to the end; there is no
 * trace any more.
 * Threads: any. Since: 0.1. Source: stop_tracing_events of the vendor's
 * package.
 */
QBRT_MUST_CHECK enum qbrt_status qbrt_trace_stop(void);

/* Device information */

/*
 * The visible devices, software ones included, as they are now.
 * name: a concrete name ("aries-rb", "regulus-ra", ...) or an alias ("auto",
 * "aries", "regulus", "regulus-usb"), without case; NULL: all devices. infos:
 * num_infos of them, by name in this order, then by number; none is no error.
 * QBRT_ACC_AMBIGUOUS_DEVICE_NAME: the alias means devices of several names.
 * Ownership: the array and the infos are the caller's, for
 * qbrt_device_info_list_free; each is a snapshot that never changes.
 * Threads: any. Since: 0.1. Source: get_available_device_numbers and
 * get_available_devices of the vendor's runtime.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_device_info_list(const char *name, struct qbrt_device_info ***infos,
		      size_t *num_infos);

/*
 * Frees a list and its infos. NULL is fine.
 * infos: of qbrt_device_info_list, num_infos: as that gave it.
 * Threads: last use. Since: 0.1.
 */
void qbrt_device_info_list_free(struct qbrt_device_info **infos,
				size_t num_infos);

/*
 * Frees an info of qbrt_accelerator_query_info. NULL is fine.
 * Threads: last use. Since: 0.1.
 */
void qbrt_device_info_free(struct qbrt_device_info *info);

/*
 * The id, "name:number", for example "aries-rb:0".
 * The string belongs to info.
 * Threads: any. Since: 0.1.
 */
const char *qbrt_device_info_get_id(const struct qbrt_device_info *info);

/*
 * The concrete name, for example "aries-rb".
 * The string belongs to info.
 * Threads: any. Since: 0.1.
 */
const char *qbrt_device_info_get_name(const struct qbrt_device_info *info);

/*
 * The number, counted per name: what qbrt_accelerator_open takes.
 * Threads: any. Since: 0.1.
 */
int qbrt_device_info_get_number(const struct qbrt_device_info *info);

/*
 * Whether the device is hardware or software.
 * Threads: any. Since: 0.1.
 */
enum qbrt_device_kind
qbrt_device_info_get_kind(const struct qbrt_device_info *info);

/*
 * The family, "aries" or "regulus"; NULL: another.
 * The string is constant.
 * Threads: any. Since: 0.1.
 */
const char *qbrt_device_info_get_family(const struct qbrt_device_info *info);

/*
 * The product's name; NULL: not known.
 * The string belongs to info.
 * Threads: any. Since: 0.1.
 */
const char *qbrt_device_info_get_product(const struct qbrt_device_info *info);

/*
 * The name of the driver, for example "qbnpu"; NULL: not known.
 * The string belongs to info.
 * Threads: any. Since: 0.1.
 */
const char *qbrt_device_info_get_driver(const struct qbrt_device_info *info);

/*
 * The version of the driver, for example "1.0.0"; NULL: not known.
 * The string belongs to info.
 * Threads: any. Since: 0.1.
 */
const char *
qbrt_device_info_get_driver_version(const struct qbrt_device_info *info);

/*
 * The version of the driver interface, for example "1.0".
 * The string belongs to info.
 * Threads: any. Since: 0.1.
 */
const char *
qbrt_device_info_get_uapi_version(const struct qbrt_device_info *info);

/*
 * The version of the firmware; NULL: none, or not known.
 * The string belongs to info.
 * Threads: any. Since: 0.1.
 */
const char *qbrt_device_info_get_firmware(const struct qbrt_device_info *info);

/*
 * The place on the bus; NULL: none, or not known.
 * The string belongs to info.
 * Threads: any. Since: 0.1.
 */
const char *qbrt_device_info_get_bus(const struct qbrt_device_info *info);

/*
 * The node that is opened, for example "/dev/accel/accel0" or "soft:0".
 * The string belongs to info.
 * Threads: any. Since: 0.1.
 */
const char *qbrt_device_info_get_node(const struct qbrt_device_info *info);

/*
 * The NUMA node that the device is near; -1: not known.
 * Threads: any. Since: 0.1.
 */
int qbrt_device_info_get_numa_node(const struct qbrt_device_info *info);

/*
 * The number of clusters.
 * Threads: any. Since: 0.1.
 */
size_t qbrt_device_info_get_num_clusters(const struct qbrt_device_info *info);

/*
 * The number of local cores of each cluster.
 * Threads: any. Since: 0.1.
 */
size_t qbrt_device_info_get_local_cores_per_cluster(
	const struct qbrt_device_info *info);

/*
 * The number of global cores of each cluster.
 * Threads: any. Since: 0.1.
 */
size_t qbrt_device_info_get_global_cores_per_cluster(
	const struct qbrt_device_info *info);

/*
 * The core modes that the device runs: bit n is enum qbrt_core_mode n.
 * Threads: any. Since: 0.1.
 */
uint32_t qbrt_device_info_get_core_modes(const struct qbrt_device_info *info);

/*
 * The element types of pinned memory: bit n is enum qbrt_dtype n.
 * Threads: any. Since: 0.1.
 */
uint32_t qbrt_device_info_get_dtypes(const struct qbrt_device_info *info);

/*
 * The classes that pinned memory of this device can have: bit n is enum
 * qbrt_contiguity n; 0: it has no pinned memory.
 * Threads: any. Since: 0.1.
 */
uint32_t
qbrt_device_info_get_contiguity_classes(const struct qbrt_device_info *info);

/*
 * The size of the device's own memory, in bytes.
 * Threads: any. Since: 0.1.
 */
uint64_t qbrt_device_info_get_memory_total(const struct qbrt_device_info *info);

/*
 * What of that is free, in bytes; of qbrt_accelerator_query_info: freed pinned
 * memory that is kept for reuse counts as free.
 * Threads: any. Since: 0.1.
 */
uint64_t qbrt_device_info_get_memory_free(const struct qbrt_device_info *info);

/*
 * How much pinned memory this process can have in all, in bytes.
 * Threads: any. Since: 0.1.
 */
uint64_t qbrt_device_info_get_pinned_limit(const struct qbrt_device_info *info);

/*
 * The oldest model file version that can be loaded: major << 16 | minor.
 * Threads: any. Since: 0.1.
 */
uint32_t
qbrt_device_info_get_container_min(const struct qbrt_device_info *info);

/*
 * The newest model file version that can be loaded: major << 16 | minor.
 * Threads: any. Since: 0.1.
 */
uint32_t
qbrt_device_info_get_container_max(const struct qbrt_device_info *info);

/*
 * The serial number; NULL: none, or not known.
 * The string belongs to info.
 * Threads: any. Since: 0.1.
 */
const char *qbrt_device_info_get_serial(const struct qbrt_device_info *info);

/*
 * An id of this one device that survives reboots and other slots, 36 lower-case
 * characters; NULL without a serial number, so of software devices.
 * The string belongs to info.
 * Threads: any. Since: 0.1. Source: RFC 9562, version 5 in the namespace of
 * URLs, over "qbnpu:", the name, ":" and the serial number.
 */
const char *qbrt_device_info_get_uuid(const struct qbrt_device_info *info);

/*
 * How the device was when the snapshot was taken.
 * Threads: any. Since: 0.1.
 */
enum qbrt_device_state
qbrt_device_info_get_state(const struct qbrt_device_info *info);

/*
 * The largest pinned memory with QBRT_PINNED_REQUIRE_CONTIGUOUS that would have
 * succeeded, in bytes; 0: none, or not known.
 * Threads: any. Since: 0.1.
 */
uint64_t
qbrt_device_info_get_contiguous_free(const struct qbrt_device_info *info);

/*
 * The newest version of programs that the device runs: major << 16 | minor.
 * Threads: any. Since: 0.1.
 */
uint32_t qbrt_device_info_get_isa_version(const struct qbrt_device_info *info);

/*
 * What programs of the device may use, by name, in the order of the feature
 * bits: "int8", "half", ... Bits that this library has no name for are left out.
 * num_names: how many there are.
 * The array and the strings belong to info.
 * Threads: any. Since: 0.1.
 */
const char *const *
qbrt_device_info_get_isa_features(const struct qbrt_device_info *info,
				  size_t *num_names);

/*
 * What the driver offers, by name, in the order of the feature bits:
 * "syncobj_timeline", "dmabuf_export", ... Bits that this library has no name
 * for are left out. num_names: how many there are.
 * The array and the strings belong to info.
 * Threads: any. Since: 0.1.
 */
const char *const *
qbrt_device_info_get_features(const struct qbrt_device_info *info,
			      size_t *num_names);

/*
 * The kernels that a software device can compute with: "ref", and "onednn"
 * where that plugin is installed; none of hardware. num_names: how many there
 * are.
 * The array and the strings belong to info.
 * Threads: any. Since: 0.1.
 */
const char *const *
qbrt_device_info_get_backends(const struct qbrt_device_info *info,
			      size_t *num_names);

/*
 * What the device takes at most.
 * limits: its size is set by the caller; of NULL info all else is 0.
 * Threads: any. Since: 0.1.
 */
void qbrt_device_info_get_limits(const struct qbrt_device_info *info,
				 struct qbrt_device_limits *limits);

/*
 * The name of a sensor, for example "temperature"; of a number that this
 * library does not know "Unknown".
 * The string is constant.
 * Threads: any. Since: 0.1.
 */
const char *qbrt_sensor_name(uint32_t id);

/*
 * The name of a counter, for example "submitted"; of 1001 to 1999, programs
 * refused by rule 1 to 999 of the validator, "rejected_by_rule"; of a number
 * that this library does not know "Unknown".
 * The string is constant.
 * Threads: any. Since: 0.1.
 */
const char *qbrt_counter_name(uint32_t id);

/*
 * The name of a kind of event, for example "timeout"; of a number that this
 * library does not know "Unknown".
 * The string is constant.
 * Threads: any. Since: 0.1.
 */
const char *qbrt_device_event_name(uint32_t kind);

/* Accelerator */

/*
 * Opens a device.
 * name: as of qbrt_device_info_list, NULL means "auto". number: counted per
 * name, -1 is the lowest visible one. acc: a handle; all handles of one device
 * in this process share one open device, so what they make can be mixed.
 * QBRT_ACC_DEVICE_NOT_FOUND: no such device, or hidden from this process; the
 * sentence lists what is visible. QBRT_ACC_AMBIGUOUS_DEVICE_NAME: the alias
 * means devices of several names. QBRT_INVALID_ARGUMENT: a variable is
 * malformed, or QBRUNTIME_NPU_TIMEOUT_MS is longer than the device takes.
 * QBRT_ACC_PERMISSION_DENIED, QBRT_ACC_VERSION_MISMATCH: the node's answer.
 * Ownership: acc is the caller's, for qbrt_accelerator_close.
 * Threads: any. Since: 0.1. Source: Accelerator of the vendor's runtime.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_accelerator_open(const char *name, int number,
		      struct qbrt_accelerator **acc);

/*
 * Closes a handle; buffers and launched models keep the device open. NULL is
 * fine. In a child of fork it gives back memory only.
 * Threads: last use. Since: 0.1.
 */
void qbrt_accelerator_close(struct qbrt_accelerator *acc);

/*
 * The device's id, for example "aries-rb:0".
 * The string belongs to acc.
 * Threads: any. Since: 0.1.
 */
const char *qbrt_accelerator_get_id(const struct qbrt_accelerator *acc);

/*
 * The concrete name that the alias became, for example "aries-rb".
 * The string belongs to acc.
 * Threads: any. Since: 0.1. Source: get_device_name of the vendor's runtime.
 */
const char *qbrt_accelerator_get_name(const struct qbrt_accelerator *acc);

/*
 * The device's number among those of its name.
 * Threads: any. Since: 0.1.
 */
int qbrt_accelerator_get_number(const struct qbrt_accelerator *acc);

/*
 * A fresh snapshot of the device.
 * QBRT_FORKED_PROCESS: opened before fork. QBRT_ACC_DEVICE_LOST.
 * Ownership: info is the caller's, for qbrt_device_info_free.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_accelerator_query_info(const struct qbrt_accelerator *acc,
			    struct qbrt_device_info **info);

/*
 * The local cores, by cluster and core.
 * cores: room for max_cores of them, may be NULL when that is 0. num_cores: how
 * many there are; at most max_cores are written.
 * QBRT_FORKED_PROCESS: opened before fork.
 * Threads: any. Since: 0.1. Source: get_available_cores of the vendor's
 * runtime.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_accelerator_query_cores(const struct qbrt_accelerator *acc,
			     struct qbrt_core_id *cores, size_t max_cores,
			     size_t *num_cores);

/*
 * What is known of the firmware, now.
 * info: its size is set by the caller.
 * QBRT_NOT_IMPLEMENTED: nothing is known, as of every software device.
 * QBRT_FORKED_PROCESS: opened before fork. QBRT_ACC_DEVICE_LOST.
 * Ownership: the strings belong to acc.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_accelerator_query_firmware(const struct qbrt_accelerator *acc,
				struct qbrt_firmware_info *info);

/*
 * The sensors, as last measured, at most a second ago. What the device lacks is
 * not among them; a software device has none.
 * readings: room for max_readings of them, may be NULL when that is 0.
 * num_readings: how many there are; at most max_readings are written.
 * QBRT_FORKED_PROCESS: opened before fork. QBRT_ACC_DEVICE_LOST.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_accelerator_query_sensors(const struct qbrt_accelerator *acc,
			       struct qbrt_reading *readings,
			       size_t max_readings, size_t *num_readings);

/*
 * What all users of the device have done since it was attached. What the device
 * does not count is not among the counters.
 * readings: room for max_readings of them, may be NULL when that is 0.
 * num_readings: how many there are; at most max_readings are written.
 * QBRT_FORKED_PROCESS: opened before fork. QBRT_ACC_DEVICE_LOST.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_accelerator_query_counters(const struct qbrt_accelerator *acc,
				struct qbrt_reading *readings,
				size_t max_readings, size_t *num_readings);

/*
 * The cores, by cluster and core, the global ones after the local ones. How
 * busy one was is a difference of busy_time over a difference of time.
 * states: room for max_states of them, may be NULL when that is 0. num_states:
 * how many there are; at most max_states are written.
 * QBRT_FORKED_PROCESS: opened before fork. QBRT_ACC_DEVICE_LOST.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_accelerator_query_core_states(const struct qbrt_accelerator *acc,
				   struct qbrt_core_state *states,
				   size_t max_states, size_t *num_states);

/*
 * What happened to the device, oldest first, from a sequence number on. The
 * last 256 events are kept: a first sequence above the one asked for says how
 * many were lost. A lost device tells them too.
 * first_sequence: 0 and 1 mean all. events: room for max_events of them, may be
 * NULL when that is 0. num_events: how many there are; at most max_events are
 * written.
 * QBRT_FORKED_PROCESS: opened before fork.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_accelerator_query_events(const struct qbrt_accelerator *acc,
			      uint64_t first_sequence,
			      struct qbrt_device_event *events,
			      size_t max_events, size_t *num_events);

/* Pinned memory */

/*
 * Allocates memory that the host and the NPU share, filled with zeros.
 * dtype: of an element, any. shape: ndim extents, at least 1 each; at most 8
 * axes, 0 is one element. options: NULL for the defaults; flag
 * QBRT_PINNED_REQUIRE_CONTIGUOUS refuses what is not proven contiguous;
 * alignment in bytes, of the host's and the device's address: a power of two
 * from 64 (the default) to 2 MiB.
 * QBRT_INVALID_ARGUMENT: an argument, or a size above the device's limit.
 * QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY: host memory or the limit on
 * locked memory is exhausted. QBRT_BAD_ALLOC: the device's memory is.
 * QBRT_PINNED_MEMORY_NOT_CONTIGUOUS: the sentence says what would have fitted.
 * QBRT_NOT_IMPLEMENTED: the device has no such memory. QBRT_FORKED_PROCESS.
 * Ownership: mem is the caller's, for qbrt_pinned_memory_free; it keeps the
 * device open and outlives acc.
 * Threads: any. Since: 0.1. Source: PinnedMemory of the vendor's runtime.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_pinned_memory_alloc(struct qbrt_accelerator *acc, enum qbrt_dtype dtype,
			 const int64_t *shape, size_t ndim,
			 const struct qbrt_pinned_options *options,
			 struct qbrt_pinned_memory **mem);

/*
 * Makes pinned memory of a descriptor: one of qbrt_pinned_memory_export_fd, of
 * this process or another, a memfd with F_SEAL_SHRINK, or a dma-buf that the
 * device reaches. fd: borrowed for the call. offset: of the first byte, a
 * multiple of 64. dtype, shape: as qbrt_pinned_memory_alloc; nothing is
 * filled. The memory is read-only when fd is, or is sealed against writing. Of
 * a memfd that has grown the device sees the size that it first imported, until
 * that memory's last handle is freed.
 * QBRT_INVALID_ARGUMENT: an argument, fd is no such thing, or it holds more than
 * a buffer of the device may.
 * QBRT_PINNED_MEMORY_OUT_OF_BOUNDS: the array does not lie in what fd holds.
 * QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY: memory, or the limit on open
 * descriptors, is exhausted. QBRT_NOT_IMPLEMENTED: the device imports nothing.
 * QBRT_FORKED_PROCESS.
 * Ownership: mem is the caller's, for qbrt_pinned_memory_free; it keeps the
 * device open. Work through one handle of a buffer does not wait for work
 * through another.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_pinned_memory_import_fd(struct qbrt_accelerator *acc, int fd,
			     size_t offset, enum qbrt_dtype dtype,
			     const int64_t *shape, size_t ndim,
			     struct qbrt_pinned_memory **mem);

/*
 * Makes a descriptor of the buffer that mem lies in: a dma-buf, or a memfd
 * where the driver has no dma-buf. It is close-on-exec, and read-only when mem
 * is. An exported buffer is not kept for later allocations.
 * QBRT_PINNED_MEMORY_READ_ONLY: the driver has no read-only descriptor of it.
 * QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY: memory, or the limit on open
 * descriptors, is exhausted. QBRT_NOT_IMPLEMENTED: the device exports nothing.
 * QBRT_FORKED_PROCESS.
 * Ownership: fd is the caller's, for close(2); it keeps the memory, not the
 * device.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_pinned_memory_export_fd(struct qbrt_pinned_memory *mem, int *fd);

/*
 * Gives the memory back; the data pointer is dead then. NULL is fine.
 * A launched model and the accelerator are not touched.
 * Threads: last use. Since: 0.1.
 */
void qbrt_pinned_memory_free(struct qbrt_pinned_memory *mem);

/*
 * The first byte, aligned as asked; stays the same until free.
 * A job's inputs are to be written before it is submitted, and its outputs to
 * be read when it is done; the pointer itself waits for nothing. The device uses
 * these pages too: do not protect, unmap, move or replace them.
 * Threads: any. Since: 0.1.
 */
void *qbrt_pinned_memory_get_data(const struct qbrt_pinned_memory *mem);

/*
 * The size of all elements, in bytes.
 * Threads: any. Since: 0.1. Source: PinnedMemory.size of the vendor's runtime.
 */
size_t qbrt_pinned_memory_get_nbytes(const struct qbrt_pinned_memory *mem);

/*
 * The number of elements.
 * Threads: any. Since: 0.1.
 */
size_t
qbrt_pinned_memory_get_num_elements(const struct qbrt_pinned_memory *mem);

/*
 * The type of an element.
 * Threads: any. Since: 0.1.
 */
enum qbrt_dtype
qbrt_pinned_memory_get_dtype(const struct qbrt_pinned_memory *mem);

/*
 * The number of axes.
 * Threads: any. Since: 0.1.
 */
size_t qbrt_pinned_memory_get_ndim(const struct qbrt_pinned_memory *mem);

/*
 * The extents, ndim of them, outermost first.
 * The array belongs to mem.
 * Threads: any. Since: 0.1.
 */
const int64_t *
qbrt_pinned_memory_get_shape(const struct qbrt_pinned_memory *mem);

/*
 * The distance between neighbours on each axis, in bytes: dense, row-major.
 * The array belongs to mem.
 * Threads: any. Since: 0.1.
 */
const int64_t *
qbrt_pinned_memory_get_strides(const struct qbrt_pinned_memory *mem);

/*
 * What is known about the memory's physical contiguity.
 * Threads: any. Since: 0.1.
 */
enum qbrt_contiguity
qbrt_pinned_memory_get_contiguity(const struct qbrt_pinned_memory *mem);

/*
 * The id of its device, for example "aries-rb:0".
 * The string belongs to mem.
 * Threads: any. Since: 0.1.
 */
const char *qbrt_pinned_memory_get_device(const struct qbrt_pinned_memory *mem);

/*
 * Whether the NPU can use the memory; false in a child of fork.
 * Threads: any. Since: 0.1. Source: PinnedMemory.is_available of the vendor's
 * runtime.
 */
bool qbrt_pinned_memory_is_available(const struct qbrt_pinned_memory *mem);

/*
 * Whether the memory came by a read-only descriptor: the host and the NPU may
 * read it and nothing else.
 * Threads: any. Since: 0.1.
 */
bool qbrt_pinned_memory_is_read_only(const struct qbrt_pinned_memory *mem);

/*
 * The address that the device uses for the first byte.
 * QBRT_NOT_IMPLEMENTED: the driver does not tell it to this process.
 * QBRT_FORKED_PROCESS.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_pinned_memory_query_device_address(const struct qbrt_pinned_memory *mem,
					uint64_t *address);

/*
 * Whether no job is still to write the memory. ready: required.
 * QBRT_FORKED_PROCESS.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_pinned_memory_query(const struct qbrt_pinned_memory *mem, bool *ready);

/*
 * Waits until no job is still to write the memory.
 * timeout: ns; 0 polls, negative: without a limit.
 * QBRT_TIMED_OUT: the job goes on; QBRT_INTERRUPTED; QBRT_TENSOR_INVALID: the
 * job that wrote it failed, with its sentence; QBRT_FORKED_PROCESS.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_pinned_memory_wait(const struct qbrt_pinned_memory *mem, int64_t timeout);

/*
 * Begins an access by the pointer of qbrt_pinned_memory_get_data() at a time
 * when jobs may come: waits for those that write the memory (QBRT_CPU_READ) or
 * use it (QBRT_CPU_WRITE), and until the end no job that writes it, or uses it,
 * is taken: QBRT_PINNED_MEMORY_IN_USE. QBRT_CPU_WRITE stands for a rewrite of
 * all of it: contents that a failed job left invalid count again. Nests, 48
 * deep: the last one begun ends first. Not needed around writes before an
 * inference is called and reads after it has returned.
 * QBRT_INVALID_ARGUMENT: flags; too deep; QBRT_TENSOR_INVALID: to read, what a
 * failed job left; QBRT_PINNED_MEMORY_READ_ONLY; QBRT_INTERRUPTED;
 * QBRT_FORKED_PROCESS.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_pinned_memory_begin_cpu_access(struct qbrt_pinned_memory *mem,
				    uint32_t flags);

/*
 * Ends the access begun last; one that fails leaves it open.
 * QBRT_INVALID_ARGUMENT: none is open; QBRT_FORKED_PROCESS.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_pinned_memory_end_cpu_access(struct qbrt_pinned_memory *mem);

/*
 * Reads one element; waits while a job writes the buffer.
 * index: ndim numbers from 0 on, one per axis of the buffer. dtype: the
 * buffer's. value: room for one element.
 * QBRT_PINNED_MEMORY_OUT_OF_BOUNDS, QBRT_MODEL_DTYPE_MISMATCHED.
 * QBRT_TENSOR_INVALID: the last job that wrote the buffer failed.
 * QBRT_FORKED_PROCESS.
 * Threads: any. Since: 0.1. Source: indexing of numpy.ndarray.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_pinned_memory_read_at(const struct qbrt_pinned_memory *mem,
			   const int64_t *index, size_t ndim,
			   enum qbrt_dtype dtype, void *value);

/*
 * Writes one element; waits while a job reads or writes the buffer.
 * index, ndim, dtype, statuses: as qbrt_pinned_memory_read_at. value: one
 * element.
 * Threads: any. Since: 0.1. Source: indexing of numpy.ndarray.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_pinned_memory_write_at(struct qbrt_pinned_memory *mem,
			    const int64_t *index, size_t ndim,
			    enum qbrt_dtype dtype, const void *value);

/*
 * Copies a strided part of the buffer to the caller's memory; waits while a
 * job writes the buffer.
 * slices: ndim of them, one per axis of the buffer: element i of count is start
 * + i * step, all inside the axis; step may be negative, not 0. dst: of the
 * buffer's dtype and of shape (count, ...), any strides; not in the buffer.
 * QBRT_PINNED_MEMORY_OUT_OF_BOUNDS, QBRT_MODEL_SHAPE_MISMATCHED,
 * QBRT_MODEL_DTYPE_MISMATCHED, QBRT_PINNED_MEMORY_ALIASED,
 * QBRT_TENSOR_INVALID, QBRT_FORKED_PROCESS: nothing is written.
 * Threads: any. Since: 0.1. Source: slicing of numpy.ndarray.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_pinned_memory_read_slice(const struct qbrt_pinned_memory *mem,
			      const struct qbrt_slice *slices, size_t ndim,
			      const struct qbrt_array *dst);

/*
 * Copies the caller's memory to a strided part of the buffer; waits while a
 * job reads or writes the buffer.
 * slices, statuses: as qbrt_pinned_memory_read_slice. src: as its dst. A slice
 * of the whole buffer makes one valid again that a failed job has left.
 * Threads: any. Since: 0.1. Source: slicing of numpy.ndarray.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_pinned_memory_write_slice(struct qbrt_pinned_memory *mem,
			       const struct qbrt_slice *slices, size_t ndim,
			       const struct qbrt_array *src);

/*
 * Sets every element to one value; waits while a job reads or writes the
 * buffer.
 * dtype: the buffer's. value: one element. Makes a buffer valid again that a
 * failed job has left.
 * QBRT_MODEL_DTYPE_MISMATCHED, QBRT_FORKED_PROCESS.
 * Threads: any. Since: 0.1. Source: fill of numpy.ndarray.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_pinned_memory_fill(struct qbrt_pinned_memory *mem, enum qbrt_dtype dtype,
			const void *value);

/* Model configuration */

/*
 * A configuration with the defaults: core mode Auto, no bundle forced, no
 * asynchronous inference, the default number of activation slots.
 * QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY.
 * The caller owns *config and frees it with qbrt_model_config_free.
 * Threads: one per object. Since: 0.1. Source: qbruntime ModelConfig.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_config_alloc(struct qbrt_model_config **config);

/*
 * Another configuration with the same settings.
 * Statuses and ownership of *copy as qbrt_model_config_alloc's.
 * Threads: one per object. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_config_copy(const struct qbrt_model_config *config,
		       struct qbrt_model_config **copy);

/*
 * Frees a configuration. Models that were loaded with it keep what it said.
 * config: NULL is nothing to do.
 * Threads: last use. Since: 0.1.
 */
void qbrt_model_config_free(struct qbrt_model_config *config);

/*
 * Whether all getters of both answer the same. Lists in another order differ;
 * two NULLs are equal.
 * Threads: one per object. Since: 0.1.
 */
bool qbrt_model_config_is_equal(const struct qbrt_model_config *a,
				const struct qbrt_model_config *b);

/*
 * Core mode Auto: the one mode that the model file has.
 * It replaces the mode, cores and clusters of earlier calls, as do the other
 * functions that set a core mode.
 * Threads: one per object. Since: 0.1. Source: qbruntime
 * ModelConfig.set_auto_core_mode.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_config_set_auto_core_mode(struct qbrt_model_config *config);

/*
 * Core mode Single on this many local cores; launch picks those that the fewest
 * launched models of this process use, the lowest first.
 * num_cores: 1 to 8; 0: all of the device. SIZE_MAX stands for a number below
 * 1, which other languages have and which is rejected too.
 * QBRT_INVALID_ARGUMENT: rejected, nothing changes; the reason is also logged
 * at Warn level, here and by the other functions that set something.
 * Threads: one per object. Since: 0.1. Source: qbruntime
 * ModelConfig.set_single_core_mode.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_config_set_single_core_mode(struct qbrt_model_config *config,
				       size_t num_cores);

/*
 * Core mode Single on these local cores. Whether the device has them is checked
 * by launch.
 * core_ids: different ones, no global core; copied. num_core_ids 0: all local
 * cores of the device.
 * QBRT_INVALID_ARGUMENT: rejected, nothing changes.
 * Threads: one per object. Since: 0.1. Source: qbruntime
 * ModelConfig.set_single_core_mode.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_config_set_single_core_ids(struct qbrt_model_config *config,
				      const struct qbrt_core_id *core_ids,
				      size_t num_core_ids);

/*
 * Core mode Multi (or Global4) on these clusters.
 * clusters: different ones; copied. num_clusters 0: all of the device.
 * QBRT_INVALID_ARGUMENT: rejected, nothing changes.
 * Threads: one per object. Since: 0.1. Source: qbruntime
 * ModelConfig.set_multi_core_mode, set_global4_core_mode.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_config_set_multi_core_mode(struct qbrt_model_config *config,
				      const enum qbrt_cluster *clusters,
				      size_t num_clusters);
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_config_set_global4_core_mode(struct qbrt_model_config *config,
					const enum qbrt_cluster *clusters,
					size_t num_clusters);

/*
 * Core mode Global8, on all cores.
 * Threads: one per object. Since: 0.1. Source: qbruntime
 * ModelConfig.set_global8_core_mode.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_config_set_global8_core_mode(struct qbrt_model_config *config);

/*
 * Runs one bundle of the file alone. Files of qbcompile have one, so that 0 is
 * the whole model; load refuses a larger index.
 * index: -1: none forced.
 * QBRT_INVALID_ARGUMENT: below -1; nothing changes.
 * Threads: one per object. Since: 0.1. Source: qbruntime
 * ModelConfig.force_single_npu_bundle.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_config_set_forced_npu_bundle(struct qbrt_model_config *config,
					int index);

/*
 * Whether the model may be run asynchronously on host arrays.
 * Threads: one per object. Since: 0.1. Source: qbruntime
 * ModelConfig.set_async_pipeline_enabled.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_config_set_async_pipeline(struct qbrt_model_config *config,
				     bool is_enabled);

/*
 * How many inferences of the launched model may run at once; the file may bound
 * it further.
 * count: 1 to 64.
 * QBRT_INVALID_ARGUMENT: rejected, nothing changes.
 * Threads: one per object. Since: 0.1. Source: qbruntime
 * ModelConfig.set_activation_slots.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_config_set_activation_slots(struct qbrt_model_config *config,
				       size_t count);

/*
 * What has been set. num_cores: the count or the list's length, 0: all, or no
 * matter of the mode. forced_npu_bundle: -1: none. activation_slots: 0: the
 * default, which depends on the device (see qbrt_model_get_activation_slots).
 * Threads: one per object. Since: 0.1. Source: getters of qbruntime
 * ModelConfig.
 */
enum qbrt_core_mode
qbrt_model_config_get_core_mode(const struct qbrt_model_config *config);
enum qbrt_core_policy
qbrt_model_config_get_core_policy(const struct qbrt_model_config *config);
size_t qbrt_model_config_get_num_cores(const struct qbrt_model_config *config);
int qbrt_model_config_get_forced_npu_bundle(
	const struct qbrt_model_config *config);
bool qbrt_model_config_get_async_pipeline(
	const struct qbrt_model_config *config);
size_t
qbrt_model_config_get_activation_slots(const struct qbrt_model_config *config);

/*
 * The list that has been set, in its order; borrowed, until the next call that
 * sets something.
 * num_core_ids, num_clusters: 0 where no list was set; may be NULL.
 * Threads: one per object. Since: 0.1. Source: qbruntime
 * ModelConfig.get_core_ids, getClusters.
 */
const struct qbrt_core_id *
qbrt_model_config_get_core_ids(const struct qbrt_model_config *config,
			       size_t *num_core_ids);
const enum qbrt_cluster *
qbrt_model_config_get_clusters(const struct qbrt_model_config *config,
			       size_t *num_clusters);

/* Model */

/*
 * Reads and checks a model file, without a device; getters work from then on,
 * and the file is not read again.
 * path: a compiled model, recognised by content. config: copied; NULL: the
 * defaults.
 * QBRT_MODEL_FAILED_TO_LOAD_MXQ: cannot be opened, or is no such file;
 * QBRT_MODEL_BROKEN_MXQ: damaged; QBRT_MODEL_FORMAT_TOO_NEW: needs a newer
 * library; QBRT_MODEL_PROGRAM_REJECTED: a program breaks a rule;
 * QBRT_MODEL_MXQ_AND_MODEL_CONFIG_NOT_MATCH: the file lacks the configuration's
 * core mode, or has several where it says Auto; QBRT_INVALID_ARGUMENT: it forces
 * a bundle that the file lacks.
 * The caller owns *model and frees it with qbrt_model_free.
 * Threads: any. Since: 0.1. Source: qbruntime Model(path, model_config).
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_load(const char *path, const struct qbrt_model_config *config,
		struct qbrt_model **model);

/*
 * As qbrt_model_load, from an open file.
 * fd: a regular file, read from its beginning whatever its offset; borrowed
 * for the call. config and statuses as qbrt_model_load's.
 * The caller owns *model and frees it with qbrt_model_free.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_load_fd(int fd, const struct qbrt_model_config *config,
		   struct qbrt_model **model);

/*
 * Disposes and frees a model.
 * model: NULL is nothing to do.
 * Threads: last use. Since: 0.1.
 */
void qbrt_model_free(struct qbrt_model *model);

/*
 * Puts the model on a device: weights, programs and scratch.
 * acc: may be closed any time later.
 * QBRT_MODEL_ALREADY_LAUNCHED: dispose it first; QBRT_BAD_ALLOC: the device
 * lacks memory, nothing stays and a later launch may succeed;
 * QBRT_MODEL_IS_NOT_SUPPORTED_HARDWARE: compiled for another device, or the
 * device lacks an instruction; QBRT_MODEL_NO_GLOBAL_CORE_WITH_GLOBAL_MULTI_MODE:
 * it lacks the core mode; QBRT_MODEL_NO_TARGET_CORES: it lacks cores that the
 * configuration asks for; QBRT_NOT_IMPLEMENTED: the model keeps state;
 * QBRT_FORKED_PROCESS: model was launched before fork (load it anew), or acc
 * was opened before.
 * After a dispose it waits until jobs of the earlier launch have ended, and
 * calls that are inside have returned: not to be called by an interrupt
 * function. QBRT_INTERRUPTED: it was to stop waiting; nothing was launched.
 * Threads: any. Since: 0.1. Source: qbruntime Model.launch.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_launch(struct qbrt_model *model, struct qbrt_accelerator *acc);

/*
 * Takes the model off its device; the model may be launched again.
 * model: NULL or not launched is nothing to do. Inferences that wait for a
 * slot return QBRT_MODEL_NOT_ALIVE, queued ones that have not begun end with
 * QBRT_MODEL_ASYNC_PIPELINE_NOT_ALIVE. A running one is told to stop: at its
 * next check it ends with QBRT_MODEL_NOT_ALIVE and its outputs are invalid;
 * one that is complete keeps its result. The device's memory comes back with the
 * last of them; the call waits, for at most 100 ms, for those calls alone that
 * have begun on other threads, since one of them may be on its way to the device.
 * QBRT_FORKED_PROCESS: launched before fork.
 * Threads: any. Since: 0.1. Source: qbruntime Model.dispose.
 */
QBRT_MUST_CHECK enum qbrt_status qbrt_model_dispose(struct qbrt_model *model);

/*
 * The path as given to qbrt_model_load, "" of a descriptor; borrowed, as long
 * as the model.
 * Threads: any. Since: 0.1. Source: qbruntime Model.get_model_path.
 */
const char *qbrt_model_get_path(const struct qbrt_model *model);

/*
 * 0, 1, 2, ... in the order of loading in this process, never reused.
 * Threads: any. Since: 0.1. Source: qbruntime Model.get_identifier.
 */
uint32_t qbrt_model_get_identifier(const struct qbrt_model *model);

/*
 * What the file says, in words for people: format, compiler, target, core
 * modes, metadata, then variants with their inputs and outputs (type, shape,
 * source tensor, whether the model normalises it, scale), and caches. UTF-8,
 * lines that end in \n, no other control characters; the words and their order
 * may change. Written when first asked for; NULL: no memory for it. Borrowed,
 * as long as the model. Needs no device.
 * Threads: any. Since: 0.1. Source: qbruntime Model.get_model_summary.
 */
const char *qbrt_model_get_summary(const struct qbrt_model *model);

/*
 * Bytes of device memory that a launch takes: of the running launch, else of
 * one on the cores that the configuration asks for, of the file's target (a
 * file for any device: of one with 8 cores).
 * Threads: any. Since: 0.1.
 */
uint64_t qbrt_model_get_memory_estimate(const struct qbrt_model *model);

/*
 * Numbers from the file: variants (>= 1), inputs and outputs of variant 0,
 * layers of the KV cache (0: none).
 * Threads: any. Since: 0.1. Source: qbruntime Model.get_num_model_variants.
 */
size_t qbrt_model_get_num_variants(const struct qbrt_model *model);
size_t qbrt_model_get_num_inputs(const struct qbrt_model *model);
size_t qbrt_model_get_num_outputs(const struct qbrt_model *model);
size_t qbrt_model_get_num_cache_layers(const struct qbrt_model *model);

/*
 * Core modes that the file carries: bit m for enum qbrt_core_mode m.
 * Threads: any. Since: 0.1.
 */
uint32_t qbrt_model_get_core_modes(const struct qbrt_model *model);

/*
 * The core mode that a launch uses.
 * Threads: any. Since: 0.1. Source: qbruntime Model.get_core_mode.
 */
enum qbrt_core_mode qbrt_model_get_core_mode(const struct qbrt_model *model);

/*
 * How many inferences of the launched model may run at once; 0: not launched.
 * Threads: any. Since: 0.1.
 */
size_t qbrt_model_get_activation_slots(const struct qbrt_model *model);

/*
 * Sums over all jobs since load, which are not quite inferences: a batch of
 * arrays has one per up to 16 items, and what was refused has none. One call may
 * see one job half counted.
 * counters: size is set by the caller. Of a NULL model all is 0.
 * Threads: any. Since: 0.1.
 */
void qbrt_model_get_counters(const struct qbrt_model *model,
			     struct qbrt_model_counters *counters);

/*
 * Whether qbrt_model_query_target_cores lists that core.
 * core_id: a single core, local or global.
 * Threads: any. Since: 0.1. Source: qbruntime Model.is_target.
 */
bool qbrt_model_is_target(const struct qbrt_model *model,
			  struct qbrt_core_id core_id);

/*
 * The cores of the launched model; before a launch those that its configuration
 * lists, none if it leaves the choice to launch. Local cores by cluster and
 * core, then the global cores where the mode has them.
 * cores: room for max_cores; may be NULL with 0, to ask for the number alone.
 * num_cores: how many there are; at most max_cores are written.
 * Threads: any. Since: 0.1. Source: qbruntime Model.get_target_cores.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_query_target_cores(const struct qbrt_model *model,
			      struct qbrt_core_id *cores, size_t max_cores,
			      size_t *num_cores);

/*
 * Describes one input (or output) of a variant.
 * info: size is set by the caller; the name is borrowed, as long as the model.
 * QBRT_MODEL_INVALID_VARIANT_IDX; QBRT_INVALID_ARGUMENT: no such index.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_query_input(const struct qbrt_model *model, size_t variant,
		       size_t index, struct qbrt_io_info *info);
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_query_output(const struct qbrt_model *model, size_t variant,
			size_t index, struct qbrt_io_info *info);

/*
 * Quantisation of one input (or output) of a variant.
 * info: size is set by the caller; scales are borrowed, as long as the model.
 * Statuses as qbrt_model_query_input's.
 * Threads: any. Since: 0.1. Source: qbruntime Model.get_input_scale,
 * get_output_scale.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_query_input_scale(const struct qbrt_model *model, size_t variant,
			     size_t index, struct qbrt_scale_info *info);
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_query_output_scale(const struct qbrt_model *model, size_t variant,
			      size_t index, struct qbrt_scale_info *info);

/*
 * Extents of one input (or output) of a variant.
 * info: size is set by the caller.
 * Statuses as qbrt_model_query_input's.
 * Threads: any. Since: 0.1. Source: qbruntime Model.get_input_buffer_info,
 * get_output_buffer_info.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_query_input_buffer(const struct qbrt_model *model, size_t variant,
			      size_t index, struct qbrt_buffer_info *info);
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_query_output_buffer(const struct qbrt_model *model, size_t variant,
			       size_t index, struct qbrt_buffer_info *info);

/*
 * Describes one layer of the KV cache.
 * layer: below qbrt_model_get_num_cache_layers.
 * info: size is set by the caller; strings are borrowed, as long as the model.
 * QBRT_MODEL_NO_CACHE: the model has none; QBRT_INVALID_ARGUMENT: no such
 * layer.
 * Threads: any. Since: 0.1. Source: qbruntime Model.get_cache_infos.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_query_cache(const struct qbrt_model *model, size_t layer,
		       struct qbrt_cache_info *info);

/*
 * Allocates the pinned memory that variant 0's input (or output) takes at its
 * largest, on the device of the launched model.
 * QBRT_MODEL_NOT_LAUNCHED, QBRT_MODEL_NOT_ALIVE: launch first;
 * QBRT_FORKED_PROCESS: launched before fork; else as
 * qbrt_pinned_memory_alloc.
 * The caller owns *mem and frees it with qbrt_pinned_memory_free.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_alloc_input(struct qbrt_model *model, size_t index,
		       struct qbrt_pinned_memory **mem);
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_alloc_output(struct qbrt_model *model, size_t index,
			struct qbrt_pinned_memory **mem);

/* Inference */

/*
 * Runs the launched model on pinned memory, without a copy, and returns when
 * the outputs are written.
 * options: NULL = defaults; flags takes QBRT_INFER_BLOCKING. inputs, outputs:
 * one per tensor of the first variant that fits, of the pinned data type and
 * of the model's shape in HWC order, or that with a leading axis of 1; borrowed
 * for the call. An input may be given to many calls at once; what another job
 * is still to write into it is waited for.
 * QBRT_MODEL_NOT_LAUNCHED, QBRT_MODEL_NOT_ALIVE (disposed);
 * QBRT_FORKED_PROCESS: launched, or a buffer allocated, before fork;
 * QBRT_MODEL_INPUT_COUNT_MISMATCHED, QBRT_MODEL_OUTPUT_COUNT_MISMATCHED,
 * QBRT_MODEL_SHAPE_MISMATCHED, QBRT_MODEL_DTYPE_MISMATCHED;
 * QBRT_INVALID_ARGUMENT: also a buffer that lies as the model cannot take it;
 * QBRT_PINNED_MEMORY_WRONG_ACCELERATOR: a buffer of another device;
 * QBRT_PINNED_MEMORY_ALIASED: an output is also another buffer;
 * QBRT_PINNED_MEMORY_IN_USE: an output is in use by another job or a call of
 * the host, or belongs to a future that was not taken; a buffer is open for
 * access by the CPU;
 * QBRT_STREAM_FAILED: the job that writes an input failed;
 * QBRT_TENSOR_INVALID: an input holds a failed job's output;
 * QBRT_MODEL_TASK_QUEUE_TIMEOUT: an input was written too long, or no slot
 * came free in time; nothing ran, the outputs are unchanged;
 * QBRT_ACC_NPU_TIMEOUT, QBRT_MODEL_PREDICT_ERROR, QBRT_ACC_DEVICE_LOST: the
 * job failed and its outputs are invalid until they are rewritten whole; where
 * the sentence says that nothing ran, they are unchanged;
 * QBRT_INTERRUPTED: qbrt_set_interrupt_function().
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status qbrt_model_infer_pinned_memory(
	struct qbrt_model *model, const struct qbrt_infer_options *options,
	struct qbrt_pinned_memory *const inputs[], size_t num_inputs,
	struct qbrt_pinned_memory *const outputs[], size_t num_outputs);

/*
 * The same without waiting: checks everything, queues the job, and returns. As
 * many run at once as the model has activation slots, 64 more may wait; then
 * the call waits for the oldest.
 * options: NULL = defaults; flags takes QBRT_INFER_TRY, and QBRT_INFER_BLOCKING
 * for waits for its future. inputs, outputs: as
 * qbrt_model_infer_pinned_memory(); the handles are borrowed for the call, the
 * memory is kept by the future. Inputs stay unchanged until the job has ended;
 * outputs may be read then, and belong to the future until it is taken or
 * freed: no other job may write them. future: the caller's, qbrt_future_free().
 * Statuses as there, of the call alone: those of the job are the future's. Also
 * QBRT_WOULD_BLOCK: with QBRT_INFER_TRY, instead of waiting;
 * QBRT_MODEL_TASK_QUEUE_TIMEOUT: no room, or an input was written, until the
 * time limit; QBRT_ACC_NPU_TIMEOUT: the limit had passed when the driver was to
 * take the job; QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY: no memory, or no
 * thread for the device. Nothing was submitted then.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status qbrt_model_submit_pinned_memory(
	struct qbrt_model *model, const struct qbrt_infer_options *options,
	struct qbrt_pinned_memory *const inputs[], size_t num_inputs,
	struct qbrt_pinned_memory *const outputs[], size_t num_outputs,
	struct qbrt_future **future);

/*
 * Runs the launched model on arrays of the caller, of any strides, and returns
 * when the outputs are written.
 * options: NULL = defaults; flags takes QBRT_INFER_BLOCKING, _HWC, _CHW and
 * _TO_FLOAT; timeout is for all of a batch, the default for each of its jobs
 * of 16 items or fewer. inputs: one per tensor of the
 * first variant that fits, each of a data type that qbrt_model_query_input
 * tells (dtype, or pinned_dtype as it is stored) and of the model's shape, an
 * image in HWC order or all images in CHW order; or that with a leading axis of
 * N, for N inferences, which run on the model's cores together. outputs: of the
 * shapes that qbrt_model_query_match_output tells, in the inputs' order of
 * axes; the type of each says what is wanted: float32 outputs of a quantised
 * model are de-quantised, int8 and uint8 ones are as stored. All are borrowed
 * for the call; inputs are only read. Outputs share no byte with each other or
 * with an input, from the first to the last one of each. An array that lies in
 * pinned memory of the model's device, in the type and order of the device, is
 * used there: nothing of it is copied, and an input that a job writes is waited
 * for. Where that memory is in use otherwise it is copied as any other.
 * QBRT_INVALID_ARGUMENT: an array without data, of no known type, or with
 * strides that leave the address space or fold an output onto itself;
 * QBRT_MODEL_NOT_LAUNCHED, QBRT_MODEL_NOT_ALIVE (disposed),
 * QBRT_FORKED_PROCESS; QBRT_MODEL_INPUT_COUNT_MISMATCHED,
 * QBRT_MODEL_OUTPUT_COUNT_MISMATCHED, QBRT_MODEL_SHAPE_MISMATCHED,
 * QBRT_MODEL_DTYPE_MISMATCHED: of an input it is also logged, at Err level,
 * as in the vendor's runtime; QBRT_NOT_IMPLEMENTED: a conversion between
 * types; QBRT_PINNED_MEMORY_ALIASED: outputs overlap; QBRT_TENSOR_INVALID: an
 * input is pinned memory that a failed job left; statuses of
 * qbrt_pinned_memory_alloc, for the staging that a first call makes;
 * QBRT_MODEL_TASK_QUEUE_TIMEOUT, QBRT_ACC_NPU_TIMEOUT,
 * QBRT_MODEL_PREDICT_ERROR, QBRT_ACC_DEVICE_LOST: the job failed; of a batch
 * the sentence names the item. After a failure the outputs are as they were,
 * or, when a batch ended in the middle or they lie in pinned memory, all zeros.
 * Threads: any. Since: 0.1. Source: Model.infer of the vendor's runtime.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_infer(struct qbrt_model *model,
		 const struct qbrt_infer_options *options,
		 const struct qbrt_array *inputs, size_t num_inputs,
		 const struct qbrt_array *outputs, size_t num_outputs);

/*
 * The same without waiting, for one inference: copies the inputs, queues the
 * job, and returns. The model was loaded with
 * qbrt_model_config_set_async_pipeline(). As many run at once as the model has
 * activation slots, 64 more may wait; then the call waits for the oldest.
 * options: NULL = defaults; flags takes QBRT_INFER_TRY, _BLOCKING, _HWC, _CHW
 * and _TO_FLOAT. inputs: as qbrt_model_infer's without a batch, or with one of 1;
 * borrowed for the call. future: the caller's, qbrt_future_free();
 * qbrt_future_query_result() takes the outputs.
 * QBRT_MODEL_ASYNC_PIPELINE_CHECK_FAILED: loaded without it, or the model keeps
 * state; QBRT_WOULD_BLOCK: with QBRT_INFER_TRY, instead of waiting;
 * QBRT_MODEL_TASK_QUEUE_TIMEOUT: no room until the time limit;
 * QBRT_ACC_NPU_TIMEOUT: the limit had passed when the driver was to take the
 * job; those of qbrt_model_infer's inputs and staging. Nothing was submitted
 * then.
 * Threads: any. Since: 0.1. Source: Model.infer_async of the vendor's runtime.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_submit(struct qbrt_model *model,
		  const struct qbrt_infer_options *options,
		  const struct qbrt_array *inputs, size_t num_inputs,
		  struct qbrt_future **future);

/*
 * Runs a variant of the launched model once, at its largest shapes, on dummy
 * data, to be timed: no array, no copy.
 * QBRT_MODEL_INVALID_VARIANT_IDX; else as qbrt_model_infer.
 * Threads: any. Since: 0.1. Source: infer_speedrun of the vendor's runtime.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_infer_speedrun(struct qbrt_model *model, size_t variant);

/*
 * How qbrt_model_infer would take these inputs; the model need not be launched.
 * options, inputs: as there. match: its size is set by the caller; of an order
 * of axes that makes no difference layout is HWC.
 * Statuses of the inputs as qbrt_model_infer's.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_query_match(const struct qbrt_model *model,
		       const struct qbrt_infer_options *options,
		       const struct qbrt_array *inputs, size_t num_inputs,
		       struct qbrt_match *match);

/*
 * The output that qbrt_model_infer gives for these inputs: shape with its batch
 * axis, order of axes and variable axes resolved, and equal max_shape; dtype as
 * the inputs' types ask for: int8 ones give int8 as stored, others what the
 * model declares, QBRT_INFER_TO_FLOAT float32.
 * index: of the output. info: its size is set by the caller.
 * QBRT_INVALID_ARGUMENT: there is no such output. Else as
 * qbrt_model_query_match.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_model_query_match_output(const struct qbrt_model *model,
			      const struct qbrt_infer_options *options,
			      const struct qbrt_array *inputs,
			      size_t num_inputs, size_t index,
			      struct qbrt_io_info *info);

/* Future */

/*
 * Waits until the job has ended, well or not.
 * timeout: ns; 0 polls, negative: without a limit.
 * QBRT_TIMED_OUT: the job goes on; QBRT_INTERRUPTED;
 * QBRT_FUTURE_NOT_VALID: the result has been taken; QBRT_FORKED_PROCESS.
 * Threads: any. Since: 0.1. Source: Future.wait_for of the vendor's runtime.
 */
QBRT_MUST_CHECK enum qbrt_status qbrt_future_wait(struct qbrt_future *future,
						  int64_t timeout);

/*
 * Whether the job has ended, well or not; waits for nothing. done: required.
 * QBRT_FORKED_PROCESS.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_future_query(const struct qbrt_future *future, bool *done);

/*
 * What output index of the job is, its shape resolved. info: its size is set by
 * the caller; name lives as long as the future.
 * QBRT_INVALID_ARGUMENT: no such output; QBRT_FORKED_PROCESS.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_future_query_output(const struct qbrt_future *future, size_t index,
			 struct qbrt_io_info *info);

/*
 * Waits for the job without a limit and takes its result, once: the job's own
 * status. Afterwards its outputs are no longer the future's.
 * outputs: NULL and 0 of a job on pinned memory, whose outputs lie there; else
 * one per output, of the shape that qbrt_future_query_output() tells, as
 * qbrt_model_infer's; borrowed for the call.
 * QBRT_FUTURE_NOT_VALID: it has been taken before; what the job ended with;
 * QBRT_INTERRUPTED, QBRT_MODEL_OUTPUT_COUNT_MISMATCHED,
 * QBRT_MODEL_SHAPE_MISMATCHED, QBRT_MODEL_DTYPE_MISMATCHED,
 * QBRT_PINNED_MEMORY_ALIASED: nothing was taken; QBRT_FORKED_PROCESS.
 * Threads: any; of several at once one has the result. Since: 0.1. Source:
 * Future.get of the vendor's runtime.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_future_query_result(struct qbrt_future *future,
			 const struct qbrt_array *outputs, size_t num_outputs);

/*
 * How the job ended: QBRT_OK also while it has not. Takes nothing.
 * Threads: any. Since: 0.1.
 */
enum qbrt_status qbrt_future_get_status(const struct qbrt_future *future);

/*
 * The sentence to that, "" with QBRT_OK; as long as the future.
 * Threads: any. Since: 0.1.
 */
const char *qbrt_future_get_detail(const struct qbrt_future *future);

/*
 * Has the job end: at once if it has not begun, else at its next check. A job
 * that ended by it has QBRT_CANCELLED, and its outputs are invalid. One that
 * has ended stays as it is.
 * cancelled: may be NULL; whether it had not begun.
 * QBRT_FORKED_PROCESS.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status qbrt_future_cancel(struct qbrt_future *future,
						    bool *cancelled);

/*
 * Has function called once with arg when the job has ended, on a thread of the
 * library's, one after another of a device, or at once on this one if it has. A
 * future that is freed before calls nothing.
 * QBRT_INVALID_ARGUMENT: function is NULL, or there is a callback already;
 * QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY: no thread; QBRT_FORKED_PROCESS.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_future_set_callback(struct qbrt_future *future,
			 qbrt_future_function function, void *arg);

/*
 * A new eventfd that becomes readable when the job has ended, for poll and its
 * like; closed on exec, does not block. fd: the caller's, who closes it. Of a
 * job that was cancelled, or reached its time limit, before its turn in its
 * queue it becomes readable when the jobs before it have ended; a new one, and
 * all other ways to ask, tell it at once.
 * QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY: no descriptor left;
 * QBRT_NOT_IMPLEMENTED: the driver offers none; QBRT_FORKED_PROCESS.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_future_export_fd(struct qbrt_future *future, int *fd);

/*
 * Ends the handle; NULL is fine. The job goes on if it has not ended; its
 * outputs are no longer the future's. A callback that runs sees it to its end.
 * Threads: last use, but for the callback. Since: 0.1.
 */
void qbrt_future_free(struct qbrt_future *future);

/* Tensors: memory as array libraries exchange it, by DLPack */

/*
 * A tensor is a view of a storage: shape, strides, dtype, device, and whether
 * it may be written through. What it says never changes. The storage (pinned
 * memory, or memory of others with their release) lives until the last view,
 * export and queued job of it has ended; so handles may be freed in any order.
 * Source: Tensor of holoscan.payload; DLPack 1.3.
 */

/*
 * Makes a tensor of all of mem. flags: QBRT_TENSOR_FLAG_READ_ONLY; memory that
 * is read-only makes a read-only tensor without it.
 * QBRT_INVALID_ARGUMENT; QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY: no memory
 * for the handle; QBRT_FORKED_PROCESS.
 * Ownership: tensor is the caller's, for qbrt_tensor_free; it keeps the memory,
 * not mem.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_tensor_from_pinned_memory(struct qbrt_pinned_memory *mem, uint32_t flags,
			       struct qbrt_tensor **tensor);

/*
 * Makes a read-only tensor of a DLPack struct, without a copy. Taken are device
 * types CPU and CUDAHost, at most 64 axes, extents of 0 too, strides of any sign
 * (NULL: C order), every dtype of DLPack 1.3 but opaque handles, of which
 * elements below a byte only padded or filling bytes. Memory inside a storage of
 * this library becomes a view of that storage. options: NULL for the defaults;
 * flag QBRT_TENSOR_DEFER_RELEASE has the deleter run in qbrt_bridge_drain alone,
 * else on the thread that ends the last use, which may be one of the library's.
 * QBRT_TENSOR_REFUSED: the struct, with what was expected in its place; of a
 * foreign major version nothing beyond flags is read.
 * QBRT_BRIDGE_NO_DRIVER: memory of CUDA. QBRT_INVALID_ARGUMENT;
 * QBRT_NOT_IMPLEMENTED: options; QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY.
 * Ownership: managed is taken when it succeeds, and stays the caller's when not;
 * tensor is the caller's. Of a recognised storage the deleter runs in the call.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_tensor_import_dlpack(struct DLManagedTensorVersioned *managed,
			  const struct qbrt_tensor_import_options *options,
			  struct qbrt_tensor **tensor);

/*
 * The same of a struct without a version.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status qbrt_tensor_import_dlpack_legacy(
	struct DLManagedTensor *managed,
	const struct qbrt_tensor_import_options *options,
	struct qbrt_tensor **tensor);

/*
 * The same of memory that desc describes. release: called with arg when the
 * memory is no longer used; may be NULL.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_tensor_import_memory(const struct qbrt_tensor_desc *desc,
			  qbrt_release_function release, void *arg,
			  const struct qbrt_tensor_import_options *options,
			  struct qbrt_tensor **tensor);

/*
 * Makes a DLPack struct of version 1.3: byte_offset 0, strides always there,
 * read-only, copied and padded as its flags say. Waits for the jobs that write
 * the memory. options: NULL for the defaults; device: type 0 or the tensor's own
 * for no copy, (1, 0) for a copy of what lies elsewhere; copy: of a tensor that
 * is exported as it is QBRT_COPY_ALWAYS makes a writable one in C order, and
 * QBRT_COPY_NEVER refuses another device. QBRT_TENSOR_NO_ORDER orders nothing
 * where the host has no part; of memory of the host it changes nothing.
 * QBRT_TENSOR_REFUSED: a device out of reach, copy, or a stride that is no
 * multiple of the element. QBRT_TENSOR_INVALID: a failed job left the memory
 * half written. QBRT_INVALID_ARGUMENT; QBRT_NOT_IMPLEMENTED: options;
 * QBRT_INTERRUPTED; QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY;
 * QBRT_FORKED_PROCESS.
 * Ownership: managed is the caller's, who calls its deleter once, on any thread;
 * it outlives the tensor and the device's handles.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_tensor_export_dlpack(const struct qbrt_tensor *tensor,
			  const struct qbrt_tensor_export_options *options,
			  struct DLManagedTensorVersioned **managed);

/*
 * The same of a struct without a version, which cannot say read-only or padded.
 * QBRT_TENSOR_READ_ONLY: the tensor is read-only, whatever copy is.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status qbrt_tensor_export_dlpack_legacy(
	const struct qbrt_tensor *tensor,
	const struct qbrt_tensor_export_options *options,
	struct DLManagedTensor **managed);

/*
 * Fills a DLTensor, 48 bytes at dl_tensor, whose pointers live as long as the
 * tensor. Waits as an export does.
 * QBRT_TENSOR_READ_ONLY: a DLTensor cannot say so; QBRT_TENSOR_REFUSED,
 * QBRT_TENSOR_INVALID, QBRT_INTERRUPTED, QBRT_FORKED_PROCESS: as an export;
 * QBRT_INVALID_ARGUMENT.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_tensor_borrow_dlpack(const struct qbrt_tensor *tensor, void *dl_tensor);

/*
 * Copies the elements into new memory in C order: pinned memory of the same
 * device, or memory of the host aligned to 64 bytes; copy is writable. Waits for
 * the jobs that write the source. stream: NULL; no other is offered in 0.1.
 * QBRT_TENSOR_INVALID; QBRT_INVALID_ARGUMENT; QBRT_NOT_IMPLEMENTED: stream;
 * QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY, QBRT_BAD_ALLOC: no memory;
 * QBRT_INTERRUPTED; QBRT_FORKED_PROCESS.
 * Ownership: copy is the caller's, for qbrt_tensor_free.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_tensor_copy(const struct qbrt_tensor *tensor, struct qbrt_stream *stream,
		 struct qbrt_tensor **copy);

/*
 * Whether no job writes the memory any more; never waits.
 * QBRT_INVALID_ARGUMENT; QBRT_FORKED_PROCESS.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_tensor_query(const struct qbrt_tensor *tensor, bool *ready);

/*
 * Waits until no job writes the memory. timeout: ns, negative for no limit.
 * QBRT_TIMED_OUT: the job goes on; QBRT_INTERRUPTED; QBRT_TENSOR_INVALID: the
 * job failed; QBRT_INVALID_ARGUMENT; QBRT_FORKED_PROCESS.
 * Threads: any. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status
qbrt_tensor_wait(const struct qbrt_tensor *tensor, int64_t timeout);

/*
 * The data pointer as it was imported; of memory of ours the first element.
 * NULL: of NULL, or no elements.
 * Ownership: borrowed, as long as the tensor.
 * Threads: any. Since: 0.1.
 */
void *qbrt_tensor_get_data(const struct qbrt_tensor *tensor);

/*
 * Bytes from data to the first element.
 * Threads: any. Since: 0.1.
 */
uint64_t qbrt_tensor_get_byte_offset(const struct qbrt_tensor *tensor);

/*
 * data + byte_offset. Of NULL: NULL.
 * Threads: any. Since: 0.1.
 */
void *qbrt_tensor_get_first_element(const struct qbrt_tensor *tensor);

/*
 * The dtype by our names; QBRT_DTYPE_ERROR: of NULL, or one without a name.
 * Threads: any. Since: 0.1.
 */
enum qbrt_dtype qbrt_tensor_get_dtype(const struct qbrt_tensor *tensor);

/*
 * The dtype and the device by DLPack's numbers; zeros of NULL.
 * Threads: any. Since: 0.1.
 */
struct qbrt_dlpack_dtype
qbrt_tensor_get_dlpack_dtype(const struct qbrt_tensor *tensor);
struct qbrt_dlpack_device
qbrt_tensor_get_dlpack_device(const struct qbrt_tensor *tensor);

/*
 * Number of axes, 0 to 64; extents, 0 or more; bytes between elements along each
 * axis, of any sign. Of NULL: 0, NULL.
 * Ownership: borrowed, as long as the tensor.
 * Threads: any. Since: 0.1.
 */
size_t qbrt_tensor_get_ndim(const struct qbrt_tensor *tensor);
const int64_t *qbrt_tensor_get_shape(const struct qbrt_tensor *tensor);
const int64_t *qbrt_tensor_get_strides(const struct qbrt_tensor *tensor);

/*
 * Bytes of an element, (bits * lanes + 7) / 8; the product of the extents, 1
 * without an axis; the product of both, whatever the strides. Of NULL: 0.
 * Threads: any. Since: 0.1.
 */
size_t qbrt_tensor_get_itemsize(const struct qbrt_tensor *tensor);
size_t qbrt_tensor_get_num_elements(const struct qbrt_tensor *tensor);
size_t qbrt_tensor_get_nbytes(const struct qbrt_tensor *tensor);

/*
 * Whether it may not be written through, for as long as it lives.
 * Threads: any. Since: 0.1.
 */
bool qbrt_tensor_is_read_only(const struct qbrt_tensor *tensor);

/*
 * Whether the elements lie dense in C order; extents of 1 do not matter.
 * Threads: any. Since: 0.1.
 */
bool qbrt_tensor_is_contiguous(const struct qbrt_tensor *tensor);

/*
 * The id of the device whose pinned memory it views; NULL of memory of others.
 * Threads: any. Since: 0.1.
 */
const char *qbrt_tensor_get_device(const struct qbrt_tensor *tensor);

/*
 * Ends the handle; NULL is fine. Of the last view of others' memory the release
 * runs before it returns, unless it was deferred.
 * Threads: last use. Since: 0.1.
 */
void qbrt_tensor_free(struct qbrt_tensor *tensor);

/*
 * Counters of the process into stats, whose size the caller has set. Does
 * nothing with NULL or a size below that of size.
 * Threads: any. Since: 0.1.
 */
void qbrt_bridge_get_stats(struct qbrt_bridge_stats *stats);

/*
 * Runs the deferred releases on this thread, also those that come meanwhile.
 * num_released: how many; may be NULL.
 * Threads: any; not from a release. Since: 0.1.
 */
QBRT_MUST_CHECK enum qbrt_status qbrt_bridge_drain(size_t *num_released);

#ifdef __cplusplus
}
#endif

#endif
