// SPDX-License-Identifier: MIT
/*
 * The shared library as a plugin's host meets it: opened, used and closed, with
 * nothing of it linked. TAP.
 */
#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include <qbruntime/qbrt.h>

#define LIBRARY TEST_TOP_BUILDDIR "/lib/.libs/libqbruntime.so"
#define GOLDEN_MODEL TEST_SRCDIR "/data/golden/copy64.qbm"
#define NUM_ROUNDS 20

/* name: of qbrt.h; the pointer has its type. */
#define LOAD(library, name) \
	__typeof__(&(name)) load_##name = \
		(__typeof__(&(name)))dlsym(library, #name)

struct plugin {
	void *library;
	struct qbrt_accelerator *acc;
	struct qbrt_model *model;
	struct qbrt_pinned_memory *in, *out;
	atomic_bool is_over;
};

/* On the retirement thread: the last handles go here, and it has to return. */
static void free_all(void *arg, struct qbrt_future *future)
{
	struct plugin *plugin = arg;

	LOAD(plugin->library, qbrt_future_free);
	LOAD(plugin->library, qbrt_pinned_memory_free);
	LOAD(plugin->library, qbrt_model_free);
	LOAD(plugin->library, qbrt_accelerator_close);

	load_qbrt_future_free(future);
	load_qbrt_pinned_memory_free(plugin->in);
	load_qbrt_pinned_memory_free(plugin->out);
	load_qbrt_model_free(plugin->model);
	load_qbrt_accelerator_close(plugin->acc);
	atomic_store(&plugin->is_over, true);
}

static enum qbrt_status use(struct plugin *plugin)
{
	LOAD(plugin->library, qbrt_accelerator_open);
	LOAD(plugin->library, qbrt_model_load);
	LOAD(plugin->library, qbrt_model_launch);
	LOAD(plugin->library, qbrt_model_alloc_input);
	LOAD(plugin->library, qbrt_model_alloc_output);
	LOAD(plugin->library, qbrt_model_submit_pinned_memory);
	LOAD(plugin->library, qbrt_future_set_callback);
	struct qbrt_future *future;
	enum qbrt_status status =
		load_qbrt_accelerator_open(NULL, -1, &plugin->acc);

	if (!status)
		status = load_qbrt_model_load(GOLDEN_MODEL, NULL,
					      &plugin->model);
	if (!status)
		status = load_qbrt_model_launch(plugin->model, plugin->acc);
	if (!status)
		status = load_qbrt_model_alloc_input(plugin->model, 0,
						     &plugin->in);
	if (!status)
		status = load_qbrt_model_alloc_output(plugin->model, 0,
						      &plugin->out);
	if (!status)
		status = load_qbrt_model_submit_pinned_memory(
			plugin->model, NULL, &plugin->in, 1, &plugin->out, 1,
			&future);
	if (!status)
		status =
			load_qbrt_future_set_callback(future, free_all, plugin);
	return status;
}

/* Q751 */
static bool open_use_close(void)
{
	struct plugin plugin = { .library = dlopen(LIBRARY, RTLD_NOW) };
	void *again;

	if (!plugin.library || use(&plugin))
		return false;
	while (!atomic_load(&plugin.is_over))
		(void)sched_yield();
	if (dlclose(plugin.library))
		return false;
	again = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
	return again && !dlclose(again);
}

int main(void)
{
	int num = 0;

	(void)puts("1..1");
	while (num < NUM_ROUNDS && open_use_close())
		num++;
	(void)printf("%s 1 - a library that is closed stays for its threads\n",
		     num == NUM_ROUNDS ? "ok" : "not ok");
	return num != NUM_ROUNDS;
}
