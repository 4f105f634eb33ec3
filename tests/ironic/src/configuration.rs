//! Generates ironic.conf and the Redfish emulator's configuration. Has no side
//! effects; the paths are those of the lab.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::Result;
use landfall_tests::artifacts;
use landfall_tests::conductor;
use landfall_tests::image_server;
use landfall_tests::lab::{Family, HOST_V4, Lab};
use landfall_tests::site::TEST_ARGUMENTS;

use super::ports::{BMC_PORT, IMAGES_TLS_PORT};
use super::{KERNEL, RAMDISK, ca_bundle, registry};

/// The settings of Ironic in which the scenarios differ.
#[derive(Debug, Clone, Copy, Default)]
pub struct Configuration {
    /// API and image server use TLS with certificates of a private authority, and
    /// the API requires a user and a password, except from agents.
    pub tls: bool,
    /// iPXE passes the certificate authority to the host, as a second initrd. Needs
    /// `tls`.
    pub ca_bundle: bool,
    /// Keep the agent running from one operation to the next.
    pub fast_track: bool,
    /// Announce the API by multicast DNS. The agent finds it there.
    pub mdns: bool,
    /// Ironic and the host fetch kernel, ramdisk and image from a container registry,
    /// which requires tokens and redirects the host for each blob. Ironic makes ISOs
    /// with the release's boot loaders. Needs `tls`.
    pub registry: bool,
    /// Where Ironic finds kernel, ramdisk and boot loaders.
    pub boot_files: BootFiles,
    /// `[api]max_json_body_size_inspection`, in KiB, if not Ironic's default.
    pub inspection_kib: Option<u32>,
    /// Serve no agent: `[api]enable_ramdisk_endpoints` is off.
    pub refuses_agents: bool,
    /// Further kernel arguments for every ramdisk.
    pub more_arguments: &'static str,
}

