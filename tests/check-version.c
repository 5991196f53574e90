// SPDX-License-Identifier: MIT
/*
 * The version, and where the data folder is looked for: beside what holds the
 * code. The unit is linked into this program, so that is the program itself;
 * the test runs copies of it, with and without a folder beside them.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif
#include "test-util.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util.h"

#define ARGUMENT "--print-data-dir"

static char folder[64]; /* of the running test */

static void copy_program(const char *to)
{
	int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	ssize_t num;

	ck_assert_int_ge(in, 0);
	ck_assert_int_ge(out, 0);
	do
		num = sendfile(out, in, NULL, 1 << 20);
	while (num > 0);
	ck_assert_int_eq(num, 0);
	ck_assert(!close(in));
	ck_assert(!close(out));
}

/* What a run of program answers as its data folder. */
static void ask(const char *program, char *answer, size_t size)
{
	char command[PATH_MAX];
	FILE *output;
	int status;

	(void)snprintf(command, sizeof(command), "%s " ARGUMENT, program);
	output = popen(command, "re");
	ck_assert_ptr_nonnull(output);
	ck_assert_ptr_nonnull(fgets(answer, (int)size, output));
	status = pclose(output);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	answer[strcspn(answer, "\n")] = '\0';
}

static void make_folder(void)
{
	(void)snprintf(folder, sizeof(folder), "/tmp/check-version-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
}

static const char *in_folder(const char *name, char *path)
{
	(void)snprintf(path, PATH_MAX, "%s/%s", folder, name);
	return path;
}

/* Q170 Q171 */
START_TEST(version_and_commit_are_strings)
{
	ck_assert_str_eq(qbrt_version(), PACKAGE_VERSION);
	ck_assert_ptr_nonnull(qbrt_git_version());
}
END_TEST

/* Q720 */
START_TEST(data_folder_lies_beside_the_real_path)
{
	char program[PATH_MAX];
	char link[PATH_MAX];
	char data[PATH_MAX];
	char real[PATH_MAX];
	char answer[PATH_MAX];

	make_folder();
	copy_program(in_folder("program", program));
	ck_assert(!mkdir(in_folder("sub", link), 0700));
	ck_assert(!symlink("../program", in_folder("sub/link", link)));
	ask(program, answer, sizeof(answer));
	ck_assert_str_eq(answer, "none");

	ck_assert(!mkdir(in_folder("qbruntime", data), 0700));
	ck_assert_ptr_nonnull(realpath(data, real));
	ask(program, answer, sizeof(answer));
	ck_assert_str_eq(answer, real);
	ask(link, answer, sizeof(answer));
	ck_assert_str_eq(answer, real);

	ck_assert(!rmdir(data));
	ck_assert(!unlink(link));
	ck_assert(!unlink(program));
	ck_assert(!rmdir(in_folder("sub", link)));
	ck_assert(!rmdir(folder));
}
END_TEST

/* Q720 */
START_TEST(a_file_is_no_data_folder)
{
	char program[PATH_MAX];
	char data[PATH_MAX];
	char answer[PATH_MAX];
	int fd;

	make_folder();
	copy_program(in_folder("program", program));
	fd = open(in_folder("qbruntime", data), O_CREAT | O_CLOEXEC | O_WRONLY,
		  0600);
	ck_assert_int_ge(fd, 0);
	ck_assert(!close(fd));
	ask(program, answer, sizeof(answer));
	ck_assert_str_eq(answer, "none");
	ck_assert(!unlink(data));
	ck_assert(!unlink(program));
	ck_assert(!rmdir(folder));
}
END_TEST

START_TEST(the_answer_stays_the_same)
{
	const char *first = qbrt_get_data_dir();

	ck_assert_ptr_eq(qbrt_get_data_dir(), first);
}
END_TEST

int main(int argc, char **argv)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(version_and_commit_are_strings),
		QBRT_TEST(data_folder_lies_beside_the_real_path),
		QBRT_TEST(a_file_is_no_data_folder),
		QBRT_TEST(the_answer_stays_the_same),
	};

	if (argc > 1 && !strcmp(argv[1], ARGUMENT)) {
		const char *data_dir = qbrt_get_data_dir();

		return puts(data_dir ? data_dir : "none") < 0;
	}
	return qbrt_test_run("version", tests, qbrt_array_size(tests));
}
