//! The agent's own kernel arguments: `ipa-*` as Ironic and its users know
//! them, the few boot facts beside them, and `landfall.*`.

use std::net::IpAddr;
use std::time::Duration;

use crate::argument_line::{ArgumentError, ArgumentLine};
use crate::argument_value::{
    ApiVersion, ArgumentValue, CertificateCurve, HttpUrl, NtpServer, Scheme, Secret, ServiceUrls,
    StepPriority, TlsVersion,
};
use crate::cmdline::{CommandLine, Token};
use crate::mac::BootInterface;
use crate::setting::{Origin, Setting};
use crate::shown::without_secrets;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| word.to_string()).collect()
}

/// The one table of what there is. A line is a field of [`BootParams`], its
/// type, its kernel argument and its default; the struct, the reader, the
/// writer and the listing are made from it, so that none can miss a line.
macro_rules! boot_params {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $key:literal, $default:expr;)*) => {
        /// What the kernel command line says to the agent, with every default
        /// filled in. Meanings and defaults are those of Ironic's agent.
        #[derive(Clone, Debug, PartialEq)]
        pub struct BootParams {
            $($(#[$doc])* pub $field: Setting<$type>,)*
            /// `BOOTIF`: the interface that the boot loader used.
            pub boot_interface: Setting<Option<BootInterface>>,
            /// What was ignored and why, one line each.
            pub warnings: Vec<String>,
        }

        impl Default for BootParams {
            fn default() -> BootParams {
                BootParams {
                    $($field: Setting::from_default($default),)*
                    boot_interface: Setting::from_default(None),
                    warnings: Vec::new(),
                }
            }
        }

        /// Every argument that sets a field of [`BootParams`], `BOOTIF` excepted.
        pub const KEYS: &[&str] = &[$($key),*];

        impl BootParams {
            fn read_known(&mut self, line: &CommandLine) {
                $(read_last(line, $key, &mut self.$field, &mut self.warnings);)*
            }

            /// Every setting, in the order of the table, for `show-params`.
            pub fn list(&self) -> Vec<ListedSetting<'_>> {
                vec![
                    $(listed($key, &self.$field),)*
                    ListedSetting {
                        key: BOOTIF,
                        value: self.boot_interface.as_ref().map(|i| i.mac.to_string()).unwrap_or_default(),
                        origin: &self.boot_interface.origin,
                    },
                ]
            }

            /// Writes every setting that differs from its default as a kernel
            /// argument: what [`BootParams::from_command_line`] reads back.
            pub fn to_arguments(&self) -> Result<ArgumentLine, ArgumentError> {
                let default = BootParams::default();
                let mut line = ArgumentLine::new();
                $(if self.$field.value != default.$field.value {
                    line.push($key, Some(&self.$field.to_text()))?;
                })*
                if let Some(interface) = &self.boot_interface.value {
                    line.push(BOOTIF, Some(&interface.text))?;
                }
                Ok(line)
            }
        }
    };
}

