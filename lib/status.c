// SPDX-License-Identifier: MIT
/*
 * The tables behind status.h, and this thread's sentence: a fixed buffer, so
 * that failing never allocates. A sentence is formatted beside the buffer
 * first, since it may quote the last one. Numbers of the name table are frozen
 * (Q611); the translation is total (Q612).
 */
#include "status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "counters.h"
#include "util.h"

#define DETAIL_SIZE 1024

static const struct {
	enum qbrt_status status;
	const char *name;
} names[] = {
	{ QBRT_OK, "OK" },
	{ QBRT_DRIVER_NOT_INITIALIZED, "Driver_NotInitialized" },
	{ QBRT_MODEL_NO_TARGET_CORES, "Model_NoTargetCores" },
	{ QBRT_MODEL_FAILED_TO_LOAD_MXQ, "Model_FailedToLoadMXQ" },
	{ QBRT_MODEL_FAILED_TO_OPEN_SCALE_FILE, "Model_FailedToOpenScaleFile" },
	{ QBRT_MODEL_INVALID_SCALE_VALUE, "Model_InvalidScaleValue" },
	{ QBRT_MODEL_FAILED_TO_OPEN_OUTPUT_SCALE,
	  "Model_FailedToOpenOutputScale" },
	{ QBRT_MODEL_INVALID_OUTPUT_SCALE_VALUE,
	  "Model_InvalidOutputScaleValue" },
	{ QBRT_MODEL_FAILED_TO_OPEN_SECTION_BINARY,
	  "Model_FailedToOpenSectionBinary" },
	{ QBRT_MODEL_NOT_LAUNCHED, "Model_NotLaunched" },
	{ QBRT_MODEL_NOT_ALIVE, "Model_NotAlive" },
	{ QBRT_ACC_CORE_ALREADY_IN_USE, "Acc_CoreAlreadyInUse" },
	{ QBRT_ACC_NO_SUCH_MODEL, "Acc_NoSuchModel" },
	{ QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
	  "Driver_FailedToAllocateHostMemory" },
	{ QBRT_DRIVER_WRITE_MEMORY_BUFFER, "Driver_WriteMemoryBuffer" },
	{ QBRT_DRIVER_READ_MEMORY_BUFFER, "Driver_ReadMemoryBuffer" },
	{ QBRT_MODEL_MXQ_AND_MODEL_CONFIG_NOT_MATCH,
	  "Model_MXQAndModelConfigNotMatch" },
	{ QBRT_MODEL_NO_GLOBAL_CORE_WITH_GLOBAL_MULTI_MODE,
	  "Model_NoGlobalCoreWithGlobalMultiMode" },
	{ QBRT_NOT_IMPLEMENTED, "NotImplemented" },
	{ QBRT_MODEL_FAILED_TO_OPEN_MODEL_DESC_FILE,
	  "Model_FailedToOpenModelDescFile" },
	{ QBRT_MODEL_BROKEN_MXQ, "Model_BrokenMXQ" },
	{ QBRT_MODEL_SHAPE_MISMATCHED, "Model_ShapeMismatched" },
	{ QBRT_MODEL_DTYPE_MISMATCHED, "Model_DtypeMismatched" },
	{ QBRT_INTERNAL_ERROR, "InternalError" },
	{ QBRT_DRIVER_CLAIM_CORES, "Driver_ClaimCores" },
	{ QBRT_DRIVER_UNCLAIM_CORES, "Driver_UnclaimCores" },
	{ QBRT_MODEL_IS_PACKED, "Model_IsPacked" },
	{ QBRT_MODEL_IS_NOT_PACKED, "Model_IsNotPacked" },
	{ QBRT_ACC_TASK_QUEUE_NOT_FOUND, "Acc_TaskQueueNotFound" },
	{ QBRT_MEMORY_POOL_BUF_NOT_FOUND, "MemoryPool_BufNotFound" },
	{ QBRT_MEMORY_POOL_ALLOCATOR_NOT_SET, "MemoryPool_AllocatorNotSet" },
	{ QBRT_MODEL_FAILED_TO_ALLOC_MEMORY, "Model_FailedToAllocMemory" },
	{ QBRT_DRIVER_POST_INFER, "Driver_PostInfer" },
	{ QBRT_DRIVER_WAIT_DONE, "Driver_WaitDone" },
	{ QBRT_DRIVER_WAIT_DONE_TIMEOUT, "Driver_WaitDoneTimeout" },
	{ QBRT_MODEL_PREDICT_ERROR, "Model_PredictError" },
	{ QBRT_MODEL_FAILED_TO_SAVE_TENSOR, "Model_FailedToSaveTensor" },
	{ QBRT_MODEL_UNEXPECTED_MEMORY_FORMAT, "Model_UnexpectedMemoryFormat" },
	{ QBRT_BAD_ALLOC, "BadAlloc" },
	{ QBRT_MODEL_TASK_QUEUE_CLOSED, "Model_TaskQueueClosed" },
	{ QBRT_MODEL_TASK_QUEUE_TIMEOUT, "Model_TaskQueueTimeout" },
	{ QBRT_ACC_NPU_TIMEOUT, "Acc_NPUTimeout" },
	{ QBRT_ACC_NO_I_MEM_INIT_FOUND, "Acc_NoIMemInitFound" },
	{ QBRT_DRIVER_ALLOCATE_MODEL_MEMORY, "Driver_AllocateModelMemory" },
	{ QBRT_DRIVER_BUILD_CMA_IO_REQ, "Driver_BuildCmaIoReq" },
	{ QBRT_DRIVER_FREE_MODEL_MEMORY, "Driver_FreeModelMemory" },
	{ QBRT_DRIVER_WRONG_BASE_ADDRESS, "Driver_WrongBaseAddress" },
	{ QBRT_MODEL_IS_NOT_SUPPORTED_HARDWARE,
	  "Model_IsNotSupportedHardware" },
	{ QBRT_DRIVER_LOCK_CORE, "Driver_LockCore" },
	{ QBRT_DRIVER_UNLOCK_CORE, "Driver_UnlockCore" },
	{ QBRT_MODEL_INVALID_NPU_DTYPE, "Model_InvalidNPUDtype" },
	{ QBRT_MODEL_INVALID_RMEM_TYPE, "Model_InvalidRmemType" },
	{ QBRT_MODEL_CACHE_OVERFLOW, "Model_CacheOverflow" },
	{ QBRT_MODEL_NO_CACHE, "Model_NoCache" },
	{ QBRT_MODEL_ASYNC_PIPELINE_CHECK_FAILED,
	  "Model_AsyncPipelineCheckFailed" },
	{ QBRT_MODEL_ASYNC_PIPELINE_NOT_ALIVE, "Model_AsyncPipelineNotAlive" },
	{ QBRT_MODEL_ASYNC_PIPELINE_TIMEOUT, "Model_AsyncPipelineTimeout" },
	{ QBRT_FUTURE_NOT_VALID, "Future_NotValid" },
	{ QBRT_MODEL_INVALID_SUPPLEMENTARY, "Model_InvalidSupplementary" },
	{ QBRT_MODEL_NUM_CACHE_MISMATCHED, "Model_NumCacheMismatched" },
	{ QBRT_MODEL_FAILED_TO_FIND_DIRECTORY, "Model_FailedToFindDirectory" },
	{ QBRT_MODEL_FAILED_TO_OPEN_CACHE_FILE, "Model_FailedToOpenCacheFile" },
	{ QBRT_MODEL_BUFFER_SIZE_MISMATCHED, "Model_BufferSizeMismatched" },
	{ QBRT_MODEL_INVALID_VARIANT_IDX, "Model_InvalidVariantIdx" },
	{ QBRT_MODEL_ALREADY_LAUNCHED, "Model_AlreadyLaunched" },
	{ QBRT_INVALID_ARGUMENT, "InvalidArgument" },
	{ QBRT_ACC_DEVICE_NOT_FOUND, "Acc_DeviceNotFound" },
	{ QBRT_ACC_AMBIGUOUS_DEVICE_NAME, "Acc_AmbiguousDeviceName" },
	{ QBRT_ACC_PERMISSION_DENIED, "Acc_PermissionDenied" },
	{ QBRT_ACC_DEVICE_LOST, "Acc_DeviceLost" },
	{ QBRT_ACC_VERSION_MISMATCH, "Acc_VersionMismatch" },
	{ QBRT_ACC_DRIVER_PROTOCOL, "Acc_DriverProtocol" },
	{ QBRT_PINNED_MEMORY_NOT_AVAILABLE, "PinnedMemory_NotAvailable" },
	{ QBRT_PINNED_MEMORY_OUT_OF_BOUNDS, "PinnedMemory_OutOfBounds" },
	{ QBRT_PINNED_MEMORY_NOT_CONTIGUOUS, "PinnedMemory_NotContiguous" },
	{ QBRT_PINNED_MEMORY_IN_USE, "PinnedMemory_InUse" },
	{ QBRT_PINNED_MEMORY_WRONG_ACCELERATOR,
	  "PinnedMemory_WrongAccelerator" },
	{ QBRT_PINNED_MEMORY_ALIASED, "PinnedMemory_Aliased" },
	{ QBRT_PINNED_MEMORY_READ_ONLY, "PinnedMemory_ReadOnly" },
	{ QBRT_MODEL_INPUT_COUNT_MISMATCHED, "Model_InputCountMismatched" },
	{ QBRT_MODEL_OUTPUT_COUNT_MISMATCHED, "Model_OutputCountMismatched" },
	{ QBRT_NPU_DATA_WRONG_RESIDENCY, "NPUData_WrongResidency" },
	{ QBRT_CANCELLED, "Cancelled" },
	{ QBRT_TIMED_OUT, "TimedOut" },
	{ QBRT_WOULD_BLOCK, "WouldBlock" },
	{ QBRT_INTERRUPTED, "Interrupted" },
	{ QBRT_FORKED_PROCESS, "ForkedProcess" },
	{ QBRT_NOT_FOUND, "NotFound" },
	{ QBRT_STREAM_FAILED, "Stream_Failed" },
	{ QBRT_STREAM_GONE, "Stream_Gone" },
	{ QBRT_STREAM_CAPTURING, "Stream_Capturing" },
	{ QBRT_EVENT_NOT_RECORDED, "Event_NotRecorded" },
	{ QBRT_EVENT_NO_TIMING, "Event_NoTiming" },
	{ QBRT_EVENT_NOT_READY, "Event_NotReady" },
	{ QBRT_EVENT_PEER_GONE, "Event_PeerGone" },
	{ QBRT_BRIDGE_DEVICE_MISMATCH, "Bridge_DeviceMismatch" },
	{ QBRT_BRIDGE_NO_DRIVER, "Bridge_NoDriver" },
	{ QBRT_TENSOR_REFUSED, "Tensor_Refused" },
	{ QBRT_TENSOR_READ_ONLY, "Tensor_ReadOnly" },
	{ QBRT_TENSOR_INVALID, "Tensor_Invalid" },
	{ QBRT_MODEL_FORMAT_TOO_NEW, "Model_FormatTooNew" },
	{ QBRT_MODEL_PROGRAM_REJECTED, "Model_ProgramRejected" },
	{ QBRT_MODEL_STATE_INVALID, "Model_StateInvalid" },
};

