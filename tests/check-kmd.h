/* SPDX-License-Identifier: MIT */
/*
 * The contract suite: what each file of check-kmd shares. A test is run once
 * per driver that has a node, with its index in _i:
 *
 *	START_TEST(new_memory_is_zero)
 *	{
 *		kmd_begin(_i);
 *		...
 *		kmd_end();
 *	}
 *	END_TEST
 *
 * Helpers assert what they do, so a test reads as what it claims.
 */
#ifndef TESTS_CHECK_KMD_H
#define TESTS_CHECK_KMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kmd.h"
#include "test-util.h"
#include "uapi/qbnpu_drm.h"

/* Those that the tests run over; who chooses none has soft. */
#define KMD_MAX_DRIVERS 2
extern const struct qbrt_kmd *kmd_drivers[KMD_MAX_DRIVERS];
extern int kmd_num_drivers;
bool kmd_has_node(const struct qbrt_kmd *driver);

/* The driver under test, its node, and an open file of it. */
extern const struct qbrt_kmd *kmd;
extern struct qbrt_kmd_options kmd_options;
extern struct qbrt_kmd_node kmd_node;
extern struct drm_qbnpu_query_device kmd_device;
extern int kmd_file;

#define KMD_BYTES 64 /* what copy64 copies */
#define KMD_FOREVER INT64_MAX

/* Two software devices: what kmd_begin does first. */
void kmd_fill_options(void);

/* Opens the driver's first node; closes it. */
void kmd_begin(int driver);
void kmd_end(void);
int kmd_open_another(void);

int kmd_call(unsigned long request, void *arg);

/*
 * The request fails with exactly -err and changes no byte of arg but those
 * from `from` up to `to`, which the uAPI names for this failure.
 */
void kmd_refuse_but(unsigned long request, void *arg, int err, size_t from,
		    size_t to);
void kmd_refuse(unsigned long request, void *arg, int err);

/* Buffers: SYSTEM, mapped whole. */
struct kmd_buffer {
	uint32_t handle;
	uint8_t *data;
	size_t size;
};
void kmd_alloc(struct kmd_buffer *buffer, uint64_t size);
void kmd_free(struct kmd_buffer *buffer);
uint32_t kmd_create_buffer(uint64_t size);
void kmd_close_buffer(uint32_t handle);
struct drm_qbnpu_bo_info kmd_get_info(uint32_t handle);
/* A descriptor of a buffer; a buffer of file for it; all of it, mapped. */
int kmd_export_fd(uint32_t handle, uint32_t flags);
uint32_t kmd_import_fd(int file, int fd);
uint8_t *kmd_map(int file, uint32_t handle, int prot);

/* Programs on one core, mode Single. */
struct prog;
/* A right PROGRAM_CREATE; its output fields are 0xbad. */
struct drm_qbnpu_program_create kmd_make_create(const struct prog *prog);
uint32_t kmd_load(const void *bytes, size_t size);
uint32_t kmd_load_copy64(void);
/* The same after num_seconds of doing nothing: what a test cancels. */
uint32_t kmd_load_slow(unsigned int num_seconds);
void kmd_unload(uint32_t program);

uint32_t kmd_create_queue(uint32_t flags, uint32_t *syncobj);
void kmd_destroy_queue(uint32_t queue);

/* A SUBMIT of a program with one INPUT and one OUTPUT of 64 bytes. */
struct kmd_job {
	struct drm_qbnpu_submit submit;
	struct drm_qbnpu_binding bindings[2];
	struct drm_qbnpu_sync syncs[64];
	struct drm_qbnpu_wait wait;
};
void kmd_prepare(struct kmd_job *job, uint32_t queue, uint32_t program,
		 const struct kmd_buffer *input,
		 const struct kmd_buffer *output);
void kmd_prepare_empty(struct kmd_job *job, uint32_t queue);
void kmd_add_sync(struct kmd_job *job, uint32_t syncobj, uint64_t point,
		  uint32_t flags);
/* Its `wait` waits for ever. */
void kmd_set_wait(struct kmd_job *job);
uint64_t kmd_submit(struct kmd_job *job);
/* Waits for ever; state 3 is asserted. */
struct drm_qbnpu_wait kmd_wait(uint32_t queue, uint64_t job);
void kmd_cancel(uint32_t queue, uint64_t job);
/* Polls. */
uint32_t kmd_get_state(uint32_t queue, uint64_t job);

/* What most tests of jobs need. */
struct kmd_set {
	struct kmd_buffer input, output;
	uint32_t copy64, queue, syncobj;
};
void kmd_begin_set(int driver, struct kmd_set *set);
void kmd_end_set(struct kmd_set *set);

/* The tests of one file each, added to those of the program. */
void kmd_add_tests(struct qbrt_tests *all, const struct qbrt_test *tests,
		   size_t num);
/*
 * Sets the drivers, adds tests of their own and names the unit: what tells
 * check-kmd from check-kmd-over-drm.
 */
const char *kmd_choose_drivers(struct qbrt_tests *all);
void kmd_request_tests(struct qbrt_tests *all);
void kmd_user_tests(struct qbrt_tests *all);
void kmd_file_tests(struct qbrt_tests *all);
void kmd_query_tests(struct qbrt_tests *all);
void kmd_buffer_tests(struct qbrt_tests *all);
void kmd_program_tests(struct qbrt_tests *all);
void kmd_weights_tests(struct qbrt_tests *all);
void kmd_queue_tests(struct qbrt_tests *all);
void kmd_sleeper_tests(struct qbrt_tests *all);
void kmd_order_tests(struct qbrt_tests *all);
void kmd_submit_tests(struct qbrt_tests *all);
void kmd_copy_tests(struct qbrt_tests *all);
void kmd_wait_tests(struct qbrt_tests *all);
void kmd_share_tests(struct qbrt_tests *all);
void kmd_share_process_tests(struct qbrt_tests *all);
void kmd_syncobj_tests(struct qbrt_tests *all);
void kmd_syncobj_wait_tests(struct qbrt_tests *all);
void kmd_syncobj_eventfd_tests(struct qbrt_tests *all);

#endif
