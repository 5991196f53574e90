// SPDX-License-Identifier: MIT
/*
 * Methods of Accelerator that ask what the device does and has done: values of
 * the classes of qbruntime.type, with names where the C API has numbers.
 */
#include "module.h"

#define FIRST_ROOM 128

static const char *const activity_names[] = { "idle", "busy", "stuck", "off" };

typedef enum qbrt_status (*query_function)(const struct qbrt_accelerator *acc,
					   uint64_t first, void *array,
					   size_t max, size_t *num);

static enum qbrt_status ask_sensors(const struct qbrt_accelerator *acc,
				    uint64_t first, void *array, size_t max,
				    size_t *num)
{
	(void)first;
	return qbrt_accelerator_query_sensors(acc, array, max, num);
}

static enum qbrt_status ask_counters(const struct qbrt_accelerator *acc,
				     uint64_t first, void *array, size_t max,
				     size_t *num)
{
	(void)first;
	return qbrt_accelerator_query_counters(acc, array, max, num);
}

static enum qbrt_status ask_core_states(const struct qbrt_accelerator *acc,
					uint64_t first, void *array, size_t max,
					size_t *num)
{
	(void)first;
	return qbrt_accelerator_query_core_states(acc, array, max, num);
}

static enum qbrt_status ask_events(const struct qbrt_accelerator *acc,
				   uint64_t first, void *array, size_t max,
				   size_t *num)
{
	return qbrt_accelerator_query_events(acc, first, array, max, num);
}

/* All there is, for PyMem_Free(); NULL with an exception. */
static void *query_all(PyObject *accelerator, query_function ask,
		       uint64_t first, size_t element, size_t *num)
{
	struct qbpy_state *state = qbpy_accelerator_state(accelerator);
	struct qbpy_acc *handle =
		(struct qbpy_acc *)qbpy_get_handle(accelerator);
	void *array = NULL;
	size_t room = 0;

	if (!handle)
		return NULL;
	*num = FIRST_ROOM;
	while (*num > room) {
		enum qbrt_status status;

		room = *num;
		PyMem_Free(array);
		array = PyMem_Malloc(room * element);
		if (!array) {
			(void)PyErr_NoMemory();
			break;
		}
		qbpy_begin_wait();
		status = ask(handle->acc, first, array, room, num);
		qbpy_end_wait();
		if (qbpy_check(state, status,
			       qbrt_accelerator_get_id(handle->acc))) {
			PyMem_Free(array);
			array = NULL;
			break;
		}
	}
	Py_DECREF((PyObject *)handle);
	return array;
}

/* Appends an item that the list gets; of NULL the list goes. */
static void append(PyObject **list, PyObject *item)
{
	if (!item || PyList_Append(*list, item))
		Py_CLEAR(*list);
	Py_XDECREF(item);
}

static PyObject *get_sensors(PyObject *object, PyObject *none)
{
	struct qbpy_state *state = qbpy_accelerator_state(object);
	struct qbrt_reading *readings;
	PyObject *list;
	size_t num;

	(void)none;
	readings = query_all(object, ask_sensors, 0, sizeof(*readings), &num);
	if (!readings)
		return NULL;
	list = PyList_New(0);
	for (size_t i = 0; list && i < num; i++)
		append(&list, PyObject_CallFunction(
				      state->classes[QBPY_READING], "IsIL",
				      (unsigned int)readings[i].id,
				      qbrt_sensor_name(readings[i].id),
				      (unsigned int)readings[i].index,
				      (long long)readings[i].value));
	PyMem_Free(readings);
	return list;
}

/* As the names of C, but one for each rule; NULL: no name, or an exception. */
static PyObject *counter_key(uint32_t id)
{
	const char *name = qbrt_counter_name(id);

	if (!strcmp(name, "Unknown"))
		return NULL;
	if (id > 1000)
		return PyUnicode_FromFormat("%s_%u", name,
					    (unsigned int)id - 1000);
	return PyUnicode_FromString(name);
}

static PyObject *get_counters(PyObject *object, PyObject *none)
{
	struct qbrt_reading *readings;
	PyObject *counters;
	size_t num;

	(void)none;
	readings = query_all(object, ask_counters, 0, sizeof(*readings), &num);
	if (!readings)
		return NULL;
	counters = PyDict_New();
	for (size_t i = 0; counters && i < num; i++) {
		PyObject *key = counter_key(readings[i].id);
		PyObject *value = NULL;

		if (key)
			value = PyLong_FromLongLong(readings[i].value);
		if (PyErr_Occurred() ||
		    (key && PyDict_SetItem(counters, key, value)))
			Py_CLEAR(counters);
		Py_XDECREF(key);
		Py_XDECREF(value);
	}
	PyMem_Free(readings);
	return counters;
}

static PyObject *get_core_states(PyObject *object, PyObject *none)
{
	struct qbpy_state *state = qbpy_accelerator_state(object);
	struct qbrt_core_state *states;
	PyObject *list;
	size_t num;

	(void)none;
	states = query_all(object, ask_core_states, 0, sizeof(*states), &num);
	if (!states)
		return NULL;
	list = PyList_New(0);
	for (size_t i = 0; list && i < num; i++)
		append(&list, PyObject_CallFunction(
				      state->classes[QBPY_CORE_STATE], "NsIKLI",
				      qbpy_core_id(state, &states[i].core_id),
				      activity_names[states[i].activity],
				      (unsigned int)states[i].queued,
				      (unsigned long long)states[i].jobs,
				      (long long)states[i].busy_time,
				      (unsigned int)states[i].resets));
	PyMem_Free(states);
	return list;
}

