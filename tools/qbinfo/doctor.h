/* SPDX-License-Identifier: MIT */
/*
 * The checks of doctor, in the order in which they are printed. Each adds one
 * line at least: what was seen, and for a finding its code, which
 * qbinfo-doctor(7) explains, and a complete command or setting that mends it.
 */
#ifndef QBINFO_DOCTOR_H
#define QBINFO_DOCTOR_H

#include "inventory.h"

struct doctor {
	struct inventory *inventory;
	double timeout;
	int exit; /* the first of 7, 5, 4, 6, 3, 10 that applies */
	const struct record *decided; /* the first check with that exit */
};

void doctor_ok(struct doctor *doctor, const char *id, const char *text);
void doctor_skip(struct doctor *doctor, const char *id, const char *text);
/* Worth knowing, with a code and nothing to mend. */
void doctor_info(struct doctor *doctor, const char *id, const char *text,
		 const char *code);
void doctor_warn(struct doctor *doctor, const char *id, const char *text,
		 const char *code, const char *fix);
void doctor_fail(struct doctor *doctor, int code_of_exit, const char *id,
		 const char *text, const char *code, const char *fix);

/* doctor-device.c */
void doctor_check_node(struct doctor *doctor);
void doctor_check_permission(struct doctor *doctor);
/* The code of why this process may not open the node. */
const char *doctor_explain_denied(struct own_node *node, const char **text,
				  const char **fix);
void doctor_check_version(struct doctor *doctor);
void doctor_check_health(struct doctor *doctor);
void doctor_check_iommu(struct doctor *doctor);
/* doctor-firmware.c */
void doctor_check_firmware(struct doctor *doctor);
/* doctor-limits.c */
void doctor_check_memlock(struct doctor *doctor);
void doctor_check_contiguous(struct doctor *doctor);
void doctor_check_export(struct doctor *doctor);
void doctor_check_cgroup(struct doctor *doctor);
void doctor_check_container(struct doctor *doctor);
/* doctor-variables.c */
void doctor_check_visibility(struct doctor *doctor);
/* Which variable the library's sentence is about: a complete command. */
const char *doctor_get_soft_fix(const char *sentence);
/* doctor-software.c */
void doctor_check_software(struct doctor *doctor);
void doctor_check_libraries(struct doctor *doctor);
void doctor_check_python(struct doctor *doctor);

#endif
