// SPDX-License-Identifier: MIT
/*
 * K508, K011: sequences of requests on the software driver, by four threads on
 * files that they share and on files of their own, with mappings and
 * descriptors that all of them use and end. An input is one byte that chooses
 * the node, and up to 32 steps of 16 bytes (uapi-call.h). The highest bits of a
 * step's kind are the number of its thread; what stands before the first step
 * with GO runs alone.
 *
 * Demanded of each request: a code that kernel.md, section 4, has, and after a
 * failure the struct as it was; after each input: no descriptor and no memory
 * is left. That nothing hangs is libFuzzer's -timeout.
 */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kmd.h"
#include "soft/soft.h"
#include "uapi-call.h"
#include "uapi/qbnpu_drm.h"
#include "util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NUM_THREADS 4
#define NUM_SHARED 2
#define NUM_MAPPINGS 32
#define NUM_FDS 8
#define NUM_WATCHED 64 /* descriptors */
#define MAX_STEPS 32
#define GO 32
#define THREAD_SHIFT 6
#define CLOSED (-1)

struct mapping {
	int file;
	void *address;
	size_t length;
};

/* The input under way; what follows lock is under it. */
static struct {
	const char *node;
	const struct uapi_step *steps;
	size_t num_steps, first_shared;
	int shared[NUM_SHARED];
	pthread_mutex_t lock;
	struct mapping mappings[NUM_MAPPINGS];
	size_t num_mappings;
	int fds[NUM_FDS];     /* of exports */
	int num_fds_at_start; /* libFuzzer opens some between inputs */
} input = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* One of the threads; its file is its own. */
struct worker {
	unsigned int number;
	int file;
	uint8_t *arena;
};

static struct worker workers[NUM_THREADS];
static pthread_barrier_t begin_barrier, end_barrier;
static struct qbrt_kmd_options options;
static int event_fd;

#if defined(__has_feature) && __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#else
#define HAS_TSAN 0
#endif

