// SPDX-License-Identifier: MIT
/* Ticks: each has its place on the clock, whatever the ones before took. */
#include "stat.h"

void stat_ticks_start(struct stat_ticks *ticks)
{
	ticks->start = ticks->now();
	ticks->records = 0;
	ticks->missed = 0;
}

void stat_ticks_wait(struct stat_ticks *ticks)
{
	uint64_t next = ticks->records + ticks->missed + 1;
	uint64_t passed;

	while ((passed = (uint64_t)((ticks->now() - ticks->start) /
				    ticks->interval)) < next)
		ticks->wait_until(ticks->start +
				  (int64_t)next * ticks->interval);
	ticks->missed += passed - next;
	ticks->records++;
}
