use super::*;
use crate::kernel_modules::tests::tree;

fn fixture() -> (tempfile::TempDir, ModuleTree) {
    tree(
        &[
            ("kernel/fs/xfs/xfs.ko", ""),
            ("kernel/drivers/net/virtio_net.ko", ""),
            ("kernel/drivers/net/ethernet/intel/e1000.ko", ""),
            ("kernel/drivers/net/ethernet/netronome/nfp.ko", ""),
            ("kernel/drivers/net/ethernetish.ko", ""),
        ],
        &["kernel/fs/ext4/ext4.ko"],
    )
}

fn select(text: &str) -> Result<Vec<String>, SetError> {
    let (_dir, tree) = fixture();
    Ok(ModuleSet::parse("my.set", text)?
        .select(&tree)?
        .into_iter()
        .collect())
}

#[test]
fn names_directories_exclusions_and_sets() {
    for (text, expected) in [
        ("", &[][..]),
        ("xfs # the disk\n\n  # nothing\next4\n", &["xfs"]),
        ("xfs.ko\nvirtio-net", &["virtio_net", "xfs"]),
        ("drivers/net/ethernet/", &["e1000", "nfp"]),
        ("kernel/drivers/net/ethernet/\n-nfp", &["e1000"]),
        ("-nfp\ndrivers/net/ethernet/", &["e1000"]),
        (
            "drivers/\n-drivers/net/ethernet/",
            &["ethernetish", "virtio_net"],
        ),
        ("@vm", &["e1000", "virtio_net", "xfs"]),
    ] {
        assert_eq!(select(text).unwrap(), expected, "{text:?}");
    }
}

#[test]
fn all_unknown_names_are_reported_at_once() {
    let error = select("xfs\nvirtio_nett\ndrivers/none/\nfloppy\n-brtfs")
        .unwrap_err()
        .to_string();
    let expected = "module set my.set: the kernel has no `virtio_nett` (line 2, did you mean `virtio_net`?), \
        `drivers/none/` (line 3), `floppy` (line 4), `brtfs` (line 5)";
    assert_eq!(error, expected);
}

#[test]
fn lines_that_are_none() {
    for line in [
        "two words",
        "../x/",
        "a//b/",
        "/",
        "-",
        "@",
        "@none",
        "-@vm",
        "b\u{e4}r",
        "a/b",
    ] {
        let text = format!("xfs\n{line}");
        let error = SetError::BadLine {
            set: "my.set".into(),
            line: 2,
            found: line.into(),
        };
        assert_eq!(select(&text), Err(error), "{line}");
    }
    let long = "#".repeat(MAX_SET_BYTES + 1);
    assert!(matches!(select(&long), Err(SetError::TooLarge { .. })));
}

#[test]
fn built_in_sets_select_the_existing_modules() {
    let (_dir, tree) = fixture();
    for (name, expected) in [
        ("vm", &["e1000", "virtio_net", "xfs"][..]),
        ("server", &["e1000", "nfp", "virtio_net", "xfs"]),
    ] {
        let set = ModuleSet::built_in(name).unwrap();
        assert_eq!(
            set.select(&tree).unwrap().into_iter().collect::<Vec<_>>(),
            expected
        );
    }
    assert_eq!(ModuleSet::built_in("desktop"), None);
}

#[test]
fn a_kernel_for_virtual_machines_is_noticed() {
    let names = ["drivers/net/ethernet/", "drivers/scsi/", "usbhid"];
    let server = ModuleSet::built_in("server").unwrap();
    let (_dir, small) = fixture();
    let missing = server.missing_in(&small).unwrap();
    assert_eq!(missing.set, "server");
    assert!(missing.missing.len() < missing.lines);
    assert_eq!(
        names.map(|name| missing.missing.iter().any(|m| m == name)),
        [false, true, true]
    );
    let own = ModuleSet::parse("my.set", "xfs\n@server").unwrap();
    assert_eq!(own.missing_in(&small), Some(missing));
    assert_eq!(ModuleSet::built_in("vm").unwrap().missing_in(&small), None);

    // A kernel with every line, as a module or built in.
    let lines = server.lines.iter().filter_map(|line| match &line.what {
        Selector::Module(name) => Some(format!("kernel/{name}.ko")),
        Selector::Directory(directory) => {
            let name = directory.replace('/', "_");
            Some(format!("kernel/{directory}{name}.ko"))
        }
        Selector::Include(_) => None,
    });
    let lines: Vec<String> = lines.collect();
    let modules: Vec<(&str, &str)> = lines.iter().map(|path| (path.as_str(), "")).collect();
    let (_dir, complete) = tree(&modules, &[]);
    assert_eq!(server.missing_in(&complete), None);
}

#[test]
fn a_set_cannot_include_itself_even_through_another() {
    const SETS: Sets = &[
        ("itself", "xfs\n@itself"),
        ("first", "@second"),
        ("second", "@third"),
        ("third", "@first"),
        ("beyond", "@first"),
        ("xfs", "xfs"),
        ("twice", "@xfs\n@xfs"),
    ];
    for (name, is_valid) in [
        ("itself", false),
        ("first", false),
        ("second", false),
        ("beyond", false),
        ("twice", true),
    ] {
        let set = ModuleSet::one_of(SETS, name, &[]);
        assert_eq!(set.is_some(), is_valid, "{name}");
    }
}
