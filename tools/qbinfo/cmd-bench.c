// SPDX-License-Identifier: MIT
/*
 * bench: what the runtime costs, beside floors of the same run. The time is
 * shared evenly among what is measured; a wrong result fails, a slow one never.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "bench-baseline.h"
#include "bench-model.h"
#include "bench-record.h"
#include "bench-subject.h"
#include "collect.h"
#include "qbinfo.h"

#define NUM_PAIRS 10 /* P02 */

static const struct {
	const char *name;
	const struct bench_metric *metrics;
	const size_t *num;
} sets[] = {
	{ "floor", bench_floors, &bench_num_floors },
	{ "dispatch", bench_dispatch, &bench_num_dispatch },
	{ "memory", bench_memory, &bench_num_memory },
	{ "model", bench_model, &bench_num_model },
};
#define NUM_SETS (sizeof(sets) / sizeof(*sets))

struct bench {
	struct request *request;
	struct document document;
	struct part *results;
	struct bench_options options;
	const char *command;
	unsigned int placements; /* enum bench_placement */
	bool has_set[NUM_SETS];
	size_t num;                /* of measurements */
	struct baseline *baseline; /* NULL: none */
};

static int choose_sets(struct bench *bench)
{
	const struct request *request = bench->request;
	bool has_model = request->has[OPTION_MODEL_FILE];

	for (size_t i = 0; i < NUM_SETS; i++)
		bench->has_set[i] =
			!request->sets.num &&
			(!has_model || sets[i].metrics == bench_model);
	for (size_t i = 0; i < request->sets.num; i++) {
		const char *list = "";
		size_t j = 0;

		while (j < NUM_SETS &&
		       strcmp(sets[j].name, request->sets.items[i]) != 0)
			j++;
		if (j < NUM_SETS) {
			bench->has_set[j] = true;
			continue;
		}
		for (j = 0; j < NUM_SETS; j++)
			list = inventory_format("%s %s", list, sets[j].name);
		return fail(2, "there is no set %s; the sets are%s",
			    request->sets.items[i], list);
	}
	if (request->devices.num > 1)
		return fail(2,
			    "bench is about one device, but %s was given, too",
			    request->devices.items[1]);
	if (has_model && !bench->has_set[NUM_SETS - 1])
		return fail(2,
			    "a model is measured by the set model, which was "
			    "not chosen");
	return 0;
}

static int choose_placements(struct bench *bench)
{
	const struct words *words = &bench->request->placements;

	bench->placements = words->num ? 0 : ~0u;
	for (size_t i = 0; i < words->num; i++) {
		enum bench_placement placement;

		if (!bench_placement_from_name(words->items[i], &placement))
			return fail(2,
				    "there is no placement %s; the placements "
				    "are one same cross free",
				    words->items[i]);
		bench->placements |= placement;
	}
	return 0;
}

/* Calls function with each metric and placement that was chosen. */
static int for_each(struct bench *bench,
		    int (*function)(struct bench *bench,
				    const struct bench_metric *metric,
				    enum bench_placement placement))
{
	int code = 0;

	for (size_t i = 0; i < NUM_SETS; i++)
		for (size_t j = 0; bench->has_set[i] && j < *sets[i].num; j++)
			for (unsigned int p = 1; p < 1u << BENCH_NUM_PLACEMENTS;
			     p *= 2)
				if (!code && sets[i].metrics[j].placements &
						     bench->placements & p)
					code = function(
						bench, &sets[i].metrics[j],
						(enum bench_placement)p);
	return code;
}

static int count(struct bench *bench, const struct bench_metric *metric,
		 enum bench_placement placement)
{
	(void)metric;
	(void)placement;
	bench->num++;
	return 0;
}

static int name(struct bench *bench, const struct bench_metric *metric,
		enum bench_placement placement)
{
	struct record *record = records_add(&bench->request->inventory.results);

	set_text(record, FIELD_RESULT_METRIC, metric->name);
	/* those without have no target either, and lack nothing */
	set_absent(record, FIELD_RESULT_ROW, REASON_ABSENT, NULL);
	set_absent(record, FIELD_RESULT_TARGET, REASON_ABSENT, NULL);
	set_text(record, FIELD_RESULT_ROW, metric->row);
	set_text(record, FIELD_RESULT_PLACEMENT,
		 bench_placement_name(placement));
	set_text(record, FIELD_RESULT_TARGET, metric->target);
	return 0;
}

static int is_in_baseline(struct bench *bench,
			  const struct bench_metric *metric,
			  enum bench_placement placement)
{
	return baseline_has(bench->baseline, metric, placement);
}

/* ---- measuring ---- */

