//! The values of the form, and the kernel arguments that express them.

use std::net::IpAddr;

use landfall_boot_params::argument_value::{ArgumentValue as _, ServiceUrls};
use landfall_boot_params::{IpPrefix, NetArgs};
use landfall_network_plan::NetworkPlan;

use super::hidden_password::hide_password;

/// The name of the form's bond.
pub(super) const BOND: &str = "bond0";

/// The name of the form's VLAN.
pub(super) fn vlan_name(id: u16) -> String {
    format!("vlan{id}")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Nic,
    Second,
    BondMode,
    Vlan,
    Address,
    Gateway,
    Dns,
    Url,
    Try,
}

impl Field {
    pub(super) const ALL: &[Self] = &[
        Self::Nic,
        Self::Second,
        Self::BondMode,
        Self::Vlan,
        Self::Address,
        Self::Gateway,
        Self::Dns,
        Self::Url,
        Self::Try,
    ];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Nic => "NIC",
            Self::Second => "bond with",
            Self::BondMode => "bond mode",
            Self::Vlan => "VLAN",
            Self::Address => "address",
            Self::Gateway => "gateway",
            Self::Dns => "DNS servers",
            Self::Url => "provisioning URL",
            Self::Try => "",
        }
    }

    pub(super) fn next(self) -> Self {
        let at = self as usize + 1;
        Self::ALL.get(at).copied().unwrap_or(Self::Nic)
    }

    pub(super) fn previous(self) -> Self {
        let at = (self as usize).checked_sub(1);
        at.map_or(Self::Try, |at| Self::ALL[at])
    }
}

/// A fault in the values, and its field.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) field: Field,
    pub(super) text: String,
}

fn expected(field: Field, expected: &str, found: &str) -> Fault {
    let text = format!("expected {expected}, found {found:?}");
    Fault { field, text }
}

/// The texts in the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values {
    pub nic: String,
    /// The second NIC of a bond.
    pub second: Option<String>,
    /// The bond's mode: 802.3ad if true, active-backup if false.
    pub lacp: bool,
    pub vlan: String,
    pub address: String,
    pub gateway: String,
    /// Addresses, separated by commas.
    pub dns: String,
    /// The host name of the plan, which the arguments also contain.
    pub host_name: Option<String>,
    pub url: String,
    /// The provisioning URL that this boot was given outside of the form. If the operator
    /// does not change it, the form makes no argument for it. Empty if the URL contains a
    /// secret, is too long, or was set in the form.
    pub url_of_boot: String,
    /// The path that the boot arguments append to the provisioning URL for the inventory. If
    /// the operator changes the provisioning URL, the form makes both arguments.
    pub inspection_path: Option<String>,
}

impl Values {
    /// The text of a field into which the operator types. `None` for other fields.
    pub(super) fn text_mut(&mut self, field: Field) -> Option<&mut String> {
        match field {
            Field::Vlan => Some(&mut self.vlan),
            Field::Address => Some(&mut self.address),
            Field::Gateway => Some(&mut self.gateway),
            Field::Dns => Some(&mut self.dns),
            Field::Url => Some(&mut self.url),
            Field::Nic | Field::Second | Field::BondMode | Field::Try => None,
        }
    }

    /// The values as the console shows them: without the password of the URL.
    pub(super) fn with_hidden_password(&self) -> Self {
        Self {
            url: hide_password(&self.url),
            ..self.clone()
        }
    }

    /// The kernel arguments that express these values. Checks the arguments with the
    /// parsers of the kernel command line.
    pub(super) fn arguments(&self) -> Result<String, Fault> {
        let arguments = self.written()?;
        let plan = NetworkPlan::from_boot_args(&NetArgs::parse(&arguments));
        match plan.warnings.into_iter().next() {
            None => Ok(arguments),
            Some(text) => Err(Fault {
                field: Field::Address,
                text,
            }),
        }
    }

    /// Like [`arguments`](Self::arguments), but without the check by the parsers.
    pub(super) fn written(&self) -> Result<String, Fault> {
        if self.nic.is_empty() {
            return Err(expected(Field::Nic, "a NIC", "none"));
        }
        let mut arguments = Vec::new();
        let mut device = self.nic.clone();
        if let Some(second) = &self.second {
            if *second == device {
                return Err(expected(Field::Second, "another NIC", second));
            }
            let mode = if self.lacp {
                "802.3ad"
            } else {
                "active-backup"
            };
            arguments.push(format!(
                "bond={BOND}:{device},{second}:mode={mode},miimon=100"
            ));
            BOND.clone_into(&mut device);
        }
        if !self.vlan.is_empty() {
            let id = self.vlan.parse::<u16>().ok();
            let Some(id) = id.filter(|id| (1..=4094).contains(id)) else {
                return Err(expected(Field::Vlan, "a number from 1 to 4094", &self.vlan));
            };
            let name = vlan_name(id);
            arguments.push(format!("vlan={name}:{device}"));
            device = name;
        }
        arguments.push(self.ip_argument(&device)?);
        for server in self.dns.split(',').filter(|server| !server.is_empty()) {
            let Ok(server) = server.parse::<IpAddr>() else {
                let form = "IP addresses, separated by commas";
                return Err(expected(Field::Dns, form, server));
            };
            arguments.push(format!("nameserver={}", bracketed(server)));
        }
        if !self.url.is_empty() && self.url != self.url_of_boot {
            if ServiceUrls::parse(&self.url).is_none() || self.url.contains('"') {
                let found = hide_password(&self.url);
                return Err(expected(Field::Url, ServiceUrls::EXPECTED, &found));
            }
            arguments.push(format!("ipa-api-url={}", self.url));
            arguments.extend(self.inspection_argument());
        }
        Ok(arguments.join(" "))
    }

    fn inspection_argument(&self) -> Option<String> {
        let path = self.inspection_path.as_ref()?;
        let Some(ServiceUrls::Urls(urls)) = ServiceUrls::parse(&self.url) else {
            return None;
        };
        let urls: Vec<String> = urls.iter().map(|url| format!("{url}{path}")).collect();
        Some(format!("ipa-inspection-callback-url={}", urls.join(",")))
    }

    fn ip_argument(&self, device: &str) -> Result<String, Fault> {
        if self.address.is_empty() {
            if !self.gateway.is_empty() {
                let form = "no gateway, because the address is automatic";
                return Err(expected(Field::Gateway, form, &self.gateway));
            }
            return Ok(match &self.host_name {
                Some(name) => format!("ip=::::{name}:{device}:auto"),
                None => format!("ip={device}:auto"),
            });
        }
        let address = { self.address.contains('/') }
            .then(|| self.address.parse::<IpPrefix>().ok())
            .flatten();
        let Some(IpPrefix { address, length }) = address else {
            let form = "ADDRESS/LENGTH, for example 192.0.2.10/24";
            return Err(expected(Field::Address, form, &self.address));
        };
        let gateway = match self.gateway.as_str() {
            "" => String::new(),
            text => match text.parse::<IpAddr>() {
                Ok(gateway) if gateway.is_ipv4() == address.is_ipv4() => bracketed(gateway),
                Ok(_) | Err(_) => {
                    let form = "an IP address of the same family as the address";
                    return Err(expected(Field::Gateway, form, text));
                }
            },
        };
        let address = bracketed(address);
        let name = self.host_name.as_deref().unwrap_or_default();
        Ok(format!(
            "ip={address}::{gateway}:{length}:{name}:{device}:none"
        ))
    }
}

/// Formats an address for dracut's arguments: IPv6 in brackets, because `:` separates
/// fields.
fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}
