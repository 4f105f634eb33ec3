//! The store: what it refuses, and how its content changes.

use std::fs;
use std::sync::Arc;

use landfall_host_media::HostVersion;
use landfall_host_media::fixtures::Layout;
use landfall_image_service::{Base, BaseFiles, Limits};

use crate::fixture::{Fixture, host};

#[test]
fn hosts_come_and_go() {
    let fixture = Fixture::new();
    let store = fixture.service.store();
    assert!(store.remove("node1") && !store.remove("node1"));
    assert_eq!(fixture.get("/node1.iso", &[]).status, 404);
    store.set_ready(false);
    assert_eq!(fixture.get("/node1.iso", &[]).status, 503);
    assert_eq!(fixture.get("/readyz", &[]).status, 503);
    assert_eq!(fixture.get("/healthz", &[]).status, 200);
    store.put("node1", host(1)).unwrap();
    store.set_ready(true);
    assert_eq!(fixture.get("/node1.iso", &[]).status, 200);
    assert_eq!(fixture.get("/readyz", &[]).status, 200);
}

#[test]
fn unservable_hosts_are_rejected_at_once() {
    let layout = Layout {
        embed_size: 4096,
        ..Layout::default()
    };
    let fixture = Fixture::with(layout, Limits::default(), None);
    let store = fixture.service.store();
    let large = || HostVersion::default().with_file("a", vec![b'x'; 5000]);
    let error = store.put("node1", large()).unwrap_err().to_string();
    assert!(
        error.starts_with("host node1: boot/embed.img: expected at most 4096 bytes for this host"),
        "{error}"
    );
    for name in ["", "a/b", "a%b", "../a", "a b", ".a", &"a".repeat(254)] {
        assert!(store.put(name, host(1)).is_err(), "{name}");
    }
    let bad_path = HostVersion::default().with_file("../x", "");
    assert!(store.put("node1", bad_path).is_err());
    // The old content is still there.
    assert!(fixture.get("/node1.iso", &[]).body == fixture.expected_iso(1));

    let hosts = vec![("a".to_owned(), host(1)), ("b".to_owned(), large())];
    assert_eq!(store.replace(store.base(), hosts).unwrap_err().len(), 1);
    assert_eq!(store.names(), ["node1", "node2", "node3"]);
}

#[test]
fn a_new_base_changes_every_version() {
    let fixture = Fixture::new();
    let store = fixture.service.store();
    let before = store.paths("node1").unwrap();
    let path = fixture.directory.path().join("new.iso");
    let layout = Layout {
        kernel_size: 50_000,
        ..Layout::default()
    };
    fs::write(&path, landfall_host_media::fixtures::base_iso(layout)).unwrap();
    let files = BaseFiles {
        iso: path.clone(),
        ramdisk: None,
        kernel: None,
    };
    // A transfer in progress continues to its end with the old base.
    let mut slow = fixture.client();
    slow.send(b"GET /node1.iso HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(slow.head().unwrap().status, 200);
    let old = fixture.expected_iso(1);
    let base = Arc::new(Base::load(&files).unwrap());
    let hosts = vec![("node1".to_owned(), host(1))];
    store.replace(base, hosts).unwrap();
    let mut body = vec![0; old.len()];
    slow.read_all(&mut body);
    assert!(body == old);
    assert_ne!(store.paths("node1").unwrap().id, before.id);
    assert_eq!(store.len(), 1);
    assert_eq!(fixture.get("/vmlinuz", &[]).body.len(), 50_000);
    // The kernel of another base would not fit the modules of the ramdisk.
    let after = store.paths("node1").unwrap();
    assert_eq!(fixture.get(&after.kernel, &[]).body.len(), 50_000);
    assert_ne!(fixture.get(&before.kernel, &[]).body.len(), 50_000);
    store.remove("node1");
    store.drop_unused();
    assert_eq!(fixture.get(&before.kernel, &[]).status, 503);
    store.put("node1", host(1)).unwrap();

    // The service has copied the base, so it does not need the files any more.
    let whole = fixture.get("/node1.iso", &[]).body;
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(0)
        .unwrap();
    assert!(fixture.get("/node1.iso", &[]).body == whole);
    let error = Base::load(&files).unwrap_err();
    assert!(error.to_string().contains("new.iso"), "{error}");
}

/// A BMC reads an ISO by many requests for parts, and does not look at the ETag.
#[test]
fn a_client_that_reads_parts_gets_one_version() {
    let fixture = Fixture::new();
    let store = fixture.service.store();
    let old = fixture.expected_iso(1);
    let part = |path: &str, range: std::ops::Range<usize>| {
        let value = format!("bytes={}-{}", range.start, range.end - 1);
        let answer = fixture.get(path, &[("Range", &value)]);
        assert_eq!(answer.status, 206);
        answer.body
    };
    let middle = old.len() / 2;
    let versioned = store.paths("node1").unwrap().iso;
    assert!(part("/node1.iso", 0..middle) == old[..middle]);

    // Another network for the host, then another base for all hosts.
    store.put("node1", host(7)).unwrap();
    assert!(part("/node1.iso", middle..old.len()) == old[middle..]);
    let path = fixture.directory.path().join("new.iso");
    let layout = Layout {
        kernel_size: 50_000,
        ..Layout::default()
    };
    fs::write(&path, landfall_host_media::fixtures::base_iso(layout)).unwrap();
    let files = BaseFiles {
        iso: path,
        ramdisk: None,
        kernel: None,
    };
    let base = Arc::new(Base::load(&files).unwrap());
    store
        .replace(base, vec![("node1".to_owned(), host(7))])
        .unwrap();
    assert!(part("/node1.iso", middle..old.len()) == old[middle..]);
    assert!(part(&versioned, middle..old.len()) == old[middle..]);

    // A HEAD begins again: the BMC wants to know the new size.
    let head = fixture.client().ask("HEAD", "/node1.iso", &[]);
    let size: usize = head.header("content-length").unwrap().parse().unwrap();
    assert_ne!(size, old.len());
    let new = fixture.get("/node1.iso", &[]).body;
    assert!(part("/node1.iso", 0..size) == new);

    // Only one base is kept in addition to the present one.
    let present = store.base();
    for kernel_size in [60_000, 70_000] {
        let layout = Layout {
            kernel_size,
            ..Layout::default()
        };
        fs::write(&files.iso, landfall_host_media::fixtures::base_iso(layout)).unwrap();
        let base = Arc::new(Base::load(&files).unwrap());
        let hosts = vec![("node1".to_owned(), host(7))];
        store.replace(base, hosts).unwrap();
        part("/node1.iso", 0..100);
    }
    assert_eq!(Arc::strong_count(&present), 1);
    store.remove("node1");
    assert_eq!(fixture.get(&versioned, &[]).status, 503, "withdrawn");
}
