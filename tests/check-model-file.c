// SPDX-License-Identifier: MIT
/*
 * Loading as a whole: what is no container, where the bytes come from, what
 * happens to a file meanwhile and afterwards, and what runs out. Rules about
 * single fields are in check-model-file-head.c and -tables.c. Linked with
 * COUNT_ALLOC_LDFLAGS and -Wl,--wrap=pread,--wrap=pread64.
 */
#include "model-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "build-model.h"
#include "count-alloc.h"
#include "test-util.h"
#include "util.h"

ssize_t __real_pread(int fd, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread64(int fd, void *bytes, size_t size, off_t offset);

/* Before this pread (1, 2, ...) the file is cut to half; 0: never. */
static long cut_at;
static long num_preads;

ssize_t __wrap_pread(int fd, void *bytes, size_t size, off_t offset)
{
	struct stat st;

	if (++num_preads == cut_at &&
	    (fstat(fd, &st) || ftruncate(fd, st.st_size / 2)))
		abort();
	/* short reads are no ends */
	return __real_pread(fd, bytes, size > 1000 ? 1000 : size, offset);
}

ssize_t __wrap_pread64(int fd, void *bytes, size_t size, off_t offset)
{
	return __wrap_pread(fd, bytes, size, offset);
}

static void (*const fills[])(struct build *build) = { build_plain, build_modes,
						      build_full };

/* An unlinked file with these bytes. */
static int make_file(const void *bytes, size_t size)
{
	int fd = memfd_create("model", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, bytes, size), (ssize_t)size);
	return fd;
}

static void check_read_fails(int fd, enum qbrt_status status, const char *text)
{
	struct qbrt_model_file *file = NULL;

	ck_assert_status(qbrt_model_file_read(fd, "dir/m.mxq", &file), status);
	ck_assert_detail("dir/m.mxq");
	ck_assert_detail(text);
	ck_assert_ptr_null(file);
	ck_assert(!close(fd));
}

static void check_bytes_fail(const void *bytes, size_t size,
			     enum qbrt_status status, const char *text)
{
	check_read_fails(make_file(bytes, size), status, text);
}

/* LD01 LD12 */
START_TEST(what_is_no_regular_file_is_named)
{
	int fds[2];

	check_read_fails(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			 QBRT_MODEL_FAILED_TO_LOAD_MXQ,
			 "is a directory, not a regular file");
	check_read_fails(open("/dev/null", O_RDONLY | O_CLOEXEC),
			 QBRT_MODEL_FAILED_TO_LOAD_MXQ, "is a device, not");
	ck_assert(!pipe(fds));
	check_read_fails(fds[0], QBRT_MODEL_FAILED_TO_LOAD_MXQ,
			 "is a FIFO, not a regular file");
	ck_assert(!close(fds[1]));
	ck_assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
	check_read_fails(fds[0], QBRT_MODEL_FAILED_TO_LOAD_MXQ,
			 "is a socket, not a regular file");
	ck_assert(!close(fds[1]));
}
END_TEST

/* LD01 */
START_TEST(a_descriptor_that_is_none_is_refused)
{
	struct qbrt_model_file *file = NULL;

	ck_assert_status(qbrt_model_file_read(-1, "m.qbm", &file),
			 QBRT_MODEL_FAILED_TO_LOAD_MXQ);
	ck_assert_detail("Bad file descriptor");
	ck_assert_ptr_null(file);
}
END_TEST

