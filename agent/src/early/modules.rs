//! Makes the kernel find its drivers: what udev and kmod do elsewhere.
//!
//! Every device says in `modalias` what it is; the index says which module is
//! for that. Devices present at boot are read from /sys, later ones announce
//! themselves by uevent. Loading is serial within a module and parallel across
//! modules, so a controller that probes for ten seconds holds up nobody else.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use landfall_module_index::{INDEX_NAME, Index, MAX_INDEX_BYTES, ModuleId, Resolution};
use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module, init_module};

use crate::sys::uevent::{Action, Received, UeventSocket};

/// `MODULE_INIT_COMPRESSED_FILE` of <linux/module.h>, absent from nix.
const COMPRESSED_FILE: ModuleInitFlags = ModuleInitFlags::from_bits_retain(4);

/// The largest module that is unpacked by ourselves; amdgpu has 25 MB.
const UNPACKED_LIMIT: u64 = 64 << 20;

/// A silence of the kernel after which a module that is still loading is named.
const SLOW_MODULE: Duration = Duration::from_secs(20);

/// How deep below /sys/devices a device may lie. A PCI switch behind a switch
/// with a USB hub behind a hub comes to about 30.
const SYS_DEPTH_LIMIT: usize = 64;

/// `uname -r`, or a question mark.
pub(super) fn kernel_release() -> String {
    nix::sys::utsname::uname().map_or_else(
        |_| "?".to_owned(),
        |name| name.release().to_string_lossy().into_owned(),
    )
}

