// SPDX-License-Identifier: MIT
/*
 * Children, and export, which needs one. A child of fork opens devices anew; it
 * ends with this process, whatever ends that.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "validate.h"

/* ---- children ---- */

enum qbrt_status validate_open_device(struct validate *validate)
{
	return qbrt_accelerator_open(
		record_get_text(validate->device, FIELD_NAME),
		(int)record_get_integer(validate->device, FIELD_NUMBER, 0),
		&validate->acc);
}

static void run_child(struct validate *validate, validate_function function,
		      const void *arg, int out)
{
	const char *text;

	if (function(validate, arg))
		_exit(0);
	text = record_get_text(validate->test, FIELD_TEST_TEXT);
	(void)!write(out, text, strlen(text));
	_exit(1);
}

/* All that it writes, up to its end. */
static const char *read_answer(int in)
{
	char *text = inventory_alloc(1024);
	size_t length = 0;

	for (;;) {
		ssize_t num = read(in, text + length, 1023 - length);

		if (num < 0 && errno == EINTR)
			continue;
		if (num <= 0)
			return text;
		length += (size_t)num;
	}
}

bool validate_in_child(struct validate *validate, validate_function function,
		       const void *arg)
{
	pid_t child, parent = getpid();
	const char *text;
	int pipes[2], status = 0;

	if (pipe2(pipes, O_CLOEXEC))
		return validate_fail(validate, "a pipe cannot be had: %s",
				     strerror(errno));
	child = fork();
	if (!child) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			run_child(validate, function, arg, pipes[1]);
		_exit(1);
	}
	(void)close(pipes[1]);
	text = child < 0 ? strerror(errno) : read_answer(pipes[0]);
	(void)close(pipes[0]);
	if (child < 0)
		return validate_fail(validate, "a child cannot be started: %s",
				     text);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		return validate_fail(validate, "a child was ended by signal %d",
				     WTERMSIG(status));
	return !WEXITSTATUS(status) ||
	       validate_fail(validate, "in a child: %s", text);
}

/* ---- export ---- */

#define EXPORT_SIZE 4096
#define OWN_SEED 11
#define CHILD_SEED 12

/* A buffer, its descriptor, and the socket that a child answers on. */
struct export
{
	struct qbrt_pinned_memory *mem;
	int fd, socket;
};

static enum qbrt_status import(struct validate *validate, int fd,
			       struct qbrt_pinned_memory **mem)
{
	const int64_t shape = EXPORT_SIZE;

	return qbrt_pinned_memory_import_fd(validate->acc, fd, 0,
					    QBRT_DTYPE_UINT8, &shape, 1, mem);
}

static bool alloc_pattern(struct validate *validate, uint32_t seed,
			  struct export *export)
{
	const int64_t shape = EXPORT_SIZE;

	if (!validate_try(validate, "allocating pinned memory",
			  qbrt_pinned_memory_alloc(validate->acc,
						   QBRT_DTYPE_UINT8, &shape, 1,
						   NULL, &export->mem)))
		return false;
	validate_fill(qbrt_pinned_memory_get_data(export->mem), EXPORT_SIZE,
		      seed);
	return validate_try(
		validate, "exporting pinned memory",
		qbrt_pinned_memory_export_fd(export->mem, &export->fd));
}

/* A job of the device reads what was imported, too. */
static bool copy_imported(struct validate *validate,
			  struct qbrt_pinned_memory *mem, uint32_t seed)
{
	struct qbrt_pinned_memory *own;
	struct qbm_writer writer;
	struct validate_job job;
	bool is_good;

	validate_write_copy(&writer, EXPORT_SIZE);
	is_good = validate_launch(validate, &writer, &job);
	own = job.inputs[0];
	if (is_good) {
		job.inputs[0] = mem;
		is_good = validate_try(validate, "a copy of imported memory",
				       validate_infer(&job, 0, 0));
		job.inputs[0] = own;
	}
	if (is_good &&
	    !validate_has_pattern(qbrt_pinned_memory_get_data(job.outputs[0]),
				  EXPORT_SIZE, seed))
		is_good = validate_fail(validate, "the device does not see in "
						  "imported memory what was "
						  "written");
	validate_dispose(&job);
	return is_good;
}

static bool check_import(struct validate *validate, int fd, uint32_t seed)
{
	struct qbrt_pinned_memory *mem = NULL;
	bool is_good = validate_try(validate, "importing pinned memory",
				    import(validate, fd, &mem));

	if (is_good && !validate_has_pattern(qbrt_pinned_memory_get_data(mem),
					     EXPORT_SIZE, seed))
		is_good = validate_fail(validate, "imported memory does not "
						  "hold what was written");
	is_good = is_good && copy_imported(validate, mem, seed);
	qbrt_pinned_memory_free(mem);
	return is_good;
}

static bool send_fd(int socket, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(fd))] = { 0 };
	struct iovec part = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

/* -1: none came. */
static int receive_fd(int socket)
{
	char byte, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *head;
	int fd = -1;

	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != 1)
		return -1;
	head = CMSG_FIRSTHDR(&message);
	if (head && head->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(head), sizeof(fd));
	return fd;
}

/* In the child: what came is right; a buffer of its own goes back. */
static bool answer_export(struct validate *validate, const void *arg)
{
	const struct export *given = arg;
	struct export own = { .fd = -1 };

	if (!validate_try(validate, "opening the device",
			  validate_open_device(validate)) ||
	    !check_import(validate, given->fd, OWN_SEED) ||
	    !alloc_pattern(validate, CHILD_SEED, &own))
		return false;
	return send_fd(given->socket, own.fd) ||
	       validate_fail(validate, "a descriptor cannot be sent back");
}

static bool try_child(struct validate *validate, struct export *export)
{
	int sockets[2], fd;
	bool is_good;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		return validate_fail(validate, "a socket cannot be had: %s",
				     strerror(errno));
	export->socket = sockets[1];
	is_good = validate_in_child(validate, answer_export, export);
	fd = is_good ? receive_fd(sockets[0]) : -1;
	if (is_good && fd < 0)
		is_good = validate_fail(validate, "no descriptor came back "
						  "from a child");
	is_good = is_good && check_import(validate, fd, CHILD_SEED);
	if (fd >= 0)
		(void)close(fd);
	(void)close(sockets[0]);
	(void)close(sockets[1]);
	return is_good;
}

static bool is_told(const struct validate *validate, enum field_id field)
{
	const struct value *value = record_see(validate->device, field);

	return value->is_set && value->boolean;
}

bool validate_export(struct validate *validate)
{
	struct export export = { .fd = -1 };
	bool has_dmabuf = is_told(validate, FIELD_DMABUF_EXPORT), is_good;

	if (!has_dmabuf && !is_told(validate, FIELD_MEMFD_EXPORT))
		return validate_skip(validate, REASON_NOT_SUPPORTED,
				     "the device exports neither dma-buf nor "
				     "memfd");
	is_good = alloc_pattern(validate, OWN_SEED, &export) &&
		  check_import(validate, export.fd, OWN_SEED) &&
		  try_child(validate, &export);
	if (export.fd >= 0)
		(void)close(export.fd);
	qbrt_pinned_memory_free(export.mem);
	return is_good &&
	       validate_ok(validate, has_dmabuf
					     ? "dma-buf, to a child and back"
					     : "memfd, to a child and back; no "
					       "dma-buf here");
}
