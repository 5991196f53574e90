// SPDX-License-Identifier: MIT
/* Checks of the software NPU, of libraries and of Python. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <qbruntime/qbrt.h>

#include "collect.h"
#include "digits.h"
#include "doctor.h"
#include "source.h"

/* ---- the software NPU ---- */

static enum qbrt_status open_and_run(struct digits *digits,
				     struct qbrt_accelerator **acc,
				     const struct record *device,
				     const char *folder, int *right)
{
	enum qbrt_status status = qbrt_accelerator_open(
		record_get_text(device, FIELD_NAME),
		(int)record_get_integer(device, FIELD_NUMBER, 0), acc);

	if (!status)
		status = digits_launch(digits, *acc, folder);
	return status ? status : digits_count(digits, right);
}

static void try_software(struct doctor *doctor, const struct record *device,
			 const char *folder)
{
	struct digits digits = { .model = NULL };
	struct qbrt_accelerator *acc = NULL;
	const char *id = record_get_text(device, FIELD_ID);
	int right;

	if (!digits_read(&digits, folder)) {
		doctor_fail(doctor, 10, "software",
			    inventory_format("the digits in %s are not whole",
					     folder),
			    "E-SOFT-3", "install libqbruntime again");
		return;
	}
	if (open_and_run(&digits, &acc, device, folder, &right))
		doctor_fail(doctor, 10, "software",
			    inventory_format("%s: %s", id, qbrt_error_detail()),
			    "E-SOFT-1",
			    doctor_get_soft_fix(qbrt_error_detail()));
	else if (right < DIGITS_NUM)
		doctor_fail(doctor, 10, "software",
			    inventory_format("%s gives %d of 16 recorded "
					     "answers",
					     id, right),
			    "E-SOFT-2", "install libqbruntime again");
	else
		doctor_ok(doctor, "software",
			  inventory_format("%s works: digits 16/16 right", id));
	digits_free(&digits);
	qbrt_accelerator_close(acc);
}

/* What else hides it is told by the check visibility. */
static const char *explain_none(const struct doctor *doctor)
{
	const char *soft = environment_get("QBRUNTIME_SOFT_DEVICES");

	if (doctor->inventory->has_hardware)
		return "hardware is used, no software NPU";
	return soft && !strcmp(soft, "none")
		       ? "no software NPU: QBRUNTIME_SOFT_DEVICES is none, "
			 "aries would give one"
		       : "no software NPU is visible";
}

void doctor_check_software(struct doctor *doctor)
{
	const struct record *device = doctor->inventory->devices.first;

	while (device &&
	       strcmp(record_get_text(device, FIELD_KIND) ?: "", "software"))
		device = device->next;
	if (source_get_sysroot())
		doctor_skip(doctor, "software",
			    "a captured system has nothing to run");
	else if (!device)
		doctor_skip(doctor, "software", explain_none(doctor));
	else if (!qbrt_get_data_dir())
		doctor_fail(doctor, 10, "software",
			    "the folder of digits.qbm is not beside the "
			    "library",
			    "E-SOFT-3", "install libqbruntime again");
	else
		try_software(doctor, device, qbrt_get_data_dir());
}

/* ---- libraries ---- */

/* Real files that were seen, each once. */
struct files {
	const char *paths[32];
	dev_t devices[32];
	ino_t inodes[32];
	size_t num;
};

static void add_file(struct files *files, const char *path)
{
	struct stat info;

	if (stat(path, &info) || !S_ISREG(info.st_mode))
		return;
	for (size_t i = 0; i < files->num; i++) {
		if (files->devices[i] == info.st_dev &&
		    files->inodes[i] == info.st_ino)
			return;
	}
	if (files->num == 32)
		return;
	files->paths[files->num] = inventory_copy(path);
	files->devices[files->num] = info.st_dev;
	files->inodes[files->num++] = info.st_ino;
}

/* The names that a loader or linker asks for: .so, .so.N, .so.N.N. */
static bool is_library(const char *file)
{
	static const char name[] = "libqbruntime.so";
	size_t digits = 1;

	if (strncmp(file, name, sizeof(name) - 1) != 0)
		return false;
	file += sizeof(name) - 1;
	while (*file == '.' && digits) {
		digits = strspn(file + 1, "0123456789");
		file += 1 + digits;
	}
	return !*file && digits;
}

static void add_folder(struct files *files, const char *folder)
{
	struct dirent **entries;
	int num = scandir(folder, &entries, NULL, alphasort);

	for (int i = 0; i < num; i++) {
		if (is_library(entries[i]->d_name))
			add_file(files, inventory_format("%s/%s", folder,
							 entries[i]->d_name));
		free(entries[i]);
	}
	if (num >= 0)
		free(entries);
}

