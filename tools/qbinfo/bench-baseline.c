// SPDX-License-Identifier: MIT
/*
 * An earlier run: its records, from which the medians of its blocks are made
 * anew. A change is claimed only where the interval of the ratio excludes there
 * being none (P15), and by no noisy run (P05).
 */
#include "bench-baseline.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qbinfo.h"

#define SCHEMA "qbinfo/bench/1"

struct baseline {
	struct json_object *results; /* an array of records */
	const char *wrong;           /* what is wrong with the file, or NULL */
};

/* ---- reading ---- */

static struct json_object *get(struct json_object *object, const char *key,
			       enum json_type type)
{
	struct json_object *member = NULL;

	return json_object_object_get_ex(object, key, &member) &&
			       json_object_is_type(member, type)
		       ? member
		       : NULL;
}

static const char *get_text(struct json_object *object, const char *key)
{
	return json_object_get_string(get(object, key, json_type_string)) ?: "";
}

/* Times, and the block of each. */
static bool has_samples(struct json_object *object)
{
	struct json_object *samples = get(object, "samples", json_type_array);
	struct json_object *blocks = get(object, "block", json_type_array);
	size_t num = samples ? json_object_array_length(samples) : 0;
	bool is_good = num && blocks && num == json_object_array_length(blocks);

	for (size_t i = 0; is_good && i < num; i++) {
		struct json_object *sample =
			json_object_array_get_idx(samples, i);
		double value = json_object_get_double(sample);

		is_good = (json_object_is_type(sample, json_type_double) ||
			   json_object_is_type(sample, json_type_int)) &&
			  isfinite(value) && value >= 0 &&
			  json_object_is_type(
				  json_object_array_get_idx(blocks, i),
				  json_type_int);
	}
	return is_good;
}

static struct json_object *find(const struct baseline *baseline,
				const char *metric, const char *placement)
{
	size_t num = json_object_array_length(baseline->results);

	for (size_t i = 0; i < num; i++) {
		struct json_object *record =
			json_object_array_get_idx(baseline->results, i);

		if (!strcmp(get_text(record, "metric"), metric) &&
		    !strcmp(get_text(record, "placement"), placement))
			return record;
	}
	return NULL;
}

/* A measured record, or one that says why it is none. */
static bool take_record(struct baseline *baseline, struct json_object *record)
{
	const char *metric = get_text(record, "metric");
	const char *placement = get_text(record, "placement");

	if (!*metric || !*placement ||
	    !get(record, "environment", json_type_object))
		return false;
	if (find(baseline, metric, placement)) {
		baseline->wrong =
			inventory_format("it has %s %s twice, and one run is "
					 "compared with",
					 metric, placement);
		return false;
	}
	if (!get(record, "reason", json_type_string) &&
	    (strcmp(get_text(record, "unit"), "ns") != 0 ||
	     !has_samples(record))) {
		baseline->wrong = inventory_format(
			"of %s %s samples in ns were expected, with the block "
			"of each",
			metric, placement);
		return false;
	}
	return !json_object_array_add(baseline->results,
				      json_object_get(record));
}

static bool take_document(struct baseline *baseline,
			  struct json_object *document)
{
	struct json_object *list = get(document, "results", json_type_array);
	size_t num = list ? json_object_array_length(list) : 1;
	const char *schema = get_text(document, "schema");

	if (list && strcmp(schema, SCHEMA) != 0) {
		baseline->wrong = inventory_format(
			"its schema is %s, and " SCHEMA " was expected",
			*schema ? schema : "none");
		return false;
	}
	for (size_t i = 0; i < num; i++)
		if (!take_record(baseline,
				 list ? json_object_array_get_idx(list, i)
				      : document))
			return false;
	return true;
}

/* One document, or one on each line, the last of which may tell a failure. */
static bool take_all(struct baseline *baseline, const char *text, size_t length)
{
	struct json_tokener *tokener = json_tokener_new();
	bool is_good = tokener;

	while (is_good && length) {
		struct json_object *document =
			json_tokener_parse_ex(tokener, text, (int)length);
		size_t used = json_tokener_get_parse_end(tokener);

		bool is_failure = get(document, "error", json_type_object) &&
				  !get(document, "results", json_type_array);

		is_good = document &&
			  (is_failure || take_document(baseline, document));
		json_object_put(document);
		text += used;
		length -= used;
		used = strspn(text, " \t\r\n");
		text += used;
		length -= used;
	}
	if (tokener)
		json_tokener_free(tokener);
	return is_good && json_object_array_length(baseline->results);
}