boot_params! {
    /// Ironic's API.
    api_url: Option<ServiceUrls> = "ipa-api-url", None;
    /// Look for Ironic by multicast DNS when no URL is given.
    use_mdns: bool = "ipa-use-mdns", false;
    /// Where the inventory is posted; inspection takes place only when given.
    inspection_callback_url: Option<ServiceUrls> = "ipa-inspection-callback-url", None;
    /// Collectors of inspection, in order.
    inspection_collectors: Vec<String> = "ipa-inspection-collectors", words(&["default", "logs"]);
    /// How long inspection waits for addresses; zero: not at all.
    inspection_dhcp_wait_timeout: Duration = "ipa-inspection-dhcp-wait-timeout", seconds(60);
    /// Wait for an IPv4 address on every NIC rather than on the boot NIC.
    inspection_dhcp_all_interfaces: bool = "ipa-inspection-dhcp-all-interfaces", false;
    /// Benchmarks of the extra-hardware collector.
    inspection_benchmarks: Vec<String> = "ipa-inspection-benchmarks", Vec::new();
    /// Add LLDP neighbours to each interface of the inventory.
    collect_lldp: bool = "ipa-collect-lldp", false;
    /// How long to listen for an LLDP frame.
    lldp_timeout: Duration = "ipa-lldp-timeout", seconds(30);
    /// VLAN interfaces to create: `eth0.100`, `eth1` (by LLDP) or `all`.
    enable_vlan_interfaces: Vec<String> = "ipa-enable-vlan-interfaces", Vec::new();
    /// Address that the agent's API listens on; `None`: every one.
    listen_host: Option<IpAddr> = "ipa-listen-host", None;
    /// Port that the agent's API listens on.
    listen_port: u16 = "ipa-listen-port", 9999;
    /// Host in the callback URL; `None`: the source address towards Ironic.
    advertise_host: Option<String> = "ipa-advertise-host", None;
    /// Port in the callback URL.
    advertise_port: u16 = "ipa-advertise-port", 9999;
    /// Scheme in the callback URL where no TLS identity decides.
    advertise_protocol: Scheme = "ipa-advertise-protocol", Scheme::Http;
    /// NIC whose IPv4 address goes into the callback URL.
    network_interface: Option<String> = "ipa-network-interface", None;
    /// Rounds of the search for the address to advertise.
    ip_lookup_attempts: u32 = "ipa-ip-lookup-attempts", 6;
    /// Pause between two such rounds.
    ip_lookup_timeout: Duration = "ipa-ip-lookup-timeout", seconds(10);
    /// How long lookup goes on before it is given up.
    lookup_timeout: Duration = "ipa-lookup-timeout", seconds(600);
    /// First and shortest pause between two lookups.
    lookup_interval: Duration = "ipa-lookup-interval", seconds(1);
    /// Limit of one request to Ironic.
    http_request_timeout: Duration = "ipa-http-request-timeout", seconds(30);
    /// Pause before anything is done.
    hardware_initialization_delay: Duration = "ipa-hardware-initialization-delay", seconds(0);
    /// Rounds of waiting for a disk.
    disk_wait_attempts: u32 = "ipa-disk-wait-attempts", 10;
    /// Pause between two such rounds.
    disk_wait_delay: Duration = "ipa-disk-wait-delay", seconds(3);
    /// Accept any server certificate.
    insecure: bool = "ipa-insecure", false;
    /// Oldest TLS version, as server and as client.
    tls_min_version: TlsVersion = "ipa-tls-min-version", TlsVersion::V1_2;
    /// TLS 1.2 cipher suites by OpenSSL's names; empty: the modern ones.
    tls_cipher_suites: Option<String> = "ipa-tls-cipher-suites", None;
    /// Curve of the agent's own certificate.
    tls_certificate_curve: CertificateCurve = "ipa-tls-certificate-curve", CertificateCurve::P384;
    /// Server to set the clock from.
    ntp_server: Option<NtpServer> = "ipa-ntp-server", None;
    /// Token that Ironic has given beforehand (virtual media).
    agent_token: Option<Secret> = "ipa-agent-token", None;
    /// Sent with every request as `X-OpenStack-Request-ID`.
    global_request_id: Option<String> = "ipa-global-request-id", None;
    /// API version to use without asking.
    ironic_api_version: Option<ApiVersion> = "ipa-ironic-api-version", None;
    /// More logging.
    debug: bool = "ipa-debug", false;
    /// Limit of one attempt to connect to an image server.
    image_download_connection_timeout: Duration = "ipa-image-download-connection-timeout", seconds(60);
    /// Further attempts after the first.
    image_download_connection_retries: u32 = "ipa-image-download-connection-retries", 9;
    /// Pause between two such attempts.
    image_download_connection_retry_interval: Duration = "ipa-image-download-connection-retry-interval", seconds(10);
    /// Limit of a whole download; zero: none.
    image_download_max_duration: Duration = "ipa-image-download-max-duration", seconds(0);
    /// Go on when no boot entry can be written.
    ignore_bootloader_failure: bool = "ipa-ignore-bootloader-failure", false;
    /// Priority of the step inject_files; zero: not run by itself.
    inject_files_priority: StepPriority = "ipa-inject-files-priority", StepPriority(0);
    /// Refuse to erase disks that carry a shared file system.
    guard_special_filesystems: bool = "ipa-guard-special-filesystems", true;
    /// How the host was booted; see [`BootParams::is_virtual_media`].
    boot_method: Option<String> = "boot_method", None;
    /// Publisher id of the ISO that a config drive must carry to be trusted.
    publisher_id: Option<String> = "ir_pub_id", None;
    /// More logging, by our own name.
    landfall_debug: bool = "landfall.debug", false;
    /// Image that install_coreos writes when Ironic names none.
    coreos_image: Option<HttpUrl> = "landfall.coreos.image", None;
}

const BOOTIF: &str = "BOOTIF";

/// Arguments that are read and checked but that nothing obeys yet. Whoever sets
/// one is told, above all where it is about security.
const NOT_SUPPORTED_YET: &[&str] = &[
    "ipa-use-mdns",
    "ipa-inspection-collectors",
    "ipa-inspection-dhcp-wait-timeout",
    "ipa-inspection-dhcp-all-interfaces",
    "ipa-inspection-benchmarks",
    "ipa-collect-lldp",
    "ipa-lldp-timeout",
    "ipa-enable-vlan-interfaces",
    "ipa-advertise-protocol",
    "ipa-network-interface",
    "ipa-ip-lookup-attempts",
    "ipa-ip-lookup-timeout",
    "ipa-hardware-initialization-delay",
    "ipa-tls-min-version",
    "ipa-tls-cipher-suites",
    "ipa-tls-certificate-curve",
    "ipa-ntp-server",
    "ipa-image-download-connection-timeout",
    "ipa-image-download-connection-retries",
    "ipa-image-download-connection-retry-interval",
    "ipa-image-download-max-duration",
    "ipa-inject-files-priority",
    "ipa-guard-special-filesystems",
    "boot_method",
];

