/* SPDX-License-Identifier: MIT */
/*
 * The software driver: answers the requests of uapi/qbnpu_drm.h in this
 * process, with device/ as the hardware below. Private to soft/; tests use the
 * last section.
 *
 * Locks, in order: registry (open, close, mappings), file (handles, queues,
 * jobs, timelines), device (events, its tie to the device model), the device
 * model's own. A core's thread enters through a job's done() holding none.
 * User memory is never touched under a lock, but for the caller's own stack,
 * which cannot fault. Eventfds are written under none of them.
 *
 * A thread that is cancelled ends after the call: cancellation is off in every
 * op and request, but in SUBMIT, which has it off where it sleeps or closes a
 * descriptor. A thread must not be cancelled asynchronously inside a call.
 */
#ifndef QBNPU_SOFT_H
#define QBNPU_SOFT_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/npu.h"
#include "kmd.h"
#include "soft/soft-sync.h"
#include "soft/soft-user.h"
#include "uapi/qbnpu_drm.h"

/* rejected_by_rule of device/npu.h */
#define QBNPU_SOFT_NUM_RULES 64u

#define QBNPU_SOFT_MAX_BUFFERS 65536u
#define QBNPU_SOFT_MAX_PROGRAMS 1024u
#define QBNPU_SOFT_MAX_PROGRAM_BYTES (UINT64_C(256) << 20)
#define QBNPU_SOFT_MAX_QUEUES 256u
#define QBNPU_SOFT_MAX_JOBS 256u
#define QBNPU_SOFT_MAX_SYNCS 64u
#define QBNPU_SOFT_MAX_SYNCOBJS 65536u
/* elements of a syncobj request's arrays (K126) */
#define QBNPU_SOFT_MAX_POINTS 65536u
#define QBNPU_SOFT_MAX_BO_SIZE (UINT64_C(1) << 34)
#define QBNPU_SOFT_NUM_RESULTS 1024u
#define QBNPU_SOFT_UDMABUF "/dev/udmabuf"
#define QBNPU_SOFT_NUM_EVENTS 256u
#define QBNPU_SOFT_NUM_REGIONS 2u
#define QBNPU_SOFT_PROGRESS_SIZE 16384u
#define QBNPU_SOFT_HUGE_SIZE (UINT64_C(1) << 21)
#define QBNPU_SOFT_DEFAULT_JOB_NS INT64_C(10000000000)
#define QBNPU_SOFT_MAX_JOB_NS INT64_C(600000000000)
#define QBNPU_SOFT_PRIORITY_MIN (-2)

/* ---- soft.c: the registry, devices and files ---- */

struct qbnpu_soft_buffer;
struct qbnpu_soft_job;
struct qbnpu_soft_queue;
struct qbnpu_soft_wait;

/* Values by handle: small numbers from 1, the lowest free one first. */
struct qbnpu_soft_table {
	void **items; /* items[handle - 1] */
	uint32_t capacity;
	uint32_t num_items;
	uint32_t first_free; /* no free slot below this index */
};

int qbnpu_soft_table_add(struct qbnpu_soft_table *table, uint32_t max_items,
			 void *item, uint32_t *handle);
void *qbnpu_soft_table_remove(struct qbnpu_soft_table *table, uint32_t handle);

static inline void *qbnpu_soft_table_get(const struct qbnpu_soft_table *table,
					 uint32_t handle)
{
	if (!handle || handle > table->capacity)
		return NULL;
	return table->items[handle - 1];
}

/* What one file did, for COUNTERS with CLIENT. File lock. */
struct qbnpu_soft_counters {
	uint64_t submitted, completed, failed, cancelled, timeouts;
	uint64_t programs_loaded, programs_rejected,
		rejected_by_rule[QBNPU_SOFT_NUM_RULES];
	uint64_t copy_bytes, macs, busy_ns, wait_ns;
};

/* An event, and the file whose job it was about, 0 none. */
struct qbnpu_soft_event {
	struct drm_qbnpu_query_event event;
	uint64_t file_id;
};

/* What became of all jobs of a device, also of those that it never saw. */
struct qbnpu_soft_fates {
	atomic_uint_fast64_t submitted, completed, failed, cancelled, timeouts;
};

