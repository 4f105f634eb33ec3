//! Defines the command line.

#[cfg(feature = "controller")]
mod controller;
mod customize;
mod kargs;
mod serve;
mod service;

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, Parser, Subcommand};
use landfall_boot_params::digest::Digest;
use landfall_initramfs::compress::Compression;
use landfall_initramfs::kernel_source::KernelSource;
use landfall_initramfs::module_set::ModuleSet;
use landfall_initramfs::path_error;

use crate::base_url::BaseUrl;
use crate::ca_bundle::CaBundle;
use crate::coreos_image::image_digest;
use crate::live_ignition::FileUrl;
use crate::release_command::ReleaseArguments;

#[cfg(feature = "controller")]
pub(crate) use controller::ControllerArguments;
pub(crate) use customize::CustomizeArguments;
pub(crate) use kargs::KargsArguments;
pub(crate) use serve::ServeArguments;
pub(crate) use service::ServiceArguments;

const KERNEL: &str = "KERNEL (one of)";
const HOSTS: &str = "EACH HOST'S OWN NETWORK";
const COREOS: &str = "IMAGE IF IRONIC NAMES NONE";

/// Build the ramdisk that turns a bare server into a CoreOS node, and its media.
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 80,
    after_help = "Start with: landfall-image iso --help"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Initramfs(InitramfsArguments),
    Iso(IsoArguments),
    Pxe(PxeArguments),
    Hosts(HostsArguments),
    CoreosLive(CoreosLiveArguments),
    Kargs(KargsArguments),
    Customize(CustomizeArguments),
    Serve(ServeArguments),
    #[cfg(feature = "controller")]
    Controller(ControllerArguments),
    Inspect(InspectArguments),
    Release(ReleaseArguments),
}

impl Command {
    /// Whether the command runs a service. That ends in its own way after a signal: it
    /// lets answers in progress finish.
    pub(crate) fn serves(&self) -> bool {
        match self {
            Self::Serve(_) => true,
            #[cfg(feature = "controller")]
            Self::Controller(_) => true,
            _ => false,
        }
    }
}

/// Build the ramdisk: agent, kernel modules and firmware in one file.
#[derive(Debug, Args)]
#[command(
    override_usage = "landfall-image initramfs --agent PATH KERNEL [OPTIONS] -o initrd.img",
    after_help = "\
Example:
  landfall-image initramfs --agent ./landfall-agent \\
      --kernel-package linux-image-cloud-amd64 -o initrd.img

The same input gives the same bytes: every timestamp in the image is
SOURCE_DATE_EPOCH, or 0."
)]
pub(crate) struct InitramfsArguments {
    #[command(flatten)]
    pub(crate) ramdisk: RamdiskArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Build an ISO for BIOS and UEFI: CD, USB stick, virtual media.
#[derive(Debug, Args)]
#[command(
    override_usage = "landfall-image iso --agent PATH KERNEL [OPTIONS] -o out.iso",
    after_help = "\
Example:
  landfall-image iso --agent ./landfall-agent \\
      --kernel-package linux-image-cloud-amd64 \\
      --karg ipa-api-url=http://192.0.2.1:6385 \\
      --karg ip=192.0.2.50::192.0.2.1:24::eno1:none -o landfall.iso

The module set vm is for virtual machines; use server for real servers.
The builder puts `console=tty0 console=ttyS0,115200n8 quiet` before your kernel
arguments. It omits ttyS0 if you name a console, tty0 if you name a virtual
terminal, and quiet if you set a log level.
By default the ISO also boots hosts with Secure Boot; shim and the signed GRUB
add 4.3 MB. The kernel arguments and two areas for more ramdisks can be
replaced in the finished ISO; boot/landfall-areas.json in it describes them.
`coreos-installer iso kargs`, `iso ignition` and `iso network` change them, too.
With --coreos-image the ISO holds everything that an installation needs: the
image and its SHA-256. The image is copied through the temporary directory.
The builder needs the packages xorriso, grub-common, grub-pc-bin, shim-signed
and grub-efi-amd64-signed (with --no-secure-boot: grub-efi-amd64-bin instead of
the last two)."
)]
pub(crate) struct IsoArguments {
    #[command(flatten)]
    pub(crate) ramdisk: RamdiskArguments,
    #[command(flatten)]
    pub(crate) kernel_args: KernelArgumentTexts,
    /// Add shim and the signed GRUB (the default)
    #[arg(long, overrides_with = "no_secure_boot")]
    pub(crate) secure_boot: bool,
    /// Save 4.3 MB; Secure Boot hosts will reject the ISO
    #[arg(long)]
    pub(crate) no_secure_boot: bool,
    /// Put this image on the ISO, for sites without an image server
    #[arg(long, value_name = "FILE", conflicts_with = "coreos_image_url", help_heading = COREOS)]
    pub(crate) coreos_image: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) coreos: CoreosImageArguments,
    /// Size in KiB of each ramdisk area
    #[arg(long, value_name = "KIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(4..=65536))]
    pub(crate) embed_kib: u32,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Build a directory to serve by TFTP and HTTP for network boot.