/* LD01 LD02 LD12 Q151 */
START_TEST(foreign_files_are_told_apart)
{
	static const char onnx[] = "\x08\x08\x12\x07pytorch\x1a\x05"
				   "1.13.1";
	static const char vendor[] = "MXQ\0\0\0\x07\0 something else entirely";

	check_bytes_fail("", 0, QBRT_MODEL_FAILED_TO_LOAD_MXQ,
			 "the file is empty");
	check_bytes_fail("\x89QBM\r\n\x1a", 7, QBRT_MODEL_FAILED_TO_LOAD_MXQ,
			 "shorter than 8 bytes");
	check_bytes_fail(onnx, sizeof(onnx), QBRT_MODEL_FAILED_TO_LOAD_MXQ,
			 "looks like an ONNX model: compile it with qbcompile");
	check_bytes_fail(vendor, sizeof(vendor), QBRT_MODEL_FAILED_TO_LOAD_MXQ,
			 "not a qbruntime container; if this is a model of "
			 "another runtime, compile its source model with "
			 "qbcompile");
	check_bytes_fail("\x08", 1, QBRT_MODEL_FAILED_TO_LOAD_MXQ,
			 "shorter than 8 bytes");
}
END_TEST

/* LD02 */
START_TEST(mangled_line_ends_are_named)
{
	static const char unix_ends[] = "\x89QBM\n\x1a\n\1\0\0\0";
	static const char dos_ends[] = "\x89QBM\r\r\n\x1a\r\n\1\0\0";
	static const char seven_bits[] = "\x09QBM\r\n\x1a\n\1\0\0";

	check_bytes_fail(unix_ends, sizeof(unix_ends),
			 QBRT_MODEL_FAILED_TO_LOAD_MXQ, "line ends were");
	check_bytes_fail(dos_ends, sizeof(dos_ends),
			 QBRT_MODEL_FAILED_TO_LOAD_MXQ, "line ends were");
	check_bytes_fail(seven_bits, sizeof(seven_bits),
			 QBRT_MODEL_FAILED_TO_LOAD_MXQ, "in text mode");
}
END_TEST

/* LD04 FM05 */
START_TEST(files_of_64_gib_are_refused_unread)
{
	static const uint8_t magic[8] = { 0x89, 'Q',  'B',  'M',
					  '\r', '\n', 0x1a, '\n' };
	int fd = make_file(magic, sizeof(magic));

	ck_assert(!ftruncate(fd, INT64_C(64) << 30));
	check_read_fails(fd, QBRT_MODEL_BROKEN_MXQ,
			 "68719476736 bytes: a container has 256 or more and "
			 "less than 64 GiB");
}
END_TEST

/* LD13 LD08 MM01 MM02 MM04 Q150 Q152 */
START_TEST(a_good_file_becomes_tables)
{
	struct qbrt_model_file *file = NULL;
	struct build build;
	uint8_t *weights;
	int fd;

	build_full(&build);
	fd = make_file(build.bytes, build.nbytes);
	ck_assert_ok(qbrt_model_file_read(fd, "name without suffix", &file));
	ck_assert(!close(fd));
	ck_assert_uint_eq(file->vari->variant_count, 2);
	ck_assert_str_eq(qbrt_model_file_string(file, file->variants[1].name),
			 "second");
	ck_assert_mem_eq(file->variants, build.variants,
			 2 * sizeof(*file->variants));
	ck_assert_mem_eq(file->bundles, build.bundles,
			 2 * sizeof(*file->bundles));
	ck_assert_uint_eq(file->iotb->count, 10);
	ck_assert_mem_eq(file->ios, build.ios, 10 * sizeof(*file->ios));
	ck_assert_uint_eq(file->cach->count, 2);
	ck_assert_mem_eq(file->caches, build.caches, 2 * sizeof(*file->caches));
	ck_assert_uint_eq(file->num_programs, 2);
	ck_assert_uint_eq(file->programs[1].size, build.programs[1].nbytes);
	ck_assert_mem_eq(file->programs[1].data, build.programs[1].bytes,
			 build.programs[1].nbytes);
	ck_assert_uint_eq((uintptr_t)file->programs[1].data % 16, 0);
	ck_assert_uint_eq(file->programs[1].facts->binding_count, 5);
	ck_assert_uint_eq(file->programs[1].facts->param_count, 2);
	ck_assert_uint_eq(file->num_meta, 0);
	ck_assert_uint_eq(file->weights_size, 128);
	weights = mmap(NULL, 128, PROT_READ, MAP_SHARED, file->weights_fd, 0);
	ck_assert_ptr_ne(weights, MAP_FAILED);
	ck_assert_mem_eq(weights, build.weights, 128);
	ck_assert(!munmap(weights, 128));
	qbrt_model_file_free(file);
	build_end(&build);
}
END_TEST

