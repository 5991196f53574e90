// SPDX-License-Identifier: MIT
/*
 * The registry: one per process, made at the first open. Files are found
 * without a lock, because every request does it; everything else is under the
 * registry lock. A forked child inherits the memory of its parent's registry
 * but not its threads, so it must not lock it: the generation, which the fork
 * handler raises, tells that it is not the child's (K016, K312).
 */
#include "soft/soft-registry.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "device/fault.h"
#include "log.h"
#include "trace.h"
#include "util.h"

#define NUM_SLOTS 4096
#define MAX_ROUNDS (INT32_MAX / NUM_SLOTS)

/* A file's number is round * NUM_SLOTS + slot, so a stale one is noticed. */
struct slot {
	_Atomic(struct qbnpu_soft_file *) file;
	atomic_int number;
	int round;       /* of the next file in this slot; registry lock */
	int first_round; /* those before are of the parent's files (constant) */
};

struct qbnpu_soft_mapping {
	uintptr_t address;
	size_t length;
	unsigned int count;               /* how often it was handed out */
	struct qbnpu_soft_buffer *buffer; /* kept alive; NULL: progress page */
};

struct registry {
	unsigned int generation;
	pthread_mutex_t lock;
	struct slot slots[NUM_SLOTS];
	struct qbnpu_soft_device *devices;
	void *mappings; /* tree of struct qbnpu_soft_mapping */
	atomic_uint_fast64_t system_used;
	pthread_mutex_t eventfd_lock; /* see soft.h */
};

static atomic_uint fork_generation;
static _Atomic(struct registry *) current;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void note_fork(void)
{
	atomic_fetch_add(&fork_generation, 1);
}

static void watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, note_fork);
}

/* This process's registry, or NULL before its first open. */
static struct registry *get_registry(void)
{
	struct registry *registry;

	registry = atomic_load_explicit(&current, memory_order_acquire);
	if (!registry ||
	    registry->generation != atomic_load_explicit(&fork_generation,
							 memory_order_relaxed))
		return NULL;
	return registry;
}

static struct registry *alloc_registry(struct registry *inherited)
{
	struct registry *registry = calloc(1, sizeof(*registry));

	if (!registry)
		return NULL;
	registry->generation = atomic_load(&fork_generation);
	(void)pthread_mutex_init(&registry->lock, NULL);
	(void)pthread_mutex_init(&registry->eventfd_lock, NULL);
	/* numbers that the parent's files have stay stale here */
	for (int i = 0; inherited && i < NUM_SLOTS; i++) {
		registry->slots[i].round = inherited->slots[i].round;
		registry->slots[i].first_round = inherited->slots[i].round;
	}
	return registry;
}

static struct registry *take_registry(void)
{
	struct registry *old = atomic_load(&current);
	struct registry *registry;

	(void)pthread_once(&fork_once, watch_forks);
	while (!get_registry()) {
		registry = alloc_registry(old);
		if (!registry)
			return NULL;
		if (!atomic_compare_exchange_strong(&current, &old, registry)) {
			(void)pthread_mutex_destroy(&registry->eventfd_lock);
			(void)pthread_mutex_destroy(&registry->lock);
			free(registry);
		}
	}
	return get_registry();
}

void qbnpu_soft_format_path(char *path, unsigned int number)
{
	(void)snprintf(path, 16, "soft:%u", number);
}

static struct slot *find_slot(struct registry *registry, int number)
{
	struct slot *slot;

	if (!registry || number < 0)
		return NULL;
	slot = &registry->slots[number % NUM_SLOTS];
	if (atomic_load_explicit(&slot->number, memory_order_relaxed) != number)
		return NULL;
	return slot;
}

struct qbnpu_soft_file *qbnpu_soft_registry_get_file(int number)
{
	struct slot *slot = find_slot(get_registry(), number);

	if (!slot)
		return NULL;
	return atomic_load_explicit(&slot->file, memory_order_acquire);
}

