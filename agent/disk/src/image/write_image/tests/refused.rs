//! Images that are refused, before or after the first byte of the disk is written.

use uuid::Uuid;

use super::*;
use crate::fixtures::used_disk;

#[test]
fn an_image_that_uefi_cannot_boot_does_not_touch_the_disk() {
    let image = used_disk(16 << 20, 512, &[(1, "boot", Uuid::from_u128(1), 2, 4)]);
    let server = Server::of(&image);
    let disk = disk(32 << 20);
    let source = source(&server, Some(sha256(&image)));
    let options = WriteOptions {
        needs_efi: true,
        ..WriteOptions::default()
    };
    let target = open(disk.path(), 512);
    let failure = write_image_with(&source, &options, target, &http_client()).unwrap_err();
    assert_eq!(failure.class, Class::InvalidImage);
    for text in ["EFI system partition", "the disk was not touched"] {
        assert!(failure.details.contains(text), "{failure}");
    }
    assert!(content(&disk).iter().all(|&byte| byte == OLD));
}

/// The agent changes the boot partition after it has written the image, but the first
/// MiB of the image already shows whether that is possible.
#[test]
fn an_image_whose_partitions_cannot_be_changed_does_not_touch_the_disk() {
    let mut mbr = vec![0; 8 * MIB as usize];
    put_mbr(&mut mbr, &[(0x83, 2048, 2048)]);
    // The first partition of this image begins in the first MiB.
    let early = gpt_image(8 * MIB, 512);
    for (image, expected) in [
        (mbr, "expected an image with a GPT"),
        (early, "begins at byte"),
    ] {
        let server = Server::of(&image);
        let disk = disk(32 << 20);
        let source = source(&server, Some(sha256(&image)));
        let options = WriteOptions {
            needs_partitions: true,
            ..WriteOptions::default()
        };
        let open = || open(disk.path(), 512);
        let client = http_client();
        let written = write_image_with(&source, &options, open(), &client).map(drop);
        let checked = check_image(&source, &options, open(), &client);
        for failure in [written.unwrap_err(), checked.unwrap_err()] {
            assert_eq!(failure.class, Class::InvalidImage);
            for text in [expected, "the disk was not touched"] {
                assert!(failure.details.contains(text), "{failure}");
            }
        }
        assert!(content(&disk).iter().all(|&byte| byte == OLD));
    }
}

#[test]
fn a_format_that_is_not_permitted_touches_nothing() {
    let image = gpt_image(8 * MIB, 512);
    let server = Server::of(&image);
    let disk = disk(DISK);
    let mut source = source(&server, Some(sha256(&image)));
    source.formats.declared = Some("qcow2".to_owned());
    let failure = write_image(&source, open(disk.path(), 512), &http_client()).unwrap_err();
    assert_eq!(failure.class, Class::InvalidImage, "{failure}");
    assert!(failure.details.contains("found raw"), "{failure}");
    assert_untouched(&disk);
}

/// Deploy steps, subcommands and boot arguments all use one of the two functions that
/// this test calls.
#[test]
fn the_medium_of_the_image_is_not_its_target() {
    let disk = disk(DISK);
    let image = [medium_url(disk.path(), "landfall/coreos-image")];
    let source = ImageSource::new(Request::new(image), Proof::Nothing);
    let open = || open(disk.path(), 512);
    let options = WriteOptions::default();
    for failure in [
        write_image(&source, open(), &http_client()).unwrap_err(),
        check_image(&source, &options, open(), &http_client()).unwrap_err(),
    ] {
        assert!(failure.details.contains("it is the medium"), "{failure}");
    }
    assert_untouched(&disk);
}

#[test]
fn a_file_that_is_not_there_touches_nothing() {
    let gone = Server::start(|_| Reply::status(404));
    let disk = disk(DISK);
    let failure = write(&gone, b"", &disk).unwrap_err();
    assert_eq!(failure.class, Class::ImageDownloadError);
    assert!(failure.details.contains("404") && failure.details.contains(&gone.url));
    assert_untouched(&disk);
}

#[test]
fn a_mismatch_names_everything_and_leaves_no_table() {
    let image = gpt_image(8 * MIB, 512);
    for body in [image.clone(), gzip(&image)] {
        let disk = disk(DISK);
        let server = Server::of(&body);
        let failure = write(&server, b"another image", &disk).unwrap_err();
        assert_eq!(failure.class, Class::ImageChecksumError);
        for part in [
            server.url.as_str(),
            "sha256",
            &sha256(b"another image").hex(),
            &sha256(&body).hex(),
            &body.len().to_string(),
        ] {
            assert!(failure.details.contains(part), "{part} in {failure}");
        }
        assert_unbootable(&disk);
    }
}

#[test]
fn a_damaged_stream_is_a_checksum_error_when_one_was_given() {
    let image = gpt_image(8 * MIB, 512);
    let good = gzip(&image);
    let mut damaged = good.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x20;
    let truncated = good[..good.len() - 1000].to_vec();
    for body in [damaged, truncated] {
        let disk = disk(DISK);
        let failure = write(&Server::of(&body), &good, &disk).unwrap_err();
        assert_eq!(failure.class, Class::ImageChecksumError, "{failure}");
        assert!(failure.details.contains("cannot unpack gzip"), "{failure}");
        assert_unbootable(&disk);
        // The given digest is that of the damaged file itself, so the agent must blame
        // the image and not the transfer.
        let failure = write(&Server::of(&body), &body, &disk).unwrap_err();
        assert_eq!(failure.class, Class::InvalidImage, "{failure}");
        assert_unbootable(&disk);
    }
}

