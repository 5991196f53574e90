// SPDX-License-Identifier: MIT
/*
 * Handle tables: an array that doubles. Not locked: each belongs to a file and
 * is under its lock.
 */
#include "soft/soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MIN_CAPACITY 16u

static int grow(struct qbnpu_soft_table *table)
{
	uint32_t capacity =
		table->capacity ? table->capacity * 2 : MIN_CAPACITY;
	void **items = realloc(table->items, capacity * sizeof(*items));

	if (!items)
		return -ENOMEM;
	memset(items + table->capacity, 0,
	       (capacity - table->capacity) * sizeof(*items));
	table->items = items;
	table->capacity = capacity;
	return 0;
}

int qbnpu_soft_table_add(struct qbnpu_soft_table *table, uint32_t max_items,
			 void *item, uint32_t *handle)
{
	uint32_t index = table->first_free;
	int err;

	if (table->num_items >= max_items)
		return -ENOSPC;
	while (index < table->capacity && table->items[index])
		index++;
	if (index == table->capacity) {
		err = grow(table);
		if (err)
			return err;
	}
	table->items[index] = item;
	table->num_items++;
	table->first_free = index + 1;
	*handle = index + 1;
	return 0;
}

void *qbnpu_soft_table_remove(struct qbnpu_soft_table *table, uint32_t handle)
{
	void *item = qbnpu_soft_table_get(table, handle);

	if (!item)
		return NULL;
	table->items[handle - 1] = NULL;
	table->num_items--;
	if (handle - 1 < table->first_free)
		table->first_free = handle - 1;
	return item;
}