/* MM12 FM12 LD06 */
START_TEST(texts_are_found_by_offset)
{
	struct qbrt_model_file *file = NULL;
	struct build build;

	build_plain(&build);
	ck_assert_ok(qbrt_model_file_parse(build.bytes, build.nbytes, "m.qbm",
					   &file));
	ck_assert_uint_eq(file->num_meta, 2);
	ck_assert_str_eq(qbrt_model_file_string(file, file->meta[0].value),
			 "cat\ndog");
	ck_assert_str_eq(qbrt_model_file_string(file, 0), "");
	ck_assert_str_eq(qbrt_model_file_string(file, UINT32_MAX), "");
	ck_assert_str_eq(qbrt_model_file_get_node(file, 0, 0), "Conv_0 Relu_1");
	ck_assert_str_eq(qbrt_model_file_get_node(file, 0, 1), "");
	ck_assert_str_eq(qbrt_model_file_get_node(file, 1, 0), "");
	ck_assert_str_eq(qbrt_model_file_get_node(file, 0, QBNPU_NONE32), "");
	ck_assert_int_eq(file->weights_fd, -1);
	ck_assert_ptr_null(file->cach);
	qbrt_model_file_free(file);
	qbrt_model_file_free(NULL);
	build_end(&build);
}
END_TEST

/* FM01 FM06 LD08 */
START_TEST(the_golden_container_loads)
{
	int fd = open(TEST_SRCDIR "/data/golden/copy64.qbm",
		      O_RDONLY | O_CLOEXEC);
	struct qbrt_model_file *file = NULL;

	ck_assert_int_ge(fd, 0);
	ck_assert_ok(qbrt_model_file_read(fd, "copy64.qbm", &file));
	ck_assert(!close(fd));
	ck_assert_str_eq(file->header.producer, "hand");
	ck_assert_uint_eq(file->header.header_crc32, 0xfefb15ab);
	ck_assert_str_eq(qbrt_model_file_string(file, file->meta[0].value),
			 "copy64");
	ck_assert_uint_eq(file->programs[0].size, 496);
	qbrt_model_file_free(file);
}
END_TEST

