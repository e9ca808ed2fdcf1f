// SPDX-License-Identifier: BSD-2-Clause
//! Messages: of one owner in the context's thread, or shared by any.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::slice;
use std::sync::Arc;

use rdmamsg_sys as sys;

use crate::core::{outlive, Core};
use crate::error::{check, Result, Unsent};

/// A message that was received or allocated: its bytes, without a copy.
///
/// The message gives its memory back when it is dropped, also after the end of
/// its context. It belongs to the context's thread; [`Message::share`] makes
/// one for any thread.
///
/// ```compile_fail
/// fn any_thread<T: Send>() {}
/// any_thread::<rdmamsg::Message>();
/// ```
pub struct Message {
    msg: NonNull<sys::rdmamsg_msg>,
    place: usize,
    core: Rc<Core>,
    memory: Option<Vec<u8>>,
}

impl Message {
    /// Takes a message of the library, which is freed if this fails.
    ///
    /// # Safety
    /// The message is the program's.
    pub(crate) unsafe fn new(
        msg: *mut sys::rdmamsg_msg,
        core: &Rc<Core>,
    ) -> Result<Message> {
        // SAFETY: the library gives no NULL.
        let msg = unsafe { NonNull::new_unchecked(msg) };
        match core.add_message(msg) {
            Ok(place) => {
                Ok(Message { msg, place, core: core.clone(), memory: None })
            }
            Err(e) => {
                // SAFETY: the message is the program's.
                unsafe { sys::rdmamsg_msg_free(msg.as_ptr()) };
                Err(e)
            }
        }
    }

    /// Memory of the program that the message is in.
    pub(crate) fn with_memory(mut self, memory: Option<Vec<u8>>) -> Message {
        self.memory = memory;
        self
    }

    /// The tag that the sender has given.
    pub fn tag(&self) -> u32 {
        // SAFETY: the message is valid as long as this object.
        unsafe { sys::rdmamsg_msg_tag(self.msg.as_ptr()) }
    }

    /// Makes the message shorter, or up to as long as it was allocated.
    pub fn set_len(&mut self, len: usize) -> Result<()> {
        self.core.live()?;
        // SAFETY: the message is valid, and the context open.
        check(unsafe { sys::rdmamsg_msg_set_len(self.msg.as_ptr(), len) })
    }

    /// Makes a message for any thread, of any number of owners.
    pub fn share(self) -> std::result::Result<SharedMessage, Unsent<Message>> {
        if self.core.is_open() {
            if let Err(error) = outlive(self.msg) {
                return Err(Unsent { error, value: self });
            }
        }
        let (msg, memory) = self.into_parts();
        Ok(SharedMessage(Arc::new(Shared { msg, _memory: memory })))
    }

    /// The message, which nothing frees, and memory that it needs.
    pub(crate) fn into_parts(
        self,
    ) -> (NonNull<sys::rdmamsg_msg>, Option<Vec<u8>>) {
        let mut this = ManuallyDrop::new(self);
        this.core.remove_message(this.place);
        let memory = this.memory.take();
        // SAFETY: the object ends without drop(), so nothing uses the fields.
        unsafe { ptr::drop_in_place(&mut this.core) };
        (this.msg, memory)
    }

    pub(crate) fn raw(&self) -> *mut sys::rdmamsg_msg {
        self.msg.as_ptr()
    }

    pub(crate) fn take_memory(&mut self) -> Option<Vec<u8>> {
        self.memory.take()
    }

    /// True if the message is in memory of the program.
    pub(crate) fn has_memory(&self) -> bool {
        self.memory.is_some()
    }
}

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the message is valid as long as this object, its owner.
        unsafe { bytes(self.msg) }
    }
}

impl DerefMut for Message {
    fn deref_mut(&mut self) -> &mut [u8] {
        let bytes: &[u8] = self;
        let (data, len) = (bytes.as_ptr() as *mut u8, bytes.len());
        // SAFETY: the message has no other owner, and is not being sent.
        unsafe { slice::from_raw_parts_mut(data, len) }
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({} bytes, tag {})", self.len(), self.tag())
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.core.remove_message(self.place);
        // SAFETY: this is the owner; after its context the message is shared.
        unsafe { sys::rdmamsg_msg_free(self.msg.as_ptr()) };
    }
}

/// # Safety
/// The message is valid, and nothing writes to it.
unsafe fn bytes<'a>(msg: NonNull<sys::rdmamsg_msg>) -> &'a [u8] {
    // SAFETY: the message is valid.
    let (len, data) = unsafe {
        let data = sys::rdmamsg_msg_data(msg.as_ptr());
        (sys::rdmamsg_msg_len(msg.as_ptr()), data as *const u8)
    };
    if len == 0 || data.is_null() {
        return &[];
    }
    // SAFETY: the data has this length, and nothing writes to it.
    unsafe { slice::from_raw_parts(data, len) }
}

struct Shared {
    msg: NonNull<sys::rdmamsg_msg>,
    _memory: Option<Vec<u8>>,
}

// SAFETY: rdmamsg_msg_ref(3): any thread frees and reads such a message, also
// after the end of its context, and nothing writes to it.
unsafe impl Send for Shared {}
// SAFETY: the same.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: this is the last owner.
        unsafe { sys::rdmamsg_msg_free(self.msg.as_ptr()) };
    }
}

/// A reference to a message of several owners, for any thread, also after the
/// end of the context.
///
/// ```
/// fn any_thread<T: Send + Sync>() {}
/// any_thread::<rdmamsg::SharedMessage>();
/// ```
#[derive(Clone)]
pub struct SharedMessage(Arc<Shared>);

impl SharedMessage {
    /// The tag that the sender has given.
    pub fn tag(&self) -> u32 {
        // SAFETY: the message is valid as long as its owners.
        unsafe { sys::rdmamsg_msg_tag(self.0.msg.as_ptr()) }
    }

    pub(crate) fn raw(&self) -> *mut sys::rdmamsg_msg {
        self.0.msg.as_ptr()
    }
}

impl Deref for SharedMessage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the message is valid as long as its owners, who only read.
        unsafe { bytes(self.0.msg) }
    }
}

impl fmt::Debug for SharedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedMessage({} bytes, tag {})", self.len(), self.tag())
    }
}
