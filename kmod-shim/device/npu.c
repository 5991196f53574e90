// SPDX-License-Identifier: MIT
/*
 * What a device is: profiles, its memory account, counters, and the choice of
 * the engine that runs jobs. The cores themselves are in core.c.
 */
#include "npu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "core-jobs.h"
#include "core.h"
#include "util.h"

#define GIB (UINT64_C(1) << 30)

/* Numbers of the uAPI. */
#define PROFILE_ARIES 1u
#define PROFILE_REGULUS 2u

struct profile {
	const char *name;
	uint32_t number;
	uint32_t clusters, local_cores, global_cores;
	uint64_t memory;
};

static const struct profile profiles[] = {
	{ "aries-rb", PROFILE_ARIES, 2, 4, 1, 16 * GIB },
	{ "regulus-ra", PROFILE_REGULUS, 1, 1, 0, 2 * GIB },
	{ "regulus-rb", PROFILE_REGULUS, 1, 1, 0, 2 * GIB },
	{ "regulus-ra-usb", PROFILE_REGULUS, 1, 1, 0, 2 * GIB },
	{ "regulus-rb-usb", PROFILE_REGULUS, 1, 1, 0, 2 * GIB },
};

/* Features whose kernels are there; the others are refused by V04. */
#define FEATURES QBNPU_FEATURE_DIAG

static const struct profile *find_profile(const char *name)
{
	size_t i;

	for (i = 0; name && i < qbrt_array_size(profiles); i++) {
		if (!strcmp(profiles[i].name, name))
			return &profiles[i];
	}
	return NULL;
}

static uint64_t compute_memory(uint64_t wanted)
{
	const long pages = sysconf(_SC_PHYS_PAGES);
	const long page_size = sysconf(_SC_PAGESIZE);
	const uint64_t half = (uint64_t)pages * (uint64_t)page_size / 2;

	if (pages <= 0 || page_size <= 0)
		return wanted;
	return wanted < half ? wanted : half;
}

static int set_facts(struct qbnpu_npu_facts *facts,
		     const struct profile *profile, uint64_t memory)
{
	uint32_t cluster;

	if (getrandom(&facts->instance, sizeof(facts->instance), 0) !=
	    (ssize_t)sizeof(facts->instance))
		return -EIO;
	memcpy(facts->name, profile->name, strlen(profile->name) + 1);
	facts->profile = profile->number;
	facts->clusters = profile->clusters;
	facts->local_cores = profile->local_cores;
	facts->global_cores = profile->global_cores;
	facts->core_modes = 1u << QBNPU_MODE_SINGLE;
	for (cluster = 0; cluster < profile->clusters; cluster++)
		facts->core_mask |= ((UINT64_C(1) << profile->local_cores) - 1)
				    << (cluster * 8);
	facts->memory = compute_memory(memory ? memory : profile->memory);
	facts->caps = qbnpu_caps_isa;
	facts->caps.isa_features = FEATURES;
	return 0;
}

int qbnpu_npu_open(const struct qbnpu_config *config, struct qbnpu_npu **npu)
{
	static const atomic_bool never;
	const struct profile *profile = find_profile(config->name);
	const struct qbnpu_kernels *kernels;
	struct qbnpu_npu *made;
	int err;

	if (!profile)
		return -EINVAL;
	err = qbnpu_kernels_select(config->backend, config->plugin_dir,
				   &kernels);
	if (err)
		return err;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	made->kernels = kernels;
	made->poison = config->poison;
	made->trace = config->trace;
	made->is_trace_on = config->trace ? config->is_trace_on : &never;
	err = qbnpu_faults_start(&made->faults, config->number,
				 config->fault_plan);
	if (err)
		goto err_free;
	err = set_facts(&made->facts, profile, config->memory);
	if (!err)
		err = qbnpu_cores_start(made);
	if (err)
		goto err_stop;
	atomic_init(&made->memory_free, made->facts.memory);
	*npu = made;
	return 0;

err_stop:
	qbnpu_faults_stop(&made->faults);
err_free:
	free(made);
	return err;
}

