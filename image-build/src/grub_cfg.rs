//! GRUB scripts: of the CD, of its loaders, and of a network boot.

use crate::kernel_args::KernelArgs;

const TITLE: &str = "Landfall: discover and install this host";

/// GRUB shows itself on the screen alone unless told otherwise. UEFI's console is
/// wherever the firmware's is; under BIOS the serial port has to be asked for.
const TERMINALS: &str = "\
if [ \"$grub_platform\" = pc ]; then
  if serial --unit=0 --speed=115200; then
    terminal_input console serial
    terminal_output console serial
  fi
fi
";

/// One second: nobody waits at an unattended install, and someone at the console can
/// still press `e`.
const TIMEOUT: u32 = 1;

/// What the loaders on the medium run first: find the medium they came from, by its
/// own id, so that a disk with another /boot/grub cannot win.
pub(crate) fn find_medium(volume_id: &str) -> String {
    format!(
        "search --no-floppy --fs-uuid --set=root {volume_id}\n\
         set prefix=($root)/boot/grub\n\
         configfile $prefix/grub.cfg\n"
    )
}

/// The medium's menu. Kernel arguments and per-host files are in areas of their own,
/// which can be overwritten in place. `landfall.medium=` tells the agent which medium
/// this host booted from, so that the agent never writes to it.
pub(crate) fn medium_menu(volume_id: &str) -> String {
    format!(
        "set timeout={TIMEOUT}\nset default=0\n{TERMINALS}\
         set kargs=\"\"\nsource $prefix/kargs.cfg\n{}",
        entry(
            &format!("linux /boot/vmlinuz $kargs landfall.medium={volume_id}"),
            "initrd /boot/initrd.img /boot/embed.img",
            &[
                "Landfall: this medium cannot be read: the ISO is cut off or damaged,",
                "or the connection to the virtual medium broke. Copy the ISO again, and",
                "check it with: landfall-image inspect --verify",
            ],
        )
    )
}

/// The menu entry, which tries again until it can load both files: by itself GRUB stays
/// in the menu after an error, and the host with it. The pauses grow to 30 s; GRUB has no
/// random numbers to spread them.
///
/// `$?` instead of `if linux ...`: GRUB shows no error of a condition.
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

/// The line that sets the kernel arguments.
pub(crate) fn set_kargs(arguments: &KernelArgs) -> String {
    format!("set kargs=\"{arguments}\"\n")
}

/// The menu of a network boot. `$net_default_mac` is the card that GRUB was loaded
/// through; the agent configures that one first.
///
/// With `http`, kernel and ramdisk come from there. Debian's signed GRUB speaks TFTP
/// alone and has to load its HTTP module from beside this menu. Under Secure Boot it
/// may load none, so there all comes by TFTP. (`insmod` would be no test for it: it
/// succeeds whatever happens.)
pub(crate) fn network_menu(arguments: &KernelArgs, http: Option<&str>) -> String {
    let http =
        http.map(|place| format!("if [ \"$lockdown\" != y ]; then\n\x20 set place={place}\nfi\n"));
    format!(
        "set timeout={TIMEOUT}\nset default=0\n{TERMINALS}{}set place=/\n{}{}",
        set_kargs(arguments),
        http.unwrap_or_default(),
        entry(
            "linux ${place}vmlinuz $kargs BOOTIF=01-$net_default_mac",
            "initrd ${place}initrd.img",
            &["Landfall: cannot load ${place}vmlinuz or ${place}initrd.img"],
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn arguments() -> KernelArgs {
        KernelArgs::exactly(&["ipa-api-url=http://[fd00::1]:6385 a=*?b;c|d&e<f>{g}".into()])
            .unwrap()
    }

    #[test]
    fn grub_itself_accepts_the_scripts() {
        let scripts = [
            find_medium("2023-11-14-22-13-20-00"),
            medium_menu("2023-11-14-22-13-20-00"),
            set_kargs(&arguments()),
            network_menu(&arguments(), None),
            network_menu(&arguments(), Some("(http,192.0.2.1:8080)/boot/")),
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

    #[test]
    fn network_menus_fetch_from_where_they_should() {
        let by_tftp = network_menu(&arguments(), None);
        assert!(by_tftp.contains("\nset place=/\nfunction "), "{by_tftp}");
        let linux = "  linux ${place}vmlinuz $kargs BOOTIF=01-$net_default_mac\n";
        assert!(by_tftp.contains(linux), "{by_tftp}");

        let menu = network_menu(&arguments(), Some("(http,192.0.2.1:8080)/boot/"));
        let place = "; then\n  set place=(http,192.0.2.1:8080)/boot/\nfi\n";
        assert!(menu.contains(place), "{menu}");
        assert!(menu.contains(linux), "{menu}");
    }
}
