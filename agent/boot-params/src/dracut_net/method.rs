//! The method field of `ip=`.

/// How an interface gets its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IpMethod {
    /// `none`, `off`: only the static addresses.
    None,
    /// `dhcp`, `single-dhcp`: DHCPv4, and it has to succeed.
    Dhcp,
    /// `dhcp6`, `auto6`: IPv6 by router advertisements, and it has to succeed.
    Dhcp6,
    /// `dhcp,dhcp6`: DHCPv4, and IPv6 by router advertisements. NetworkManager waits for
    /// both, but requires neither.
    DhcpAndDhcp6,
    /// `link6`: an IPv6 link-local address only.
    LinkLocal6,
    /// `auto`, `on`, `any` or empty: any method that works.
    Auto,
    /// `ibft`, `fw`: from the firmware's iSCSI table.
    Firmware,
}

impl IpMethod {
    /// Parses the method. `None` if NetworkManager does not support it, for example
    /// dracut's `either6`.
    pub(super) fn parse(text: &str) -> Option<IpMethod> {
        match text.trim() {
            "" | "auto" | "on" | "any" => Some(IpMethod::Auto),
            "none" | "off" => Some(IpMethod::None),
            "dhcp" | "single-dhcp" => Some(IpMethod::Dhcp),
            "dhcp6" | "auto6" => Some(IpMethod::Dhcp6),
            "link6" => Some(IpMethod::LinkLocal6),
            "ibft" | "fw" => Some(IpMethod::Firmware),
            list if list.contains(',') => IpMethod::parse_list(list),
            _ => None,
        }
    }

    /// Parses a list of methods, which dracut tries one after the other. Here a list is
    /// valid only if it has the same meaning as a single method, or as DHCP for both
    /// families.
    fn parse_list(text: &str) -> Option<IpMethod> {
        let words = text.split(',').map(str::trim).filter(|w| !w.is_empty());
        let mut methods = words.map(IpMethod::parse).collect::<Option<Vec<_>>>()?;
        methods.sort();
        methods.dedup();
        if methods.contains(&IpMethod::Auto) {
            methods.retain(|method| *method != IpMethod::Dhcp6);
        }
        match methods[..] {
            [one] => Some(one),
            [IpMethod::Dhcp, IpMethod::Dhcp6] => Some(IpMethod::DhcpAndDhcp6),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_aliases_and_lists() {
        use IpMethod::*;
        for (text, expected) in [
            ("", Some(Auto)),
            ("any", Some(Auto)),
            ("off", Some(IpMethod::None)),
            ("single-dhcp", Some(Dhcp)),
            ("auto6", Some(Dhcp6)),
            ("fw", Some(Firmware)),
            ("link6", Some(LinkLocal6)),
            ("dhcp,dhcp6", Some(DhcpAndDhcp6)),
            ("auto6,dhcp", Some(DhcpAndDhcp6)),
            ("dhcp,", Some(Dhcp)),
            ("dhcp,dhcp", Some(Dhcp)),
            (",", Option::None),
            ("dhcp,link6", Option::None),
            ("auto,dhcp", Option::None),
            ("auto6,auto", Some(Auto)),
            ("none,dhcp", Option::None),
            ("dhcp,dhcp6,off", Option::None),
            ("either6", Option::None),
            ("DHCP", Option::None),
            ("dhcp4", Option::None),
        ] {
            assert_eq!(IpMethod::parse(text), expected, "{text:?}");
        }
    }
}
