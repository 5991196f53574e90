// SPDX-License-Identifier: MIT
/* The record of section 7: everything from which a reader recomputes (P07). */
#include "bench.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>
#include <sys/utsname.h>

#include <qbruntime/qbrt.h>

/* Variables that change what is measured (P13): those with these beginnings. */
static const char *const prefixes[] = { "OPENBLAS_", "OMP_",   "KMP_",
					"ONEDNN_",   "DNNL_",  "MKL_",
					"POCL_",     "OCL_",   "QBRUNTIME_",
					"MALLOC_",   "GLIBC_", "LD_PRE",
					"MACCEL_" };

extern char **environ;

static void add_text(struct json_object *object, const char *key,
		     const char *text)
{
	(void)json_object_object_add(
		object, key, text ? json_object_new_string(text) : NULL);
}

static void add_number(struct json_object *object, const char *key,
		       double value)
{
	(void)json_object_object_add(object, key,
				     json_object_new_double(value));
}

static void add_count(struct json_object *object, const char *key,
		      uint64_t value)
{
	(void)json_object_object_add(object, key,
				     json_object_new_uint64(value));
}

static void add_samples(struct json_object *object,
			const struct bench_series *series)
{
	struct json_object *samples =
		json_object_new_array_ext((int)series->num_samples);
	struct json_object *blocks =
		json_object_new_array_ext((int)series->num_samples);

	for (size_t i = 0; i < series->num_samples; i++) {
		(void)json_object_array_add(
			samples, json_object_new_double(series->samples[i]));
		(void)json_object_array_add(
			blocks, json_object_new_uint64(series->blocks[i]));
	}
	(void)json_object_object_add(object, "samples", samples);
	(void)json_object_object_add(object, "block", blocks);
}

/* What a subject, a floor and a peer have alike. */
static void add_series(struct json_object *object,
		       const struct bench_series *series)
{
	add_samples(object, series);
	add_number(object, "min", series->statistics.min);
	add_number(object, "p50", series->statistics.p50);
	add_number(object, "p90", series->statistics.p90);
	add_number(object, "p99", series->statistics.p99);
	add_count(object, "count", series->statistics.count);
	add_number(object, "first", series->first);
	add_count(object, "batch", series->batch);
}

static void add_other(struct json_object *object, const char *key,
		      const struct bench_series *series)
{
	struct json_object *other = NULL;

	if (series->probe) {
		other = json_object_new_object();
		add_text(other, "name", series->probe->name);
		add_text(other, "version", series->probe->version);
		add_text(other, "settings", "one thread");
		add_series(other, series);
	}
	(void)json_object_object_add(object, key, other);
}

static void add_interval(struct json_object *object, const char *key,
			 const struct bench_interval *interval)
{
	struct json_object *member = json_object_new_object();

	add_number(member, "value", interval->value);
	add_number(member, "low", interval->low);
	add_number(member, "high", interval->high);
	(void)json_object_object_add(object, key, member);
}

static struct json_object *make_blocks(const struct bench_result *result)
{
	static const char *const sides[] = { "subject", "floor", "peer" };
	struct json_object *blocks = json_object_new_array();

	for (uint32_t i = 0; i < result->num_blocks; i++) {
		const struct bench_block *block = &result->blocks[i];
		struct json_object *entry = json_object_new_object();

		add_text(entry, "side", sides[block->side]);
		add_number(entry, "psi_before", block->before.pressure);
		add_number(entry, "psi_after", block->after.pressure);
		add_count(entry, "involuntary",
			  block->after.involuntary - block->before.involuntary);
		add_count(entry, "steal_ticks",
			  block->after.steal - block->before.steal);
		add_count(entry, "ticks",
			  block->after.ticks - block->before.ticks);
		(void)json_object_object_add(
			entry, "noisy",
			json_object_new_boolean(block->is_noisy));
		(void)json_object_array_add(blocks, entry);
	}
	return blocks;
}

/* The first line of /proc/cpuinfo that begins with key, behind its colon. */
static void read_cpuinfo(const char *key, char *value, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[8192];

	value[0] = 0;
	while (file && fgets(line, sizeof(line), file)) {
		const char *at = strchr(line, ':');

		if (strncmp(line, key, strlen(key)) != 0 || !at)
			continue;
		(void)snprintf(value, size, "%s", at + 2);
		value[strcspn(value, "\n")] = 0;
		break;
	}
	if (file)
		(void)fclose(file);
}

