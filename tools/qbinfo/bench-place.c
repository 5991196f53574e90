// SPDX-License-Identifier: MIT
/*
 * Where threads run, and what else runs on the machine (P04, P05). CPUs are
 * those that the process was started with, lowest first.
 */
#include "bench.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define NOISE_PERCENT 20.0
/* fewer ticks say nothing about a share */
#define MIN_TICKS 20

static const char *const placement_names[BENCH_NUM_PLACEMENTS] = {
	"one", "same", "cross", "free"
};

const char *bench_placement_name(enum bench_placement placement)
{
	return placement_names[__builtin_ctz(placement)];
}

bool bench_placement_from_name(const char *name,
			       enum bench_placement *placement)
{
	for (unsigned int i = 0; i < BENCH_NUM_PLACEMENTS; i++) {
		if (strcmp(name, placement_names[i]) != 0)
			continue;
		*placement = (enum bench_placement)(1u << i);
		return true;
	}
	return false;
}

/* The CPUs at the first call, which is before anything was pinned. */
static const cpu_set_t *get_start_cpus(void)
{
	static cpu_set_t cpus;

	if (!CPU_COUNT(&cpus) && sched_getaffinity(0, sizeof(cpus), &cpus))
		CPU_SET(0, &cpus);
	return &cpus;
}

unsigned int bench_count_cpus(void)
{
	return (unsigned int)CPU_COUNT(get_start_cpus());
}

bool bench_can_place(enum bench_placement placement)
{
	return placement != BENCH_CROSS || bench_count_cpus() > 1;
}

void bench_place(enum bench_placement placement, unsigned int index, pid_t tid)
{
	const cpu_set_t *all = get_start_cpus();
	cpu_set_t cpus;
	unsigned int nth = placement == BENCH_CROSS ? index : 0;
	int cpu = 0;

	if (placement == BENCH_FREE)
		return;
	for (;; cpu++) {
		if (CPU_ISSET(cpu, all) && !nth--)
			break;
	}
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	(void)sched_setaffinity(tid, sizeof(cpus), &cpus);
}

void bench_unplace(pid_t tid)
{
	(void)sched_setaffinity(tid, sizeof(cpu_set_t), get_start_cpus());
}

static bool read_line(const char *path, char *line, int size)
{
	FILE *file = fopen(path, "re");
	bool is_read;

	if (!file)
		return false;
	is_read = fgets(line, size, file);
	(void)fclose(file);
	return is_read;
}

pid_t bench_find_thread(const char *name)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	pid_t found = 0;

	while (dir && !found && (entry = readdir(dir))) {
		char path[300];
		char line[64] = "";

		(void)snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
			       entry->d_name);
		if (read_line(path, line, sizeof(line)) &&
		    !strncmp(line, name, strlen(name)))
			found = (pid_t)strtol(entry->d_name, NULL, 10);
	}
	if (dir)
		(void)closedir(dir);
	return found;
}

void bench_wait_asleep(pid_t tid)
{
	char path[64];
	char line[512];
	const char *end;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	do {
		if (!read_line(path, line, sizeof(line)))
			return;
		end = strrchr(line, ')');
		if (end && end[2] == 'S')
			return;
		(void)sched_yield();
	} while (end);
}

void bench_read_load(struct bench_load *load)
{
	struct rusage usage;
	char line[512];
	const char *at;
	char *end;

	*load = (struct bench_load){ .pressure = -1 };
	if (read_line("/proc/pressure/cpu", line, sizeof(line))) {
		at = strstr(line, "avg10=");
		if (at)
			load->pressure = strtod(at + 6, NULL);
	}
	/* cpu user nice system idle iowait irq softirq steal ... */
	if (read_line("/proc/stat", line, sizeof(line)) &&
	    !strncmp(line, "cpu ", 4)) {
		end = line + 4;
		for (int i = 0; i < 8; i++) {
			uint64_t ticks = strtoull(end, &end, 10);

			load->ticks += ticks;
			load->steal = ticks;
		}
	}
	if (!getrusage(RUSAGE_SELF, &usage))
		load->involuntary = (uint64_t)usage.ru_nivcsw;
}

bool bench_is_noisy(const struct bench_load *before,
		    const struct bench_load *after)
{
	uint64_t ticks = after->ticks - before->ticks;
	uint64_t steal = after->steal - before->steal;

	return before->pressure > NOISE_PERCENT ||
	       after->pressure > NOISE_PERCENT ||
	       (ticks >= MIN_TICKS &&
		100.0 * (double)steal / (double)ticks > NOISE_PERCENT);
}
