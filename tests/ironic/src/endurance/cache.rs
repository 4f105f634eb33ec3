//! A caching proxy between all agents and the image server: the real squid.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use landfall_tests::lab::{Family, HOST_V4};
use landfall_tests::program;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::time::{Instant, sleep};

const PORT: u16 = 3128;
/// The time limit from the start of squid until it listens. It takes a second on an
/// idle machine.
const START_LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// squid joins requests for a file that it is still fetching, keeps the file, and
/// fetches it completely even if all clients have disconnected.
const CONFIGURATION: &str = "\
http_access allow all
visible_hostname cache
cache_mem 64 MB
maximum_object_size_in_memory 32 MB
collapsed_forwarding on
quick_abort_min -1 KB
access_log none
cache_store_log none
pid_filename none
shutdown_lifetime 0 seconds
";

/// squid on the lab's host address. It ends when this is dropped.
pub struct Cache {
    _process: Child,
    _folder: TempDir,
}

impl Cache {
    pub async fn start() -> Result<Self> {
        // squid switches to the user `proxy`, who can neither enter the lab's folder
        // nor write there.
        let folder = tempfile::tempdir_in("/var/tmp")?;
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777))?;
        let (file, log) = (
            folder.path().join("squid.conf"),
            folder.path().join("cache.log"),
        );
        let text = format!(
            "{CONFIGURATION}http_port {HOST_V4}:{PORT}\ncache_log {}\ncoredump_dir {}\n",
            log.display(),
            folder.path().display()
        );
        std::fs::write(&file, text)?;
        // squid changes its user, and a process that does so loses its parent-death
        // signal (prctl(2)).
        let mut process = program::bound_with_its_children("/usr/sbin/squid")
            .arg("-N")
            .arg("-f")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting squid")?;
        let deadline = Instant::now() + START_LIMIT;
        while TcpStream::connect((HOST_V4, PORT)).await.is_err() {
            let runs = process.try_wait()?.is_none();
            ensure!(
                runs && Instant::now() < deadline,
                "squid (package squid) does not listen: {}",
                std::fs::read_to_string(&log).unwrap_or_default()
            );
            sleep(PAUSE).await;
        }
        Ok(Self {
            _process: process,
            _folder: folder,
        })
    }

    /// The URL of the cache, for `image_http_proxy` in the `driver_info` of a node.
    #[must_use]
    pub fn url() -> String {
        Family::V4.url(PORT)
    }
}
