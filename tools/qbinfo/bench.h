/* SPDX-License-Identifier: MIT */
/*
 * What the programs of tests/bench/ and `qbinfo bench` share: a probe does one
 * thing and says how long it took, a metric sets a probe beside its floor and
 * peer, bench_measure measures it by the rules of docs/spec/performance.md,
 * section 2; bench-record.h makes the record of section 7 of that.
 *
 * Sides alternate in blocks, in an order drawn from a printed seed; each block
 * knows the pressure on the machine. Nothing here judges a noisy run.
 */
#ifndef QBINFO_BENCH_H
#define QBINFO_BENCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bits, so that a metric can have several. */
enum bench_placement {
	BENCH_ONE = 1,   /* a single thread does it all, pinned */
	BENCH_SAME = 2,  /* both threads pinned to one CPU */
	BENCH_CROSS = 4, /* each to a CPU of its own */
	BENCH_FREE = 8,  /* not pinned */
};
#define BENCH_NUM_PLACEMENTS 4

/* What the probes of one measurement are opened for. */
struct bench_case {
	enum bench_placement placement;
	size_t size; /* bytes, of metrics that have a size */
	const struct bench_probe *probe; /* the one that is opened */
};

/* Totals of the measured object. */
struct bench_counters {
	uint64_t jobs;
	uint64_t copied_nbytes;
};

struct bench_probe {
	const char *name;    /* of a floor its row first: F1, F2, ... */
	const char *version; /* NULL: ours */
	/*
	 * NULL: cannot be measured here, bench_set_reason was told why. The
	 * caller is not pinned yet; threads of the probe's own are placed by
	 * bench_place.
	 */
	void *(*open)(const struct bench_case *bench_case);
	/* Does it num times; the ns that took, negative: no result, or a
	 * wrong one, see bench_set_wrong. */
	int64_t (*run)(void *state, uint32_t num);
	void (*close)(void *state);
	/* NULL: it counts nothing */
	void (*count)(const void *state, struct bench_counters *counters);
	bool is_single; /* a sample is one call, however short it says it is */
};

struct bench_metric {
	const char *name;
	const char *row;
	unsigned int placements; /* enum bench_placement */
	size_t size;
	const struct bench_probe *subject;
	const struct bench_probe *floor; /* NULL: none */
	const struct bench_probe *peer;  /* NULL: none */
	/* met: p50 <= factor * the floor's p50 + extra_ns */
	double factor;
	double extra_ns;
	/* met: what the floor takes beyond the subject is >= this x peer's */
	double gain;
	const char *target; /* in words; NULL: none */
	bool is_rate;       /* inferences in flight: also told per second */
};

/* ---- bench-main.c ---- */

/* The device that the program measures; id NULL: none so far. */
extern const char *bench_device, *bench_kind, *bench_backend;

/* Options of section 6; what main returns: 0, 1 a wrong result, 2 usage. */
int bench_main(int argc, char **argv, const struct bench_metric *metrics,
	       size_t num_metrics);

/* Why an open returned NULL, or a metric cannot be measured; kept, not copied. */
void bench_set_reason(const char *reason);
const char *bench_get_reason(void);
/*
 * What came in the place of a result while a probe was opened or ran, "a failed
 * job", and, if there is any, its detail. Copied; NULL: nothing did, so far as
 * the metric has come.
 */
void bench_set_wrong(const char *what, const char *detail);
const char *bench_get_wrong(void);

/* ---- bench-stat.c ---- */

struct bench_random {
	uint64_t state;
};
uint64_t bench_random_next(struct bench_random *random);
/* Puts 0 .. num - 1 into order, by chance. */
void bench_random_order(struct bench_random *random, unsigned int *order,
			unsigned int num);

struct bench_statistics {
	double min, p50, p90, p99;
	size_t count;
};
/* Of num > 0 values, which stay as they are; false: no memory. */
bool bench_compute_statistics(const double *values, size_t num,
			      struct bench_statistics *statistics);

/* Median, and the 95 % interval of it over resampled blocks. */
struct bench_interval {
	double value, low, high;
};
bool bench_compute_interval(const double *values, size_t num, uint64_t seed,
			    struct bench_interval *interval);
/* Of the medians' ratio of two runs, which are not paired. */
bool bench_compare_runs(const double *now, size_t num_now, const double *then,
			size_t num_then, uint64_t seed,
			struct bench_interval *interval);

/* ---- bench-place.c ---- */

const char *bench_placement_name(enum bench_placement placement);
/* false: no such name */
bool bench_placement_from_name(const char *name,
			       enum bench_placement *placement);

