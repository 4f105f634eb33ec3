//! Starts virtual machines and controls running ones.

mod screen;

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use landfall_initramfs::arch::Arch;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};
use tokio::task::JoinHandle;

use super::arguments::{
    LATE, SERIAL, arguments, cord_name, device_name, emulator, second_path_name, variables,
};
use super::qmp::{self, Qmp};
use super::{Firmware, Machine, accelerator, console};
use crate::artifacts;
use crate::journal::{Event, Journal, MACHINE_ENDED, Mark, Source};
use crate::lab::Lab;
use crate::program;

/// How long QEMU may take to connect, which it does as soon as it has read its
/// command line.
const START_LIMIT: Duration = Duration::from_secs(30);

/// The sources under which a machine appears in the journal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Voice {
    /// The source of the lines of its console.
    pub(crate) console: Source,
    /// The source of the events of the machine itself.
    pub(crate) machine: Source,
}

/// The sources for the host that a test is about.
const HOST: Voice = Voice {
    console: Source::Console,
    machine: Source::Machine,
};

/// A running virtual machine. Dropping it kills QEMU.
pub struct Guest {
    journal: Journal,
    voice: Voice,
    began: Mark,
    pid: Pid,
    serial: ChildStdin,
    qmp: Qmp,
    /// The task that records the console. It ends after the process, when it has
    /// recorded the last line.
    ended: JoinHandle<()>,
}

impl Guest {
    pub async fn start(lab: &Lab, machine: &Machine) -> Result<Self> {
        Self::start_as(lab, machine, HOST).await
    }

    /// Starts a machine whose hardware clock shows this time, such as
    /// `2010-01-01T00:00:00`.
    pub async fn start_at(lab: &Lab, machine: &Machine, clock: &str) -> Result<Self> {
        let options = ["-rtc".to_owned(), format!("base={clock}")];
        Self::start_with(lab, machine, HOST, &options).await
    }

    /// Starts one of several hosts that run in parallel. The source of its console's
    /// and its machine's events is [`Source::Host`] with this number.
    pub async fn start_host(lab: &Lab, machine: &Machine, number: u8) -> Result<Self> {
        let source = Source::Host(number);
        let voice = Voice {
            console: source,
            machine: source,
        };
        Self::start_as(lab, machine, voice).await
    }

    /// Like [`Guest::start`], for a machine that is not the host.
    pub(crate) async fn start_as(lab: &Lab, machine: &Machine, voice: Voice) -> Result<Self> {
        Self::start_with(lab, machine, voice, &[]).await
    }

    async fn start_with(
        lab: &Lab,
        machine: &Machine,
        voice: Voice,
        options: &[String],
    ) -> Result<Self> {
        let journal = lab.journal.clone();
        let began = journal.mark();
        if machine.firmware == Firmware::Uefi && !machine.variables.exists() {
            let template = variables(machine);
            std::fs::copy(template, &machine.variables).with_context(|| {
                format!("copying {template} (package ovmf or qemu-efi-aarch64)")
            })?;
        }
        let kvm = artifacts::arch() == Arch::X86_64 && accelerator::kvm_works().await?;
        let control = format!("landfall-{}", uuid::Uuid::new_v4().simple());
        let listener = qmp::listen(&control)?;
        let mut child = program::bound_to_this_thread(emulator())
            .args(arguments(machine, kvm, &control))
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", emulator()))?;
        journal.record(
            voice.machine,
            format!(
                "power on: {:?}, {}",
                machine.firmware,
                if kvm { "KVM" } else { "TCG" }
            ),
        );
        // The pipes were requested above, so they exist.
        let serial = child.stdin.take().context("no pipe to QEMU")?;
        let output = child.stdout.take().context("no pipe from QEMU")?;
        // setpriv(1) replaces itself with QEMU, so this is QEMU's process ID.
        let pid = child.id().context("QEMU has ended already")?;
        let pid = Pid::from_raw(i32::try_from(pid)?);
        let reader = tokio::spawn(console::record_as(voice.console, output, journal.clone()));
        let ended = tokio::spawn(watch(child, reader, voice, journal.clone()));
        let connect = Qmp::accept(listener, voice.machine, journal.clone());
        let ended_early =
            journal.wait_for("QEMU's control connection", began, START_LIMIT, |_| false);
        let qmp = tokio::select! {
            Ok(qmp) = connect => qmp,
            ended = ended_early => {
                // The wait always ends with an error, because no event matches. QEMU's messages
                // are in the journal.
                let complaints = journal.find(began, |event| event.text.starts_with("qemu: "));
                let why = complaints.map(|event| event.text).unwrap_or_default();
                return Err(ended.err().unwrap_or_else(|| anyhow!("no QEMU")).context(why));
            }
        };
        Ok(Self {
            journal,
            voice,
            began,
            pid,
            serial,
            qmp,
            ended,
        })
    }

