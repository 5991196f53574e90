/* SPDX-License-Identifier: MIT */
/*
 * The contract between libqbruntime and what drives an NPU: 12 requests and
 * their structs. Answered by the kernel module qbnpu.ko and, in process, by
 * the software driver. Rules for every request: docs/spec/kernel.md.
 *
 * Each request returns 0 or a negative errno. A failed request changed
 * nothing; "out" fields are written on success only, unless they say
 * otherwise. Flags and fields that are not defined here are 0. Pointers are
 * carried in __u64, times are nanoseconds of CLOCK_MONOTONIC, and no struct
 * has hidden padding on any 32- or 64-bit machine.
 */
#ifndef QBNPU_DRM_H
#define QBNPU_DRM_H

#ifdef __KERNEL__
#include <uapi/drm/drm.h>
#else
#include <drm.h>
#endif

#if defined(__cplusplus)
extern "C" {
#endif

#define DRM_QBNPU_NAME "qbnpu"
#define DRM_QBNPU_MAJOR 1
#define DRM_QBNPU_MINOR 0

#define DRM_QBNPU_QUERY 0x00
#define DRM_QBNPU_BO_CREATE 0x01
#define DRM_QBNPU_BO_INFO 0x02
#define DRM_QBNPU_BO_SYNC 0x03
#define DRM_QBNPU_PROGRAM_CREATE 0x04
#define DRM_QBNPU_PROGRAM_DESTROY 0x05
#define DRM_QBNPU_QUEUE_CREATE 0x06
#define DRM_QBNPU_QUEUE_DESTROY 0x07
#define DRM_QBNPU_SUBMIT 0x08
#define DRM_QBNPU_COPY 0x09
#define DRM_QBNPU_WAIT 0x0a
#define DRM_QBNPU_CANCEL 0x0b

/* Absent, where a field or an index may be. */
#define DRM_QBNPU_NONE 0xffffffffu
#define DRM_QBNPU_UNKNOWN 0xffffffffffffffffull

enum drm_qbnpu_query_type {
	DRM_QBNPU_QUERY_DEVICE = 0,
	DRM_QBNPU_QUERY_MEMORY = 1,
	DRM_QBNPU_QUERY_CORES = 2,
	DRM_QBNPU_QUERY_SENSORS = 3,
	DRM_QBNPU_QUERY_COUNTERS = 4,
	DRM_QBNPU_QUERY_FIRMWARE = 5,
	DRM_QBNPU_QUERY_EVENTS = 6,
};

/* drm_qbnpu_query.flags */
#define DRM_QBNPU_QUERY_CLIENT (1u << 0)

enum drm_qbnpu_kind {
	DRM_QBNPU_KIND_HARDWARE = 1,
	DRM_QBNPU_KIND_SOFTWARE = 2,
};

enum drm_qbnpu_profile {
	DRM_QBNPU_PROFILE_OTHER = 0,
	DRM_QBNPU_PROFILE_ARIES = 1,
	DRM_QBNPU_PROFILE_REGULUS = 2,
};

enum drm_qbnpu_mode {
	DRM_QBNPU_MODE_SINGLE = 0,
	DRM_QBNPU_MODE_MULTI = 1,
	DRM_QBNPU_MODE_GLOBAL4 = 3,
	DRM_QBNPU_MODE_GLOBAL8 = 4,
};

enum drm_qbnpu_device_state {
	DRM_QBNPU_STATE_READY = 0,
	DRM_QBNPU_STATE_RESETTING = 1,
	DRM_QBNPU_STATE_DEGRADED = 2,
	DRM_QBNPU_STATE_LOST = 3,
};

/* drm_qbnpu_query_device.features */
#define DRM_QBNPU_FEATURE_SYNCOBJ_TIMELINE (1ull << 0)
#define DRM_QBNPU_FEATURE_PROGRESS (1ull << 1)
#define DRM_QBNPU_FEATURE_DEVICE_TIME (1ull << 2)
#define DRM_QBNPU_FEATURE_SYNCOBJ_FD (1ull << 3)
#define DRM_QBNPU_FEATURE_SYNC_FILE (1ull << 4)
#define DRM_QBNPU_FEATURE_SYNCOBJ_EVENTFD (1ull << 5)
#define DRM_QBNPU_FEATURE_DMABUF_EXPORT (1ull << 6)
#define DRM_QBNPU_FEATURE_DMABUF_IMPORT (1ull << 7)
#define DRM_QBNPU_FEATURE_MEMFD (1ull << 8)
#define DRM_QBNPU_FEATURE_CONTIGUOUS_LOCAL (1ull << 9)
#define DRM_QBNPU_FEATURE_CONTIGUOUS_SYSTEM (1ull << 10)
#define DRM_QBNPU_FEATURE_COPY (1ull << 11)
#define DRM_QBNPU_FEATURE_FORCED_FAULTS (1ull << 12)

/* drm_qbnpu_query_device.memory_flags */
#define DRM_QBNPU_MEMORY_COHERENT (1u << 0)

enum drm_qbnpu_region {
	DRM_QBNPU_REGION_LOCAL = 0,
	DRM_QBNPU_REGION_SYSTEM = 1,
};

/* drm_qbnpu_query_memory.flags */
#define DRM_QBNPU_REGION_MAPPABLE (1u << 0)
#define DRM_QBNPU_REGION_CACHED (1u << 1)
#define DRM_QBNPU_REGION_LARGEST_KNOWN (1u << 2)

enum drm_qbnpu_contiguity {
	DRM_QBNPU_CONTIGUITY_NONE = 0,
	DRM_QBNPU_CONTIGUITY_LOCKED = 1,
	DRM_QBNPU_CONTIGUITY_HUGEPAGE = 2,
	DRM_QBNPU_CONTIGUITY_DRIVER = 3,
};

enum drm_qbnpu_core_kind {
	DRM_QBNPU_CORE_LOCAL = 0,
	DRM_QBNPU_CORE_GLOBAL = 1,
};

enum drm_qbnpu_core_state {
	DRM_QBNPU_CORE_IDLE = 0,
	DRM_QBNPU_CORE_BUSY = 1,
	DRM_QBNPU_CORE_STUCK = 2,
	DRM_QBNPU_CORE_OFF = 3,
};

/* drm_qbnpu_query_firmware.flags */
#define DRM_QBNPU_FIRMWARE_VERSION (1u << 0)
#define DRM_QBNPU_FIRMWARE_CRC (1u << 1)
#define DRM_QBNPU_FIRMWARE_SECURE (1u << 2)
#define DRM_QBNPU_FIRMWARE_HEARTBEAT (1u << 3)

/* drm_qbnpu_query_value.id of SENSORS; units in docs/spec/kernel.md, 2.2 */
enum drm_qbnpu_sensor {
	DRM_QBNPU_SENSOR_TEMPERATURE = 1,
	DRM_QBNPU_SENSOR_THROTTLE_TEMPERATURE = 2,
	DRM_QBNPU_SENSOR_SHUTDOWN_TEMPERATURE = 3,
	DRM_QBNPU_SENSOR_NPU_CLOCK = 4,
	DRM_QBNPU_SENSOR_NPU_CLOCK_MAX = 5,
	DRM_QBNPU_SENSOR_INTERCONNECT_CLOCK = 6,
	DRM_QBNPU_SENSOR_POWER = 7,
	DRM_QBNPU_SENSOR_POWER_LIMIT = 8,
	DRM_QBNPU_SENSOR_ENERGY = 9,
	DRM_QBNPU_SENSOR_VOLTAGE = 10,
	DRM_QBNPU_SENSOR_CURRENT = 11,
	DRM_QBNPU_SENSOR_FAN = 12,
	DRM_QBNPU_SENSOR_THROTTLING = 13,
};

/* drm_qbnpu_query_value.id of COUNTERS */
enum drm_qbnpu_counter {
	DRM_QBNPU_COUNTER_SUBMITTED = 1,
	DRM_QBNPU_COUNTER_COMPLETED = 2,
	DRM_QBNPU_COUNTER_FAILED = 3,
	DRM_QBNPU_COUNTER_CANCELLED = 4,
	DRM_QBNPU_COUNTER_TIMEOUTS = 5,
	DRM_QBNPU_COUNTER_QUEUE_RESETS = 6,
	DRM_QBNPU_COUNTER_CORE_RESETS = 7,
	DRM_QBNPU_COUNTER_DEVICE_RESETS = 8,
	DRM_QBNPU_COUNTER_PROGRAMS_CREATED = 9,
	DRM_QBNPU_COUNTER_PROGRAMS_REJECTED = 10,
	DRM_QBNPU_COUNTER_BYTES_READ = 11,
	DRM_QBNPU_COUNTER_BYTES_WRITTEN = 12,
	DRM_QBNPU_COUNTER_COPY_BYTES = 13,
	DRM_QBNPU_COUNTER_MACS = 14,
	DRM_QBNPU_COUNTER_BUSY_NS = 15,
	DRM_QBNPU_COUNTER_WAIT_NS = 16,
	DRM_QBNPU_COUNTER_INTERRUPTS = 17,
	DRM_QBNPU_COUNTER_DOORBELLS = 18,
	DRM_QBNPU_COUNTER_ECC_CORRECTED = 19,
	DRM_QBNPU_COUNTER_ECC_UNCORRECTED = 20,
	DRM_QBNPU_COUNTER_DMA_REFUSALS = 21,
	DRM_QBNPU_COUNTER_FALLBACKS = 22,
	DRM_QBNPU_COUNTER_DEVICE_LIES = 23,
	/* plus v: programs rejected by rule v of the validator */
	DRM_QBNPU_COUNTER_REJECTED_BY_RULE = 1000,
};

enum drm_qbnpu_event_kind {
	DRM_QBNPU_EVENT_ATTACH = 1,
	DRM_QBNPU_EVENT_DETACH = 2,
	DRM_QBNPU_EVENT_TIMEOUT = 3,
	DRM_QBNPU_EVENT_QUEUE_RESET = 4,
	DRM_QBNPU_EVENT_CORE_RESET = 5,
	DRM_QBNPU_EVENT_DEVICE_RESET = 6,
	DRM_QBNPU_EVENT_LOST = 7,
	DRM_QBNPU_EVENT_JOB_ERROR = 8,
	DRM_QBNPU_EVENT_ECC_CORRECTED = 9,
	DRM_QBNPU_EVENT_ECC_UNCORRECTED = 10,
	DRM_QBNPU_EVENT_THROTTLE_ON = 11,
	DRM_QBNPU_EVENT_THROTTLE_OFF = 12,
	DRM_QBNPU_EVENT_HEARTBEAT_MISSING = 13,
	DRM_QBNPU_EVENT_DEVICE_LIED = 14,
};

/* QUERY: facts, states and counters of the device. */
struct drm_qbnpu_query {
	__u32 type; /* in: enum drm_qbnpu_query_type */
	/*
	 * in: first element (array types), sequence number (EVENTS), region
	 * (MEMORY), else 0
	 */
	__u32 index;
	/* in: user pointer; 0 with size 0 asks for the size only */
	__u64 data;
	/* in: room in bytes; out: bytes that exist. min(in, out) are written */
	__u32 size;
	/* in: COUNTERS: bit 0 CLIENT (this file only); else 0 */
	__u32 flags;
};

/*
 * QUERY DEVICE: one of these. Features are looked at, never the minor version.
 */
struct drm_qbnpu_query_device {
	__u32 uapi_major;   /* out: 1 */
	__u32 uapi_minor;   /* out: 0; grows with every addition */
	__u64 features;     /* out: DRM_QBNPU_FEATURE_... */
	__u64 isa_features; /* out: QBNPU_FEATURE_... of isa.h */
	__u16 isa_major;    /* out */
	__u16 isa_minor;    /* out */
	__u32 kind;         /* out: 1 hardware, 2 software */
	__u32 profile;      /* out: 0 other, 1 aries, 2 regulus */
	__u32 revision;     /* out: silicon or model revision */
	__u32 clusters;     /* out */
	__u32 local_cores;  /* out: per cluster, <= 8 */
	__u32 global_cores; /* out: per cluster */
	/* out: bit per mode number: 0 Single, 1 Multi, 3 Global4, 4 Global8 */
	__u32 core_modes;
	/* out: local cores that exist: bit cluster * 8 + core */
	__u64 core_mask;
	__u32 max_bindings; /* out: 64 */
	__u32 max_syncs;    /* out: 64 per job */
	__u32 max_queues;   /* out: 256 per file */
	__u32 max_programs; /* out: 1,024 per file */
	__u32 max_jobs;     /* out: 256 not complete per queue */
	__u32 results_kept; /* out: 1,024 per queue */
	/*
	 * out: most urgent value this file may ask for (-2, or 0 without the
	 * right)
	 */
	__s32 priority_min;
	__s32 priority_max;     /* out: 0 */
	__u64 max_program_size; /* out: 2^24 */
	__u64 max_bo_size;      /* out: 2^34, whatever the regions hold */
	__u64 default_job_ns;   /* out: run limit used for deadline 0 */
	__u64 max_job_ns;       /* out: farthest deadline from now */
	__u32 page_size;        /* out: granularity of sizes and map offsets */
	/* out: bit 0: all CPU mappings are coherent (BO_SYNC costs nothing) */
	__u32 memory_flags;
	/* out: regions for the MEMORY type: 0 .. num_regions - 1 */
	__u32 num_regions;
	/* out: bytes of the progress page (16,384); 0 without the feature */
	__u32 progress_size;
	/*
	 * out: random, new at each attach: two reads that differ mean another
	 * device
	 */
	__u64 instance;
	char name[32];    /* out: UTF-8, NUL padded, e.g. aries-rb */
	char product[32]; /* out: empty if unknown */
	char serial[32];  /* out: empty if unknown */
	/* out: 0 ready, 1 resetting, 2 degraded (a core is off), 3 lost */
	__u32 state;
	__u32 reset_count; /* out: device-wide resets since attach */
};

/* QUERY MEMORY: one of these for the region named by index. */
struct drm_qbnpu_query_memory {
	__u32 region; /* out: 0 LOCAL, 1 SYSTEM */
	/*
	 * out: bit 0 CPU can map it; bit 1 CPU mappings are cached; bit 2
	 * largest_free is known
	 */
	__u32 flags;
	__u64 total; /* out: bytes; SYSTEM: the limit */
	__u64 free;  /* out */
	/*
	 * out: largest CONTIGUOUS buffer that would succeed now; 0 when
	 * unknown
	 */
	__u64 largest_free;
	__u64 client_used;  /* out: by this file, imports included */
	__u64 client_limit; /* out: of this file; 2^64 - 1 without limit */
	/*
	 * out: class that CONTIGUOUS yields here: 0 none, 1 locked, 2
	 * hugepage, 3 driver
	 */
	__u32 contiguity;
	__u32 align_log2_max; /* out: largest alignment offered (21) */
	__u64 buffers;        /* out: of this file in this region */
};

/*
 * QUERY CORES: an array, by cluster and core; global cores after the local ones.
 */
struct drm_qbnpu_query_core {
	__u32 cluster; /* out */
	__u32 core;    /* out: number in the cluster */
	__u32 kind;    /* out: 0 local, 1 global */
	/* out: 0 idle, 1 busy, 2 stuck (recovery under way), 3 off */
	__u32 state;
	__u64 busy_ns;  /* out: since attach; grows while a job runs */
	__u64 jobs;     /* out: job items completed */
	__u32 queued;   /* out: job items waiting */
	__u32 resets;   /* out */
	__u64 reserved; /* out: 0 */
};

/* QUERY SENSORS and COUNTERS: an array. What the device lacks is not in it. */
struct drm_qbnpu_query_value {
	__u32 id; /* out: sensor or counter */
	/* out: which one, if there are several (sensor place) */
	__u32 index;
	__s64 value; /* out */
};

/* QUERY FIRMWARE: one of these; -EOPNOTSUPP where nothing is known. */
struct drm_qbnpu_query_firmware {
	/*
	 * out: bit 0 version known, bit 1 crc known, bit 2 secure, bit 3
	 * heartbeat offered
	 */
	__u32 flags;
	__u32 crc; /* out */
	/* out: CLOCK_MONOTONIC time of the last sign of life */
	__s64 heartbeat_ns;
	char version[48]; /* out */
	char build[48];   /* out */
	/* out: of the firmware or device process; 0 unknown */
	__u64 uptime_ns;
	__u64 reserved; /* out: 0 */
};

/*
 * QUERY EVENTS: an array from the sequence number in index on; the last 256 are kept.
 */
struct drm_qbnpu_query_event {
	/*
	 * out: from 1, no gaps; a first seq above the one asked for says how
	 * many were lost
	 */
	__u64 seq;
	__s64 time_ns; /* out: CLOCK_MONOTONIC */
	/*
	 * out: 1 attach, 2 detach, 3 timeout, 4 queue reset, 5 core reset, 6
	 * device reset, 7 lost, 8 job error, 9 ecc corrected, 10 ecc
	 * uncorrected, 11 throttle on, 12 throttle off, 13 heartbeat missing,
	 * 14 device lied
	 */
	__u32 kind;
	__s32 status; /* out: -errno, 0 if none */
	__u32 queue;  /* out: queue if it belongs to this file, else 0 */
	__u32 core;   /* out: cluster * 8 + core, or 2^32 - 1 */
	__u64 arg
		[2]; /* out: kind's own: job number, rule that a lie broke; else 0 */
};

/* drm_qbnpu_bo_create.flags; bits 8 to 10 stand in drm_qbnpu_bo_info only */
#define DRM_QBNPU_BO_CONTIGUOUS (1u << 0)
#define DRM_QBNPU_BO_IMPORTED (1u << 8)
#define DRM_QBNPU_BO_EXPORTED (1u << 9)
#define DRM_QBNPU_BO_WEIGHTS (1u << 10)

/* drm_qbnpu_bo_sync.flags */
#define DRM_QBNPU_SYNC_BEGIN (1u << 0)
#define DRM_QBNPU_SYNC_END (1u << 1)
#define DRM_QBNPU_SYNC_READ (1u << 2)
#define DRM_QBNPU_SYNC_WRITE (1u << 3)

/*
 * BO_CREATE: memory that the device can reach. Zeroed before the handle exists.
 */
struct drm_qbnpu_bo_create {
	/*
	 * in: bytes, 1 to max_bo_size; out: rounded up to page_size (hugepage
	 * class: to 2 MiB)
	 */
	__u64 size;
	__u32 flags;      /* in: bit 0 CONTIGUOUS */
	__u32 region;     /* in: 0 LOCAL, 1 SYSTEM */
	__u32 align_log2; /* in: 0 (page), or 6 to 21 */
	/*
	 * out: class reached: 1 locked (not proven contiguous), 2 hugepage, 3
	 * driver
	 */
	__u32 contiguity;
	__u32 handle;     /* out: not 0 */
	__u32 reserved;   /* in: 0 */
	__u64 map_offset; /* out: for mmap, multiple of page_size, not 0 */
	/* out: also on -ENOMEM: largest size that would have worked, 0 unknown */
	__u64 limit;
};

/* BO_INFO: what is known of a buffer. */
struct drm_qbnpu_bo_info {
	__u32 handle; /* in */
	/*
	 * out: creation flags, bit 8 IMPORTED, bit 9 EXPORTED (a dma-buf or
	 * memfd is alive), bit 10 WEIGHTS
	 */
	__u32 flags;
	__u32 region;     /* out */
	__u32 contiguity; /* out: class; 0 for most imports */
	__u64 size;       /* out */
	__u64 map_offset; /* out: as BO_CREATE */
	__u64 device_addr; /* out: address that the device uses; 2^64 - 1 when not told */
	/* out: physically contiguous runs; 0 unknown, 1 contiguous */
	__u32 segments;
	/* out: alignment of the device address, up to 21 */
	__u32 align_log2;
	/*
	 * out: device-wide buffer number, never reused; the same for every
	 * handle of one buffer
	 */
	__u64 id;
	__u32 jobs;     /* out: jobs not complete that use it */
	__u32 reserved; /* in: 0 */
};

/*
 * BO_SYNC: a bracket around CPU accesses. Cache maintenance only: no wait, no order.
 */
struct drm_qbnpu_bo_sync {
	__u32 handle; /* in */
	/*
	 * in: exactly one of bit 0 BEGIN, bit 1 END; at least one of bit 2
	 * READ, bit 3 WRITE
	 */
	__u32 flags;
	__u64 offset;   /* in: multiple of 64 */
	__u64 length;   /* in: > 0; offset + length <= size */
	__u64 reserved; /* in: 0 */
};

/*
 * PROGRAM_CREATE: copies the bytes once, validates the copy, binds the weights.
 */
struct drm_qbnpu_program_create {
	__u64 data; /* in: user pointer to the program, 16-byte aligned */
	__u64 size; /* in: 128 to max_program_size */
	/* in: cores it may run on; scratch is made for these */
	__u64 core_mask;
	__u32 flags; /* in: 0 */
	/*
	 * in: 0 Single, 1 Multi, 3 Global4, 4 Global8; must fit the program's
	 * core_mode
	 */
	__u32 mode;
	/* in: buffer handle; 0 if the program has no WEIGHTS binding */
	__u32 weights;
	__u32 handle;         /* out: not 0 */
	__u64 weights_offset; /* in: multiple of the binding's alignment */
	__u64 weights_size;   /* in: >= the binding's size */
	/* out: bytes of LOCAL memory taken (MM13's terms but WGHT) */
	__u64 device_size;
	/*
	 * out: on -ENOEXEC: rule of the validator (1 = V01); on -EOPNOTSUPP: 4 or 32
	 * ; else as given
	 */
	__u32 rule;
	/*
	 * out: on -ENOEXEC and -EOPNOTSUPP: command index, 2^32 - 1 for the
	 * header or a table
	 */
	__u32 command;
	__u32 operand;  /* out: on -ENOEXEC: operand or table index */
	__u32 reserved; /* in: 0 */
	/*
	 * out: on -ENOEXEC: the cap or bound that was broken; on -ENOMEM:
	 * bytes that were missing
	 */
	__u64 limit;
};

/* PROGRAM_DESTROY: the handle goes at once, queued and running jobs finish. */
struct drm_qbnpu_program_destroy {
	__u32 handle; /* in */
	__u32 flags;  /* in: 0 */
};

/* drm_qbnpu_queue_create.flags */
#define DRM_QBNPU_QUEUE_STICKY (1u << 0)

enum drm_qbnpu_queue_state {
	DRM_QBNPU_QUEUE_GOOD = 0,
	DRM_QBNPU_QUEUE_FAILED = 1,
	DRM_QBNPU_QUEUE_LOST = 2,
};

/* QUEUE_CREATE: an in-order queue with a timeline of its own. */
struct drm_qbnpu_queue_create {
	__u32 flags; /* in: bit 0 STICKY */
	/*
	 * in: smaller is more urgent; outside priority_min .. priority_max:
	 * -EACCES
	 */
	__s32 priority;
	__u32 queue; /* out: not 0 */
	/* out: entry in the progress page; 2^32 - 1 without the feature */
	__u32 progress_index;
	/*
	 * out: offset for mmap of the progress page (0 in both
	 * implementations); 2^64 - 1 without the feature
	 */
	__u64 progress_offset;
	/* out: handle of the queue's own timeline, not 0 */
	__u32 syncobj;
	__u32 reserved; /* in: 0 */
};

/*
 * QUEUE_DESTROY: jobs go on and their points signal; the number is forgotten.
 */
struct drm_qbnpu_queue_destroy {
	__u32 queue; /* in */
	__u32 flags; /* in: 0 */
};

/* One entry of the progress page. "completed" is stored last, with release. */
struct drm_qbnpu_progress {
	/* out: highest n such that jobs 1 .. n are complete */
	__u64 completed;
	__u64 failed;       /* out: jobs among them that did not succeed */
	__u64 last_failed;  /* out: number of the last of those, 0 none */
	__u64 started;      /* out: highest job handed to the device */
	__s64 completed_ns; /* out: CLOCK_MONOTONIC of the last completion */
	__u32 state;        /* out: 0 good, 1 failed (STICKY), 2 device lost */
	__u32 generation;   /* out: device resets that touched this queue */
	__u64 reserved[2];  /* out: 0 */
};

/* drm_qbnpu_binding.access */
#define DRM_QBNPU_ACCESS_READ (1u << 0)
#define DRM_QBNPU_ACCESS_WRITE (1u << 1)

/* drm_qbnpu_sync.flags */
#define DRM_QBNPU_SYNC_ANY_RESULT (1u << 0)

/* drm_qbnpu_wait.flags */
#define DRM_QBNPU_WAIT_BLOCKING (1u << 0)

enum drm_qbnpu_fail_what {
	DRM_QBNPU_FAIL_STRUCT = 0,
	DRM_QBNPU_FAIL_BINDING = 1,
	DRM_QBNPU_FAIL_IN_SYNC = 2,
	DRM_QBNPU_FAIL_PARAM = 4,
	DRM_QBNPU_FAIL_PARAM_PAIR = 5,
	DRM_QBNPU_FAIL_CORE_MASK = 6,
	DRM_QBNPU_FAIL_QUEUE = 7,
	DRM_QBNPU_FAIL_SOURCE = 8,
	DRM_QBNPU_FAIL_DESTINATION = 9,
};

enum drm_qbnpu_job_state {
	DRM_QBNPU_JOB_WAITS = 0,
	DRM_QBNPU_JOB_QUEUED = 1,
	DRM_QBNPU_JOB_RUNNING = 2,
	DRM_QBNPU_JOB_COMPLETE = 3,
};

/* drm_qbnpu_wait.cause: 0 none, 1 to 7 the device's, 8 and 9 the queue's */
enum drm_qbnpu_cause {
	DRM_QBNPU_CAUSE_NONE = 0,
	DRM_QBNPU_CAUSE_PROGRAM = 1,
	DRM_QBNPU_CAUSE_TIME = 2,
	DRM_QBNPU_CAUSE_CANCELLED = 3,
	DRM_QBNPU_CAUSE_RESET = 4,
	DRM_QBNPU_CAUSE_MEMORY = 5,
	DRM_QBNPU_CAUSE_LOST = 6,
	DRM_QBNPU_CAUSE_INJECTED = 7,
	DRM_QBNPU_CAUSE_FENCE = 8,
	DRM_QBNPU_CAUSE_QUEUE_FAILED = 9,
};

enum drm_qbnpu_time_source {
	DRM_QBNPU_TIME_HOST = 1,
	DRM_QBNPU_TIME_DEVICE = 2,
};

/* One memory range of a SUBMIT. */
struct drm_qbnpu_binding {
	__u32 index;  /* in: number of the binding in the program */
	__u32 handle; /* in: buffer */
	__u64 offset; /* in: multiple of the binding's alignment */
	__u64 length; /* in: size + (item_count - 1) * item_stride at least */
	__u64 item_stride; /* in: item i uses offset + i * this; 0 with one item */
	/* in: bit 0 READ, bit 1 WRITE: equal to the program's, else -EACCES */
	__u32 access;
	__u32 flags; /* in: 0 */
};

/* One thing to wait for: a point of a timeline. */
struct drm_qbnpu_sync {
	__u32 handle; /* in: syncobj used as a timeline */
	/*
	 * in: bit 0 ANY_RESULT: order only, a failure of what is awaited does
	 * not matter
	 */
	__u32 flags;
	__u64 point; /* in: >= 1 */
};

/* SUBMIT: one job. With wait it also waits; after queueing it never fails. */
struct drm_qbnpu_submit {
	__u32 queue; /* in */
	/* in: 0 = empty job: no bindings, only waits and its point */
	__u32 program;
	__u32 flags; /* in: 0 */
	__u32 mode;  /* in: equal to the program's; 0 for an empty job */
	/* in: not empty, subset of the program's; 0 for an empty job */
	__u64 core_mask;
	__u64 bindings;      /* in: user pointer */
	__u32 binding_count; /* in: <= 64 */
	__u32 binding_size;  /* in: sizeof element, 40 or more */
	__u64 in_syncs;      /* in: user pointer */
	/*
	 * in: user pointer to one drm_qbnpu_wait: wait for the job; 0
	 * = return when queued
	 */
	__u64 wait;
	__u32 in_count; /* in: <= 64 */
	/* in: sizeof that struct, 96 or more; 0 when wait is 0 */
	__u32 wait_size;
	/* in: sizeof element, 16 or more; 0 allowed when in_count is 0 */
	__u32 sync_size;
	__u32 item_count; /* in: 1 to 65,535; 1 for an empty job */
	__u32 params[4];  /* in: 0 beyond the program's param_count */
	/* in: absolute CLOCK_MONOTONIC; 0 = run limit default_job_ns */
	__s64 deadline_ns;
	/*
	 * out: number of the job in its queue: 1, 2, 3, ... without gaps; the
	 * point of the queue's timeline
	 */
	__u64 job;
	/* in: given back by WAIT, shown in traces; no other meaning */
	__u64 user_data;
	/*
	 * out: only on failure: 0 the struct or wait, 1 binding, 2 in sync,
	 * 4 parameter, 5 parameter pair, 6 core mask, 7 queue (3 is not used)
	 */
	__u32 fail_what;
	/*
	 * out: only on failure: element; for 2 bindings that overlap the
	 * higher one; for a binding not given, its number in the program
	 */
	__u32 fail_index;
	/* out: only on failure: bound that was broken, 0 none */
	__u64 fail_limit;
};

/* COPY: a strided copy between two buffers, a job like any other. */
struct drm_qbnpu_copy {
	__u32 queue;        /* in */
	__u32 flags;        /* in: 0 */
	__u32 src;          /* in: buffer */
	__u32 dst;          /* in: buffer */
	__u64 src_offset;   /* in: bytes; multiple of element_size */
	__u64 dst_offset;   /* in: bytes; multiple of element_size */
	__u32 rank;         /* in: 1 to 6 */
	__u32 element_size; /* in: 1, 2, 4, 8 or 16 */
	__u64 in_syncs;     /* in: as SUBMIT */
	__u32 in_count;     /* in: as SUBMIT */
	__u32 sync_size;    /* in: as SUBMIT */
	__s64 deadline_ns;  /* in: as SUBMIT */
	/* out: as SUBMIT; copies and programs share one numbering */
	__u64 job;
	__u64 user_data; /* in */
	/* out: 0 the struct, 2, 7 as SUBMIT, 8 source, 9 destination */
	__u32 fail_what;
	__u32 fail_index; /* out: axis or element */
	__u64 fail_limit; /* out */
	__u32 dims[6];    /* in: elements per axis, >= 1 up to rank, 0 beyond */
	/* in: bytes, multiples of element_size; 0 repeats; 0 beyond rank */
	__u64 src_strides[6];
	/* in: bytes; no two elements may touch the same byte */
	__u64 dst_strides[6];
};

/* WAIT: the job's own result. */
struct drm_qbnpu_wait {
	__u32 queue; /* in: 0 in a SUBMIT */
	/*
	 * in: bit 0 BLOCKING: sleep at once, do not spin first (the module
	 * never spins)
	 */
	__u32 flags;
	__u64 job; /* in: 0 in a SUBMIT */
	/*
	 * in: absolute CLOCK_MONOTONIC; 0 or past polls; 2^63 - 1 waits for
	 * ever
	 */
	__s64 timeout_ns;
	/*
	 * out: also on WAIT's -ETIME: 0 waits for its syncs, 1 queued, 2 on
	 * the device, 3 complete. SUBMIT writes 0 just before it queues the
	 * job
	 */
	__u32 state;
	__s32 status; /* out: job's own result: 0 or -errno */
	/*
	 * out: 0 none, 1 to 7 the device's, 8 an awaited fence failed, 9 an
	 * earlier job of a STICKY queue failed
	 */
	__u32 cause;
	/*
	 * out: command list where it failed (program coordinates); 2^32 - 1 if
	 * not known, and when status is 0
	 */
	__u32 list;
	__u32 command; /* out: as list */
	__u32 item;    /* out: lowest failing item; else as list */
	/*
	 * out: cluster * 8 + core of the first item, or of the one that began
	 * first where the first did not begin; 2^32 - 1 if it never ran
	 */
	__u32 core;
	/*
	 * out: 1 host clock at the interrupt, 2 device's duration and host
	 * clock
	 */
	__u32 time_source;
	__s64 submit_ns; /* out: CLOCK_MONOTONIC */
	__s64 start_ns;  /* out: 0 if it never ran */
	__s64 end_ns;    /* out */
	__u64 busy_ns;   /* out: sum over the cores used */
	__u64 user_data; /* out */
};

/* CANCEL: returns without waiting; the job ends as -ECANCELED. */
struct drm_qbnpu_cancel {
	__u32 queue; /* in */
	__u32 flags; /* in: 0 */
	__u64 job;   /* in: 0 = every job of the queue that is not complete */
};

#define DRM_IOCTL_QBNPU_QUERY \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_QBNPU_QUERY, struct drm_qbnpu_query)
#define DRM_IOCTL_QBNPU_BO_CREATE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_QBNPU_BO_CREATE, \
		 struct drm_qbnpu_bo_create)
