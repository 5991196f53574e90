/* SPDX-License-Identifier: MIT */
/*
 * Names to UUIDs of version 5 (RFC 9562, 5.5), pure over bytes. SHA-1 is not
 * used for anything that must be hard to forge.
 */
#ifndef QBRT_UUID_H
#define QBRT_UUID_H

#define QBRT_UUID_TEXT_SIZE 37
#define QBRT_UUID_MAX_URL 160

/* In the namespace of URLs; url: at most QBRT_UUID_MAX_URL bytes. */
void qbrt_uuid_of_url(const char *url, char text[QBRT_UUID_TEXT_SIZE]);

#endif
