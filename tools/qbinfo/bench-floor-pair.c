// SPDX-License-Identifier: MIT
/*
 * Floors of a hand-over: a partner, thread or process, answers each message.
 * One struct link in shared memory serves both; a kind says how a side tells
 * the other one and how it waits. F3 to F9.
 */
#include "bench.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPIN_NS 20000
#define LOOKS_PER_CLOCK 32

struct link;

/* side 0 measures, side 1 answers; both return false at the end or an error */
struct kind {
	bool (*tell)(struct link *link, int side);
	bool (*await)(struct link *link, int side);
	bool is_process;
	bool passes_fd;
};

struct link {
	/* what is told to each side, on lines of their own */
	struct {
		_Alignas(64) atomic_uint word;
		unsigned int seen;
	} sides[2];
	const struct kind *kind;
	pthread_t thread;
	enum bench_placement placement;
	atomic_int partner_tid;
	pid_t process; /* of the partner, if it has its own */
	int fds[2];    /* eventfd of each side, or its socket */
	int passed;    /* the descriptor that goes along */
	atomic_bool is_over;
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static bool has_news(const struct link *link, int side)
{
	return atomic_load_explicit(&link->sides[side].word,
				    memory_order_acquire) !=
	       link->sides[side].seen;
}

static bool take_news(struct link *link, int side)
{
	link->sides[side].seen++;
	return !atomic_load(&link->is_over);
}

/* ---- words ---- */

static bool tell_word(struct link *link, int side)
{
	atomic_fetch_add_explicit(&link->sides[side].word, 1,
				  memory_order_release);
	return true;
}

static bool await_spin(struct link *link, int side)
{
	while (!has_news(link, side))
		relax();
	return take_news(link, side);
}

static void sleep_on(struct link *link, int side, int op)
{
	while (!has_news(link, side))
		(void)syscall(SYS_futex, &link->sides[side].word, op,
			      link->sides[side].seen, NULL, NULL, 0);
}

static bool tell_futex(struct link *link, int side)
{
	(void)tell_word(link, side);
	(void)syscall(SYS_futex, &link->sides[side].word, FUTEX_WAKE_PRIVATE, 1,
		      NULL, NULL, 0);
	return true;
}

static bool await_futex(struct link *link, int side)
{
	sleep_on(link, side, FUTEX_WAIT_PRIVATE);
	return take_news(link, side);
}

static bool await_spin_futex(struct link *link, int side)
{
	int64_t end_ns = bench_now_ns() + SPIN_NS;

	do {
		for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
			if (has_news(link, side))
				return take_news(link, side);
			relax();
		}
	} while (bench_now_ns() < end_ns);
	return await_futex(link, side);
}

static bool tell_futex_shared(struct link *link, int side)
{
	(void)tell_word(link, side);
	(void)syscall(SYS_futex, &link->sides[side].word, FUTEX_WAKE, 1, NULL,
		      NULL, 0);
	return true;
}

static bool await_futex_shared(struct link *link, int side)
{
	sleep_on(link, side, FUTEX_WAIT);
	return take_news(link, side);
}

/* ---- descriptors ---- */

static bool tell_eventfd(struct link *link, int side)
{
	return !eventfd_write(link->fds[side], 1);
}

static bool await_eventfd(struct link *link, int side)
{
	eventfd_t value;

	return !eventfd_read(link->fds[side], &value) &&
	       !atomic_load(&link->is_over);
}

static bool tell_socket(struct link *link, int side)
{
	uint64_t message = 1;
	struct iovec part = { &message, sizeof(message) };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct msghdr head = { .msg_iov = &part, .msg_iovlen = 1 };
	struct cmsghdr *entry;

	if (link->kind->passes_fd) {
		head.msg_control = control;
		head.msg_controllen = sizeof(control);
		entry = CMSG_FIRSTHDR(&head);
		entry->cmsg_level = SOL_SOCKET;
		entry->cmsg_type = SCM_RIGHTS;
		entry->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(entry), &link->passed, sizeof(int));
	}
	/* what is told to a side is sent from the other one's end */
	return sendmsg(link->fds[!side], &head, MSG_NOSIGNAL) == 8;
}

static bool await_socket(struct link *link, int side)
{
	uint64_t message;
	struct iovec part = { &message, sizeof(message) };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct msghdr head = { .msg_iov = &part, .msg_iovlen = 1 };
	struct cmsghdr *entry;
	int fd;

	if (link->kind->passes_fd) {
		head.msg_control = control;
		head.msg_controllen = sizeof(control);
	}
	if (recvmsg(link->fds[side], &head, MSG_CMSG_CLOEXEC) != 8)
		return false;
	entry = CMSG_FIRSTHDR(&head);
	if (link->kind->passes_fd && !entry)
		return false;
	if (entry) {
		memcpy(&fd, CMSG_DATA(entry), sizeof(fd));
		(void)close(fd);
	}
	return !atomic_load(&link->is_over);
}

static const struct kind spin_kind = { tell_word, await_spin, false, false };
static const struct kind futex_kind = { tell_futex, await_futex, false, false };
static const struct kind spin_futex_kind = { tell_futex, await_spin_futex,
					     false, false };