static char *read_whole(const char *path, size_t *length)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	FILE *copy = file ? open_memstream(&text, length) : NULL;
	char part[65536];
	size_t num, left = INT32_MAX; /* json-c takes no more */
	bool is_good = copy;

	while (is_good && (num = fread(part, 1, sizeof(part), file))) {
		is_good = num < left && fwrite(part, 1, num, copy) == num;
		if (num >= left)
			errno = EFBIG;
		left -= num;
	}
	is_good = is_good && !ferror(file);
	if (copy)
		(void)fclose(copy);
	if (file)
		(void)fclose(file);
	if (is_good)
		return text;
	free(text);
	return NULL;
}

void baseline_free(struct baseline *baseline)
{
	if (baseline)
		json_object_put(baseline->results);
}

int baseline_read(const char *path, struct baseline **baseline)
{
	struct baseline *read = inventory_alloc(sizeof(*read));
	size_t length = 0;
	char *text = read_whole(path, &length);
	bool is_good;

	if (!text)
		return fail(8, "%s cannot be read: %s", path, strerror(errno));
	read->results = json_object_new_array();
	is_good = take_all(read, text, length);
	free(text);
	if (is_good) {
		*baseline = read;
		return 0;
	}
	baseline_free(read);
	return fail(
		8, "%s is no earlier run: %s", path,
		read->wrong
			?: "expected what bench --json or --jsonl prints, without "
			   "-o");
}

/* ---- comparing ---- */

bool baseline_has(const struct baseline *baseline,
		  const struct bench_metric *metric,
		  enum bench_placement placement)
{
	struct json_object *record =
		find(baseline, metric->name, bench_placement_name(placement));

	return get(record, "samples", json_type_array);
}

/* The median of each run of samples of one block; how many there are. */
static size_t make_medians(struct json_object *record, double *medians)
{
	struct json_object *samples = get(record, "samples", json_type_array);
	struct json_object *blocks = get(record, "block", json_type_array);
	size_t num = json_object_array_length(samples);
	double *values = inventory_alloc((num + 1) * sizeof(*values));
	size_t num_medians = 0;
	size_t begin = 0;

	for (size_t i = 0; i < num; i++) {
		struct bench_statistics statistics;
		struct json_object *next =
			json_object_array_get_idx(blocks, i + 1);

		values[i] = json_object_get_double(
			json_object_array_get_idx(samples, i));
		if (i + 1 < num &&
		    json_object_equal(json_object_array_get_idx(blocks, i),
				      next))
			continue;
		if (!bench_compute_statistics(values + begin, i + 1 - begin,
					      &statistics))
			return 0;
		/* a ratio needs something to divide by */
		if (statistics.p50 > 0)
			medians[num_medians++] = statistics.p50;
		begin = i + 1;
	}
	return num_medians;
}

static bool was_noisy(struct json_object *record)
{
	struct json_object *environment =
		get(record, "environment", json_type_object);
	struct json_object *blocks =
		get(environment, "blocks", json_type_array);
	int64_t num = json_object_get_int64(
		get(environment, "noisy_blocks", json_type_int));

	return blocks && num > (int64_t)json_object_array_length(blocks) / 2;
}

void baseline_compare(const struct baseline *baseline, struct record *record,
		      const struct bench_result *result, uint64_t seed)
{
	struct json_object *earlier =
		find(baseline, result->metric->name,
		     bench_placement_name(result->placement));
	struct bench_interval interval;
	const char *verdict;
	double *medians;
	size_t num;

	if (!result->series[0].num_samples ||
	    !baseline_has(baseline, result->metric, result->placement))
		return;
	num = json_object_array_length(
		get(earlier, "samples", json_type_array));
	medians = inventory_alloc((num + 1) * sizeof(*medians));
	num = make_medians(earlier, medians);
	if (!num ||
	    !bench_compare_runs(result->series[0].medians, result->num_rounds,
				medians, num, seed, &interval) ||
	    !isfinite(interval.high))
		return;
	if (2 * result->num_noisy > result->num_blocks || was_noisy(earlier))
		verdict = "noisy";
	else if (interval.low > 1)
		verdict = "slower";
	else
		verdict = interval.high < 1 ? "faster" : "within_noise";
	set_number(record, FIELD_RESULT_BASELINE, interval.value);
	set_number(record, FIELD_RESULT_BASELINE_LOW, interval.low);
	set_number(record, FIELD_RESULT_BASELINE_HIGH, interval.high);
	set_text(record, FIELD_RESULT_BASELINE_VERDICT, verdict);
}