/// Loads what the devices ask for, now and for the life of the system, on
/// threads of its own. The returned pipe reaches end of file when the devices
/// that were there at boot, and those behind them, have their drivers.
/// `None`: there is no such pipe, and the agent takes the devices for settled.
pub(super) fn load_in_background() -> Option<PipeReader> {
    let (reader, writer) = io::pipe()
        .inspect_err(|error| tracing::warn!("pipe(2): {error}"))
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

/// The modules of one kernel: their index, their files, and what has been tried.
pub(super) struct Modules {
    index: Index,
    directory: PathBuf,
    tried: Mutex<HashMap<ModuleId, Tried>>,
    finished: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tried {
    Loading,
    Loaded,
    Refused,
}

impl Modules {
    /// Those that the builder put beside us for the kernel that is running.
    pub(super) fn of_running_kernel() -> Result<Self, String> {
        let directory = Path::new("/lib/modules").join(kernel_release());
        let path = directory.join(INDEX_NAME);
        let mut text = String::new();
        File::open(&path)
            .and_then(|file| {
                file.take(MAX_INDEX_BYTES as u64 + 1)
                    .read_to_string(&mut text)
            })
            .map_err(|error| format!("module index {}: {error}", path.display()))?;
        let index = Index::parse(&text)
            .map_err(|error| format!("module index {}: {error}", path.display()))?;
        Ok(Self {
            index,
            directory,
            tried: Mutex::default(),
            finished: Condvar::new(),
        })
    }

    /// Loads every module that answers to a modalias or name. True if one did
    /// or if the kernel has it built in.
    pub(super) fn load_for(&self, alias: &str) -> bool {
        let wanted = match self.index.resolve(alias) {
            Resolution::Modules(modules) => modules,
            Resolution::BuiltIn => return true,
            Resolution::Missing => return false,
        };
        let mut any = false;
        for level in self.index.load_order(wanted.iter().copied()) {
            for id in level {
                any |= self.load_once(id) && wanted.contains(&id);
            }
        }
        any
    }

    /// Loads this module unless somebody did or is at it, in which case the
    /// end of that is awaited. Nobody waits while loading, so there is no cycle.
    fn load_once(&self, id: ModuleId) -> bool {
        let mut tried = lock(&self.tried);
        loop {
            match tried.get(&id) {
                None => break,
                Some(Tried::Loaded) => return true,
                Some(Tried::Refused) => return false,
                Some(Tried::Loading) => {
                    tried = self
                        .finished
                        .wait(tried)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        tried.insert(id, Tried::Loading);
        drop(tried);

        let path = self.directory.join(&self.index.module(id).path);
        let result = insert(&path);
        if let Err(error) = &result {
            tracing::warn!("module {}: {error}", path.display());
        }
        let outcome = if result.is_ok() {
            Tried::Loaded
        } else {
            Tried::Refused
        };
        lock(&self.tried).insert(id, outcome);
        self.finished.notify_all();
        outcome == Tried::Loaded
    }
}

/// Gives one module file to the kernel.
fn insert(path: &Path) -> Result<(), String> {
    let parameters = parameters(path);
    let file = File::open(path).map_err(|error| error.to_string())?;
    let packed = path.extension().is_some_and(|suffix| suffix != "ko");
    let flags = if packed {
        COMPRESSED_FILE
    } else {
        ModuleInitFlags::empty()
    };
    match finit_module(&file, parameters, flags) {
        // Somebody else's request, through the kernel, was quicker.
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        // A driver that finds its device missing or not its own says so by
        // refusing to load (intel_rapl, edac drivers): ordinary, not a fault.
        Err(Errno::ENODEV) => Ok(()),
        // The kernel unpacks only the one format it was built for, if any
        // (MODULE_DECOMPRESS): ENOEXEC or EINVAL otherwise, measured.
        Err(Errno::ENOEXEC | Errno::EINVAL | Errno::EOPNOTSUPP) if packed => {
            let image = unpack(path).map_err(|error| error.to_string())?;
            match init_module(&image, parameters) {
                Ok(()) | Err(Errno::EEXIST | Errno::ENODEV) => Ok(()),
                Err(error) => Err(refusal(error)),
            }
        }
        Err(error) => Err(refusal(error)),
    }
}

/// Some drivers make a device of their own as soon as they are there, under the
/// very name that a plan is likely to have, with their own idea of its options.
/// systemd's modprobe.d has the same two.
fn parameters(path: &Path) -> &'static CStr {
    let file = path.file_name().and_then(|name| name.to_str());
    match file.and_then(|name| name.split('.').next()) {
        Some("bonding") => c"max_bonds=0",
        Some("dummy") => c"numdummies=0",
        _ => c"",
    }
}

fn refusal(error: Errno) -> String {
    match error {
        Errno::EPERM | Errno::EKEYREJECTED => format!(
            "{error}: under Secure Boot the kernel takes only modules whose signature it trusts"
        ),
        Errno::ENOEXEC | Errno::ENOENT => {
            format!(
                "{error}: built for another kernel than {}?",
                kernel_release()
            )
        }
        _ => error.to_string(),
    }
}

fn unpack(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut image = Vec::new();
    let reader: Box<dyn io::Read> = match path.extension().and_then(|suffix| suffix.to_str()) {
        Some("xz") => Box::new(liblzma::read::XzDecoder::new(file)),
        Some("zst") => Box::new(zstd::Decoder::new(file)?),
        Some("gz") => Box::new(flate2::read::GzDecoder::new(file)),
        _ => return Err(io::Error::other("unknown compression")),
    };
    reader.take(UNPACKED_LIMIT + 1).read_to_end(&mut image)?;
    if image.len() as u64 > UNPACKED_LIMIT {
        return Err(io::Error::other("larger than 64 MiB unpacked"));
    }
    Ok(image)
}

/// The work still to do, shared by the threads that do it.
struct Loader {
    modules: Modules,
    work: Mutex<Work>,
    more: Condvar,
}

struct Work {
    queue: VecDeque<String>,
    seen: HashSet<String>,
    busy: usize,
    settled: bool,
    /// Dropped when the devices of the boot have settled.
    signal: Option<PipeWriter>,
}

impl Loader {
    fn new(modules: Modules, settled: Option<PipeWriter>) -> Self {
        Self {
            modules,
            work: Mutex::new(Work {
                queue: VecDeque::new(),
                seen: HashSet::new(),
                busy: 0,
                settled: false,
                signal: settled,
            }),
            more: Condvar::new(),
        }
    }

    fn start(self: &Arc<Self>) {
        // Before the first look into /sys, so that no device falls in between.
        let socket = UeventSocket::open();
        if !self.queue(self.with_virtio_loaded()) {
            // Not one device that says what it is: nothing to wait for.
            self.settle();
        }
        let threads = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..threads.clamp(2, 8) {
            let loader = Arc::clone(self);
            spawn("modules", move || loader.work());
        }
        match socket {
            Ok(socket) => {
                let loader = Arc::clone(self);
                spawn("uevents", move || loader.follow(&socket));
            }
            Err(error) => {
                tracing::warn!("uevents: {error}; devices that appear later get no driver");
            }
        }
    }

    /// Loads the drivers of virtio devices before all others, and gives every
    /// modalias that /sys has then. SCSI hosts are numbered as they come, and
    /// operators of virtual machines write hints such as hctl 0:0:0:0 for the
    /// first virtio disk: so it is under udev, while the six ports of a q35's
    /// AHCI would be first here.
    fn with_virtio_loaded(&self) -> Vec<String> {
        let mut found = modaliases();
        for bus in ["pci:v00001AF4", "virtio:"] {
            let mut any = false;
            for modalias in found.iter().filter(|modalias| modalias.starts_with(bus)) {
                self.modules.load_for(modalias);
                any = true;
            }
            if any {
                // A driver has created its devices when its loading ends.
                found = modaliases();
            }
        }
        found
    }

    /// Queues every modalias in /sys that was not seen before. True if any.
    fn look_into_sys(&self) -> bool {
        self.queue(modaliases())
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

            self.modules.load_for(&modalias);

            let mut work = lock(&self.work);
            work.busy -= 1;
            let idle = work.busy == 0 && work.queue.is_empty() && !work.settled;
            drop(work);
            // A driver creates its devices before its loading ends, so /sys has
            // them now, whether or not their uevents have been read.
            if idle && !self.look_into_sys() {
                self.settle();
            }
        }
    }

    fn settle(&self) {
        let mut work = lock(&self.work);
        if work.busy > 0 || !work.queue.is_empty() || work.settled {
            return;
        }
        work.settled = true;
        let signal = work.signal.take();
        drop(work);
        tracing::info!("{} kernel modules loaded", self.count(Tried::Loaded));
        // The end of the pipe is the signal.
        drop(signal);
    }

    fn count(&self, state: Tried) -> usize {
        let tried = lock(&self.modules.tried);
        tried.values().filter(|tried| **tried == state).count()
    }

    /// Says which modules hold the boot up: a controller that does not answer
    /// keeps its driver in the kernel for minutes, or for ever.
    fn report_slow_modules(&self) {
        if lock(&self.work).settled {
            return;
        }
        let tried = lock(&self.modules.tried);
        let slow: Vec<&str> = tried
            .iter()
            .filter(|(_, state)| **state == Tried::Loading)
            .map(|(id, _)| self.modules.index.module(*id).name.as_str())
            .collect();
        drop(tried);
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
                Ok(Received::Event(event)) => {
                    if event.action == Action::Add
                        && let Some(modalias) = event.modalias()
                    {
                        self.queue(vec![modalias.to_owned()]);
                    }
                }
                Ok(Received::Lost) => {
                    self.look_into_sys();
                }
                Ok(Received::TimedOut) => self.report_slow_modules(),
                Err(error) => {
                    tracing::warn!("uevents: {error}; devices that appear later get no driver");
                    return;
                }
            }
        }
    }
}

/// As `thread::spawn`, which panics where there is no memory for a thread: that
/// would be the end of PID 1, and so of the kernel.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = thread::Builder::new().name(name.to_owned()).spawn(work) {
        tracing::error!("starting thread {name}: {error} -- some devices may get no driver");
    }
}

