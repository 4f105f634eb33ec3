use super::*;
use crate::compress::unpack_segments;
use crate::kernel_source::KernelSource;
use crate::{agent_binary, elf_section, kernel_image};
use landfall_module_index::Index;

struct Fixture {
    dir: tempfile::TempDir,
    kernel: Kernel,
    configuration: Vec<ConfigurationFile>,
    rescue_layer: Option<RescueLayer>,
    compression: Compression,
}

/// A kernel with two modules, one of which declares firmware, and an agent that
/// passes the checks.
fn fixture(config: Option<&str>) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let put = |path: &str, bytes: &[u8]| {
        let full = dir.path().join(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        fs::write(full, bytes).unwrap();
    };
    let module = |lines: &[u8]| {
        elf_section::tests::elf_with(".modinfo", &[lines, b"vermagic=6.1-t SMP \0"].concat())
    };
    put(
        "boot/vmlinuz-6.1-t",
        &kernel_image::tests::bz_image("6.1-t"),
    );
    put(
        "lib/modules/6.1-t/kernel/fs/xfs/xfs.ko",
        &module(b"depends=helper\0alias=fs-xfs\0"),
    );
    put(
        "lib/modules/6.1-t/kernel/lib/helper.ko",
        &module(b"firmware=h/a.bin\0firmware=gone.bin\0"),
    );
    put("firmware/h/a.bin", b"blob");
    put("agent", &agent_binary::tests::agent());
    if let Some(config) = config {
        put("boot/config-6.1-t", config.as_bytes());
    }
    let kernel = KernelSource::Directory {
        path: dir.path().to_owned(),
        release: None,
    }
    .resolve()
    .unwrap();
    Fixture {
        dir,
        kernel,
        configuration: Vec::new(),
        rescue_layer: None,
        compression: Compression::Zstd { level: 3 },
    }
}

/// The archives of a ramdisk, one after the other.
fn archives(file: &[u8]) -> Vec<u8> {
    let segments = unpack_segments(file, 1 << 20).unwrap();
    segments
        .into_iter()
        .flat_map(|segment| segment.archive)
        .collect()
}

/// The entries of all archives of a ramdisk.
fn entries(archives: &[u8]) -> Vec<newc::Entry<'_>> {
    let mut entries = Vec::new();
    let mut rest = archives;
    while !rest.is_empty() {
        let mut reader = newc::Reader::new(rest);
        entries.extend(reader.by_ref().map(Result::unwrap));
        rest = &rest[reader.consumed()..];
    }
    entries
}

impl Fixture {
    fn build(
        &self,
        name: &str,
        set: &str,
        firmware: bool,
        epoch: u32,
    ) -> Result<Summary, BuildError> {
        let firmware = match firmware {
            true => FirmwareFiles::below(&self.dir.path().join("firmware")),
            false => FirmwareFiles::default(),
        };
        let recipe = Recipe {
            arch: Arch::X86_64,
            agent: &self.dir.path().join("agent"),
            kernel: &self.kernel,
            module_set: &ModuleSet::parse("my.set", set).unwrap(),
            firmware: &firmware,
            allow_missing_firmware: false,
            configuration: &self.configuration,
            rescue_layer: self.rescue_layer.as_ref(),
            compression: self.compression,
            cache: None,
            epoch,
        };
        let mut output = OutputFile::create(&self.dir.path().join(name), false)?;
        let summary = build(&recipe, &mut output, &|_| {})?;
        output.finish()?;
        Ok(summary)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.dir.path().join(name)).unwrap()
    }
}

