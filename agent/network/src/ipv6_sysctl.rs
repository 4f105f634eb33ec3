//! Sets what the kernel does by itself with IPv6 on a device.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use landfall_network_plan::{IpPlan, Method};

/// The directory with the switches of each device. It is missing if the kernel was
/// started with `ipv6.disable=1`.
pub const ROOT: &str = "/proc/sys/net/ipv6/conf";

/// Sets the switches of a device as the plan's IPv6 settings require. If `ipv6` is
/// `None`, IPv6 is off.
///
/// Call this before the device is switched on. With the default switches, the kernel
/// would send router solicitations at once and accept the answers.
///
/// # Errors
/// If a switch cannot be set; the message names its file. A kernel without IPv6 is
/// an error only if the plan uses IPv6.
pub fn set(root: &Path, device: &str, ipv6: Option<&IpPlan>) -> io::Result<()> {
    let ipv6 = ipv6.filter(|ip| ip.method != Method::Disabled);
    let wanted = ipv6.map(|ip| ip.method);
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
            // Ignore an error: without CONFIG_IPV6_OPTIMISTIC_DAD the kernel has no
            // such switch, and the host can use its addresses only later.
            let _ = fs::write(path(name), value);
        }
    }
    if let Some(ip) = ipv6.filter(|ip| ip.method.is_automatic()) {
        for (name, value) in route_switches(ip) {
            // Ignore an error: without CONFIG_IPV6_ROUTE_INFO the kernel has no such
            // switch, and ignores advertised routes to specific networks.
            let _ = fs::write(path(name), value);
        }
    }
    for (name, value) in switches(wanted) {
        let path = path(name);
        fs::write(&path, value).map_err(|error| {
            io::Error::other(format!("cannot write to {}: {error}", path.display()))
        })?;
    }
    Ok(())
}

/// Switches that let the host use a static address at once. By default the first
/// packet leaves 1.0 to 2.1 s after the link comes up (measured; a random delay and
/// the wait for answers, RFC 4862, 5.1 and 5.4.2). With these switches it takes 0.2
/// ms.
///
/// The kernel uses optimistic addresses while it still checks for duplicates (RFC 4429).
/// If it finds a duplicate, which is rare, it stops using the address.
///
/// Optimistic addresses alone are not sufficient. Neighbour discovery needs a source
/// address that is not optimistic, so the link-local address must be valid at once. It is
/// derived from the hardware address. A check of it is useless: a machine with the same
/// link-local address also has the same hardware address, and its answer looks like this
/// machine's own. So the kernel does not check the link-local address; see
/// [`detect_duplicates`].
const WITHOUT_DELAY: [(&str, &str); 3] = [
    ("optimistic_dad", "1"),
    ("use_optimistic", "1"),
    ("dad_transmits", "0"),
];

/// Makes the kernel check for duplicates of every address that is added later. Call this
/// once the link-local address exists.
pub fn detect_duplicates(root: &Path, device: &str) {
    let path: PathBuf = [root, Path::new(device), Path::new("dad_transmits")]
        .iter()
        .collect();
    // The file is missing if the kernel has no IPv6. Then there is no address to check.
    let _ = fs::write(path, "1");
}

/// Which routes the kernel accepts from router advertisements, and how often it
/// asks for an advertisement.
///
/// By default the kernel drops every route to a specific network (RFC 4191),
/// because it accepts only prefix length 0. NetworkManager and systemd-networkd
/// accept all lengths.
///
/// By default the kernel sends solicitations at 0, 4, 12, 28 and 60 s (RFC 7559 doubles
/// the pause up to an hour). A switch port with spanning tree forwards after 30 s, and
/// a router that receives no solicitation may send nothing for half an hour. So the
/// longest pause is set to 8 s.
fn route_switches(ip: &IpPlan) -> [(&'static str, &'static str); 3] {
    let automatic = &ip.automatic;
    let longest_prefix = match automatic.ignore_routes {
        true => "0",
        false => "128",
    };
    let default_route = match automatic.ignore_routes || automatic.never_default {
        true => "0",
        false => "1",
    };
    [
        ("accept_ra_rt_info_max_plen", longest_prefix),
        ("accept_ra_defrtr", default_route),
        ("router_solicitation_max_interval", "8"),
    ]
}

fn switches(method: Option<Method>) -> &'static [(&'static str, &'static str)] {
    match method {
        None | Some(Method::Disabled) => &[("accept_ra", "0"), ("disable_ipv6", "1")],
        // The kernel derives link-local addresses from the hardware address, as
        // NetworkManager does in the initramfs of the installed system.
        Some(Method::Manual | Method::LinkLocal) => &[
            ("accept_ra", "0"),
            ("autoconf", "0"),
            ("addr_gen_mode", "0"),
            ("disable_ipv6", "0"),
        ],
        // 2: accept advertisements even if forwarding is on.
        Some(Method::Auto) => &[
            ("accept_ra", "2"),
            ("autoconf", "1"),
            ("use_tempaddr", "0"),
            ("addr_gen_mode", "0"),
            ("disable_ipv6", "0"),
        ],
        // DHCP starts without a router. Accept advertisements anyway, because only a
        // router announces the default route.
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
    use landfall_boot_params::{CommandLine, NetArgs};
    use landfall_network_plan::NetworkPlan;

    use super::*;

    fn plan(method: Method) -> IpPlan {
        let args = NetArgs::from_command_line(&CommandLine::parse("ip=eth0:auto"));
        let plan = NetworkPlan::for_boot(&args);
        let mut ip = plan.interfaces[0].ipv6.clone().unwrap();
        ip.method = method;
        ip
    }

    fn after(methods: &[Option<Method>]) -> Vec<(String, String)> {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("eth0");
        fs::create_dir(&device).unwrap();
        for method in methods {
            set(root.path(), "eth0", method.map(plan).as_ref()).unwrap();
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
        assert!(set(missing, "eth0", Some(&plan(Method::Disabled))).is_ok());
        assert!(set(missing, "eth0", Some(&plan(Method::Manual))).is_err());
    }

    #[test]
    fn the_plan_decides_which_advertised_routes_are_taken() {
        for (ignore_routes, never_default, networks, default) in [
            (false, false, "128", "1"),
            (false, true, "128", "0"),
            (true, false, "0", "0"),
        ] {
            let mut ip = plan(Method::Auto);
            ip.automatic.ignore_routes = ignore_routes;
            ip.automatic.never_default = never_default;
            let switches = route_switches(&ip);
            assert_eq!(switches[0], ("accept_ra_rt_info_max_plen", networks));
            assert_eq!(switches[1], ("accept_ra_defrtr", default));
        }
    }
}
