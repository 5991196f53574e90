// SPDX-License-Identifier: MIT
/*
 * QUERY, and the ring of the last events. Facts come from the device model and
 * from the accounts of the file; nothing is made up: what a software device
 * does not have (sensors, firmware) is absent.
 */
#include "soft/soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

#define MAX_CORES (QBNPU_MAX_CORES + 8u)
#define MAX_VALUES (24u + QBNPU_SOFT_NUM_RULES)

/*
 * Everything that one QUERY may give, and what it is made of: more than the
 * stack of a caller's thread may have.
 */
struct answer {
	union {
		struct drm_qbnpu_query_device device;
		struct drm_qbnpu_query_memory memory;
		struct drm_qbnpu_query_core cores[MAX_CORES];
		struct drm_qbnpu_query_value values[MAX_VALUES];
		struct drm_qbnpu_query_event events[QBNPU_SOFT_NUM_EVENTS];
		uint8_t bytes[1];
	};
	struct qbnpu_core_state states[MAX_CORES];
};

/* ---- DEVICE, MEMORY, CORES ---- */

static void fill_device(const struct qbnpu_soft_file *file,
			struct drm_qbnpu_query_device *device)
{
	const struct qbnpu_npu_facts *facts = file->device->facts;

	*device = (struct drm_qbnpu_query_device){
		.uapi_major = DRM_QBNPU_MAJOR,
		.uapi_minor = DRM_QBNPU_MINOR,
		.features = DRM_QBNPU_FEATURE_SYNCOBJ_TIMELINE |
			    DRM_QBNPU_FEATURE_PROGRESS |
			    DRM_QBNPU_FEATURE_DEVICE_TIME |
			    DRM_QBNPU_FEATURE_SYNCOBJ_EVENTFD |
			    DRM_QBNPU_FEATURE_MEMFD | DRM_QBNPU_FEATURE_COPY |
			    DRM_QBNPU_FEATURE_FORCED_FAULTS,
		.isa_features = facts->caps.isa_features,
		.isa_major = QBNPU_ISA_MAJOR,
		.isa_minor = (__u16)facts->caps.isa_minor,
		.kind = DRM_QBNPU_KIND_SOFTWARE,
		.profile = facts->profile,
		.clusters = facts->clusters,
		.local_cores = facts->local_cores,
		.global_cores = facts->global_cores,
		.core_modes = facts->core_modes,
		.core_mask = facts->core_mask,
		.max_bindings = QBNPU_MAX_BINDINGS,
		.max_syncs = QBNPU_SOFT_MAX_SYNCS,
		.max_queues = QBNPU_SOFT_MAX_QUEUES,
		.max_programs = QBNPU_SOFT_MAX_PROGRAMS,
		.max_jobs = QBNPU_SOFT_MAX_JOBS,
		.results_kept = QBNPU_SOFT_NUM_RESULTS,
		.priority_min = QBNPU_SOFT_PRIORITY_MIN,
		.max_program_size = QBNPU_MAX_PROGRAM_SIZE,
		.max_bo_size = QBNPU_SOFT_MAX_BO_SIZE,
		.default_job_ns = QBNPU_SOFT_DEFAULT_JOB_NS,
		.max_job_ns = QBNPU_SOFT_MAX_JOB_NS,
		.page_size = (__u32)qbnpu_soft_get_page_size(),
		.memory_flags = DRM_QBNPU_MEMORY_COHERENT,
		.num_regions = QBNPU_SOFT_NUM_REGIONS,
		.progress_size = QBNPU_SOFT_PROGRESS_SIZE,
		.instance = facts->instance,
		.state = DRM_QBNPU_STATE_READY,
	};
	if (file->device->has_huge_pages)
		device->features |= DRM_QBNPU_FEATURE_CONTIGUOUS_LOCAL |
				    DRM_QBNPU_FEATURE_CONTIGUOUS_SYSTEM;
	if (file->device->has_udmabuf)
		device->features |= DRM_QBNPU_FEATURE_DMABUF_EXPORT |
				    DRM_QBNPU_FEATURE_DMABUF_IMPORT;
	memcpy(device->name, facts->name, sizeof(device->name));
}

/* largest_free: of a run, only a single 2 MiB page is certain. */
static void fill_memory(struct qbnpu_soft_file *file, uint32_t region,
			struct drm_qbnpu_query_memory *memory)
{
	uint64_t num_pages, num_free, used;

