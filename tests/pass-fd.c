// SPDX-License-Identifier: MIT
/* A number and a descriptor in one message. */
#include "pass-fd.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(int))];
};

bool pass_fd_send(int socket, uint32_t number, int fd)
{
	struct iovec data = { .iov_base = &number, .iov_len = sizeof(number) };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	union control control = { .bytes = { 0 } };

	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	}
	return sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof(number);
}

bool pass_fd_receive(int socket, uint32_t *number, int *fd)
{
	struct iovec data = { .iov_base = number, .iov_len = sizeof(*number) };
	union control control = { .bytes = { 0 } };
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	*fd = -1;
	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof(*number))
		return false;
	if (message.msg_controllen)
		memcpy(fd, CMSG_DATA(&control.head), sizeof(*fd));
	return true;
}
