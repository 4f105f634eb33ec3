//! Converts a machine into QEMU's command line. Has no side effects.

mod machine_type;

use landfall_initramfs::arch::Arch;

pub(super) use machine_type::emulator;

use super::{Boot, Bus, Cord, CordEnd, Disk, DiskFault, Extra, Firmware, Machine};
use crate::artifacts;
use crate::lab::TAPS;

/// OVMF's code, at the path of Debian's package ovmf.
pub const OVMF_CODE: &str = "/usr/share/OVMF/OVMF_CODE_4M.fd";
/// The template for OVMF's variables.
pub const OVMF_VARIABLES: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";
/// OVMF's code and variables with Secure Boot and Microsoft's keys.
const SECURE_CODE: &str = "/usr/share/OVMF/OVMF_CODE_4M.ms.fd";
const SECURE_VARIABLES: &str = "/usr/share/OVMF/OVMF_VARS_4M.ms.fd";

/// The UEFI of aarch64 machines, at the paths of Debian's package qemu-efi-aarch64.
const AAVMF_CODE: &str = "/usr/share/AAVMF/AAVMF_CODE.fd";
const AAVMF_VARIABLES: &str = "/usr/share/AAVMF/AAVMF_VARS.fd";
/// The UEFI of aarch64 machines with Secure Boot and Microsoft's keys.
const SECURE_AAVMF_CODE: &str = "/usr/share/AAVMF/AAVMF_CODE.ms.fd";
const SECURE_AAVMF_VARIABLES: &str = "/usr/share/AAVMF/AAVMF_VARS.ms.fd";

/// The ID of the serial console's character device in QEMU.
pub(super) const SERIAL: &str = "serial";

/// The arguments for `machine`. `qmp` is the name of the abstract socket on which
/// the test listens for QEMU's control connection.
pub(super) fn arguments(machine: &Machine, kvm: bool, qmp: &str) -> Vec<String> {
    let mut list = Arguments::default();
    match artifacts::arch() {
        Arch::X86_64 => machine_type::pc(machine, kvm, &mut list),
        Arch::Aarch64 => machine_type::virt(&mut list),
    }
    list.option("-smp", machine.processors.to_string());
    list.option("-m", machine.memory_mib.to_string());
    list.flag("-nodefaults");
    list.option("-display", "none");
    // The console uses QEMU's standard streams, so no byte is lost while no reader
    // is connected.
    list.option("-chardev", format!("stdio,id={SERIAL},signal=off"));
    list.option("-serial", format!("chardev:{SERIAL}"));
    list.option("-chardev", format!("socket,id=qmp,path={qmp},abstract=on"));
    list.option("-mon", "chardev=qmp,mode=control");
    firmware(machine, &mut list);
    disks(machine, &mut list);
    boot(machine, &mut list);
    nics(machine, &mut list);
    late_nic(machine, &mut list);
    error_records(machine, &mut list);
    cords(machine, &mut list);
    extras(machine, &mut list);
    list.0
}

/// The UEFI of this machine: its code, and the template for its variables.
fn uefi(machine: &Machine) -> (&'static str, &'static str) {
    match (artifacts::arch(), machine.has_secure_boot()) {
        (Arch::X86_64, false) => (OVMF_CODE, OVMF_VARIABLES),
        (Arch::X86_64, true) => (SECURE_CODE, SECURE_VARIABLES),
        (Arch::Aarch64, false) => (AAVMF_CODE, AAVMF_VARIABLES),
        (Arch::Aarch64, true) => (SECURE_AAVMF_CODE, SECURE_AAVMF_VARIABLES),
    }
}

/// The template for the variables of this machine.
pub(super) fn variables(machine: &Machine) -> &'static str {
    let (_, variables) = uefi(machine);
    variables
}

#[derive(Default)]
struct Arguments(Vec<String>);

impl Arguments {
    fn flag(&mut self, flag: &str) {
        self.0.push(flag.to_owned());
    }

    fn option(&mut self, option: &str, value: impl Into<String>) {
        self.0.push(option.to_owned());
        self.0.push(value.into());
    }
}

fn firmware(machine: &Machine, list: &mut Arguments) {
    if machine.firmware == Firmware::Uefi {
        let (code, _) = uefi(machine);
        list.option(
            "-drive",
            format!("if=pflash,format=raw,unit=0,readonly=on,file={code}"),
        );
        list.option(
            "-drive",
            format!(
                "if=pflash,format=raw,unit=1,file={}",
                machine.variables.display()
            ),
        );
    }
}

