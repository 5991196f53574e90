// SPDX-License-Identifier: MIT
/*
 * What a device is: profiles, facts, memory account, core states, and the
 * engine hook with the stepped engine in it.
 */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device-case.h"
#include "device/core.h"
#include "sim.h"
#include "test-util.h"
#include "util.h"

#define GIB (UINT64_C(1) << 30)

/* What happens the next time that this thread reads the clock. */
static _Thread_local void (*at_clock)(struct qbnpu_core *core);
static struct qbnpu_core *clock_core;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	void (*happen)(struct qbnpu_core * core) = at_clock;

	at_clock = NULL;
	if (happen)
		happen(clock_core);
	return __real_clock_gettime(clock, time);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static const struct {
	const char *name;
	uint32_t profile, clusters, local_cores, global_cores;
	uint64_t core_mask, memory;
} expected[] = {
	{ "aries-rb", 1, 2, 4, 1, 0x0f0f, 16 * GIB },
	{ "regulus-ra", 2, 1, 1, 0, 1, 2 * GIB },
	{ "regulus-rb", 2, 1, 1, 0, 1, 2 * GIB },
	{ "regulus-ra-usb", 2, 1, 1, 0, 1, 2 * GIB },
	{ "regulus-rb-usb", 2, 1, 1, 0, 1, 2 * GIB },
};

static uint64_t half_of_memory(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) *
	       (uint64_t)sysconf(_SC_PAGESIZE) / 2;
}

/* DV01 Q110 Q121: by round */
START_TEST(profile_follows_from_the_name)
{
	struct qbnpu_npu *npu = device_open(expected[_i].name);
	const struct qbnpu_npu_facts *facts = qbnpu_npu_get_facts(npu);
	const uint64_t memory = expected[_i].memory < half_of_memory()
					? expected[_i].memory
					: half_of_memory();

	ck_assert_str_eq(facts->name, expected[_i].name);
	ck_assert_uint_eq(facts->profile, expected[_i].profile);
	ck_assert_uint_eq(facts->clusters, expected[_i].clusters);
	ck_assert_uint_eq(facts->local_cores, expected[_i].local_cores);
	ck_assert_uint_eq(facts->global_cores, expected[_i].global_cores);
	ck_assert_uint_eq(facts->core_mask, expected[_i].core_mask);
	ck_assert_uint_eq(facts->core_modes, 1);
	ck_assert_uint_eq(facts->memory, memory);
	ck_assert_uint_eq(qbnpu_npu_get_memory_free(npu), memory);
	qbnpu_npu_close(npu);
}
END_TEST

/* Q111 */
START_TEST(unknown_names_are_refused)
{
	static const char *const names[] = { NULL, "", "aries", "aries-rb ",
					     "regulus-ra-usbx" };
	struct qbnpu_config config = { .name = names[_i] };
	struct qbnpu_npu *npu = (void *)&config;

	ck_assert_int_eq(qbnpu_npu_open(&config, &npu), -EINVAL);
	ck_assert_ptr_eq(npu, &config);
}
END_TEST

/* Q121: never above half of the machine's memory */
START_TEST(memory_is_configured_within_half_of_the_machines)
{
	struct qbnpu_config config = { .name = "aries-rb", .memory = 1 << 20 };
	struct qbnpu_npu *npu;

	ck_assert_int_eq(qbnpu_npu_open(&config, &npu), 0);
	ck_assert_uint_eq(qbnpu_npu_get_facts(npu)->memory, 1 << 20);
	qbnpu_npu_close(npu);
	config.memory = UINT64_MAX;
	ck_assert_int_eq(qbnpu_npu_open(&config, &npu), 0);
	ck_assert_uint_eq(qbnpu_npu_get_facts(npu)->memory, half_of_memory());
	qbnpu_npu_close(npu);
}
END_TEST

/* MM13: one account; what is missing is told */
START_TEST(memory_account_adds_up)
{
	const struct qbnpu_config config = { .name = "regulus-ra",
					     .memory = 10000 };
	uint64_t missing = 7;
	struct qbnpu_npu *npu;

	ck_assert_int_eq(qbnpu_npu_open(&config, &npu), 0);
	ck_assert_int_eq(qbnpu_npu_take_memory(npu, 6000, &missing), 0);
	ck_assert_uint_eq(missing, 7);
	ck_assert_uint_eq(qbnpu_npu_get_memory_free(npu), 4000);
	ck_assert_int_eq(qbnpu_npu_take_memory(npu, 4001, &missing), -ENOMEM);
	ck_assert_uint_eq(missing, 1);
	ck_assert_uint_eq(qbnpu_npu_get_memory_free(npu), 4000);
	ck_assert_int_eq(qbnpu_npu_take_memory(npu, 4000, &missing), 0);
	qbnpu_npu_give_memory(npu, 10000);
	ck_assert_uint_eq(qbnpu_npu_get_memory_free(npu), 10000);
	qbnpu_npu_close(npu);
}
END_TEST

