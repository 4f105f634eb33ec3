use super::*;
use proptest::prelude::*;

/// An EFI program that consists of headers with room for `free` more sections, and of a
/// section `.text`.
fn stub(free: usize) -> Vec<u8> {
    const START: usize = 0x80;
    const TABLE: usize = START + 24 + 240;
    let headers = (TABLE + (1 + free) * SECTION_BYTES).next_multiple_of(512);
    let mut image = vec![0; headers + 512];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"MZ");
    put(0x3c, &(START as u32).to_le_bytes());
    put(START, b"PE\0\0\x64\x86\x01\0");
    put(START + 20, &240u16.to_le_bytes());
    put(START + 24, &0x020bu16.to_le_bytes());
    put(START + 24 + 32, &4096u32.to_le_bytes());
    put(START + 24 + 36, &512u32.to_le_bytes());
    put(START + 24 + 60, &(headers as u32).to_le_bytes());
    let entry = Entry {
        name: ".text",
        bytes: 5,
        address: 4096,
        padded: 512,
        at: headers as u32,
    };
    put(TABLE, &entry.encode());
    put(headers, b"code.");
    image
}

fn section<'a>(name: &'a str, content: &'a [u8]) -> Section<'a> {
    Section { name, content }
}

#[test]
fn sections_follow_those_of_the_stub() {
    let kernel = vec![7; 5000];
    let added = [section(".cmdline", b"a=b"), section(".linux", &kernel)];
    let image = assemble(&stub(2), &added).unwrap();
    let found = sections(&image).unwrap();
    let expected: [(&str, &[u8]); 3] = [
        (".text", b"code."),
        (".cmdline", b"a=b"),
        (".linux", &kernel),
    ];
    assert_eq!(found.len(), expected.len());
    for ((name, content), expected) in found.iter().zip(expected) {
        assert_eq!((name.as_str(), *content), expected);
    }
    // Addresses in memory follow one another at the alignment: .text at 4096.
    let headers = Headers::read(&image).unwrap();
    let word = |place: usize| u32::from_le_bytes(image[place..place + 4].try_into().unwrap());
    let address = |index: usize| word(headers.table + index * SECTION_BYTES + 12);
    assert_eq!([0, 1, 2].map(address), [4096, 8192, 12288]);
    assert_eq!(word(0x80 + 24 + 56), 12288 + 8192, "SizeOfImage");
    assert!(image.len().is_multiple_of(512));
    assert_eq!(is_signed(&image), Ok(false));
    assert_eq!(arch(&image), Ok(Arch::X86_64));
    let mut image = image;
    image[0x84..0x86].copy_from_slice(&[0x64, 0xaa]);
    assert_eq!(arch(&image), Ok(Arch::Aarch64));
}

#[test]
fn an_invalid_stub_is_rejected() {
    let with = |at: usize, byte: u8| {
        let mut image = stub(4);
        image[at] = byte;
        image
    };
    let finished = assemble(&stub(4), &[section(".linux", b"k")]).unwrap();
    for (image, expected) in [
        (
            b"\x7fELF".to_vec(),
            "expected an EFI program for x86-64 or aarch64, found `\\x7fE`",
        ),
        (
            b"MZ".to_vec(),
            "expected an EFI program for x86-64 or aarch64, found a file of 2 bytes",
        ),
        (
            with(0x84, 0),
            "expected an EFI program for x86-64 or aarch64, found signature, machine",
        ),
        (
            with(0x80 + 24 + 32, 3),
            "expected a usual alignment of sections, found ",
        ),
        (with(0x80 + 6, 0), "expected 1 to 96 sections, found 0"),
        (
            with(0x80 + 20, 16),
            "expected an optional header of at least 152 bytes, found 16 bytes",
        ),
        (
            with(0x3c, 0x30),
            "expected an EFI program for x86-64 or aarch64, found headers that begin at 48",
        ),
        (
            with(0x80 + 24 + 148, 1),
            "expected a stub without a signature, found one of ",
        ),
        (
            stub(4)[..0x200].to_vec(),
            "expected the sections within the file, found section 0",
        ),
        (
            finished,
            "expected a stub without a section .linux, found one",
        ),
    ] {
        let error = assemble(&image, &[section(".linux", b"")]).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    let six = [section(".a", b""); 6];
    let error = assemble(&with(0x80 + 24 + 240 + 3 * SECTION_BYTES, 1), &six).unwrap_err();
    let expected = ImageError::NoRoom {
        expected: 6,
        found: 2,
    };
    assert_eq!(error, expected, "something is behind the table");
}

#[test]
fn instructions_that_do_nothing_are_padding_on_aarch64() {
    let nop = 0xd503_201f_u32.to_le_bytes();
    let mut image = stub(2);
    let free = 0x80 + 24 + 240 + SECTION_BYTES..image.len() - 512;
    for word in image[free].as_chunks_mut::<4>().0 {
        *word = nop;
    }
    let added = [section(".linux", b"kernel")];
    let error = assemble(&image, &added).unwrap_err();
    assert!(matches!(error, ImageError::NoRoom { .. }), "{error}");
    image[0x84..0x86].copy_from_slice(&[0x64, 0xaa]);
    let image = assemble(&image, &added).unwrap();
    let names = sections(&image).unwrap();
    assert_eq!(names.last(), Some(&(".linux".to_owned(), &b"kernel"[..])));
}

proptest! {
    #[test]
    fn written_sections_are_read_back(contents in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..2000), 0..5)) {
        const NAMES: [&str; 5] = [".osrel", ".cmdline", ".uname", ".linux", ".initrd"];
        let added: Vec<Section<'_>> = { NAMES.iter().zip(&contents) }
            .map(|(name, content)| section(name, content))
            .collect();
        let image = assemble(&stub(5), &added).unwrap();
        let found = sections(&image).unwrap();
        let found: Vec<Section<'_>> = { found[1..].iter() }
            .map(|(name, content)| section(name, content))
            .collect();
        prop_assert_eq!(found, added);
    }

    #[test]
    fn damaged_stubs_never_panic(at in 0usize..0x400, byte: u8, cut in 0usize..0x600) {
        let mut image = stub(5);
        image[at] = byte;
        image.truncate(cut);
        let _ = assemble(&image, &[section(".linux", b"kernel")]);
        let _ = sections(&image);
    }
}
