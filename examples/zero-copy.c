// SPDX-License-Identifier: MIT
/*
 * Two processes, one buffer: the owner has the NPU and the model, the writer
 * puts pictures straight into the model's input and reads the scores straight
 * out of its output. Usage: zero-copy [digits.qbm]; the owner starts the
 * writer, this program again. Between them goes a socket:
 *
 *	owner				writer
 *	descriptors of both buffers ->	imports them
 *					writes a picture
 *	infers			<-	a byte: the input is yours
 *	a byte: the output is yours ->	reads the scores, and so on
 *
 * A buffer lives as long as a handle or a descriptor of it does, whichever
 * process has that. What a failed run holds ends with its process.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <qbruntime/qbrt.h>

#include "digits-data.h"

#define WRITER "--writer"

#define TRY(call) \
	do { \
		if ((call) != QBRT_OK) \
			return fail(qbrt_error_detail()); \
	} while (0)

/* Both descriptors go in one message. */
union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(2 * sizeof(int))];
};

static int fail(const char *sentence)
{
	(void)fprintf(stderr, "zero-copy: %s\n", sentence);
	return 1;
}

/* The message holds copies of its own: the caller closes his. */
static bool send_fds(int socket, const int fds[2])
{
	char byte = 0;
	struct iovec data = { .iov_base = &byte, .iov_len = 1 };
	union control control = { .bytes = { 0 } };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(2 * sizeof(int));
	memcpy(CMSG_DATA(&control.head), fds, 2 * sizeof(int));
	return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

/* They are the caller's to close. */
static bool receive_fds(int socket, int fds[2])
{
	char byte;
	struct iovec data = { .iov_base = &byte, .iov_len = 1 };
	union control control = { .bytes = { 0 } };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };

	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 ||
	    control.head.cmsg_type != SCM_RIGHTS ||
	    control.head.cmsg_len != CMSG_LEN(2 * sizeof(int)))
		return false;
	memcpy(fds, CMSG_DATA(&control.head), 2 * sizeof(int));
	return true;
}

/* false: the other process has ended. */
static bool give_turn(int socket)
{
	return send(socket, "", 1, MSG_NOSIGNAL) == 1;
}

static bool take_turn(int socket)
{
	char byte;

	return recv(socket, &byte, 1, 0) == 1;
}

/* The memory that a descriptor stands for; its pointer, device and handle. */
static enum qbrt_status import(struct qbrt_accelerator *acc, int fd,
			       enum qbrt_dtype dtype, int64_t num,
			       struct qbrt_pinned_memory **mem)
{
	enum qbrt_status status =
		qbrt_pinned_memory_import_fd(acc, fd, 0, dtype, &num, 1, mem);

	(void)close(fd); /* the handle keeps the memory from here on */
	return status;
}

static int run_writer(const char *path, int socket)
{
	FILE *pixels = open_beside(path, "digits-16.u8");
	FILE *text = open_beside(path, "digits-16.txt");
	struct qbrt_pinned_memory *in, *out;
	struct qbrt_accelerator *acc;
	int fds[2], num_right = 0;

	if (!pixels || !text)
		return fail("an image or its label is missing");
	if (!receive_fds(socket, fds))
		return fail("no buffers came from the owner");
	TRY(qbrt_accelerator_open(NULL, -1, &acc));
	TRY(import(acc, fds[0], QBRT_DTYPE_UINT8, IMAGE_NBYTES, &in));
	TRY(import(acc, fds[1], QBRT_DTYPE_FLOAT32, NUM_DIGITS, &out));
	for (int i = 0; i < NUM_IMAGES; i++) {
		long label = read_label(text);
		int answer;

		/*
		 * The brackets are for the caches of this CPU. They know the
		 * jobs of this process alone: those of the owner are waited for
		 * by the socket.
		 */
		TRY(qbrt_pinned_memory_begin_cpu_access(in, QBRT_CPU_WRITE));
		if (label < 0 || !fread(qbrt_pinned_memory_get_data(in),
					IMAGE_NBYTES, 1, pixels))
			return fail("an image or its label is missing");
		TRY(qbrt_pinned_memory_end_cpu_access(in));
		if (!give_turn(socket) || !take_turn(socket))
			return fail("the owner has ended");
		TRY(qbrt_pinned_memory_begin_cpu_access(out, QBRT_CPU_READ));
		answer = find_largest(qbrt_pinned_memory_get_data(out));
		TRY(qbrt_pinned_memory_end_cpu_access(out));
		(void)printf("%ld %d\n", label, answer);
		num_right += answer == label;
	}
	(void)printf("agree: %d of %d\n", num_right, NUM_IMAGES);
	(void)fclose(text);
	(void)fclose(pixels);
	qbrt_pinned_memory_free(out);
	qbrt_pinned_memory_free(in);
	qbrt_accelerator_close(acc);
	return 0;
}

