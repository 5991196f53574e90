// SPDX-License-Identifier: MIT
/*
 * The SYNCOBJ requests: timelines only (K307, K320). Arrays are copied before
 * the file lock is taken and results after it is dropped; all that a request
 * needs is allocated before it changes anything, so it does all or nothing.
 */
#include "soft/soft.h"

#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

/* The core's limit for the first point of a source (TRANSFER). */
#define SUBMIT_WAIT_NS (5 * QBRT_NS_PER_SEC)

#define WAIT_FLAGS \
	(DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL | \
	 DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT | \
	 DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE)

/* The arrays of a request; one allocation. */
struct points {
	uint32_t num;
	uint64_t *values;
	uint32_t *handles;
};

/* With handles copied in, values only if the request gives them. */
static int take_points(struct points *points, uint32_t num, uint64_t handles,
		       uint64_t values, bool has_values)
{
	int err;

	points->num = num;
	points->values = malloc(
		num * (sizeof(*points->values) + sizeof(*points->handles)));
	if (!points->values)
		return -ENOMEM;
	points->handles = (uint32_t *)(points->values + num);
	err = qbnpu_soft_copy_from_user(points->handles, handles,
					num * sizeof(*points->handles));
	/* no array of points means the points of binary syncobjs */
	if (!err && has_values && !values)
		err = -EOPNOTSUPP;
	if (!err && has_values)
		err = qbnpu_soft_copy_from_user(points->values, values,
						num * sizeof(*points->values));
	for (uint32_t i = 0; !err && has_values && i < num; i++) {
		if (!points->values[i])
			err = -EOPNOTSUPP;
	}
	if (err)
		free(points->values);
	return err;
}

/* File lock. */
static struct qbnpu_soft_timeline *
get_timeline(const struct qbnpu_soft_file *file, uint32_t handle)
{
	return qbnpu_soft_table_get(&file->timelines, handle);
}

static int check_handles(const struct qbnpu_soft_file *file,
			 const struct points *points)
{
	for (uint32_t i = 0; i < points->num; i++) {
		if (!get_timeline(file, points->handles[i]))
			return -ENOENT;
	}
	return 0;
}

/* After check_handles has seen that it is there. */
static struct qbnpu_soft_timeline *
get_checked(const struct qbnpu_soft_file *file, const struct points *points,
	    uint32_t index)
{
	return file->timelines.items[points->handles[index] - 1];
}

/* ---- CREATE, DESTROY, QUERY ---- */

int qbnpu_soft_ioctl_syncobj_create(struct qbnpu_soft_file *file, void *arg)
{
	struct drm_syncobj_create *create = arg;
	struct qbnpu_soft_timeline *timeline;
	uint32_t handle;
	int err;

	/* CREATE_SIGNALED too: it is about point 0 */
	if (create->flags)
		return -EINVAL;
	timeline = qbnpu_soft_timeline_alloc();
	if (!timeline)
		return -ENOMEM;
	(void)pthread_mutex_lock(&file->lock);
	err = qbnpu_soft_table_add(&file->timelines, QBNPU_SOFT_MAX_SYNCOBJS,
				   timeline, &handle);
	if (!err)
		create->handle = handle;
	else
		qbnpu_soft_timeline_unref(timeline);
	(void)pthread_mutex_unlock(&file->lock);
	return err;
}

int qbnpu_soft_ioctl_syncobj_destroy(struct qbnpu_soft_file *file, void *arg)
{
	const struct drm_syncobj_destroy *destroy = arg;
	struct qbnpu_soft_timeline *timeline;

	if (destroy->pad)
		return -EINVAL;
	(void)pthread_mutex_lock(&file->lock);
	timeline = qbnpu_soft_table_remove(&file->timelines, destroy->handle);
	if (timeline)
		qbnpu_soft_timeline_unref(timeline);
	(void)pthread_mutex_unlock(&file->lock);
	return timeline ? 0 : -EINVAL;
}

int qbnpu_soft_ioctl_syncobj_query(struct qbnpu_soft_file *file, void *arg)
{
	const struct drm_syncobj_timeline_array *query = arg;
	const bool is_last =
		query->flags & DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED;
	struct points points;
	int err;

	if (query->flags & ~DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED ||
	    !query->count_handles ||
	    query->count_handles > QBNPU_SOFT_MAX_POINTS)
		return -EINVAL;
	err = take_points(&points, query->count_handles, query->handles, 0,
			  false);
	if (err)
		return err;
	(void)pthread_mutex_lock(&file->lock);
	err = check_handles(file, &points);
	for (uint32_t i = 0; !err && i < points.num; i++) {
		const struct qbnpu_soft_timeline *timeline;

		timeline = get_checked(file, &points, i);
		points.values[i] =
			is_last ? timeline->submitted : timeline->completed;
	}
	(void)pthread_mutex_unlock(&file->lock);
	if (!err)
		err = qbnpu_soft_copy_to_user(query->points, points.values,
					      points.num *
						      sizeof(*points.values));
	free(points.values);
	return err;
}

