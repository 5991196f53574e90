// SPDX-License-Identifier: MIT
/* What a process holds by an open device. */
#include "account.h"

#include "accelerator.h"
#include "test-util.h"

struct account account_get(const struct qbrt_accelerator *acc)
{
	const struct qbrt_device *device = acc->device;
	struct account account = {
		.descriptors = qbrt_test_count_descriptors(),
		.mappings = qbrt_test_count_shared_mappings(),
	};

	for (uint32_t i = 0; i < 2; i++) {
		struct drm_qbnpu_query query = {
			.type = DRM_QBNPU_QUERY_MEMORY,
			.index = i,
			.size = sizeof(account.regions[i]),
			.data = (uintptr_t)&account.regions[i],
		};

		ck_assert_int_eq(device->kmd->ioctl(device->file,
						    DRM_IOCTL_QBNPU_QUERY,
						    &query),
				 0);
	}
	return account;
}

void account_check(const struct qbrt_accelerator *acc,
		   const struct account *before)
{
	struct account now = account_get(acc);

	ck_assert_int_eq(now.descriptors, before->descriptors);
	ck_assert_int_eq(now.mappings, before->mappings);
	for (int i = 0; i < 2; i++) {
		const struct drm_qbnpu_query_memory *then = &before->regions[i];

		ck_assert_uint_eq(now.regions[i].client_used,
				  then->client_used);
		ck_assert_uint_eq(now.regions[i].buffers, then->buffers);
		ck_assert_uint_eq(now.regions[i].free, then->free);
	}
}
