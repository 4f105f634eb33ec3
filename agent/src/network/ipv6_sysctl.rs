//! What the kernel does with IPv6 on a device by itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use landfall_network_plan::{IpPlan, Method};

/// Where the switches of each device are. The directory is missing when the
/// kernel was started with `ipv6.disable=1`.
pub const ROOT: &str = "/proc/sys/net/ipv6/conf";

/// Sets the switches of a device for what the plan says of IPv6; `None` and off
/// are the same.
/// It has to be done before the device is switched on: with the defaults the
/// kernel would at once send router solicitations and take what comes.
///
/// # Errors
/// The switch that could not be set. A kernel without IPv6 is an error only
/// where IPv6 is asked for.
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
            // A kernel without CONFIG_IPV6_OPTIMISTIC_DAD takes its time.
            let _ = fs::write(path(name), value);
        }
    }
    if let Some(ip) = ipv6.filter(|ip| ip.method.is_automatic()) {
        for (name, value) in route_switches(ip) {
            // A kernel without CONFIG_IPV6_ROUTE_INFO takes no such routes.
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

/// Which routes the kernel takes from router advertisements, and how often it
/// asks for one.
///
/// By default it drops every route to a particular network (RFC 4191): the
/// longest prefix that it takes is 0. NetworkManager and systemd-networkd take
/// all of them.
///
/// It asks at 0, 4, 12, 28 and 60 s (RFC 7559 doubles the pause up to an hour).
/// A switch port with spanning tree forwards after 30 s, and a router that
/// nobody asks may be silent for half an hour.
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
