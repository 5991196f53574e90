// SPDX-License-Identifier: MIT
/*
 * Reading a container: section bytes, weights, and the life of the result.
 * Each byte is read once, by pread, into memory that nobody else can change,
 * and its checksum is computed there; so a file that is truncated or rewritten
 * meanwhile can at most be refused. Nothing is allocated before its size is
 * known to be in the file.
 */
#include "model-file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "fd.h"
#include "model-file-layout.h"
#include "model-file-parts.h"
#include "status.h"
#include "util.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "as the file");
_Static_assert(sizeof(size_t) >= sizeof(uint64_t), "sections up to 32 GiB");

/* Sections begin at multiples of this in memory, as programs must. */
#define SECTION_ALIGN 16

enum qbrt_status qbrt_qbm_read_bytes(const struct qbm_reader *reader,
				     uint64_t offset, void *bytes, size_t size)
{
	size_t done = 0;

	if (reader->fd < 0) {
		memcpy(bytes, reader->data + offset, size);
		return QBRT_OK;
	}
	while (done < size) {
		ssize_t num = pread(reader->fd, (uint8_t *)bytes + done,
				    size - done, (off_t)(offset + done));

		if (num < 0 && errno == EINTR)
			continue;
		if (num <= 0)
			return qbrt_fail(QBRT_MODEL_BROKEN_MXQ,
					 "%s: byte %" PRIu64 " of %" PRIu64
					 " cannot be read: %s",
					 reader->name, offset + done,
					 reader->size,
					 num ? strerrordesc_np(errno)
					     : "the file has become shorter");
		done += (size_t)num;
	}
	return QBRT_OK;
}

static enum qbrt_status check_crc(const struct qbm_reader *reader,
				  uint32_t number, const void *bytes)
{
	const struct qbm_section *section = &reader->sections[number];
	uint32_t crc = (uint32_t)crc32_z(0, bytes, section->size);
	char name[20];

	if (crc == section->crc32)
		return QBRT_OK;
	return qbrt_fail(QBRT_MODEL_BROKEN_MXQ,
			 "%s: section %s %u at byte %" PRIu64
			 ": checksum is 0x%08x, the table says 0x%08x",
			 reader->name,
			 qbrt_escape((const char *)&section->kind, 4, name,
				     sizeof(name)),
			 section->instance, section->offset, crc,
			 section->crc32);
}

static bool is_kept(const struct qbm_section *section)
{
	switch (section->kind) {
	case QBM_KIND_STRS:
	case QBM_KIND_META:
	case QBM_KIND_VARI:
	case QBM_KIND_IOTB:
	case QBM_KIND_CACH:
	case QBM_KIND_PROG:
	case QBM_KIND_DBGI:
		return true;
	default:
		return false;
	}
}

/* All sections but the weights and unknown ones, into one piece of memory. */
static enum qbrt_status read_sections(struct qbm_reader *reader)
{
	uint8_t *memory;
	size_t size = 0;
	uint32_t i;

	for (i = 0; i < reader->num_sections; i++)
		if (reader->sections[i].kind == QBM_KIND_WGHT)
			reader->file->weights_size = reader->sections[i].size;
		else if (is_kept(&reader->sections[i]))
			size += qbrt_round_up(reader->sections[i].size,
					      SECTION_ALIGN);
	if (posix_memalign(&reader->file->memory, SECTION_ALIGN, size)) {
		reader->file->memory = NULL;
		return qbrt_fail(QBM_NO_SPACE,
				 "%s: no memory for %zu bytes of sections",
				 reader->name, size);
	}
	memory = reader->file->memory;
	for (i = 0; i < reader->num_sections; i++) {
		const struct qbm_section *section = &reader->sections[i];
		enum qbrt_status status;

		if (!is_kept(section))
			continue;
		status = qbrt_qbm_read_bytes(reader, section->offset, memory,
					     section->size);
		if (!status)
			status = check_crc(reader, i, memory);
		if (status)
			return status;
		reader->bytes[i] = memory;
		memory += qbrt_round_up(section->size, SECTION_ALIGN);
	}
	return QBRT_OK;
}

/*
 * Fills the file behind fd with section number and checks the copy. Pages are
 * allocated first, so that the mapping cannot fail where it is written.
 */
