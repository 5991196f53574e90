// SPDX-License-Identifier: MIT
/*
 * Which storage an address belongs to: a treap of the live storages by the
 * address of their mapping. Mappings do not overlap; two storages may share one.
 */
#include "storage.h"

#include <pthread.h>

static pthread_mutex_t tree_lock = PTHREAD_MUTEX_INITIALIZER;
static struct qbrt_storage *root; /* tree_lock */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void lock_tree(void)
{
	(void)pthread_mutex_lock(&tree_lock);
}

static void unlock_tree(void)
{
	(void)pthread_mutex_unlock(&tree_lock);
}

/* A child of fork must not inherit the lock from a thread that it lacks. */
static void register_fork(void)
{
	(void)pthread_atfork(lock_tree, unlock_tree, unlock_tree);
}

static bool is_before(const struct qbrt_storage *a,
		      const struct qbrt_storage *b)
{
	uintptr_t data_a = (uintptr_t)a->buffer.data;
	uintptr_t data_b = (uintptr_t)b->buffer.data;

	return data_a != data_b ? data_a < data_b : (uintptr_t)a < (uintptr_t)b;
}

void qbrt_storage_add_to_find(struct qbrt_storage *storage)
{
	struct qbrt_storage **at = &root;
	struct qbrt_storage **less = &storage->left;
	struct qbrt_storage **more = &storage->right;
	struct qbrt_storage *split;

	/* as good as random: by the multiplier of Fibonacci hashing */
	storage->priority = (uint32_t)((uint64_t)(uintptr_t)storage *
					       UINT64_C(0x9e3779b97f4a7c15) >>
				       32);
	(void)pthread_once(&fork_once, register_fork);
	lock_tree();
	while (*at && (*at)->priority >= storage->priority)
		at = is_before(storage, *at) ? &(*at)->left : &(*at)->right;
	split = *at;
	*at = storage;
	while (split) {
		if (is_before(split, storage)) {
			*less = split;
			less = &split->right;
			split = split->right;
		} else {
			*more = split;
			more = &split->left;
			split = split->left;
		}
	}
	*less = NULL;
	*more = NULL;
	unlock_tree();
}

void qbrt_storage_remove_from_find(struct qbrt_storage *storage)
{
	struct qbrt_storage **at = &root;
	struct qbrt_storage *less, *more;

	lock_tree();
	while (*at != storage)
		at = is_before(storage, *at) ? &(*at)->left : &(*at)->right;
	less = storage->left;
	more = storage->right;
	while (less && more) {
		if (less->priority > more->priority) {
			*at = less;
			at = &less->right;
			less = less->right;
		} else {
			*at = more;
			at = &more->left;
			more = more->left;
		}
	}
	*at = less ? less : more;
	unlock_tree();
}

/* The last one that begins at or before the address. */
static struct qbrt_storage *find_floor(uintptr_t address)
{
	struct qbrt_storage *floor = NULL;
	struct qbrt_storage *at = root;

	while (at) {
		if ((uintptr_t)at->buffer.data > address) {
			at = at->left;
		} else {
			floor = at;
			at = at->right;
		}
	}
	return floor;
}

/* false: its last reference has gone, and it waits for the lock to leave. */
static bool try_ref(struct qbrt_storage *storage)
{
	unsigned int references = atomic_load(&storage->references);

	while (references)
		if (atomic_compare_exchange_weak(&storage->references,
						 &references, references + 1))
			return true;
	return false;
}

struct qbrt_storage *qbrt_storage_find(uintptr_t begin, uintptr_t end)
{
	struct qbrt_storage *storage;

	if (begin >= end)
		return NULL;
	lock_tree();
	storage = find_floor(begin);
	if (storage &&
	    (end - (uintptr_t)storage->buffer.data > storage->buffer.size ||
	     qbrt_device_is_inherited(storage->device) || !try_ref(storage)))
		storage = NULL;
	unlock_tree();
	return storage;
}