static PyObject *make_event(struct qbpy_state *state,
			    const struct qbrt_device_event *event)
{
	bool has_core = event->core_id.core != QBRT_CORE_ERROR;

	return PyObject_CallFunction(
		state->classes[QBPY_DEVICE_EVENT], "KLsNN(KK)",
		(unsigned long long)event->sequence, (long long)event->time,
		qbrt_device_event_name(event->kind),
		qbpy_enum(state, QBPY_STATUS_CODE, (long)event->status),
		has_core ? qbpy_core_id(state, &event->core_id)
			 : Py_NewRef(Py_None),
		(unsigned long long)event->args[0],
		(unsigned long long)event->args[1]);
}

static PyObject *get_events(PyObject *object, PyObject *args, PyObject *kw)
{
	static char *keywords[] = { "first_sequence", NULL };
	struct qbpy_state *state = qbpy_accelerator_state(object);
	struct qbrt_device_event *events;
	PyObject *number = NULL, *list;
	long long first = 1;
	size_t num;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|O:events", keywords,
					 &number))
		return NULL;
	if (number && qbpy_parse_int(number, "first_sequence", &first))
		return NULL;
	if (first < 0) {
		PyErr_SetString(PyExc_ValueError,
				"first_sequence is negative; events count from "
				"1, and 0 and 1 mean all");
		return NULL;
	}
	events = query_all(object, ask_events, (uint64_t)first, sizeof(*events),
			   &num);
	if (!events)
		return NULL;
	list = PyList_New(0);
	for (size_t i = 0; list && i < num; i++)
		append(&list, make_event(state, &events[i]));
	PyMem_Free(events);
	return list;
}

static PyObject *known(bool is_known, unsigned long long value)
{
	return is_known ? PyLong_FromUnsignedLongLong(value)
			: Py_NewRef(Py_None);
}

static PyObject *get_firmware(PyObject *object, PyObject *none)
{
	struct qbpy_state *state = qbpy_accelerator_state(object);
	struct qbpy_acc *handle = (struct qbpy_acc *)qbpy_get_handle(object);
	struct qbrt_firmware_info info = { .size = sizeof(info) };
	enum qbrt_status status;
	PyObject *answer = NULL;

	(void)none;
	if (!handle)
		return NULL;
	qbpy_begin_wait();
	status = qbrt_accelerator_query_firmware(handle->acc, &info);
	qbpy_end_wait();
	if (status == QBRT_NOT_IMPLEMENTED && !PyErr_Occurred())
		answer = Py_NewRef(Py_None);
	else if (!qbpy_check(state, status,
			     qbrt_accelerator_get_id(handle->acc)))
		answer = PyObject_CallFunction(
			state->classes[QBPY_FIRMWARE_INFO], "NNNNNN",
			qbpy_text(info.version), qbpy_text(info.build),
			known(info.flags & QBRT_FIRMWARE_CRC, info.crc),
			PyBool_FromLong((info.flags & QBRT_FIRMWARE_SECURE) !=
					0),
			known(info.flags & QBRT_FIRMWARE_HEARTBEAT,
			      (unsigned long long)info.heartbeat),
			known(info.uptime != 0,
			      (unsigned long long)info.uptime));
	Py_DECREF((PyObject *)handle);
	return answer;
}

PyDoc_STRVAR(
	core_states_doc,
	"core_states($self, /)\n--\n\n"
	"A CoreState of each core, by cluster and core, the global ones last:\n"
	"activity \"idle\", \"busy\", \"stuck\" or \"off\"; items of jobs that\n"
	"wait for it and that it has done; busy_time_ns since attach, which\n"
	"grows while it is busy.");
PyDoc_STRVAR(
	counters_doc,
	"counters($self, /)\n--\n\n"
	"What all users of the device have done since it was attached, a dict\n"
	"by name: \"submitted\", \"completed\", \"failed\", \"cancelled\" jobs,\n"
	"\"bytes_read\", \"bytes_written\", \"busy_ns\", ... What the device does\n"
	"not count is not in it.");
PyDoc_STRVAR(
	events_doc,
	"events($self, /, first_sequence=1)\n--\n\n"
	"What happened to the device, oldest first, from a sequence number on:\n"
	"DeviceEvents with time_ns of time.monotonic_ns() and the status that\n"
	"the job's caller got. The last 256 are kept: a first sequence above\n"
	"first_sequence says how many were lost.\n\n"
	"Raises ValueError for a negative number.");
PyDoc_STRVAR(
	firmware_doc,
	"firmware($self, /)\n--\n\n"
	"A FirmwareInfo; None where nothing is known of a firmware, as of\n"
	"every software device. heartbeat_ns: the last sign of life, of\n"
	"time.monotonic_ns(). What is not known of it is None.");
PyDoc_STRVAR(
	sensors_doc,
	"sensors($self, /)\n--\n\n"
	"A Reading of each sensor, as measured at most a second ago; [] of a\n"
	"software device. Temperatures are thousandths of a degree Celsius,\n"
	"clocks Hz, power microwatts, energy microjoules, voltage and current\n"
	"millionths too, a fan parts per million.");

PyMethodDef qbpy_query_methods[] = {
	{ "core_states", get_core_states, METH_NOARGS, core_states_doc },
	{ "counters", get_counters, METH_NOARGS, counters_doc },
	{ "events", (PyCFunction)(void (*)(void))get_events,
	  METH_VARARGS | METH_KEYWORDS, events_doc },
	{ "firmware", get_firmware, METH_NOARGS, firmware_doc },
	{ "sensors", get_sensors, METH_NOARGS, sensors_doc },
	{ NULL, NULL, 0, NULL },
};
