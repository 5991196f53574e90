// SPDX-License-Identifier: MIT
/*
 * The recorder: starting and stopping, what is refused, the lines, the rows of
 * devices, fork. Events and devices are made up here.
 */
#include "check-trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace-read.h"
#include "trace.h"
#include "util.h"

#define NOBODY 65534
#define FIRST_PID 4194304

void trace_folder_make(struct trace_folder *folder)
{
	strcpy(folder->folder, "/tmp/qbrt-trace-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder->folder));
	(void)snprintf(folder->path, sizeof(folder->path), "%s/trace.json",
		       folder->folder);
}

void trace_folder_remove(const struct trace_folder *folder)
{
	(void)unlink(folder->path);
	ck_assert_int_eq(rmdir(folder->folder), 0);
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert(!fclose(file));
}

static void assert_file(const char *path, const char *expected)
{
	char text[64] = "";
	FILE *file = fopen(path, "re");

	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fread(text, 1, sizeof(text) - 1, file),
			  strlen(expected));
	(void)fclose(file);
	ck_assert_str_eq(text, expected);
}

static void record(const char *name, uint64_t job)
{
	const struct qbrt_trace_event event = {
		.name = name,
		.begin_ns = 1000 * (int64_t)job,
		.end_ns = 1000 * (int64_t)job + 999,
		.job = job,
	};

	qbrt_trace_host(&event);
}

/* Q786: nothing is recorded, and nothing has to be asked but one variable. */
START_TEST(a_trace_is_off_until_it_is_started)
{
	ck_assert(!qbrt_trace_is_on());
	ck_assert_int_eq(qbrt_trace_begin(), 0);
	record("submit", 1);
	ck_assert(!qbrt_trace_is_on());
}
END_TEST

/* Q782 Q783: complete after stop; one row for this thread, with its name. */
START_TEST(a_trace_is_a_list_of_events)
{
	struct trace_folder folder;
	struct trace_file file;
	const struct trace_event *event;

	trace_folder_make(&folder);
	(void)prctl(PR_SET_NAME, "say \"hi\"\n");
	ck_assert_ok(qbrt_trace_start(folder.path));
	ck_assert(qbrt_trace_is_on());
	ck_assert_int_gt(qbrt_trace_begin(), 0);
	record("submit", 1234567);
	record("wait", 5);
	ck_assert_ok(qbrt_trace_stop());
	ck_assert(!qbrt_trace_is_on());
	record("submit", 8);
	trace_read(folder.path, false, &file);
	ck_assert_uint_eq(file.num_events, 4);
	ck_assert_str_eq(file.events[0].text, "check-trace");
	ck_assert_str_eq(file.events[1].name, "thread_name");
	ck_assert_ptr_nonnull(strstr(file.events[1].line,
				     "\"name\":\"say \\\"hi\\\"\\u000a\""));
	event = &file.events[2];
	ck_assert_str_eq(event->name, "submit");
	ck_assert_int_eq(event->phase, 'X');
	ck_assert_int_eq(event->begin_ns, 1234567000);
	ck_assert_int_eq(event->end_ns, 1234567999);
	ck_assert_int_eq(event->pid, getpid());
	ck_assert_int_eq(event->tid, gettid());
	ck_assert_int_eq(event->job, 1234567);
	ck_assert_int_eq(event->model, -1);
	ck_assert_int_eq(file.events[3].job, 5);
	trace_free(&file);
	trace_folder_remove(&folder);
}
END_TEST