	qbnpu_soft_query_huge_pages(&num_pages, &num_free);
	*memory = (struct drm_qbnpu_query_memory){
		.region = region,
		.flags = DRM_QBNPU_REGION_MAPPABLE | DRM_QBNPU_REGION_CACHED |
			 DRM_QBNPU_REGION_LARGEST_KNOWN,
		.client_limit = qbnpu_soft_get_lock_limit(),
		.contiguity = file->device->has_huge_pages
				      ? DRM_QBNPU_CONTIGUITY_HUGEPAGE
				      : DRM_QBNPU_CONTIGUITY_NONE,
		.align_log2_max = QBNPU_MAX_ALIGN_LOG2,
	};
	if (region == DRM_QBNPU_REGION_LOCAL) {
		memory->total = file->device->facts->memory;
		memory->free = qbnpu_npu_get_memory_free(file->npu);
	} else {
		used = atomic_load(qbnpu_soft_get_system_used());
		memory->total = file->device->system_limit;
		memory->free = used < memory->total ? memory->total - used : 0;
	}
	if (num_free && memory->free >= QBNPU_SOFT_HUGE_SIZE)
		memory->largest_free = QBNPU_SOFT_HUGE_SIZE;
	(void)pthread_mutex_lock(&file->lock);
	memory->client_used = file->used[region];
	memory->buffers = file->num_buffers[region];
	(void)pthread_mutex_unlock(&file->lock);
}

static size_t fill_cores(struct qbnpu_soft_file *file, struct answer *answer)
{
	struct drm_qbnpu_query_core *cores = answer->cores;
	const struct qbnpu_core_state *states = answer->states;
	size_t num =
		qbnpu_npu_get_core_states(file->npu, answer->states, MAX_CORES);

	for (size_t i = 0; i < num; i++) {
		cores[i] = (struct drm_qbnpu_query_core){
			.cluster = states[i].cluster,
			.core = states[i].core,
			.kind = states[i].is_global ? DRM_QBNPU_CORE_GLOBAL
						    : DRM_QBNPU_CORE_LOCAL,
			.state = states[i].is_busy ? DRM_QBNPU_CORE_BUSY
						   : DRM_QBNPU_CORE_IDLE,
			.busy_ns = states[i].busy_ns,
			.jobs = states[i].jobs,
			.queued = states[i].queued,
			.resets = states[i].resets,
		};
	}
	return num;
}

/* ---- COUNTERS ---- */

static size_t add_value(struct drm_qbnpu_query_value *values, size_t num,
			uint32_t id, uint64_t value)
{
	values[num] = (struct drm_qbnpu_query_value){
		.id = id,
		.value = (__s64)value,
	};
	return num + 1;
}

static size_t add_rejected(struct drm_qbnpu_query_value *values, size_t num,
			   const uint64_t by_rule[QBNPU_SOFT_NUM_RULES])
{
	for (uint32_t i = 0; i < QBNPU_SOFT_NUM_RULES; i++) {
		if (by_rule[i])
			num = add_value(values, num,
					DRM_QBNPU_COUNTER_REJECTED_BY_RULE + i,
					by_rule[i]);
	}
	return num;
}

static uint64_t sum_busy(struct qbnpu_npu *npu, struct qbnpu_core_state *states)
{
	size_t num = qbnpu_npu_get_core_states(npu, states, MAX_CORES);
	uint64_t sum = 0;

	for (size_t i = 0; i < num; i++)
		sum += states[i].busy_ns;
	return sum;
}

