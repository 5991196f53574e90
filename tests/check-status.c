// SPDX-License-Identifier: MIT
/*
 * The name table is compared with a second copy of the specification's, the
 * translation with its rows; both are walked over every number, so that
 * nothing is translated or named that the specification does not know.
 */
#include "status.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "counters.h"
#include "test-util.h"
#include "util.h"

static const struct {
	int number;
	enum qbrt_status status;
	const char *name;
} expected[] = {
	{ 0, QBRT_OK, "OK" },
	{ 1, QBRT_DRIVER_NOT_INITIALIZED, "Driver_NotInitialized" },
	{ 2, QBRT_MODEL_NO_TARGET_CORES, "Model_NoTargetCores" },
	{ 3, QBRT_MODEL_FAILED_TO_LOAD_MXQ, "Model_FailedToLoadMXQ" },
	{ 4, QBRT_MODEL_FAILED_TO_OPEN_SCALE_FILE,
	  "Model_FailedToOpenScaleFile" },
	{ 5, QBRT_MODEL_INVALID_SCALE_VALUE, "Model_InvalidScaleValue" },
	{ 6, QBRT_MODEL_FAILED_TO_OPEN_OUTPUT_SCALE,
	  "Model_FailedToOpenOutputScale" },
	{ 7, QBRT_MODEL_INVALID_OUTPUT_SCALE_VALUE,
	  "Model_InvalidOutputScaleValue" },
	{ 8, QBRT_MODEL_FAILED_TO_OPEN_SECTION_BINARY,
	  "Model_FailedToOpenSectionBinary" },
	{ 9, QBRT_MODEL_NOT_LAUNCHED, "Model_NotLaunched" },
	{ 10, QBRT_MODEL_NOT_ALIVE, "Model_NotAlive" },
	{ 11, QBRT_ACC_CORE_ALREADY_IN_USE, "Acc_CoreAlreadyInUse" },
	{ 12, QBRT_ACC_NO_SUCH_MODEL, "Acc_NoSuchModel" },
	{ 13, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
	  "Driver_FailedToAllocateHostMemory" },
	{ 14, QBRT_DRIVER_WRITE_MEMORY_BUFFER, "Driver_WriteMemoryBuffer" },
	{ 15, QBRT_DRIVER_READ_MEMORY_BUFFER, "Driver_ReadMemoryBuffer" },
	{ 16, QBRT_MODEL_MXQ_AND_MODEL_CONFIG_NOT_MATCH,
	  "Model_MXQAndModelConfigNotMatch" },
	{ 17, QBRT_MODEL_NO_GLOBAL_CORE_WITH_GLOBAL_MULTI_MODE,
	  "Model_NoGlobalCoreWithGlobalMultiMode" },
	{ 18, QBRT_NOT_IMPLEMENTED, "NotImplemented" },
	{ 19, QBRT_MODEL_FAILED_TO_OPEN_MODEL_DESC_FILE,
	  "Model_FailedToOpenModelDescFile" },
	{ 20, QBRT_MODEL_BROKEN_MXQ, "Model_BrokenMXQ" },
	{ 21, QBRT_MODEL_SHAPE_MISMATCHED, "Model_ShapeMismatched" },
	{ 22, QBRT_MODEL_DTYPE_MISMATCHED, "Model_DtypeMismatched" },
	{ 23, QBRT_INTERNAL_ERROR, "InternalError" },
	{ 24, QBRT_DRIVER_CLAIM_CORES, "Driver_ClaimCores" },
	{ 25, QBRT_DRIVER_UNCLAIM_CORES, "Driver_UnclaimCores" },
	{ 26, QBRT_MODEL_IS_PACKED, "Model_IsPacked" },
	{ 27, QBRT_MODEL_IS_NOT_PACKED, "Model_IsNotPacked" },
	{ 28, QBRT_ACC_TASK_QUEUE_NOT_FOUND, "Acc_TaskQueueNotFound" },
	{ 29, QBRT_MEMORY_POOL_BUF_NOT_FOUND, "MemoryPool_BufNotFound" },
	{ 30, QBRT_MEMORY_POOL_ALLOCATOR_NOT_SET,
	  "MemoryPool_AllocatorNotSet" },
	{ 32, QBRT_MODEL_FAILED_TO_ALLOC_MEMORY, "Model_FailedToAllocMemory" },
	{ 33, QBRT_DRIVER_POST_INFER, "Driver_PostInfer" },
	{ 34, QBRT_DRIVER_WAIT_DONE, "Driver_WaitDone" },
	{ 35, QBRT_DRIVER_WAIT_DONE_TIMEOUT, "Driver_WaitDoneTimeout" },
	{ 36, QBRT_MODEL_PREDICT_ERROR, "Model_PredictError" },
	{ 37, QBRT_MODEL_FAILED_TO_SAVE_TENSOR, "Model_FailedToSaveTensor" },
	{ 38, QBRT_MODEL_UNEXPECTED_MEMORY_FORMAT,
	  "Model_UnexpectedMemoryFormat" },
	{ 39, QBRT_BAD_ALLOC, "BadAlloc" },
	{ 40, QBRT_MODEL_TASK_QUEUE_CLOSED, "Model_TaskQueueClosed" },
	{ 41, QBRT_MODEL_TASK_QUEUE_TIMEOUT, "Model_TaskQueueTimeout" },
	{ 42, QBRT_ACC_NPU_TIMEOUT, "Acc_NPUTimeout" },
	{ 43, QBRT_ACC_NO_I_MEM_INIT_FOUND, "Acc_NoIMemInitFound" },
	{ 44, QBRT_DRIVER_ALLOCATE_MODEL_MEMORY, "Driver_AllocateModelMemory" },
	{ 45, QBRT_DRIVER_BUILD_CMA_IO_REQ, "Driver_BuildCmaIoReq" },
	{ 46, QBRT_DRIVER_FREE_MODEL_MEMORY, "Driver_FreeModelMemory" },
	{ 47, QBRT_DRIVER_WRONG_BASE_ADDRESS, "Driver_WrongBaseAddress" },
	{ 48, QBRT_MODEL_IS_NOT_SUPPORTED_HARDWARE,
	  "Model_IsNotSupportedHardware" },
	{ 49, QBRT_DRIVER_LOCK_CORE, "Driver_LockCore" },
	{ 50, QBRT_DRIVER_UNLOCK_CORE, "Driver_UnlockCore" },
	{ 51, QBRT_MODEL_INVALID_NPU_DTYPE, "Model_InvalidNPUDtype" },
	{ 52, QBRT_MODEL_INVALID_RMEM_TYPE, "Model_InvalidRmemType" },
	{ 53, QBRT_MODEL_CACHE_OVERFLOW, "Model_CacheOverflow" },
	{ 54, QBRT_MODEL_NO_CACHE, "Model_NoCache" },
	{ 55, QBRT_MODEL_ASYNC_PIPELINE_CHECK_FAILED,
	  "Model_AsyncPipelineCheckFailed" },
	{ 56, QBRT_MODEL_ASYNC_PIPELINE_NOT_ALIVE,
	  "Model_AsyncPipelineNotAlive" },
	{ 57, QBRT_MODEL_ASYNC_PIPELINE_TIMEOUT, "Model_AsyncPipelineTimeout" },
	{ 58, QBRT_FUTURE_NOT_VALID, "Future_NotValid" },
	{ 59, QBRT_MODEL_INVALID_SUPPLEMENTARY, "Model_InvalidSupplementary" },
	{ 60, QBRT_MODEL_NUM_CACHE_MISMATCHED, "Model_NumCacheMismatched" },
	{ 61, QBRT_MODEL_FAILED_TO_FIND_DIRECTORY,
	  "Model_FailedToFindDirectory" },
	{ 62, QBRT_MODEL_FAILED_TO_OPEN_CACHE_FILE,
	  "Model_FailedToOpenCacheFile" },
	{ 63, QBRT_MODEL_BUFFER_SIZE_MISMATCHED, "Model_BufferSizeMismatched" },
	{ 64, QBRT_MODEL_INVALID_VARIANT_IDX, "Model_InvalidVariantIdx" },
	{ 65, QBRT_MODEL_ALREADY_LAUNCHED, "Model_AlreadyLaunched" },
	{ 1000, QBRT_INVALID_ARGUMENT, "InvalidArgument" },
	{ 1001, QBRT_ACC_DEVICE_NOT_FOUND, "Acc_DeviceNotFound" },
	{ 1002, QBRT_ACC_AMBIGUOUS_DEVICE_NAME, "Acc_AmbiguousDeviceName" },
	{ 1003, QBRT_ACC_PERMISSION_DENIED, "Acc_PermissionDenied" },
	{ 1004, QBRT_ACC_DEVICE_LOST, "Acc_DeviceLost" },
	{ 1005, QBRT_ACC_VERSION_MISMATCH, "Acc_VersionMismatch" },
	{ 1006, QBRT_ACC_DRIVER_PROTOCOL, "Acc_DriverProtocol" },
	{ 1010, QBRT_PINNED_MEMORY_NOT_AVAILABLE, "PinnedMemory_NotAvailable" },
	{ 1011, QBRT_PINNED_MEMORY_OUT_OF_BOUNDS, "PinnedMemory_OutOfBounds" },
	{ 1012, QBRT_PINNED_MEMORY_NOT_CONTIGUOUS,
	  "PinnedMemory_NotContiguous" },
	{ 1013, QBRT_PINNED_MEMORY_IN_USE, "PinnedMemory_InUse" },
	{ 1014, QBRT_PINNED_MEMORY_WRONG_ACCELERATOR,
	  "PinnedMemory_WrongAccelerator" },
	{ 1015, QBRT_PINNED_MEMORY_ALIASED, "PinnedMemory_Aliased" },
	{ 1016, QBRT_PINNED_MEMORY_READ_ONLY, "PinnedMemory_ReadOnly" },
	{ 1030, QBRT_MODEL_INPUT_COUNT_MISMATCHED,
	  "Model_InputCountMismatched" },
	{ 1031, QBRT_MODEL_OUTPUT_COUNT_MISMATCHED,
	  "Model_OutputCountMismatched" },
	{ 1051, QBRT_NPU_DATA_WRONG_RESIDENCY, "NPUData_WrongResidency" },
	{ 1060, QBRT_CANCELLED, "Cancelled" },
	{ 1061, QBRT_TIMED_OUT, "TimedOut" },
	{ 1062, QBRT_WOULD_BLOCK, "WouldBlock" },
	{ 1063, QBRT_INTERRUPTED, "Interrupted" },
	{ 1065, QBRT_FORKED_PROCESS, "ForkedProcess" },
	{ 1067, QBRT_NOT_FOUND, "NotFound" },
	{ 1100, QBRT_STREAM_FAILED, "Stream_Failed" },
	{ 1101, QBRT_STREAM_GONE, "Stream_Gone" },
	{ 1102, QBRT_STREAM_CAPTURING, "Stream_Capturing" },
	{ 1110, QBRT_EVENT_NOT_RECORDED, "Event_NotRecorded" },
	{ 1111, QBRT_EVENT_NO_TIMING, "Event_NoTiming" },
	{ 1112, QBRT_EVENT_NOT_READY, "Event_NotReady" },
	{ 1113, QBRT_EVENT_PEER_GONE, "Event_PeerGone" },
	{ 1120, QBRT_BRIDGE_DEVICE_MISMATCH, "Bridge_DeviceMismatch" },
	{ 1121, QBRT_BRIDGE_NO_DRIVER, "Bridge_NoDriver" },
	{ 1200, QBRT_TENSOR_REFUSED, "Tensor_Refused" },
	{ 1201, QBRT_TENSOR_READ_ONLY, "Tensor_ReadOnly" },
	{ 1202, QBRT_TENSOR_INVALID, "Tensor_Invalid" },
	{ 1300, QBRT_MODEL_FORMAT_TOO_NEW, "Model_FormatTooNew" },
	{ 1301, QBRT_MODEL_PROGRAM_REJECTED, "Model_ProgramRejected" },
	{ 1305, QBRT_MODEL_STATE_INVALID, "Model_StateInvalid" },
};