START_TEST(instance_is_new_at_each_open)
{
	struct qbnpu_npu *first = device_open("regulus-ra");
	struct qbnpu_npu *second = device_open("regulus-ra");

	ck_assert_uint_ne(qbnpu_npu_get_facts(first)->instance,
			  qbnpu_npu_get_facts(second)->instance);
	qbnpu_npu_close(first);
	qbnpu_npu_close(second);
}
END_TEST

/* V04: offered is what has kernels, and the caps are the ISA's */
START_TEST(features_are_those_with_kernels)
{
	struct qbnpu_npu *npu = device_open("aries-rb");
	struct qbnpu_caps caps = qbnpu_npu_get_facts(npu)->caps;

	ck_assert_uint_eq(caps.isa_features, QBNPU_FEATURE_DIAG);
	caps.isa_features = qbnpu_caps_isa.isa_features;
	ck_assert_mem_eq(&caps, &qbnpu_caps_isa, sizeof(caps));
	qbnpu_npu_close(npu);
}
END_TEST

/* DV01 DV05 */
START_TEST(core_states_list_local_then_global_cores)
{
	static const uint32_t rows[][3] = {
		{ 0, 0, 0 }, { 0, 1, 0 }, { 0, 2, 0 }, { 0, 3, 0 }, { 1, 0, 0 },
		{ 1, 1, 0 }, { 1, 2, 0 }, { 1, 3, 0 }, { 0, 4, 1 }, { 1, 4, 1 },
	};
	struct qbnpu_core_state states[10], few[3];
	struct qbnpu_npu *npu = device_open("aries-rb");
	size_t i;

	ck_assert_uint_eq(qbnpu_npu_get_core_states(npu, states, 10), 10);
	for (i = 0; i < 10; i++) {
		ck_assert_uint_eq(states[i].cluster, rows[i][0]);
		ck_assert_uint_eq(states[i].core, rows[i][1]);
		ck_assert_uint_eq(states[i].is_global, rows[i][2]);
		ck_assert_uint_eq(states[i].is_busy, 0);
		ck_assert_uint_eq(states[i].jobs, 0);
	}
	memset(&few[2], 0x77, sizeof(few[2]));
	ck_assert_uint_eq(qbnpu_npu_get_core_states(npu, few, 2), 10);
	ck_assert_uint_eq(few[1].core, 1);
	ck_assert_uint_eq(few[2].core, 0x77777777);
	ck_assert_uint_eq(qbnpu_npu_get_core_states(npu, NULL, 0), 10);
	qbnpu_npu_close(npu);
	qbnpu_npu_close(NULL);
}
END_TEST

static uint64_t get_busy_ns(struct qbnpu_npu *npu)
{
	struct qbnpu_core_state state;

	ck_assert_uint_ge(qbnpu_npu_get_core_states(npu, &state, 1), 1);
	return state.busy_ns;
}

/* As a core's thread accounts for an item. */
static void end_after_5_ns(struct qbnpu_core *core)
{
	atomic_store(&core->account, 5);
}

static void begin_next(struct qbnpu_core *core)
{
	atomic_store(&core->account, 5 - qbrt_now_ns());
}

/* DV05: whatever a core does while it is asked, its time only grows */
START_TEST(busy_time_never_goes_back)
{
	struct qbnpu_npu *npu = device_open("regulus-ra");
	struct qbnpu_core *core = &npu->cores[0];
	uint64_t last;

	clock_core = core;
	/* the item ends before its time is told */
	atomic_store(&core->account, -(qbrt_now_ns() - 3));
	at_clock = end_after_5_ns;
	ck_assert_uint_eq(get_busy_ns(npu), 5);
	/* and another one begins */
	atomic_store(&core->account, 4 - qbrt_now_ns());
	at_clock = begin_next;
	ck_assert_uint_eq(get_busy_ns(npu), 5);
	/* it ended a second ago, and its end is noted after it was told */
	atomic_store(&core->account, 5 - (qbrt_now_ns() - QBRT_NS_PER_SEC));
	last = get_busy_ns(npu);
	ck_assert_uint_gt(last, QBRT_NS_PER_SEC);
	end_after_5_ns(core);
	ck_assert_uint_eq(get_busy_ns(npu), last);
	atomic_store(&core->account, (int64_t)last + 1);
	ck_assert_uint_eq(get_busy_ns(npu), last + 1);
	qbnpu_npu_close(npu);
}
END_TEST