/* What a bad result leaves: the reason, and no figure (P11). */
static int tell_wrong(struct bench_result *result, int err)
{
	const char *wrong = bench_get_wrong();

	if (err == -ENOMEM)
		return fail(1, "out of memory");
	result->series[0].num_samples = 0;
	result->verdict = BENCH_NOT_MEASURED;
	result->reason = wrong ? inventory_copy(wrong)
			       : inventory_format("a failed call: %s",
						  qbrt_error_detail());
	(void)fail(1, "%s %s: %s", result->metric->name,
		   bench_placement_name(result->placement), result->reason);
	return 0;
}

static int measure(struct bench *bench, const struct bench_metric *metric,
		   enum bench_placement placement)
{
	struct request *request = bench->request;
	struct part *results = bench->results;
	struct bench_result result;
	struct record *record;
	int err, code = 0;

	if (request->has[OPTION_VERBOSE])
		(void)fprintf(stderr, "qbinfo: measuring %s %s\n", metric->name,
			      bench_placement_name(placement));
	bench->options.block_ns =
		(int64_t)(bench->options.seconds * 1e9) /
		(NUM_PAIRS * (1 + !!metric->floor + !!metric->peer));
	bench_device = NULL;
	/* who reads a line may take as long as he likes */
	start_timer(request, inventory_format("%s %s", metric->name,
					      bench_placement_name(placement)));
	limit_each_step(request, &bench_num_steps);
	err = bench_measure(metric, placement, &bench->options, &result);
	limit_each_step(request, NULL);
	if (err)
		code = tell_wrong(&result, err);
	record = records_add(&request->inventory.results);
	bench_fill_record(record, &result, &bench->options, bench->command);
	if (metric->subject == bench_model_arrays && !result.reason)
		bench_model_set_copies(record);
	if (bench->baseline)
		baseline_compare(bench->baseline, record, &result,
				 bench->options.seed);
	bench_result_free(&result);
	if (!code && request->style.is_jsonl) {
		print_json(request->out, &bench->document, &request->style);
		results->num_printed = results->records->num;
		code = flush_output(request);
	}
	return code;
}

/* ---- what is measured ---- */

/* Of a software device that has no other. */
static const char *find_backend(const struct record *device)
{
	const struct value *value = record_see(device, FIELD_BACKENDS);

	return value->is_set && value->texts.num == 1 ? value->texts.items[0]
						      : NULL;
}

/* otherwise: what is at fault, if the status does not say it. */
static int check_status(enum qbrt_status status, int otherwise)
{
	struct failure what = { .exit = otherwise, .device = bench_setup.id };

	if (!status)
		return 0;
	if (status == QBRT_ACC_PERMISSION_DENIED)
		what.exit = 4;
	else if (status == QBRT_ACC_DEVICE_LOST)
		what.exit = 7;
	else if (status == QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY ||
		 status == QBRT_BAD_ALLOC)
		what.exit = 1;
	what.status = qbrt_status_name(status);
	what.message = inventory_copy(qbrt_error_detail());
	return fail_with(&what);
}

/* What opens now opens for every metric. is_own: digits, which is never bad. */
static int try_device(bool has_model, bool is_own)
{
	struct qbrt_accelerator *acc = NULL;
	int code = check_status(qbrt_accelerator_open(bench_setup.name,
						      bench_setup.number, &acc),
				1);

	qbrt_accelerator_close(acc);
	return code || !has_model
		       ? code
		       : check_status(bench_model_try(), is_own ? 1 : 8);
}

/* A bad file is refused as model refuses it. */
static int look_at_file(struct request *request, const char *path)
{
	struct failure what = { .exit = 0 };

	what.exit = collect_model(&request->inventory, path, false,
				  &what.message, &what.status);
	return what.exit ? fail_with(&what) : 0;
}

static int set_up(struct bench *bench)
{
	const char *standard = "auto";
	struct words ids = { .items = &standard, .num = 1 };
	struct request *request = bench->request;
	const char *path = request->value[OPTION_MODEL_FILE];
	const char *folder = qbrt_get_data_dir();
	const struct record *device;
	int code = collect_all(request, false);

	if (request->devices.num)
		ids = request->devices;
	if (!code)
		code = select_devices(request, &ids);
	if (!code && !folder && !path && bench->has_set[NUM_SETS - 1])
		code = fail(1, "the folder of digits.qbm is not beside the "
			       "library; install libqbruntime again");
	if (!code && path)
		code = look_at_file(request, path);
	if (code)
		return code;
	device = request->inventory.devices.first;
	bench_setup = (struct bench_setup){
		.id = record_get_text(device, FIELD_ID),
		.name = record_get_text(device, FIELD_NAME),
		.number = (int)record_get_integer(device, FIELD_NUMBER, 0),
	};
	bench_kind = record_get_text(device, FIELD_KIND);
	bench_backend = find_backend(device);
	bench_model_path =
		path ?: inventory_format("%s/digits.qbm", folder ?: "");
	return try_device(bench->has_set[NUM_SETS - 1], !path);
}

