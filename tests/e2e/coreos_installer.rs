//! Compares the disks that coreos-installer and `landfall-agent install` write with
//! the same options. They must be equal except for the intended differences.

use landfall_tests::artifacts::Packing;
use landfall_tests::data_partition::DataPartition;
use landfall_tests::installers::{Case, Comparison};

use crate::host_test;

const ENTRY: &str = "loader.1/entries/ostree-1-rhcos.conf";
const GRUB: &str = "grub2/grub.cfg";
const FIRST_BOOT: &str = "ignition.firstboot";
const IGNITION: [&str; 2] = ["ignition", "ignition/config.ign"];

/// Bytes that no JSON serialiser writes, so that the test detects a config that
/// was parsed and rewritten.
const CONFIG: &[u8] = b"{ \"ignition\" : {\"version\":\"3.2.0\"} ,\n\t\"x\":\"\\u0041\"}\n\n";
const KEYFILE: &[u8] = b"[connection]\nid=eth0\ntype=ethernet\n\n[ipv4]\nmethod=auto\n";
/// A config file in coreos-installer's format.
const CONFIG_FILE: &[u8] =
    b"append-karg: [a, b]\ndelete-karg:\n  - no_timer_check\nignition-file: /files/config.ign\n";

/// Cases with the options of coreos-installer that change the boot partition. In some
/// cases the options change no file.
const BOOT_PARTITION: &[Case] = &[
    Case::PLAIN,
    Case {
        name: "arguments",
        options: &[
            "--ignition-file=/files/config.ign",
            "--firstboot-args=rd.neednet=1 ip=192.0.2.10::192.0.2.1:24:h:eth0:none",
            "--append-karg=nosmt",
            "--append-karg=foo=bar baz",
            "--append-karg=nosmt",
            "--append-karg=dyndbg=\"file a;b +p\"",
            "--delete-karg=console=tty0",
            "--delete-karg=absent",
        ],
        changed: &[IGNITION[0], IGNITION[1], FIRST_BOOT, ENTRY],
        ..Case::PLAIN
    },
    Case {
        name: "platform and consoles",
        options: &[
            "--platform=openstack",
            "--console=ttyS0,115200n8",
            "--console=tty0",
            "--copy-network",
            "--network-dir=/files/network",
            "--append-karg=last",
        ],
        changed: &[
            ENTRY,
            GRUB,
            "coreos-firstboot-network",
            "coreos-firstboot-network/eth0.nmconnection",
        ],
        meant: &[(
            "boot: coreos-firstboot-network/eth0.nmconnection: mode 100644 of 0:0 and 100600",
            "NetworkManager takes no file that others can read, and it may hold keys",
        )],
        ..Case::PLAIN
    },
    Case {
        name: "private keyfiles",
        options: &["-n", "--network-dir", "/files/private"],
        changed: &[
            "coreos-firstboot-network",
            "coreos-firstboot-network/eth0.nmconnection",
            "coreos-firstboot-network/bond0.50.nmconnection",
        ],
        ..Case::PLAIN
    },
    Case {
        name: "consoles",
        options: &["--console=ttyS1,57600e7", "--console", "ttyAMA0"],
        changed: &[ENTRY, GRUB],
        ..Case::PLAIN
    },
    Case {
        name: "platform qemu",
        // The image already has the GRUB commands of this platform.
        options: &["-p", "qemu", "-i", "/files/config.ign"],
        changed: &[IGNITION[0], IGNITION[1], ENTRY],
        ..Case::PLAIN
    },
    Case {
        name: "platform of the same consoles",
        options: &["--platform=openstack"],
        changed: &[ENTRY],
        ..Case::PLAIN
    },
    Case {
        name: "platform unknown",
        options: &["--platform=nosuch", "--delete-karg=rw"],
        changed: &[ENTRY, GRUB],
        ..Case::PLAIN
    },
    Case {
        name: "platform metal",
        options: &["--platform=metal"],
        ..Case::PLAIN
    },
    Case {
        name: "config file",
        options: &["--config-file=/files/config.yaml", "--append-karg=c"],
        changed: &[IGNITION[0], IGNITION[1], ENTRY],
        ..Case::PLAIN
    },
];

/// Images in several packings, which must make no difference.
const PACKED: &[Case] = &[
    Case {
        name: "gzip",
        packing: Packing::Gz,
        options: &["--append-karg=a"],
        changed: &[ENTRY],
        ..Case::PLAIN
    },
    Case {
        name: "xz",
        packing: Packing::Xz,
        ..Case::PLAIN
    },
    Case {
        name: "zstd",
        packing: Packing::Zst,
        ..Case::PLAIN
    },
];

/// A partition behind the image. The image takes 131 MiB and has the partitions 1 to 4.
const FIVE: DataPartition = DataPartition {
    number: 5,
    after: Some(5),
    name: "data-five",
    mib: (134, 6),
};
const SEVEN: DataPartition = DataPartition {
    number: 7,
    after: Some(7),
    name: "data-seven",
    mib: (140, 7),
};
const NINE: DataPartition = DataPartition {
    number: 9,
    after: Some(9),
    name: "logs",
    mib: (150, 5),
};

/// Kept partitions, by label and by number.
const KEPT: &[Case] = &[
    Case {
        name: "kept by label",
        before: &[FIVE, SEVEN, NINE],
        options: &["--save-partlabel=data-*,lo?s"],
        ..Case::PLAIN
    },
    Case {
        name: "kept by number",
        before: &[
            DataPartition {
                after: None,
                ..FIVE
            },
            SEVEN,
            NINE,
        ],
        options: &["--save-partindex", "7-"],
        ..Case::PLAIN
    },
    Case {
        name: "kept under other numbers",
        before: &[
            DataPartition { number: 1, ..FIVE },
            DataPartition {
                number: 4,
                after: Some(6),
                ..SEVEN
            },
            NINE,
        ],
        options: &["--save-partindex=-4", "--save-partlabel=logs"],
        ..Case::PLAIN
    },
    Case {
        name: "kept beside an Ignition config",
        before: &[
            FIVE,
            DataPartition {
                after: None,
                ..SEVEN
            },
            NINE,
        ],
        options: &[
            "--save-partindex=5,9",
            "--ignition-file=/files/config.ign",
            "--append-karg=nosmt",
        ],
        changed: &[IGNITION[0], IGNITION[1], ENTRY],
        ..Case::PLAIN
    },
];

#[test]
#[ignore = "twenty installations take minutes"]
fn boot_partitions_are_equal() {
    compare("boot_partitions_are_equal", BOOT_PARTITION);
}

#[test]
#[ignore = "coreos-installer has to be built"]
fn disks_with_kept_partitions_are_equal() {
    compare("disks_with_kept_partitions_are_equal", KEPT);
}

#[test]
#[ignore = "coreos-installer has to be built"]
fn disks_from_packed_images_are_equal() {
    compare("disks_from_packed_images_are_equal", PACKED);
}

fn compare(name: &str, cases: &[Case]) {
    host_test(name, async |lab| {
        Comparison::new(lab, cases)
            .file("config.ign", CONFIG, 0o600)
            .file("config.yaml", CONFIG_FILE, 0o644)
            .file("network/eth0.nmconnection", KEYFILE, 0o644)
            .file("private/eth0.nmconnection", KEYFILE, 0o600)
            .file("private/bond0.50.nmconnection", KEYFILE, 0o600)
            .run()
            .await
    });
}