/* A device whose engine is stepped, and jobs on it. */
struct fixture {
	struct qbnpu_npu *npu;
	struct sim sim;
	struct prog prog;
	struct device_program program;
	struct device_memory memory[3];
	struct device_job jobs[3];
};

static void begin(struct fixture *f)
{
	int i;

	f->npu = device_open("aries-rb");
	prog_copy64(&f->prog);
	device_load(f->npu, &f->prog, 0, &f->program);
	sim_attach(&f->sim, f->npu);
	for (i = 0; i < 3; i++) {
		device_memory_alloc(&f->memory[i], &f->program, 1);
		memset(device_memory_at(&f->memory[i], 0, 0), i + 1, 64);
		device_job_begin(&f->jobs[i], &f->program, &f->memory[i]);
	}
}

static void end(struct fixture *f)
{
	int i;

	for (i = 0; i < 3; i++) {
		device_job_end(&f->jobs[i]);
		device_memory_check(&f->memory[i]);
		device_memory_free(&f->memory[i]);
	}
	sim_detach(&f->sim);
	device_unload(&f->program);
	prog_end(&f->prog);
	qbnpu_npu_close(f->npu);
}

static void submit(struct fixture *f, int i)
{
	ck_assert_int_eq(qbnpu_npu_submit(f->npu, &f->jobs[i].job, NULL), 0);
}

static bool has_run(struct fixture *f, int i)
{
	return !memcmp(device_memory_at(&f->memory[i], 0, 0),
		       device_memory_at(&f->memory[i], 1, 0), 64);
}

/* DV06: two jobs in flight, finished the other way round */
START_TEST(engine_hook_lets_tests_step_jobs)
{
	const long num_threads = qbrt_test_count_threads();
	struct qbnpu_job *first, *second;
	struct fixture f;

	begin(&f);
	submit(&f, 0);
	submit(&f, 1);
	ck_assert_uint_eq(sim_num_queued(&f.sim), 2);
	first = sim_begin(&f.sim);
	second = sim_begin(&f.sim);
	ck_assert_ptr_eq(first, &f.jobs[0].job);
	ck_assert_ptr_eq(second, &f.jobs[1].job);
	ck_assert_uint_eq(sim_num_running(&f.sim), 2);
	ck_assert(!has_run(&f, 0) && !has_run(&f, 1));
	ck_assert(sim_finish(&f.sim, second, QBNPU_CAUSE_NONE));
	ck_assert(!device_job_is_done(&f.jobs[0]));
	ck_assert_int_eq(device_job_wait(&f.jobs[1]), 0);
	ck_assert(!has_run(&f, 0) && has_run(&f, 1));
	ck_assert(sim_finish(&f.sim, first, QBNPU_CAUSE_MEMORY));
	ck_assert_int_eq(device_job_wait(&f.jobs[0]), -EIO);
	ck_assert(!has_run(&f, 0));
	ck_assert(!sim_step(&f.sim));
	ck_assert_int_eq(qbrt_test_count_threads(), num_threads);
	end(&f);
}
END_TEST

/* DV06 DV02 */
START_TEST(stepped_engine_keeps_priorities_and_cancels)
{
	struct fixture f;

	begin(&f);
	f.jobs[2].job.priority = -1;
	submit(&f, 0);
	submit(&f, 1);
	submit(&f, 2);
	ck_assert_ptr_eq(sim_begin(&f.sim), &f.jobs[2].job);
	qbnpu_npu_cancel(f.npu, &f.jobs[0].job, QBNPU_CAUSE_CANCELLED);
	ck_assert_int_eq(device_job_wait(&f.jobs[0]), -ECANCELED);
	qbnpu_npu_cancel(f.npu, &f.jobs[2].job, QBNPU_CAUSE_LOST);
	ck_assert(!device_job_is_done(&f.jobs[2]));
	sim_finish_all(&f.sim);
	ck_assert_int_eq(device_job_wait(&f.jobs[2]), -ENODEV);
	ck_assert_int_eq(device_job_wait(&f.jobs[1]), 0);
	ck_assert(has_run(&f, 1) && !has_run(&f, 2));
	end(&f);
}
END_TEST