static const struct kind eventfd_kind = { tell_eventfd, await_eventfd, false,
					  false };
static const struct kind shared_kind = { tell_futex_shared, await_futex_shared,
					 true, false };
static const struct kind socket_kind = { tell_socket, await_socket, true,
					 false };
static const struct kind socket_fd_kind = { tell_socket, await_socket, true,
					    true };

/* ---- both sides ---- */

static void *answer(void *arg)
{
	struct link *link = arg;

	bench_place(link->placement, 1, gettid());
	atomic_store(&link->partner_tid, gettid());
	while (link->kind->await(link, 1) && link->kind->tell(link, 0))
		;
	return NULL;
}

static bool open_fds(struct link *link)
{
	const struct kind *kind = link->kind;

	if (kind->tell == tell_eventfd) {
		link->fds[0] = eventfd(0, EFD_CLOEXEC);
		link->fds[1] = eventfd(0, EFD_CLOEXEC);
		return link->fds[0] >= 0 && link->fds[1] >= 0;
	}
	if (kind->tell != tell_socket)
		return true;
	link->passed = memfd_create("bench", MFD_CLOEXEC);
	return link->passed >= 0 &&
	       !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
			   link->fds);
}

static void close_fd(int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

static void close_all(struct link *link)
{
	close_fd(link->fds[0]);
	/* that of another process was given up when it started */
	if (!link->process)
		close_fd(link->fds[1]);
	close_fd(link->passed);
	(void)munmap(link, sizeof(*link));
}

static bool start_partner(struct link *link)
{
	pid_t process, parent = getpid();

	if (!link->kind->is_process) {
		errno = pthread_create(&link->thread, NULL, answer, link);
		return !errno;
	}
	process = fork();
	if (process < 0)
		return false;
	/* a side that holds both ends would never see the other one's end */
	close_fd(link->fds[process > 0]);
	if (process) {
		link->process = process;
		return true;
	}
	/* who measures may be killed, and may have been by now */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent)
		(void)answer(link);
	_exit(0);
}

static void *open_link(const struct kind *kind,
		       const struct bench_case *bench_case)
{
	static char reason[128];
	struct link *link = mmap(NULL, sizeof(*link), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (link == MAP_FAILED)
		return NULL;
	link->kind = kind;
	link->placement = bench_case->placement;
	link->fds[0] = -1;
	link->fds[1] = -1;
	link->passed = -1;
	if (open_fds(link) && start_partner(link))
		return link;
	(void)snprintf(reason, sizeof(reason),
		       "no partner could be started: %s", strerror(errno));
	bench_set_reason(reason);
	close_all(link);
	return NULL;
}

static int64_t run_link(void *state, uint32_t num)
{
	struct link *link = state;
	int64_t begin = bench_now_ns();

	while (num--)
		if (!link->kind->tell(link, 1) || !link->kind->await(link, 0)) {
			bench_set_wrong("no answer came from the partner",
					NULL);
			return -1;
		}
	return bench_now_ns() - begin;
}

static void close_link(void *state)
{
	struct link *link = state;

	atomic_store(&link->is_over, true);
	(void)link->kind->tell(link, 1);
	if (link->kind->is_process)
		(void)waitpid(link->process, NULL, 0);
	else
		(void)pthread_join(link->thread, NULL);
	close_all(link);
}

#define ROUND_TRIP(probe, words, of_kind) \
	static void *open_##of_kind(const struct bench_case *bench_case) \
	{ \
		return open_link(&of_kind, bench_case); \
	} \
	const struct bench_probe probe = { \
		.name = words, \
		.open = open_##of_kind, \
		.run = run_link, \
		.close = close_link, \
	}

ROUND_TRIP(bench_floor_spin, "F3 spin flag round trip", spin_kind);
ROUND_TRIP(bench_floor_futex, "F4 futex round trip", futex_kind);
ROUND_TRIP(bench_floor_eventfd, "F5 eventfd round trip", eventfd_kind);
ROUND_TRIP(bench_floor_spin_futex, "F6 spin, then futex", spin_futex_kind);
ROUND_TRIP(bench_floor_futex_shared, "F8 futex between processes", shared_kind);
ROUND_TRIP(bench_floor_socket, "F9 seqpacket socket", socket_kind);
ROUND_TRIP(bench_floor_socket_fd, "F9 with a descriptor each way",
	   socket_fd_kind);

/* The wake alone, of a partner that sleeps. */
static int64_t run_wake(void *state, uint32_t num)
{
	struct link *link = state;
	int64_t sum = 0;

	while (num--) {
		int64_t begin;
		pid_t tid;

		while (!(tid = atomic_load(&link->partner_tid)))
			(void)sched_yield();
		bench_wait_asleep(tid);
		begin = bench_now_ns();
		(void)link->kind->tell(link, 1);
		sum += bench_now_ns() - begin;
		if (!link->kind->await(link, 0))
			return -1;
	}
	return sum;
}

const struct bench_probe bench_floor_wake = {
	.name = "F7 futex wake of a sleeper",
	.open = open_futex_kind,
	.run = run_wake,
	.close = close_link,
};