/* Until the writer ends; counters: of all that it had inferred. */
static int run_owner(const char *path, int socket,
		     struct qbrt_model_counters *counters)
{
	struct qbrt_pinned_memory *in, *out;
	struct qbrt_accelerator *acc;
	struct qbrt_model *model;
	int fds[2];

	TRY(qbrt_accelerator_open(NULL, -1, &acc));
	TRY(qbrt_model_load(path, NULL, &model));
	TRY(qbrt_model_launch(model, acc));
	TRY(qbrt_model_alloc_input(model, 0, &in));
	TRY(qbrt_model_alloc_output(model, 0, &out));
	if (qbrt_pinned_memory_get_nbytes(in) != IMAGE_NBYTES ||
	    qbrt_pinned_memory_get_nbytes(out) != NUM_DIGITS * sizeof(float))
		return fail("not a model of 64 bytes in and 10 scores out");
	TRY(qbrt_pinned_memory_export_fd(in, &fds[0]));
	TRY(qbrt_pinned_memory_export_fd(out, &fds[1]));
	if (!send_fds(socket, fds))
		return fail("the writer has ended");
	(void)close(fds[0]);
	(void)close(fds[1]);
	while (take_turn(socket)) {
		TRY(qbrt_model_infer_pinned_memory(model, NULL, &in, 1, &out,
						   1));
		if (!give_turn(socket))
			break;
	}
	qbrt_model_get_counters(model, counters);
	qbrt_pinned_memory_free(out);
	qbrt_pinned_memory_free(in);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
	return 0;
}

/*
 * Its standard input is the socket. A process that only forked would share no
 * device with this one; with exec nothing that it inherits is in its way.
 */
static pid_t start_writer(char *program, char *path, int socket)
{
	char role[] = WRITER;
	char *const arguments[] = { program, role, path, NULL };
	pid_t writer = fork();

	if (writer)
		return writer;
	if (dup2(socket, STDIN_FILENO) == STDIN_FILENO)
		(void)execvp(program, arguments);
	_exit(fail("the writer does not start"));
}

int main(int argc, char **argv)
{
	struct qbrt_model_counters counters = { .size = sizeof(counters) };
	const char *data_dir = qbrt_get_data_dir();
	int sockets[2], status = 0, result;
	char path[4096];
	pid_t writer;

	if (argc == 3 && !strcmp(argv[1], WRITER)) {
		result = run_writer(argv[2], STDIN_FILENO);
		return fclose(stdout) ? fail("stdout is full") : result;
	}
	(void)snprintf(path, sizeof(path), "%s/digits.qbm",
		       data_dir ? data_dir : ".");
	if (argc > 1)
		(void)snprintf(path, sizeof(path), "%s", argv[1]);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		return fail("no socket");
	writer = start_writer(argv[0], path, sockets[1]);
	(void)close(sockets[1]); /* the writer's end is the writer's alone */
	if (writer < 0)
		return fail("no process");
	result = run_owner(path, sockets[0], &counters);
	(void)close(sockets[0]); /* a writer that waits for the owner ends */
	if (waitpid(writer, &status, 0) != writer || status || result)
		return 1;
	(void)printf("bytes that the owner copied: %ju\n",
		     (uintmax_t)counters.copied_nbytes);
	return fclose(stdout) ? fail("stdout is full") : 0;
}