static enum qbrt_status copy_weights(const struct qbm_reader *reader,
				     uint32_t number, int fd)
{
	const struct qbm_section *section = &reader->sections[number];
	const int err = qbrt_fd_allocate(fd, section->size);
	enum qbrt_status status;
	void *weights;

	if (err)
		return qbrt_fail(
			QBM_NO_SPACE,
			"%s: no memory for %" PRIu64 " bytes of weights: %s",
			reader->name, section->size, strerrordesc_np(-err));
	weights = mmap(NULL, section->size, PROT_READ | PROT_WRITE, MAP_SHARED,
		       fd, 0);
	if (weights == MAP_FAILED)
		return qbrt_fail(
			QBM_NO_SPACE,
			"%s: %" PRIu64 " bytes of weights cannot be mapped: %s",
			reader->name, section->size, strerrordesc_np(errno));
	status = qbrt_qbm_read_bytes(reader, section->offset, weights,
				     section->size);
	if (!status)
		status = check_crc(reader, number, weights);
	(void)munmap(weights, section->size);
	return status;
}

/* LD09: into an anonymous file that nobody can change any more. */
static enum qbrt_status read_weights(struct qbm_reader *reader)
{
	struct qbrt_model_file *file = reader->file;
	uint32_t number = qbrt_qbm_find_section(reader, QBM_KIND_WGHT, 0);
	enum qbrt_status status;

	if (number == QBNPU_NONE32)
		return QBRT_OK;
	file->weights_fd = qbrt_fd_keep(memfd_create(
		"qbruntime-weights", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (file->weights_fd < 0)
		return qbrt_fail(QBM_NO_SPACE,
				 "%s: no descriptor for the weights: %s",
				 reader->name, strerrordesc_np(errno));
	status = copy_weights(reader, number, file->weights_fd);
	if (status)
		return status;
	if (fcntl(file->weights_fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
		return qbrt_fail(QBRT_INTERNAL_ERROR,
				 "%s: the weights cannot be sealed: %s",
				 reader->name, strerrordesc_np(errno));
	return QBRT_OK;
}

/* Weights last: they are large, and nothing else depends on their bytes. */
static enum qbrt_status read_all(struct qbm_reader *reader)
{
	enum qbrt_status status = qbrt_qbm_read_head(reader);

	if (!status)
		status = read_sections(reader);
	if (!status)
		status = qbrt_qbm_check_tables(reader);
	if (!status)
		status = qbrt_qbm_check_programs(reader);
	if (!status)
		status = read_weights(reader);
	return status;
}

static enum qbrt_status read_file(struct qbm_reader *reader, const char *path,
				  struct qbrt_model_file **file)
{
	enum qbrt_status status;

	qbrt_escape(path, strlen(path), reader->name, sizeof(reader->name));
	reader->file = calloc(1, sizeof(*reader->file));
	if (!reader->file)
		return qbrt_fail(QBM_NO_SPACE, "%s: no memory", reader->name);
	reader->file->weights_fd = -1;
	status = read_all(reader);
	free(reader->sections);
	free(reader->bytes);
	if (status)
		qbrt_model_file_free(reader->file);
	else
		*file = reader->file;
	return status;
}

enum qbrt_status qbrt_model_file_read(int fd, const char *path,
				      struct qbrt_model_file **file)
{
	struct qbm_reader reader = { .fd = fd };
	const char *what = NULL;
	struct stat st;

	qbrt_escape(path, strlen(path), reader.name, sizeof(reader.name));
	if (fstat(fd, &st))
		return qbrt_fail(QBRT_MODEL_FAILED_TO_LOAD_MXQ,
				 "%s: cannot be read: %s", reader.name,
				 strerrordesc_np(errno));
	if (S_ISDIR(st.st_mode))
		what = "a directory";
	else if (S_ISFIFO(st.st_mode))
		what = "a FIFO";
	else if (S_ISSOCK(st.st_mode))
		what = "a socket";
	else if (!S_ISREG(st.st_mode))
		what = "a device";
	if (what)
		return qbrt_fail(QBRT_MODEL_FAILED_TO_LOAD_MXQ,
				 "%s: is %s, not a regular file", reader.name,
				 what);
	reader.size = (uint64_t)st.st_size;
	return read_file(&reader, path, file);
}

enum qbrt_status qbrt_model_file_parse(const void *data, size_t size,
				       const char *path,
				       struct qbrt_model_file **file)
{
	struct qbm_reader reader = { .fd = -1, .data = data, .size = size };

	return read_file(&reader, path, file);
}

void qbrt_model_file_free(struct qbrt_model_file *file)
{
	size_t i;

	if (!file)
		return;
	for (i = 0; i < file->num_programs; i++)
		free(file->programs[i].facts);
	free(file->programs);
	free(file->memory);
	if (file->weights_fd >= 0)
		(void)close(file->weights_fd);
	free(file);
}

const char *qbrt_model_file_string(const struct qbrt_model_file *file,
				   uint32_t offset)
{
	/* STRS ends in NUL */
	return offset < file->strings_size ? file->strings + offset : "";
}