/* Q600 Q605 Q611 Q614 */
START_TEST(every_status_has_its_number_and_name)
{
	size_t i;

	for (i = 0; i < qbrt_array_size(expected); i++) {
		ck_assert_int_eq((int)expected[i].status, expected[i].number);
		ck_assert_str_eq(qbrt_status_name(expected[i].status),
				 expected[i].name);
	}
}
END_TEST

/* Q600 Q605 */
START_TEST(every_name_gives_its_status)
{
	size_t i;

	for (i = 0; i < qbrt_array_size(expected); i++) {
		enum qbrt_status status = QBRT_NOT_FOUND;

		ck_assert_ok(qbrt_status_from_name(expected[i].name, &status));
		ck_assert_int_eq((int)status, expected[i].number);
	}
}
END_TEST

/* Q610 */
START_TEST(no_other_number_has_a_name)
{
	size_t num_named = 0;
	int number;

	for (number = -10; number < 3000; number++)
		if (strcmp(qbrt_status_name((enum qbrt_status)number),
			   "Unknown"))
			num_named++;
	ck_assert_uint_eq(num_named, qbrt_array_size(expected));
}
END_TEST

/* Q605 */
START_TEST(unknown_names_are_not_found)
{
	enum qbrt_status status = QBRT_MODEL_IS_PACKED;

	ck_assert_status(qbrt_status_from_name("Model_DtypeMismatche", &status),
			 QBRT_NOT_FOUND);
	ck_assert_status(qbrt_status_from_name("ok", &status), QBRT_NOT_FOUND);
	ck_assert_status(qbrt_status_from_name("", &status), QBRT_NOT_FOUND);
	ck_assert_status(qbrt_status_from_name("a\nb", &status),
			 QBRT_NOT_FOUND);
	ck_assert_detail("a\\x0ab");
	ck_assert_int_eq(status, QBRT_MODEL_IS_PACKED);
}
END_TEST