void qbnpu_npu_close(struct qbnpu_npu *npu)
{
	if (!npu)
		return;
	if (npu->engine)
		npu->engine->drain(npu->engine_arg);
	qbnpu_cores_stop(npu);
	qbnpu_faults_stop(&npu->faults);
	free(npu);
}

const struct qbnpu_npu_facts *qbnpu_npu_get_facts(const struct qbnpu_npu *npu)
{
	return &npu->facts;
}

/* The sum of one count of all cores' work; called with the lock held. */
static void sum_tallies(const struct qbnpu_npu *npu,
			atomic_uint_fast64_t *total, size_t offset)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i <= npu->num_cores; i++) {
		const struct qbnpu_tally *tally =
			i < npu->num_cores ? &npu->cores[i].tally : &npu->tally;
		const atomic_uint_fast64_t *count =
			(const void *)((const char *)tally + offset);

		sum += atomic_load_explicit(count, memory_order_relaxed);
	}
	atomic_store_explicit(total, sum, memory_order_relaxed);
}

struct qbnpu_counters *qbnpu_npu_get_counters(struct qbnpu_npu *npu)
{
	struct qbnpu_counters *all = &npu->counters;
	const struct {
		atomic_uint_fast64_t *total;
		size_t offset;
	} sums[] = {
		{ &all->submitted, offsetof(struct qbnpu_tally, submitted) },
		{ &all->completed, offsetof(struct qbnpu_tally, completed) },
		{ &all->failed, offsetof(struct qbnpu_tally, failed) },
		{ &all->cancelled, offsetof(struct qbnpu_tally, cancelled) },
		{ &all->timeouts, offsetof(struct qbnpu_tally, timeouts) },
		{ &all->bytes_read, offsetof(struct qbnpu_tally, bytes_read) },
		{ &all->bytes_written,
		  offsetof(struct qbnpu_tally, bytes_written) },
		{ &all->copy_bytes, offsetof(struct qbnpu_tally, copy_bytes) },
		{ &all->macs, offsetof(struct qbnpu_tally, macs) },
		{ &all->wait_ns, offsetof(struct qbnpu_tally, wait_ns) },
	};
	size_t i;

	(void)pthread_mutex_lock(&npu->lock);
	for (i = 0; i < qbrt_array_size(sums); i++)
		sum_tallies(npu, sums[i].total, sums[i].offset);
	(void)pthread_mutex_unlock(&npu->lock);
	return all;
}

/* Adds num waiting items to the shortest queues of mask, as DV02 would. */
static void spread_items(struct qbnpu_core_state *states, size_t num_states,
			 uint64_t mask, uint32_t num)
{
	while (num--) {
		struct qbnpu_core_state *shortest = NULL;
		uint32_t length, least = UINT32_MAX;
		size_t i;

		for (i = 0; i < num_states; i++) {
			const uint32_t bit =
				states[i].cluster * 8 + states[i].core;

			length = states[i].queued + states[i].is_busy;
			if (!(mask >> bit & 1) || length >= least)
				continue;
			shortest = &states[i];
			least = length;
		}
		if (!shortest)
			return;
		shortest->queued++;
	}
}

/*
 * How long the core was busy; never less than before. An item may end while the
 * clock is read, and its end is noted a little after its time: so what was
 * told of it may have been too much. Called with the lock held.
 */
static uint64_t get_busy_ns(struct qbnpu_core *core, int64_t account)
{
	const int64_t now = account < 0 ? qbrt_now_ns() : 0;
	const int64_t later = atomic_load(&core->account);
	/* no longer the running item's: then at least this is known */
	const int64_t busy = later == account ? account + now : later;

	if (busy > (int64_t)core->told_busy_ns)
		core->told_busy_ns = (uint64_t)busy;
	return core->told_busy_ns;
}

/* The local cores; called with the lock held. */
static void get_local_states(struct qbnpu_npu *npu,
			     struct qbnpu_core_state *states)
{
	const struct qbnpu_job *job;
	uint32_t i;