static uint64_t read_counter(atomic_uint_fast64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Fates are the driver's, because some jobs end without the device. */
static size_t fill_counters(struct qbnpu_soft_file *file, struct answer *answer)
{
	struct drm_qbnpu_query_value *values = answer->values;
	struct qbnpu_counters *npu = qbnpu_npu_get_counters(file->npu);
	struct qbnpu_soft_fates *fates = &file->device->fates;
	const struct {
		uint32_t id;
		atomic_uint_fast64_t *counter;
	} all[] = {
		{ DRM_QBNPU_COUNTER_SUBMITTED, &fates->submitted },
		{ DRM_QBNPU_COUNTER_COMPLETED, &fates->completed },
		{ DRM_QBNPU_COUNTER_FAILED, &fates->failed },
		{ DRM_QBNPU_COUNTER_CANCELLED, &fates->cancelled },
		{ DRM_QBNPU_COUNTER_TIMEOUTS, &fates->timeouts },
		{ DRM_QBNPU_COUNTER_PROGRAMS_CREATED, &npu->programs_loaded },
		{ DRM_QBNPU_COUNTER_PROGRAMS_REJECTED,
		  &npu->programs_rejected },
		{ DRM_QBNPU_COUNTER_BYTES_READ, &npu->bytes_read },
		{ DRM_QBNPU_COUNTER_BYTES_WRITTEN, &npu->bytes_written },
		{ DRM_QBNPU_COUNTER_COPY_BYTES, &npu->copy_bytes },
		{ DRM_QBNPU_COUNTER_MACS, &npu->macs },
		{ DRM_QBNPU_COUNTER_WAIT_NS, &npu->wait_ns },
	};
	uint64_t by_rule[QBNPU_SOFT_NUM_RULES];
	size_t num = 0;

	for (size_t i = 0; i < qbrt_array_size(all); i++)
		num = add_value(values, num, all[i].id,
				read_counter(all[i].counter));
	num = add_value(values, num, DRM_QBNPU_COUNTER_BUSY_NS,
			sum_busy(file->npu, answer->states));
	for (uint32_t i = 0; i < QBNPU_SOFT_NUM_RULES; i++)
		by_rule[i] = read_counter(&npu->rejected_by_rule[i]);
	return add_rejected(values, num, by_rule);
}

/* What only the device model counts is not told per file. */
static size_t fill_client_counters(struct qbnpu_soft_file *file,
				   struct drm_qbnpu_query_value *values)
{
	const struct qbnpu_soft_counters *own = &file->counters;
	const struct {
		uint32_t id;
		const uint64_t *counter;
	} all[] = {
		{ DRM_QBNPU_COUNTER_SUBMITTED, &own->submitted },
		{ DRM_QBNPU_COUNTER_COMPLETED, &own->completed },
		{ DRM_QBNPU_COUNTER_FAILED, &own->failed },
		{ DRM_QBNPU_COUNTER_CANCELLED, &own->cancelled },
		{ DRM_QBNPU_COUNTER_TIMEOUTS, &own->timeouts },
		{ DRM_QBNPU_COUNTER_PROGRAMS_CREATED, &own->programs_loaded },
		{ DRM_QBNPU_COUNTER_PROGRAMS_REJECTED,
		  &own->programs_rejected },
		{ DRM_QBNPU_COUNTER_COPY_BYTES, &own->copy_bytes },
		{ DRM_QBNPU_COUNTER_MACS, &own->macs },
		{ DRM_QBNPU_COUNTER_BUSY_NS, &own->busy_ns },
		{ DRM_QBNPU_COUNTER_WAIT_NS, &own->wait_ns },
	};
	size_t num = 0;

	(void)pthread_mutex_lock(&file->lock);
	for (size_t i = 0; i < qbrt_array_size(all); i++)
		num = add_value(values, num, all[i].id, *all[i].counter);
	num = add_rejected(values, num, own->rejected_by_rule);
	(void)pthread_mutex_unlock(&file->lock);
	return num;
}

/* ---- EVENTS ---- */

void qbnpu_soft_event_add(struct qbnpu_soft_device *device, uint64_t file_id,
			  const struct drm_qbnpu_query_event *event)
{
	struct qbnpu_soft_event *kept;

	(void)pthread_mutex_lock(&device->lock);
	device->last_event++;
	kept = &device->events[device->last_event % QBNPU_SOFT_NUM_EVENTS];
	kept->event = *event;
	kept->event.seq = device->last_event;
	kept->event.time_ns = qbrt_now_ns();
	kept->file_id = file_id;
	(void)pthread_cond_broadcast(&device->has_event);
	(void)pthread_mutex_unlock(&device->lock);
}

/* What another file's job did shows without its queue and number (K121). */
static size_t fill_events(struct qbnpu_soft_file *file, uint64_t first,
			  struct drm_qbnpu_query_event *events)
{
	struct qbnpu_soft_device *device = file->device;
	uint64_t seq = first ? first : 1;
	size_t num = 0;

	(void)pthread_mutex_lock(&device->lock);
	if (device->last_event >= QBNPU_SOFT_NUM_EVENTS &&
	    seq <= device->last_event - QBNPU_SOFT_NUM_EVENTS)
		seq = device->last_event - QBNPU_SOFT_NUM_EVENTS + 1;
	for (; seq <= device->last_event; seq++) {
		const struct qbnpu_soft_event *kept;

		kept = &device->events[seq % QBNPU_SOFT_NUM_EVENTS];
		events[num] = kept->event;
		if (kept->file_id != file->id) {
			events[num].queue = 0;
			memset(events[num].arg, 0, sizeof(events[num].arg));
		}
		num++;
	}
	(void)pthread_mutex_unlock(&device->lock);
	return num;
}

/* device->lock guards last_event_read too: only events are about it. */
static void note_read(struct qbnpu_soft_file *file, uint64_t seq)
{
	(void)pthread_mutex_lock(&file->device->lock);
	if (seq > file->last_event_read)
		file->last_event_read = seq;
	(void)pthread_mutex_unlock(&file->device->lock);
}

int qbnpu_soft_event_poll(struct qbnpu_soft_file *file, int64_t deadline_ns)
{
	struct qbnpu_soft_device *device = file->device;
	struct timespec limit = {
		.tv_sec = deadline_ns / QBRT_NS_PER_SEC,
		.tv_nsec = deadline_ns % QBRT_NS_PER_SEC,
	};
	bool is_late = deadline_ns <= 0;
	bool has_event;

	(void)pthread_mutex_lock(&device->lock);
	while (device->last_event <= file->last_event_read && !is_late) {
		if (deadline_ns == INT64_MAX)
			(void)pthread_cond_wait(&device->has_event,
						&device->lock);
		else
			is_late = pthread_cond_timedwait(&device->has_event,
							 &device->lock,
							 &limit) == ETIMEDOUT;
	}
	has_event = device->last_event > file->last_event_read;
	(void)pthread_mutex_unlock(&device->lock);
	return has_event ? 0 : -ETIME;
}

/* ---- the request ---- */

/* Bytes of the answer and of one element of it; negative: refused. */
static int fill_answer(struct qbnpu_soft_file *file,
		       const struct drm_qbnpu_query *query,
		       struct answer *answer, size_t *size, size_t *element)
{
	size_t num = 0;

	*element = sizeof(answer->values[0]);
	switch (query->type) {
	case DRM_QBNPU_QUERY_DEVICE:
		if (query->index)
			return -EINVAL;
		fill_device(file, &answer->device);
		*size = sizeof(answer->device);
		*element = 1;
		return 0;
	case DRM_QBNPU_QUERY_MEMORY:
		if (query->index >= QBNPU_SOFT_NUM_REGIONS)
			return -EINVAL;
		fill_memory(file, query->index, &answer->memory);
		*size = sizeof(answer->memory);
		*element = 1;
		return 0;
	case DRM_QBNPU_QUERY_CORES:
		num = fill_cores(file, answer);
		*element = sizeof(answer->cores[0]);
		break;
	case DRM_QBNPU_QUERY_SENSORS:
		break;
	case DRM_QBNPU_QUERY_COUNTERS:
		num = query->flags & DRM_QBNPU_QUERY_CLIENT
			      ? fill_client_counters(file, answer->values)
			      : fill_counters(file, answer);
		break;
	case DRM_QBNPU_QUERY_FIRMWARE:
		return query->index ? -EINVAL : -EOPNOTSUPP;
	case DRM_QBNPU_QUERY_EVENTS:
		num = fill_events(file, query->index, answer->events);
		*element = sizeof(answer->events[0]);
		break;
	default:
		return -EINVAL;
	}
	*size = num * *element;
	return 0;
}

static int give_answer(struct qbnpu_soft_file *file,
		       struct drm_qbnpu_query *query, struct answer *answer)
{
	const bool is_events = query->type == DRM_QBNPU_QUERY_EVENTS;
	size_t size, element, written, skipped = 0;
	int err = fill_answer(file, query, answer, &size, &element);

	if (err)
		return err;
	if (element > 1 && !is_events) {
		/* index: the first element that is wanted */
		skipped = query->index * element;
		if (skipped > size)
			skipped = size;
	}
	size -= skipped;
	written = query->size < size ? query->size : size;
	written -= written % element;
	err = qbnpu_soft_copy_to_user(query->data, answer->bytes + skipped,
				      written);
	if (err)
		return err;
	if (is_events && written)
		note_read(file, answer->events[written / element - 1].seq);
	query->size = (__u32)size;
	return 0;
}

int qbnpu_soft_ioctl_query(struct qbnpu_soft_file *file, void *arg)
{
	struct drm_qbnpu_query *query = arg;
	struct answer *answer;
	int err;

	if (query->flags & ~DRM_QBNPU_QUERY_CLIENT ||
	    (query->flags && query->type != DRM_QBNPU_QUERY_COUNTERS))
		return -EINVAL;
	answer = malloc(sizeof(*answer));
	if (!answer)
		return -ENOMEM;
	err = give_answer(file, query, answer);
	free(answer);
	return err;
}
