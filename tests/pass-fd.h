/* SPDX-License-Identifier: MIT */
/*
 * Messages between processes of a test, over a SOCK_SEQPACKET socket: a number
 * and, where there is one, a descriptor.
 */
#ifndef TESTS_PASS_FD_H
#define TESTS_PASS_FD_H

#include <stdbool.h>
#include <stdint.h>

/* fd: stays the caller's; -1: none goes. false: nobody is at the other end. */
bool pass_fd_send(int socket, uint32_t number, int fd);

/* Waits. fd: the caller's from here on; -1: none came. false as above. */
bool pass_fd_receive(int socket, uint32_t *number, int *fd);

#endif
