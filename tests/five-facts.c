// SPDX-License-Identifier: MIT
/*
 * What a newcomer asks first, by the C API: a line "version N", "devices N",
 * then of each device its id, bytes of memory, bytes that may be pinned, cores
 * and contiguity classes. tests/cli/test_facts.py compares it with all else that
 * says so.
 */
#include <stdio.h>

#include <qbruntime/qbrt.h>

static const char *const classes[] = { "none", "locked", "hugepage", "driver" };

static void print_device(const struct qbrt_device_info *info)
{
	uint32_t found = qbrt_device_info_get_contiguity_classes(info);

	(void)printf(
		"%s %llu %llu %zu %zu %zu", qbrt_device_info_get_id(info),
		(unsigned long long)qbrt_device_info_get_memory_total(info),
		(unsigned long long)qbrt_device_info_get_pinned_limit(info),
		qbrt_device_info_get_num_clusters(info),
		qbrt_device_info_get_local_cores_per_cluster(info),
		qbrt_device_info_get_global_cores_per_cluster(info));
	for (unsigned int i = 1; i < sizeof(classes) / sizeof(*classes); i++)
		if (found >> i & 1)
			(void)printf(" %s", classes[i]);
	(void)puts("");
}

int main(void)
{
	struct qbrt_device_info **list;
	size_t num;

	if (qbrt_device_info_list(NULL, &list, &num)) {
		(void)fprintf(stderr, "%s\n", qbrt_error_detail());
		return 1;
	}
	(void)printf("version %s\ndevices %zu\n", qbrt_version(), num);
	for (size_t i = 0; i < num; i++)
		print_device(list[i]);
	qbrt_device_info_list_free(list, num);
	return 0;
}