/* CPUs that the process was started with. */
unsigned int bench_count_cpus(void);
/* true: they are enough. */
bool bench_can_place(enum bench_placement placement);

/* Pins a thread of this process: 0 is the measuring one, 1 its partner. */
void bench_place(enum bench_placement placement, unsigned int index, pid_t tid);
/* Back to the CPUs that the process was started with. */
void bench_unplace(pid_t tid);

/* The thread of this process with that name, 0: none. */
pid_t bench_find_thread(const char *name);
/* Returns when the thread sleeps in the kernel. */
void bench_wait_asleep(pid_t tid);

/* The state of the machine around a block. */
struct bench_load {
	double pressure;      /* PSI, some avg10 of cpu, percent; -1: unknown */
	uint64_t steal;       /* ticks of all CPUs, since boot */
	uint64_t ticks;       /* the same of everything */
	uint64_t involuntary; /* switches of this process */
};
void bench_read_load(struct bench_load *load);
/* P05: above 20 % of pressure or of steal. */
bool bench_is_noisy(const struct bench_load *before,
		    const struct bench_load *after);

/* ---- bench-run.c ---- */

#define BENCH_MAX_SIDES 3 /* subject, floor, peer */

/* What one probe gave. */
struct bench_series {
	const struct bench_probe *probe;
	void *state;
	uint32_t batch; /* calls of one sample */
	double first;   /* of the first call */
	double *samples;
	uint32_t *blocks; /* of each sample */
	size_t num_samples, max_samples;
	double *medians; /* by round */
	struct bench_statistics statistics;
};

struct bench_block {
	uint32_t side;
	bool is_noisy;
	struct bench_load before, after;
};

struct bench_options {
	double seconds; /* of one metric, at least ten pairs */
	uint64_t seed;
	bool is_smoke;    /* one call of each side, nothing is measured */
	int64_t block_ns; /* a block ends then at the latest; 0: 0.5 s */
};

enum bench_verdict {
	BENCH_MET,
	BENCH_MISSED,
	BENCH_NOISY,
	BENCH_NOT_MEASURED,
	BENCH_NO_TARGET, /* a floor, however noisy */
};
const char *bench_verdict_name(enum bench_verdict verdict);

struct bench_result {
	const struct bench_metric *metric;
	enum bench_placement placement;
	struct bench_series series[BENCH_MAX_SIDES]; /* probe NULL: none */
	struct bench_block *blocks;
	uint32_t num_blocks, max_blocks, num_noisy, num_rounds, max_rounds;
	struct bench_interval ratio, difference; /* to the floor */
	bool has_counters;
	struct bench_counters counters; /* of the subject */
	enum bench_verdict verdict;
	const char *reason; /* not measured: why */
};

/* Grows with every sample: what hangs does not. */
extern atomic_uint bench_num_steps;

int64_t bench_now_ns(void);
/* User and system time of this thread. */
int64_t bench_thread_cpu_ns(void);

/* 0, or -EIO: a probe gave a wrong result, -ENOMEM. */
int bench_measure(const struct bench_metric *metric,
		  enum bench_placement placement,
		  const struct bench_options *options,
		  struct bench_result *result);
void bench_result_free(struct bench_result *result);

/* ---- bench-floor*.c: section 3 ---- */

extern const struct bench_probe bench_floor_syscall;      /* F1 */
extern const struct bench_probe bench_floor_ioctl;        /* F1 */
extern const struct bench_probe bench_floor_clock;        /* F2 */
extern const struct bench_probe bench_floor_spin;         /* F3 */
extern const struct bench_probe bench_floor_futex;        /* F4 */
extern const struct bench_probe bench_floor_eventfd;      /* F5 */
extern const struct bench_probe bench_floor_spin_futex;   /* F6 */
extern const struct bench_probe bench_floor_wake_nobody;  /* F7 */
extern const struct bench_probe bench_floor_wake;         /* F7 */
extern const struct bench_probe bench_floor_futex_shared; /* F8 */
extern const struct bench_probe bench_floor_socket;       /* F9 */
extern const struct bench_probe bench_floor_socket_fd;    /* F9 */
extern const struct bench_probe bench_floor_map;          /* F10 */
extern const struct bench_probe bench_floor_memcpy;       /* F11 */
extern const struct bench_probe bench_floor_memset;       /* F19 */
extern const struct bench_probe bench_floor_load;         /* a plain load */

/* ---- sets of metrics: bench-floor.c, bench-dispatch.c, bench-memory.c ---- */

extern const struct bench_metric bench_floors[], bench_dispatch[],
	bench_memory[];
extern const size_t bench_num_floors, bench_num_dispatch, bench_num_memory;

#endif