/* Q733 */
START_TEST(null_arguments_are_refused)
{
	enum qbrt_status status = QBRT_MODEL_IS_PACKED;

	ck_assert_status(qbrt_status_from_name(NULL, &status),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_int_eq(status, QBRT_MODEL_IS_PACKED);
	ck_assert_status(qbrt_status_from_name("OK", NULL),
			 QBRT_INVALID_ARGUMENT);
}
END_TEST

static void *read_detail(void *arg)
{
	(void)arg;
	if (*qbrt_error_detail())
		return NULL;
	(void)qbrt_fail(QBRT_CANCELLED, "another thread's");
	return strcmp(qbrt_error_detail(), "another thread's") ? NULL : &errno;
}

/* Q613 Q736 */
START_TEST(detail_belongs_to_the_thread)
{
	pthread_t thread;
	void *result = NULL;

	ck_assert_str_eq(qbrt_error_detail(), "");
	ck_assert_int_eq(qbrt_fail(QBRT_CANCELLED, "input %d", 3),
			 QBRT_CANCELLED);
	ck_assert(!pthread_create(&thread, NULL, read_detail, NULL));
	ck_assert(!pthread_join(thread, &result));
	ck_assert_ptr_nonnull(result);
	ck_assert_str_eq(qbrt_error_detail(), "input 3");
}
END_TEST

/* Q613 */
START_TEST(success_leaves_the_detail_alone)
{
	enum qbrt_status status;

	(void)qbrt_fail(QBRT_CANCELLED, "input %d", 3);
	ck_assert_ok(qbrt_status_from_name("OK", &status));
	ck_assert_str_eq(qbrt_error_detail(), "input 3");
}
END_TEST

/* Q597 */
START_TEST(long_sentences_are_cut_and_may_quote_the_last_one)
{
	char text[3000] = "";

	memset(text, 'x', sizeof(text) - 1);
	(void)qbrt_fail(QBRT_CANCELLED, "%s", text);
	ck_assert_uint_eq(strlen(qbrt_error_detail()), 1023);
	(void)qbrt_fail(QBRT_CANCELLED, "short");
	(void)qbrt_fail(QBRT_CANCELLED, "again: %s", qbrt_error_detail());
	ck_assert_str_eq(qbrt_error_detail(), "again: short");
}
END_TEST

/* The rows of Q615, each with one errno; the first that fits counts. */
#define AT(attempt) (UINT32_C(1) << QBRT_AT_##attempt)
#define ANY UINT32_MAX
static const struct {
	int err;
	uint32_t attempts;
	int status;
} rows[] = {
	{ EACCES, AT(OPEN) | AT(QUEUE_CREATE), 1003 },
	{ EACCES, AT(SUBMIT) | AT(MMAP) | AT(EXPORT) | AT(BO_SYNC), 1016 },
	{ ENOENT, AT(OPEN), 1001 },
	{ EINVAL, AT(OPEN), 1000 },
	{ EPROTO, AT(OPEN), 1005 },
	{ EMFILE, AT(LIST) | AT(OPEN) | AT(BO_CREATE) | AT(WEIGHTS), 13 },
	{ EMFILE, AT(EXPORT) | AT(IMPORT) | AT(SYNCOBJ), 13 },
	{ ENODEV, ANY, 1004 },
	{ EOPNOTSUPP, AT(PROGRAM_CREATE), 48 },
	{ EOPNOTSUPP, ANY, 18 },
	{ ENOEXEC, AT(PROGRAM_CREATE), 1301 },
	{ ETIMEDOUT, AT(PROGRAM_CREATE), 42 },
	{ EIO, AT(PROGRAM_CREATE), 1006 },
	{ ENOMEM, AT(PROGRAM_CREATE) | AT(WEIGHTS), 39 },
	{ ENOMEM, ANY, 13 },
	{ ENOSPC, AT(SUBMIT), 1062 },
	{ ENOSPC, AT(PROGRAM_CREATE), 44 },
	{ ENOSPC, AT(QUEUE_CREATE), 13 },
	{ EBUSY, AT(SUBMIT), 1013 },
	{ EBADF, AT(IMPORT), 1000 },
	{ EINVAL, AT(BO_CREATE) | AT(WEIGHTS) | AT(IMPORT), 1000 },
	{ ERANGE, AT(SUBMIT) | AT(IMPORT) | AT(BO_SYNC), 1011 },
	{ ENODATA, AT(WAIT), 23 },
	{ ETIME, AT(WAIT), 1061 },
	{ ETIME, AT(SUBMIT), 42 },
	{ ECANCELED, AT(SUBMIT), 1100 },
	{ EINVAL, AT(MMAP) | AT(QUERY) | AT(BO_INFO) | AT(GEM_CLOSE), 23 },
	{ EINVAL, AT(PROGRAM_CREATE) | AT(PROGRAM_DESTROY), 23 },
	{ EINVAL, AT(QUEUE_CREATE) | AT(QUEUE_DESTROY) | AT(SUBMIT), 23 },
	{ EINVAL, AT(WAIT) | AT(CANCEL) | AT(BO_SYNC) | AT(SYNCOBJ), 23 },
	{ EINVAL, AT(EXPORT), 23 },
	{ EFAULT, AT(QUERY) | AT(BO_CREATE) | AT(BO_INFO), 23 },
	{ EFAULT, AT(GEM_CLOSE) | AT(PROGRAM_CREATE), 23 },
	{ EFAULT, AT(PROGRAM_DESTROY) | AT(WEIGHTS) | AT(QUEUE_CREATE), 23 },
	{ EFAULT, AT(QUEUE_DESTROY) | AT(SUBMIT) | AT(WAIT), 23 },
	{ EFAULT, AT(CANCEL) | AT(BO_SYNC) | AT(SYNCOBJ), 23 },
	{ ENOENT, AT(BO_INFO) | AT(PROGRAM_CREATE) | AT(EXPORT), 23 },
	{ ENOENT, AT(PROGRAM_DESTROY) | AT(QUEUE_DESTROY), 23 },
	{ ENOENT, AT(SUBMIT) | AT(WAIT) | AT(CANCEL), 23 },
	{ ENOENT, AT(BO_SYNC) | AT(SYNCOBJ), 23 },
	{ EBADF, AT(SYNCOBJ), 23 },
	{ EACCES, AT(PROGRAM_CREATE), 23 },
	{ ERANGE, AT(PROGRAM_CREATE), 23 },
};

static int find_row(int attempt, int err)
{
	/* ENFILE has the rows of EMFILE */
	for (size_t i = 0; i < qbrt_array_size(rows); i++)
		if (rows[i].err == (err == ENFILE ? EMFILE : err) &&
		    rows[i].attempts >> attempt & 1)
			return rows[i].status;
	return 0;
}

/* Q612 Q615 */
START_TEST(every_pair_of_attempt_and_errno_is_translated)
{
	int err;

	for (err = 1; err < 140; err++) {
		unsigned long before =
			atomic_load(&qbrt_counters.unmapped_errors);
		int row = find_row(_i, err);
		int status = qbrt_fail_errno((enum qbrt_attempt)_i, -err,
					     "number %d", 7);

		ck_assert_int_eq(status, row ? row : 1006);
		ck_assert_uint_eq(atomic_load(&qbrt_counters.unmapped_errors) -
					  before,
				  row ? 0 : 1);
		ck_assert_detail("number 7");
	}
}
END_TEST

/* Q612 */
START_TEST(unmapped_answers_name_request_and_errno)
{
	(void)qbrt_fail_errno(QBRT_AT_QUERY, -EXDEV, "type %d", 2);
	ck_assert_str_eq(qbrt_error_detail(), "QUERY answered EXDEV: type 2");
	(void)qbrt_fail_errno(QBRT_AT_QUERY, -4000, "type %d", 2);
	ck_assert_str_eq(qbrt_error_detail(), "QUERY answered -4000: type 2");
	(void)qbrt_fail_errno(QBRT_AT_SUBMIT, -EFAULT, "job %d", 9);
	ck_assert_str_eq(qbrt_error_detail(), "SUBMIT answered EFAULT: job 9");
	(void)qbrt_fail_errno(QBRT_AT_SUBMIT, -EBUSY, "output %d is in use", 0);
	ck_assert_str_eq(qbrt_error_detail(), "output 0 is in use");
}
END_TEST

/* Q616 */
START_TEST(a_jobs_result_becomes_a_status)
{
	static const int by_cause[] = { 36, 36,   42, 1060, 36,
					36, 1004, 36, 1100, 1100 };
	static const int errnos[] = { 0,      EIO,    ETIMEDOUT, ECANCELED,
				      ENOMEM, ENODEV, EPERM };
	uint32_t cause;
	size_t i;

	for (cause = 0; cause < 12; cause++) {
		for (i = 0; i < qbrt_array_size(errnos); i++) {
			int want = cause < 10 ? by_cause[cause] : 1006;

			if (cause < 2 && errnos[i] != EIO)
				want = 1006;
			if (errnos[i] == ENOMEM)
				want = 39;
			if (errnos[i] == ENODEV)
				want = 1004;
			if (!errnos[i])
				want = 0;
			ck_assert_int_eq(qbrt_status_of_job(-errnos[i], cause),
					 want);
		}
	}
	ck_assert_str_eq(qbrt_cause_words(2), "watchdog or deadline");
	ck_assert_str_eq(qbrt_cause_words(3), "cancelled");
	ck_assert_str_eq(qbrt_cause_words(UINT32_MAX), "unknown cause");
}
END_TEST

/* Q616 Q612 */
START_TEST(a_result_outside_the_interface_is_counted)
{
	unsigned long before = atomic_load(&qbrt_counters.unmapped_errors);
	ck_assert_int_eq(qbrt_status_of_job(-EIO, 10), 1006);
	ck_assert_int_eq(qbrt_status_of_job(-EIO, 1), QBRT_MODEL_PREDICT_ERROR);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.unmapped_errors),
			  before + 1);
}
END_TEST