/* One device number. Alive while a file or a buffer refers to it. */
struct qbnpu_soft_device {
	atomic_uint references;
	int number;
	uint32_t num_files;             /* registry lock; 0: npu is closed */
	struct qbnpu_soft_device *next; /* registry lock */
	const struct qbnpu_npu_facts *facts;
	bool has_huge_pages;   /* CONTIGUOUS can be had (constant) */
	bool has_udmabuf;      /* a memfd can be a dma-buf (constant) */
	uint64_t system_limit; /* of SYSTEM (constant) */
	atomic_uint_fast64_t last_buffer_id;
	struct qbnpu_soft_fates fates;
	pthread_mutex_t lock;
	pthread_cond_t has_event;
	struct qbnpu_npu *npu; /* for giving memory back: device lock */
	struct qbnpu_soft_buffer *shared; /* device lock */
	uint64_t last_event;              /* device lock, like the ring */
	struct qbnpu_soft_event events[QBNPU_SOFT_NUM_EVENTS];
};

struct qbnpu_soft_file {
	struct qbnpu_soft_device *device;
	struct qbnpu_npu *npu; /* the device's, alive as long as this file */
	uint64_t id;           /* of events, process wide */
	struct drm_qbnpu_progress *progress; /* the writable mapping */
	int progress_fd;

	pthread_mutex_t lock; /* all that follows */
	struct qbnpu_soft_table buffers;
	struct qbnpu_soft_table programs;
	struct qbnpu_soft_table timelines;
	struct qbnpu_soft_queue *queues[QBNPU_SOFT_MAX_QUEUES];
	uint32_t queue_rounds[QBNPU_SOFT_MAX_QUEUES];
	uint64_t used[QBNPU_SOFT_NUM_REGIONS];
	uint64_t num_buffers[QBNPU_SOFT_NUM_REGIONS];
	uint64_t program_bytes;
	uint64_t last_event_read; /* device lock */
	struct qbnpu_soft_counters counters;
	uint32_t num_jobs; /* in the lists of its queues */
	bool is_closing;
	/* while closing, num_jobs became 0 or the last sleeper left */
	pthread_cond_t is_idle;
	struct qbnpu_soft_sleeper *sleepers;
	/* the thread of soft-sync.c */
	pthread_t helper;
	bool has_helper;
	bool is_helper_stopping;
	bool is_helper_orphan; /* close gave up waiting: it frees the file */
	pthread_cond_t helper_wake;
	int64_t next_deadline_ns;
};

/* Process-wide account of SYSTEM memory; memory it may hold. */
atomic_uint_fast64_t *qbnpu_soft_get_system_used(void);

/* Around a look at an eventfd's room and the write; taken under no lock. */
pthread_mutex_t *qbnpu_soft_get_eventfd_lock(void);

/* Mappings handed to the caller, kept until munmap whatever is closed. */
int qbnpu_soft_mapping_add(void *address, size_t length,
			   struct qbnpu_soft_buffer *buffer);

void qbnpu_soft_device_unref(struct qbnpu_soft_device *device);

/* The end of a closed file without jobs; the caller is its last user. */
void qbnpu_soft_file_free(struct qbnpu_soft_file *file);

/* ---- soft-fd.c: descriptors that the driver keeps, all of 3 or more ---- */

/* A copy of fd. -EBADF, -EMFILE, -ENOMEM. */
int qbnpu_soft_fd_copy(int fd);
/* Takes fd, what a call just returned; itself, or a copy; -errno. */
int qbnpu_soft_fd_keep(int fd);
/* A memfd of size bytes, no seals yet. -EMFILE, -ENFILE, -ENOMEM. */
int qbnpu_soft_fd_alloc(const char *name, unsigned int flags, uint64_t size);
/* No cancellation point. */
void qbnpu_soft_fd_close(int fd);

/* ---- soft-bo.c, soft-bo-memory.c, soft-bo-share.c: buffers ---- */

/* Memory that a device reaches: whole pages, zeroed, locked. */
struct qbnpu_soft_memory {
	void *base;
	uint64_t size;
	int fd; /* sealed memfd */
	uint32_t contiguity;
	uint32_t segments;
};

