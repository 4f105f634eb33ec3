//! The paths of the service.

/// The longest name of a host, in bytes: as long as the name of a Kubernetes object
/// can be.
const MAX_NAME: usize = 253;
/// The length of an id in characters: 128 bits in base32.
pub(crate) const ID_LEN: usize = 26;

/// A file of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Iso,
    Initramfs,
    Ipxe,
}

impl Kind {
    /// The suffix in the path.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Iso => "iso",
            Self::Initramfs => "initramfs",
            Self::Ipxe => "ipxe",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FileKind {
    OfHost(Kind),
    /// The kernel, which is the same for all hosts.
    Kernel,
}

impl FileKind {
    /// The label in metrics, and the name in `/status.json`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OfHost(kind) => kind.name(),
            Self::Kernel => "kernel",
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            // UEFI's HTTP boot looks for this type, or for `.iso` (EDK2,
            // HttpBootSupport.c).
            Self::OfHost(Kind::Iso) => "application/vnd.efi-iso",
            Self::OfHost(Kind::Initramfs) | Self::Kernel => "application/octet-stream",
            Self::OfHost(Kind::Ipxe) => "text/plain; charset=utf-8",
        }
    }
}

/// The name of the kernel in the paths.
pub(crate) const KERNEL: &str = "vmlinuz";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// A file of a host: `/NAME.iso`, or `/ID/NAME.iso` for one version of it.
    Host {
        id: Option<&'a str>,
        name: &'a str,
        kind: Kind,
    },
    /// `/vmlinuz`, or `/KERNELID/vmlinuz` for one version of it.
    Kernel {
        id: Option<&'a str>,
    },
    /// `/`: the page for browsers.
    Page,
    Metrics,
    Status,
    Alive,
    Ready,
}

/// Looks up a path. Percent signs are not decoded: no name needs one.
pub(crate) fn parse(path: &str) -> Option<Target<'_>> {
    let path = path.strip_prefix('/')?;
    let (id, file) = match path.split_once('/') {
        None => (None, path),
        Some((id, file)) if is_id(id) => (Some(id), file),
        Some(_) => return None,
    };
    match (id, file) {
        (id, KERNEL) => return Some(Target::Kernel { id }),
        (None, "") => return Some(Target::Page),
        (None, "metrics") => return Some(Target::Metrics),
        (None, "status.json") => return Some(Target::Status),
        (None, "healthz") => return Some(Target::Alive),
        (None, "readyz") => return Some(Target::Ready),
        _ => {}
    }
    let (name, suffix) = file.rsplit_once('.')?;
    let kinds = [Kind::Iso, Kind::Initramfs, Kind::Ipxe];
    let kind = kinds.into_iter().find(|kind| kind.name() == suffix)?;
    is_served_name(name).then_some(Target::Host { id, name, kind })
}

fn is_id(text: &str) -> bool {
    text.len() == ID_LEN && text.bytes().all(|c| matches!(c, b'a'..=b'z' | b'2'..=b'7'))
}

/// Whether a host may have this name: letters, digits, `-`, `_` and `.`, and a letter
/// or digit first. BMCs and boot loaders accept these characters in a URL.
#[must_use]
pub fn is_served_name(text: &str) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    text.len() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let id = "abcdefghijklmnopqrstuvwx27";
        let host = |id, name, kind| Some(Target::Host { id, name, kind });
        for (path, expected) in [
            ("/node1.iso", host(None, "node1", Kind::Iso)),
            ("/node1.initramfs", host(None, "node1", Kind::Initramfs)),
            (
                "/a.b-c_d.example.ipxe",
                host(None, "a.b-c_d.example", Kind::Ipxe),
            ),
            ("/iso.iso.iso", host(None, "iso.iso", Kind::Iso)),
            ("/vmlinuz", Some(Target::Kernel { id: None })),
            ("/vmlinuz.iso", host(None, "vmlinuz", Kind::Iso)),
            ("/metrics", Some(Target::Metrics)),
            ("/status.json", Some(Target::Status)),
            ("/healthz", Some(Target::Alive)),
            ("/readyz", Some(Target::Ready)),
            ("/", Some(Target::Page)),
            ("//", None),
            ("", None),
            ("*", None),
            ("/node1", None),
            ("/node1.ISO", None),
            ("/node1.kernel", None),
            ("/.iso", None),
            ("/-a.iso", None),
            ("/..iso", None),
            ("/../etc/passwd.iso", None),
            ("/a/b.iso", None),
            ("//a.iso", None),
            ("/a.iso/", None),
            ("/a%2fb.iso", None),
            ("/a%2e.iso", None),
            ("/%61.iso", None),
            ("/a b.iso", None),
            ("/a\0.iso", None),
            ("/\u{e4}.iso", None),
        ] {
            assert_eq!(parse(path), expected, "{path}");
        }
        for (path, expected) in [
            (format!("/{id}/a.iso"), host(Some(id), "a", Kind::Iso)),
            (
                format!("/{id}/vmlinuz"),
                Some(Target::Kernel { id: Some(id) }),
            ),
            (format!("/{id}/metrics"), None),
            (format!("/{id}/x/a.iso"), None),
            (format!("/{id}8/a.iso"), None),
            (format!("/{}/a.iso", &id[1..]), None),
            (format!("/{}/a.iso", id.to_uppercase()), None),
            (format!("/{}.iso", "a".repeat(254)), None),
        ] {
            assert_eq!(parse(&path), expected, "{path}");
        }
    }
}
