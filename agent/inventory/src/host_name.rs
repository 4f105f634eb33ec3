//! Reads and sets the host name.

/// Default host names: they mean that nobody has set a name. `(none)` is the kernel's
/// default.
const NAMELESS: [&str; 4] = ["", "(none)", "localhost", "localhost.localdomain"];

/// The name that a host without a name reports, as under systemd.
const FALLBACK: &str = "localhost";

/// The host name, if somebody has set one.
pub fn given() -> Option<String> {
    let name = nix::unistd::gethostname().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    (!NAMELESS.contains(&name.as_str())).then_some(name)
}

/// The kernel's host name in a form that Ironic can show. `(none)` looks like a name but
/// means that no name is set, so it becomes `localhost`.
pub fn reported(kernel: &str) -> &str {
    match kernel {
        "" | "(none)" => FALLBACK,
        name => name,
    }
}

/// The name of this host, for certificates.
pub fn of_this_host() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    reported(&name.to_string_lossy()).to_owned()
}

/// Sets the host name unless a name is already set. A better source, such as DHCP, may
/// replace this name later.
///
/// # Errors
/// If the kernel rejects the name, for example because it is longer than 64 bytes.
pub fn set_default(name: &str) -> nix::Result<()> {
    match given() {
        Some(_) => Ok(()),
        None => nix::unistd::sethostname(name),
    }
}

#[cfg(test)]
mod tests {
    use landfall_sys::skip::skip;
    use nix::sched::{CloneFlags, unshare};
    use nix::unistd::sethostname;

    use super::*;

    #[test]
    fn a_host_without_a_name_reports_localhost() {
        for (kernel, expected) in [
            ("(none)", "localhost"),
            ("", "localhost"),
            ("localhost.localdomain", "localhost.localdomain"),
            ("node7", "node7"),
        ] {
            assert_eq!(reported(kernel), expected);
        }
    }

    #[test]
    fn only_the_nameless_get_the_default() {
        // A UTS namespace for this thread, so that the machine's own name stays
        // unchanged.
        let test = || {
            if let Err(error) = unshare(CloneFlags::CLONE_NEWUTS) {
                return skip(format!("a namespace for host names: {error}"));
            }
            for (own, expected) in [
                ("localhost", Some("bmh-1")),
                ("localhost.localdomain", Some("bmh-1")),
                ("(none)", Some("bmh-1")),
                ("node7", Some("node7")),
            ] {
                sethostname(own).unwrap();
                set_default("bmh-1").unwrap();
                assert_eq!(given().as_deref(), expected, "{own}");
            }
            sethostname("localhost").unwrap();
            assert!(set_default(&"x".repeat(65)).is_err());
            assert_eq!(given(), None);
        };
        std::thread::spawn(test).join().unwrap();
    }
}