#define demand(is_true) \
	((is_true) ? (void)0 : end_with_finding(__LINE__, #is_true))

static void end_with_finding(int line, const char *claim)
{
	(void)fprintf(stderr, "fuzz-uapi.c:%d: not so: %s\n", line, claim);
	abort();
}

static int open_file(void)
{
	int file = CLOSED;

	demand(!qbrt_kmd_soft.open(&options, input.node, &file));
	return file;
}

static int choose_file(struct worker *worker, const struct uapi_step *step)
{
	int *file = step->file % 4 < NUM_SHARED ? &input.shared[step->file % 4]
						: &worker->file;

	if (*file == CLOSED)
		*file = open_file();
	return *file;
}

/* ---- mappings and descriptors ---- */

static void put_mapping(const struct mapping *mapping)
{
	bool is_kept = false;

	(void)pthread_mutex_lock(&input.lock);
	if (input.num_mappings < NUM_MAPPINGS) {
		input.mappings[input.num_mappings++] = *mapping;
		is_kept = true;
	}
	(void)pthread_mutex_unlock(&input.lock);
	if (!is_kept)
		demand(!qbrt_kmd_soft.munmap(mapping->file, mapping->address,
					     mapping->length));
}

static bool take_mapping(size_t index, struct mapping *mapping)
{
	bool is_there;

	(void)pthread_mutex_lock(&input.lock);
	is_there = input.num_mappings > 0;
	if (is_there) {
		struct mapping *taken =
			&input.mappings[index % input.num_mappings];

		*mapping = *taken;
		*taken = input.mappings[--input.num_mappings];
	}
	(void)pthread_mutex_unlock(&input.lock);
	return is_there;
}

static void map(int file, const struct uapi_step *step)
{
	struct drm_qbnpu_bo_info info = { .handle = step->a % 12 };
	struct mapping mapping = {
		.file = file,
		.length = 4096 * (1 + step->c % 4),
	};
	int prot = step->b & (PROT_READ | PROT_WRITE | PROT_EXEC);
	int err;

	/* without a buffer: the progress page */
	(void)qbrt_kmd_soft.ioctl(file, DRM_IOCTL_QBNPU_BO_INFO, &info);
	if (step->mutate_how)
		info.map_offset ^= step->value;
	err = qbrt_kmd_soft.mmap(file, info.map_offset, mapping.length, prot,
				 &mapping.address);
	demand(!err || err == -EINVAL || err == -EACCES || err == -ENOMEM);
	if (!err)
		put_mapping(&mapping);
}

static void unmap(const struct uapi_step *step)
{
	struct mapping mapping;

	if (!take_mapping(step->a, &mapping))
		return;
	/* what was not handed out is refused, and stays */
	if (step->b & 1) {
		demand(qbrt_kmd_soft.munmap(mapping.file, mapping.address, 0) ==
		       -EINVAL);
		demand(qbrt_kmd_soft.munmap(mapping.file,
					    (uint8_t *)mapping.address + 64,
					    4096) == -EINVAL);
	}
	demand(!qbrt_kmd_soft.munmap(mapping.file, mapping.address,
				     mapping.length));
}

/* Keeps fd in a place, and gives what was there to be closed. */
static int swap_fd(size_t index, int fd)
{
	int previous;

	(void)pthread_mutex_lock(&input.lock);
	previous = input.fds[index % NUM_FDS];
	input.fds[index % NUM_FDS] = fd;
	(void)pthread_mutex_unlock(&input.lock);
	return previous;
}

/*
 * Another thread may close it meanwhile, which is what is wanted; but to TSan
 * it is a finding, so there a copy is used.
 */
static int get_fd(size_t index)
{
	int fd;

	(void)pthread_mutex_lock(&input.lock);
	fd = input.fds[index % NUM_FDS];
	if (HAS_TSAN && fd >= 0)
		fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	(void)pthread_mutex_unlock(&input.lock);
	return fd;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		demand(!close(fd));
}

/* What an export gave: the caller's to close, and closed by an exec. */
static void keep_fd(const struct uapi_call *call, const struct uapi_step *step)
{
	int fd;

	memcpy(&fd, call->bytes + offsetof(struct drm_prime_handle, fd),
	       sizeof(fd));
	demand(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	close_fd(swap_fd(step->d, fd));
}

/* ---- requests ---- */

/* The same request, of whatever size. */
static bool is_of(unsigned long request, unsigned long known)
{
	return _IOC_TYPE(request) == _IOC_TYPE(known) &&
	       _IOC_NR(request) == _IOC_NR(known);
}

/* Nothing is ever lost here, no descriptor is short. */
static bool is_code(unsigned long request, int err)
{
	static const int codes[] = {
		0,      EINVAL, EFAULT,  ENOENT,    ENOEXEC, EOPNOTSUPP,
		EACCES, ERANGE, ENOMEM,  ENOSPC,    EBUSY,   EBADF,
		ETIME,  EIO,    ENODATA, ECANCELED,
	};

	if (err == -ENOTTY)
		return _IOC_TYPE(request) != DRM_IOCTL_BASE;
	if (err == -EINTR) /* libFuzzer's own timer */
		return is_of(request, DRM_IOCTL_QBNPU_WAIT) ||
		       is_of(request, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT);
	for (size_t i = 0; i < qbrt_array_size(codes); i++) {
		if (err == -codes[i])
			return true;
	}
	return false;
}

static void call(struct worker *worker, uint8_t *stack, int file,
		 const struct uapi_step *step)
{
	struct uapi_place place = {
		.arena = worker->arena,
		.stack = stack,
		.fd = get_fd(step->d),
		.event_fd = event_fd,
	};
	struct uapi_call call, before;
	int err;

	uapi_call_fill(&call, step, &place);
	before = call;
	err = qbrt_kmd_soft.ioctl(file, call.request, call.bytes);
	if (HAS_TSAN)
		close_fd(place.fd);
	demand(is_code(call.request, err));
	if (!err && (is_of(call.request, DRM_IOCTL_PRIME_HANDLE_TO_FD) ||
		     is_of(call.request, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD)))
		keep_fd(&call, step);
	if (!err)
		return;
	memcpy(before.bytes + before.changed_from,
	       call.bytes + before.changed_from,
	       before.changed_to - before.changed_from);
	demand(!memcmp(before.bytes, call.bytes, sizeof(before.bytes)));
}

static void do_step(struct worker *worker, uint8_t *stack,
		    const struct uapi_step *step)
{
	unsigned int kind = step->kind & UAPI_KIND_MASK;
	int err;

	if (kind < uapi_num_kinds) {
		call(worker, stack, choose_file(worker, step), step);
		return;
	}
	switch (kind - uapi_num_kinds) {
	case 0:
		map(choose_file(worker, step), step);
		break;
	case 1:
		unmap(step);
		break;
	case 2:
		err = qbrt_kmd_soft.poll(choose_file(worker, step),
					 step->a & 1 ? qbrt_now_ns() + 100000
						     : 0);
		demand(!err || err == -ETIME);
		break;
	case 3:
		if (worker->file != CLOSED)
			qbrt_kmd_soft.close(worker->file);
		worker->file = CLOSED;
		break;
	default:
		close_fd(swap_fd(step->a, -1));
		break;
	}
}

/* ---- threads ---- */

static void run_steps(struct worker *worker, size_t first, size_t end,
		      bool is_alone)
{
	uint8_t stack[UAPI_STACK_SIZE] __attribute__((aligned(16)));

	memset(stack, 0, sizeof(stack));
	for (size_t i = first; i < end; i++) {
		const struct uapi_step *step = &input.steps[i];

		if (is_alone || step->kind >> THREAD_SHIFT == worker->number)
			do_step(worker, stack, step);
	}
}

static void *work(void *arg)
{
	for (;;) {
		(void)pthread_barrier_wait(&begin_barrier);
		run_steps(arg, input.first_shared, input.num_steps, false);
		(void)pthread_barrier_wait(&end_barrier);
	}
	return NULL;
}

static void run_input(void)
{
	/* what threads share is there before they start */
	for (size_t i = 0; i < input.num_steps; i++) {
		if (input.first_shared < input.num_steps &&
		    input.steps[i].file % 4 < NUM_SHARED)
			(void)choose_file(&workers[0], &input.steps[i]);
	}
	run_steps(&workers[0], 0, input.first_shared, true);
	if (input.first_shared == input.num_steps)
		return;
	(void)pthread_barrier_wait(&begin_barrier);
	run_steps(&workers[0], input.first_shared, input.num_steps, false);
	(void)pthread_barrier_wait(&end_barrier);
}

/* ---- begin and end ---- */

/* Bytes of both regions; QUERY MEMORY would read files for it. */
static uint64_t count_used(void)
{
	struct qbnpu_npu *npu = qbnpu_soft_npu(0);

	return atomic_load(qbnpu_soft_get_system_used()) +
	       (options.soft_memory - qbnpu_npu_get_memory_free(npu));
}

/* Open descriptors, by one call. TSan opens some of its own at any time. */
static int count_fds(void)
{
	struct pollfd fds[NUM_WATCHED];
	int num = 0;

	if (HAS_TSAN)
		return 0;
	for (int i = 0; i < NUM_WATCHED; i++)
		fds[i] = (struct pollfd){ .fd = i };
	demand(poll(fds, NUM_WATCHED, 0) >= 0);
	for (int i = 0; i < NUM_WATCHED; i++)
		num += !(fds[i].revents & POLLNVAL);
	return num;
}

static uint8_t *map_arena(void)
{
	uint8_t *arena =
		mmap(NULL, UAPI_ARENA_SIZE + 65536, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	demand(arena != MAP_FAILED);
	demand(!mprotect(arena + UAPI_ARENA_SIZE, 65536, PROT_NONE));
	return arena;
}

static void begin_process(void)
{
	pthread_t thread;

	strcpy(options.soft_names[0], "aries-rb");
	strcpy(options.soft_names[1], "regulus-ra");
	options.num_soft_names = 2;
	options.soft_memory = 16u << 20;
	options.soft_backend = QBRT_KMD_BACKEND_REF;
	uapi_call_begin();
	input.node = "soft:0";
	(void)open_file(); /* for good: soft:0 is not opened each time */
	event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	(void)pthread_barrier_init(&begin_barrier, NULL, NUM_THREADS);
	(void)pthread_barrier_init(&end_barrier, NULL, NUM_THREADS);
	for (unsigned int i = 0; i < NUM_THREADS; i++) {
		workers[i].number = i;
		workers[i].file = CLOSED;
		workers[i].arena = map_arena();
		if (i)
			demand(!pthread_create(&thread, NULL, work,
					       &workers[i]));
	}
	demand(!count_used());
}

static void close_files(void)
{
	for (int i = 0; i < NUM_SHARED; i++) {
		if (input.shared[i] != CLOSED)
			qbrt_kmd_soft.close(input.shared[i]);
	}
	for (int i = 0; i < NUM_THREADS; i++) {
		if (workers[i].file != CLOSED)
			qbrt_kmd_soft.close(workers[i].file);
		workers[i].file = CLOSED;
	}
}

/* A core may still hold what it ran last, for a moment. */
static void check_nothing_left(void)
{
	int64_t deadline_ns = qbrt_deadline_ns(5 * QBRT_NS_PER_SEC);

	while ((count_used() || count_fds() != input.num_fds_at_start) &&
	       qbrt_now_ns() < deadline_ns)
		(void)sched_yield();
	demand(!count_used());
	demand(count_fds() == input.num_fds_at_start);
}

static void end_input(void)
{
	struct mapping mapping;

	/* mappings and exports outlive their file as well as the reverse */
	if (input.num_steps & 1)
		close_files();
	while (take_mapping(0, &mapping))
		demand(!qbrt_kmd_soft.munmap(mapping.file, mapping.address,
					     mapping.length));
	for (size_t i = 0; i < NUM_FDS; i++)
		close_fd(swap_fd(i, -1));
	if (!(input.num_steps & 1))
		close_files();
	check_nothing_left();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct uapi_step steps[MAX_STEPS];
	static bool has_begun;

	if (!has_begun) {
		begin_process();
		has_begun = true;
	}
	if (!size)
		return 0;
	input.num_steps = (size - 1) / sizeof(steps[0]);
	if (input.num_steps > MAX_STEPS)
		input.num_steps = MAX_STEPS;
	memcpy(steps, data + 1, input.num_steps * sizeof(steps[0]));
	input.steps = steps;
	input.node = data[0] & 1 ? "soft:1" : "soft:0";
	for (size_t i = 0; i < NUM_SHARED; i++)
		input.shared[i] = CLOSED;
	for (size_t i = 0; i < NUM_FDS; i++)
		input.fds[i] = -1;
	for (input.first_shared = 0; input.first_shared < input.num_steps;
	     input.first_shared++) {
		if (steps[input.first_shared].kind & GO)
			break;
	}
	input.num_fds_at_start = count_fds();
	run_input();
	end_input();
	return 0;
}
