// SPDX-License-Identifier: MIT
/*
 * A target without libFuzzer, whose counters of coverage are a data race to
 * TSan: EXECUTIONS FOLDER... runs every file of the folders, then the same
 * again with a few bytes changed, until it ran so many. The same each time.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIZE 65536
#define MAX_FILES 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Jobs of two queues may race for the bytes of one buffer: the callers' care. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:ref_run\nrace:qbnpu_copy_run\n";
}

struct content {
	uint8_t *bytes;
	size_t size;
};

static struct content contents[MAX_FILES];
static size_t num_contents;

static void fail(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static void load_file(const char *folder, const char *name)
{
	static uint8_t bytes[MAX_SIZE];
	struct content *content = &contents[num_contents];
	char path[4096];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "re");
	if (!file)
		fail(path);
	content->size = fread(bytes, 1, sizeof(bytes), file);
	(void)fclose(file);
	content->bytes = malloc(content->size + 1);
	if (!content->bytes)
		fail("malloc");
	memcpy(content->bytes, bytes, content->size);
	num_contents++;
}

static void load_folder(const char *folder)
{
	struct dirent **entries;
	int num = scandir(folder, &entries, NULL, alphasort);

	if (num < 0)
		fail(folder);
	for (int i = 0; i < num; i++) {
		if (entries[i]->d_name[0] != '.' && num_contents < MAX_FILES)
			load_file(folder, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
}

static void change(struct content *content, uint64_t *random)
{
	for (int i = 0; i < 3; i++) {
		*random = *random * UINT64_C(6364136223846793005) + 1;
		content->bytes[(*random >> 33) % content->size] ^=
			(uint8_t)(*random >> 25);
	}
}

int main(int argc, char **argv)
{
	unsigned long num = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	uint64_t random = 1;

	for (int i = 2; i < argc; i++)
		load_folder(argv[i]);
	if (!num_contents)
		fail("no input");
	for (unsigned long n = 0; n < num; n++) {
		struct content *content = &contents[n % num_contents];

		if (n >= num_contents && content->size)
			change(content, &random);
		(void)LLVMFuzzerTestOneInput(content->bytes, content->size);
	}
	printf("stat::number_of_executed_units: %lu\n", num);
	return EXIT_SUCCESS;
}