#[test]
fn content_and_order_of_the_ramdisk() {
    let fixture = fixture(None);
    let summary = fixture.build("out", "xfs", true, 7).unwrap();
    let file = fixture.read("out");
    assert_eq!(summary.bytes, file.len() as u64);
    assert_eq!(summary.sha256, digest_writer::sha256(&file));
    assert_eq!(
        (
            summary.modules,
            summary.firmware_files,
            summary.firmware_bytes
        ),
        (2, 1, 4)
    );
    let missing: Vec<String> = summary
        .firmware_missing
        .iter()
        .map(ToString::to_string)
        .collect();
    let gone = "helper: firmware file gone.bin is missing: no known Debian package has it";
    assert_eq!(missing, [gone]);
    let no_config =
        "kernel 6.1-t has no config file: the options that the ramdisk needs are not checked";
    assert_eq!(summary.warnings, [no_config, gone]);

    let archives = archives(&file);
    assert_eq!(archives.len() as u64, summary.unpacked_bytes);
    let entries = entries(&archives);
    assert!(entries.iter().all(|entry| entry.mtime == 7));
    let files: Vec<&str> = entries
        .iter()
        .filter(|e| e.is_file())
        .map(|e| e.name)
        .collect();
    let expected = [
        "init",
        "etc/coreos-live-initramfs",
        "etc/coreos/features.json",
        "etc/landfall/build.json",
        "lib/modules/6.1-t/landfall.index",
        "lib/modules/6.1-t/landfall.left-out",
        "lib/firmware/h/a.bin",
        "lib/modules/6.1-t/kernel/fs/xfs/xfs.ko",
        "lib/modules/6.1-t/kernel/lib/helper.ko",
        "etc/landfall/complete",
    ];
    assert_eq!(files, expected);
    assert_eq!(entries.last().unwrap().name, COMPLETE_MARKER);
    for (name, rdev) in [
        ("dev/console", (5, 1)),
        ("dev/null", (1, 3)),
        ("dev/kmsg", (1, 11)),
    ] {
        assert_eq!(entries.iter().find(|e| e.name == name).unwrap().rdev, rdev);
    }

    let index = entries
        .iter()
        .find(|e| e.name.ends_with(INDEX_NAME))
        .unwrap();
    let index = Index::parse(std::str::from_utf8(index.data).unwrap()).unwrap();
    assert_eq!(index.kernel_release(), "6.1-t");
    assert_eq!(index.load_order(index.modules_for("fs-xfs")).len(), 2);
}