#[derive(Debug, Args)]
#[command(
    override_usage = "landfall-image pxe --agent PATH KERNEL [OPTIONS] -o DIR",
    after_help = "\
Example:
  landfall-image pxe --agent ./landfall-agent \\
      --kernel-package linux-image-cloud-amd64 \\
      --karg ipa-api-url=http://192.0.2.1:6385 \\
      --base-url http://192.0.2.1:8080/landfall -o /srv/landfall

The module set vm is for virtual machines; use server for real servers.
The builder puts `console=tty0 console=ttyS0,115200n8 quiet` before your kernel
arguments. It omits ttyS0 if you name a console, tty0 if you name a virtual
terminal, and quiet if you set a log level.
The DHCP server must name the first file: boot.ipxe for iPXE (by HTTP or
TFTP), undionly.kpxe for BIOS without iPXE (by TFTP; it is iPXE and asks DHCP
again), shimx64.efi for UEFI firmware (by TFTP; it loads grubx64.efi, which
reads grub/grub.cfg, also with Secure Boot). The directory must be the root of
the TFTP server, because Debian's signed GRUB looks for /grub/grub.cfg.
All menus load images/ignition.img after the ramdisk. It adds nothing until you
replace it: coreos-installer pxe ignition wrap -o DIR/images/ignition.img"
)]
pub(crate) struct PxeArguments {
    #[command(flatten)]
    pub(crate) ramdisk: RamdiskArguments,
    #[command(flatten)]
    pub(crate) kernel_args: KernelArgumentTexts,
    /// Fetch kernel and ramdisk from this URL, not by TFTP
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<BaseUrl>,
    #[command(flatten)]
    pub(crate) coreos: CoreosImageArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Build a small ramdisk that adds hosts to a finished one.
#[derive(Debug, Args)]
#[command(
    override_usage = "landfall-image hosts --hosts DIR|--install-config FILE|... -o hosts.img",
    after_help = "\
Example:
  landfall-image hosts --hosts ./hosts -o hosts.img
  cat initrd.img hosts.img > initrd-site.img

The kernel must unpack hosts.img after another ramdisk: append it to that file,
give it to the boot loader as a second initrd, or write it over boot/embed.img
in an ISO (boot/landfall-areas.json in the ISO has the offset). It replaces
hosts of the same name."
)]
pub(crate) struct HostsArguments {
    #[command(flatten)]
    pub(crate) hosts: HostArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Write the Ignition config for a CoreOS live system.
#[derive(Debug, Args)]
#[command(
    override_usage = "landfall-image coreos-live --agent PATH --agent-url URL [OPTIONS] -o FILE",
    after_help = "\
Example:
  landfall-image coreos-live --agent ./landfall-agent-live \\
      --agent-url http://192.0.2.1:8080/landfall-agent-live \\
      --api-url http://192.0.2.1:6385 \\
      --inspection-callback-url \\
        http://192.0.2.1:6385/v1/continue_inspection -o live.ign
  coreos-installer iso ignition embed -i live.ign rhcos-live.iso

Ignition downloads the agent from --agent-url and checks its SHA-512 against
the file of --agent. Build this agent with `make live-agent`: the agent of the
ramdisk cannot use D-Bus. systemd runs the agent as landfall-agent.service."
)]
pub(crate) struct CoreosLiveArguments {
    /// The agent: a static program with the feature live-system
    #[arg(long, value_name = "PATH")]
    pub(crate) agent: PathBuf,
    /// Where the live system fetches the same file from
    #[arg(long, value_name = "URL")]
    pub(crate) agent_url: FileUrl,
    /// URLs of Ironic, separated by commas
    #[arg(long, value_name = "URL")]
    pub(crate) api_url: Option<String>,
    /// URL that receives the inventory
    #[arg(long, value_name = "URL")]
    pub(crate) inspection_callback_url: Option<String>,
    /// Accept any server certificate
    #[arg(long, conflicts_with = "ca_file")]
    pub(crate) insecure: bool,
    /// Trust these certificate authorities (a PEM file)
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Add a configuration file, *.conf; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) config_file: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) hosts: HostArguments,
    /// For a live system that is not CoreOS
    #[arg(long)]
    pub(crate) any_live_system: bool,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Show what a ramdisk or an ISO holds, and what is damaged in it.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  landfall-image inspect --json landfall.iso | jq .ramdisk.kernel_release
  landfall-image inspect --verify /dev/sdX
  landfall-image inspect --extract DIR node1.iso

