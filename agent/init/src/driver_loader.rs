//! Loads the drivers of all devices, as udev and kmod do on other systems.
//!
//! The `modalias` of a device identifies it, and the index names the module that drives
//! it. Devices that are present at boot are read from /sys. Later devices announce
//! themselves by uevent. Each module is loaded by one thread. If another modalias needs a
//! module that is still loading, the modalias waits in a list, and its thread takes the
//! next modalias. So a controller that probes for ten seconds delays no other device.

use std::collections::{HashSet, VecDeque};
use std::io::{self, PipeReader, PipeWriter};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use landfall_module_index::ModuleId;
use landfall_sys::uevent::{Action, Received, UeventSocket};

use super::coldplug;
use super::modules::{Modules, Outcome, lock};

/// The number of threads. It does not depend on the number of processors: a thread whose
/// driver waits for its device needs no processor, and several controllers can be slow at
/// once.
const THREADS: usize = 8;

/// The consequence of a failure to start a thread, for the log.
const DEVICES_WITHOUT: &str = "some devices may get no driver";

/// If the kernel sends no uevent for this long, init logs the names of the modules that
/// are still loading.
const SLOW_MODULE: Duration = Duration::from_secs(20);

/// How long all other devices wait for the drivers of virtio devices. These drivers
/// take some milliseconds.
const VIRTIO_LIMIT: Duration = Duration::from_secs(10);

/// The reason why init continues although the drivers of virtio devices are not all
/// loaded, for a warning.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum VirtioDelay {
    /// A virtio device has not answered its driver for 10 s. The other devices get their
    /// drivers now, so SCSI numbers may differ and root device hints with `hctl` may match
    /// another disk. Holds the names of the drivers.
    #[error("a driver still waits for its virtio device ({0}), continuing with the other devices")]
    Waits(String),
    /// No driver waits for its device: the processor is busy, as on an overloaded
    /// hypervisor. SCSI numbers may differ, so root device hints with `hctl` may match
    /// another disk. Holds a number of seconds.
    #[error(
        "the drivers of virtio devices are not all loaded after {0} s, because this machine is slow; SCSI hosts may get other numbers than usual"
    )]
    Slow(u64),
}

impl VirtioDelay {
    /// The reason why the modules in `loading` are not loaded after `limit`.
    fn of(loading: &[String], limit: Duration) -> Self {
        match loading {
            [] => Self::Slow(limit.as_secs()),
            names => Self::Waits(names.join(", ")),
        }
    }
}

/// Starts threads that load the drivers for all devices, now and as long as the system
/// runs. The returned pipe reaches end of file when the devices that were there at boot,
/// and the devices behind them, have their drivers. If the module index cannot be read,
/// the pipe reaches end of file at once. `None` means that there is no pipe: then the
/// agent assumes that the devices have settled.
pub(super) fn load_in_background() -> Option<PipeReader> {
    let (reader, writer) = io::pipe()
        .inspect_err(|error| {
            tracing::warn!(
                "cannot create a pipe to the agent: {error}; it does not wait for drivers"
            )
        })
        .ok()
        .unzip();
    match Modules::of_running_kernel() {
        Ok(modules) => {
            Arc::new(Loader::new(modules, writer)).start();
        }
        Err(error) => {
            tracing::warn!("{error}; only drivers that are part of the kernel will work");
        }
    }
    reader
}

/// The work that is still to do. The threads share it.
struct Loader {
    modules: Modules,
    work: Mutex<Work>,
    more: Condvar,
}

struct Work {
    queue: VecDeque<String>,
    /// Modaliases that wait until another thread has loaded this module.
    waiting: Vec<(ModuleId, String)>,
    seen: HashSet<String>,
    busy: usize,
    settled: bool,
    /// The write end of the pipe. The loader drops it when the devices that were
    /// present at boot have their drivers.
    signal: Option<PipeWriter>,
}

impl Loader {
    fn new(modules: Modules, settled: Option<PipeWriter>) -> Self {
        Self {
            modules,
            work: Mutex::new(Work {
                queue: VecDeque::new(),
                waiting: Vec::new(),
                seen: HashSet::new(),
                busy: 0,
                settled: false,
                signal: settled,
            }),
            more: Condvar::new(),
        }
    }

