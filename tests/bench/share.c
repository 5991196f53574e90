// SPDX-License-Identifier: MIT
/*
 * P34: a pinned buffer goes to another process, which maps it, looks at it and
 * says so. The other process is there before, with a device of its own open.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "subject.h"

#define MARK 0x5a

struct share {
	struct subject *subject;
	struct qbrt_pinned_memory *mem;
	size_t nbytes;
	pid_t process;
	int socket;
};

static bool send_fd(int socket, int fd)
{
	uint64_t message = 1;
	struct iovec part = { &message, sizeof(message) };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct msghdr head = { .msg_iov = &part,
			       .msg_iovlen = 1,
			       .msg_control = control,
			       .msg_controllen = sizeof(control) };
	struct cmsghdr *entry = CMSG_FIRSTHDR(&head);

	entry->cmsg_level = SOL_SOCKET;
	entry->cmsg_type = SCM_RIGHTS;
	entry->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(entry), &fd, sizeof(fd));
	return sendmsg(socket, &head, MSG_NOSIGNAL) == sizeof(message);
}

/* -1: the other end is closed. */
static int receive_fd(int socket)
{
	uint64_t message;
	struct iovec part = { &message, sizeof(message) };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct msghdr head = { .msg_iov = &part,
			       .msg_iovlen = 1,
			       .msg_control = control,
			       .msg_controllen = sizeof(control) };
	struct cmsghdr *entry;
	int fd;

	if (recvmsg(socket, &head, MSG_CMSG_CLOEXEC) != sizeof(message))
		return -1;
	entry = CMSG_FIRSTHDR(&head);
	if (!entry)
		return -1;
	memcpy(&fd, CMSG_DATA(entry), sizeof(fd));
	return fd;
}

/* The first byte of what came, or 0. */
static uint64_t look_at(struct qbrt_accelerator *acc, int fd, size_t nbytes)
{
	const int64_t shape[] = { (int64_t)nbytes };
	struct qbrt_pinned_memory *mem;
	const uint8_t *data;
	uint64_t seen;

	if (qbrt_pinned_memory_import_fd(acc, fd, 0, QBRT_DTYPE_UINT8, shape, 1,
					 &mem))
		return 0;
	data = qbrt_pinned_memory_get_data(mem);
	seen = data[0];
	qbrt_pinned_memory_free(mem);
	return seen;
}

static void receive_all(const struct share *share,
			const struct bench_case *bench_case, int socket)
{
	struct qbrt_accelerator *acc;
	uint64_t seen = 1;
	int fd;

	bench_place(bench_case->placement, 1, gettid());
	if (qbrt_accelerator_open(SUBJECT_WARM, 0, &acc))
		return;
	while (send(socket, &seen, sizeof(seen), MSG_NOSIGNAL) ==
		       sizeof(seen) &&
	       (fd = receive_fd(socket)) >= 0) {
		seen = look_at(acc, fd, share->nbytes);
		(void)close(fd);
	}
	qbrt_accelerator_close(acc);
}

static bool hear(const struct share *share, uint64_t expected)
{
	uint64_t seen;

	return recv(share->socket, &seen, sizeof(seen), 0) == sizeof(seen) &&
	       seen == expected;
}

static void close_share(void *state)
{
	struct share *share = state;

	/* a partner of another probe may have inherited this end too */
	(void)shutdown(share->socket, SHUT_RDWR);
	(void)close(share->socket);
	if (share->process > 0)
		(void)waitpid(share->process, NULL, 0);
	qbrt_pinned_memory_free(share->mem);
	if (share->subject)
		subject_close(share->subject);
	free(share);
}

/* Before this process has a device, which a child would not be given. */
static bool start_process(struct share *share,
			  const struct bench_case *bench_case)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return false;
	share->process = fork();
	if (!share->process) {
		(void)close(ends[0]);
		receive_all(share, bench_case, ends[1]);
		_exit(0);
	}
	(void)close(ends[1]);
	share->socket = ends[0];
	return share->process > 0 && hear(share, 1);
}

static bool fill_buffer(struct share *share)
{
	const int64_t shape[] = { (int64_t)share->nbytes };

	if (!share->subject ||
	    qbrt_pinned_memory_alloc(share->subject->acc, QBRT_DTYPE_UINT8,
				     shape, 1, NULL, &share->mem))
		return false;
	memset(qbrt_pinned_memory_get_data(share->mem), MARK, share->nbytes);
	return true;
}

static void *open_share(const struct bench_case *bench_case)
{
	struct share *share = calloc(1, sizeof(*share));
	bool is_good;

	if (!share)
		return NULL;
	share->nbytes = bench_case->size;
	share->socket = -1;
	subject_setup();
	is_good = start_process(share, bench_case);
	if (is_good) {
		share->subject = subject_open(bench_case, &subject_nop);
		is_good = fill_buffer(share);
	}
	if (is_good)
		return share;
	bench_set_reason("no other process with a device could be started");
	close_share(share);
	return NULL;
}

static int64_t run_share(void *state, uint32_t num)
{
	const struct share *share = state;
	int64_t sum = 0;

	while (num--) {
		int64_t begin = bench_now_ns();
		bool is_seen;
		int fd;

		if (qbrt_pinned_memory_export_fd(share->mem, &fd))
			return -1;
		is_seen = send_fd(share->socket, fd) && hear(share, MARK);
		sum += bench_now_ns() - begin;
		(void)close(fd);
		if (!is_seen)
			return -1;
	}
	return sum;
}

const struct bench_probe probe_share = {
	.name = "export, send, import, answer",
	.open = open_share,
	.run = run_share,
	.close = close_share,
};
