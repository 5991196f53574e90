// SPDX-License-Identifier: MIT
/*
 * An earlier run: its records, from which the medians of its blocks are made
 * anew. A change is claimed only where the interval of the ratio excludes there
 * being none (P15), and by no noisy run (P05).
 */
#include "bench-baseline.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "qbinfo.h"

struct baseline {
	struct json_object *results; /* an array of records */
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

/* A measured record, or one that says why it is none. */
static bool is_record(struct json_object *object)
{
	return get(object, "metric", json_type_string) &&
	       get(object, "placement", json_type_string) &&
	       get(object, "environment", json_type_object) &&
	       (get(object, "reason", json_type_string) ||
		(get(object, "samples", json_type_array) &&
		 get(object, "block", json_type_array)));
}

static bool take_document(struct json_object *results,
			  struct json_object *document)
{
	struct json_object *list = get(document, "results", json_type_array);
	size_t num = list ? json_object_array_length(list) : 1;

	for (size_t i = 0; i < num; i++) {
		struct json_object *record =
			list ? json_object_array_get_idx(list, i) : document;

		if (!is_record(record))
			return false;
		(void)json_object_array_add(results, json_object_get(record));
	}
	return true;
}

/* One document, or one on each line, the last of which may tell a failure. */
static bool take_all(struct json_object *results, const char *text,
		     size_t length)
{
	struct json_tokener *tokener = json_tokener_new();
	bool is_good = tokener && length < INT32_MAX;

	while (is_good && length) {
		struct json_object *document =
			json_tokener_parse_ex(tokener, text, (int)length);
		size_t used = json_tokener_get_parse_end(tokener);

		bool is_failure = get(document, "error", json_type_object) &&
				  !get(document, "results", json_type_array);

		is_good = document &&
			  (is_failure || take_document(results, document));
		json_object_put(document);
		text += used;
		length -= used;
		used = strspn(text, " \t\r\n");
		text += used;
		length -= used;
	}
	if (tokener)
		json_tokener_free(tokener);
	return is_good && json_object_array_length(results);
}

static char *read_whole(const char *path, size_t *length)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	FILE *copy = file ? open_memstream(&text, length) : NULL;
	char part[65536];
	size_t num;
	bool is_good = copy;

	while (is_good && (num = fread(part, 1, sizeof(part), file)))
		is_good = fwrite(part, 1, num, copy) == num;
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
	is_good = take_all(read->results, text, length);
	free(text);
	if (is_good) {
		*baseline = read;
		return 0;
	}
	baseline_free(read);
	return fail(8,
		    "%s is no earlier run: expected what bench prints "
		    "as JSON",
		    path);
}

/* ---- comparing ---- */

static struct json_object *find(const struct baseline *baseline,
				const struct bench_result *result)
{
	size_t num = json_object_array_length(baseline->results);

	for (size_t i = 0; i < num; i++) {
		struct json_object *record =
			json_object_array_get_idx(baseline->results, i);

		if (!strcmp(get_text(record, "metric"), result->metric->name) &&
		    !strcmp(get_text(record, "placement"),
			    bench_placement_name(result->placement)) &&
		    get(record, "samples", json_type_array))
			return record;
	}
	return NULL;
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

	return blocks && 2 * num > (int64_t)json_object_array_length(blocks);
}

void baseline_compare(const struct baseline *baseline, struct record *record,
		      const struct bench_result *result, uint64_t seed)
{
	struct json_object *earlier = find(baseline, result);
	struct bench_interval interval;
	const char *verdict;
	double *medians;
	size_t num;

	if (!earlier || !result->series[0].num_samples)
		return;
	num = json_object_array_length(
		get(earlier, "samples", json_type_array));
	medians = inventory_alloc((num + 1) * sizeof(*medians));
	num = make_medians(earlier, medians);
	if (!num ||
	    !bench_compare_runs(result->series[0].medians, result->num_rounds,
				medians, num, seed, &interval))
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
