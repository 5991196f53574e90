// SPDX-License-Identifier: MIT
/*
 * Two processes share 64 KiB, one of them is killed, whatever it is doing: the
 * other one's bytes stay, and what it holds returns to what it held before.
 *
 * A process dies when it has told how far it has come. It waits for an order
 * that never comes, so it also ends when the test does.
 */
#include "test-util.h"

#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "account.h"
#include "models.h"
#include "pass-fd.h"
#include "rig.h"
#include "soft/soft.h"
#include "util.h"

#define NUM_BYTES 65536
#define NUM_ROUNDS 25 /* of each moment */
#define NUM_SECONDS 60

/* What the process that dies has done last, or is doing, with the memory. */
enum moment {
	HELD,
	INFERRED,
	INFERRING,
	ACCESSED,
	NUM_MOMENTS,
};

/* A process and the socket to it. */
struct process {
	pid_t pid;
	int socket;
};

static uint32_t get_crc(const struct qbrt_pinned_memory *mem)
{
	return (uint32_t)crc32(0, qbrt_pinned_memory_get_data(mem), NUM_BYTES);
}

/* ---- what a process does ---- */

static void open_rig(struct rig *rig)
{
	rig_open(rig, NULL, models_load_copy(NUM_BYTES, 0));
	/* so that what the first inference makes is there */
	ck_assert_ok(rig_infer(rig, NULL));
}

static int export_fd(struct qbrt_pinned_memory *mem)
{
	int fd;

	ck_assert_ok(qbrt_pinned_memory_export_fd(mem, &fd));
	return fd;
}

static struct qbrt_pinned_memory *import(const struct rig *rig, int fd)
{
	const int64_t shape[] = { NUM_BYTES };
	struct qbrt_pinned_memory *mem;

	ck_assert_ok(qbrt_pinned_memory_import_fd(
		rig->acc, fd, 0, QBRT_DTYPE_UINT8, shape, 1, &mem));
	ck_assert_int_eq(close(fd), 0);
	return mem;
}

static void infer_from(const struct rig *rig, struct qbrt_pinned_memory *mem)
{
	memset(qbrt_pinned_memory_get_data(rig->out), 0, NUM_BYTES);
	ck_assert_ok(qbrt_model_infer_pinned_memory(rig->model, NULL, &mem, 1,
						    &rig->out, 1));
	ck_assert_uint_eq(get_crc(rig->out), get_crc(mem));
}

/* Copies its input after a minute of delays. */
static struct qbrt_model *load_long(void)
{
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	struct qbrt_model *model;
	uint16_t in, out;

	prog_begin(&prog);
	in = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(NUM_BYTES));
	out = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(NUM_BYTES));
	for (int i = 0; i < NUM_SECONDS; i++) {
		struct qbnpu_cmd_nop *nop = prog_cmd(&prog, QBNPU_OP_NOP);

		nop->delay_ns = QBRT_NS_PER_SEC;
	}
	prog_copy(&prog, in, out);
	model = models_load(&spec);
	prog_end(&prog);
	return model;
}

static bool is_any_core_busy(void)
{
	struct qbnpu_core_state states[QBNPU_MAX_CORES];
	size_t num = qbnpu_npu_get_core_states(qbnpu_soft_npu(0), states,
					       QBNPU_MAX_CORES);

	for (size_t i = 0; i < num; i++)
		if (states[i].is_busy)
			return true;
	return false;
}

/* Returns in the middle of the inference. */
static void begin_long_inference(const struct rig *rig,
				 struct qbrt_pinned_memory *mem)
{
	const struct qbrt_infer_options options = { .size = sizeof(options),
						    .timeout = -1 };
	struct qbrt_model *model = load_long();
	struct qbrt_pinned_memory *out;
	struct qbrt_future *future;

	ck_assert_ok(qbrt_model_launch(model, rig->acc));
	ck_assert_ok(qbrt_model_alloc_output(model, 0, &out));
	ck_assert_ok(qbrt_model_submit_pinned_memory(model, &options, &mem, 1,
						     &out, 1, &future));
	while (!is_any_core_busy())
		(void)sched_yield();
}

static void reach(enum moment moment, const struct rig *rig,
		  struct qbrt_pinned_memory *mem)
{
	if (moment == INFERRED)
		infer_from(rig, mem);
	else if (moment == INFERRING)
		begin_long_inference(rig, mem);
	else if (moment == ACCESSED)
		ck_assert_ok(qbrt_pinned_memory_begin_cpu_access(
			mem, QBRT_CPU_READ | QBRT_CPU_WRITE));
}

/* ---- between processes ---- */

/* In the child pid is 0 and socket its end. */
static struct process start(void)
{
	struct process process;
	int sockets[2];

	ck_assert_int_eq(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets),
		0);
	process.pid = fork();
	ck_assert_int_ge(process.pid, 0);
	process.socket = sockets[process.pid ? 0 : 1];
	ck_assert_int_eq(close(sockets[process.pid ? 1 : 0]), 0);
	return process;
}

static void tell(int socket, uint32_t number)
{
	ck_assert(pass_fd_send(socket, number, -1));
}

/* The number that the other one tells. */
static uint32_t hear(int socket)
{
	uint32_t number;
	int fd;

	ck_assert_msg(pass_fd_receive(socket, &number, &fd),
		      "the other process has ended");
	ck_assert_int_eq(fd, -1);
	return number;
}

static void tell_and_wait_for_death(int socket, uint32_t number)
{
	tell(socket, number);
	(void)hear(socket);
	_exit(1);
}