    fn start(self: &Arc<Self>) {
        // Open the socket before the first scan of /sys, so that no device is missed
        // between the two.
        let socket = UeventSocket::open();
        self.queue_boot_devices(coldplug::wanted_aliases, VIRTIO_LIMIT);
        self.start_threads();
        match socket {
            Ok(socket) => {
                let loader = Arc::clone(self);
                super::spawn("uevents", DEVICES_WITHOUT, move || loader.follow(&socket));
            }
            Err(error) => {
                tracing::warn!(
                    "cannot receive uevents: {error}; devices that appear later get no driver"
                );
            }
        }
    }

    fn start_threads(self: &Arc<Self>) {
        for _ in 0..THREADS {
            let loader = Arc::clone(self);
            super::spawn("modules", DEVICES_WITHOUT, move || loader.work());
        }
    }

    /// Queues every alias that `look` finds in /sys, after the drivers of virtio devices
    /// are loaded. A separate thread loads these drivers, because a driver whose device
    /// does not answer must not block PID 1. PID 1 waits at most `limit`, and then queues
    /// the aliases anyway.
    fn queue_boot_devices(self: &Arc<Self>, look: fn() -> Vec<String>, limit: Duration) {
        // Count this work as a busy thread, so that the devices do not settle before it
        // is done.
        lock(&self.work).busy += 1;
        let (done, loaded) = sync_channel(1);
        let loader = Arc::clone(self);
        let started = thread::Builder::new()
            .name("virtio".to_owned())
            .spawn(move || {
                let found = loader.with_virtio_loaded(look);
                loader.queue(found);
                // The receiver is gone if init has stopped waiting.
                let _ = done.send(());
                loader.end_of_work();
            });
        if let Err(error) = started {
            tracing::error!(
                "cannot start the thread virtio: {error}; disks may have other names and SCSI addresses than in other boots -- name the root disk by serial or WWN"
            );
            self.queue(look());
            self.end_of_work();
        } else if loaded.recv_timeout(limit).is_err() {
            let delay = VirtioDelay::of(&self.modules.loading(), limit);
            // The thread may have ended after the timeout.
            if loaded.try_recv().is_err() {
                tracing::warn!("{delay}");
                self.queue(look());
            }
        }
    }

    /// Loads the drivers of virtio devices before all others, and returns every
    /// alias that is in /sys after that.
    ///
    /// The kernel numbers SCSI hosts in the order in which they appear. Operators
    /// of virtual machines write hints such as hctl 0:0:0:0 for the first virtio
    /// disk, because that is its number under udev. Without this function the six
    /// ports of a q35's AHCI would come first.
    fn with_virtio_loaded(&self, look: fn() -> Vec<String>) -> Vec<String> {
        let mut found = look();
        for bus in ["pci:v00001AF4", "virtio:"] {
            let mut any = false;
            for modalias in found.iter().filter(|modalias| modalias.starts_with(bus)) {
                self.modules
                    .load_for(modalias, || self.requeue_what_waited());
                any = true;
            }
            if any {
                // Look again: once a module is loaded, its driver has created its
                // devices.
                found = look();
            }
        }
        found
    }

    /// Queues every alias in /sys that was not seen before. True if there was one.
    fn look_into_sys(&self) -> bool {
        self.queue(coldplug::wanted_aliases())
    }

    fn queue(&self, modaliases: Vec<String>) -> bool {
        let mut work = lock(&self.work);
        let mut any = false;
        for modalias in modaliases {
            if !work.seen.insert(modalias.clone()) {
                continue;
            }
            any = true;
            if leads_to_a_device_we_need(&modalias) {
                work.queue.push_front(modalias);
            } else {
                work.queue.push_back(modalias);
            }
        }
        drop(work);
        if any {
            self.more.notify_all();
        }
        any
    }

    fn work(&self) {
        loop {
            let mut work = lock(&self.work);
            let modalias = loop {
                if let Some(next) = work.queue.pop_front() {
                    break next;
                }
                work = self.more.wait(work).unwrap_or_else(PoisonError::into_inner);
            };
            work.busy += 1;
            drop(work);

            let outcome = self
                .modules
                .load_for(&modalias, || self.requeue_what_waited());

            if let Outcome::WaitsFor(id) = outcome {
                let mut work = lock(&self.work);
                // `requeue_what_waited` takes the same lock. If the module has been
                // loaded by now, this check notices it; if it is loaded later,
                // `requeue_what_waited` finds the entry.
                if self.modules.is_loading(id) {
                    work.waiting.push((id, modalias));
                } else {
                    work.queue.push_front(modalias);
                }
            }
            self.end_of_work();
        }
    }

