// SPDX-License-Identifier: MIT
/*
 * The version, and the folder with what belongs to the library and is not
 * code: qbruntime/ beside the library's real path, looked for nowhere else.
 * PACKAGE_VERSION and QBRT_GIT_VERSION come from configure.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif
#include "util.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <qbruntime/qbrt.h>

static pthread_once_t data_dir_once = PTHREAD_ONCE_INIT;
static char data_dir[PATH_MAX];

QBRT_API const char *qbrt_version(void)
{
	return PACKAGE_VERSION;
}

QBRT_API const char *qbrt_git_version(void)
{
	return QBRT_GIT_VERSION;
}

static void find_data_dir(void)
{
	static const char folder[] = "/qbruntime";
	Dl_info info;
	struct stat st;
	char *slash;

	if (!dladdr(&data_dir_once, &info) || !info.dli_fname ||
	    !realpath(info.dli_fname, data_dir)) {
		data_dir[0] = '\0';
		return;
	}
	slash = strrchr(data_dir, '/');
	if (!slash || (size_t)(slash - data_dir) + sizeof(folder) > PATH_MAX) {
		data_dir[0] = '\0';
		return;
	}
	memcpy(slash, folder, sizeof(folder));
	if (stat(data_dir, &st) || !S_ISDIR(st.st_mode))
		data_dir[0] = '\0';
}

QBRT_API const char *qbrt_get_data_dir(void)
{
	(void)pthread_once(&data_dir_once, find_data_dir);
	return *data_dir ? data_dir : NULL;
}