/// The option with the boot index of a device, or nothing.
///
/// SeaBIOS keeps no boot order across a reset, so it gets the order from QEMU: the
/// disks first. OVMF gets no order from QEMU: its order is in its variables, and the
/// tests check that the agent's entry comes first after a reset. With a direct boot,
/// QEMU itself uses the first position for the kernel.
///
/// `rank` is the device's position in this boot order: the disks first, from 0, then
/// the boot medium or the NICs.
fn boot_index(machine: &Machine, rank: usize) -> String {
    let stick = matches!(machine.boot, Boot::UsbStick(_));
    let place = match (machine.firmware, &machine.boot) {
        (Firmware::Uefi, _) | (_, Boot::Direct { .. }) => return String::new(),
        // SeaBIOS boots only from the first hard disk, and a stick is a hard disk.
        (Firmware::Bios, _) if stick && rank == machine.disks.len() => 0,
        (Firmware::Bios, _) if stick => rank + 1,
        (Firmware::Bios, _) => rank,
    };
    format!(",bootindex={place}")
}

fn disks(machine: &Machine, list: &mut Arguments) {
    for (index, disk) in machine.disks.iter().enumerate() {
        let order = boot_index(machine, index);
        let sharing = match disk.bus {
            Bus::TwoPaths => ",file.locking=off",
            _ => "",
        };
        list.option(
            "-drive",
            format!("if=none,id=disk{index},{}{sharing}", drive(disk)),
        );
        let names = format!(
            "drive=disk{index},serial=disk{index},id={}",
            device_name(index)
        );
        let device = match disk.bus {
            Bus::VirtioBlk => format!("virtio-blk-pci,{names}"),
            Bus::Nvme => format!("nvme,{names}"),
            Bus::Sata => format!("ide-hd,{names}"),
            Bus::VirtioScsi => {
                list.option("-device", format!("virtio-scsi-pci,id=scsi{index}"));
                format!("scsi-hd,bus=scsi{index}.0,{names}")
            }
            // QEMU opens the file twice. Both use the host's page cache, so each
            // path reads what the other path wrote.
            Bus::TwoPaths => {
                list.option("-device", format!("virtio-scsi-pci,id=scsi{index}"));
                let path = |drive: &str, target: u8, name: &str| {
                    format!(
                        "scsi-hd,bus=scsi{index}.0,scsi-id={target},drive=disk{index}{drive},serial=disk{index},\
                         id={name},wwn={WWN},share-rw=on"
                    )
                };
                list.option(
                    "-drive",
                    format!(
                        "if=none,id=disk{index}-second,{},file.locking=off",
                        drive(disk)
                    ),
                );
                list.option("-device", path("-second", 1, &second_path_name(index)));
                path("", 0, &device_name(index))
            }
        };
        if !disk.unplugged {
            list.option("-device", device + &order);
        }
    }
}

/// The world-wide name of a disk with two paths.
const WWN: &str = "0x5000c50015ea71ac";

/// The ID of a disk's device in QEMU.
pub(super) fn device_name(index: usize) -> String {
    format!("disk{index}-device")
}

/// The ID of the device for the second path to a disk with [`Bus::TwoPaths`].
pub(super) fn second_path_name(index: usize) -> String {
    format!("{}-second", device_name(index))
}

fn drive(disk: &Disk) -> String {
    // Options for a fast disk. unsafe: data need not survive a crash of the build
    // machine. unmap: zeros that the guest writes take no space on the build
    // machine's disk.
    const QUICK: &str = "cache=unsafe,discard=unmap,detect-zeroes=unmap";
    let path = disk.path.display();
    let rule = "file.inject-error.0";
    let fault = match disk.fault {
        None => return format!("file={path},format=raw,{QUICK}"),
        Some(DiskFault::ReadOnly) => return format!("file={path},format=raw,{QUICK},readonly=on"),
        Some(DiskFault::BadSector(sector)) => {
            format!("{rule}.event=write_aio,{rule}.iotype=write,{rule}.sector={sector}")
        }
        Some(DiskFault::Unreadable) => format!("{rule}.event=read_aio,{rule}.iotype=read"),
    };
    // The syntax is in QEMU's docs/devel/blkdebug.txt. Without detect-zeroes, because
    // zeros must really be written.
    format!(
        "driver=raw,file.driver=blkdebug,file.image.driver=file,file.image.filename={path},\
         {fault},{rule}.errno=5,cache=writeback,discard=unmap"
    )
}

