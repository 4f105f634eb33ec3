//! What the kernel does with IPv6 on a device by itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use landfall_network_plan::Method;

/// Where the switches of each device are. The directory is missing when the
/// kernel was started with `ipv6.disable=1`.
pub const ROOT: &str = "/proc/sys/net/ipv6/conf";

/// Sets the switches of a device for a method; `None` and off are the same.
/// It has to be done before the device is switched on: with the defaults the
/// kernel would at once send router solicitations and take what comes.
///
/// # Errors
/// The switch that could not be set. A kernel without IPv6 is an error only
/// where IPv6 is asked for.
pub fn set(root: &Path, device: &str, method: Option<Method>) -> io::Result<()> {
    let wanted = method.filter(|method| *method != Method::Disabled);
    if !root.exists() {
        return match wanted {
            None => Ok(()),
            Some(_) => Err(io::Error::other("the kernel has no IPv6 (ipv6.disable=1?)")),
        };
    }
    let path =
        |name: &str| -> PathBuf { [root, Path::new(device), Path::new(name)].iter().collect() };
    if wanted.is_some() {
        for (name, value) in WITHOUT_DELAY {
            // A kernel without CONFIG_IPV6_OPTIMISTIC_DAD takes its time.
            let _ = fs::write(path(name), value);
        }
    }
    for (name, value) in switches(wanted) {
        let path = path(name);
        fs::write(&path, value)
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
    }
    Ok(())
}

/// What a kernel does by itself when a link comes up costs a static address 1.0
/// to 2.1 s until the first packet (measured; a random delay and the wait for
/// answers, RFC 4862, 5.1 and 5.4.2). With these it is 0.2 ms:
///
/// Addresses are used while the kernel still asks whether somebody else has
/// them (RFC 4429). A conflict is the exception, and then it stops using one.
///
/// That alone is not enough, as nobody may be asked for a neighbour from an
/// address that is not certain yet: the link-local one has to be. It is made of
/// the hardware address; who has the same one of these cannot be told from us
/// by any answer. So nobody is asked for it, see [`detect_duplicates`].
const WITHOUT_DELAY: [(&str, &str); 3] = [
    ("optimistic_dad", "1"),
    ("use_optimistic", "1"),
    ("dad_transmits", "0"),
];

/// Has the kernel ask for all addresses that come from now on: to be called when
/// the link-local address is there.
pub fn detect_duplicates(root: &Path, device: &str) {
    let path: PathBuf = [root, Path::new(device), Path::new("dad_transmits")]
        .iter()
        .collect();
    // Missing where the kernel has no IPv6, and nothing to ask.
    let _ = fs::write(path, "1");
}

fn switches(method: Option<Method>) -> &'static [(&'static str, &'static str)] {
    match method {
        None | Some(Method::Disabled) => &[("accept_ra", "0"), ("disable_ipv6", "1")],
        // Link-local addresses are made of the hardware address, as the
        // installed system's NetworkManager does it in its initramfs.
        Some(Method::Manual | Method::LinkLocal) => &[
            ("accept_ra", "0"),
            ("autoconf", "0"),
            ("addr_gen_mode", "0"),
            ("disable_ipv6", "0"),
        ],
        // 2: even should forwarding be on.
        Some(Method::Auto) => &[
            ("accept_ra", "2"),
            ("autoconf", "1"),
            ("use_tempaddr", "0"),
            ("addr_gen_mode", "0"),
            ("disable_ipv6", "0"),
        ],
        // No router is waited for, but only a router knows the way out.
        Some(Method::Dhcp) => &[
            ("accept_ra", "2"),
            ("autoconf", "0"),
            ("addr_gen_mode", "0"),
            ("disable_ipv6", "0"),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(methods: &[Option<Method>]) -> Vec<(String, String)> {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("eth0");
        fs::create_dir(&device).unwrap();
        for method in methods {
            set(root.path(), "eth0", *method).unwrap();
        }
        let mut found: Vec<_> = fs::read_dir(device)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                let value = fs::read_to_string(entry.path()).unwrap();
                (entry.file_name().into_string().unwrap(), value)
            })
            .collect();
        found.sort();
        found
    }

    fn value(list: &[(String, String)], name: &str) -> Option<String> {
        list.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone())
    }

    #[test]
    fn off_means_that_nothing_is_sent() {
        for method in [None, Some(Method::Disabled)] {
            let found = after(&[method]);
            assert_eq!(value(&found, "disable_ipv6").as_deref(), Some("1"));
        }
    }

    #[test]
    fn a_method_replaces_another_completely() {
        let static_after_auto = after(&[Some(Method::Auto), Some(Method::Manual)]);
        assert_eq!(value(&static_after_auto, "accept_ra").as_deref(), Some("0"));
        assert_eq!(value(&static_after_auto, "autoconf").as_deref(), Some("0"));
        let auto_after_off = after(&[None, Some(Method::Auto)]);
        assert_eq!(value(&auto_after_off, "accept_ra").as_deref(), Some("2"));
        assert_eq!(value(&auto_after_off, "disable_ipv6").as_deref(), Some("0"));
    }

    #[test]
    fn a_kernel_without_ipv6_is_an_error_only_where_it_is_wanted() {
        let missing = Path::new("/nonexistent/ipv6/conf");
        assert!(set(missing, "eth0", None).is_ok());
        assert!(set(missing, "eth0", Some(Method::Disabled)).is_ok());
        assert!(set(missing, "eth0", Some(Method::Manual)).is_err());
    }
}