/* FM04 */
START_TEST(foreign_text_is_escaped)
{
	static const struct {
		const char *text;
		const char *escaped;
	} cases[] = {
		{ "", "" },
		{ "plain \\ text", "plain \\ text" },
		{ "a\nb\tc", "a\\x0ab\\x09c" },
		{ "\x1b[31m", "\\x1b[31m" },
		{ "\x7f", "\\x7f" },
		/* Latin, Hangul, the last code point */
		{ "\xc3\xa9\xed\x95\x9c", "\xc3\xa9\xed\x95\x9c" },
		{ "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" },
		/* C1 control, overlong, surrogate, beyond, lone, cut off */
		{ "\xc2\x9b", "\\xc2\\x9b" },
		{ "\xc0\x80", "\\xc0\\x80" },
		{ "\xe0\x80\x80", "\\xe0\\x80\\x80" },
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },
		{ "\xff", "\\xff" },
		{ "\x80", "\\x80" },
		{ "\xc3", "\\xc3" },
		{ "\xe3\x81", "\\xe3\\x81" },
	};
	char out[64];
	size_t i;

	for (i = 0; i < qbrt_array_size(cases); i++)
		ck_assert_str_eq(qbrt_escape(cases[i].text,
					     strlen(cases[i].text), out,
					     sizeof(out)),
				 cases[i].escaped);
	ck_assert_str_eq(qbrt_escape("a\0b", 3, out, sizeof(out)), "a\\x00b");
}
END_TEST

