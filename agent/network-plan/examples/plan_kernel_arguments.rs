//! Prints the plan that the kernel arguments on the command line describe:
//! `cargo run --example plan_kernel_arguments -- ip=eth0:dhcp nameserver=192.0.2.53`

use landfall_boot_params::{CommandLine, NetArgs};
use landfall_network_plan::NetworkPlan;

fn main() -> serde_json::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let args = NetArgs::from_command_line(&CommandLine::parse(&words.join(" ")));
    let plan = NetworkPlan::from_boot_args(&args);
    println!("{}", serde_json::to_string_pretty(&plan)?);
    Ok(())
}