/* ---- TIMELINE_SIGNAL ---- */

static void free_points(struct qbnpu_soft_point *list)
{
	while (list) {
		struct qbnpu_soft_point *next = list->next;

		free(list);
		list = next;
	}
}

static struct qbnpu_soft_point *alloc_points(uint32_t num)
{
	struct qbnpu_soft_point *list = NULL;

	while (num--) {
		struct qbnpu_soft_point *point = calloc(1, sizeof(*point));

		if (!point) {
			free_points(list);
			return NULL;
		}
		point->next = list;
		list = point;
	}
	return list;
}

/* File lock. */
static void signal_points(struct qbnpu_soft_file *file,
			  const struct points *points,
			  struct qbnpu_soft_point *list,
			  struct qbnpu_soft_wakes *wakes)
{
	for (uint32_t i = 0; i < points->num; i++) {
		struct qbnpu_soft_point *point = list;

		list = point->next;
		point->next = NULL;
		qbnpu_soft_timeline_add(get_checked(file, points, i),
					points->values[i], point, NULL, 0,
					wakes);
	}
}

int qbnpu_soft_ioctl_syncobj_timeline_signal(struct qbnpu_soft_file *file,
					     void *arg)
{
	const struct drm_syncobj_timeline_array *array = arg;
	struct qbnpu_soft_wakes wakes = { 0 };
	struct qbnpu_soft_point *list;
	struct points points;
	int err;

	if (array->flags || !array->count_handles ||
	    array->count_handles > QBNPU_SOFT_MAX_POINTS)
		return -EINVAL;
	err = take_points(&points, array->count_handles, array->handles,
			  array->points, true);
	if (err)
		return err;
	list = alloc_points(points.num);
	if (!list) {
		free(points.values);
		return -ENOMEM;
	}
	(void)pthread_mutex_lock(&file->lock);
	err = check_handles(file, &points);
	if (!err)
		signal_points(file, &points, list, &wakes);
	(void)pthread_mutex_unlock(&file->lock);
	qbnpu_soft_wakes_flush(&wakes);
	if (err)
		free_points(list);
	free(points.values);
	return err;
}

/* ---- TRANSFER ---- */

/*
 * File lock, dropped while it waits for the source's point to be submitted, up
 * to the core's limit. A signal does not end this wait: it is short, and only
 * waits without effect are given back to be repeated (K009).
 */
static int wait_for_source(struct qbnpu_soft_file *file,
			   const struct drm_syncobj_transfer *transfer,
			   struct qbnpu_soft_timeline *source)
{
	struct qbnpu_soft_place place = {
		.watch = { .point = transfer->src_point, .is_available = true },
		.timeline = source,
	};
	const int64_t limit_ns = qbrt_deadline_ns(SUBMIT_WAIT_NS);
	uint32_t first;
	int err;

	if (transfer->src_point <= source->submitted)
		return 0;
	if (!(transfer->flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT))
		return -EINVAL;
	do {
		err = qbnpu_soft_places_wait(file, &place, 1, true, limit_ns,
					     &first);
	} while (err == -EINTR);
	return err;
}

/* File lock. */
static int transfer_point(struct qbnpu_soft_file *file,
			  const struct drm_syncobj_transfer *transfer,
			  struct qbnpu_soft_point *point,
			  struct qbnpu_soft_wakes *wakes)
{
	struct qbnpu_soft_timeline *target, *source;
	int err;

	target = get_timeline(file, transfer->dst_handle);
	source = get_timeline(file, transfer->src_handle);
	if (!target || !source)
		return -ENOENT;
	target->references++;
	source->references++;
	err = wait_for_source(file, transfer, source);
	if (!err)
		qbnpu_soft_timeline_add(target, transfer->dst_point, point,
					source, transfer->src_point, wakes);
	qbnpu_soft_timeline_unref(source);
	qbnpu_soft_timeline_unref(target);
	return err;
}

int qbnpu_soft_ioctl_syncobj_transfer(struct qbnpu_soft_file *file, void *arg)
{
	const struct drm_syncobj_transfer *transfer = arg;
	struct qbnpu_soft_wakes wakes = { 0 };
	struct qbnpu_soft_point *point;
	int err;

	if (transfer->flags & ~DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT ||
	    transfer->pad)
		return -EINVAL;
	if (!transfer->src_point || !transfer->dst_point)
		return -EOPNOTSUPP;
	point = calloc(1, sizeof(*point));
	if (!point)
		return -ENOMEM;
	(void)pthread_mutex_lock(&file->lock);
	err = transfer_point(file, transfer, point, &wakes);
	(void)pthread_mutex_unlock(&file->lock);
	qbnpu_soft_wakes_flush(&wakes);
	if (err)
		free(point);
	return err;
}

/* ---- TIMELINE_WAIT ---- */

/* File lock. */
static int fill_places(const struct qbnpu_soft_file *file,
		       const struct points *points, uint32_t flags,
		       struct qbnpu_soft_place *places)
{
	const bool is_available = flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE;
	const bool may_come_later =
		is_available || flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT;
	int err = check_handles(file, points);

