//! The table of all settings that have an effect, from which the macro `boot_params!`
//! generates their code.

use std::net::IpAddr;
use std::time::Duration;

use super::assign::{GivenText, assign};
use super::ignored::IGNORED;
use super::listing::ListedSetting;
use super::names::{Names, argument, both, file, lookup_only};
use crate::argument_value::{
    ApiVersion, CertificateCurve, ConsoleMode, HttpUrl, ImageServerAuth, NtpServer, RequestId,
    Scheme, Secret, ServiceUrls, StepPriority, TlsVersion, WebhookUrl,
};
use crate::image_urls::ImageUrls;
use crate::mac::BootInterface;
use crate::setting::Setting;
use crate::syslog_server::SyslogServer;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| word.to_string()).collect()
}

/// The table of all settings that have an effect. Each line gives a field of
/// [`BootParams`], its type, its names and its default. The macro generates the struct,
/// the readers and the list from the table, so that each of them contains every
/// setting.
macro_rules! boot_params {
    ($($(#[doc = $doc:literal])* $field:ident: $type:ty = $names:expr, $default:expr;)*) => {
        /// The agent's settings, with every default filled in. For settings that Ironic's
        /// agent has, the meaning and the default are the same as there.
        #[derive(Clone, Debug, PartialEq)]
        pub struct BootParams {
            $($(#[doc = $doc])* pub $field: Setting<$type>,)*
            /// `BOOTIF`: the interface that the boot loader used.
            pub boot_interface: Setting<Option<BootInterface>>,
            /// The texts that the sources give for the settings in [`IGNORED`], in the
            /// order of that list.
            pub ignored: Vec<Setting<Option<String>>>,
            /// What was ignored and why, one line each.
            pub warnings: Vec<String>,
        }

        impl Default for BootParams {
            fn default() -> BootParams {
                BootParams {
                    $($field: Setting::from_default($default),)*
                    boot_interface: Setting::from_default(None),
                    ignored: vec![Setting::from_default(None); IGNORED.len()],
                    warnings: Vec::new(),
                }
            }
        }

        /// The external names of each field of [`BootParams`], except `BOOTIF` and
        /// [`ignored`](BootParams::ignored).
        pub const NAMES: &[Names] = &[$($names),*];

        /// What each of [`NAMES`] means, for docs/kernel-arguments.md.
        #[cfg(test)]
        pub(super) const MEANINGS: &[&str] = &[$(concat!($($doc),*)),*];

        impl BootParams {
            /// Assigns to every setting the text that `text_for` returns for its names.
            /// If it returns `None`, the setting stays unchanged.
            pub(super) fn assign_each<'a>(&mut self, text_for: impl Fn(&'static Names) -> Option<GivenText<'a>>) {
                $({
                    const NAMES: &Names = &$names;
                    if let Some(given) = text_for(NAMES) {
                        assign(&mut self.$field, given, &mut self.warnings);
                    }
                })*
                for (setting, ignored) in self.ignored.iter_mut().zip(IGNORED) {
                    if let Some(given) = text_for(&ignored.names) {
                        assign(setting, given, &mut self.warnings);
                    }
                }
            }

            pub fn list(&self) -> Vec<ListedSetting<'_>> {
                let mut list = vec![
                    $(ListedSetting::new($names.shown(), &self.$field),)*
                    ListedSetting::of_boot_interface(&self.boot_interface),
                ];
                let ignored = self.ignored.iter().zip(IGNORED);
                list.extend(ignored.map(|(setting, ignored)| {
                    ListedSetting::new(ignored.names.shown(), setting)
                }));
                list
            }
        }
    };
}

boot_params! {
    /// Ironic's API: one or more URLs, or `mdns`. The agent uses the first one that answers.
    api_url: Option<ServiceUrls> = both("ipa-api-url", "api_url"), None;
    /// Search for Ironic by multicast DNS if no URL is given.
    use_mdns: bool = both("ipa-use-mdns", "mdns.use_mdns"), false;
    /// Where the agent posts the inventory: one or more URLs, or `mdns`. Without a
    /// value the agent inspects only if `ipa-api-url` and `ipa-inspection-collectors`
    /// are given.
    inspection_callback_url: Option<ServiceUrls> = both("ipa-inspection-callback-url", "inspection_callback_url"), None;
    /// Collectors of the inspection, in order.
    inspection_collectors: Vec<String> = both("ipa-inspection-collectors", "inspection_collectors"), words(&["default", "logs"]);
    /// How long the inspection waits for addresses; zero: it does not wait.
    inspection_dhcp_wait_timeout: Duration = both("ipa-inspection-dhcp-wait-timeout", "inspection_dhcp_wait_timeout"), seconds(60);
    /// Wait for an address on every NIC, not only on the boot NIC.
    inspection_dhcp_all_interfaces: bool = both("ipa-inspection-dhcp-all-interfaces", "inspection_dhcp_all_interfaces"), false;
    /// Add the LLDP neighbours of each NIC to the inventory.
    collect_lldp: bool = both("ipa-collect-lldp", "collect_lldp"), false;
    /// How long the agent listens for an LLDP frame.
    lldp_timeout: Duration = both("ipa-lldp-timeout", "lldp_timeout"), seconds(30);
    /// VLAN interfaces to create: `eth0.100`, `eth1` (the VLANs that LLDP reports) or `all`.
    enable_vlan_interfaces: Vec<String> = both("ipa-enable-vlan-interfaces", "enable_vlan_interfaces"), Vec::new();
    /// Address that the agent's API listens on. Default: all addresses.
    listen_host: Option<IpAddr> = both("ipa-listen-host", "listen_host"), None;
    /// Port that the agent's API listens on.
    listen_port: u16 = both("ipa-listen-port", "listen_port"), 9999;
    /// Host in the callback URL. Default: the source address of connections to Ironic.
    advertise_host: Option<String> = both("ipa-advertise-host", "advertise_host"), None;
    /// Port in the callback URL.
    advertise_port: u16 = both("ipa-advertise-port", "advertise_port"), 9999;
    /// Scheme of the callback URL if the agent has no TLS certificate.
    advertise_protocol: Scheme = both("ipa-advertise-protocol", "advertise_protocol"), Scheme::Http;
    /// NIC whose IPv4 address becomes the host of the callback URL.
    network_interface: Option<String> = both("ipa-network-interface", "network_interface"), None;
    /// How often the agent looks for the address to advertise.
    ip_lookup_attempts: u32 = both("ipa-ip-lookup-attempts", "ip_lookup_attempts"), 6;
    /// Pause between two of these attempts.
    ip_lookup_timeout: Duration = both("ipa-ip-lookup-timeout", "ip_lookup_sleep"), seconds(10);
    /// How long the agent repeats the lookup before it fails.
    lookup_timeout: Duration = both("ipa-lookup-timeout", "lookup_timeout"), seconds(600);
    /// First and shortest pause between two lookups.
    lookup_interval: Duration = both("ipa-lookup-interval", "lookup_interval"), seconds(1);
    /// Time limit of one request to Ironic.
    http_request_timeout: Duration = both("ipa-http-request-timeout", "http_request_timeout"), seconds(30);
    /// Pause before the agent does anything, for slow hardware.
    hardware_initialization_delay: Duration = both("ipa-hardware-initialization-delay", "hardware_initialization_delay"), seconds(0);
    /// How often the agent looks for a disk.
    disk_wait_attempts: u32 = both("ipa-disk-wait-attempts", "disk_wait_attempts"), 10;
    /// Pause between two of these attempts.
    disk_wait_delay: Duration = both("ipa-disk-wait-delay", "disk_wait_delay"), seconds(3);
    /// Accept any certificate of Ironic and of image servers.
    insecure: bool = both("ipa-insecure", "insecure"), false;
    /// Oldest TLS version that the agent accepts, as server and as client.
    tls_min_version: TlsVersion = both("ipa-tls-min-version", "tls_min_version"), TlsVersion::V1_2;
    /// TLS 1.2 cipher suites by OpenSSL's names. Default: the ECDHE suites with AES-GCM or ChaCha20.
    tls_cipher_suites: Option<String> = both("ipa-tls-cipher-suites", "tls_cipher_suites"), None;
    /// Curve of the agent's own certificate.
    tls_certificate_curve: CertificateCurve = both("ipa-tls-certificate-curve", "tls_certificate_curve"), CertificateCurve::P384;
    /// NTP server that the agent sets the clock from.
    ntp_server: Option<NtpServer> = both("ipa-ntp-server", "ntp_server"), None;
    /// Token that Ironic has put on the virtual media.
    agent_token: Option<Secret> = both("ipa-agent-token", "agent_token"), None;
    /// The agent sends it with every request as `X-OpenStack-Request-ID`.
    global_request_id: Option<RequestId> = both("ipa-global-request-id", "global_request_id"), None;
    /// Version of Ironic's API to use. Default: the agent asks Ironic.
    ironic_api_version: Option<ApiVersion> = both("ipa-ironic-api-version", "ironic_api_version"), None;
    /// Log debug messages as well.
    debug: bool = both("ipa-debug", "debug"), false;
    /// Time limit of one attempt to connect to an image server.
    image_download_connection_timeout: Duration = both("ipa-image-download-connection-timeout", "image_download_connection_timeout"), seconds(60);
    /// Number of retries after the first attempt.
    image_download_connection_retries: u32 = both("ipa-image-download-connection-retries", "image_download_connection_retries"), 9;
    /// Pause between two of these attempts.
    image_download_connection_retry_interval: Duration = both("ipa-image-download-connection-retry-interval", "image_download_connection_retry_interval"), seconds(10);
    /// Time limit of a whole download; zero: no limit.
    image_download_max_duration: Duration = both("ipa-image-download-max-duration", "image_download_max_duration"), seconds(0);
    /// Continue if the firmware refuses the boot entry or the image has no loader for this machine.
    ignore_bootloader_failure: bool = both("ipa-ignore-bootloader-failure", "ignore_bootloader_failure"), false;
    /// Priority of the step inject_files; zero: Ironic runs it only on request.
    inject_files_priority: StepPriority = both("ipa-inject-files-priority", "inject_files_priority"), StepPriority(0);
    /// Refuse to erase disks that hold a cluster file system.
    guard_special_filesystems: bool = both("ipa-guard-special-filesystems", "guard_special_filesystems"), true;
    /// How the host was booted. Ironic sets `vmedia` for virtual media.
    boot_method: Option<String> = argument("boot_method"), None;
    /// Publisher ID that a medium must have before the agent reads its configuration. Ironic sets it.
    publisher_id: Option<String> = argument("ir_pub_id"), None;
    /// The ISO that the host booted from, named by the modification date of its volume. The boot menu of our ISO adds it.
    boot_medium: Option<String> = argument("landfall.medium"), None;
    /// Same as `ipa-debug`; one of the two is enough.
    landfall_debug: bool = both("landfall.debug", "landfall.debug"), false;
    /// Image that install_coreos writes if Ironic names none: one or more URLs (`http`, `https`, `file`) of the same image.
    coreos_image: Option<ImageUrls> = both("landfall.coreos.image", "landfall.coreos_image"), None;
    /// Checksum of this image: `ALGORITHM:HEX`, `HEX`, or the URL of a checksum file.
    coreos_image_checksum: Option<String> = both("landfall.coreos.image_checksum", "landfall.coreos_image_checksum"), None;
    /// Start the installed system by kexec, without a restart of the firmware.
    kexec: bool = both("landfall.kexec", "landfall.kexec"), false;
    /// Read every block of the image back and compare it before the disk can boot.
    verify: bool = both("landfall.verify", "landfall.verify"), false;
    /// Report the USB NICs of a BMC as well, and look the node up by them.
    bmc_nics: bool = both("landfall.bmc_nics", "landfall.bmc_nics"), false;
    /// Serve the status page, `/status.json`, `/metrics` and `/log.txt` on the port of the agent's API, without a token.
    status: bool = both("landfall.status", "landfall.status"), true;
    /// What the consoles show: `status` (a status screen on the virtual terminal, lines and a block of the status on serial consoles), `lines`, or `quiet` (warnings and errors).
    console: ConsoleMode = both("landfall.console", "landfall.console"), ConsoleMode::Status;
    /// Let an operator change the network in a form on the console (key: Enter).
    console_form: bool = both("landfall.console.form", "landfall.console.form"), true;
    /// Send the log to this syslog server (RFC 5424): `udp://HOST:PORT`, `tcp://HOST:PORT` or `tls://HOST:PORT`.
    syslog: Option<SyslogServer> = both("landfall.syslog", "landfall.syslog"), None;
    /// Report an installation by `coreos.inst.*` to this URL: JSON by POST, see [events](events.md).
    webhook: Option<WebhookUrl> = both("landfall.webhook", "landfall.webhook"), None;
    /// Bundle of certificate authorities that servers are verified against.
    cafile: Option<String> = file("cafile"), None;
    /// Certificate that the agent shows to servers.
    certfile: Option<String> = file("certfile"), None;
    /// Key of the certificate `certfile`.
    keyfile: Option<String> = file("keyfile"), None;
    /// Serve the agent's API with the certificate `tls_cert_file` and the key `tls_key_file`.
    listen_tls: bool = file("listen_tls"), false;
    /// Certificate of the agent's API, supplied by the operator.
    tls_cert_file: Option<String> = file("tls_cert_file"), None;
    /// Key of the certificate `tls_cert_file`.
    tls_key_file: Option<String> = file("tls_key_file"), None;
    /// Create a certificate for the agent's API.
    enable_auto_tls: bool = file("enable_auto_tls"), true;
    /// Fail if the agent cannot set the clock from `ntp_server`.
    fail_if_clock_not_set: bool = file("fail_if_clock_not_set"), false;
    /// User name for image servers.
    image_server_user: Option<String> = file("image_server_user"), None;
    /// Password for image servers.
    image_server_password: Option<Secret> = file("image_server_password"), None;
    /// `http_basic`: send user name and password to image servers.
    image_server_auth_strategy: ImageServerAuth = file("image_server_auth_strategy"), ImageServerAuth::NoAuth;
    /// Accept MD5 as the checksum of an image.
    md5_enabled: bool = file("md5_enabled"), false;
    /// Always rewrite the config drive, as VFAT.
    config_drive_rebuild: bool = file("config_drive_rebuild"), false;
    /// Do not inspect images for unsafe features.
    disable_deep_image_inspection: bool = file("disable_deep_image_inspection"), false;
    /// Image formats that the agent accepts.
    permitted_image_formats: Vec<String> = file("permitted_image_formats"), words(&["raw", "gpt", "qcow2"]);
    /// Options that an mDNS answer may set.
    mdns_allowed_overrides: Vec<String> = file("mdns.allowed_overrides"), words(&["inspection_callback_url", "ntp_server"]);
    /// How often the agent asks by mDNS.
    mdns_lookup_attempts: u32 = file("mdns.lookup_attempts"), 3;
    /// Addresses of the interfaces to ask on. Default: all interfaces.
    mdns_interfaces: Vec<String> = file("mdns.interfaces"), Vec::new();
    /// Time within which Ironic expects a heartbeat.
    heartbeat_timeout: Duration = lookup_only("heartbeat_timeout"), seconds(300);
    /// Permanent `ip=` argument for the installed CoreOS. OpenShift sets it.
    coreos_ip_options: Option<String> = both("IPA_COREOS_IP_OPTIONS", "landfall.coreos_ip_options"), None;
    /// Copy the network of this boot into the installed CoreOS as keyfiles. OpenShift sets it.
    coreos_copy_network: bool = both("IPA_COREOS_COPY_NETWORK", "landfall.coreos_copy_network"), false;
    /// Host name if nothing else gives one. OpenShift sets it.
    default_hostname: Option<String> = both("IPA_DEFAULT_HOSTNAME", "landfall.default_hostname"), None;
    /// Proxy for `http://` URLs.
    http_proxy: Option<HttpUrl> = both("HTTP_PROXY", "landfall.http_proxy"), None;
    /// Proxy for `https://` URLs.
    https_proxy: Option<HttpUrl> = both("HTTPS_PROXY", "landfall.https_proxy"), None;
    /// Hosts that the agent connects to without a proxy.
    no_proxy: Vec<String> = both("NO_PROXY", "landfall.no_proxy"), Vec::new();
}