static const char *find_isa(void)
{
	char flags[8192];

	read_cpuinfo("flags", flags, sizeof(flags));
	if (strstr(flags, "avx512_vnni"))
		return "avx512-vnni";
	if (strstr(flags, "avx512f"))
		return "avx512";
	if (strstr(flags, "avx2"))
		return "avx2";
	return *flags ? "sse" : "unknown";
}

static struct json_object *make_variables(void)
{
	struct json_object *variables = json_object_new_array();

	for (char **entry = environ; *entry; entry++)
		for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes);
		     i++)
			if (!strncmp(*entry, prefixes[i], strlen(prefixes[i])))
				(void)json_object_array_add(
					variables,
					json_object_new_string(*entry));
	return variables;
}

static struct json_object *make_environment(const struct bench_result *result,
					    const struct bench_options *options,
					    const char *command)
{
	struct json_object *environment = json_object_new_object();
	struct utsname kernel;
	char text[512];

	if (!uname(&kernel)) {
		(void)snprintf(text, sizeof(text), "%s %s %s", kernel.sysname,
			       kernel.release, kernel.machine);
		add_text(environment, "kernel", text);
	}
	read_cpuinfo("model name", text, sizeof(text));
	add_text(environment, "cpu", text);
	add_count(environment, "cpus_allowed", bench_count_cpus());
	add_text(environment, "compiler", __VERSION__);
	add_text(environment, "build_flags", BENCH_BUILD_FLAGS);
	add_text(environment, "version", qbrt_version());
	add_text(environment, "commit", qbrt_git_version());
	add_count(environment, "seed", options->seed);
	add_text(environment, "command", command);
	(void)json_object_object_add(environment, "variables",
				     make_variables());
	(void)json_object_object_add(environment, "blocks",
				     make_blocks(result));
	add_count(environment, "noisy_blocks", result->num_noisy);
	return environment;
}

/* What a run cannot count by itself is null: count-steady does (P134). */
static struct json_object *make_counters(const struct bench_result *result)
{
	struct json_object *counters;

	if (!result->has_counters)
		return NULL;
	counters = json_object_new_object();
	add_count(counters, "jobs", result->counters.jobs);
	add_count(counters, "copied_nbytes", result->counters.copied_nbytes);
	add_text(counters, "heap_allocations", NULL);
	add_text(counters, "system_calls", NULL);
	return counters;
}

static struct json_object *make_record(const struct bench_result *result,
				       const struct bench_options *options,
				       const char *command)
{
	const struct bench_metric *metric = result->metric;
	const struct bench_series *subject = &result->series[0];
	struct json_object *record = json_object_new_object();

	add_text(record, "schema", "qbinfo/bench/1");
	add_text(record, "metric", metric->name);
	add_text(record, "row", metric->row);
	add_text(record, "unit", "ns");
	add_text(record, "placement", bench_placement_name(result->placement));
	add_text(record, "device", bench_device);
	add_text(record, "kind", bench_device ? "software" : NULL);
	add_text(record, "backend", bench_device ? "ref" : NULL);
	add_text(record, "cpu_isa", find_isa());
	add_text(record, "target", metric->target);
	add_text(record, "verdict",
		 result->verdict == BENCH_NO_TARGET
			 ? NULL
			 : bench_verdict_name(result->verdict));
	add_text(record, "reason", result->reason);
	(void)json_object_object_add(
		record, "environment",
		make_environment(result, options, command));
	(void)json_object_object_add(record, "counters", make_counters(result));
	if (!subject->num_samples)
		return record;
	add_series(record, subject);
	add_other(record, "floor", &result->series[1]);
	add_other(record, "peer", &result->series[2]);
	if (metric->floor) {
		add_interval(record, "ratio", &result->ratio);
		add_interval(record, "difference_ns", &result->difference);
	}
	return record;
}

int bench_write_record(FILE *file, const struct bench_result *result,
		       const struct bench_options *options, const char *command)
{
	struct json_object *record;
	const char *text;
	int err = -ENOMEM;

	if (json_c_set_serialization_double_format("%.6g",
						   JSON_C_OPTION_GLOBAL))
		return -ENOMEM;
	record = make_record(result, options, command);
	text = json_object_to_json_string_ext(
		record,
		JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	if (text)
		err = fputs(text, file) < 0 || fputc('\n', file) < 0 ? -EIO : 0;
	(void)json_object_put(record);
	return err;
}
