/* SPDX-License-Identifier: MIT */
/*
 * stat: ticks that do not drift (stat-ticks.c), what a device tells at each of
 * them (stat-read.c), and what two such readings make (stat-rate.c).
 */
#ifndef QBINFO_STAT_H
#define QBINFO_STAT_H

#include "inventory.h"

/*
 * Tick k is at start + k * interval. One that is late by an interval or more is
 * skipped, so records + missed is the number of the last tick.
 */
struct stat_ticks {
	int64_t (*now)(void);
	/* may return early */
	void (*wait_until)(int64_t instant);
	int64_t start, interval; /* ns */
	uint64_t records, missed;
};

void stat_ticks_start(struct stat_ticks *ticks);
/* Waits for the next tick. */
void stat_ticks_wait(struct stat_ticks *ticks);

struct stat_core {
	uint64_t cluster, core;
	bool is_known;
	uint64_t busy; /* ns */
};

enum stat_count {
	STAT_SUBMITTED,
	STAT_COMPLETED,
	STAT_FAILED,
	STAT_BUSY,
	STAT_WAIT,
	STAT_NUM_COUNTS
};

/* What rates are made of. */
struct stat_reading {
	int64_t monotonic; /* ns; negative: not known */
	bool is_known[STAT_NUM_COUNTS];
	uint64_t counts[STAT_NUM_COUNTS];
	struct stat_core *cores;
	size_t num_cores, max_cores;
};

void stat_add_core(struct stat_reading *reading, const struct stat_core *core);
/* The counters of the device's record. */
void stat_keep_counts(struct stat_reading *reading,
		      const struct record *device);
/*
 * Fills the sample: what device tells now, and rates since the reading before.
 * num_cores: of the device, 0: not known.
 */
void stat_set_sample(struct record *sample, const struct record *device,
		     const struct stat_reading *before,
		     const struct stat_reading *now, uint64_t num_cores);

struct json_object;
struct qbrt_accelerator;

struct stat_device {
	struct record *info; /* of the inventory */
	bool is_gone;
	struct stat_reading readings[2]; /* by turns */
	size_t turn;
	/* live */
	struct qbrt_accelerator *acc;
	/* recorded: the reply, what is in force of its queries, and its list */
	struct json_object *reply, *query, *later;
	size_t num_later, next;
};

/* An exit code: of a device that cannot be opened. */
int stat_open(struct stat_device *device, struct record *info);
void stat_close(struct stat_device *device);
/* Whether there is another reading to come. */
bool stat_has_more(const struct stat_device *device);
/* The first reading, which rates begin at. */
void stat_read_first(struct stat_device *device, const struct record *tool);
/* The next reading; what it and the one before make goes into the sample. */
void stat_read_next(struct stat_device *device, const struct record *tool,
		    struct record *sample);

/* CLOCK_MONOTONIC; of a captured system an own one that jumps. */
int64_t stat_now(void);
void stat_wait_until(int64_t instant);

#endif