#define DRM_IOCTL_QBNPU_BO_INFO \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_QBNPU_BO_INFO, struct drm_qbnpu_bo_info)
#define DRM_IOCTL_QBNPU_BO_SYNC \
	DRM_IOW(DRM_COMMAND_BASE + DRM_QBNPU_BO_SYNC, struct drm_qbnpu_bo_sync)
#define DRM_IOCTL_QBNPU_PROGRAM_CREATE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_QBNPU_PROGRAM_CREATE, \
		 struct drm_qbnpu_program_create)
#define DRM_IOCTL_QBNPU_PROGRAM_DESTROY \
	DRM_IOW(DRM_COMMAND_BASE + DRM_QBNPU_PROGRAM_DESTROY, \
		struct drm_qbnpu_program_destroy)
#define DRM_IOCTL_QBNPU_QUEUE_CREATE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_QBNPU_QUEUE_CREATE, \
		 struct drm_qbnpu_queue_create)
#define DRM_IOCTL_QBNPU_QUEUE_DESTROY \
	DRM_IOW(DRM_COMMAND_BASE + DRM_QBNPU_QUEUE_DESTROY, \
		struct drm_qbnpu_queue_destroy)
#define DRM_IOCTL_QBNPU_SUBMIT \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_QBNPU_SUBMIT, struct drm_qbnpu_submit)
#define DRM_IOCTL_QBNPU_COPY \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_QBNPU_COPY, struct drm_qbnpu_copy)
#define DRM_IOCTL_QBNPU_WAIT \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_QBNPU_WAIT, struct drm_qbnpu_wait)
#define DRM_IOCTL_QBNPU_CANCEL \
	DRM_IOW(DRM_COMMAND_BASE + DRM_QBNPU_CANCEL, struct drm_qbnpu_cancel)

/* Kernel 6.6's, which a libdrm may be older than. */
#ifndef DRM_IOCTL_SYNCOBJ_EVENTFD
struct drm_syncobj_eventfd {
	__u32 handle;
	__u32 flags; /* in: DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE or 0 */
	__u64 point;
	__s32 fd; /* in: an eventfd, borrowed */
	__u32 pad;
};
#define DRM_IOCTL_SYNCOBJ_EVENTFD DRM_IOWR(0xCF, struct drm_syncobj_eventfd)
#endif

#if defined(__cplusplus)
}
#endif

#endif