	for (i = 0; i < npu->num_cores; i++) {
		struct qbnpu_core *core = &npu->cores[i];
		const int64_t account = atomic_load(&core->account);

		states[i] = (struct qbnpu_core_state){
			.cluster = core->bit / 8,
			.core = core->bit % 8,
			.is_busy = account < 0,
			.queued = core->job && !core->is_running,
			.busy_ns = get_busy_ns(core, account),
			.jobs = atomic_load(&core->jobs),
		};
	}
	for (i = 0; i < QBNPU_NUM_PRIORITIES; i++) {
		for (job = npu->waiting[i].first; job; job = job->next)
			spread_items(states, npu->num_cores,
				     qbnpu_job_get_mask(npu, job),
				     job->item_count -
					     atomic_load(&job->next_item));
	}
}

size_t qbnpu_npu_get_core_states(struct qbnpu_npu *npu,
				 struct qbnpu_core_state *states,
				 size_t max_states)
{
	struct qbnpu_core_state all[QBNPU_MAX_CORES] = { 0 };
	const struct qbnpu_npu_facts *facts = &npu->facts;
	size_t num, i;

	(void)pthread_mutex_lock(&npu->lock);
	get_local_states(npu, all);
	(void)pthread_mutex_unlock(&npu->lock);
	num = npu->num_cores;
	/* a global core only coordinates, which no mode that runs needs yet */
	for (i = 0; i < (size_t)facts->clusters * facts->global_cores; i++)
		all[num++] = (struct qbnpu_core_state){
			.cluster = (uint32_t)(i / facts->global_cores),
			.core = facts->local_cores +
				(uint32_t)(i % facts->global_cores),
			.is_global = 1,
		};
	for (i = 0; i < num && i < max_states; i++)
		states[i] = all[i];
	return num;
}

int qbnpu_npu_take_memory(struct qbnpu_npu *npu, uint64_t size,
			  uint64_t *missing)
{
	uint_fast64_t available =
		atomic_load_explicit(&npu->memory_free, memory_order_relaxed);

	do {
		if (available < size) {
			*missing = size - available;
			return -ENOMEM;
		}
	} while (!atomic_compare_exchange_weak_explicit(
		&npu->memory_free, &available, available - size,
		memory_order_relaxed, memory_order_relaxed));
	return 0;
}

void qbnpu_npu_give_memory(struct qbnpu_npu *npu, uint64_t size)
{
	atomic_fetch_add_explicit(&npu->memory_free, size,
				  memory_order_relaxed);
}

uint64_t qbnpu_npu_get_memory_free(const struct qbnpu_npu *npu)
{
	return atomic_load_explicit(&npu->memory_free, memory_order_relaxed);
}

/* An engine of tests is always ready. */
int qbnpu_npu_prepare(struct qbnpu_npu *npu, const struct qbnpu_job *job)
{
	return npu->engine ? 0 : qbnpu_cores_prepare(npu, job);
}

int qbnpu_npu_submit(struct qbnpu_npu *npu, struct qbnpu_job *job,
		     uint64_t *to_wake)
{
	if (npu->engine)
		return npu->engine->submit(npu->engine_arg, job);
	return qbnpu_cores_submit(npu, job, to_wake);
}

void qbnpu_npu_wake(struct qbnpu_npu *npu, uint64_t cores)
{
	qbnpu_cores_wake(npu, cores);
}

int qbnpu_npu_run(struct qbnpu_npu *npu, struct qbnpu_job *job)
{
	if (npu->engine)
		return npu->engine->run(npu->engine_arg, job);
	return qbnpu_cores_run(npu, job);
}

void qbnpu_npu_cancel(struct qbnpu_npu *npu, struct qbnpu_job *job,
		      uint32_t cause)
{
	if (npu->engine)
		npu->engine->cancel(npu->engine_arg, job, cause);
	else
		qbnpu_cores_cancel(npu, job, cause);
}

void qbnpu_npu_set_engine(struct qbnpu_npu *npu,
			  const struct qbnpu_engine *engine, void *arg)
{
	npu->engine = engine;
	npu->engine_arg = arg;
}