/*
 * Of 2 MiB pages, or locked; rounded up to whole pages. alignment: power of
 * two, a page at least. -ENOMEM, -EMFILE, -ENFILE; *limit: how much more could
 * be had.
 */
int qbnpu_soft_memory_alloc_huge(uint64_t size, uint64_t alignment,
				 struct qbnpu_soft_memory *memory);
int qbnpu_soft_memory_alloc_locked(uint64_t size, uint64_t alignment,
				   struct qbnpu_soft_memory *memory,
				   uint64_t *limit);
void qbnpu_soft_memory_free(struct qbnpu_soft_memory *memory);
/* Of memory in 2 MiB pages: takes them, tells how contiguous they are. */
void qbnpu_soft_memory_look_up_runs(struct qbnpu_soft_memory *memory);

uint64_t qbnpu_soft_get_page_size(void);
/* 2 MiB pages that the machine has, and how many of them are free. */
void qbnpu_soft_query_huge_pages(uint64_t *num_pages, uint64_t *num_free);
/* Half of the machine's memory: the limit of SYSTEM. */
uint64_t qbnpu_soft_get_system_limit(void);
/* What the process may lock in all (K140); 2^64 - 1: no limit. */
uint64_t qbnpu_soft_get_lock_limit(void);

/* The file that a descriptor stands for, in any process. */
struct qbnpu_soft_identity {
	uint64_t device, inode;
};

/* A buffer that has or had a descriptor; device lock, but for is_exported. */
struct qbnpu_soft_share {
	struct qbnpu_soft_buffer *next, **link; /* NULL: no descriptor yet */
	struct qbnpu_soft_identity memory, dmabuf;
	int dmabuf_fd; /* what writable exports are copies of; -1: the memfd */
	atomic_bool is_exported;
};

/* A job's part of a buffer's references, which count jobs in the upper half. */
#define QBNPU_SOFT_JOB_REFERENCE ((UINT64_C(1) << 32) + 1)

struct qbnpu_soft_buffer {
	/* handles, jobs that are not complete, programs, mappings */
	atomic_uint_fast64_t references;
	struct qbnpu_soft_device *device;
	uint64_t id;
	uint32_t flags; /* as created, IMPORTED */
	uint32_t region;
	uint32_t align_log2; /* of base, up to 21 */
	struct qbnpu_soft_memory memory;
	atomic_bool is_read_only; /* so is its mapping (K134) */
	struct qbnpu_soft_share share;
	atomic_uint num_programs; /* that hold it as weights */
};

/* A handle of a file. File lock. */
struct qbnpu_soft_bo {
	struct qbnpu_soft_buffer *buffer;
	uint32_t handle;
	bool is_read_only;   /* came by a read-only descriptor */
	uint32_t num_reads;  /* open brackets */
	uint32_t num_writes; /* open brackets that write */
};

void qbnpu_soft_buffer_free(struct qbnpu_soft_buffer *buffer);

/* num: 1, or QBNPU_SOFT_JOB_REFERENCE for a job's. */
static inline void qbnpu_soft_buffer_drop(struct qbnpu_soft_buffer *buffer,
					  uint64_t num)
{
	if (atomic_fetch_sub(&buffer->references, num) == num)
		qbnpu_soft_buffer_free(buffer);
}

static inline void qbnpu_soft_buffer_unref(struct qbnpu_soft_buffer *buffer)
{
	qbnpu_soft_buffer_drop(buffer, 1);
}

static inline uint32_t
qbnpu_soft_buffer_get_jobs(const struct qbnpu_soft_buffer *buffer)
{
	return (uint32_t)(atomic_load(&buffer->references) >> 32);
}

/* Zeros but for its memory: a buffer of device, with one reference. */
void qbnpu_soft_buffer_begin(struct qbnpu_soft_buffer *buffer,
			     struct qbnpu_soft_device *device);
/* Its descriptors of the driver's own, before its memory goes. */
void qbnpu_soft_buffer_unshare(struct qbnpu_soft_buffer *buffer);
/* Gives bo its handle, and its size to the file's account; file lock. */
int qbnpu_soft_bo_add(struct qbnpu_soft_file *file, struct qbnpu_soft_bo *bo);
void qbnpu_soft_bo_close_all(struct qbnpu_soft_file *file);