	for (uint32_t i = 0; !err && i < points->num; i++) {
		struct qbnpu_soft_place *place = &places[i];

		place->timeline = get_checked(file, points, i);
		place->watch.point = points->values[i];
		place->watch.is_available = is_available;
		if (place->timeline->submitted < place->watch.point &&
		    !may_come_later)
			err = -EINVAL;
	}
	return err;
}

int qbnpu_soft_ioctl_syncobj_timeline_wait(struct qbnpu_soft_file *file,
					   void *arg)
{
	struct drm_syncobj_timeline_wait *wait = arg;
	struct qbnpu_soft_place *places;
	struct points points;
	uint32_t first = 0;
	int err;

	if (wait->flags & ~WAIT_FLAGS || wait->pad ||
	    wait->count_handles > QBNPU_SOFT_MAX_POINTS)
		return -EINVAL;
	if (!wait->count_handles)
		return 0;
	err = take_points(&points, wait->count_handles, wait->handles,
			  wait->points, true);
	if (err)
		return err;
	places = calloc(points.num, sizeof(*places));
	if (!places) {
		free(points.values);
		return -ENOMEM;
	}
	(void)pthread_mutex_lock(&file->lock);
	err = fill_places(file, &points, wait->flags, places);
	if (!err)
		err = qbnpu_soft_places_wait(
			file, places, points.num,
			wait->flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL,
			wait->timeout_nsec, &first);
	(void)pthread_mutex_unlock(&file->lock);
	if (!err)
		wait->first_signaled = first;
	free(places);
	free(points.values);
	return err;
}

/* ---- EVENTFD ---- */

static bool is_eventfd(int fd)
{
	static const char expected[] = "anon_inode:[eventfd]";
	char path[32], target[sizeof(expected)];
	ssize_t length;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = readlink(path, target, sizeof(target));
	return length == sizeof(expected) - 1 &&
	       !memcmp(target, expected, sizeof(expected) - 1);
}

/* By whoever brings the point, after its locked section (K310). */
static void tell_eventfd(struct qbnpu_soft_watch *watch, int32_t status,
			 struct qbnpu_soft_moves *moves)
{
	struct qbnpu_soft_eventfd *eventfd;

	(void)status;
	eventfd = qbrt_container_of(watch, struct qbnpu_soft_eventfd, watch);
	eventfd->next = moves->wakes->eventfds;
	moves->wakes->eventfds = eventfd;
}

/*
 * A descriptor of its own, so that the caller may close the given one, or make
 * it another file's, at any time.
 */
static int take_eventfd(int given_fd, struct qbnpu_soft_eventfd **result)
{
	struct qbnpu_soft_eventfd *eventfd = NULL;
	int fd = qbnpu_soft_fd_copy(given_fd);
	int err = -EINVAL;

	if (fd < 0)
		return fd;
	if (is_eventfd(fd)) {
		eventfd = calloc(1, sizeof(*eventfd));
		err = eventfd ? 0 : -ENOMEM;
	}
	if (err) {
		qbnpu_soft_fd_close(fd);
		return err;
	}
	eventfd->fd = fd;
	*result = eventfd;
	return 0;
}

/* A reference to it, or NULL. */
static struct qbnpu_soft_timeline *take_timeline(struct qbnpu_soft_file *file,
						 uint32_t handle)
{
	struct qbnpu_soft_timeline *timeline;

	(void)pthread_mutex_lock(&file->lock);
	timeline = get_timeline(file, handle);
	if (timeline)
		timeline->references++;
	(void)pthread_mutex_unlock(&file->lock);
	return timeline;
}

int qbnpu_soft_ioctl_syncobj_eventfd(struct qbnpu_soft_file *file, void *arg)
{
	const struct drm_syncobj_eventfd *given = arg;
	struct qbnpu_soft_wakes wakes = { 0 };
	struct qbnpu_soft_moves moves = { .wakes = &wakes };
	struct qbnpu_soft_timeline *timeline;
	struct qbnpu_soft_eventfd *eventfd;
	int err;

	if (given->flags & ~DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE || given->pad)
		return -EINVAL;
	if (!given->point)
		return -EOPNOTSUPP;
	/* looked up first, as the core does it */
	timeline = take_timeline(file, given->handle);
	if (!timeline)
		return -ENOENT;
	err = take_eventfd(given->fd, &eventfd);
	(void)pthread_mutex_lock(&file->lock);
	if (!err) {
		eventfd->watch.point = given->point;
		eventfd->watch.is_available = given->flags != 0;
		eventfd->watch.come = tell_eventfd;
		qbnpu_soft_watch_start(&eventfd->watch, timeline);
		if (!eventfd->watch.timeline)
			tell_eventfd(&eventfd->watch, 0, &moves);
	}
	qbnpu_soft_timeline_unref(timeline);
	(void)pthread_mutex_unlock(&file->lock);
	qbnpu_soft_wakes_flush(&wakes);
	return err;
}
