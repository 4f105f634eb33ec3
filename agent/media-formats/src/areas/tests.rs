use std::fs;
use std::io::Cursor;
use std::process::Command;

use super::*;
use proptest::prelude::*;

const FORMAT_1: &str = r#"{
  "format": 1,
  "kargs": {
    "path": "boot/grub/kargs.cfg",
    "size": 4096,
    "before": "set kargs=\"",
    "after": "\"\n",
    "default": "a=b"
  },
  "embed": {"path": "boot/embed.img", "size": 262144}
}"#;

#[test]
fn the_file_is_an_environment_block_that_grub_reads() {
    let areas = Areas::new("quiet a=b", 1792, 4096);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kargs.env");
    for arguments in [
        "",
        "quiet a=b",
        r#"a=$b;c|d&e<f>{g}*? "h i""#,
        &"x".repeat(1792),
    ] {
        let file = areas.kargs.file(arguments).unwrap();
        assert_eq!(file.len(), areas.kargs.size);
        assert_eq!(areas.kargs.arguments(&file), Some(arguments));
        fs::write(&path, &file).unwrap();
        let listed = Command::new("grub-editenv")
            .arg(&path)
            .arg("list")
            .output()
            .unwrap();
        assert!(listed.status.success());
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert_eq!(listed, format!("kargs={arguments}\n"));
    }
    let expected = KargsError::TooLong {
        found: 1793,
        room: 1792,
    };
    assert_eq!(areas.kargs.file(&"x".repeat(1793)), Err(expected));
    assert_eq!(areas.kargs.file("a\nb"), Err(KargsError::SeveralLines));
}

#[test]
fn files_changed_by_other_programs_are_read() {
    let new = Areas::new("a=b", 100, 0).kargs;
    let old = Areas::from_json(FORMAT_1.as_bytes()).unwrap().kargs;
    let head = "# GRUB Environment Block\nkargs=";
    for (area, file, expected) in [
        (&new, format!("{head}x y\n####"), Some("x y")),
        // assisted-image-service appends over the line break.
        (
            &new,
            format!("{head}x z\n## COREOS_KARG_EMBED_AREA\n"),
            Some("x z"),
        ),
        (&new, format!("{head}  x \n\n\n\n"), Some("x")),
        (&new, format!("{head}x"), None),
        // A torn write: without its line break, the line runs into the padding.
        (&new, format!("{head}x{}\n", "#".repeat(100)), None),
        (&new, "kargs=x\n".to_owned(), None),
        (&old, "set kargs=\"a=b c\"\n\n\n".to_owned(), Some("a=b c")),
        (&old, "set kargs=\"a=b c\"".to_owned(), None),
        (&old, "set kargs=\"a\nb\"\n".to_owned(), None),
        (&old, String::new(), None),
    ] {
        assert_eq!(area.arguments(file.as_bytes()), expected, "{file:?}");
    }
    assert_eq!(new.arguments(b"\xff"), None);
    let file = old.file("a=b").unwrap();
    assert!(file.starts_with(b"set kargs=\"a=b\"\n\n"));
    assert_eq!(file.len(), 4096);
}

