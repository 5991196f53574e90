// SPDX-License-Identifier: MIT
/*
 * The layouts of both halves of the contract as static assertions. Nothing to
 * run: test-layout.sh compiles it for 64 and for 32 bits.
 */
#include <stddef.h>

#include "isa/isa.h"
#include "uapi/qbnpu_drm.h"

#define LAYOUT_SIZE(type, size) \
	_Static_assert(sizeof(struct type) == (size), #type);
#define LAYOUT(type, field, offset) \
	_Static_assert(offsetof(struct type, field) == (offset), \
		       #type "." #field);
#define LAYOUT_WORD(request, word) \
	_Static_assert(DRM_IOCTL_QBNPU_##request == (word), #request);

/* SK1 */
#include "layout-isa.h"
#include "layout-uapi.h"

/* A pointer of the uAPI is a u64 on either side (SK1). */
_Static_assert(sizeof(((struct drm_qbnpu_submit *)0)->bindings) == 8,
	       "pointers are 64 bits wide");
