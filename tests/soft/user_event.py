# SPDX-License-Identifier: BSD-2-Clause
"""
Usage: user_event.py

Writes events of its own to an id of rdma_cm and reads them back, with the
commands of <rdma/rdma_user_cm.h> that librdmacm writes in rdma_write_cm_event()
and rdma_resolve_addrinfo(). Older versions of librdmacm have neither call, so
the commands are written here.
"""
import ctypes
import errno
import os
import struct
import sys

CREATE_ID, DESTROY_ID, GET_EVENT, WRITE_CM_EVENT = 0, 1, 12, 24
ESTABLISHED, USER, INTERNAL = 9, 18, 19
PS_TCP = 0x106
UID = 0x1122334455667788

# the call that the preloaded device has in place of librdmacm's
librdmacm = ctypes.CDLL(None)
librdmacm.rdma_create_event_channel.restype = ctypes.POINTER(ctypes.c_int)
channel = librdmacm.rdma_create_event_channel()


def command(number, body, answer=None):
    """Writes a command. Its answer goes to the buffer."""
    room = len(answer) if answer else 0
    os.write(channel[0], struct.pack("=IHH", number, len(body), room) + body)


def write_event(handle, event, status, arg):
    """Writes an event with a union as long as the one of the kernel."""
    command(WRITE_CM_EVENT, struct.pack("=IIIiQ", handle, 0, event, status, arg)
            + bytes(300))


def get_event():
    """Returns uid, id, event, status and argument of the next event."""
    answer = ctypes.create_string_buffer(400)
    command(GET_EVENT, struct.pack("=Q", ctypes.addressof(answer)), answer)
    return struct.unpack_from("=QIIiQ", answer)


def refused(handle, event):
    """Returns the errno of an event that cannot be written."""
    try:
        write_event(handle, event, 0, 0)
    except OSError as error:
        return error.errno
    return 0


def main():
    """Returns the exit status."""
    answer = ctypes.create_string_buffer(4)
    command(CREATE_ID, struct.pack("=QQHBBI", UID, ctypes.addressof(answer),
                                   PS_TCP, 2, 0, 0), answer)
    handle = struct.unpack("=I", answer)[0]
    write_event(handle, USER, -5, 1 << 63 | 7)
    write_event(handle, INTERNAL, 0, 16)
    assert get_event() == (UID, handle, USER, -5, 1 << 63 | 7)
    assert get_event() == (UID, handle, INTERNAL, 0, 16)
    assert refused(handle, ESTABLISHED) == errno.EINVAL
    assert refused(handle ^ 0x100, USER) != 0
    # an event that nobody has read ends with its id
    write_event(handle, USER, 0, 0)
    answer = ctypes.create_string_buffer(4)
    command(DESTROY_ID, struct.pack("=QII", ctypes.addressof(answer), handle,
                                    0), answer)
    assert struct.unpack("=I", answer)[0] == 2
    librdmacm.rdma_destroy_event_channel(channel)
    print("written")
    return 0


sys.exit(main())