struct qbnpu_soft_file *qbnpu_soft_registry_remove_file(int number)
{
	struct slot *slot = find_slot(get_registry(), number);

	return slot ? atomic_exchange(&slot->file, NULL) : NULL;
}

/* Registry lock. */
static int take_slot(struct registry *registry, struct qbnpu_soft_file *file)
{
	for (int i = 0; i < NUM_SLOTS; i++) {
		struct slot *slot = &registry->slots[i];
		int number = slot->round * NUM_SLOTS + i;

		if (atomic_load(&slot->file))
			continue;
		slot->round = (slot->round + 1) % MAX_ROUNDS;
		atomic_store(&slot->number, number);
		atomic_store_explicit(&slot->file, file, memory_order_release);
		return number;
	}
	return -EMFILE;
}

static int open_npu(const struct qbrt_kmd_options *options, int node,
		    struct qbnpu_npu **npu)
{
	static const enum qbnpu_backend backends[] = {
		[QBRT_KMD_BACKEND_AUTO] = QBNPU_BACKEND_AUTO,
		[QBRT_KMD_BACKEND_REF] = QBNPU_BACKEND_REF,
		[QBRT_KMD_BACKEND_ONEDNN] = QBNPU_BACKEND_ONEDNN,
	};
	struct qbnpu_config config = {
		.name = options->soft_names[node],
		.memory = options->soft_memory,
		.plugin_dir =
			options->plugin_dir[0] ? options->plugin_dir : NULL,
		.poison = options->soft_poison,
		.number = (uint32_t)node,
		.fault_plan = options->soft_fault_plan[0]
				      ? options->soft_fault_plan
				      : NULL,
		.trace = qbnpu_soft_trace_item,
		.is_trace_on = &qbrt_trace_on,
	};

	if ((size_t)options->soft_backend >= qbrt_array_size(backends))
		return -EINVAL;
	config.backend = backends[options->soft_backend];
	return qbnpu_npu_open(&config, npu);
}

bool qbrt_kmd_soft_is_fault_plan(const char *plan, size_t *at)
{
	size_t num;

	return !qbnpu_fault_parse(plan, NULL, &num, at);
}

static int open_device(const struct qbrt_kmd_options *options, int node,
		       struct qbnpu_soft_device **result)
{
	const struct drm_qbnpu_query_event attach = {
		.kind = DRM_QBNPU_EVENT_ATTACH,
		.core = DRM_QBNPU_NONE,
	};
	struct qbnpu_soft_device *device = calloc(1, sizeof(*device));
	pthread_condattr_t cond_attr;
	uint64_t num_huge, num_free;
	int err;

	if (!device)
		return -ENOMEM;
	err = open_npu(options, node, &device->npu);
	if (err) {
		free(device);
		return err;
	}
	(void)pthread_condattr_init(&cond_attr);
	(void)pthread_condattr_setclock(&cond_attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&device->has_event, &cond_attr);
	(void)pthread_condattr_destroy(&cond_attr);
	(void)pthread_mutex_init(&device->lock, NULL);
	atomic_init(&device->references, 1);
	device->number = node;
	device->facts = qbnpu_npu_get_facts(device->npu);
	qbnpu_soft_query_huge_pages(&num_huge, &num_free);
	device->has_huge_pages = num_huge > 0;
	device->has_udmabuf = !access(QBNPU_SOFT_UDMABUF, R_OK | W_OK);
	device->system_limit = qbnpu_soft_get_system_limit();
	qbnpu_soft_event_add(device, 0, &attach);
	*result = device;
	return 0;
}

/* Registry lock. */
static struct qbnpu_soft_device *find_device(const struct registry *registry,
					     int node)
{
	struct qbnpu_soft_device *device = registry->devices;

	while (device && device->number != node)
		device = device->next;
	return device;
}

