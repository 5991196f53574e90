// SPDX-License-Identifier: MIT
/*
 * Where the programs' bytes are, and DBGI: the names of the source model's
 * nodes by command, for sentences alone. Nothing depends on them, so commands
 * may name entries that are not there.
 */
#include "model-file-parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"
#include "util.h"

static enum qbrt_status
check_debug_entries(struct qbm_reader *reader, const struct qbm_place *section,
		    const struct qbrt_model_program *program)
{
	static const struct qbm_field fields[] = {
		QBM_RESERVED(qbm_debug, reserved),
	};
	uint32_t i;

	for (i = 0; i < program->num_debug; i++) {
		const struct qbm_debug *entry = &program->debug[i];
		const struct qbm_place at = { "DBGI entry", i,
					      section->offset +
						      sizeof(struct qbm_dbgi) +
						      i * sizeof(*entry) };
		enum qbrt_status status;

		status = qbrt_qbm_check_fields(reader, &at, entry, fields,
					       qbrt_array_size(fields));
		if (!status)
			status = qbrt_qbm_check_string(reader, &at, "nodes",
						       entry->nodes, true);
		if (!status)
			status = qbrt_qbm_check_string(reader, &at, "op_types",
						       entry->op_types, true);
		if (status)
			return status;
	}
	return QBRT_OK;
}

static enum qbrt_status check_debug(struct qbm_reader *reader,
				    uint32_t instance)
{
	struct qbrt_model_program *program = &reader->file->programs[instance];
	static const struct qbm_field fields[] = {
		QBM_FIXED(qbm_dbgi, entry_size, sizeof(struct qbm_debug)),
		QBM_RESERVED(qbm_dbgi, reserved),
	};
	const struct qbm_dbgi *dbgi;
	struct qbm_place place;
	enum qbrt_status status;
	const uint8_t *bytes;
	uint64_t size;

	status = qbrt_qbm_get_section(reader, QBM_KIND_DBGI, instance, "DBGI",
				      sizeof(*dbgi), &place, &bytes);
	if (status)
		return status;
	dbgi = (const struct qbm_dbgi *)(const void *)bytes;
	status = qbrt_qbm_check_fields(reader, &place, dbgi, fields,
				       qbrt_array_size(fields));
	if (status)
		return status;
	size = sizeof(*dbgi) + dbgi->count * sizeof(struct qbm_debug);
	if (qbrt_qbm_get_size(reader, QBM_KIND_DBGI, instance) != size)
		return qbrt_qbm_broken(
			reader, &place,
			"%" PRIu64 " bytes, must be %" PRIu64 " for %u entries",
			qbrt_qbm_get_size(reader, QBM_KIND_DBGI, instance),
			size, dbgi->count);
	program->debug = (const struct qbm_debug *)(dbgi + 1);
	program->num_debug = dbgi->count;
	return check_debug_entries(reader, &place, program);
}

enum qbrt_status qbrt_qbm_find_programs(struct qbm_reader *reader)
{
	struct qbrt_model_file *file = reader->file;
	enum qbrt_status status = QBRT_OK;
	uint32_t i;

	for (i = 0; i < reader->num_sections; i++)
		file->num_programs += reader->sections[i].kind == QBM_KIND_PROG;
	file->programs = calloc(file->num_programs, sizeof(*file->programs));
	if (!file->programs) {
		file->num_programs = 0;
		return qbrt_fail(QBM_NO_SPACE, "%s: no memory for programs",
				 reader->name);
	}
	for (i = 0; i < reader->num_sections && !status; i++) {
		const struct qbm_section *section = &reader->sections[i];
		const struct qbm_place place =
			qbrt_qbm_section_place(reader, i, "DBGI");

		if (section->kind == QBM_KIND_PROG) {
			file->programs[section->instance].data =
				reader->bytes[i];
			file->programs[section->instance].size = section->size;
		} else if (section->kind == QBM_KIND_DBGI) {
			if (section->instance >= file->num_programs)
				return qbrt_qbm_broken(
					reader, &place,
					"instance is %u, the file "
					"has %zu programs",
					section->instance, file->num_programs);
			status = check_debug(reader, section->instance);
		}
	}
	return status;
}

/*
 * The debug field of a command, 0 where there is none. Walks with checks of
 * its own, as it also serves programs that the validator has refused.
 */
static uint32_t find_debug(const struct qbrt_model_program *program,
			   uint32_t command)
{
	const struct qbnpu_program *header = program->data;
	uint64_t offset;
	uint32_t i;

	if (program->size < sizeof(*header))
		return 0;
	offset = header->commands_offset;
	for (i = 0; offset + sizeof(struct qbnpu_cmd) <= program->size; i++) {
		struct qbnpu_cmd head;

		memcpy(&head, (const char *)program->data + offset,
		       sizeof(head));
		if (i == command)
			return head.debug;
		if (!head.size16)
			break;
		offset += head.size16 * 16ull;
	}
	return 0;
}

const char *qbrt_model_file_get_node(const struct qbrt_model_file *file,
				     size_t program, uint32_t command)
{
	static _Thread_local char text[256];
	const struct qbrt_model_program *at;
	const char *nodes;
	uint32_t debug;
	char *line_feed;
	char plain[256];

	if (program >= file->num_programs)
		return "";
	at = &file->programs[program];
	debug = at->num_debug ? find_debug(at, command) : 0;
	if (!debug || debug > at->num_debug)
		return "";
	nodes = qbrt_model_file_string(file, at->debug[debug - 1].nodes);
	(void)snprintf(plain, sizeof(plain), "%s", nodes);
	for (line_feed = plain; (line_feed = strchr(line_feed, '\n'));)
		*line_feed = ' ';
	return qbrt_escape(plain, strlen(plain), text, sizeof(text));
}
