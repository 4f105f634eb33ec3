//! Prints the keyfiles for the NMState on standard input, or its faults.

#![allow(clippy::print_stdout)]

use std::io::Read as _;

use landfall_network_plan::NetworkPlan;

fn main() -> std::io::Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    match NetworkPlan::from_nmstate(&text) {
        Ok(plan) => {
            for file in plan.keyfiles() {
                println!("--- {}\n{}", file.name, file.text);
            }
        }
        Err(error) => println!("{error}"),
    }
    Ok(())
}