/* DV06 DV11 K087 */
START_TEST(stepped_engine_refuses_ends_late_jobs_and_runs_inline)
{
	struct fixture f;

	begin(&f);
	sim_fail_submit(&f.sim, -ENOMEM);
	ck_assert_int_eq(qbnpu_npu_submit(f.npu, &f.jobs[0].job, NULL),
			 -ENOMEM);
	ck_assert_int_eq(qbnpu_npu_run(f.npu, &f.jobs[0].job), -EBUSY);
	sim_allow_inline(&f.sim, true);
	ck_assert_int_eq(qbnpu_npu_run(f.npu, &f.jobs[0].job), 0);
	ck_assert_int_eq(device_job_wait(&f.jobs[0]), 0);
	ck_assert(has_run(&f, 0));
	f.jobs[1].job.deadline_ns = 1;
	submit(&f, 1);
	sim_wait_submitted(&f.sim, 2);
	ck_assert_int_eq(qbnpu_npu_run(f.npu, &f.jobs[2].job), -EBUSY);
	ck_assert(sim_step(&f.sim));
	ck_assert_int_eq(device_job_wait(&f.jobs[1]), -ETIMEDOUT);
	ck_assert(!has_run(&f, 1));
	end(&f);
}
END_TEST

/* npu.h: close lets what an engine still has end */
START_TEST(close_drains_the_engine)
{
	struct fixture f;

	begin(&f);
	submit(&f, 0);
	qbnpu_npu_close(f.npu);
	ck_assert_int_eq(device_job_wait(&f.jobs[0]), 0);
	ck_assert(has_run(&f, 0));
	f.npu = device_open("regulus-ra");
	f.sim.npu = f.npu;
	end(&f);
}
END_TEST

#define NUM_ITEMS 24

static atomic_bool is_trace_on;
static atomic_uint num_traced;
static struct qbnpu_trace_item traced[NUM_ITEMS + 1];

/* On any core's thread. */
static void note_item(const struct qbnpu_trace_item *item)
{
	unsigned int n = atomic_fetch_add(&num_traced, 1);

	ck_assert_uint_le(n, NUM_ITEMS);
	traced[n] = *item;
}

static void check_items(const struct qbnpu_job *job)
{
	uint64_t busy_ns = 0;
	uint32_t seen = 0;

	for (uint32_t i = 0; i < NUM_ITEMS; i++) {
		ck_assert_ptr_eq(traced[i].job, job);
		ck_assert_int_eq(traced[i].err, 0);
		ck_assert_uint_le(traced[i].core, 1);
		ck_assert_int_ge(traced[i].begin_ns, job->result.start_ns);
		ck_assert_int_ge(traced[i].end_ns, traced[i].begin_ns);
		ck_assert_int_le(traced[i].end_ns, job->result.end_ns);
		busy_ns += (uint64_t)(traced[i].end_ns - traced[i].begin_ns);
		seen |= 1u << traced[i].item;
	}
	ck_assert_uint_eq(seen, (1u << NUM_ITEMS) - 1);
	ck_assert_uint_eq(busy_ns, job->result.busy_ns);
}

/* DV01: each with its core and exact times, before its job is done. */
START_TEST(items_are_told_while_the_trace_is_on)
{
	const struct qbnpu_config config = { .name = "aries-rb",
					     .trace = note_item,
					     .is_trace_on = &is_trace_on };
	struct device_program program;
	struct device_memory memory;
	struct device_job job;
	struct qbnpu_npu *npu;
	struct prog prog;

	ck_assert_int_eq(qbnpu_npu_open(&config, &npu), 0);
	device_nop_program(&prog, 0);
	device_load(npu, &prog, 0, &program);
	device_memory_alloc(&memory, &program, NUM_ITEMS);
	for (int round = 0; round < 3; round++) {
		atomic_store(&is_trace_on, round == 1);
		device_job_begin(&job, &program, &memory);
		job.job.item_count = NUM_ITEMS;
		job.job.core_mask = 3;
		ck_assert_int_eq(device_job_submit_wait(npu, &job), 0);
		ck_assert_uint_eq(atomic_load(&num_traced),
				  round ? NUM_ITEMS : 0);
		if (round == 1)
			check_items(&job.job);
		device_job_end(&job);
	}
	qbnpu_npu_close(npu);
	device_memory_free(&memory);
	device_unload(&program);
	prog_end(&prog);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(profile_follows_from_the_name, 5),
		QBRT_LOOP_TEST(unknown_names_are_refused, 5),
		QBRT_TEST(memory_is_configured_within_half_of_the_machines),
		QBRT_TEST(memory_account_adds_up),
		QBRT_TEST(instance_is_new_at_each_open),
		QBRT_TEST(features_are_those_with_kernels),
		QBRT_TEST(core_states_list_local_then_global_cores),
		QBRT_TEST(busy_time_never_goes_back),
		QBRT_TEST(engine_hook_lets_tests_step_jobs),
		QBRT_TEST(stepped_engine_keeps_priorities_and_cancels),
		QBRT_TEST(
			stepped_engine_refuses_ends_late_jobs_and_runs_inline),
		QBRT_TEST(close_drains_the_engine),
		QBRT_TEST(items_are_told_while_the_trace_is_on),
	};

	return qbrt_test_run("npu", tests, qbrt_array_size(tests));
}
