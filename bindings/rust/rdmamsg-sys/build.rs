// SPDX-License-Identifier: BSD-2-Clause
//! Finds librdmamsg: in LIBRDMAMSG_DIR, or by pkg-config.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=LIBRDMAMSG_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    match env::var("LIBRDMAMSG_DIR") {
        Ok(dir) => println!("cargo:rustc-link-search=native={dir}"),
        Err(_) => by_pkg_config(),
    }
    println!("cargo:rustc-link-lib=dylib=rdmamsg");
}

/// A library in the linker's own directories needs no path.
fn by_pkg_config() {
    let out =
        Command::new("pkg-config").args(["--libs-only-L", "rdmamsg"]).output();
    let text = match &out {
        Ok(out) => String::from_utf8_lossy(&out.stdout),
        Err(_) => return,
    };
    for word in text.split_whitespace() {
        if let Some(dir) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={dir}");
        }
    }
}