    /// Notes that one thread has nothing to do for now. If all threads are idle, the last
    /// one looks for more work in /sys: a driver creates its devices before its loading
    /// ends, so /sys already has them, even if no thread has read their uevents yet.
    fn end_of_work(&self) {
        let mut work = lock(&self.work);
        work.busy -= 1;
        let idle = work.busy == 0 && work.queue.is_empty() && !work.settled;
        drop(work);
        if idle && !self.look_into_sys() {
            self.settle();
        }
    }

    fn requeue_what_waited(&self) {
        let mut work = lock(&self.work);
        let waiting = std::mem::take(&mut work.waiting);
        for (id, modalias) in waiting {
            if self.modules.is_loading(id) {
                work.waiting.push((id, modalias));
            } else {
                work.queue.push_front(modalias);
            }
        }
        drop(work);
        self.more.notify_all();
    }

    fn settle(&self) {
        let mut work = lock(&self.work);
        if work.busy > 0 || !work.queue.is_empty() || work.settled {
            return;
        }
        work.settled = true;
        let signal = work.signal.take();
        drop(work);
        let count = self.modules.count_loaded();
        tracing::info!("{count} kernel modules loaded");
        // Close the pipe: its end of file is the signal that the devices have settled.
        drop(signal);
    }

    /// Logs the names of the modules that delay the boot. A controller that does not
    /// answer keeps its driver in the kernel for minutes, or forever.
    fn report_slow_modules(&self) {
        if lock(&self.work).settled {
            return;
        }
        let slow = self.modules.loading();
        if !slow.is_empty() {
            tracing::warn!(
                "still waiting for the driver of a device: {}",
                slow.join(", ")
            );
        }
    }

    fn follow(&self, socket: &UeventSocket) {
        loop {
            match socket.recv(Some(SLOW_MODULE)) {
                Ok(Received::Event(event)) if event.action == Action::Add => {
                    if let Some(modalias) = event.modalias() {
                        self.queue(vec![modalias.to_owned()]);
                    } else if event.subsystem() == "infiniband" {
                        self.look_into_sys();
                    }
                }
                Ok(Received::Event(_)) => {}
                Ok(Received::Lost) => {
                    self.look_into_sys();
                }
                Ok(Received::TimedOut) => self.report_slow_modules(),
                Err(error) => {
                    tracing::warn!(
                        "cannot receive uevents: {error}; devices that appear later get no driver"
                    );
                    return;
                }
            }
        }
    }
}

