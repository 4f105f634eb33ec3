//! The configuration of one address family of an interface.

use std::collections::BTreeMap;
use std::net::IpAddr;

use landfall_boot_params::IpPrefix;
use landfall_boot_params::dracut_net::VendorClass;

/// Time limit of DHCP in seconds, if no source gives one: NetworkManager's default
/// for one transaction.
pub(crate) const USUAL_DHCP_TIMEOUT: u32 = 90;

/// Keys of one section of a keyfile, with their values as written in the file.
pub type Settings = BTreeMap<String, String>;

/// The configuration of one address family of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpPlan {
    pub method: Method,
    pub addresses: Vec<IpPrefix>,
    pub gateway: Option<IpAddr>,
    /// DNS servers, in order.
    pub dns: Vec<IpAddr>,
    /// Domains to search for short names.
    pub search: Vec<String>,
    pub routes: Vec<Route>,
    /// True if the interface fails when this family fails.
    pub required: bool,
    /// Milliseconds to wait for this family although it is not required.
    pub required_timeout_ms: Option<u32>,
    /// Metric and table also apply to `gateway`, and the table to static routes. The
    /// other fields are only used if [`Method::is_automatic`].
    pub automatic: Automatic,
    /// Settings of this family that only NetworkManager needs, like
    /// [`Profile::settings`].
    pub settings: Settings,
}

/// The source of the addresses of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// IPv4: DHCP. IPv6: router advertisements, and DHCP if they ask for it.
    Auto,
    /// Only the static addresses.
    Manual,
    /// Only a link-local address.
    LinkLocal,
    /// The family is off.
    Disabled,
    /// DHCP without router advertisements (IPv6).
    Dhcp,
}

/// The details of DHCP and router advertisements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Automatic {
    /// Ignore the DNS servers that the network offers.
    pub ignore_dns: bool,
    /// Ignore the routes that the network offers, including its gateway.
    pub ignore_routes: bool,
    /// Use no default route over this interface.
    pub never_default: bool,
    /// Metric of the routes that the network offers, and of `gateway`.
    pub metric: Option<u32>,
    /// Routing table of the routes that DHCP offers, of `gateway`, and of static routes
    /// without a table of their own; `None`: the main table.
    pub table: Option<u32>,
    /// Time limit of DHCP in seconds.
    pub timeout: Option<u32>,
    /// Host name that DHCP sends.
    pub host_name: Option<String>,
    /// Client identifier that DHCP sends; its first byte is the type.
    pub client_id: Option<Vec<u8>>,
    /// Vendor class that DHCP sends (IPv4).
    pub vendor_class: Option<VendorClass>,
    /// Differentiated services code point of the client's DHCP packets (IPv4).
    pub dscp: Option<u8>,
    /// The kind of IPv6 network in network_data: `dhcp`, `slaac`, `stateless` or
    /// `stateful`. Only informative, since the router advertisements decide.
    pub mode: Option<&'static str>,
}

/// A static route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destination as given; bits after the prefix may be set.
    pub destination: IpPrefix,
    /// Next hop; `None`: the destination is on the link.
    pub via: Option<IpAddr>,
    pub kind: RouteKind,
    pub metric: Option<u32>,
    /// Routing table; `None`: the source names no table, so [`Automatic::table`]
    /// applies.
    pub table: Option<u32>,
    /// Further options, by NetworkManager's names and in the order in which the writer
    /// writes them: `weight`, `mtu`, ...
    pub options: Vec<(&'static str, String)>,
}

/// What a route does with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteKind {
    /// Forwards it.
    #[default]
    Unicast,
    /// Drops it.
    Blackhole,
    /// Drops it and reports that the destination is unreachable.
    Unreachable,
    /// Drops it and reports that the route is prohibited.
    Prohibit,
}

impl IpPlan {
    /// A family with this method and without any other configuration.
    pub(crate) fn new(method: Method) -> IpPlan {
        IpPlan {
            method,
            addresses: Vec::new(),
            gateway: None,
            dns: Vec::new(),
            search: Vec::new(),
            routes: Vec::new(),
            required: false,
            required_timeout_ms: None,
            automatic: Automatic::default(),
            settings: Settings::new(),
        }
    }
}

impl Automatic {
    /// The client identifier in its usual form: `00:61:62`.
    pub(crate) fn client_id_text(&self) -> Option<String> {
        let bytes = self.client_id.as_ref()?.iter();
        let bytes: Vec<_> = bytes.map(|byte| format!("{byte:02x}")).collect();
        Some(bytes.join(":"))
    }
}

impl Route {
    /// Table and options as a keyfile writes them: `table=254,mtu=1400`.
    pub(crate) fn options_text(&self) -> String {
        let table = self.table.map(|table| format!("table={table}"));
        let options = self.options.iter();
        let options = options.map(|(name, value)| format!("{name}={value}"));
        let words: Vec<_> = table.into_iter().chain(options).collect();
        words.join(",")
    }
}

impl Method {
    /// True if the network provides the addresses.
    pub fn is_automatic(self) -> bool {
        matches!(self, Method::Auto | Method::Dhcp)
    }
}

/// Parses two or more hexadecimal bytes joined by colons. Any other text becomes its
/// bytes with the type 0 in front (nm-settings-nmcli(5), ipv4.dhcp-client-id).
pub(crate) fn client_id_bytes(text: &str) -> Vec<u8> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|digits| {
            u8::from_str_radix(digits, 16)
                .ok()
                .filter(|_| digits.len() <= 2)
        })
        .collect();
    match bytes {
        Some(bytes) if bytes.len() > 1 => bytes,
        _ => [&[0], text.as_bytes()].concat(),
    }
}