/* Once in a process, because devices are also opened to be listed. */
static bool is_first(atomic_flag *was_told)
{
	return !atomic_flag_test_and_set(was_told);
}

/*
 * What else would show as a device that is not there, or not as asked for. No
 * lock held: the function of the log is the program's.
 */
static void tell_opened(const struct qbrt_kmd_options *options, int node,
			const struct qbnpu_soft_device *device)
{
	static atomic_flag was_told = ATOMIC_FLAG_INIT;
	const uint64_t memory = device->facts->memory;

	if (options->soft_fault_plan[0])
		qbrt_log(QBRT_LOG_LEVEL_INFO, "soft",
			 "soft:%d: fault plan \"%s\" is in force", node,
			 options->soft_fault_plan);
	if (options->soft_memory > memory && is_first(&was_told))
		qbrt_log(QBRT_LOG_LEVEL_WARN, "soft",
			 "software devices have %" PRIu64 " bytes of memory, "
			 "half of the machine's, not the %" PRIu64 " asked for",
			 memory, options->soft_memory);
}

/* To the caller -ENOENT would mean that there is no such node. */
static int refuse_backend(const struct qbrt_kmd_options *options)
{
	static atomic_flag was_told = ATOMIC_FLAG_INIT;

	if (is_first(&was_told))
		qbrt_log(QBRT_LOG_LEVEL_WARN, "soft",
			 "no software device opens: the backend onednn has no "
			 "plugin in \"%s\"",
			 options->plugin_dir);
	return -EINVAL;
}

int qbnpu_soft_registry_open(const struct qbrt_kmd_options *options, int node,
			     struct qbnpu_soft_file *file, int *number)
{
	struct registry *registry = take_registry();
	struct qbnpu_soft_device *device;
	bool is_new = false;
	int err = 0;

	if (!registry)
		return -ENOMEM;
	(void)pthread_mutex_lock(&registry->lock);
	device = find_device(registry, node);
	if (!device) {
		err = open_device(options, node, &device);
		if (err)
			goto out_unlock;
		device->next = registry->devices;
		registry->devices = device;
		is_new = true;
	}
	device->num_files++;
	file->device = device;
	file->npu = device->npu;
	err = take_slot(registry, file);
	if (err >= 0)
		*number = err;
out_unlock:
	(void)pthread_mutex_unlock(&registry->lock);
	if (err == -ENOENT)
		return refuse_backend(options);
	if (is_new)
		tell_opened(options, node, device);
	if (err == -EMFILE && device)
		qbnpu_soft_registry_close_device(device);
	return err < 0 ? err : 0;
}

void qbnpu_soft_device_unref(struct qbnpu_soft_device *device)
{
	if (atomic_fetch_sub(&device->references, 1) != 1)
		return;
	(void)pthread_cond_destroy(&device->has_event);
	(void)pthread_mutex_destroy(&device->lock);
	free(device);
}

void qbnpu_soft_registry_close_device(struct qbnpu_soft_device *device)
{
	struct registry *registry = atomic_load(&current);
	struct qbnpu_soft_device **link = &registry->devices;
	struct qbnpu_npu *npu;
	bool is_last;

	(void)pthread_mutex_lock(&registry->lock);
	is_last = !--device->num_files;
	if (is_last) {
		while (*link != device)
			link = &(*link)->next;
		*link = device->next;
	}
	(void)pthread_mutex_unlock(&registry->lock);
	if (!is_last)
		return;
	(void)pthread_mutex_lock(&device->lock);
	npu = device->npu;
	device->npu = NULL;
	(void)pthread_mutex_unlock(&device->lock);
	qbnpu_npu_close(npu);
	qbnpu_soft_device_unref(device);
}

/* ---- mappings ---- */

static int compare_mappings(const void *a, const void *b)
{
	uintptr_t left = ((const struct qbnpu_soft_mapping *)a)->address;
	uintptr_t right = ((const struct qbnpu_soft_mapping *)b)->address;

	return (left > right) - (left < right);
}

