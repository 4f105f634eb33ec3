use super::*;
use crate::permission::WritePermission;

fn permission() -> WritePermission {
    WritePermission::by_operator()
}

#[test]
fn what_is_no_disk_is_refused_by_name() {
    for path in ["/dev/null", "/dev/landfall-no-such-disk", "/etc/passwd"] {
        let failure = Target::open(Path::new(path), &permission()).unwrap_err();
        assert_eq!(failure.class, Class::DeviceNotFound);
        assert!(failure.details.starts_with(path), "{failure}");
    }
    assert!(Target::open_file(Path::new("/tmp"), 512, &permission()).is_err());
}

#[test]
fn a_file_is_a_disk_of_whole_sectors() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(4096 * 3 + 100).unwrap();
    let target = Target::open_file(file.path(), 4096, &permission()).unwrap();
    assert_eq!((target.size(), target.sector_size()), (4096 * 3, 4096));
    target
        .write_at(&AlignedBuffer::padded(b"x", 4096), 8192)
        .unwrap();
    assert_eq!(target.read_at(8192, 4096).unwrap()[0], b'x');
    let beyond = target.write_at(&AlignedBuffer::zeroed(8192), 8192);
    assert_eq!(beyond.unwrap_err().class, Class::ImageWriteError);
    assert!(Target::open_file(file.path(), 520, &permission()).is_err());
}

#[test]
fn another_disk_of_the_same_name_is_told_apart() {
    use std::process::Command;

    let disk = || {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        file
    };
    let (first, second) = (disk(), disk());
    let Some(device) = crate::disk::fixtures::loop_device(first.path(), 512) else {
        return;
    };
    let target = Target::open(device.path(), &permission()).unwrap();
    let identity = target.identity().unwrap();
    drop(target);
    let again = Target::open(device.path(), &permission()).unwrap();
    again.refuse_other(identity).unwrap();
    drop(again);
    let losetup = |arguments: &[&Path]| {
        let status = Command::new("/sbin/losetup").args(arguments).status();
        status.unwrap().success()
    };
    assert!(losetup(&[Path::new("-d"), device.path()]));
    if !losetup(&[device.path(), second.path()]) {
        println!("skipped: {} was taken meanwhile", device.path().display());
        return;
    }
    let other = Target::open(device.path(), &permission()).unwrap();
    let failure = other.refuse_other(identity).unwrap_err();
    assert!(failure.details.contains("found another one"), "{failure}");
}
