use std::io::Cursor;

use super::*;
use crate::fixtures::{self, KERNEL_ARGS, Layout};
use crate::kargs_edit::KargsEdit;

fn open(image: &[u8]) -> Result<BaseIso, BaseError> {
    BaseIso::open(Cursor::new(image))
}

fn append(text: &str) -> HostVersion {
    HostVersion::default().with_kargs(KargsEdit {
        append: vec![text.to_owned()],
        ..KargsEdit::default()
    })
}

fn customized(image: &[u8], host: &HostVersion) -> Vec<u8> {
    let base = open(image).unwrap();
    base.of_host(host, 0).unwrap().to_vec(image).unwrap()
}

#[test]
fn only_the_areas_differ_and_both_read_back() {
    let image = fixtures::base_iso(Layout::default());
    let host = append("b=2").with_file("etc/landfall/hosts/node1.json", "{}");
    let made = customized(&image, &host);
    assert_eq!(made.len(), image.len());
    let base = open(&image).unwrap();
    for (at, _) in image
        .iter()
        .zip(&made)
        .enumerate()
        .filter(|(_, (a, b))| a != b)
    {
        let at = at as u64;
        let within = |place: Extent| range(place).contains(&at);
        let Places { kargs, embed, .. } = base.places;
        assert!(within(kargs) || within(embed), "byte {at}");
    }
    let again = open(&made).unwrap();
    assert_eq!(again.current_args, format!("{KERNEL_ARGS} b=2"));
    assert_eq!(again.areas.kargs.default, KERNEL_ARGS);
    assert_eq!(again.files, host.files());
    // Kernel and ramdisk are where they were.
    let part = |range: Range<u64>| &made[range.start as usize..range.end as usize];
    assert_eq!(part(again.ramdisk()), fixtures::ramdisk());
    assert_eq!(part(again.kernel()).len(), Layout::default().kernel_size);
}

#[test]
fn a_second_change_adds_to_the_first_and_reset_removes_both() {
    let image = fixtures::base_iso(Layout::default());
    let one = customized(&image, &append("b=2").with_file("a", "1"));
    let two = customized(&one, &append("c=3").with_file("b", "2"));
    let found = open(&two).unwrap();
    assert_eq!(found.current_args, format!("{KERNEL_ARGS} b=2 c=3"));
    let paths: Vec<&str> = found.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["a", "b"]);
    assert_eq!(customized(&two, &HostVersion::default()), two);
    assert_eq!(customized(&two, &HostVersion::default().reset()), image);
}

#[test]
fn a_host_version_that_does_not_fit_is_an_error() {
    let layout = Layout {
        embed_size: 4096,
        ..Layout::default()
    };
    let image = fixtures::base_iso(layout);
    let base = open(&image).unwrap();
    let large = HostVersion::default().with_file("a", vec![b'x'; 4096]);
    let error = base.of_host(&large, 0).unwrap_err().to_string();
    assert!(
        error.starts_with("boot/embed.img: expected at most 4096 bytes for this host, found "),
        "{error}"
    );
    // All of the area can be used.
    let fixed = archive::write(
        &[HostFile {
            path: "a".into(),
            bytes: Bytes::new(),
        }],
        None,
        0,
    );
    let room = 4096 - fixed.unwrap().len();
    let full = HostVersion::default().with_file("a", vec![b'x'; room]);
    assert_eq!(
        open(&customized(&image, &full)).unwrap().files,
        full.files()
    );
    let error = base.of_host(&append(&"x".repeat(2048)), 0).unwrap_err();
    assert!(
        error.to_string().contains("kernel arguments are"),
        "{error}"
    );
}