int qbnpu_soft_mapping_add(void *address, size_t length,
			   struct qbnpu_soft_buffer *buffer)
{
	struct registry *registry = get_registry();
	struct qbnpu_soft_mapping *mapping = calloc(1, sizeof(*mapping));
	struct qbnpu_soft_mapping **node;

	if (!mapping)
		return -ENOMEM;
	mapping->address = (uintptr_t)address;
	mapping->length = length;
	mapping->buffer = buffer;
	(void)pthread_mutex_lock(&registry->lock);
	node = tsearch(mapping, &registry->mappings, compare_mappings);
	if (node && *node != mapping) {
		/* a buffer's own mapping, handed out again */
		if ((*node)->length < length)
			(*node)->length = length;
	}
	if (node)
		(*node)->count++;
	if (!node || *node != mapping)
		free(mapping);
	(void)pthread_mutex_unlock(&registry->lock);
	if (!node)
		return -ENOMEM;
	if (buffer)
		atomic_fetch_add(&buffer->references, 1);
	return 0;
}

/* A number of a file that a process opened which forked this one. */
static bool is_inherited(const struct registry *registry, int number)
{
	return registry
		       ? number / NUM_SLOTS <
				 registry->slots[number % NUM_SLOTS].first_round
		       : atomic_load(&current) != NULL;
}

/* One use of a mapping less; *removed: what it was, count is what is left. */
static int remove_mapping(struct registry *registry, uintptr_t address,
			  size_t length, struct qbnpu_soft_mapping *removed)
{
	struct qbnpu_soft_mapping key = { .address = address };
	struct qbnpu_soft_mapping **node, *mapping = NULL;
	int err = -EINVAL;

	(void)pthread_mutex_lock(&registry->lock);
	node = tfind(&key, &registry->mappings, compare_mappings);
	if (node && length && length <= (*node)->length) {
		mapping = *node;
		mapping->count--;
		*removed = *mapping;
		if (!mapping->count) {
			(void)tdelete(&key, &registry->mappings,
				      compare_mappings);
			free(mapping);
		}
		err = 0;
	}
	(void)pthread_mutex_unlock(&registry->lock);
	return err;
}

/* Whose number it was does not matter: the address says which mapping it is. */
int qbnpu_soft_registry_munmap(int number, void *address, size_t length)
{
	struct registry *registry = get_registry();
	struct qbnpu_soft_mapping mapping;
	int err = -ENODEV;

	if (number < 0)
		return -ENODEV;
	if (registry)
		err = remove_mapping(registry, (uintptr_t)address, length,
				     &mapping);
	/*
	 * the parent's, whose list of mappings the child may not look at: it
	 * may have been handed out twice, so it stays until the child ends
	 */
	if (err && is_inherited(registry, number))
		return 0;
	if (err)
		return err;
	if (!mapping.count &&
	    !(mapping.buffer && mapping.buffer->memory.base == address))
		(void)munmap(address, mapping.length);
	if (mapping.buffer)
		qbnpu_soft_buffer_unref(mapping.buffer);
	return 0;
}

/* ---- accounts, tests ---- */

atomic_uint_fast64_t *qbnpu_soft_get_system_used(void)
{
	return &atomic_load(&current)->system_used;
}

pthread_mutex_t *qbnpu_soft_get_eventfd_lock(void)
{
	return &atomic_load(&current)->eventfd_lock;
}

QBRT_API struct qbnpu_npu *qbnpu_soft_npu(int number)
{
	struct registry *registry = get_registry();
	struct qbnpu_soft_device *device;
	struct qbnpu_npu *npu;

	if (!registry)
		return NULL;
	(void)pthread_mutex_lock(&registry->lock);
	device = find_device(registry, number);
	npu = device ? device->npu : NULL;
	(void)pthread_mutex_unlock(&registry->lock);
	return npu;
}
