//! Runs the real program, with the real xorriso and GRUB, on a kernel that only
//! looks like one.

#![allow(clippy::unwrap_used, reason = "a test that unwraps nothing has failed")]

mod authorities;
mod bill_of_materials;
mod coreos_installer;
mod customize;
mod documentation;
mod fixture;
mod host_options;
mod hosts;
mod http_get;
mod inputs;
mod inspection;
mod kargs;
mod kargs_without_root;
mod products;
mod release;
mod serve;
mod service;
mod status_page;
mod stopped;
mod uki;
