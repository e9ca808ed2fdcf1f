#! /bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The library has no descriptor below 3, see lib/base/fd.h. So each call that
# makes one goes through fd_high(). Excepted are read-only streams, which are
# closed before the function returns, and what stands in for the program's own
# open(2).

srcdir=${srcdir:-.}
cd "$srcdir" || exit

makes='accept4?|creat|dup[23]?|epoll_create1?|eventfd|inotify_init1?'
makes="$makes|memfd_create|open|openat|pidfd_open|pipe2?|signalfd|socket"
makes="$makes|socketpair|timerfd_create|userfaultfd"
files=$(find lib cm -name '*.[ch]' ! -path 'lib/soft/tools/*' \
	! -path lib/soft/preload/path.c ! -path lib/soft/preload/sysfs.c \
	! -path lib/base/fd.h)

# shellcheck disable=SC2086 # words
grep -nE "(^|[^_A-Za-z0-9.>])($makes)\(" /dev/null $files |
	grep -vE ':[ 	/]*\*|/\*.*(open|accept|socket)\(|fd_high\(|->[a-z_]*\(' && {
	echo 'these descriptors may be below 3: use fd_high()'
	exit 1
}
# shellcheck disable=SC2086 # words
grep -n 'F_DUPFD' /dev/null $files && {
	echo 'these descriptors may be below 3: use fd_copy()'
	exit 1
}
# those of libc, which have a socket for a moment
# shellcheck disable=SC2086 # words
grep -nE '(^|[^_A-Za-z0-9])(getifaddrs|if_(nametoindex|indextoname|nameindex))\(' \
	/dev/null $files | grep -v '^lib/base/netif.h:' && {
	echo 'these descriptors may be below 3: use netif_...()'
	exit 1
}
# those of rdma-core
grep -nE '(^|[^_])MAKE\(.*(get_device_list|open_device|create_(comp|event)_channel)' \
	lib/device/verbs_call.c && {
	echo 'these descriptors may be below 3: use MAKE_FD()'
	exit 1
}
exit 0