/* LD09 Q293 Q788 */
START_TEST(weights_are_sealed_and_the_file_may_go)
{
	static const uint8_t noise[128] = { 0xff };
	struct qbrt_model_file *file = NULL;
	struct build build;
	uint8_t copy[128];
	int fd;

	build_full(&build);
	fd = make_file(build.bytes, build.nbytes);
	qbrt_test_close_standard(STDERR_FILENO);
	ck_assert_ok(qbrt_model_file_read(fd, "m.qbm", &file));
	qbrt_test_reopen_standard(STDERR_FILENO);
	ck_assert_int_gt(file->weights_fd, STDERR_FILENO);
	ck_assert(!ftruncate(fd, 0));
	ck_assert(!close(fd));
	ck_assert_int_eq(fcntl(file->weights_fd, F_GET_SEALS),
			 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE |
				 F_SEAL_SEAL);
	ck_assert_int_eq(fcntl(file->weights_fd, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(pwrite(file->weights_fd, noise, 128, 0), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_eq(pread(file->weights_fd, copy, 128, 0), 128);
	ck_assert_mem_eq(copy, build.weights, 128);
	qbrt_model_file_free(file);
	build_end(&build);
}
END_TEST

/* LD04 FM01 */
START_TEST(each_checksum_is_checked)
{
	static const char *const kinds[] = { "STRS", "META", "VARI", "IOTB",
					     "CACH", "PROG", "WGHT" };
	struct build build;
	size_t i;

	build_full(&build);
	for (i = 0; i < qbrt_array_size(kinds); i++) {
		uint8_t *last = build_content(&build, kinds[i], 0) +
				build_entry(&build, kinds[i], 0)->size - 1;
		char text[64];

		*last ^= 1;
		(void)snprintf(
			text, sizeof(text),
			"section %s 0 at byte %llu: checksum is 0x", kinds[i],
			(unsigned long long)build_entry(&build, kinds[i], 0)
				->offset);
		check_bytes_fail(build.bytes, build.nbytes,
				 QBRT_MODEL_BROKEN_MXQ, text);
		*last ^= 1;
	}
	build_entry(&build, "META", 0)->sha256[0] ^= 1;
	check_bytes_fail(build.bytes, build.nbytes, QBRT_MODEL_BROKEN_MXQ,
			 "section table at byte 256: checksum is 0x");
	build.bytes[96] ^= 1;
	check_bytes_fail(build.bytes, build.nbytes, QBRT_MODEL_BROKEN_MXQ,
			 "header at byte 0: checksum is 0x");
	build_end(&build);

	build_plain(&build);
	*build_content(&build, "DBGI", 0) ^= 1;
	check_bytes_fail(build.bytes, build.nbytes, QBRT_MODEL_BROKEN_MXQ,
			 "section DBGI 0 at byte");
	build_end(&build);
}
END_TEST

/* LD11 */
START_TEST(optional_unknown_sections_are_skipped_unread)
{
	struct qbrt_model_file *file = NULL;
	struct build build;

	build_plain(&build);
	*build_content(&build, "XTRA", 7) ^= 1;
	ck_assert_ok(qbrt_model_file_parse(build.bytes, build.nbytes, "m.qbm",
					   &file));
	qbrt_model_file_free(file);
	/* only bit 0 of its flags counts */
	build_entry(&build, "XTRA", 7)->flags = 0xfffffffe;
	build_seal(build.bytes, build.nbytes);
	ck_assert_ok(qbrt_model_file_parse(build.bytes, build.nbytes, "m.qbm",
					   &file));
	qbrt_model_file_free(file);
	build_end(&build);
}
END_TEST

/* VP01 */
START_TEST(a_newer_minor_may_use_reserved_fields)
{
	struct qbrt_model_file *file = NULL;
	struct build build;

	build_plain(&build);
	build.bytes[130] = 1;
	((struct qbm_header *)(void *)build.bytes)->format_minor = 1;
	build_seal(build.bytes, build.nbytes);
	ck_assert_ok(qbrt_model_file_parse(build.bytes, build.nbytes, "m.qbm",
					   &file));
	qbrt_model_file_free(file);
	build_end(&build);
}
END_TEST

/* LD04 LD08 */
START_TEST(every_shorter_file_is_refused)
{
	struct qbrt_model_file *file = NULL;
	struct build build;
	size_t size;

	fills[_i](&build);
	for (size = 0; size < build.nbytes; size++) {
		/* of exactly that size, so that ASan sees a read beyond */
		uint8_t *bytes = malloc(size ? size : 1);

		memcpy(bytes, build.bytes, size);
		ck_assert_status(
			qbrt_model_file_parse(bytes, size, "m.qbm", &file),
			size < 8 ? QBRT_MODEL_FAILED_TO_LOAD_MXQ
				 : QBRT_MODEL_BROKEN_MXQ);
		build_seal(bytes, size);
		ck_assert_int_ne(
			qbrt_model_file_parse(bytes, size, "m.qbm", &file),
			QBRT_OK);
		free(bytes);
	}
	ck_assert_ptr_null(file);
	build_end(&build);
}
END_TEST

/* LD07 */
START_TEST(a_file_that_shrinks_meanwhile_is_refused)
{
	struct qbrt_model_file *file = NULL;
	struct build build;
	long total;

	build_full(&build);
	num_preads = 0;
	cut_at = 0;
	{
		int fd = make_file(build.bytes, build.nbytes);

		ck_assert_ok(qbrt_model_file_read(fd, "m.qbm", &file));
		ck_assert(!close(fd));
		qbrt_model_file_free(file);
	}
	total = num_preads;
	ck_assert_int_gt(total, 10);
	/* what is read later than the cut lies behind it or not */
	for (cut_at = 1; cut_at <= total; cut_at++) {
		int fd = make_file(build.bytes, build.nbytes);
		enum qbrt_status status;

		file = NULL;
		num_preads = 0;
		status = qbrt_model_file_read(fd, "m.qbm", &file);
		ck_assert_int_eq(status, QBRT_MODEL_BROKEN_MXQ);
		ck_assert_detail("the file has become shorter");
		ck_assert_ptr_null(file);
		ck_assert(!close(fd));
	}
	build_end(&build);
}
END_TEST

/* LD08 */
START_TEST(every_allocation_may_fail)
{
	struct build build;
	long num = 0;
	long fail_at;
	int fd;

	fills[_i](&build);
	fd = make_file(build.bytes, build.nbytes);
	cut_at = 0;
	for (fail_at = 1;; fail_at++) {
		struct qbrt_model_file *file = NULL;
		enum qbrt_status status;

		count_alloc_begin(fail_at);
		status = qbrt_model_file_read(fd, "m.qbm", &file);
		num = count_alloc_end();
		if (status == QBRT_OK) {
			qbrt_model_file_free(file);
			break;
		}
		ck_assert_int_eq(status,
				 QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
		ck_assert_detail("no memory");
		ck_assert_ptr_null(file);
	}
	ck_assert_int_gt(num, 5);
	ck_assert_int_eq(num, fail_at - 1);
	ck_assert(!close(fd));
	build_end(&build);
}
END_TEST

/* FM04 */
START_TEST(sentences_escape_what_the_file_says)
{
	struct qbrt_model_file *file = NULL;
	struct qbm_section *entry;
	struct build build;

	build_plain(&build);
	entry = build_entry(&build, "XTRA", 7);
	memcpy(&entry->kind, "\x1b[2J", 4);
	entry->flags = 1;
	build_seal(build.bytes, build.nbytes);
	ck_assert_status(
		qbrt_model_file_parse(build.bytes, build.nbytes, "a\nb", &file),
		QBRT_MODEL_FORMAT_TOO_NEW);
	ck_assert_detail("a\\x0ab: section \"\\x1b[2J\" at byte");
	build_end(&build);
}
END_TEST

int main(void)
{
	const int num_fills = (int)qbrt_array_size(fills);
	const struct qbrt_test tests[] = {
		QBRT_TEST(what_is_no_regular_file_is_named),
		QBRT_TEST(a_descriptor_that_is_none_is_refused),
		QBRT_TEST(foreign_files_are_told_apart),
		QBRT_TEST(mangled_line_ends_are_named),
		QBRT_TEST(files_of_64_gib_are_refused_unread),
		QBRT_TEST(a_good_file_becomes_tables),
		QBRT_TEST(texts_are_found_by_offset),
		QBRT_TEST(the_golden_container_loads),
		QBRT_TEST(weights_are_sealed_and_the_file_may_go),
		QBRT_TEST(each_checksum_is_checked),
		QBRT_TEST(optional_unknown_sections_are_skipped_unread),
		QBRT_TEST(a_newer_minor_may_use_reserved_fields),
		QBRT_LOOP_TEST(every_shorter_file_is_refused, num_fills),
		QBRT_TEST(a_file_that_shrinks_meanwhile_is_refused),
		QBRT_LOOP_TEST(every_allocation_may_fail, num_fills),
		QBRT_TEST(sentences_escape_what_the_file_says),
	};

	return qbrt_test_run("model-file", tests, qbrt_array_size(tests));
}