    /// Waits for a console line that contains `text`, printed since the machine
    /// started.
    pub async fn console(&self, text: &str, within: Duration) -> Result<Event> {
        self.console_after(self.began, text, within).await
    }

    /// Waits for a console line after `mark` that contains `text`.
    pub async fn console_after(&self, mark: Mark, text: &str, within: Duration) -> Result<Event> {
        let what = format!("'{text}' on the console");
        self.journal
            .wait_for_of(self.voice.machine, &what, mark, within, |event| {
                event.source == self.voice.console && event.text.contains(text)
            })
            .await
    }

    /// Types a line on the serial console.
    pub(crate) async fn type_line(&mut self, line: &str) -> Result<()> {
        self.type_on_serial(&format!("{line}\n")).await
    }

    /// Sends the characters of a terminal to the serial console.
    pub async fn type_on_serial(&mut self, characters: &str) -> Result<()> {
        self.serial.write_all(characters.as_bytes()).await?;
        Ok(self.serial.flush().await?)
    }

    /// Unplugs a cable on this side, or plugs it in again, which changes the NIC's
    /// carrier.
    pub async fn set_cord(&mut self, number: u16, connected: bool) -> Result<()> {
        let how = if connected { "in" } else { "out" };
        let text = format!("cable {number} plugged {how}");
        self.journal.record(self.voice.machine, text);
        let arguments = json!({"name": cord_name(number), "up": connected});
        self.qmp.execute("set_link", arguments).await.map(drop)
    }

    /// Like [`Self::set_cord`], for the cable between a tap and the NIC with this
    /// index.
    pub async fn set_carrier(&mut self, nic: usize, connected: bool) -> Result<()> {
        let how = if connected { "in" } else { "out" };
        let text = format!("cable of NIC {nic} plugged {how}");
        self.journal.record(self.voice.machine, text);
        let arguments = json!({"name": format!("net{nic}"), "up": connected});
        self.qmp.execute("set_link", arguments).await.map(drop)
    }

    /// Plugs a NIC into the slot for a late NIC.
    pub async fn plug_nic(&mut self, mac: &str) -> Result<()> {
        self.journal
            .record(self.voice.machine, format!("NIC {mac} plugged in"));
        let device = json!({
            "driver": "virtio-net-pci",
            "bus": format!("{LATE}-slot"),
            "netdev": LATE,
            "mac": mac,
            "romfile": "",
        });
        self.qmp.execute("device_add", device).await.map(drop)
    }

    /// Waits until the guest resets the machine.
    pub async fn reset(&self, within: Duration) -> Result<Event> {
        self.journal
            .wait_for("the machine's reset", self.began, within, |event| {
                event.source == Source::Machine && event.text.starts_with("RESET")
            })
            .await
    }

    /// Waits until the guest has powered the machine off.
    pub async fn powered_off(self, within: Duration) -> Result<()> {
        tokio::time::timeout(within, self.ended)
            .await
            .with_context(|| format!("the machine still runs after {} s", within.as_secs()))??;
        let by_itself = self.journal.find(self.began, |event| {
            event.source == self.voice.machine && event.text.starts_with("SHUTDOWN")
        });
        ensure!(
            by_itself.is_some_and(|event| event.text.contains("\"guest\":true")),
            "the machine ended, but not by its own power-off"
        );
        Ok(())
    }

    /// Cuts the power: QEMU is killed without flushing anything.
    pub async fn cut_power(self) -> Result<()> {
        self.journal.record(Source::Machine, "power cut");
        kill(self.pid, Signal::SIGKILL).context("killing QEMU")?;
        self.ended.await?;
        Ok(())
    }

    /// Plugs in a disk that was unplugged at power on.
    pub async fn plug(&mut self, index: usize) -> Result<()> {
        self.journal
            .record(Source::Machine, format!("disk {index} plugged in"));
        let device = json!({
            "driver": "scsi-hd",
            "bus": format!("scsi{index}.0"),
            "drive": format!("disk{index}"),
            "serial": format!("disk{index}"),
            "id": device_name(index),
        });
        self.qmp.execute("device_add", device).await.map(drop)
    }