#define AT(attempt) (1u << QBRT_AT_##attempt)
#define AT_ANY UINT32_MAX

/* Q615; the first row that fits decides. */
static const struct {
	int err;
	uint32_t attempts;
	enum qbrt_status status;
} translations[] = {
	{ ENODEV, AT_ANY, QBRT_ACC_DEVICE_LOST },
	{ EACCES, AT(OPEN) | AT(QUEUE_CREATE), QBRT_ACC_PERMISSION_DENIED },
	{ EACCES, AT(SUBMIT) | AT(MMAP) | AT(EXPORT) | AT(BO_SYNC),
	  QBRT_PINNED_MEMORY_READ_ONLY },
	{ ENOENT, AT(OPEN), QBRT_ACC_DEVICE_NOT_FOUND },
	{ EINVAL, AT(OPEN), QBRT_INVALID_ARGUMENT },
	{ EPROTO, AT(OPEN), QBRT_ACC_VERSION_MISMATCH },
	{ EMFILE,
	  AT(LIST) | AT(OPEN) | AT(BO_CREATE) | AT(WEIGHTS) | AT(EXPORT) |
		  AT(IMPORT) | AT(SYNCOBJ),
	  QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
	{ ENFILE,
	  AT(LIST) | AT(OPEN) | AT(BO_CREATE) | AT(WEIGHTS) | AT(EXPORT) |
		  AT(IMPORT) | AT(SYNCOBJ),
	  QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
	{ EOPNOTSUPP, AT(PROGRAM_CREATE),
	  QBRT_MODEL_IS_NOT_SUPPORTED_HARDWARE },
	{ EOPNOTSUPP, AT_ANY, QBRT_NOT_IMPLEMENTED },
	{ ENOEXEC, AT(PROGRAM_CREATE), QBRT_MODEL_PROGRAM_REJECTED },
	{ ETIMEDOUT, AT(PROGRAM_CREATE), QBRT_ACC_NPU_TIMEOUT },
	{ EIO, AT(PROGRAM_CREATE), QBRT_ACC_DRIVER_PROTOCOL },
	{ ENOMEM, AT(PROGRAM_CREATE) | AT(WEIGHTS), QBRT_BAD_ALLOC },
	/* Q469 where the buffer lies in device memory: the caller knows */
	{ ENOMEM, AT_ANY, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
	{ ENOSPC, AT(SUBMIT), QBRT_WOULD_BLOCK },
	{ ENOSPC, AT(PROGRAM_CREATE), QBRT_DRIVER_ALLOCATE_MODEL_MEMORY },
	{ ENOSPC, AT(QUEUE_CREATE),
	  QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
	{ EBUSY, AT(SUBMIT), QBRT_PINNED_MEMORY_IN_USE },
	{ EINVAL, AT(BO_CREATE) | AT(WEIGHTS), QBRT_INVALID_ARGUMENT },
	{ EBADF, AT(IMPORT), QBRT_INVALID_ARGUMENT },
	{ EINVAL, AT(IMPORT), QBRT_INVALID_ARGUMENT },
	{ ERANGE, AT(SUBMIT) | AT(IMPORT) | AT(BO_SYNC),
	  QBRT_PINNED_MEMORY_OUT_OF_BOUNDS },
	{ ENODATA, AT(WAIT), QBRT_INTERNAL_ERROR },
	{ ETIME, AT(WAIT), QBRT_TIMED_OUT },
	{ ETIME, AT(SUBMIT), QBRT_ACC_NPU_TIMEOUT },
	{ ECANCELED, AT(SUBMIT), QBRT_STREAM_FAILED },
	/* what the driver may answer when the library asks wrongly */
	{ EINVAL,
	  AT(MMAP) | AT(QUERY) | AT(BO_INFO) | AT(GEM_CLOSE) |
		  AT(PROGRAM_CREATE) | AT(PROGRAM_DESTROY) | AT(QUEUE_CREATE) |
		  AT(QUEUE_DESTROY) | AT(SUBMIT) | AT(WAIT) | AT(CANCEL) |
		  AT(BO_SYNC) | AT(SYNCOBJ) | AT(EXPORT),
	  QBRT_INTERNAL_ERROR },
	{ EFAULT,
	  AT(QUERY) | AT(BO_CREATE) | AT(BO_INFO) | AT(GEM_CLOSE) |
		  AT(PROGRAM_CREATE) | AT(PROGRAM_DESTROY) | AT(WEIGHTS) |
		  AT(QUEUE_CREATE) | AT(QUEUE_DESTROY) | AT(SUBMIT) | AT(WAIT) |
		  AT(CANCEL) | AT(BO_SYNC) | AT(SYNCOBJ),
	  QBRT_INTERNAL_ERROR },
	{ ENOENT,
	  AT(BO_INFO) | AT(PROGRAM_CREATE) | AT(PROGRAM_DESTROY) |
		  AT(QUEUE_DESTROY) | AT(SUBMIT) | AT(WAIT) | AT(CANCEL) |
		  AT(BO_SYNC) | AT(SYNCOBJ) | AT(EXPORT),
	  QBRT_INTERNAL_ERROR },
	{ EBADF, AT(SYNCOBJ), QBRT_INTERNAL_ERROR },
	{ EACCES, AT(PROGRAM_CREATE), QBRT_INTERNAL_ERROR },
	{ ERANGE, AT(PROGRAM_CREATE), QBRT_INTERNAL_ERROR },
};

static const char *const attempt_names[QBRT_AT_COUNT] = {
	[QBRT_AT_LIST] = "list",
	[QBRT_AT_OPEN] = "open",
	[QBRT_AT_MMAP] = "mmap",
	[QBRT_AT_QUERY] = "QUERY",
	[QBRT_AT_BO_CREATE] = "BO_CREATE",
	[QBRT_AT_BO_INFO] = "BO_INFO",
	[QBRT_AT_GEM_CLOSE] = "GEM_CLOSE",
	[QBRT_AT_EXPORT] = "PRIME_HANDLE_TO_FD",
	[QBRT_AT_IMPORT] = "PRIME_FD_TO_HANDLE",
	[QBRT_AT_PROGRAM_CREATE] = "PROGRAM_CREATE",
	[QBRT_AT_PROGRAM_DESTROY] = "PROGRAM_DESTROY",
	[QBRT_AT_WEIGHTS] = "BO_CREATE for weights or states",
	[QBRT_AT_QUEUE_CREATE] = "QUEUE_CREATE",
	[QBRT_AT_QUEUE_DESTROY] = "QUEUE_DESTROY",
	[QBRT_AT_SUBMIT] = "SUBMIT",
	[QBRT_AT_WAIT] = "WAIT",
	[QBRT_AT_CANCEL] = "CANCEL",
	[QBRT_AT_BO_SYNC] = "BO_SYNC",
	[QBRT_AT_SYNCOBJ] = "SYNCOBJ",
};

/* Q592: a device that is pulled answers no differently */
#define LOST_WORDS \
	"device hang: the device stopped answering and no reset brought it " \
	"back, or it was removed"

const char qbrt_lost_words[] = LOST_WORDS;

/* Q616 by cause, where the job's status alone does not decide */
static const struct {
	enum qbrt_status status;
	const char *words;
} causes[] = {
	{ QBRT_MODEL_PREDICT_ERROR, "no cause given" },
	{ QBRT_MODEL_PREDICT_ERROR, "program error" },
	{ QBRT_ACC_NPU_TIMEOUT, "watchdog or deadline" },
	{ QBRT_CANCELLED, "cancelled" },
	{ QBRT_MODEL_PREDICT_ERROR, "reset by another job's fault" },
	{ QBRT_MODEL_PREDICT_ERROR, "memory error" },
	{ QBRT_ACC_DEVICE_LOST, LOST_WORDS },
	{ QBRT_MODEL_PREDICT_ERROR, "injected fault" },
	{ QBRT_STREAM_FAILED, "an awaited fence failed" },
	{ QBRT_STREAM_FAILED, "the stream had failed" },
};

static _Thread_local char detail[DETAIL_SIZE];

QBRT_API const char *qbrt_status_name(enum qbrt_status status)
{
	size_t i;

	for (i = 0; i < qbrt_array_size(names); i++)
		if (names[i].status == status)
			return names[i].name;
	return "Unknown";
}

QBRT_API enum qbrt_status qbrt_status_from_name(const char *name,
						enum qbrt_status *status)
{
	char escaped[64];
	size_t i;

	if (!name || !status)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s is NULL",
				 name ? "status" : "name");
	for (i = 0; i < qbrt_array_size(names); i++) {
		if (!strcmp(names[i].name, name)) {
			*status = names[i].status;
			return QBRT_OK;
		}
	}
	return qbrt_fail(
		QBRT_NOT_FOUND, "no status is named \"%s\"",
		qbrt_escape(name, strlen(name), escaped, sizeof(escaped)));
}

QBRT_API const char *qbrt_error_detail(void)
{
	return detail;
}

enum qbrt_status qbrt_fail(enum qbrt_status status, const char *format, ...)
{
	char sentence[DETAIL_SIZE];
	va_list args;
	size_t length;

	va_start(args, format);
	length = (size_t)vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	if (length >= sizeof(sentence))
		length = sizeof(sentence) - 1;
	memcpy(detail, sentence, length);
	detail[length] = '\0';
	return status;
}

const char *qbrt_errno_words(int err)
{
	const char *words = strerrordesc_np(-err);

	return words ? words : "unknown error";
}

/* QBRT_OK: the table has no row. */
static enum qbrt_status translate(enum qbrt_attempt attempt, int err)
{
	size_t i;

	for (i = 0; i < qbrt_array_size(translations); i++)
		if (translations[i].err == -err &&
		    translations[i].attempts & (1u << attempt))
			return translations[i].status;
	return QBRT_OK;
}

/*
 * Q615: which limit on descriptors it was, and Q592: that the device answers
 * no more, for the end of the sentence.
 */
static void describe_reason(int err, char *text, size_t size)
{
	struct rlimit limit = { 0 };

	*text = '\0';
	if (err == -ENODEV)
		(void)snprintf(text, size, "; %s", qbrt_lost_words);
	if (err == -ENFILE)
		(void)snprintf(text, size,
			       "; no descriptor is left in the "
			       "system (fs.file-max)");
	if (err != -EMFILE)
		return;
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	(void)snprintf(text, size,
		       "; no descriptor is left, RLIMIT_NOFILE is %llu",
		       (unsigned long long)limit.rlim_cur);
}

enum qbrt_status qbrt_fail_errno(enum qbrt_attempt attempt, int err,
				 const char *format, ...)
{
	enum qbrt_status status = translate(attempt, err);
	const char *name = strerrorname_np(-err);
	char sentence[DETAIL_SIZE];
	char reason[112];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	describe_reason(err, reason, sizeof(reason));
	if (status != QBRT_OK && status != QBRT_INTERNAL_ERROR)
		return qbrt_fail(status, "%s%s", sentence, reason);
	if (status == QBRT_OK) {
		qbrt_count(unmapped_errors);
		status = QBRT_ACC_DRIVER_PROTOCOL;
	}
	if (name)
		return qbrt_fail(status, "%s answered %s: %s",
				 attempt_names[attempt], name, sentence);
	return qbrt_fail(status, "%s answered %d: %s", attempt_names[attempt],
			 err, sentence);
}

enum qbrt_status qbrt_status_of_job(int status, uint32_t cause)
{
	if (!status)
		return QBRT_OK;
	if (status == -ENOMEM)
		return QBRT_BAD_ALLOC;
	if (status == -ENODEV)
		return QBRT_ACC_DEVICE_LOST;
	/* a job may only say "no cause" or "program error" with -EIO */
	if (cause < qbrt_array_size(causes) && (cause > 1 || status == -EIO))
		return causes[cause].status;
	qbrt_count(unmapped_errors);
	return QBRT_ACC_DRIVER_PROTOCOL;
}

const char *qbrt_cause_words(uint32_t cause)
{
	return cause < qbrt_array_size(causes) ? causes[cause].words
					       : "unknown cause";
}

size_t qbrt_printable_length(const char *start, size_t left)
{
	const unsigned char *text = (const unsigned char *)start;
	static const uint32_t least[] = { 0, 0, 0xa0, 0x800, 0x10000 };
	size_t length = 1;
	uint32_t code;
	size_t i;

	if (text[0] < 0x80)
		return text[0] >= 0x20 && text[0] != 0x7f;
	if (text[0] >= 0xf0)
		length = 4;
	else if (text[0] >= 0xe0)
		length = 3;
	else if (text[0] >= 0xc0)
		length = 2;
	if (length == 1 || text[0] > 0xf4 || length > left)
		return 0;
	code = text[0] & (0x7fu >> length);
	for (i = 1; i < length; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (text[i] & 0x3fu);
	}
	if (code < least[length] || code > 0x10ffff ||
	    (code >= 0xd800 && code < 0xe000))
		return 0;
	return length;
}

char *qbrt_escape(const char *text, size_t length, char *out, size_t size)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *bytes = (const unsigned char *)text;
	const size_t room = size - sizeof("...");
	size_t used = 0;
	size_t i = 0;

	while (i < length) {
		size_t num = qbrt_printable_length(text + i, length - i);

		if (used + (num ? num : 4) > room) {
			memcpy(out + used, "...", 3);
			used += 3;
			break;
		}
		if (num) {
			memcpy(out + used, bytes + i, num);
			used += num;
			i += num;
			continue;
		}
		out[used++] = '\\';
		out[used++] = 'x';
		out[used++] = digits[bytes[i] >> 4];
		out[used++] = digits[bytes[i++] & 15];
	}
	out[used] = '\0';
	return out;
}
