//! Writes the GRUB scripts of the ISO, of its loaders, and of a network boot.

use landfall_media_formats::areas::{EMBED, IGNITION};
use landfall_media_formats::layout::{KERNEL, RAMDISK};

use crate::kernel_args::KernelArgs;

const TITLE: &str = "Landfall: discover and install this host";

/// Adds the serial port under BIOS, where GRUB uses the screen alone by default.
/// Under UEFI, GRUB's console is wherever the firmware's console is.
const TERMINALS: &str = "\
if [ \"$grub_platform\" = pc ]; then
  if serial --unit=0 --speed=115200; then
    terminal_input console serial
    terminal_output console serial
  fi
fi
";

/// How long the menu waits, in seconds. An unattended installation loses little time, and
/// an operator at the console can still press `e`.
const TIMEOUT: u32 = 1;

/// The first script of the loaders on the medium. It finds their medium by its id,
/// so that a disk with another /boot/grub is not used.
pub(crate) fn find_medium(volume_id: &str) -> String {
    format!(
        "search --no-floppy --fs-uuid --set=root {volume_id}\n\
         set prefix=($root)/boot/grub\n\
         configfile $prefix/grub.cfg\n"
    )
}

/// The first script of the loaders in `esp.img`. Ironic puts that file on each ISO that
/// it makes, as `/boot/grub/efiboot.img`, and the menu at `[DEFAULT]grub_config_path`
/// (`create_esp_image_for_uefi` in ironic/common/images.py).
pub(crate) fn find_ironics_medium() -> &'static str {
    "search --no-floppy --set=root --file /boot/grub/efiboot.img\n\
     set prefix=($root)/boot/grub\n\
     if [ -e \"$prefix/grub.cfg\" ]; then\n\
     \x20 configfile $prefix/grub.cfg\n\
     fi\n\
     configfile ($root)/EFI/BOOT/grub.cfg\n"
}

/// The medium's menu. Kernel arguments and per-host files are in areas of their
/// own, which can be overwritten in place. `landfall.medium=` names the medium that
/// this host booted from, so that the agent never writes to it.
///
/// `load_env` reads the arguments as plain text. They may come from programs that do
/// not know GRUB's language, and a script would run what they contain.
pub(crate) fn medium_menu(volume_id: &str) -> String {
    format!(
        "set timeout={TIMEOUT}\nset default=0\n{TERMINALS}\
         set kargs=\"\"\nload_env --file $prefix/kargs.env kargs\n{}",
        entry(
            &format!("linux /{KERNEL} $kargs landfall.medium={volume_id}"),
            &format!("initrd /{RAMDISK} /{EMBED} /{IGNITION}"),
            &[
                "Landfall: this medium cannot be read: the ISO is cut off or damaged,",
                "or the connection to the virtual medium broke. Copy the ISO again, and",
                "check it with: landfall-image inspect --verify",
            ],
        )
    )
}

/// The menu entry. It retries until it can load both files; without that, GRUB and
/// the host would stay in the menu after an error. The pauses grow to 30 s. They
/// are not random, because GRUB has no random numbers.
///
/// The script tests `$?` because GRUB does not show the error of a command in a
/// condition (`if linux ...`).
fn entry(linux: &str, initrd: &str, trouble: &[&str]) -> String {
    let trouble: String = trouble
        .iter()
        .map(|line| format!("    echo \"{line}\"\n"))
        .collect();
    format!(
        "function load {{
  echo \"Loading the kernel ...\"
  {linux}
  if [ $? = 0 ]; then
    echo \"Loading the ramdisk ...\"
    {initrd}
    if [ $? = 0 ]; then
      boot
    fi
  fi
}}
menuentry \"{TITLE}\" {{
  set pause=2
  load
  while true; do
{trouble}    echo \"Trying again in $pause seconds (ESC: back to the menu)\"
    if sleep --interruptible $pause; then
      if [ $pause = 2 ]; then
        set pause=5
      elif [ $pause = 5 ]; then
        set pause=10
      elif [ $pause = 10 ]; then
        set pause=20
      else
        set pause=30
      fi
      load
    else
      break
    fi
  done
}}
"
    )
}

pub(crate) fn set_kargs(arguments: &KernelArgs) -> String {
    format!("set kargs=\"{arguments}\"\n")
}

/// The script of the loader for UEFI HTTP boot. It retries until it has fetched the
/// tree's menu. GRUB takes over the firmware's address. If GRUB cannot reach the server
/// with this address, the script gets another address by DHCP or from a router.
/// `configfile` ignores an error and then shows nothing.
pub(crate) fn fetch_network_menu(place: &str, ipv6: bool) -> String {
    // GRUB has no DHCPv6 under UEFI, but it listens to routers.
    let configure = if ipv6 {
        "net_ipv6_autoconf"
    } else {
        "net_dhcp"
    };
    format!(
        "while true; do
  configfile {place}grub/grub.cfg
  {configure}
  configfile {place}grub/grub.cfg
  echo \"Landfall: cannot load {place}grub/grub.cfg\"
  echo \"Trying again in 5 seconds\"
  sleep 5
done
"
    )
}