fn boot(machine: &Machine, list: &mut Arguments) {
    let order = boot_index(machine, machine.disks.len());
    if let Some(path) = &machine.data_medium {
        list.option("-drive", read_only(path));
        // Use SCSI, because the cloud kernel has no driver for AHCI. The controller's
        // PCI slot is behind all others, so the names of the other devices do not
        // change.
        list.option("-device", "virtio-scsi-pci,id=drives,addr=0x10");
        list.option("-device", "scsi-cd,bus=drives.0,drive=media");
    }
    match &machine.boot {
        Boot::Disk | Boot::IpxeRom | Boot::FirmwarePxe => {}
        // OVMF tries PXE before HTTP, and waits minutes for an answer (its
        // OvmfPkg/RUNTIME_CONFIG.md).
        Boot::FirmwareHttp => {
            for family in ["IPv4", "IPv6"] {
                let name = format!("opt/org.tianocore/{family}PXESupport");
                list.option("-fw_cfg", format!("name={name},string=n"));
            }
        }
        Boot::Direct {
            kernel,
            ramdisk,
            arguments,
        } => {
            list.option("-kernel", kernel.display().to_string());
            list.option("-initrd", ramdisk.display().to_string());
            list.option("-append", arguments.clone());
            // At a reset QEMU would load the same kernel again. Tests of a reboot
            // use firmware.
            list.flag("-no-reboot");
        }
        Boot::Iso(path) => {
            list.option("-drive", read_only(path));
            match artifacts::arch() {
                Arch::X86_64 => list.option("-device", format!("ide-cd,drive=media{order}")),
                Arch::Aarch64 => {
                    list.option("-device", "virtio-scsi-pci,id=drives");
                    list.option("-device", "scsi-cd,bus=drives.0,drive=media");
                }
            }
        }
        Boot::UsbStick(path) => {
            list.option(
                "-drive",
                format!("file={},format=raw,if=none,id=media", path.display()),
            );
            list.option("-device", "qemu-xhci");
            list.option(
                "-device",
                format!("usb-storage,drive=media,removable=on{order}"),
            );
        }
    }
}

fn read_only(path: &std::path::Path) -> String {
    format!(
        "file={},format=raw,if=none,id=media,readonly=on",
        path.display()
    )
}

fn nics(machine: &Machine, list: &mut Arguments) {
    let taps = TAPS.into_iter().skip(machine.first_tap);
    for (index, (mac, tap)) in machine.nics.iter().zip(taps).enumerate() {
        list.option(
            "-netdev",
            format!("tap,id=net{index},ifname={tap},script=no,downscript=no"),
        );
        // Without the ROM SeaBIOS has no driver for the NIC. OVMF uses its own
        // driver and tries the NIC after every disk and medium.
        let rom = if matches!(machine.boot, Boot::IpxeRom) {
            boot_index(machine, machine.disks.len() + index)
        } else {
            ",romfile=".to_owned()
        };
        list.option(
            "-device",
            format!("virtio-net-pci,netdev=net{index},mac={mac}{rom}"),
        );
    }
}

/// The ID of the network backend for a NIC that is plugged in later, and the start of
/// the ID of its slot.
pub(super) const LATE: &str = "late";

/// Gives the NIC its own root port, because the root bus of a q35 machine has
/// no hotplug.
fn late_nic(machine: &Machine, list: &mut Arguments) {
    let free = TAPS.get(machine.first_tap + machine.nics.len());
    if let Some(tap) = free.filter(|_| machine.late_nic) {
        list.option(
            "-netdev",
            format!("tap,id={LATE},ifname={tap},script=no,downscript=no"),
        );
        list.option(
            "-device",
            format!("pcie-root-port,id={LATE}-slot,chassis=1"),
        );
    }
}

fn error_records(machine: &Machine, list: &mut Arguments) {
    const BYTES: u32 = 64 << 10;
    if let Some(path) = &machine.error_records {
        list.option(
            "-object",
            format!(
                "memory-backend-file,id=records,size={BYTES},share=on,mem-path={}",
                path.display()
            ),
        );
        list.option("-device", "acpi-erst,memdev=records,addr=0x11");
    }
}

/// Adds the extra devices. Their slots are behind all others, so the names of
/// the other devices do not change.
fn extras(machine: &Machine, list: &mut Arguments) {
    for extra in &machine.extras {
        match extra {
            // Secure Boot is a property of the firmware: see `uefi`.
            Extra::SecureBoot => {}
            // Every q35 machine has this watchdog, but without this option it resets
            // nothing.
            Extra::RunningWatchdog => list.option("-global", "ICH9-LPC.noreboot=false"),
            Extra::HypervisorConsole(path) => {
                list.option("-chardev", format!("file,id=hvc,path={}", path.display()));
                list.option("-device", "virtio-serial-pci,addr=0x13");
                list.option("-device", "virtconsole,chardev=hvc");
            }
            Extra::FirmwareConsole { output, table } => {
                list.option(
                    "-chardev",
                    format!("file,id=com2,path={}", output.display()),
                );
                list.option("-serial", "chardev:com2");
                list.option(
                    "-acpitable",
                    format!("sig=SPCR,rev=2,data={}", table.display()),
                );
            }
            Extra::UsbDisk(path) => {
                let path = path.display();
                list.option("-drive", format!("if=none,id=usb,format=raw,file={path}"));
                list.option("-device", "qemu-xhci,addr=0x12");
                list.option("-device", "usb-storage,drive=usb,serial=usb");
            }
            Extra::UsbKeyboard => {
                list.option("-device", "qemu-xhci,addr=0x14");
                list.option("-device", "usb-kbd");
            }
            Extra::OldNic => list.option("-device", "tulip,addr=0x15"),
            Extra::NicWithFirmware => list.option("-device", "i82551,addr=0x16"),
            Extra::SerialNumber(number) => {
                list.option("-smbios", format!("type=1,serial={number}"));
            }
            Extra::QemuOption(option, value) => list.option(option, value),
        }
    }
}

