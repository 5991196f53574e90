/* SPDX-License-Identifier: MIT */
/*
 * Names and numbers of the status codes, this thread's sentence, and the only
 * translation from what was attempted and the errno below the seam to a
 * status (docs/spec/qbruntime-api.md, 18.3). A sentence is made once, where
 * the cause is known; callers above hand the code on unchanged.
 */
#ifndef QBRT_STATUS_H
#define QBRT_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

/* What was asked of the driver when it answered with an errno. */
enum qbrt_attempt {
	QBRT_AT_LIST,
	QBRT_AT_OPEN,
	QBRT_AT_MMAP,
	QBRT_AT_QUERY,
	QBRT_AT_BO_CREATE,
	QBRT_AT_BO_INFO,
	QBRT_AT_GEM_CLOSE,
	QBRT_AT_EXPORT, /* of a buffer's descriptor */
	QBRT_AT_IMPORT,
	QBRT_AT_PROGRAM_CREATE,
	QBRT_AT_PROGRAM_DESTROY,
	QBRT_AT_WEIGHTS, /* BO_CREATE for weights and states */
	QBRT_AT_QUEUE_CREATE,
	QBRT_AT_QUEUE_DESTROY,
	QBRT_AT_SUBMIT,
	QBRT_AT_WAIT,
	QBRT_AT_CANCEL,
	QBRT_AT_BO_SYNC,
	QBRT_AT_SYNCOBJ, /* also the thread and the descriptor that go with it */
	QBRT_AT_COUNT
};

/* Stores the sentence for qbrt_error_detail() and returns status. */
enum qbrt_status qbrt_fail(enum qbrt_status status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * err: negative errno from below the seam. The sentence gets the request's
 * and the errno's name in front where the table has no row (Q612).
 */
enum qbrt_status qbrt_fail_errno(enum qbrt_attempt attempt, int err,
				 const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* "s" behind a noun, or nothing. */
static inline const char *qbrt_plural(size_t num)
{
	return num == 1 ? "" : "s";
}

/* What a negative errno says, never NULL. */
const char *qbrt_errno_words(int err);

/*
 * length bytes of text from outside (a file, a variable) into out, always
 * terminated: control characters and what is not UTF-8 become \xNN, what does
 * not fit ends in "...". Returns out. size >= 8.
 */
char *qbrt_escape(const char *text, size_t length, char *out, size_t size);

/*
 * Length of the printable character at start, 0 if its first byte has to be
 * escaped: control characters (also C1) and what is not UTF-8.
 */
size_t qbrt_printable_length(const char *start, size_t left);

/* Q616: how a job ended, by status (0 or -errno) and cause of its result. */
enum qbrt_status qbrt_status_of_job(int status, uint32_t cause);

/* Of a lost device; it has "device hang" (Q592). */
extern const char qbrt_lost_words[];

/* "cancelled", "watchdog or deadline": cause in words, never NULL. */
const char *qbrt_cause_words(uint32_t cause);

#endif