/// A line of `show-params`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSetting<'a> {
    /// The kernel argument that sets it.
    pub key: &'static str,
    /// Its value as text; empty when there is none.
    pub value: String,
    /// Where the value came from.
    pub origin: &'a Origin,
}

impl BootParams {
    /// Reads a command line. What cannot be read is a warning and its default.
    pub fn from_command_line(line: &CommandLine) -> BootParams {
        let mut params = BootParams::default();
        if line.was_cut() {
            params.warnings.push(format!(
                "kernel command line is longer than {} bytes; the rest is ignored",
                crate::cmdline::MAX_LENGTH
            ));
        }
        params.read_known(line);
        params.read_boot_interface(line);
        params.report_unknown(line);
        params
    }

    /// True when Ironic has attached the medium that the host booted from.
    pub fn is_virtual_media(&self) -> bool {
        self.boot_method.as_deref() == Some("vmedia")
    }

    /// True when either name of the switch asks for more logging.
    pub fn wants_debug(&self) -> bool {
        *self.debug || *self.landfall_debug
    }

    /// NetworkManager takes the key in any case, and so do we.
    fn read_boot_interface(&mut self, line: &CommandLine) {
        let last = line.tokens().iter().rev();
        let Some(token) = last
            .into_iter()
            .find(|t| t.key.eq_ignore_ascii_case(BOOTIF))
        else {
            return;
        };
        let text = token.value_or_empty();
        if text.is_empty() {
            return;
        }
        match BootInterface::parse(text) {
            Ok(interface) => {
                self.boot_interface = Setting {
                    value: Some(interface),
                    origin: Origin::KernelArgument(token.text.clone()),
                }
            }
            Err(expected) => self
                .warnings
                .push(format!("{}: {expected}; ignored", token.text)),
        }
    }

    /// What was set and read and is not obeyed yet, one line each.
    pub fn not_supported_yet(&self) -> Vec<String> {
        self.list()
            .into_iter()
            .filter(|setting| NOT_SUPPORTED_YET.contains(&setting.key))
            .filter(|setting| *setting.origin != Origin::Default)
            .map(|setting| format!("{}: not supported yet; ignored", setting.key))
            .collect()
    }

    /// Our two prefixes are ours alone, so an unknown name is most likely a
    /// mistyped one. The value stays out of the text: it may be a secret.
    fn report_unknown(&mut self, line: &CommandLine) {
        let mut seen: Vec<&str> = Vec::new();
        for Token { key, .. } in line.tokens() {
            let ours = key.starts_with("ipa-") || key.starts_with("landfall.");
            if ours && !KEYS.contains(&key.as_str()) && !seen.contains(&key.as_str()) {
                seen.push(key);
                self.warnings
                    .push(format!("{key}: not known here; ignored"));
            }
        }
    }
}

fn read_last<T: ArgumentValue>(
    line: &CommandLine,
    key: &str,
    setting: &mut Setting<T>,
    warnings: &mut Vec<String>,
) {
    let Some(token) = line.last(key) else {
        return;
    };
    let text = match token.value.as_deref().map(str::trim) {
        // Templates leave an argument empty when they have nothing to say.
        Some("") => return,
        Some(text) => text,
        // Ironic's agent skips arguments without `=`. A bare name of ours is a
        // switch that is on, as everywhere else on a kernel command line.
        None if key.starts_with("landfall.") => "1",
        None => {
            warnings.push(format!("{key}: has no value; ignored"));
            return;
        }
    };
    match T::parse(text) {
        Some(value) => {
            let shown = if T::SECRET {
                format!("{key}=***")
            } else {
                without_secrets(&token.text).into_owned()
            };
            *setting = Setting {
                value,
                origin: Origin::KernelArgument(shown),
            };
        }
        None => {
            let expected = T::EXPECTED;
            warnings.push(format!("{key}={text}: expected {expected}; default used"));
        }
    }
}

fn listed<'a, T: ArgumentValue>(key: &'static str, setting: &'a Setting<T>) -> ListedSetting<'a> {
    let text = setting.to_text();
    ListedSetting {
        key,
        value: if T::SECRET && !text.is_empty() {
            "***".to_owned()
        } else {
            without_secrets(&text).into_owned()
        },
        origin: &setting.origin,
    }
}

#[cfg(test)]
mod tests;