--extract writes the kernel arguments to DIR/kernel-arguments.txt, kernel and
ramdisk of an ISO to DIR/vmlinuz and DIR/initrd.img, and the configuration of
the site and of its hosts to DIR/files.

Every file of an ISO is compared with SHA256SUMS in the ISO, except the
areas that may be replaced for a host. The exit code is 1 if there is any fault.")]
pub(crate) struct InspectArguments {
    /// A ramdisk, an ISO, or a USB stick that an ISO was copied to
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Fail also if an ISO has no digests to compare with
    #[arg(long)]
    pub(crate) verify: bool,
    /// Write the content to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) extract: Option<PathBuf>,
    /// Print JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the kernel is told.
#[derive(Debug, Args)]
pub(crate) struct KernelArgumentTexts {
    /// Add kernel arguments; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub(crate) karg: Vec<String>,
}

/// The image that `install_coreos` writes when Ironic names none.
#[derive(Debug, Default, Args)]
pub(crate) struct CoreosImageArguments {
    /// URL from which hosts download the image; repeat for mirrors
    #[arg(long, value_name = "URL", help_heading = COREOS)]
    pub(crate) coreos_image_url: Vec<String>,
    /// Expected digest: sha256:HEX or sha512:HEX
    #[arg(long, value_name = "ALGORITHM:HEX", help_heading = COREOS, value_parser = image_digest)]
    pub(crate) coreos_image_digest: Option<Digest>,
}

/// What a ramdisk is made of.
#[derive(Debug, Args)]
pub(crate) struct RamdiskArguments {
    /// The agent: a static program that becomes /init
    #[arg(long, value_name = "PATH")]
    pub(crate) agent: PathBuf,
    #[command(flatten)]
    kernel: KernelArguments,
    /// Kernel version to use if --kernel-dir has several
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["kernel_package", "kernel_deb"], help_heading = KERNEL)]
    kernel_release: Option<String>,
    /// vm, server, or a file of module names
    #[arg(long, value_name = "SET", default_value = "vm")]
    pub(crate) module_set: String,
    /// Add the firmware that the modules need, from here
    #[arg(long, value_name = "DIR")]
    pub(crate) firmware_dir: Option<PathBuf>,
    /// Trust these certificate authorities (a PEM file)
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Public CAs to trust: system, none or a PEM file
    #[arg(long, value_name = "WHICH")]
    pub(crate) ca_bundle: Option<CaBundle>,
    /// Add a configuration file, *.conf; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) config_file: Vec<PathBuf>,
    /// Allow SSH login in rescue (busybox, dropbear)
    #[arg(long)]
    pub(crate) rescue_layer: bool,
    #[command(flatten)]
    pub(crate) hosts: HostArguments,
    /// zstd:1 to zstd:19, or none
    #[arg(long, value_name = "HOW", default_value = "zstd:19")]
    pub(crate) compress: Compression,
}

/// The hosts in the ramdisk. Their networks take precedence over those of media and
/// kernel arguments, their root device hints apply if nobody else gives hints.
#[derive(Debug, Default, Args)]
pub(crate) struct HostArguments {
    /// The network of one host, as NMState (YAML)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["network_data", "hosts", "agent_config", "install_config", "bare_metal_hosts"], help_heading = HOSTS)]
    pub(crate) nmstate: Option<PathBuf>,
    /// The network of one host, as network_data.json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hosts", "agent_config", "install_config", "bare_metal_hosts"], help_heading = HOSTS)]
    pub(crate) network_data: Option<PathBuf>,
    /// The networks of many hosts: HOSTNAME.yaml (NMState), HOSTNAME.json
    #[arg(long, value_name = "DIR", help_heading = HOSTS)]
    pub(crate) hosts: Option<PathBuf>,
    /// The networks of many hosts, as OpenShift's agent-config.yaml
    #[arg(long, value_name = "FILE", help_heading = HOSTS)]
    pub(crate) agent_config: Option<PathBuf>,
    /// Many hosts, as OpenShift's install-config.yaml
    #[arg(long, value_name = "FILE", help_heading = HOSTS)]
    pub(crate) install_config: Option<PathBuf>,
    /// Many hosts, as BareMetalHosts and Secrets; may be repeated
    #[arg(long, value_name = "FILE", help_heading = HOSTS)]
    pub(crate) bare_metal_hosts: Vec<PathBuf>,
    /// Treat warnings about the networks as errors
    #[arg(long, help_heading = HOSTS)]
    pub(crate) strict: bool,
}

