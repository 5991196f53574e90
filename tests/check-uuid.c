// SPDX-License-Identifier: MIT
/* Version 5 UUIDs against those of RFC 9562's kind that others computed. */
#include "test-util.h"

#include <string.h>

#include "util.h"
#include "uuid.h"

/* From Python's uuid.uuid5(); lengths on both sides of a block's end. */
static const struct {
	const char *url;
	const char *uuid;
} known[] = {
	{ "", "1b4db7eb-4057-5ddf-91e0-36dec72071f5" },
	{ "http://www.python.org/", "c2a8cbf8-d0f1-5ef4-9740-c3faec8ab1a0" },
	{ "qbnpu:aries-rb:A1B2C3", "5ec32e11-cf21-5e69-a3d9-3ae035e30ce9" },
	{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	  "615eac0e-03db-567b-8580-916c1aca1cc2" },
	{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	  "c5c985c8-6875-5a42-b6e3-2872703afed4" },
	{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	  "60100e11-180f-59cb-911f-bdb3aa734c9d" },
	{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	  "aa33c522-9edc-58a5-b5af-e2a12995886e" },
	{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	  "d95b9427-a1cc-5a01-876a-6367661db75c" },
	{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	  "03762118-5c69-5fbd-8fe6-063863f5ae19" },
};

START_TEST(a_name_has_the_uuid_that_others_compute)
{
	char text[QBRT_UUID_TEXT_SIZE];

	memset(text, 0x5a, sizeof(text));
	qbrt_uuid_of_url(known[_i].url, text);
	ck_assert_str_eq(text, known[_i].uuid);
}
END_TEST

START_TEST(the_longest_name_fits)
{
	char url[QBRT_UUID_MAX_URL + 1] = { 0 };
	char text[QBRT_UUID_TEXT_SIZE];

	memset(url, 'a', QBRT_UUID_MAX_URL);
	qbrt_uuid_of_url(url, text);
	ck_assert_str_eq(text, "da3099f7-beac-5e3d-8bb6-13cc363ecb65");
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(a_name_has_the_uuid_that_others_compute,
			       qbrt_array_size(known)),
		QBRT_TEST(the_longest_name_fits),
	};

	return qbrt_test_run("uuid", tests, qbrt_array_size(tests));
}