/// Whether behind this modalias may be a NIC or a disk: these go first. The
/// processor's and the board's modaliases ask for a dozen modules (crypto,
/// sensors, input) that nobody waits for.
fn leads_to_a_device_we_need(modalias: &str) -> bool {
    const BUSES: [&str; 6] = ["pci:", "virtio:", "scsi:", "vmbus:", "xen:", "usb:"];
    BUSES.iter().any(|bus| modalias.starts_with(bus))
}

/// Every modalias in /sys.
fn modaliases() -> Vec<String> {
    let mut found = Vec::new();
    collect_modaliases(Path::new("/sys/devices"), SYS_DEPTH_LIMIT, &mut found);
    found
}

/// The text of every file `modalias` below a directory of /sys. Symbolic links
/// lead to other places of the same tree and are not followed.
fn collect_modaliases(directory: &Path, depth: usize, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() && depth > 0 {
            collect_modaliases(&entry.path(), depth - 1, found);
        } else if kind.is_file() && entry.file_name() == "modalias" {
            // A device may go while we read; an empty one asks for nothing.
            if let Ok(text) = fs::read_to_string(entry.path())
                && !text.trim().is_empty()
            {
                found.push(text.trim().to_owned());
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_driver_makes_a_device_by_itself() {
        for (file, expected) in [
            ("kernel/drivers/net/bonding/bonding.ko", c"max_bonds=0"),
            ("kernel/drivers/net/bonding/bonding.ko.xz", c"max_bonds=0"),
            ("kernel/drivers/net/dummy.ko.zst", c"numdummies=0"),
            ("kernel/drivers/net/virtio_net.ko", c""),
        ] {
            assert_eq!(parameters(Path::new(file)), expected, "{file}");
        }
    }

    #[test]
    fn finds_every_modalias_once_per_device_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("pci0000:00/0000:00:03.0/virtio0");
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("modalias"), "virtio:d00000001v00001AF4\n").unwrap();
        fs::write(device.parent().unwrap().join("modalias"), "pci:v1AF4\n").unwrap();
        fs::write(dir.path().join("modalias"), "\n").unwrap();
        std::os::unix::fs::symlink(dir.path(), device.join("subsystem")).unwrap();

        let mut found = Vec::new();
        collect_modaliases(dir.path(), SYS_DEPTH_LIMIT, &mut found);
        found.sort();
        assert_eq!(found, ["pci:v1AF4", "virtio:d00000001v00001AF4"]);
    }

    #[test]
    fn network_and_disks_go_before_the_board() {
        assert!(leads_to_a_device_we_need("virtio:d00000001v00001AF4"));
        assert!(leads_to_a_device_we_need("pci:v00001AF4d00001041sv"));
        assert!(!leads_to_a_device_we_need("cpu:type:x86,ven0002fam000F"));
        assert!(!leads_to_a_device_we_need("acpi:PNP0C0C:"));
    }

    #[test]
    fn packed_module_is_unpacked_by_suffix() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ko.zst");
        fs::write(&path, zstd::encode_all(&b"\x7fELF"[..], 1).unwrap()).unwrap();
        assert_eq!(unpack(&path).unwrap(), b"\x7fELF");
        let path = dir.path().join("a.ko.bz2");
        fs::write(&path, b"").unwrap();
        assert!(unpack(&path).is_err());
    }
}