/// Whether a NIC or a disk may be behind this modalias. Their drivers are loaded first.
/// The modaliases of the processor and the board request a dozen modules (crypto,
/// sensors, input) that the boot does not wait for.
fn leads_to_a_device_we_need(modalias: &str) -> bool {
    const BUSES: [&str; 6] = ["pci:", "virtio:", "scsi:", "vmbus:", "xen:", "usb:"];
    BUSES.iter().any(|bus| modalias.starts_with(bus))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::path::PathBuf;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Instant;

    use landfall_module_index::Index;

    use super::*;

    #[test]
    fn network_and_disks_go_before_the_board() {
        assert!(leads_to_a_device_we_need("virtio:d00000001v00001AF4"));
        assert!(leads_to_a_device_we_need("pci:v00001AF4d00001041sv"));
        assert!(!leads_to_a_device_we_need("cpu:type:x86,ven0002fam000F"));
        assert!(!leads_to_a_device_we_need("acpi:PNP0C0C:"));
    }

    const INDEX: &str = "\
landfall-module-index 1
kernel 6.1.0-test
module transport kernel/transport.ko
module hba kernel/hba.ko
needs transport
alias pci:hba*
module shelf kernel/shelf.ko
needs hba
alias scsi:shelf
module nic kernel/nic.ko
needs transport
alias pci:nic
module virtio_blk kernel/virtio_blk.ko
alias virtio:disk
end
";

    /// A kernel that sends the name of each loaded module to the returned receiver.
    /// It loads `hba.ko` and `virtio_blk.ko` only when the returned sender sends.
    fn slow_kernel() -> (Arc<Loader>, Receiver<String>, std::sync::mpsc::Sender<()>) {
        let (loaded, order) = channel();
        let (release, released) = channel();
        let released = Mutex::new(released);
        let insert = move |path: &std::path::Path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name == "hba.ko" || name == "virtio_blk.ko" {
                released.lock().unwrap().recv().unwrap();
            }
            loaded.send(name).unwrap();
            Ok(())
        };
        let modules = Modules::new(Index::parse(INDEX).unwrap(), PathBuf::new(), insert);
        (Arc::new(Loader::new(modules, None)), order, release)
    }

    #[test]
    fn a_slow_controller_delays_no_nic() {
        let (loader, order, release) = slow_kernel();
        // More devices with the slow driver than there are threads.
        let controllers = (0..4 * THREADS).map(|number| format!("pci:hba{number}"));
        loader.queue(controllers.collect());
        loader.queue(vec!["scsi:shelf".to_owned()]);
        let (mut settled, signal) = io::pipe().unwrap();
        lock(&loader.work).signal = Some(signal);
        loader.start_threads();
        assert_eq!(order.recv_timeout(TIMEOUT).as_deref(), Ok("transport.ko"));
        // One thread waits in the kernel for the slow driver. The others are free for
        // the NIC.
        loader.queue(vec!["pci:nic".to_owned()]);
        assert_eq!(order.recv_timeout(TIMEOUT).as_deref(), Ok("nic.ko"));
        release.send(()).unwrap();
        assert_eq!(order.recv_timeout(TIMEOUT).as_deref(), Ok("hba.ko"));
        assert_eq!(order.recv_timeout(TIMEOUT).as_deref(), Ok("shelf.ko"));
        settled.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(loader.modules.count_loaded(), 4);
    }

    const TIMEOUT: Duration = Duration::from_secs(20);

    fn two_devices() -> Vec<String> {
        vec!["virtio:disk".to_owned(), "pci:nic".to_owned()]
    }

    #[test]
    fn virtio_goes_first_if_its_devices_answer() {
        let (loader, order, release) = slow_kernel();
        release.send(()).unwrap();
        loader.queue_boot_devices(two_devices, TIMEOUT);
        loader.start_threads();
        for expected in ["virtio_blk.ko", "transport.ko", "nic.ko"] {
            assert_eq!(order.recv_timeout(TIMEOUT).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn a_slow_machine_is_not_called_a_device_that_does_not_answer() {
        let delay = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            VirtioDelay::of(&names, VIRTIO_LIMIT).to_string()
        };
        let waits = delay(&["virtio_blk", "virtio_net"]);
        assert!(waits.contains("(virtio_blk, virtio_net)"), "{waits}");
        let slow = delay(&[]);
        assert!(slow.contains("after 10 s, because"), "{slow}");
        assert!(!slow.contains("()"), "{slow}");
    }

    /// /sys is read so slowly that the limit passes before any driver is loaded.
    #[test]
    fn a_slow_look_into_sys_loses_no_device() {
        fn slow_look() -> Vec<String> {
            thread::sleep(Duration::from_millis(200));
            two_devices()
        }
        let (loader, order, release) = slow_kernel();
        release.send(()).unwrap();
        loader.queue_boot_devices(slow_look, Duration::from_millis(20));
        loader.start_threads();
        let mut loaded: Vec<String> = (0..3)
            .map(|_| order.recv_timeout(TIMEOUT).unwrap())
            .collect();
        loaded.sort();
        assert_eq!(loaded, ["nic.ko", "transport.ko", "virtio_blk.ko"]);
    }

    #[test]
    fn a_virtio_device_that_does_not_answer_delays_no_other() {
        let (loader, order, release) = slow_kernel();
        let (mut settled, signal) = io::pipe().unwrap();
        lock(&loader.work).signal = Some(signal);
        loader.queue_boot_devices(two_devices, Duration::from_millis(50));
        loader.start_threads();
        for expected in ["transport.ko", "nic.ko"] {
            assert_eq!(order.recv_timeout(TIMEOUT).as_deref(), Ok(expected));
        }
        // The kernel has loaded nic.ko, but its thread has not recorded that yet.
        let deadline = Instant::now() + TIMEOUT;
        while loader.modules.loading() != ["virtio_blk"] {
            assert!(Instant::now() < deadline, "{:?}", loader.modules.loading());
            std::thread::yield_now();
        }
        assert!(!lock(&loader.work).settled);
        release.send(()).unwrap();
        assert_eq!(order.recv_timeout(TIMEOUT).as_deref(), Ok("virtio_blk.ko"));
        settled.read_to_end(&mut Vec::new()).unwrap();
    }
}
