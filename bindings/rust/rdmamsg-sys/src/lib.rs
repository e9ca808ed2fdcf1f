// SPDX-License-Identifier: BSD-2-Clause
//! The C interface of librdmamsg, as it is. The manual pages of the library
//! describe it; the crate `rdmamsg` is the safe interface.
//!
//! `generate.sh` makes the modules from the headers, and `generate.sh -c`
//! compares. The verbs objects of `<rdmamsg/verbs.h>` and the inlined functions
//! of `<rdmamsg/fast.h>` are not declared.
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

mod constants;
mod device;
mod functions;
mod groups;
mod types;

pub use constants::*;
pub use device::*;
pub use functions::*;
pub use groups::*;
pub use types::*;

pub use libc::{iovec, sockaddr_storage};

// bindgen does not know that libc::sockaddr_storage can be copied.
impl Clone for rdmamsg_ep_attr {
    fn clone(&self) -> Self {
        *self
    }
}
impl Copy for rdmamsg_ep_attr {}