/* File lock held. */
static inline struct qbnpu_soft_bo *
qbnpu_soft_bo_get(const struct qbnpu_soft_file *file, uint32_t handle)
{
	return qbnpu_soft_table_get(&file->buffers, handle);
}

int qbnpu_soft_bo_mmap(struct qbnpu_soft_file *file, uint64_t offset,
		       size_t length, int prot, void **address);

/* ---- soft-program.c ---- */

struct qbnpu_soft_program {
	atomic_uint references; /* its handle, jobs */
	struct qbnpu_soft_file *file;
	struct qbnpu_executable *executable;
	const struct qbnpu_facts *facts;
	struct qbnpu_soft_buffer *weights; /* NULL: none */
	uint64_t core_mask;
	uint64_t program_size;
	uint64_t device_size;
	uint32_t mode;
};

void qbnpu_soft_program_unref(struct qbnpu_soft_program *program);

/* ---- soft-trace.c ---- */

/* The device's trace callback. */
void qbnpu_soft_trace_item(const struct qbnpu_trace_item *item);

/* ---- soft-query.c ---- */

void qbnpu_soft_event_add(struct qbnpu_soft_device *device, uint64_t file_id,
			  const struct drm_qbnpu_query_event *event);
int qbnpu_soft_event_poll(struct qbnpu_soft_file *file, int64_t deadline_ns);

/* ---- the requests: one function each, named by it ---- */

/*
 * arg: a copy of the caller's struct, given back to the caller whatever is
 * returned. So a request that fails writes only the fields that the uAPI names
 * for its failure. SUBMIT, which is to be quick, may be given the caller's
 * struct itself, and copies it.
 */
typedef int qbnpu_soft_request(struct qbnpu_soft_file *file, void *arg);

qbnpu_soft_request qbnpu_soft_ioctl_query;
qbnpu_soft_request qbnpu_soft_ioctl_bo_create;
qbnpu_soft_request qbnpu_soft_ioctl_bo_info;
qbnpu_soft_request qbnpu_soft_ioctl_bo_sync;
qbnpu_soft_request qbnpu_soft_ioctl_program_create;
qbnpu_soft_request qbnpu_soft_ioctl_program_destroy;
qbnpu_soft_request qbnpu_soft_ioctl_queue_create;
qbnpu_soft_request qbnpu_soft_ioctl_queue_destroy;
qbnpu_soft_request qbnpu_soft_ioctl_submit;
qbnpu_soft_request qbnpu_soft_ioctl_copy;
qbnpu_soft_request qbnpu_soft_ioctl_wait;
qbnpu_soft_request qbnpu_soft_ioctl_cancel;
qbnpu_soft_request qbnpu_soft_ioctl_version;
qbnpu_soft_request qbnpu_soft_ioctl_gem_close;
qbnpu_soft_request qbnpu_soft_ioctl_get_cap;
qbnpu_soft_request qbnpu_soft_ioctl_prime_handle_to_fd;
qbnpu_soft_request qbnpu_soft_ioctl_prime_fd_to_handle;
qbnpu_soft_request qbnpu_soft_ioctl_syncobj_create;
qbnpu_soft_request qbnpu_soft_ioctl_syncobj_destroy;
qbnpu_soft_request qbnpu_soft_ioctl_syncobj_timeline_wait;
qbnpu_soft_request qbnpu_soft_ioctl_syncobj_query;
qbnpu_soft_request qbnpu_soft_ioctl_syncobj_transfer;
qbnpu_soft_request qbnpu_soft_ioctl_syncobj_timeline_signal;
qbnpu_soft_request qbnpu_soft_ioctl_syncobj_eventfd;

/* ---- tests ---- */

/* The device model behind an open soft:<number>, or NULL. */
struct qbnpu_npu *qbnpu_soft_npu(int number);

/*
 * The nth request (from 1) of this number from now on, in any file, answers
 * -err and does nothing. nth 0: no request does.
 */
void qbnpu_soft_fail(unsigned long request, unsigned int nth, int err);

#endif