    /// Presses the power button briefly, as a BMC does for a soft power-off.
    pub async fn press_power_button(&mut self) -> Result<()> {
        self.journal
            .record(self.voice.machine, "power button pressed");
        self.qmp
            .execute("system_powerdown", json!({}))
            .await
            .map(drop)
    }

    /// Writes to an I/O port of the machine, as its firmware could.
    pub async fn write_port(&mut self, port: u16, value: u16) -> Result<()> {
        let line = format!("o/h {port:#x} {value:#x}");
        self.qmp
            .execute("human-monitor-command", json!({"command-line": line}))
            .await
            .map(drop)
    }

    /// Presses Ctrl-Alt-Del on the machine's emulated keyboard.
    pub async fn press_ctrl_alt_del(&mut self) -> Result<()> {
        self.journal.record(self.voice.machine, "Ctrl-Alt-Del");
        let key = |name: &str| json!({"type": "qcode", "data": name});
        let keys = json!({"keys": [key("ctrl"), key("alt"), key("delete")]});
        self.qmp.execute("send-key", keys).await.map(drop)
    }

    /// Presses keys, one after the other, on the machine's emulated keyboard: PS/2, or
    /// USB with [`super::Extra::UsbKeyboard`]. A key is a `QKeyCode` of QEMU (`ret`,
    /// `down`, `a`), or several at once: `ctrl-u`.
    pub async fn press(&mut self, keys: &[&str]) -> Result<()> {
        self.journal
            .record(self.voice.machine, format!("keys: {}", keys.join(" ")));
        for name in keys {
            let codes = name.split('-');
            let keys = codes.map(|code| json!({"type": "qcode", "data": code}));
            let keys = json!({"keys": keys.collect::<Vec<_>>()});
            self.qmp.execute("send-key", keys).await?;
            // QEMU holds a key for 100 ms, and drops keys that come faster than the guest
            // reads them.
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        Ok(())
    }

    /// Unplugs a disk, which must be a SCSI disk.
    pub async fn unplug(&mut self, index: usize) -> Result<()> {
        self.journal
            .record(Source::Machine, format!("disk {index} pulled out"));
        let device = json!({"id": device_name(index)});
        self.qmp.execute("device_del", device).await.map(drop)
    }

    /// Unplugs the second path to a disk with [`super::Bus::TwoPaths`]: target 1 of its
    /// controller. [`Self::unplug`] takes target 0 away.
    pub async fn unplug_second_path(&mut self, index: usize) -> Result<()> {
        self.journal.record(
            Source::Machine,
            format!("second path to disk {index} pulled out"),
        );
        let device = json!({"id": second_path_name(index)});
        self.qmp.execute("device_del", device).await.map(drop)
    }

    /// Makes a disk hang, or work again. A hanging disk transfers one byte per second.
    pub async fn set_hanging(&mut self, index: usize, hangs: bool) -> Result<()> {
        let how = if hangs { "hangs" } else { "answers again" };
        self.journal
            .record(Source::Machine, format!("disk {index} {how}"));
        // In bytes per second. QEMU starts a request when the requests before it fit
        // into the rate.
        let (rate, none) = (u8::from(hangs), 0);
        let limits = json!({
            "device": format!("disk{index}"),
            "bps": rate, "bps_rd": none, "bps_wr": none,
            "iops": none, "iops_rd": none, "iops_wr": none,
        });
        self.qmp
            .execute("block_set_io_throttle", limits)
            .await
            .map(drop)
    }

    /// Sends a break and a magic SysRq key on the serial console.
    pub async fn sysrq(&mut self, key: u8) -> Result<()> {
        self.journal
            .record(Source::Machine, format!("SysRq {}", char::from(key)));
        self.qmp
            .execute("chardev-send-break", json!({"id": SERIAL}))
            .await?;
        self.serial.write_all(&[key]).await?;
        self.serial.flush().await?;
        Ok(())
    }
}

/// Records the end of the process, after its console has been read to the end.
async fn watch(mut child: Child, console: JoinHandle<()>, voice: Voice, journal: Journal) {
    let mut complaints = String::new();
    if let Some(stderr) = child.stderr.take() {
        // Limit the length: QEMU's own error messages are a few lines.
        let _ = stderr.take(64 * 1024).read_to_string(&mut complaints).await;
    }
    let status = child.wait().await;
    let _ = console.await;
    for line in complaints.lines() {
        journal.record(voice.machine, format!("qemu: {line}"));
    }
    let how = match status {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    journal.record(voice.machine, format!("{MACHINE_ENDED}: {how}"));
}