/// Sets `boot_nic` to the argument that names the card through which GRUB was loaded.
/// The agent configures this card first. After a DHCP request of its own, GRUB does not
/// say which card it was loaded through; that is clear only if there is a single card.
const BOOT_NIC: &str = "\
set boot_nic=
if [ -n \"$net_default_mac\" ]; then
  set boot_nic=BOOTIF=01-$net_default_mac
elif [ -n \"$net_efinet0_dhcp_mac\" -a -z \"$net_efinet1_dhcp_mac\" ]; then
  set boot_nic=BOOTIF=01-$net_efinet0_dhcp_mac
fi
";

/// The menu of a network boot. The second ramdisk is for what an operator adds to
/// the tree.
///
/// With `http`, GRUB fetches kernel and ramdisk from that URL. Debian's signed GRUB has
/// only TFTP built in and must load its HTTP module, which is next to this menu. Under
/// Secure Boot it may not load modules, so it fetches everything by TFTP. (The script
/// cannot test this with `insmod`, which always succeeds.)
pub(crate) fn network_menu(arguments: &KernelArgs, http: Option<&str>) -> String {
    let http =
        http.map(|place| format!("if [ \"$lockdown\" != y ]; then\n\x20 set place={place}\nfi\n"));
    format!(
        "set timeout={TIMEOUT}\nset default=0\n{TERMINALS}{}{BOOT_NIC}set place=/\n{}{}",
        set_kargs(arguments),
        http.unwrap_or_default(),
        entry(
            "linux ${place}vmlinuz $kargs $boot_nic",
            "initrd ${place}initrd.img ${place}images/ignition.img",
            &[
                "Landfall: cannot load ${place}vmlinuz, ${place}initrd.img",
                "or ${place}images/ignition.img",
            ],
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot_parts::Loaders;
    use landfall_initramfs::arch::Arch;
    use std::process::Command;

    fn arguments() -> KernelArgs {
        KernelArgs::exactly(&["ipa-api-url=http://[fd00::1]:6385 a=*?b;c|d&e<f>{g}".into()])
            .unwrap()
    }

    #[test]
    fn grub_itself_accepts_the_scripts() {
        let scripts = [
            find_medium("2023-11-14-22-13-20-00"),
            find_ironics_medium().to_owned(),
            medium_menu("2023-11-14-22-13-20-00"),
            set_kargs(&arguments()),
            network_menu(&arguments(), None),
            network_menu(&arguments(), Some("(http,192.0.2.1:8080)/boot/")),
            fetch_network_menu("(http,192.0.2.1:8080)/boot/", false),
            fetch_network_menu("(http,[fd00::1]:8080)/boot/", true),
        ];
        let dir = tempfile::tempdir().unwrap();
        for script in scripts {
            let path = dir.path().join("grub.cfg");
            std::fs::write(&path, &script).unwrap();
            let output = Command::new("grub-script-check")
                .arg(&path)
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{script}\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }

    /// Under Secure Boot, GRUB may not load modules, so the GRUB that Debian signs must
    /// contain every command of the menus.
    #[test]
    fn debians_signed_grub_has_the_commands_of_the_menus() {
        let commands = [
            "boot",
            "configfile",
            "echo",
            "initrd",
            "linux",
            "load_env",
            "search",
            "sleep",
            "test",
            "true",
        ];
        let loaders = Loaders::new(Arch::X86_64, None);
        let efi = loaders.efi();
        for part in [efi.signed_grub_cd, efi.signed_grub_net] {
            let grub = loaders.read(part).unwrap();
            for command in commands {
                // Names are C strings in the read-only data of GRUB's modules.
                let name = [&b"\0"[..], command.as_bytes(), b"\0"].concat();
                assert!(
                    grub.windows(name.len()).any(|bytes| bytes == name),
                    "{}: {command}",
                    part.what
                );
            }
        }
    }

    #[test]
    fn network_menus_fetch_from_where_they_should() {
        let by_tftp = network_menu(&arguments(), None);
        assert!(by_tftp.contains("\nset place=/\nfunction "), "{by_tftp}");
        let linux = "  linux ${place}vmlinuz $kargs $boot_nic\n";
        assert!(by_tftp.contains(linux), "{by_tftp}");

        let menu = network_menu(&arguments(), Some("(http,192.0.2.1:8080)/boot/"));
        let place = "; then\n  set place=(http,192.0.2.1:8080)/boot/\nfi\n";
        assert!(menu.contains(place), "{menu}");
        assert!(menu.contains(linux), "{menu}");
    }
}