#[test]
fn descriptions_that_contradict_themselves_are_errors() {
    Areas::from_json(FORMAT_1.as_bytes()).unwrap();
    for (from, to, part) in [
        ("", "", "expected value"),
        (
            r#""format": 1"#,
            r#""format": 3"#,
            "expected format 1 or 2, found 3",
        ),
        ("4096", "15", "kargs.size: expected room for the default"),
        ("4096", "65537", "kargs.size: expected room for the default"),
        ("4096", "-1", "invalid value"),
        ("262144", "67108865", "embed.size: expected at most 64 MiB"),
        (
            r#""after": "\"\n""#,
            r#""after": """#,
            "kargs.after: expected a text",
        ),
        (
            r#""default""#,
            r#""pad": "\u00e9", "default""#,
            "kargs.pad: expected an ASCII character",
        ),
    ] {
        let json = match from {
            "" => "?".to_owned(),
            from => FORMAT_1.replacen(from, to, 1),
        };
        let error = Areas::from_json(json.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{json}: {error}");
    }
}

/// An ISO whose areas are files of these sizes.
fn iso_with(areas: &Areas, sizes: &[(&str, usize)]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    let put = |path: &str, bytes: &[u8]| {
        fs::create_dir_all(tree.join(path).parent().unwrap()).unwrap();
        fs::write(tree.join(path), bytes).unwrap();
    };
    put(DESCRIPTION, &serde_json::to_vec(areas).unwrap());
    for (path, size) in sizes {
        put(path, &vec![0; *size]);
    }
    let image = directory.path().join("image");
    let made = Command::new("xorriso")
        .args(["-as", "mkisofs", "-quiet", "-R", "-no-pad", "-o"])
        .args([&image, &tree])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    fs::read(image).unwrap()
}

#[test]
fn areas_are_found_where_they_are() {
    let areas = Areas::new("a=b", 100, 4096);
    let kargs = areas.kargs.size;
    let image = iso_with(&areas, &[(KARGS, kargs), (EMBED, 4096), (IGNITION, 4096)]);
    let mut iso = Iso::open(Cursor::new(&image)).unwrap();
    let (found, places) = Areas::of(&mut iso).unwrap();
    assert_eq!(found, areas);
    assert_eq!(places.kargs, iso.find(KARGS).unwrap());
    assert_eq!(places.embed.size, 4096);
    assert_eq!(places.ignition, Some(iso.find(IGNITION).unwrap()));
    assert_eq!(areas.embed.read(&mut iso).unwrap(), [0; 4096]);
    assert_eq!(areas.kargs.read(&mut iso).unwrap().len(), kargs);
}

#[test]
fn a_base_that_is_cut_off_or_has_smaller_areas_is_an_error() {
    let areas = Areas::new("a=b", 100, 4096);
    let kargs = areas.kargs.size;
    let error = |areas: &Areas, sizes: &[(&str, usize)]| {
        let image = iso_with(areas, sizes);
        let mut iso = Iso::open(Cursor::new(&image)).unwrap();
        Areas::of(&mut iso).unwrap_err().to_string()
    };
    let too_small = [(KARGS, kargs), (EMBED, 4095), (IGNITION, 4096)];
    assert_eq!(
        error(&areas, &too_small),
        "boot/embed.img: expected 4096 bytes as in boot/landfall-areas.json, found 4095"
    );
    let without = [(KARGS, kargs), (EMBED, 4096)];
    assert_eq!(
        error(&areas, &without),
        "ISO: no regular file images/ignition.img"
    );
    let mut twice = areas.clone();
    twice.embed.path = IGNITION.to_owned();
    assert_eq!(
        error(&twice, &[(KARGS, kargs), (IGNITION, 4096)]),
        "images/ignition.img and images/ignition.img overlap"
    );

    // The volume is smaller than its files.
    let mut image = iso_with(&areas, &[(KARGS, kargs), (EMBED, 4096), (IGNITION, 4096)]);
    image[32768 + 80..][..4].copy_from_slice(&20u32.to_le_bytes());
    let mut iso = Iso::open(Cursor::new(&image)).unwrap();
    let error = Areas::of(&mut iso).unwrap_err().to_string();
    assert!(
        error.contains("expected an area within the 40960 bytes of the ISO, found one up to"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn written_arguments_are_read_back(arguments in "[ -~]{0,120}", format_1 in any::<bool>()) {
        let area = match format_1 {
            true => Areas::from_json(FORMAT_1.as_bytes()).unwrap().kargs,
            false => Areas::new("", 100, 0).kargs,
        };
        match area.file(&arguments) {
            Err(error) => {
                let room = area.room();
                let found = arguments.len();
                prop_assert!(found > room);
                prop_assert_eq!(error, KargsError::TooLong { found, room });
            }
            Ok(file) => {
                prop_assert_eq!(file.len(), area.size);
                prop_assert_eq!(area.arguments(&file), Some(arguments.trim()));
            }
        }
    }

    #[test]
    fn any_file_is_read_or_rejected(file in proptest::collection::vec(any::<u8>(), 0..200)) {
        let area = Areas::new("", 100, 0).kargs;
        let whole = [area.before.as_bytes(), &file].concat();
        if let Some(arguments) = area.arguments(&whole) {
            prop_assert!(!arguments.contains('\n'));
        }
    }
}
