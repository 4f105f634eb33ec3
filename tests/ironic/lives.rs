//! The scenarios. Every firmware, boot method, deploy method and source of
//! addresses occurs in at least one of them.

use landfall_tests::ironic::configuration::Configuration;
use landfall_tests::ironic::plan::{Addresses, Boot, Deploy, Plan, Story};
use landfall_tests::vm::Firmware;

use crate::life;

#[test]
fn virtual_media_uefi() {
    life("virtual_media_uefi", &Plan::default());
}

#[test]
fn ipxe_bios() {
    let plan = Plan {
        firmware: Firmware::Bios,
        boot: Boot::Ipxe,
        ..Plan::default()
    };
    life("ipxe_bios", &plan);
}

#[test]
#[ignore = "no gate: make test-ironic"]
fn virtual_media_bios_direct_raw() {
    let plan = Plan {
        firmware: Firmware::Bios,
        deploy: Deploy::WriteRaw,
        ..Plan::default()
    };
    life("virtual_media_bios_direct_raw", &plan);
}

#[test]
#[ignore = "no gate: make test-ironic"]
fn virtual_media_uefi_direct_raw() {
    let plan = Plan {
        deploy: Deploy::WriteRaw,
        ..Plan::default()
    };
    life("virtual_media_uefi_direct_raw", &plan);
}

#[test]
#[ignore = "no gate: make test-ironic"]
fn ipxe_bios_direct_qcow2() {
    let plan = Plan {
        firmware: Firmware::Bios,
        boot: Boot::Ipxe,
        deploy: Deploy::WriteQcow2,
        partition_image: true,
        ..Plan::default()
    };
    life("ipxe_bios_direct_qcow2", &plan);
}

/// As OpenShift's installer does it: Ironic can add nothing to the ISO, not even a
/// token.
#[test]
#[ignore = "no gate: make test-ironic"]
fn own_iso_uefi_static() {
    let plan = Plan {
        boot: Boot::OwnIso,
        addresses: Addresses::KernelArguments,
        ..Plan::default()
    };
    life("own_iso_uefi_static", &plan);
}

/// A network without DHCP.
#[test]
#[ignore = "no gate: make test-ironic"]
fn network_data_uefi() {
    let plan = Plan {
        addresses: Addresses::NetworkData,
        ..Plan::default()
    };
    life("network_data_uefi", &plan);
}

/// One agent runs through inspection, cleaning and deployment.
#[test]
#[ignore = "no gate: make test-ironic"]
fn fast_track() {
    let plan = Plan {
        configuration: Configuration {
            fast_track: true,
            ..Configuration::default()
        },
        ..Plan::default()
    };
    life("fast_track", &plan);
}

/// Nothing tells the agent where Ironic is: Ironic announces itself by multicast
/// DNS.
#[test]
#[ignore = "no gate: make test-ironic"]
fn mdns() {
    let plan = Plan {
        boot: Boot::OwnIso,
        firmware: Firmware::Bios,
        configuration: Configuration {
            mdns: true,
            ..Configuration::default()
        },
        ..Plan::default()
    };
    life("mdns", &plan);
}

/// API and image server use TLS with certificates of a private authority. The agent
/// gets the authority on the ISO that Ironic builds. The API requires a user.
#[test]
#[ignore = "no gate: make test-ironic"]
fn private_authority() {
    let plan = Plan {
        story: Story::OneDeployment,
        configuration: Configuration {
            tls: true,
            ..Configuration::default()
        },
        ..Plan::default()
    };
    life("private_authority", &plan);
}

/// Includes a rescue. Not with virtual media: there Ironic switches the node off
/// after the agent has handed it over (`RedfishVirtualMediaBoot.clean_up_ramdisk`).
#[test]
#[ignore = "no gate: make test-ironic"]
fn http_ipxe_uefi() {
    let plan = Plan {
        boot: Boot::HttpIpxe,
        story: Story::OneDeployment,
        rescue: true,
        ..Plan::default()
    };
    life("http_ipxe_uefi", &plan);
}

/// The firmware's PXE client, shim and GRUB.
#[test]
#[ignore = "no gate: make test-ironic"]
fn pxe_uefi() {
    let plan = Plan {
        boot: Boot::Pxe,
        story: Story::OneDeployment,
        ..Plan::default()
    };
    life("pxe_uefi", &plan);
}

/// Adopt, undeploy, abort a cleaning, clean with a runbook, deploy, service.
#[test]
#[ignore = "no gate: make test-ironic"]
fn operations() {
    let plan = Plan {
        firmware: Firmware::Bios,
        boot: Boot::Ipxe,
        story: Story::Operations,
        ..Plan::default()
    };
    life("operations", &plan);
}

/// The conductor is killed during the inspection, then terminated and killed during
/// a write. Finally the node is undeployed during a write.
#[test]
#[ignore = "no gate: make test-ironic"]
fn conductor_restarts() {
    let plan = Plan {
        firmware: Firmware::Bios,
        boot: Boot::Ipxe,
        story: Story::Restarts,
        ..Plan::default()
    };
    life("conductor_restarts", &plan);
}
