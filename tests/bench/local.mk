# SPDX-License-Identifier: MIT
# The programs of docs/spec/performance.md, section 6. They are built with
# everything else, so that they keep building; test-bench.sh runs each once.
if HAVE_BENCH
bench_programs = \
	bench/bench-dispatch \
	bench/bench-floor \
	bench/bench-ipc \
	bench/bench-memory \
	bench/bench-pipeline \
	bench/bench-streams \
	bench/bench-threads \
	bench/count-calls \
	bench/count-memory \
	bench/count-steady \
	bench/count-validate
noinst_PROGRAMS += $(bench_programs)
noinst_LTLIBRARIES += libsubject.la
if HAVE_OPENCL
noinst_PROGRAMS += bench/bench-pocl
endif
if WITH_PYTHON
noinst_LTLIBRARIES += bench/bench_native.la
endif
endif

bench_cppflags = $(AM_CPPFLAGS) -iquote $(top_srcdir)/tools/qbinfo
bench_ldadd = libsubject.la ../tools/libbench.la $(LDADD)

# What they share is tested like any unit.
check_bench_CPPFLAGS = $(bench_cppflags) $(JSON_C_CFLAGS)
check_bench_LDADD = ../tools/libbench.la $(LDADD) $(JSON_C_LIBS)

# What the programs measure.
libsubject_la_CPPFLAGS = $(bench_cppflags)
libsubject_la_SOURCES = \
	bench/share.c \
	bench/subject.c \
	bench/subject.h

bench_bench_dispatch_CPPFLAGS = $(bench_cppflags)
bench_bench_dispatch_LDADD = $(bench_ldadd)
bench_bench_floor_CPPFLAGS = $(bench_cppflags)
bench_bench_floor_LDADD = $(bench_ldadd)
bench_bench_ipc_CPPFLAGS = $(bench_cppflags)
bench_bench_ipc_LDADD = $(bench_ldadd)
bench_bench_memory_CPPFLAGS = $(bench_cppflags)
bench_bench_memory_LDADD = $(bench_ldadd)
bench_bench_pipeline_CPPFLAGS = $(bench_cppflags)
bench_bench_pipeline_LDADD = $(bench_ldadd)
bench_bench_pocl_CPPFLAGS = $(bench_cppflags) $(OPENCL_CFLAGS)
bench_bench_pocl_LDADD = $(bench_ldadd) $(OPENCL_LIBS)
bench_bench_streams_CPPFLAGS = $(bench_cppflags)
bench_bench_streams_LDADD = $(bench_ldadd)
bench_bench_threads_CPPFLAGS = $(bench_cppflags)
bench_bench_threads_LDADD = $(bench_ldadd)
bench_count_calls_CPPFLAGS = $(bench_cppflags)
bench_count_calls_LDADD = $(bench_ldadd)
bench_count_memory_CPPFLAGS = $(bench_cppflags)
bench_count_memory_LDADD = $(bench_ldadd)
bench_count_steady_CPPFLAGS = $(bench_cppflags)
bench_count_steady_LDADD = $(bench_ldadd)
bench_count_steady_LDFLAGS = $(count_alloc_ldflags)
bench_count_steady_SOURCES = \
	bench/count-steady.c \
	count-alloc.c \
	count-alloc.h
bench_count_validate_CPPFLAGS = $(bench_cppflags)
bench_count_validate_LDADD = $(bench_ldadd)

# What the Python programs measure with, as bench/.libs/bench_native.abi3.so.
bench_bench_native_la_CPPFLAGS = $(bench_cppflags) $(PYTHON_CPPFLAGS) \
	-DPy_LIMITED_API=0x030b0000
bench_bench_native_la_CFLAGS = $(filter-out -Wredundant-decls -Wcast-qual -Wwrite-strings,$(QBRT_CFLAGS))
bench_bench_native_la_LIBADD = ../tools/libbench.la ../lib/libqbruntime.la
bench_bench_native_la_LDFLAGS = $(filter-out -Wl$(comma)--no-undefined,$(QBRT_LDFLAGS)) \
	-module -avoid-version -shrext .abi3.so -export-symbols-regex '^PyInit_' \
	-rpath $(abs_builddir)/bench
bench_bench_native_la_SOURCES = \
	bench/native-dlpack.c \
	bench/native-floor.c \
	bench/native.c \
	bench/native.h
comma = ,

EXTRA_DIST += bench/bench_asyncio.py bench/bench_interop.py bench/bench_peers.py \
	bench/bench_python.py \
	bench/causes.txt bench/count.h bench/count_python.py bench/counts \
	bench/counts.txt bench/report bench/subject.py
CLEANFILES = bench/records.jsonl bench/smoke.log

# The counts that gate, and all of them.
counts = $(PYTHON) $(srcdir)/bench/counts --build bench \
	--compiler "$$($(CC) --version | head -n 1)"
# All that can run here, and the page of it.
report = $(PYTHON) $(srcdir)/bench/report --build bench \
	--compiler "$$($(CC) --version | head -n 1)"
.PHONY: bench bench-counts bench-report check-counts
bench: all-am
	$(report)
bench-report: all-am
	$(report) --write $(top_srcdir)/docs/performance.md
check-counts: all-am
	$(counts) --check
bench-counts: all-am
	$(counts) --print
