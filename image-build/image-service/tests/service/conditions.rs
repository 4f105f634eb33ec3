//! Conditional requests and caching.

use landfall_image_service::Limits;

use crate::fixture::{Fixture, host};

#[test]
fn conditions_over_a_socket() {
    let fixture = Fixture::new();
    let paths = fixture.service.store().paths("node1").unwrap();
    let first = fixture.get(&paths.iso, &[]);
    let etag = first.header("etag").unwrap().to_owned();
    let date = first.header("last-modified").unwrap().to_owned();
    let size = first.body.len();
    let weak = format!("W/{etag}");
    let later = "Sat, 01 Jan 2000 00:00:01 GMT";
    for (headers, status, len) in [
        (&[("If-None-Match", etag.as_str())][..], 304, 0),
        (&[("If-None-Match", &weak)], 304, 0),
        (&[("If-None-Match", "\"x\"")], 200, size),
        (&[("If-Modified-Since", &date)], 304, 0),
        (&[("If-Match", &etag)], 200, size),
        (&[("If-Match", "\"x\"")], 412, 0),
        (&[("If-Unmodified-Since", &date)], 200, size),
        (&[("Range", "bytes=0-9"), ("If-Range", &etag)], 206, 10),
        (&[("Range", "bytes=0-9"), ("If-Range", &date)], 206, 10),
        (&[("Range", "bytes=0-9"), ("If-Range", &weak)], 200, size),
        (&[("Range", "bytes=0-9"), ("If-Range", later)], 200, size),
        (&[("Range", "bytes=0-9"), ("If-None-Match", &etag)], 304, 0),
    ] {
        let mut client = fixture.client();
        let answer = client.get(&paths.iso, headers);
        assert_eq!(answer.status, status, "{headers:?}");
        if status == 304 {
            assert_eq!(answer.header("etag"), Some(etag.as_str()));
            assert_eq!(answer.header("content-length"), None);
            assert_eq!(answer.header("content-type"), None);
        } else if status != 412 {
            assert_eq!(answer.body.len(), len, "{headers:?}");
        }
        // The connection stays usable.
        assert_eq!(client.get("/healthz", &[]).status, 200);
    }
}

#[test]
fn a_version_never_changes_and_the_newest_is_not_cached() {
    let fixture = Fixture::new();
    let store = fixture.service.store();
    let old = store.paths("node1").unwrap();
    let version = fixture.get(&old.iso, &[]);
    assert_eq!(version.status, 200);
    assert_eq!(
        version.header("cache-control"),
        Some("public, max-age=31536000, immutable")
    );
    let newest = fixture.get(&old.newest_iso, &[]);
    assert_eq!(newest.header("cache-control"), Some("no-store"));
    assert_eq!(newest.header("last-modified"), None);
    assert_eq!(newest.header("etag"), version.header("etag"));
    assert!(newest.body == version.body);

    // The same content again is the same version.
    assert_eq!(store.put("node1", host(1)).unwrap(), old);
    let new = store.put("node1", host(7)).unwrap();
    assert_ne!(new.id, old.id);
    // A client has read the old version, so the service keeps it.
    assert!(fixture.get(&old.iso, &[]).body == version.body);
    assert_ne!(
        fixture.get(&new.iso, &[]).header("etag"),
        version.header("etag")
    );
    let unread = store.paths("node2").unwrap();
    store.put("node2", host(8)).unwrap();
    let gone = fixture.get(&unread.iso, &[]);
    assert_eq!((gone.status, gone.header("retry-after")), (503, Some("2")));
    // After a request without a range, the client gets the newest version.
    fixture.client().ask("HEAD", &new.newest_iso, &[]);
    let changed = fixture.get(
        &new.newest_iso,
        &[
            ("Range", "bytes=0-9"),
            ("If-Range", version.header("etag").unwrap()),
        ],
    );
    assert_eq!(
        changed.status, 200,
        "another version starts at its beginning"
    );
}

#[test]
fn two_copies_of_the_service_are_the_same() {
    let one = Fixture::new();
    // Use the same ISO, because an ISO contains the time at which it was made.
    let other = Fixture::of(one.iso.clone(), Limits::default(), None);
    for path in ["/node1.iso", "/node2.initramfs", "/node3.ipxe", "/vmlinuz"] {
        let (one, other) = (one.get(path, &[]), other.get(path, &[]));
        assert_eq!(one.status, 200, "{path}");
        assert_eq!(one.header("etag"), other.header("etag"), "{path}");
        assert!(one.body == other.body, "{path}");
    }
    assert_ne!(
        one.get("/node1.iso", &[]).header("etag"),
        one.get("/node2.iso", &[]).header("etag")
    );
}
