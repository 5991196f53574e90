// SPDX-License-Identifier: MIT
/*
 * The parts that must fit: tool, library, driver, firmware, Python package. The
 * package is asked by running the first python3 of the path once, since only
 * its loader knows which library it takes; it writes nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <qbruntime/qbrt.h>

#include "collect.h"
#include "source.h"

/*
 * Three lines: the folder, the version, the library's file. The current folder,
 * which -c puts on the path, may be anybody's: it goes before the first import.
 */
static const char program[] =
	"import sys\n"
	"sys.path[:] = [p for p in sys.path if p]\n"
	"import importlib.util as u, os\n"
	"s = u.find_spec('qbruntime')\n"
	"if s:\n"
	"    print(os.path.dirname(s.origin or ''))\n"
	"    import qbruntime\n"
	"    print(getattr(qbruntime, '__version__', ''))\n"
	"    print(next((l.split(None, 5)[5].strip() for l in "
	"open('/proc/self/maps')\n"
	"        if 'libqbruntime.so' in l), ''))\n";

static char *find_python(void)
{
	const char *path = getenv("PATH"); /* NOLINT(concurrency-mt-unsafe) */
	char *folder, *rest;

	for (folder = path ? strtok_r(inventory_copy(path), ":", &rest) : NULL;
	     folder; folder = strtok_r(NULL, ":", &rest)) {
		char *file = inventory_format("%s/python3", folder);

		struct stat info;

		if (!stat(file, &info) && S_ISREG(info.st_mode) &&
		    !access(file, X_OK))
			return file;
	}
	return NULL;
}

static int64_t get_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* false: the end of what the child writes was not reached in time. */
static bool read_child(int fd, char *text, size_t size, int64_t end)
{
	size_t length = 0;

	for (;;) {
		struct pollfd poller = { .fd = fd, .events = POLLIN };
		int64_t left = end - get_ms();
		ssize_t num;

		if (left <= 0 || poll(&poller, 1, (int)left) <= 0)
			return false;
		num = read(fd, text + length, size - 1 - length);
		if (num <= 0)
			break;
		length += (size_t)num;
	}
	text[length] = '\0';
	return true;
}

/* Who has closed its output may still run; it stays to be waited for. */
static bool has_ended(pid_t child, int64_t end)
{
	int fd = (int)syscall(SYS_pidfd_open, child, 0);
	struct pollfd poller = { .fd = fd, .events = POLLIN };
	int64_t left = end - get_ms();
	bool is_ended;

	if (fd < 0)
		return false;
	is_ended = poll(&poller, 1, left > 0 ? (int)left : 0) > 0;
	(void)close(fd);
	return is_ended;
}

/* Of the group that is asked; 0: none. Read by handlers of signals. */
static volatile sig_atomic_t asked;

void collect_end_python(void)
{
	if (asked)
		(void)kill(-(pid_t)asked, SIGKILL);
}

/* Its group is not the terminal's, so what ends us must end it. */
static void end_both(int number)
{
	collect_end_python();
	(void)signal(number, SIG_DFL);
	(void)raise(number);
}