#[test]
fn a_truncated_raw_image_is_refused_even_with_its_checksum() {
    let image = gpt_image(8 * MIB, 512);
    let body = &image[..3_000_000];
    let disk = disk(DISK);
    let failure = write(&Server::of(body), body, &disk).unwrap_err();
    assert_eq!(failure.class, Class::InvalidImage);
    assert!(failure.details.contains("truncated"), "{failure}");
    assert_unbootable(&disk);
}

#[test]
fn larger_than_the_disk_is_refused_before_the_first_byte() {
    let image = gpt_image(16 * MIB, 512);
    for body in [image.clone(), gzip(&image), pack(Packing::Xz, &image)] {
        let disk = disk(DISK);
        let failure = write(&Server::of(&body), &body, &disk).unwrap_err();
        assert_eq!(failure.class, Class::ImageWriteError);
        assert!(
            failure.details.contains("16777216") && failure.details.contains("12582912"),
            "{failure}"
        );
        assert_untouched(&disk);
    }
}

/// The table claims a smaller size, so the agent detects that the image is too large
/// only when the disk is full.
#[test]
fn a_decompression_bomb_ends_at_the_disks_end() {
    let mut image = gpt_image(8 * MIB, 512);
    image.resize(64 << 20, 0);
    let body = gzip(&image);
    let disk = disk(DISK);
    let failure = write(&Server::of(&body), &body, &disk).unwrap_err();
    assert!(
        failure.details.contains("larger than the disk"),
        "{failure}"
    );
    assert_unbootable(&disk);
    assert_eq!(content(&disk).len() as u64, DISK);
}

#[test]
fn an_invalid_image_leaves_the_disk_untouched() {
    for (body, expected) in [
        (b"<!DOCTYPE html>".to_vec(), "web page"),
        (b"QFI\xfb\0\0\0\x03".to_vec(), "qcow2"),
        (gzip(b"QFI\xfb\0\0\0\x03"), "qcow2"),
        (vec![0; 2_000_000], "no GPT and no MBR"),
        (Vec::new(), "empty"),
    ] {
        let disk = disk(DISK);
        let failure = write(&Server::of(&body), &body, &disk).unwrap_err();
        assert_eq!(failure.class, Class::InvalidImage);
        assert!(failure.details.contains(expected), "{failure}");
        assert_untouched(&disk);
    }
}

/// An artifact store redirects clients that have not logged in to a login page, and
/// sends that page with status 200.
#[test]
fn a_login_page_is_called_by_its_url() {
    let server = Server::start(|asked| match asked.path.as_str() {
        "/image.raw" => Reply::status(302).header("Location: /login?next=hidden"),
        _ => Reply::new(200, "<!DOCTYPE html>"),
    });
    let disk = disk(DISK);
    let failure = write(&server, b"", &disk).unwrap_err();
    let (url, base) = (&server.url, &server.base);
    assert_eq!(
        failure.details,
        format!(
            "{url}, redirected to {base}/login?***: the image is no disk image: it is a web page; the disk was not touched"
        )
    );
    assert!(failure.hint.unwrap().contains("login"));
    assert_untouched(&disk);
}

/// The MBR has one partition that ends at 9 MiB. Only 3 MiB arrive, from a server
/// that sends no Content-Length.
#[test]
fn a_truncated_image_with_an_mbr_gets_no_boot_sector() {
    let mut body = vec![7; 3 << 20];
    body[..512].fill(0);
    put_mbr(&mut body, &[(0x83, 2048, 16384)]);
    let server = Server::start(move |_| {
        let mut reply = Reply::whole(&body, "\"1\"");
        reply.headers.remove(0);
        reply
    });
    let disk = disk(DISK);
    let written = write_image(
        &source(&server, None),
        open(disk.path(), 512),
        &http_client(),
    );
    let failure = written.and_then(ProvenImage::commit).unwrap_err();
    assert_eq!(failure.class, Class::InvalidImage);
    assert!(
        failure
            .details
            .contains("its partitions end at byte 9437184, it ends at byte 3145728"),
        "{failure}"
    );
    assert_unbootable(&disk);
}

/// RFC 8878, 3.1.2: a frame that decompresses to nothing.
fn skippable_frame(len: u32) -> Vec<u8> {
    let mut frame = vec![0x50, 0x2a, 0x4d, 0x18];
    frame.extend(len.to_le_bytes());
    frame.resize(8 + len as usize, 0);
    frame
}

#[test]
fn a_stream_that_unpacks_to_nothing_is_abandoned() {
    let image = zstd::bulk::compress(&gpt_image(8 * MIB, 512), 1).unwrap();
    let before = [skippable_frame(66 << 20), image.clone()].concat();
    let after = [image, skippable_frame(80 << 20)].concat();

    let untouched = disk(DISK);
    let failure = write(&Server::of(&before), &before, &untouched).unwrap_err();
    assert_eq!(failure.class, Class::InvalidImage, "{failure}");
    assert!(
        failure.details.contains("67108864 packed bytes"),
        "{failure}"
    );
    assert_untouched(&untouched);

    let disk = disk(DISK);
    let failure = write(&Server::of(&after), &after, &disk).unwrap_err();
    assert_eq!(failure.class, Class::InvalidImage, "{failure}");
    assert!(
        failure.details.contains("79691776 packed bytes"),
        "{failure}"
    );
    assert_unbootable(&disk);
}
