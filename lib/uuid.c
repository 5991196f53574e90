// SPDX-License-Identifier: MIT
/* SHA-1 (RFC 3174) of a message that fits a buffer, and the UUID made of it. */
#include "uuid.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "util.h"

#define BLOCK_SIZE 64u
/* namespace, name, a byte of 0x80, and the length in bits */
#define MAX_MESSAGE (16u + QBRT_UUID_MAX_URL + 9u + BLOCK_SIZE)

static uint32_t rotate(uint32_t value, unsigned int by)
{
	return value << by | value >> (32 - by);
}

static void expand(const uint8_t *block, uint32_t words[80])
{
	size_t i;

	for (i = 0; i < 16; i++)
		words[i] = (uint32_t)block[4 * i] << 24 |
			   (uint32_t)block[4 * i + 1] << 16 |
			   (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (; i < 80; i++)
		words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^
					  words[i - 16],
				  1);
}

static void hash_block(uint32_t hash[5], const uint8_t *block)
{
	static const uint32_t constants[] = { 0x5a827999, 0x6ed9eba1,
					      0x8f1bbcdc, 0xca62c1d6 };
	uint32_t a = hash[0], b = hash[1], c = hash[2], d = hash[3];
	uint32_t e = hash[4];
	uint32_t words[80];
	size_t i;

	expand(block, words);
	for (i = 0; i < 80; i++) {
		uint32_t mixed = b ^ c ^ d;
		uint32_t next;

		if (i < 20)
			mixed = (b & c) | (~b & d);
		else if (i >= 40 && i < 60)
			mixed = (b & c) | (b & d) | (c & d);
		next = rotate(a, 5) + mixed + e + words[i] + constants[i / 20];
		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = next;
	}
	hash[0] += a;
	hash[1] += b;
	hash[2] += c;
	hash[3] += d;
	hash[4] += e;
}

void qbrt_uuid_of_url(const char *url, char text[QBRT_UUID_TEXT_SIZE])
{
	static const uint8_t namespace_url[16] = { 0x6b, 0xa7, 0xb8, 0x11,
						   0x9d, 0xad, 0x11, 0xd1,
						   0x80, 0xb4, 0x00, 0xc0,
						   0x4f, 0xd4, 0x30, 0xc8 };
	uint32_t hash[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
			     0xc3d2e1f0 };
	uint8_t message[MAX_MESSAGE] = { 0 };
	size_t length = sizeof(namespace_url);
	size_t size, i;

	assert(strlen(url) <= QBRT_UUID_MAX_URL);
	memcpy(message, namespace_url, sizeof(namespace_url));
	for (; *url; url++)
		message[length++] = (uint8_t)*url;
	size = qbrt_round_up(length + 9, BLOCK_SIZE);
	message[length] = 0x80;
	message[size - 2] = (uint8_t)(length * 8 >> 8);
	message[size - 1] = (uint8_t)(length * 8);
	for (i = 0; i < size; i += BLOCK_SIZE)
		hash_block(hash, message + i);
	/* version 5, and the variant of the RFC */
	hash[1] = (hash[1] & 0xffff0fff) | 0x5000;
	hash[2] = (hash[2] & 0x3fffffff) | 0x80000000;
	(void)snprintf(text, QBRT_UUID_TEXT_SIZE,
		       "%08x-%04x-%04x-%04x-%04x%08x", hash[0], hash[1] >> 16,
		       hash[1] & 0xffff, hash[2] >> 16, hash[2] & 0xffff,
		       hash[3]);
}