static const int fatal[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
#define NUM_FATAL 4

static void watch_signals(struct sigaction *kept)
{
	const struct sigaction action = { .sa_handler = end_both };

	for (size_t i = 0; i < NUM_FATAL; i++) {
		(void)sigaction(fatal[i], NULL, &kept[i]);
		if (kept[i].sa_handler == SIG_DFL)
			(void)sigaction(fatal[i], &action, NULL);
	}
}

/* Until their handlers know whom to end. */
static void hold_signals(sigset_t *kept)
{
	sigset_t held;

	(void)sigemptyset(&held);
	(void)sigaddset(&held, SIGALRM);
	for (size_t i = 0; i < NUM_FATAL; i++)
		(void)sigaddset(&held, fatal[i]);
	(void)sigprocmask(SIG_BLOCK, &held, kept);
}

static void restore_signals(const struct sigaction *kept)
{
	for (size_t i = 0; i < NUM_FATAL; i++)
		(void)sigaction(fatal[i], &kept[i], NULL);
}

/* A group of its own, which does not outlive us. */
static void start_group(pid_t parent)
{
	for (size_t i = 0; i < NUM_FATAL; i++)
		(void)signal(fatal[i], SIG_DFL);
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
}

static void run_child(const char *python, int out)
{
	int null = open("/dev/null", O_RDWR);
	char *const words[] = { inventory_copy(python), inventory_copy("-B"),
				inventory_copy("-c"), inventory_copy(program),
				NULL };

	if (null >= 0 && dup2(null, 0) >= 0 && dup2(null, 2) >= 0 &&
	    dup2(out, 1) >= 0)
		(void)execv(python, words);
	_exit(127);
}

/* NULL: it gave the answer. */
static const char *get_problem(bool is_done, int status)
{
	if (!is_done)
		return "it did not answer in time";
	if (WIFSIGNALED(status))
		return inventory_format("it was ended by signal %d",
					WTERMSIG(status));
	if (WEXITSTATUS(status) == 127)
		return "it cannot be started";
	return WEXITSTATUS(status) ? "import qbruntime fails" : NULL;
}

/* NULL: it did not answer in time, or failed: problem says which. */
static char *ask_python(const char *python, int64_t limit_ms,
			const char **problem)
{
	char *text = inventory_alloc(8192);
	struct sigaction kept[NUM_FATAL];
	int64_t end = get_ms() + limit_ms;
	int pipes[2], status = 0;
	pid_t child, parent = getpid();
	sigset_t mask;
	bool is_done;

	*problem = "it cannot be started";
	if (pipe2(pipes, O_CLOEXEC))
		return NULL;
	watch_signals(kept);
	hold_signals(&mask);
	child = fork();
	if (!child) {
		start_group(parent);
		(void)sigprocmask(SIG_SETMASK, &mask, NULL);
		run_child(python, pipes[1]);
	}
	(void)close(pipes[1]);
	if (child > 0)
		(void)setpgid(child, child);
	asked = child > 0 ? child : 0;
	(void)sigprocmask(SIG_SETMASK, &mask, NULL);
	if (child > 0) {
		is_done = read_child(pipes[0], text, 8192, end) &&
			  has_ended(child, end);
		/* before it is waited for: until then the number is its own */
		collect_end_python();
		asked = 0;
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		*problem = get_problem(is_done, status);
		text = is_done ? text : NULL;
	}
	(void)close(pipes[0]);
	restore_signals(kept);
	return child > 0 ? text : NULL;
}

void collect_python(struct python_package *package, double limit)
{
	char *text, *line, *rest;

	memset(package, 0, sizeof(*package));
	package->python = find_python();
	if (!package->python)
		return;
	text = ask_python(package->python, (int64_t)(limit * 800),
			  &package->problem);
	line = text ? strtok_r(text, "\n", &rest) : NULL;
	if (!line)
		return;
	package->folder = line;
	line = strtok_r(NULL, "\n", &rest);
	if (!line)
		return;
	package->version = line;
	package->library = strtok_r(NULL, "\n", &rest);
}

/* ---- parts ---- */

static struct record *add_part(struct inventory *inventory, const char *name,
			       const char *version, const char *detail,
			       const char *path)
{
	struct record *part = records_add(&inventory->parts);

	set_absent(part, FIELD_PART_VERSION, REASON_ABSENT, NULL);
	set_absent(part, FIELD_PART_DETAIL, REASON_ABSENT, NULL);
	set_absent(part, FIELD_PART_PATH, REASON_ABSENT, NULL);
	set_text(part, FIELD_PART_NAME, name);
	set_text(part, FIELD_PART_VERSION, version);
	set_text(part, FIELD_PART_DETAIL, detail);
	set_text(part, FIELD_PART_PATH, path);
	return part;
}

static void set_mismatch(struct inventory *inventory, const char *text)
{
	if (record_get_text(inventory->verdict, FIELD_VERDICT_STATE))
		return;
	set_text(inventory->verdict, FIELD_VERDICT_STATE, "mismatch");
	set_text(inventory->verdict, FIELD_VERDICT_TEXT, text);
}

/* "driver 1.0" of "1.0.3". */
static const char *get_two_numbers(const char *version)
{
	const char *dot = strchr(version, '.');
	size_t length = strlen(version);

	if (dot)
		length = (size_t)(dot - version) + 1 + strcspn(dot + 1, ".");
	return inventory_format("driver %.*s", (int)length, version);
}

static void add_driver(struct inventory *inventory)
{
	const struct record *driver = inventory->driver;
	const char *version = record_get_text(driver, FIELD_DRIVER_VERSION);
	const char *source = record_get_text(driver, FIELD_DRIVER_SRCVERSION);

	for (const struct own_node *node = inventory->own_nodes; node;
	     node = node->next) {
		if (node->uapi_major < 0 ||
		    node->uapi_major == QBINFO_UAPI_MAJOR)
			continue;
		set_mismatch(
			inventory,
			inventory_format(
				"%s: driver %s speaks uapi %d, the library %d: "
				"update the %s",
				node->path, node->version, node->uapi_major,
				QBINFO_UAPI_MAJOR,
				node->uapi_major < QBINFO_UAPI_MAJOR
					? "driver"
					: "library"));
		version = node->version;
	}
	(void)add_part(inventory, "uapi",
		       inventory_format("wants %d.0 to %d.x", QBINFO_UAPI_MAJOR,
					QBINFO_UAPI_MAJOR),
		       version ? get_two_numbers(version) : NULL, NULL);
	(void)add_part(inventory, "driver",
		       version ? inventory_format("qbnpu %s", version)
		       : inventory->own_nodes ? "qbnpu, could not be asked"
					      : "none is loaded",
		       source ? inventory_format("srcversion %s", source)
			      : NULL,
		       NULL);
}

static void add_firmware(struct inventory *inventory)
{
	for (const struct record *device = inventory->devices.first; device;
	     device = device->next) {
		const char *version = record_get_text(device, FIELD_FIRMWARE);

		if (version)
			(void)add_part(
				inventory, "firmware",
				inventory_format(
					"%s %s",
					record_get_text(device, FIELD_ID),
					version),
				NULL, NULL);
	}
}

static bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* What Python has is known, be it nothing. */
static bool add_python(struct inventory *inventory, double limit)
{
	struct python_package package;
	const char *own = collect_library_path();

	collect_python(&package, limit);
	if (!package.python) {
		(void)add_part(inventory, "python", NULL, "no python3 in PATH",
			       NULL);
	} else if (package.problem) {
		(void)add_part(inventory, "python", NULL, package.problem,
			       package.folder ?: package.python);
		if (package.folder)
			set_mismatch(inventory,
				     inventory_format(
					     "the Python package in %s does "
					     "not import: install the one of "
					     "this release",
					     package.folder));
	} else if (!package.folder) {
		(void)add_part(inventory, "python", NULL,
			       "has no package qbruntime", package.python);
	} else if (!package.library) {
		(void)add_part(inventory, "python", package.version,
			       "another package of the name qbruntime",
			       package.folder);
	} else if (is_same_file(package.library, own)) {
		(void)add_part(inventory, "python",
			       inventory_format("qbruntime %s in %s, same "
						"library",
						package.version,
						package.folder),
			       NULL, NULL);
	} else {
		(void)add_part(
			inventory, "python",
			inventory_format("qbruntime %s in %s", package.version,
					 package.folder),
			inventory_format("library %s", package.library), NULL);
		if (strcmp(package.version, qbrt_version()) != 0)
			set_mismatch(
				inventory,
				inventory_format(
					"the Python package is %s, the "
					"library %s: install the package of "
					"this release",
					package.version, qbrt_version()));
	}
	return !package.problem;
}

void collect_parts(struct inventory *inventory, double limit)
{
	const struct record *tool = inventory->tool;
	const struct value *abi = record_see(tool, FIELD_TOOL_ABI);
	bool is_whole = true;

	(void)add_part(inventory, "qbinfo", PACKAGE_VERSION, NULL, NULL);
	(void)add_part(inventory, "libqbruntime", qbrt_version(),
		       abi->is_set
			       ? inventory_format("ABI %d",
						  (int)abi->integer.magnitude)
			       : NULL,
		       source_get_sysroot() ? NULL : collect_library_path());
	if (strcmp(PACKAGE_VERSION, qbrt_version()) != 0)
		set_mismatch(inventory,
			     inventory_format("qbinfo is %s, the library %s: "
					      "install both of one release",
					      PACKAGE_VERSION, qbrt_version()));
	add_driver(inventory);
	add_firmware(inventory);
	if (!source_get_sysroot())
		is_whole = add_python(inventory, limit);
	if (record_get_text(inventory->verdict, FIELD_VERDICT_STATE))
		return;
	set_text(inventory->verdict, FIELD_VERDICT_STATE, "ok");
	set_text(inventory->verdict, FIELD_VERDICT_TEXT,
		 is_whole ? "all parts fit"
			  : "the other parts fit; Python did not answer");
}
