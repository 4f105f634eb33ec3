//! A host behind the emulated BMC: a libvirt domain. Ironic switches it on and off.
//! The test only looks at its console and its disk.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{self, Poll, ready};

use anyhow::{Context, Result};
use landfall_tests::journal::Source;
use landfall_tests::lab::Lab;
use landfall_tests::vm::{Firmware, OVMF_CODE, OVMF_VARIABLES, record_console};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{UnixListener, UnixStream};

use super::services::virsh;

#[derive(Debug, Clone)]
pub struct Guest {
    /// The name in libvirt.
    pub name: String,
    pub mac: String,
    pub firmware: Firmware,
    /// The path of the disk, a raw file.
    pub disk: PathBuf,
    /// The network boot protocol, for UEFI that boots from the network.
    pub network_boot: Option<NetworkProtocol>,
}

/// How UEFI firmware loads its first file from the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkProtocol {
    /// PXE.
    Tftp,
    /// HTTP boot.
    Http,
}

/// In MiB: more than the agent needs, because the firmware keeps a copy of an
/// ISO's ramdisk.
const MEMORY_MIB: u32 = 1024;

/// In bytes: the same size as the default of `disk_mib` in
/// [`landfall_tests::site::Plan`]. A root disk needs at least 4 GiB.
const DISK_BYTES: u64 = 5 << 30;

/// The path of SeaBIOS in Debian's package seabios.
const SEABIOS: &str = "/usr/share/seabios/bios-256k.bin";

/// The journal's text for a host that was switched on.
pub const POWER_ON: &str = "power on";

/// The socket that the guest's serial port connects to, in a private folder of the
/// test.
const CONSOLE: &str = "/run/libvirt/console";

impl Guest {
    /// Creates the disk and the domain, powered off, and listens for the console.
    /// Returns the domain's UUID.
    pub async fn define(&self, lab: &Lab) -> Result<String> {
        let disk =
            File::create(&self.disk).with_context(|| format!("making {}", self.disk.display()))?;
        disk.set_len(DISK_BYTES)?;
        // QEMU connects at each power on. The listener exists before, so no byte is
        // lost.
        let listener = UnixListener::bind(CONSOLE).context("listening to the console")?;
        let journal = lab.journal.clone();
        let log = File::create(lab.log_path("console"))?;
        tokio::spawn(async move {
            while let Ok((console, _)) = listener.accept().await {
                journal.record(Source::Machine, POWER_ON);
                let log = &log;
                record_console(Console { console, log }, journal.clone()).await;
                journal.record(Source::Machine, "power off");
            }
        });
        let xml = lab.path("guest.xml");
        std::fs::write(&xml, self.xml(lab))?;
        virsh(&["define", &xml.display().to_string()]).await?;
        Ok(virsh(&["domuuid", &self.name]).await?.trim().to_owned())
    }

    /// The domain's XML. The machine type is i440fx, because its CD drive is on an
    /// IDE controller. The smallest module set has a driver for that, as for the CD
    /// drives of most BMCs.
    fn xml(&self, lab: &Lab) -> String {
        let Self {
            name,
            mac,
            firmware,
            disk,
            network_boot,
        } = self;
        let disk = disk.display();
        let loader = match firmware {
            // QEMU would use this firmware anyway, but the Redfish emulator detects
            // the firmware from this element.
            Firmware::Bios => format!("<loader readonly='yes' type='rom'>{SEABIOS}</loader>"),
            Firmware::Uefi => format!(
                "<loader readonly='yes' type='pflash'>{OVMF_CODE}</loader>\
                 <nvram template='{OVMF_VARIABLES}'>{}</nvram>",
                lab.path("uefi-variables").display()
            ),
        };
        // Switch QEMU's own ROM for the NIC off: it contains iPXE, which would replace
        // the firmware's network boot.
        let rom = network_boot.map_or("", |_| "<rom enabled='no'/>");
        // Without these settings OVMF tries PXE first, and waits a minute each for IPv4
        // and for IPv6.
        let firmware_settings = match network_boot {
            Some(NetworkProtocol::Http) => {
                "<sysinfo type='fwcfg'>\
                 <entry name='opt/org.tianocore/IPv4PXESupport'>n</entry>\
                 <entry name='opt/org.tianocore/IPv6PXESupport'>n</entry>\
                 </sysinfo>"
            }
            Some(NetworkProtocol::Tftp) | None => "",
        };
        format!(
            "<domain type='qemu'>
  <name>{name}</name>
  <memory unit='MiB'>{MEMORY_MIB}</memory>
  <vcpu>2</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type>{loader}<boot dev='hd'/></os>
  {firmware_settings}
  <features><acpi/><apic/></features>
  <cpu mode='maximum'/>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='unsafe' discard='unmap' detect_zeroes='unmap'/>
      <source file='{disk}'/><target dev='vda' bus='virtio'/><serial>disk0</serial>
    </disk>
    <interface type='bridge'>
      <source bridge='br0'/><mac address='{mac}'/><model type='virtio'/>{rom}
    </interface>
    <serial type='unix'>
      <source mode='connect' path='{CONSOLE}'/>
    </serial>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
  </devices>
</domain>
"
        )
    }
}

/// Copies the console to a log file as it is read, for a developer who follows the
/// test. QEMU can write a log too, but repeats bytes that a slow reader did not
/// take at once.
struct Console<'a> {
    console: UnixStream,
    log: &'a File,
}

impl AsyncRead for Console<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.console).poll_read(context, buffer))?;
        let mut log = self.log;
        Poll::Ready(log.write_all(&buffer.filled()[before..]))
    }
}
