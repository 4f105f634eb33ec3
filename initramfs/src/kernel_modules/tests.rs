use super::*;
use crate::elf_section::tests::elf_with;

/// A module tree on disk; each module is `(path, .modinfo strings separated by
/// "|")`.
pub(crate) fn tree(modules: &[(&str, &str)], built_in: &[&str]) -> (tempfile::TempDir, ModuleTree) {
    let dir = tempfile::tempdir().unwrap();
    for (path, lines) in modules {
        let section = format!("{lines}|vermagic=6.1.0-test SMP ").replace('|', "\0");
        let file = dir.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, elf_with(".modinfo", section.as_bytes())).unwrap();
    }
    let order: String = modules
        .iter()
        .map(|(path, _)| format!("{path}\n"))
        .collect();
    std::fs::write(dir.path().join("modules.order"), order).unwrap();
    let list: String = built_in.iter().map(|path| format!("{path}\n")).collect();
    std::fs::write(dir.path().join("modules.builtin"), list).unwrap();
    let tree = ModuleTree::open(dir.path()).unwrap();
    (dir, tree)
}

fn closure(tree: &ModuleTree, names: &[&str]) -> Vec<String> {
    tree.closure(names.iter().map(ToString::to_string))
        .unwrap()
        .into_keys()
        .collect()
}

#[test]
fn an_added_driver_replaces_that_of_the_kernel() {
    let (_dir, tree) = tree(
        &[
            ("extra/mlnx/mlx5_core.ko", ""),
            ("extra/tg3.ko", ""),
            ("kernel/drivers/net/mlx5_core.ko", ""),
            ("kernel/drivers/net/tg3.ko", ""),
            ("updates/dkms/tg3.ko", ""),
        ],
        &[],
    );
    assert_eq!(tree.path_of("mlx5_core"), Some("extra/mlnx/mlx5_core.ko"));
    assert_eq!(tree.path_of("tg3"), Some("updates/dkms/tg3.ko"));
}

#[test]
fn dependencies_and_softdeps_are_pulled_in() {
    let (_dir, tree) = tree(
        &[
            (
                "kernel/fs/xfs/xfs.ko",
                "depends=libcrc32c|softdep=pre: nowhere",
            ),
            ("kernel/lib/libcrc32c.ko", "softdep=pre: crypto-crc32c"),
            (
                "kernel/arch/x86/crypto/crc32c-intel.ko",
                "alias=crypto-crc32c|depends=core-x",
            ),
            ("kernel/drivers/crypto/card.ko", "alias=crypto-crc32c"),
            ("kernel/net/a.ko", "softdep=post: b"),
            ("kernel/net/b.ko", ""),
        ],
        &["kernel/x/core_x.ko"],
    );
    assert_eq!(
        closure(&tree, &["xfs"]),
        ["crc32c_intel", "libcrc32c", "xfs"],
        "without the accelerator card"
    );
    assert_eq!(closure(&tree, &["a"]), ["a", "b"]);
    assert_eq!(closure(&tree, &["core_x", "nowhere"]), [""; 0]);
}

#[test]
fn the_index_is_in_link_order_and_usable() {
    let (dir, _) = tree(
        &[
            ("kernel/z/zz.ko", "alias=pci:v*|depends=bb"),
            ("kernel/a/aa.ko", "alias=pci:v00001AF4*"),
            ("kernel/b/bb.ko", "depends=core"),
        ],
        &["kernel/core.ko"],
    );
    let modinfo = b"core.alias=crypto-core\0core.alias=pci:v1*\0core.alias=char-major-4-*\0core.license=GPL\0other.alias=x\0";
    std::fs::write(dir.path().join("modules.builtin.modinfo"), modinfo).unwrap();
    let tree = ModuleTree::open(dir.path()).unwrap();
    let selection = tree.closure(["aa", "zz"].map(String::from)).unwrap();
    let content = tree.index(&selection, "6.1.0-test");
    let names: Vec<&str> = content.modules.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["zz", "aa", "bb"]);
    assert_eq!(
        content.built_in,
        [BuiltIn {
            name: "core".into(),
            aliases: vec!["crypto-core".into()]
        }]
    );
    assert_eq!(
        IndexContent::parse(&content.to_text().unwrap()).unwrap(),
        content
    );
}

#[test]
fn a_missing_hard_dependency_is_named() {
    let (dir, tree) = tree(&[("kernel/a.ko", "depends=b")], &[]);
    let error = tree.closure(["a".to_owned()]).unwrap_err().to_string();
    let expected = format!(
        "kernel module `a` needs `b`, which is neither in {} nor built in",
        dir.path().display()
    );
    assert_eq!(error, expected);
}

#[test]
fn modules_of_another_kernel_are_refused() {
    let (_dir, tree) = tree(&[("kernel/a.ko", "")], &[]);
    let selection = tree.closure(["a".to_owned()]).unwrap();
    tree.check_vermagic(&selection, "6.1.0-test").unwrap();
    let error = tree
        .check_vermagic(&selection, "6.12.1")
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "kernel module kernel/a.ko was built for kernel 6.1.0-test, expected 6.12.1"
    );
}

#[test]
fn invalid_module_directories_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(
        ModuleTree::open(dir.path()),
        Err(ModulesError::NoModules { .. })
    ));
    assert!(matches!(
        ModuleTree::open(&dir.path().join("gone")),
        Err(ModulesError::Path(_))
    ));
    for path in ["a-b.ko", "sub/a_b.ko"] {
        std::fs::create_dir_all(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join(path), "").unwrap();
    }
    let error = ModuleTree::open(dir.path()).unwrap_err().to_string();
    assert_eq!(
        error,
        "kernel module `a_b` exists twice: a-b.ko and sub/a_b.ko"
    );
}

#[test]
fn drivers_outside_the_selection_are_listed_with_their_devices() {
    const E100: &str = "alias=pci:v00008086d00001209sv*sd*bc*sc*i*|alias=of:N*T*";
    let (_dir, tree) = tree(
        &[
            ("kernel/drivers/net/ethernet/intel/e100.ko", E100),
            (
                "kernel/drivers/net/ethernet/intel/igb.ko",
                "alias=pci:v00008086d00001521sv*sd*bc*sc*i*",
            ),
            ("kernel/drivers/net/mii.ko", ""),
            (
                "extra/drivers/net/ethernet/dlink/sundance.ko",
                "alias=pci:v00001186d00001002sv*sd*bc*sc*i*",
            ),
            (
                "kernel/drivers/gpu/drm/ast/ast.ko",
                "alias=pci:v00001A03d00002000sv*sd*bc*sc*i*",
            ),
        ],
        &[],
    );
    let selection = tree.closure(["igb".to_owned()]).unwrap();
    let driver = |name: &str, vendor, device| LeftOutModule {
        name: name.to_owned(),
        devices: vec![DevicePattern::Pci { vendor, device }],
    };
    let expected = [
        driver("e100", 0x8086, 0x1209),
        driver("sundance", 0x1186, 0x1002),
    ];
    assert_eq!(tree.left_out(&selection).unwrap(), expected);
}