/// Makes a base whose description of its areas is changed.
fn described(change: impl Fn(&mut Areas)) -> Vec<u8> {
    let mut image = fixtures::base_iso(Layout::default());
    let mut iso = Iso::open(Cursor::new(image.clone())).unwrap();
    let place = iso.find(DESCRIPTION).unwrap();
    let (start, end) = (place.offset as usize, (place.offset + place.size) as usize);
    let mut description = Areas::from_json(&image[start..end]).unwrap();
    change(&mut description);
    let mut json = serde_json::to_vec(&description).unwrap();
    // The changed description is not longer than the original. Spaces after it fill the
    // file, because JSON may end in spaces.
    json.resize(end - start, b' ');
    image[start..end].copy_from_slice(&json);
    image
}

#[test]
fn bases_that_cannot_be_used() {
    let good = fixtures::base_iso(Layout::default());
    let last = good.len() - 1;
    let garbage = {
        let mut image = good.clone();
        let embed = open(&good).unwrap().places.embed.offset as usize;
        image[embed..embed + 7].copy_from_slice(b"garbage");
        image
    };
    for (image, expected) in [
        (good[..last].to_vec(), "is cut off: expected"),
        (good[..40_000].to_vec(), "is cut off: expected"),
        (good[..10_000].to_vec(), "cannot read the ISO"),
        (Vec::new(), "cannot read the ISO"),
        (vec![0; 100_000], "expected an ISO 9660 volume"),
        (
            described(|areas| areas.kargs.path = "boot/embed.img".to_owned()),
            "bytes as in boot/landfall-areas.json, found 16384",
        ),
        (
            described(|areas| areas.embed.size = 4096),
            "boot/embed.img: expected 4096 bytes as in boot/landfall-areas.json, found 16384",
        ),
        (
            described(|areas| areas.embed.path = "boot/no.img".to_owned()),
            "no regular file boot/no.img",
        ),
        (
            described(|areas| {
                areas.embed.path = "boot/vmlinuz".to_owned();
                areas.embed.size = Layout::default().kernel_size as u64;
            }),
            "boot/vmlinuz and boot/vmlinuz overlap",
        ),
        (
            described(|areas| {
                areas.kargs.before = areas.kargs.before.replace("kargs", "other").to_owned()
            }),
            "expected kernel arguments as boot/landfall-areas.json describes them, found other content",
        ),
        (
            garbage.clone(),
            "found other content -- remove it with `landfall-image customize --reset`",
        ),
    ] {
        let error = open(&image).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, expected {expected}");
    }
    let base = BaseIso::open_to_reset(Cursor::new(&garbage)).unwrap();
    let host = HostVersion::default().reset().with_file("a", "1");
    let made = base.of_host(&host, 0).unwrap().to_vec(&garbage).unwrap();
    assert_eq!(open(&made).unwrap().files, host.files());
}

/// A power cut while a longer line is written leaves a line that runs into the padding.
#[test]
fn a_torn_line_of_arguments_is_refused_and_reset() {
    let good = fixtures::base_iso(Layout::default());
    let place = open(&good).unwrap().places.kargs;
    let at = place.offset as usize;
    for torn in ["a=1 ".repeat(50).as_str(), "garbage"] {
        let mut image = good.clone();
        let start = if torn == "garbage" { at } else { at + 31 };
        image[start..start + torn.len()].copy_from_slice(torn.as_bytes());
        let error = open(&image).unwrap_err().to_string();
        assert!(error.starts_with("boot/grub/kargs.env: "), "{error}");
        assert!(error.contains("--reset"), "{error}");
        let base = BaseIso::open_to_reset(Cursor::new(&image)).unwrap();
        let reset = HostVersion::default().reset();
        let made = base.of_host(&reset, 0).unwrap().to_vec(&image).unwrap();
        assert!(made == good);
    }
}

#[test]
fn an_iso_of_another_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("file"), "x").unwrap();
    let error = open(&fixtures::pack(&tree)).unwrap_err().to_string();
    assert_eq!(
        error,
        "expected an ISO of landfall-image, found no boot/landfall-areas.json"
    );
}