static void end_by_kill(const struct process *process)
{
	int status;

	ck_assert_int_eq(kill(process->pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(process->pid, &status, 0), process->pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	ck_assert_int_eq(close(process->socket), 0);
}

/* ---- the importer dies ---- */

static void run_importer(int fd, int socket, enum moment moment)
{
	struct qbrt_pinned_memory *mem;
	struct rig rig;

	open_rig(&rig);
	mem = import(&rig, fd);
	reach(moment, &rig, mem);
	tell_and_wait_for_death(socket, get_crc(mem));
}

/* Q500 Q495 K311 */
START_TEST(an_exporter_outlives_its_importer)
{
	struct account before;
	struct rig rig;

	open_rig(&rig);
	ck_assert_int_eq(close(export_fd(rig.in)), 0);
	before = account_get(rig.acc);
	for (unsigned int round = 0; round < NUM_ROUNDS; round++) {
		struct process importer;
		uint32_t crc;
		int fd;

		fill(rig.in, round);
		crc = get_crc(rig.in);
		fd = export_fd(rig.in);
		importer = start();
		if (!importer.pid)
			run_importer(fd, importer.socket, (enum moment)_i);
		ck_assert_int_eq(close(fd), 0);
		ck_assert_uint_eq(hear(importer.socket), crc);
		end_by_kill(&importer);
		ck_assert_uint_eq(get_crc(rig.in), crc);
		infer_from(&rig, rig.in);
		account_check(rig.acc, &before);
	}
	rig_close(&rig);
}
END_TEST

/* ---- the exporter dies ---- */

static void run_exporter(int socket, enum moment moment, unsigned int round)
{
	struct rig rig;

	open_rig(&rig);
	fill(rig.in, round);
	ck_assert(pass_fd_send(socket, 0, export_fd(rig.in)));
	reach(moment, &rig, rig.in);
	tell_and_wait_for_death(socket, get_crc(rig.in));
}

/* K135 Q495 */
START_TEST(an_importer_outlives_its_exporter)
{
	struct account before;
	struct rig rig;

	open_rig(&rig);
	before = account_get(rig.acc);
	for (unsigned int round = 0; round < NUM_ROUNDS; round++) {
		struct process exporter = start();
		struct qbrt_pinned_memory *mem;
		uint32_t crc;
		int fd;

		if (!exporter.pid)
			run_exporter(exporter.socket, (enum moment)_i, round);
		ck_assert(pass_fd_receive(exporter.socket, &crc, &fd));
		mem = import(&rig, fd);
		crc = hear(exporter.socket);
		ck_assert(holds(mem, round));
		end_by_kill(&exporter);
		ck_assert_uint_eq(get_crc(mem), crc);
		infer_from(&rig, mem);
		/* it is the importer's memory like any other */
		fill(mem, round + 1);
		infer_from(&rig, mem);
		qbrt_pinned_memory_free(mem);
		account_check(rig.acc, &before);
	}
	rig_close(&rig);
}
END_TEST

/* ---- the exporter dies, and is the importer's parent ---- */

/* Tells the bytes before and after its parent's death. */
static void run_orphan(int fd, int socket)
{
	struct qbrt_pinned_memory *mem;
	struct account before;
	struct rig rig;

	open_rig(&rig);
	before = account_get(rig.acc);
	mem = import(&rig, fd);
	before.descriptors--;
	tell(socket, get_crc(mem));
	(void)hear(socket);
	infer_from(&rig, mem);
	tell(socket, get_crc(mem));
	qbrt_pinned_memory_free(mem);
	account_check(rig.acc, &before);
	rig_close(&rig);
	_exit(0);
}

static void run_parent(int socket, int orphans_socket, enum moment moment,
		       unsigned int round)
{
	struct rig rig;
	pid_t orphan;
	int fd;

	open_rig(&rig);
	fill(rig.in, round);
	fd = export_fd(rig.in);
	orphan = fork();
	ck_assert_int_ge(orphan, 0);
	if (!orphan) {
		ck_assert_int_eq(close(socket), 0);
		run_orphan(fd, orphans_socket);
	}
	ck_assert_int_eq(close(orphans_socket), 0);
	reach(moment, &rig, rig.in);
	tell_and_wait_for_death(socket, get_crc(rig.in));
}

/* K135 Q495 Q748 */
START_TEST(an_importer_outlives_the_parent_that_exported)
{
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	for (unsigned int round = 0; round < NUM_ROUNDS; round++) {
		int sockets[2], status;
		struct process parent;
		uint32_t crc;

		ck_assert_int_eq(socketpair(AF_UNIX,
					    SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
					    sockets),
				 0);
		parent = start();
		if (!parent.pid) {
			ck_assert_int_eq(close(sockets[0]), 0);
			run_parent(parent.socket, sockets[1], (enum moment)_i,
				   round);
		}
		ck_assert_int_eq(close(sockets[1]), 0);
		crc = hear(parent.socket);
		ck_assert_uint_eq(hear(sockets[0]), crc);
		end_by_kill(&parent);
		tell(sockets[0], 0);
		ck_assert_uint_eq(hear(sockets[0]), crc);
		/* the orphan, which this process inherits */
		ck_assert_int_gt(wait(&status), 0);
		ck_assert(WIFEXITED(status) && !WEXITSTATUS(status));
		ck_assert_int_eq(close(sockets[0]), 0);
	}
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(an_exporter_outlives_its_importer, NUM_MOMENTS),
		QBRT_LOOP_TEST(an_importer_outlives_its_exporter, NUM_MOMENTS),
		QBRT_LOOP_TEST(an_importer_outlives_the_parent_that_exported,
			       NUM_MOMENTS),
	};

	return qbrt_test_run("pinned-fd-process", tests,
			     qbrt_array_size(tests));
}
