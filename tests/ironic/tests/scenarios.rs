//! Defines the scenarios. Every firmware, boot method, deploy method and source
//! of addresses occurs in at least one of them.

use landfall_ironic_tests::configuration::{BootFiles, Configuration};
use landfall_ironic_tests::plan::{Addresses, Boot, Deploy, Plan, Story};
use landfall_ironic_tests::replacement::OTHERS;
use landfall_ironic_tests::{KERNEL, RAMDISK};
use landfall_tests::vm::Firmware;

use crate::run_scenario;

macro_rules! scenarios {
    ($($(#[$attribute:meta])* $name:ident: $plan:expr;)*) => {
        $($(#[$attribute])* #[test]
        fn $name() {
            run_scenario(stringify!($name), &$plan);
        })*
    };
}

scenarios! {
    virtual_media_uefi: Plan::default();
    ipxe_bios: Plan {
        firmware: Firmware::Bios,
        boot: Boot::Ipxe,
        ..Plan::default()
    };
    /// The node has no kernel and no ramdisk of its own.
    #[ignore = "no gate: make test-ironic"]
    virtual_media_bios_direct_raw: Plan {
        firmware: Firmware::Bios,
        deploy: Deploy::WriteRaw,
        configuration: Configuration {
            boot_files: BootFiles::OfConductor([KERNEL, RAMDISK]),
            ..Configuration::default()
        },
        ..Plan::default()
    };
    #[ignore = "no gate: make test-ironic"]
    virtual_media_uefi_direct_raw: Plan {
        deploy: Deploy::WriteRaw,
        ..Plan::default()
    };
    #[ignore = "no gate: make test-ironic"]
    ipxe_bios_direct_qcow2: Plan {
        firmware: Firmware::Bios,
        boot: Boot::Ipxe,
        deploy: Deploy::WriteQcow2,
        partition_image: true,
        ..Plan::default()
    };
    /// As OpenShift's installer does it: Ironic can add nothing to the ISO, not even a
    /// token.
    #[ignore = "no gate: make test-ironic"]
    own_iso_uefi_static: Plan {
        boot: Boot::OwnIso,
        addresses: Addresses::KernelArguments,
        ..Plan::default()
    };
    /// A network without DHCP.
    #[ignore = "no gate: make test-ironic"]
    network_data_uefi: Plan {
        addresses: Addresses::NetworkData,
        ..Plan::default()
    };
    /// One agent runs through inspection, cleaning and deployment.
    #[ignore = "no gate: make test-ironic"]
    fast_track: Plan {
        configuration: Configuration {
            fast_track: true,
            ..Configuration::default()
        },
        ..Plan::default()
    };
    /// Nothing tells the agent where Ironic is: Ironic announces itself by multicast
    /// DNS.
    #[ignore = "no gate: make test-ironic"]
    mdns: Plan {
        boot: Boot::OwnIso,
        firmware: Firmware::Bios,
        configuration: Configuration {
            mdns: true,
            ..Configuration::default()
        },
        ..Plan::default()
    };
    /// API and image server use TLS with certificates of a private authority. The agent
    /// gets the authority on the ISO that Ironic builds. The API requires a user.
    #[ignore = "no gate: make test-ironic"]
    private_authority: Plan {
        story: Story::OneDeployment,
        configuration: Configuration {
            tls: true,
            ..Configuration::default()
        },
        ..Plan::default()
    };
    /// The same authority as a second initrd, as metal3's iPXE menu loads it.
    #[ignore = "no gate: make test-ironic"]
    private_authority_by_ipxe: Plan {
        boot: Boot::HttpIpxe,
        story: Story::OneDeployment,
        configuration: Configuration {
            tls: true,
            ca_bundle: true,
            ..Configuration::default()
        },
        ..Plan::default()
    };
    /// Includes a rescue. Virtual media are not possible here, because with them Ironic
    /// switches the node off after the agent has handed it over
    /// (`RedfishVirtualMediaBoot.clean_up_ramdisk`).
    #[ignore = "no gate: make test-ironic"]
    http_ipxe_uefi: Plan {
        boot: Boot::HttpIpxe,
        story: Story::OneDeployment,
        rescue: true,
        ..Plan::default()
    };
    /// The firmware's PXE client, shim and GRUB.
    #[ignore = "no gate: make test-ironic"]
    pxe_uefi: Plan {
        boot: Boot::Pxe,
        story: Story::OneDeployment,
        ..Plan::default()
    };
    /// Everything together: a Secret in Kubernetes, the ISO that the controller makes of
    /// it, virtual media, Ironic, and the installed host with that network.
    #[ignore = "the API server has to be built: make test-controller"]
    controller: Plan {
        boot: Boot::ControllerIso,
        addresses: Addresses::Secret,
        story: Story::OneDeployment,
        ..Plan::default()
    };
    /// Kernel and ramdisk are artefacts of the release in a container registry, which also
    /// has the image. The registry asks for tokens and redirects.
    #[ignore = "the release has to be built: make test-release"]
    registry: Plan {
        story: Story::OneDeployment,
        deploy: Deploy::WriteRaw,
        configuration: Configuration {
            registry: true,
            tls: true,
            ..Configuration::default()
        },
        ..Plan::default()
    };
    /// Adopt, undeploy, abort a cleaning, clean with a runbook, deploy, service.
    #[ignore = "no gate: make test-ironic"]
    operations: Plan {
        firmware: Firmware::Bios,
        boot: Boot::Ipxe,
        story: Story::Operations,
        ..Plan::default()
    };
    /// Ironic refuses an inventory that is too large, then every agent. The arguments, and
    /// where Ironic finds kernel, ramdisk and boot loaders, are those of metal3.
    #[ignore = "no gate: make test-ironic"]
    refusals: Plan {
        story: Story::Refusals,
        configuration: Configuration {
            boot_files: BootFiles::ByArchitecture,
            inspection_kib: Some(16),
            more_arguments: "fips=1",
            ..Configuration::default()
        },
        ..Plan::default()
    };
    /// The conductor is killed during the inspection, then terminated and killed during
    /// a write. Finally the node is undeployed during a write.
    #[ignore = "no gate: make test-ironic"]
    conductor_restarts: Plan {
        firmware: Firmware::Bios,
        boot: Boot::Ipxe,
        story: Story::Restarts,
        ..Plan::default()
    };
    /// Landfall replaces another ramdisk, and then the other one replaces Landfall, as
    /// docs/platforms/ironic.md says: for one node, then for all.
    #[ignore = "no gate: make test-ironic"]
    replacement: Plan {
        firmware: Firmware::Bios,
        boot: Boot::Ipxe,
        story: Story::Replacement,
        configuration: Configuration {
            boot_files: BootFiles::OfConductor(OTHERS),
            ..Configuration::default()
        },
        ..Plan::default()
    };
}