/* FM04 */
START_TEST(long_foreign_text_ends_in_dots)
{
	char out[16];
	size_t length;

	memset(out, 'y', sizeof(out));
	ck_assert_str_eq(qbrt_escape("0123456789abcdef", 16, out, 12),
			 "01234567...");
	ck_assert_int_eq(out[12], 'y');
	for (length = 0; length < 12; length++)
		ck_assert_uint_lt(strlen(qbrt_escape("\x01\x02\x03\x04xxxxxxx",
						     length, out, 12)),
				  12);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(every_status_has_its_number_and_name),
		QBRT_TEST(every_name_gives_its_status),
		QBRT_TEST(no_other_number_has_a_name),
		QBRT_TEST(unknown_names_are_not_found),
		QBRT_TEST(null_arguments_are_refused),
		QBRT_TEST(detail_belongs_to_the_thread),
		QBRT_TEST(success_leaves_the_detail_alone),
		QBRT_TEST(long_sentences_are_cut_and_may_quote_the_last_one),
		QBRT_LOOP_TEST(every_pair_of_attempt_and_errno_is_translated,
			       QBRT_AT_COUNT),
		QBRT_TEST(unmapped_answers_name_request_and_errno),
		QBRT_TEST(a_jobs_result_becomes_a_status),
		QBRT_TEST(a_result_outside_the_interface_is_counted),
		QBRT_TEST(foreign_text_is_escaped),
		QBRT_TEST(long_foreign_text_ends_in_dots),
	};

	return qbrt_test_run("status", tests, qbrt_array_size(tests));
}