/// The ID of a cable's network device in QEMU.
pub(super) fn cord_name(number: u16) -> String {
    format!("cord{number}")
}

/// A cable is a pair of UDP ports on the loopback interface of the lab's namespace.
fn cords(machine: &Machine, list: &mut Arguments) {
    const FIRST_PORT: u16 = 41000;
    for Cord { mac, number, end } in &machine.cords {
        let host = FIRST_PORT + 2 * number;
        let (local, remote) = match end {
            CordEnd::Host => (host, host + 1),
            CordEnd::Peer => (host + 1, host),
        };
        let name = cord_name(*number);
        let address = |side: &str, port: u16| {
            format!("{side}.type=inet,{side}.host=127.0.0.1,{side}.port={port}")
        };
        list.option(
            "-netdev",
            format!(
                "dgram,id={name},{},{}",
                address("local", local),
                address("remote", remote)
            ),
        );
        // Set a speed, because LACP in the kernel ignores a port of unknown speed.
        list.option(
            "-device",
            format!("virtio-net-pci,netdev={name},mac={mac},speed=1000,duplex=full,romfile="),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::Disk;

    fn machine(firmware: Firmware, boot: Boot) -> Machine {
        Machine {
            firmware,
            processors: 2,
            memory_mib: 512,
            disks: vec![Disk {
                path: "/d".into(),
                bus: Bus::VirtioScsi,
                unplugged: false,
                fault: None,
            }],
            nics: vec!["52:54:00:00:00:01".into()],
            first_tap: 0,
            cords: Vec::new(),
            data_medium: None,
            extras: Vec::new(),
            late_nic: false,
            boot,
            variables: "/v".into(),
            error_records: None,
        }
    }

    #[test]
    fn bios_tries_the_disk_before_the_medium() {
        let line =
            arguments(&machine(Firmware::Bios, Boot::Iso("/i".into())), false, "q").join(" ");
        let disk = format!("id={},bootindex=0", device_name(0));
        assert!(line.contains(&disk), "{line}");
        assert!(line.contains("ide-cd,drive=media,bootindex=1"));
        assert!(line.contains("mac=52:54:00:00:00:01,romfile="));
    }

    #[test]
    fn uefi_keeps_the_order_of_its_variables() {
        let line = arguments(&machine(Firmware::Uefi, Boot::FirmwarePxe), false, "q").join(" ");
        assert!(!line.contains("bootindex"));
        assert!(line.contains("unit=1,file=/v"));
    }

    #[test]
    fn secure_boot_is_another_firmware() {
        let mut machine = machine(Firmware::Uefi, Boot::Disk);
        assert_eq!(variables(&machine), OVMF_VARIABLES);
        machine.extras.push(Extra::SecureBoot);
        let line = arguments(&machine, false, "q").join(" ");
        assert!(
            line.contains(SECURE_CODE) && !line.contains(OVMF_CODE),
            "{line}"
        );
        assert_eq!(variables(&machine), SECURE_VARIABLES);
    }

    #[test]
    fn uefi_can_leave_out_pxe() {
        let line = arguments(&machine(Firmware::Uefi, Boot::FirmwareHttp), false, "q").join(" ");
        assert!(line.contains("IPv4PXESupport,string=n"), "{line}");
        let line = arguments(&machine(Firmware::Uefi, Boot::FirmwarePxe), false, "q").join(" ");
        assert!(!line.contains("PXESupport"), "{line}");
    }

    #[test]
    fn a_cable_has_two_ends() {
        let mut machine = machine(Firmware::Bios, Boot::Disk);
        let mut ends = [CordEnd::Host, CordEnd::Peer].map(|end| {
            machine.cords = vec![Cord {
                mac: "52:54:00:00:00:02".into(),
                number: 1,
                end,
            }];
            let line = arguments(&machine, false, "q").join(" ");
            let port = |side: &str| -> String {
                let text = line.split(&format!("{side}.port=")).nth(1).unwrap();
                text.chars().take_while(char::is_ascii_digit).collect()
            };
            [port("local"), port("remote")]
        });
        ends[1].reverse();
        assert_eq!(ends[0], ends[1]);
        assert_ne!(ends[0][0], ends[0][1]);
    }
}
