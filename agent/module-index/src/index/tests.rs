use super::*;

const TEXT: &str = "\
landfall-module-index 1
kernel 6.1.0-test
builtin nvme
builtin crc32c_generic
alias crypto-crc32c-generic
module ata_piix kernel/drivers/ata/ata_piix.ko
alias pci:v00008086d00007010sv*sd*bc*sc*i*
module ata_generic kernel/drivers/ata/ata_generic.ko
alias pci:v*d*sv*sd*bc01sc01i*
module crc32c_intel kernel/arch/x86/crypto/crc32c-intel.ko
alias crypto-crc32c
alias crc32c
module virtio_rng kernel/drivers/char/hw_random/virtio-rng.ko.xz
alias virtio:d00000004v*
module xfs kernel/fs/xfs/xfs.ko
needs crc32c_intel nvme
alias fs-xfs
end
";

fn index() -> Index {
    Index::parse(TEXT).unwrap()
}

fn names(index: &Index, ids: &[ModuleId]) -> Vec<String> {
    ids.iter()
        .map(|&id| index.module(id).name.clone())
        .collect()
}

#[test]
fn a_modalias_finds_every_driver_in_file_order() {
    let index = index();
    for (modalias, expected) in [
        (
            "pci:v00008086d00007010sv00001AF4sd00001100bc01sc01i80",
            &["ata_piix", "ata_generic"][..],
        ),
        (
            "pci:v00008086d00009999sv00001AF4sd00001100bc01sc01i80",
            &["ata_generic"],
        ),
        ("pci:v00008086d00009999sv00001AF4sd00001100bc02sc00i00", &[]),
        ("virtio:d00000004v00001AF4", &["virtio_rng"]),
        ("virtio:", &[]),
        ("", &[]),
        ("pci:v0000808\u{e4}", &[]),
    ] {
        assert_eq!(
            names(&index, &index.modules_for(modalias)),
            expected,
            "{modalias}"
        );
    }
}

#[test]
fn names_are_found_in_both_spellings() {
    let index = index();
    let rng = index.find("virtio-rng").unwrap();
    assert_eq!(
        index.module(rng).path,
        "kernel/drivers/char/hw_random/virtio-rng.ko.xz"
    );
    assert_eq!(index.find("virtio_rng"), Some(rng));
    assert_eq!(index.find("nvme"), None);
}

#[test]
fn resolution_prefers_name_then_alias_then_built_in() {
    let index = index();
    let intel = index.find("crc32c_intel").unwrap();
    for (asked, expected) in [
        ("crc32c-intel", Resolution::Modules(vec![intel])),
        ("crypto-crc32c", Resolution::Modules(vec![intel])),
        ("crypto_crc32c", Resolution::Modules(vec![intel])),
        (
            "fs-xfs",
            Resolution::Modules(vec![index.find("xfs").unwrap()]),
        ),
        ("nvme", Resolution::BuiltIn),
        ("crypto-crc32c-generic", Resolution::BuiltIn),
        ("btrfs", Resolution::Missing),
    ] {
        assert_eq!(index.resolve(asked), expected, "{asked}");
    }
}

#[test]
fn hard_dependencies_leave_out_built_in_modules() {
    let index = index();
    let xfs = index.find("xfs").unwrap();
    let needs: Vec<ModuleId> = index.needs(xfs).collect();
    assert_eq!(names(&index, &needs), ["crc32c_intel"]);
}

#[test]
fn basic_facts() {
    let index = index();
    assert_eq!(index.kernel_release(), "6.1.0-test");
    assert_eq!(index.len(), 5);
    assert!(!index.is_empty());
    assert_eq!(index.modules().count(), 5);
}
