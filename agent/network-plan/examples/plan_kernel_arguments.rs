//! Prints the plan that the kernel arguments on the command line describe:
//! `cargo run --example plan_kernel_arguments -- ip=eth0:dhcp nameserver=192.0.2.53`
//!
//! With `--lines`, each line of standard input is a command line, and each line of the
//! output is a plan.

#![allow(clippy::print_stdout)]

use std::io;

use landfall_boot_params::NetArgs;
use landfall_network_plan::NetworkPlan;

fn plan(text: &str) -> NetworkPlan {
    let args = NetArgs::parse(text);
    NetworkPlan::from_boot_args(&args)
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == ["--lines"] {
        for line in io::stdin().lines() {
            println!("{}", serde_json::to_string(&plan(&line?))?);
        }
    } else {
        println!("{}", serde_json::to_string_pretty(&plan(&words.join(" ")))?);
    }
    Ok(())
}