/// Where the kernel comes from: one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct KernelArguments {
    /// An installed Debian package (linux-image-amd64)
    #[arg(long, value_name = "NAME", help_heading = KERNEL)]
    pub(crate) kernel_package: Option<String>,
    /// A kernel's .deb file
    #[arg(long, value_name = "FILE", help_heading = KERNEL)]
    pub(crate) kernel_deb: Option<PathBuf>,
    /// A directory with vmlinuz and lib/modules/VERSION
    #[arg(long, value_name = "DIR", help_heading = KERNEL)]
    pub(crate) kernel_dir: Option<PathBuf>,
}

/// Where the result goes.
#[derive(Debug, Args)]
pub(crate) struct OutputArguments {
    /// Output file or directory
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: PathBuf,
    /// Replace existing files
    #[arg(long)]
    pub(crate) force: bool,
    /// Print a summary as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

impl RamdiskArguments {
    pub(crate) fn kernel(&self) -> Result<KernelSource> {
        let kernel = &self.kernel;
        match (
            &kernel.kernel_package,
            &kernel.kernel_deb,
            &kernel.kernel_dir,
        ) {
            (Some(name), _, _) => Ok(KernelSource::InstalledPackage(name.clone())),
            (_, Some(path), _) => Ok(KernelSource::Deb(path.clone())),
            (_, _, Some(path)) => {
                let release = self.kernel_release.clone();
                Ok(KernelSource::Directory {
                    path: path.clone(),
                    release,
                })
            }
            _ => Err(anyhow!(
                "expected a kernel: --kernel-package, --kernel-deb or --kernel-dir"
            )),
        }
    }

    pub(crate) fn module_set(&self) -> Result<ModuleSet> {
        if let Some(set) = ModuleSet::built_in(&self.module_set) {
            return Ok(set);
        }
        let bytes = path_error::read_bounded(self.module_set.as_ref(), 1 << 20)
            .context("module set: expected `vm`, `server` or a file")?;
        Ok(ModuleSet::parse(
            &self.module_set,
            &String::from_utf8_lossy(&bytes),
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn help_fits_a_serial_console() {
        let mut command = Cli::command();
        command.build();
        let names: Vec<String> = command
            .get_subcommands()
            .map(|sub| sub.get_name().to_owned())
            .collect();
        let mut texts = vec![command.render_long_help().to_string()];
        for name in names {
            let sub = command.find_subcommand_mut(&name).unwrap();
            texts.extend([
                sub.render_long_help().to_string(),
                sub.render_help().to_string(),
            ]);
        }
        for line in texts.iter().flat_map(|text| text.lines()) {
            assert!(line.len() <= 80, "{} columns: {line}", line.len());
        }
    }

    #[test]
    fn one_kernel_and_no_more() {
        let line = "landfall-image iso --agent a -o out";
        for (kernel, good) in [
            ("", false),
            ("--kernel-deb k.deb", true),
            ("--kernel-dir d --kernel-release 6.1", true),
            ("--kernel-deb k.deb --kernel-release 6.1", false),
            ("--kernel-deb k.deb --kernel-dir d", false),
        ] {
            assert_eq!(parse(&format!("{line} {kernel}")).is_ok(), good, "{kernel}");
        }
    }

    #[test]
    fn the_last_word_on_secure_boot_counts() {
        for (flags, expected) in [
            ("", false),
            ("--no-secure-boot", true),
            ("--no-secure-boot --secure-boot", false),
            ("--secure-boot --no-secure-boot", true),
        ] {
            let cli = parse(&format!(
                "landfall-image iso --agent a -o out --kernel-dir d {flags}"
            ))
            .unwrap();
            let Command::Iso(arguments) = cli.command else {
                panic!("not iso")
            };
            assert_eq!(arguments.no_secure_boot, expected, "{flags}");
        }
    }
}