static const char *join(char **argv)
{
	const char *line = "qbinfo";

	while (*argv && *++argv)
		line = inventory_format("%s %s", line, *argv);
	return line;
}

/* One that has nothing of what is measured now is none to compare with. */
static int read_baseline(struct bench *bench, const char *path)
{
	int code;

	start_timer(bench->request, inventory_format("reading %s", path));
	code = baseline_read(path, &bench->baseline);
	start_timer(bench->request, "");
	if (code || for_each(bench, is_in_baseline))
		return code;
	return fail(8,
		    "%s has none of the metrics that are measured now; choose "
		    "the same sets and placements, or another file",
		    path);
}

static int measure_all(struct bench *bench)
{
	struct request *request = bench->request;
	const char *path = request->value[OPTION_BASELINE];
	int code = path ? read_baseline(bench, path) : 0;

	if (!code)
		code = set_up(bench);
	if (code)
		return code;
	bench->command = join(request->argv);
	bench->options = (struct bench_options){
		.seconds = request->seconds / (double)bench->num,
		.seed = request->seed ?: (uint64_t)time(NULL),
	};
	code = for_each(bench, measure);
	if (!code && get_failure()->exit) {
		bench->document.failure = get_failure();
		code = get_failure()->exit;
	}
	return code;
}

/* What the list of metrics does not honour. */
static int check_list(const struct request *request)
{
	static const enum option others[] = {
		OPTION_DEVICE,  OPTION_REQUIRE, OPTION_BASELINE,
		OPTION_SECONDS, OPTION_SEED,
	};

	if (request->has[OPTION_JSON] || request->has[OPTION_JSONL] ||
	    request->has[OPTION_OUTPUT])
		return fail(2, "the list of metrics is text, and always the "
			       "same columns");
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (request->has[others[i]])
			return fail(2,
				    "the list of metrics measures nothing: it "
				    "does not go with --%s",
				    options_get_word(others[i]));
	return 0;
}

int cmd_bench(struct request *request)
{
	static const enum field_id names[] = { FIELD_RESULT_METRIC,
					       FIELD_RESULT_ROW,
					       FIELD_RESULT_PLACEMENT,
					       FIELD_RESULT_TARGET };
	static const enum field_id fields[] = {
		FIELD_RESULT_METRIC,
		FIELD_RESULT_PLACEMENT,
		FIELD_RESULT_MIN,
		FIELD_RESULT_P50,
		FIELD_RESULT_P99,
		FIELD_RESULT_FLOOR_P50,
		FIELD_RESULT_RATE,
		FIELD_RESULT_TARGET,
		FIELD_RESULT_VERDICT,
		FIELD_RESULT_BASELINE,
		FIELD_RESULT_BASELINE_VERDICT,
	};
	bool is_list = request->has[OPTION_LIST_METRICS];
	struct bench bench = {
		.request = request,
		.document = {
			.name = "bench",
			.parts = { { .form = is_list ? FORM_TABLE
						     : FORM_RESULTS,
				     .list = LIST_RESULTS,
				     .records = &request->inventory.results } },
			.num_parts = 1,
			.inventory = &request->inventory,
		},
		.results = &bench.document.parts[0],
	};
	int code = select_fields(
		request, LIST_RESULTS, is_list ? names : fields,
		is_list ? 4 : sizeof(fields) / sizeof(*fields), bench.results);

	if (code)
		return code < 0 ? 0 : code;
	if (is_list)
		code = check_list(request);
	if (code)
		return code;
	if (request->has[OPTION_OUTPUT])
		bench.results->form = FORM_TABLE;
	else if (request->style.is_json || request->style.is_jsonl)
		select_all(request, LIST_RESULTS, bench.results);
	code = choose_sets(&bench);
	if (!code)
		code = choose_placements(&bench);
	if (code)
		return code;
	(void)for_each(&bench, count);
	if (!bench.num)
		return fail(2, "nothing of these sets has that placement; "
			       "qbinfo bench -h names what lists them");
	code = is_list ? for_each(&bench, name) : measure_all(&bench);
	baseline_free(bench.baseline);
	if (code && !bench.document.failure)
		return code;
	return show_document(request, &bench.document) && !code ? 9 : code;
}