#[test]
fn the_sites_configuration_is_for_root_only() {
    let file = |name: &str| ConfigurationFile {
        path: format!("{CONFIGURATION_DIRECTORY}/{name}"),
        bytes: b"[DEFAULT]".to_vec(),
    };
    let mut fixture = fixture(None);
    fixture.configuration = vec![file("site.conf"), file("ca.pem")];
    let summary = fixture.build("out", "xfs", false, 0).unwrap();
    assert_eq!(
        summary.configuration,
        ["etc/landfall/site.conf", "etc/landfall/ca.pem"]
    );
    let archives = archives(&fixture.read("out"));
    let entries = entries(&archives);
    for name in &summary.configuration {
        let entry = entries.iter().find(|entry| entry.name == name).unwrap();
        assert_eq!((entry.mode, entry.data), (0o100_600, &b"[DEFAULT]"[..]));
    }

    for name in ["site.conf", "build.json", "complete"] {
        fixture.configuration = vec![file("site.conf"), file(name)];
        let error = fixture.build("no", "xfs", false, 0).unwrap_err();
        let expected = format!("ramdisk path `etc/landfall/{name}` is added twice");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn the_rescue_layer_is_executable_and_noted() {
    let mut fixture = fixture(None);
    let shell = fixture.dir.path().join("busybox");
    fs::write(&shell, "shell").unwrap();
    let files = [("bin/busybox".to_owned(), shell)].into();
    fixture.rescue_layer = Some(RescueLayer { files });
    let summary = fixture.build("out", "xfs", false, 0).unwrap();
    assert_eq!(summary.rescue_layer, ["bin/busybox"]);
    assert_eq!(summary.rescue_layer_bytes, 5);
    let archives = archives(&fixture.read("out"));
    let entries = entries(&archives);
    let find = |name| entries.iter().find(|entry| entry.name == name).unwrap();
    assert_eq!(find("bin/busybox").mode, 0o100_755);
    let facts: serde_json::Value = serde_json::from_slice(find(BUILD_FACTS).data).unwrap();
    assert_eq!(facts["rescue_layer"][0], "bin/busybox");
}

/// Without compression, the ramdisk is one plain archive, for boot loaders and programs
/// that support no compression.
#[test]
fn without_compression_it_is_one_archive() {
    let mut fixture = fixture(None);
    fixture.compression = Compression::None;
    let summary = fixture.build("out", "xfs", true, 0).unwrap();
    let file = fixture.read("out");
    assert_eq!(summary.unpacked_bytes, file.len() as u64);
    let mut reader = newc::Reader::new(&file);
    let last = reader.by_ref().map(Result::unwrap).last().unwrap();
    assert_eq!(last.name, COMPLETE_MARKER);
    assert_eq!(reader.consumed(), file.len());
}

#[test]
fn same_input_same_bytes() {
    let fixture = fixture(None);
    for name in ["a", "b"] {
        fixture.build(name, "xfs", true, 0).unwrap();
    }
    fixture.build("other-time", "xfs", true, 1).unwrap();
    assert_eq!(fixture.read("a"), fixture.read("b"));
    assert_ne!(fixture.read("a"), fixture.read("other-time"));
}

#[test]
fn modules_that_name_firmware_are_not_passed_over() {
    let config = "CONFIG_BLK_DEV_INITRD=y\nCONFIG_BINFMT_ELF=y\nCONFIG_DEVTMPFS=y\nCONFIG_PROC_FS=y\nCONFIG_SYSFS=y\n\
        CONFIG_TMPFS=y\nCONFIG_NET=y\nCONFIG_INET=y\nCONFIG_RD_ZSTD=y\nCONFIG_MODULES=y\nCONFIG_EFI_STUB=y\n\
        CONFIG_RD_GZIP=y\nCONFIG_RD_XZ=y\n\
        CONFIG_SERIAL_8250_CONSOLE=y\nCONFIG_VT_CONSOLE=y\nCONFIG_IPV6=y\n";
    let summary = fixture(Some(config)).build("out", "xfs", false, 0).unwrap();
    let expected = [
        "kernel 6.1-t: CONFIG_PACKET=y is not set: there is no DHCP unless it is a module",
        "helper: 2 firmware files are missing, such as gone.bin: no known Debian package has it",
    ];
    assert_eq!(summary.warnings, expected);
}

#[test]
fn each_driver_without_its_firmware_is_named() {
    let missing = |driver: &str, needed, package: Option<&str>| MissingFirmware {
        driver: driver.to_owned(),
        needed,
        package: package.map(str::to_owned),
        files: vec!["a.bin".to_owned()],
    };
    require_firmware(&[missing("ice", false, None)]).unwrap();
    let all = [
        missing("bna", true, Some("firmware-qlogic")),
        missing("bnx2", true, None),
        missing("ice", false, Some("firmware-intel-misc")),
    ];
    let error = require_firmware(&all).unwrap_err().to_string();
    let expected = "without: bna (firmware-qlogic), bnx2 -- install these packages";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn faults_leave_no_file() {
    let cannot_run = fixture(Some("CONFIG_MODULES=y\n"));
    let error = cannot_run
        .build("out", "xfs", false, 0)
        .unwrap_err()
        .to_string();
    assert!(
        error
            .starts_with("kernel 6.1-t cannot run the ramdisk: CONFIG_BLK_DEV_INITRD=y is not set"),
        "{error}"
    );

    let fixture = fixture(None);
    assert!(matches!(
        fixture.build("out", "xfss", false, 0),
        Err(BuildError::Set(SetError::Unknown { .. }))
    ));
    fs::write(fixture.dir.path().join("agent"), "#!/bin/sh\n").unwrap();
    assert!(matches!(
        fixture.build("out", "xfs", false, 0),
        Err(BuildError::Agent(_))
    ));
    for fixture in [&cannot_run, &fixture] {
        let names = fs::read_dir(fixture.dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap());
        assert!(names.into_iter().all(|name| !name.contains("out")));
    }
}
