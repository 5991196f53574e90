// SPDX-License-Identifier: MIT
/*
 * Which kernels a device uses. `ref` is always there and is what `auto` means
 * as long as no plugin is built; the plugin is looked for in one folder, by
 * one name, and nothing outside this process is loaded here.
 */
#include "kernels.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

static int find_plugin(const char *plugin_dir)
{
	char path[PATH_MAX];
	int length;

	if (!plugin_dir)
		return -ENOENT;
	length = snprintf(path, sizeof(path), "%s/%s", plugin_dir,
			  QBNPU_PLUGIN_FILE);
	if (length < 0 || (size_t)length >= sizeof(path))
		return -ENOENT;
	return access(path, R_OK) ? -ENOENT : 0;
}

int qbnpu_kernels_select(enum qbnpu_backend backend, const char *plugin_dir,
			 const struct qbnpu_kernels **kernels)
{
	int err;

	switch (backend) {
	case QBNPU_BACKEND_AUTO:
	case QBNPU_BACKEND_REF:
		*kernels = &qbnpu_kernels_ref;
		return 0;
	case QBNPU_BACKEND_ONEDNN:
		err = find_plugin(plugin_dir);
		if (err)
			return err;
		*kernels = NULL;
		return 0;
	}
	return -EINVAL;
}

uint32_t qbnpu_dtype_size(uint32_t dtype)
{
	static const uint8_t sizes[QBNPU_NUM_DTYPES] = {
		[QBNPU_DTYPE_F32] = 4,  [QBNPU_DTYPE_U8] = 1,
		[QBNPU_DTYPE_I8] = 1,   [QBNPU_DTYPE_F16] = 2,
		[QBNPU_DTYPE_I16] = 2,  [QBNPU_DTYPE_U16] = 2,
		[QBNPU_DTYPE_I32] = 4,  [QBNPU_DTYPE_U32] = 4,
		[QBNPU_DTYPE_I64] = 8,  [QBNPU_DTYPE_U64] = 8,
		[QBNPU_DTYPE_F64] = 8,  [QBNPU_DTYPE_BOOL] = 1,
		[QBNPU_DTYPE_BF16] = 2,
	};

	return dtype < QBNPU_NUM_DTYPES ? sizes[dtype] : 0;
}