/// Where Ironic finds kernel, ramdisk and boot loaders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BootFiles {
    /// Kernel and ramdisk are in `driver_info`, the boot loaders in `[conductor]bootloader`.
    #[default]
    OfNode,
    /// Kernel and ramdisk are in `[conductor]deploy_kernel_by_arch` and
    /// `deploy_ramdisk_by_arch`, the boot loaders in `driver_info/bootloader`.
    ByArchitecture,
    /// `[conductor]deploy_kernel`, `deploy_ramdisk` and `bootloader`. The value has the paths
    /// of kernel and ramdisk on the image server.
    OfConductor([&'static str; 2]),
}

/// File with the users of the API, in the lab's folder.
pub(super) const HTPASSWD: &str = "htpasswd";
/// The bcrypt form of [`CREDENTIALS`], which Ironic reads.
pub(super) const HTPASSWD_LINE: &str =
    "admin:$2b$05$HmqQoZIciW3xr4y5GKdFXeBq2HQyTiM5n.tBPESsELbo.VV.Wj..m\n";
const CREDENTIALS: (&str, &str) = ("admin", "password");

/// The kernel argument that disables certificate checks. It is left out if
/// there is a private authority.
const INSECURE: &str = "ipa-insecure=1";

/// Kernel arguments as in metal3's Ironic image (`inspector.ipxe.j2` and
/// `ironic.conf.j2` there). They include an SSH key with spaces in a quoted value,
/// which the agent must parse correctly.
const METAL3_ARGUMENTS: &str = "nofb nomodeset vga=normal \
     sshkey=\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDm9 operator of the lab\" \
     systemd.journald.forward_to_console=yes selinux=0 troubleshoot=0 text";

/// The part of the SSH key in [`METAL3_ARGUMENTS`] that no line of the agent may show.
pub(super) const SSH_KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIDm9";

/// Boot loaders under Ironic's names: shim and GRUB over TFTP, iPXE over HTTP.
const LOADERS: &str = "bootx64.efi:/usr/lib/shim/shimx64.efi.signed,\
     grubx64.efi:/usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed,\
     snponly.efi:/usr/lib/ipxe/snponly.efi";

/// Ironic's default of `[api]max_json_body_size_inspection`.
const INSPECTION_KIB: u32 = 16 * 1024;

/// Kernel arguments that metal3 adds for an inspection.
const INSPECTION_ARGUMENTS: &str = "ipa-inspection-collectors=default,logs \
     ipa-enable-vlan-interfaces=all ipa-inspection-dhcp-all-interfaces=1 ipa-collect-lldp=1";

impl Configuration {
    /// The folder for files that Ironic offers to hosts over HTTP.
    #[must_use]
    pub fn http_root(&self, lab: &Lab) -> PathBuf {
        lab.path("http")
    }

    /// The folder for files that Ironic offers to hosts over TFTP.
    #[must_use]
    pub fn tftp_root(&self, lab: &Lab) -> PathBuf {
        lab.path("ironic/tftp")
    }

    #[must_use]
    pub fn api_url(&self) -> String {
        if self.tls {
            return format!("https://{HOST_V4}:{}", conductor::PORT);
        }
        Family::V4.url(conductor::PORT)
    }

    /// The base URL from which the agent fetches images.
    #[must_use]
    pub fn images_url(&self) -> String {
        if self.tls {
            return format!("https://{HOST_V4}:{IMAGES_TLS_PORT}");
        }
        Family::V4.url(image_server::PORT)
    }

    /// The API's user and password, if it requires them.
    #[must_use]
    pub fn credentials(&self) -> Option<(&'static str, &'static str)> {
        self.tls.then_some(CREDENTIALS)
    }

    /// The address that Ironic listens on. With TLS only the proxy can reach
    /// Ironic.
    fn listens_at(&self) -> Ipv4Addr {
        if self.tls {
            return Ipv4Addr::LOCALHOST;
        }
        HOST_V4
    }

    /// The TLS ports, each with the plain server behind it.
    pub(super) fn tls_fronts(&self) -> Vec<(u16, SocketAddr)> {
        let mut all = vec![
            (conductor::PORT, (self.listens_at(), conductor::PORT).into()),
            (IMAGES_TLS_PORT, (HOST_V4, image_server::PORT).into()),
        ];
        if self.registry {
            all.extend(registry::tls_fronts());
        }
        all
    }

    #[must_use]
    pub fn bmc_url(&self) -> String {
        Family::V4.url(BMC_PORT)
    }

    /// The kernel arguments that Ironic adds to its own arguments.
    fn kernel_arguments(&self) -> String {
        let insecure = if self.tls { "" } else { INSECURE };
        let more = self.more_arguments;
        format!("{TEST_ARGUMENTS} {METAL3_ARGUMENTS} {insecure} {more}")
    }

    /// Settings for authentication and for the verification of servers: the first
    /// string is for the section DEFAULT, the second for the section agent.
    fn trust(&self, lab: &Lab) -> [String; 2] {
        if !self.tls {
            return ["auth_strategy = noauth".to_owned(), String::new()];
        }
        let authority = lab.path("authority.pem");
        let (authority, users) = (authority.display(), lab.path(HTPASSWD));
        let users = users.display();
        [
            format!(
                "auth_strategy = http_basic\nhttp_basic_auth_user_file = {users}\n\
                 webserver_verify_ca = {authority}"
            ),
            format!("api_ca_file = {authority}"),
        ]
    }

    /// What Ironic builds its boot ISOs with: the path of the image of the EFI system
    /// partition, and the line of ironic.conf with the path of the GRUB menu in the
    /// ISO. The line is empty for Ironic's default.
    fn loaders(&self) -> Result<(PathBuf, &'static str)> {
        if self.registry {
            // The release's GRUB reads the menu from Ironic's default path.
            return Ok((artifacts::esp_image()?, ""));
        }
        let debian = "grub_config_path = EFI/debian/grub.cfg";
        Ok((super::environment().join("esp.img"), debian))
    }

    /// The lines of the section conductor that name kernel, ramdisk or boot loaders.
    pub(super) fn boot_files(&self, esp: &str) -> String {
        let url = |name| image_server::url(Family::V4, name);
        match self.boot_files {
            BootFiles::OfNode => format!("bootloader = file://{esp}"),
            BootFiles::ByArchitecture => format!(
                "deploy_kernel_by_arch = x86_64:{}\ndeploy_ramdisk_by_arch = x86_64:{}",
                url(KERNEL),
                url(RAMDISK)
            ),
            BootFiles::OfConductor([kernel, ramdisk]) => format!(
                "bootloader = file://{esp}\ndeploy_kernel = {}\ndeploy_ramdisk = {}",
                url(kernel),
                url(ramdisk)
            ),
        }
    }

    /// The content of ironic.conf.
    ///
    /// # Errors
    /// If `registry` is set and the release has not been built.
    pub fn ironic(&self, lab: &Lab) -> Result<String> {
        let state = lab.path("ironic").display().to_string();
        let http_root = self.http_root(lab).display().to_string();
        let (esp, menu) = self.loaders()?;
        let readable = esp.parent().unwrap_or(&esp).display();
        let boot_files = self.boot_files(&esp.display().to_string());
        let oci = match self.registry {
            true => registry::settings(lab),
            false => String::new(),
        };
        let menu_of_ipxe = match self.ca_bundle {
            true => format!("ipxe_config_template = {}", ca_bundle::menu(lab).display()),
            false => String::new(),
        };
        let inspection_kib = self.inspection_kib.unwrap_or(INSPECTION_KIB);
        let serves_agents = !self.refuses_agents;
        let api = self.api_url();
        let http = Family::V4.url(image_server::PORT);
        let arguments = self.kernel_arguments();
        let Self {
            fast_track, mdns, ..
        } = *self;
        let listens_at = self.listens_at();
        let [trust, agent_trust] = self.trust(lab);
        let port = conductor::PORT;
        // Interfaces, hooks, priorities and log collection are those of metal3's
        // and OpenShift's images. The other settings let one process run without a
        // message queue, a database server and an identity service.
        Ok(format!(
            r"[DEFAULT]
{trust}
rpc_transport = none
debug = true
use_stderr = true
logging_exception_prefix = TRACE
host = lab
my_ip = {HOST_V4}
state_path = {state}
tempdir = {state}
enabled_hardware_types = redfish
enabled_bios_interfaces = no-bios
enabled_boot_interfaces = redfish-virtual-media,ipxe,http-ipxe,pxe
enabled_console_interfaces = no-console
enabled_deploy_interfaces = direct,custom-agent
default_deploy_interface = direct
enabled_firmware_interfaces = no-firmware
enabled_inspect_interfaces = agent
default_inspect_interface = agent
enabled_management_interfaces = redfish
enabled_network_interfaces = noop
enabled_power_interfaces = redfish
enabled_raid_interfaces = agent,no-raid
enabled_rescue_interfaces = agent,no-rescue
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor
isolinux_bin = /usr/lib/ISOLINUX/isolinux.bin
ldlinux_c32 = /usr/lib/syslinux/modules/bios/ldlinux.c32
{menu}
rescue_password_hash_algorithm = sha512
[oslo_concurrency]
lock_path = {state}/locks
[oslo_messaging_notifications]
driver = noop
[api]
host_ip = {listens_at}
port = {port}
public_endpoint = {api}
ramdisk_heartbeat_timeout = 30
enable_ramdisk_endpoints = {serves_agents}
max_json_body_size_inspection = {inspection_kib}
[database]
connection = sqlite:///{state}/ironic.sqlite
sqlite_retries = true
[service_catalog]
auth_type = none
endpoint_override = {api}
[dhcp]
dhcp_provider = none
[conductor]
automated_clean = true
enable_mdns = {mdns}
sync_power_state_interval = 0
power_state_change_timeout = 60
deploy_callback_timeout = 900
clean_callback_timeout = 900
inspect_wait_timeout = 900
rescue_callback_timeout = 900
{boot_files}
file_url_allowed_paths = {readable}
[mdns]
interfaces = {HOST_V4}
params = ipa_debug:true
[deploy]
http_url = {http}
http_root = {http_root}
iso_master_path = {state}/iso
default_boot_mode = uefi
fast_track = {fast_track}
erase_devices_priority = 0
erase_devices_metadata_priority = 10
power_off_after_deploy_failure = false
[agent]
{agent_trust}
certificates_path = {state}/certificates
deploy_logs_collect = always
deploy_logs_local_path = {state}/deploy-logs
image_download_source = http
command_wait_interval = 2
max_command_attempts = 30
[redfish]
kernel_append_params = {arguments}
[pxe]
kernel_append_params = {arguments}
images_path = {state}/images
instance_master_path = {state}/instance-masters
tftp_server = {HOST_V4}
tftp_root = {state}/tftp
tftp_master_path = {state}/tftp-masters
loader_file_paths = {LOADERS}
{menu_of_ipxe}
[oci]
{oci}
[inspector]
require_managed_boot = true
extra_kernel_params = {INSPECTION_ARGUMENTS}
add_ports = all
keep_ports = present
power_off = true
"
        ))
    }

    /// Folders that Ironic expects to exist.
    #[must_use]
    pub fn folders(&self, lab: &Lab) -> Vec<PathBuf> {
        let state = lab.path("ironic");
        let mut all: Vec<PathBuf> = [
            "locks",
            "iso",
            "certificates",
            "deploy-logs",
            "images",
            "instance-masters",
            "tftp",
            "tftp-masters",
        ]
        .iter()
        .map(|name| state.join(name))
        .collect();
        all.push(self.http_root(lab));
        all.push(self.tftp_root(lab).join("pxelinux.cfg"));
        all.push(lab.path("bmc"));
        all
    }

    /// The configuration of sushy-emulator, in Python. The feature set is limited
    /// to virtual media: with all features the emulator offers Secure Boot, and a
    /// BIOS resource that answers 501. Ironic would then retry ten times, for half
    /// a minute.
    #[must_use]
    pub fn bmc(&self, lab: &Lab) -> String {
        let state = lab.path("bmc");
        let state = state.display();
        format!(
            "SUSHY_EMULATOR_LISTEN_IP = '{HOST_V4}'\n\
             SUSHY_EMULATOR_LISTEN_PORT = {BMC_PORT}\n\
             SUSHY_EMULATOR_LIBVIRT_URI = 'qemu:///system'\n\
             SUSHY_EMULATOR_IGNORE_BOOT_DEVICE = False\n\
             SUSHY_EMULATOR_FEATURE_SET = 'vmedia'\n\
             SUSHY_EMULATOR_STATE_DIR = '{state}'\n"
        )
    }
}