/* Q784: what an event has, and no more; whatever names say. */
START_TEST(args_are_what_an_event_has)
{
	char name[3000];
	const struct qbrt_trace_event events[] = {
		{ .name = "launch",
		  .model = 1,
		  .device = "a\"b\\c\x01\xff",
		  .file = name },
		{ .name = "copy", .nbytes = UINT64_MAX },
		{ .name = "cache", .model = 8 },
		{ .name = "queue", .begin_ns = 7, .end_ns = 9, .job = 3 },
	};
	struct trace_folder folder;
	struct trace_file file;

	memset(name, '"', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	trace_folder_make(&folder);
	ck_assert_ok(qbrt_trace_start(folder.path));
	for (int i = 0; i < 3; i++)
		qbrt_trace_host(&events[i]);
	qbrt_trace_queue(&events[3]);
	qbrt_trace_queue(&events[3]);
	ck_assert_ok(qbrt_trace_stop());
	trace_read(folder.path, false, &file);
	ck_assert_uint_eq(file.num_events, 9);
	ck_assert_int_eq(file.events[2].model, 0);
	ck_assert_ptr_nonnull(strstr(
		file.events[2].line,
		"\"device\":\"a\\\"b\\\\c\\u0001\\u00ff\",\"file\":\"\\\""));
	ck_assert_ptr_nonnull(
		strstr(file.events[3].line,
		       "\"args\":{\"nbytes\":18446744073709551615}"));
	ck_assert_ptr_nonnull(
		strstr(file.events[4].line, "\"args\":{\"model\":7}"));
	/* pairs, each with an id of its own */
	ck_assert_int_eq(file.events[5].phase, 'b');
	ck_assert_int_eq(file.events[5].begin_ns, 7);
	ck_assert_int_eq(file.events[6].phase, 'e');
	ck_assert_int_eq(file.events[6].begin_ns, 9);
	ck_assert_str_eq(file.events[5].id, file.events[6].id);
	ck_assert_str_eq(file.events[7].id, file.events[8].id);
	ck_assert_str_ne(file.events[6].id, file.events[7].id);
	trace_free(&file);
	trace_folder_remove(&folder);
}
END_TEST

/* A start that is to fail with this in its sentence. */
static void refuse(const char *path, const char *words)
{
	long num_descriptors = qbrt_test_count_descriptors();

	ck_assert_status(qbrt_trace_start(path), QBRT_INVALID_ARGUMENT);
	ck_assert_detail(words);
	ck_assert(!qbrt_trace_is_on());
	ck_assert_int_eq(qbrt_test_count_descriptors(), num_descriptors);
	ck_assert_ok(qbrt_trace_stop());
}

/* Q781 Q720 */
START_TEST(a_file_that_cannot_be_created_is_refused)
{
	struct trace_folder folder;
	char path[64];

	trace_folder_make(&folder);
	refuse(NULL, "NULL");
	refuse("", "No such file");
	(void)snprintf(path, sizeof(path), "%s/none/trace.json", folder.folder);
	refuse(path, "No such file");
	refuse(folder.folder, "directory");
	(void)snprintf(path, sizeof(path), "%s/fifo", folder.folder);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	refuse(path, "No such device");
	ck_assert_int_eq(unlink(path), 0);
	refuse("/dev/full", "regular");
	/* a read-only file, and a folder that nothing may be put in */
	write_file(folder.path, "mine");
	ck_assert_int_eq(chmod(folder.path, 0444), 0);
	ck_assert_int_eq(chmod(folder.folder, 0555), 0);
	(void)snprintf(path, sizeof(path), "%s/new.json", folder.folder);
	if (geteuid() == 0)
		ck_assert_int_eq(seteuid(NOBODY), 0);
	refuse(folder.path, "Permission denied");
	refuse(path, "Permission denied");
	(void)!seteuid(getuid());
	assert_file(folder.path, "mine");
	ck_assert_int_eq(chmod(folder.folder, 0755), 0);
	trace_folder_remove(&folder);
}
END_TEST

/* Q781: and neither the trace's file nor the other one is touched. */
START_TEST(a_second_trace_is_refused_while_one_is_recorded)
{
	long num_descriptors;
	struct trace_folder folder;
	struct trace_folder other;
	struct trace_file file;

	trace_folder_make(&folder);
	trace_folder_make(&other);
	write_file(other.path, "mine");
	ck_assert_ok(qbrt_trace_start(folder.path));
	num_descriptors = qbrt_test_count_descriptors();
	record("submit", 1);
	ck_assert_status(qbrt_trace_start(other.path), QBRT_INVALID_ARGUMENT);
	ck_assert_detail("another trace");
	ck_assert_status(qbrt_trace_start(folder.path), QBRT_INVALID_ARGUMENT);
	ck_assert_int_eq(qbrt_test_count_descriptors(), num_descriptors);
	ck_assert(qbrt_trace_is_on());
	record("submit", 2);
	ck_assert_ok(qbrt_trace_stop());
	assert_file(other.path, "mine");
	trace_read(folder.path, false, &file);
	ck_assert_uint_eq(trace_count(&file, "submit"), 2);
	trace_free(&file);
	trace_folder_remove(&folder);
	trace_folder_remove(&other);
}
END_TEST

/* Q781 Q785: a program that is run twice has the second run's trace. */
START_TEST(an_existing_file_is_written_anew)
{
	struct trace_folder folder;
	struct trace_file file;
	char path[32];

	trace_folder_make(&folder);
	ck_assert_int_eq(chdir(folder.folder), 0);
	strcpy(path, "trace.json");
	ck_assert_ok(qbrt_trace_start(path));
	for (uint64_t i = 0; i < 100; i++)
		record("submit", i);
	ck_assert_ok(qbrt_trace_stop());
	ck_assert_ok(qbrt_trace_start(path));
	record("submit", 1);
	ck_assert_ok(qbrt_trace_stop());
	trace_read(folder.path, false, &file);
	/* the thread has its name in each trace */
	ck_assert_uint_eq(file.num_events, 3);
	trace_free(&file);
	ck_assert_int_eq(chdir("/"), 0);
	trace_folder_remove(&folder);
}
END_TEST

/* Q785 */
START_TEST(start_start_stop_stop)
{
	struct trace_folder folder;
	struct trace_file file;

	trace_folder_make(&folder);
	ck_assert_ok(qbrt_trace_stop());
	ck_assert_ok(qbrt_trace_start(folder.path));
	record("submit", 1);
	ck_assert_status(qbrt_trace_start(folder.path), QBRT_INVALID_ARGUMENT);
	record("submit", 2);
	ck_assert_ok(qbrt_trace_stop());
	ck_assert_ok(qbrt_trace_stop());
	trace_read(folder.path, false, &file);
	ck_assert_uint_eq(trace_count(&file, "submit"), 2);
	trace_free(&file);
	trace_folder_remove(&folder);
}
END_TEST

static void add(uint64_t instance, const char *id)
{
	struct qbrt_trace_device device = {
		.instance = instance,
		.core_mask = 0x0503,
		.kind = "software",
		.driver = "soft",
		.driver_version = "1.2.3",
		.uapi_version = "1.0",
	};

	(void)snprintf(device.id, sizeof(device.id), "%s", id);
	qbrt_trace_add_device(&device);
}

static void record_run(uint64_t instance, uint32_t core)
{
	const struct qbrt_trace_event event = { .name = "run",
						.queue = instance };

	qbrt_trace_core(instance, core, 0, &event);
}

static int64_t find_pid(const struct trace_file *file, const char *id)
{
	for (size_t i = 0; i < file->num_events; i++)
		if (file->events[i].phase == 'M' &&
		    !strcmp(file->events[i].text, id))
			return file->events[i].pid;
	return -1;
}

/* Q784: numbered in the order of opening, before the start and after. */
START_TEST(cores_of_open_devices_have_rows)
{
	const struct trace_event *event;
	struct trace_folder folder;
	struct trace_file file;

	trace_folder_make(&folder);
	add(11, "gone:0");
	add(12, "kept:0");
	qbrt_trace_remove_device(11);
	ck_assert_ok(qbrt_trace_start(folder.path));
	add(13, "new:0");
	/* opened anew while it closes: the same device */
	add(12, "kept:0");
	qbrt_trace_remove_device(12);
	record_run(11, 0);
	record_run(12, 8);
	record_run(13, 10);
	qbrt_trace_remove_device(12);
	qbrt_trace_remove_device(13);
	record_run(13, 0);
	ck_assert_ok(qbrt_trace_stop());
	trace_read(folder.path, false, &file);
	ck_assert_int_eq(find_pid(&file, "gone:0"), -1);
	ck_assert_int_eq(find_pid(&file, "kept:0"), FIRST_PID + 1);
	ck_assert_int_eq(find_pid(&file, "new:0"), FIRST_PID + 2);
	ck_assert_ptr_nonnull(
		strstr(file.text + (file.events[1].line - file.text),
		       "\"args\":{\"name\":\"kept:0\",\"kind\":\"software\","
		       "\"driver\":\"soft\",\"driver_version\":\"1.2.3\","
		       "\"uapi_version\":\"1.0\",\"cores\":4}"));
	ck_assert_uint_eq(trace_count(&file, "process_name"), 3);
	ck_assert_uint_eq(trace_count(&file, "thread_name"), 8);
	ck_assert_uint_eq(trace_count(&file, "run"), 2);
	event = trace_find(&file, "run", 12, -1);
	ck_assert_int_eq(event->pid, FIRST_PID + 1);
	ck_assert_int_eq(event->tid, 2);
	ck_assert_int_eq(event->item, 0);
	event = trace_find(&file, "run", 13, -1);
	ck_assert_int_eq(event->tid, 3);
	/* the cores' names, in the order of their rows */
	ck_assert_str_eq(file.events[2].text, "core 0.0");
	ck_assert_str_eq(file.events[5].text, "core 1.2");
	ck_assert_int_eq(file.events[5].tid, 3);
	trace_free(&file);
	trace_folder_remove(&folder);
}
END_TEST

/* Q784: as many as can be open at once. */
START_TEST(a_table_full_of_devices_neither_fails_nor_grows)
{
	for (uint64_t round = 0; round < 3; round++) {
		for (uint64_t i = 1; i <= 300; i++)
			add(i, "many:0");
		for (uint64_t i = 1; i <= 300; i++)
			qbrt_trace_remove_device(i);
	}
}
END_TEST

static int trace_in_child(const char *path)
{
	if (qbrt_trace_is_on())
		return 1;
	record("submit", 3);
	if (qbrt_trace_stop() || qbrt_trace_start(path))
		return 2;
	record("submit", 4);
	return qbrt_trace_stop() ? 3 : 0;
}

/* Q785: the file is the parent's; the child may have one of its own. */
START_TEST(a_child_of_fork_records_nothing)
{
	struct trace_folder folder;
	struct trace_folder other;
	struct trace_file file;
	int status;
	pid_t child;

	trace_folder_make(&folder);
	trace_folder_make(&other);
	add(1, "parents:0");
	ck_assert_ok(qbrt_trace_start(folder.path));
	record("submit", 1);
	child = fork();
	if (!child)
		_exit(trace_in_child(other.path));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	record("submit", 2);
	ck_assert_ok(qbrt_trace_stop());
	qbrt_trace_remove_device(1);
	trace_read(folder.path, false, &file);
	ck_assert_uint_eq(trace_count(&file, "submit"), 2);
	trace_free(&file);
	trace_read(other.path, false, &file);
	ck_assert_uint_eq(file.num_events, 3);
	ck_assert_int_eq(file.events[2].pid, child);
	ck_assert_int_eq(file.events[2].tid, child);
	trace_free(&file);
	trace_folder_remove(&folder);
	trace_folder_remove(&other);
}
END_TEST

/* Q784: what a driver says is taken for what lies inside the call. */
START_TEST(a_jobs_events_lie_inside_its_call)
{
	static const int64_t times[][2] = {
		{ 20, 30 }, { 0, 0 }, { 90, 95 }, { 40, 20 }
	};
	struct trace_folder folder;
	struct trace_file file;

	trace_folder_make(&folder);
	ck_assert_ok(qbrt_trace_start(folder.path));
	for (uint64_t i = 0; i < qbrt_array_size(times); i++) {
		const struct qbrt_trace_event call = { .begin_ns = 10,
						       .end_ns = 50,
						       .job = i + 1 };

		qbrt_trace_job(&call, times[i][0], times[i][1]);
	}
	ck_assert_ok(qbrt_trace_stop());
	trace_read(folder.path, false, &file);
	ck_assert_uint_eq(file.num_events, 2 + 4 * qbrt_array_size(times));
	for (size_t i = 2; i < file.num_events; i += 4) {
		const struct trace_event *events = &file.events[i];

		ck_assert_int_eq(events[0].begin_ns, 10);
		ck_assert_int_eq(events[0].end_ns, events[3].begin_ns);
		ck_assert_int_eq(events[1].begin_ns, events[0].end_ns);
		ck_assert_int_ge(events[2].begin_ns, events[1].begin_ns);
		ck_assert_int_le(events[2].begin_ns, 50);
		ck_assert_int_eq(events[3].end_ns, 50);
	}
	ck_assert_int_eq(file.events[2].end_ns, 20);
	ck_assert_int_eq(file.events[4].begin_ns, 30);
	/* never started: it waited until the end */
	ck_assert_int_eq(file.events[8].begin_ns, 50);
	trace_free(&file);
	trace_folder_remove(&folder);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_trace_is_off_until_it_is_started),
		QBRT_TEST(a_trace_is_a_list_of_events),
		QBRT_TEST(args_are_what_an_event_has),
		QBRT_TEST(a_file_that_cannot_be_created_is_refused),
		QBRT_TEST(a_second_trace_is_refused_while_one_is_recorded),
		QBRT_TEST(an_existing_file_is_written_anew),
		QBRT_TEST(start_start_stop_stop),
		QBRT_TEST(cores_of_open_devices_have_rows),
		QBRT_TEST(a_table_full_of_devices_neither_fails_nor_grows),
		QBRT_TEST(a_child_of_fork_records_nothing),
		QBRT_TEST(a_jobs_events_lie_inside_its_call),
	};
	static struct qbrt_tests all;

	qbrt_tests_add(&all, tests, qbrt_array_size(tests));
	add_trace_infer_tests(&all);
	add_trace_cut_tests(&all);
	return qbrt_test_run("trace", all.tests, all.num);
}
