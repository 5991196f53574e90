// SPDX-License-Identifier: MIT
/* doctor: runs the checks, and captures what they and show read. */
#include "collect.h"
#include "doctor.h"
#include "qbinfo.h"

static void add(struct doctor *doctor, const char *id, const char *state,
		const char *text, const char *code, const char *fix)
{
	struct record *check = records_add(&doctor->inventory->checks);

	set_absent(check, FIELD_CHECK_CODE, REASON_ABSENT, NULL);
	set_absent(check, FIELD_CHECK_FIX, REASON_ABSENT, NULL);
	set_absent(check, FIELD_CHECK_DOC, REASON_ABSENT, NULL);
	set_text(check, FIELD_CHECK_ID, id);
	set_text(check, FIELD_CHECK_STATE, state);
	set_text(check, FIELD_CHECK_CODE, code);
	set_text(check, FIELD_CHECK_TEXT, text);
	set_text(check, FIELD_CHECK_FIX, fix);
	set_text(check, FIELD_CHECK_DOC, code ? "qbinfo-doctor(7)" : NULL);
}

void doctor_ok(struct doctor *doctor, const char *id, const char *text)
{
	add(doctor, id, "ok", text, NULL, NULL);
}

void doctor_skip(struct doctor *doctor, const char *id, const char *text)
{
	add(doctor, id, "skip", text, NULL, NULL);
}

void doctor_info(struct doctor *doctor, const char *id, const char *text,
		 const char *code)
{
	add(doctor, id, "ok", text, code, NULL);
}

void doctor_warn(struct doctor *doctor, const char *id, const char *text,
		 const char *code, const char *fix)
{
	add(doctor, id, "warn", text, code, fix);
}

/* What must be mended first decides. */
static int get_rank(int code)
{
	static const int order[] = { 7, 5, 4, 6, 3, 10, 0 };
	int rank = 0;

	while (order[rank] && order[rank] != code)
		rank++;
	return rank;
}

void doctor_fail(struct doctor *doctor, int code_of_exit, const char *id,
		 const char *text, const char *code, const char *fix)
{
	add(doctor, id, "fail", text, code, fix);
	if (get_rank(code_of_exit) < get_rank(doctor->exit)) {
		doctor->exit = code_of_exit;
		doctor->decided = doctor->inventory->checks.last;
	}
}

static void run_checks(struct doctor *doctor)
{
	doctor_check_node(doctor);
	doctor_check_permission(doctor);
	doctor_check_version(doctor);
	doctor_check_firmware(doctor);
	doctor_check_health(doctor);
	doctor_check_memlock(doctor);
	doctor_check_contiguous(doctor);
	doctor_check_iommu(doctor);
	doctor_check_export(doctor);
	doctor_check_cgroup(doctor);
	doctor_check_container(doctor);
	doctor_check_visibility(doctor);
	doctor_check_software(doctor);
	doctor_check_libraries(doctor);
	doctor_check_python(doctor);
}

/* The error object speaks of the failure that decided. */
static int fail_by_check(const struct doctor *doctor)
{
	const struct record *check = doctor->decided;
	struct failure what = {
		.exit = doctor->exit,
		.message = inventory_format(
			"%s: %s", record_get_text(check, FIELD_CHECK_ID),
			record_get_text(check, FIELD_CHECK_TEXT)),
		.fix = record_get_text(check, FIELD_CHECK_FIX),
		.doc = record_get_text(check, FIELD_CHECK_CODE),
	};

	return fail_with(&what);
}

int cmd_doctor(struct request *request)
{
	static const enum field_id fields[] = { FIELD_CHECK_STATE,
						FIELD_CHECK_ID,
						FIELD_CHECK_TEXT };
	struct inventory *inventory = &request->inventory;
	struct doctor doctor = { .inventory = inventory,
				 .timeout = request->timeout };
	struct document document = {
		.name = "doctor",
		.parts = { { .form = FORM_CHECKS,
			     .list = LIST_CHECKS,
			     .records = &inventory->checks } },
		.num_parts = 1,
		.inventory = inventory,
	};
	const char *folder = request->value[OPTION_CAPTURE];
	struct words none = { .num = 0 };
	int code = select_fields(request, LIST_CHECKS, fields, 3,
				 &document.parts[0]);

	if (code)
		return code < 0 ? 0 : code;
	if (request->has[OPTION_OUTPUT])
		document.parts[0].form = FORM_TABLE;
	else
		select_all(request, LIST_CHECKS, &document.parts[0]);
	if (folder) {
		code = capture_start(folder);
		if (code)
			return code;
	}
	code = collect_all(request, true);
	if (!code)
		code = select_devices(request, &none);
	if (code)
		return code;
	collect_readings(inventory);
	run_checks(&doctor);
	if (folder) {
		code = capture_finish(inventory);
		if (code)
			return code;
	}
	if (doctor.exit) {
		code = fail_by_check(&doctor);
		document.failure = get_failure();
	}
	return show_document(request, &document) && !code ? 9 : code;
}
