// SPDX-License-Identifier: MIT
/* Inferences on buffers that came by a descriptor. */
#include "check-infer.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "util.h"

/* One buffer, and views of 64 bytes in it. */
struct shared {
	struct rig rig;
	struct qbrt_pinned_memory *whole;
	int fd;
};

static void begin(struct shared *shared)
{
	const int64_t shape[] = { 4096 };

	rig_open(&shared->rig, NULL, models_load_copy64());
	shared->whole = rig_alloc(&shared->rig, QBRT_DTYPE_UINT8, 1, shape);
	ck_assert_ok(qbrt_pinned_memory_export_fd(shared->whole, &shared->fd));
}

static void end(struct shared *shared)
{
	ck_assert_int_eq(close(shared->fd), 0);
	qbrt_pinned_memory_free(shared->whole);
	rig_close(&shared->rig);
}

static struct qbrt_pinned_memory *import_at(const struct shared *shared, int fd,
					    size_t offset)
{
	const int64_t shape[] = { 64 };
	struct qbrt_pinned_memory *mem;

	ck_assert_ok(qbrt_pinned_memory_import_fd(
		shared->rig.acc, fd, offset, QBRT_DTYPE_UINT8, shape, 1, &mem));
	return mem;
}

/* Q500 Q481: bytes count, not buffers */
START_TEST(views_of_one_buffer_may_lie_side_by_side)
{
	struct qbrt_pinned_memory *in, *out, *same;
	struct shared shared;
	const char *bytes;

	begin(&shared);
	in = import_at(&shared, shared.fd, 64);
	out = import_at(&shared, shared.fd, 128);
	same = import_at(&shared, shared.fd, 64);
	fill(in, 3);
	ck_assert_ok(qbrt_model_infer_pinned_memory(shared.rig.model, NULL, &in,
						    1, &out, 1));
	ck_assert(holds(out, 3));
	bytes = qbrt_pinned_memory_get_data(shared.whole);
	ck_assert_mem_eq(bytes + 128, bytes + 64, 64);
	ck_assert_int_eq(bytes[0], 0);
	ck_assert_int_eq(bytes[192], 0);
	ck_assert_status(qbrt_model_infer_pinned_memory(shared.rig.model, NULL,
							&in, 1, &same, 1),
			 QBRT_PINNED_MEMORY_ALIASED);
	ck_assert(holds(in, 3));
	qbrt_pinned_memory_free(in);
	qbrt_pinned_memory_free(out);
	qbrt_pinned_memory_free(same);
	end(&shared);
}
END_TEST

/* Q481: 1016 */
START_TEST(read_only_memory_is_an_input_and_no_output)
{
	struct qbrt_pinned_memory *mem;
	struct shared shared;
	char path[32];
	int fd;

	begin(&shared);
	mem = import_at(&shared, shared.fd, 0);
	fill(mem, 4);
	qbrt_pinned_memory_free(mem);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", shared.fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	mem = import_at(&shared, fd, 0);
	ck_assert_int_eq(close(fd), 0);
	ck_assert_ok(qbrt_model_infer_pinned_memory(
		shared.rig.model, NULL, &mem, 1, &shared.rig.out, 1));
	ck_assert(holds(shared.rig.out, 4));
	fill(shared.rig.in, 5);
	ck_assert_status(qbrt_model_infer_pinned_memory(shared.rig.model, NULL,
							&shared.rig.in, 1, &mem,
							1),
			 QBRT_PINNED_MEMORY_READ_ONLY);
	ck_assert_detail("output 0");
	ck_assert(holds(mem, 4));
	qbrt_pinned_memory_free(mem);
	end(&shared);
}
END_TEST

void add_infer_shared_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(views_of_one_buffer_may_lie_side_by_side),
		QBRT_TEST(read_only_memory_is_an_input_and_no_output),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