/* Folders of a file of /etc/ld.so.conf.d, and of other lines of it. */
static void add_folders(struct files *files, char *text)
{
	char *folder, *rest;

	for (folder = text ? strtok_r(text, " \t\n", &rest) : NULL; folder;
	     folder = strtok_r(NULL, " \t\n", &rest)) {
		if (*folder == '/')
			add_folder(files, folder);
	}
}

/* Of LD_LIBRARY_PATH: relative ones count, an empty one is the current. */
static void add_path(struct files *files, char *path)
{
	while (path) {
		char *next = strpbrk(path, ":;");

		if (next)
			*next++ = '\0';
		add_folder(files, *path ? path : ".");
		path = next;
	}
}

static void add_configured(struct files *files)
{
	char **names;
	size_t num = source_list("etc/ld.so.conf.d", &names);

	for (size_t i = 0; i < num; i++) {
		size_t length;
		int err;

		add_folders(files,
			    source_read(inventory_format("etc/ld.so.conf.d/%s",
							 names[i]),
					&length, &err));
	}
}

void doctor_check_libraries(struct doctor *doctor)
{
	static const char *const folders[] = { "/usr/local/lib", "/usr/lib",
					       "/lib" };
	const char *path, *own = collect_library_path();
	struct files files = { .num = 0 };

	if (source_get_sysroot()) {
		doctor_skip(doctor, "libraries",
			    "a captured system has no libraries");
		return;
	}
	add_file(&files, own);
	path = getenv("LD_LIBRARY_PATH"); /* NOLINT(concurrency-mt-unsafe) */
	add_path(&files, path && *path ? inventory_copy(path) : NULL);
	add_configured(&files);
	for (size_t i = 0; i < 3; i++)
		add_folder(&files, folders[i]);
	if (files.num < 2)
		doctor_ok(doctor, "libraries",
			  inventory_format("one libqbruntime: %s", own));
	else
		doctor_fail(doctor, 5, "libraries",
			    inventory_format("two libraries on the path: %s "
					     "and %s",
					     files.paths[0], files.paths[1]),
			    "E-LIB-1",
			    inventory_format("remove %s, or take its folder "
					     "out of LD_LIBRARY_PATH",
					     inventory_quote(files.paths[1])));
}

/* ---- Python ---- */

/* What to run to see it: not started, or its import. */
static void warn_of_problem(struct doctor *doctor,
			    const struct python_package *package)
{
	const char *python = inventory_quote(package->python);
	bool is_started = strcmp(package->problem, "it cannot be started") != 0;

	doctor_warn(doctor, "python",
		    package->folder
			    ? inventory_format("%s, from %s", package->problem,
					       package->folder)
			    : inventory_format("%s: %s", package->python,
					       package->problem),
		    "E-PY-1",
		    inventory_format(is_started ? "%s -c 'import qbruntime'"
						: "%s --version",
				     python));
}

void doctor_check_python(struct doctor *doctor)
{
	struct python_package package;
	struct stat own, other;
	const char *folder, *mend;

	if (source_get_sysroot()) {
		doctor_skip(doctor, "python",
			    "a captured system has no Python");
		return;
	}
	collect_python(&package, doctor->timeout);
	folder = inventory_quote(package.folder ?: "");
	mend = inventory_format("%s -m pip uninstall qbruntime, or take the "
				"folder above %s out of PYTHONPATH",
				inventory_quote(package.python ?: ""), folder);
	if (!package.python)
		doctor_ok(doctor, "python", "no python3 in PATH");
	else if (package.problem)
		warn_of_problem(doctor, &package);
	else if (!package.folder)
		doctor_ok(doctor, "python",
			  inventory_format("%s has no package qbruntime",
					   package.python));
	else if (!package.library)
		doctor_warn(doctor, "python",
			    inventory_format("%s is another package of the "
					     "name qbruntime",
					     package.folder),
			    "E-PY-2", mend);
	else if (stat(package.library, &other) ||
		 stat(collect_library_path(), &own) ||
		 own.st_dev != other.st_dev || own.st_ino != other.st_ino)
		doctor_warn(doctor, "python",
			    inventory_format("qbruntime in %s has its own "
					     "library, %s",
					     package.folder, package.library),
			    "E-PY-3", mend);
	else
		doctor_ok(doctor, "python",
			  inventory_format("qbruntime %s in %s, same library",
					   package.version, package.folder));
}
