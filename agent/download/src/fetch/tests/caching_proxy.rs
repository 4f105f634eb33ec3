//! Downloads through the real squid, as hosts in a rack do that share one cache.

use std::fs::Permissions;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::thread;

use landfall_http_client::{HttpOptions, Proxies, image_client};
use landfall_sys::skip::skip;

use super::*;

const HOSTS: usize = 10;

/// squid joins requests for a file that it is still fetching, and keeps the file.
const CONFIGURATION: &str = "\
http_access allow all
cache_mem 64 MB
maximum_object_size_in_memory 32 MB
collapsed_forwarding on
access_log none
cache_store_log none
pid_filename none
shutdown_lifetime 0 seconds
";

struct Squid {
    process: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Drop for Squid {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Squid {
    /// `None` if squid is not installed.
    fn start() -> Option<Self> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path();
        // If root starts squid, it continues as the user `proxy`, who must be able to
        // write to this directory.
        std::fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
        let log = folder.join("cache.log");
        let configuration = folder.join("squid.conf");
        let text = format!(
            "{CONFIGURATION}http_port 127.0.0.1:{port}\ncache_log {}\ncoredump_dir {}\n",
            log.display(),
            folder.display()
        );
        std::fs::write(&configuration, text).unwrap();
        let started = Command::new("/usr/sbin/squid")
            .arg("-N")
            .arg("-f")
            .arg(&configuration)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut squid = match started {
            Ok(process) => Self {
                process,
                port,
                _directory: directory,
            },
            Err(error) => {
                skip(format_args!("squid: {error}"));
                return None;
            }
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let ended = squid.process.try_wait().unwrap();
            let log = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "squid has ended: {}", log());
            assert!(
                Instant::now() < deadline,
                "squid does not listen: {}",
                log()
            );
            thread::sleep(Duration::from_millis(50));
        }
        Some(squid)
    }
}

#[test]
fn ten_hosts_are_one_request_at_the_origin() {
    let Some(squid) = Squid::start() else { return };
    let _ = http_client();
    let options = HttpOptions {
        proxies: Proxies {
            http: Some(format!("http://127.0.0.1:{}", squid.port)),
            ..Proxies::default()
        },
        ..HttpOptions::default()
    };
    let client = image_client(&options).unwrap();
    let file = body(3 << 20);
    let whole = file.clone();
    // These headers allow a cache to keep the file without asking the origin again.
    let origin = Server::start(move |asked| {
        Reply::correct(&whole, "\"1\"", asked)
            .header("Last-Modified: Sun, 01 Nov 2020 10:00:00 GMT")
            .header("Expires: Thu, 01 Jan 2037 00:00:00 GMT")
    });
    thread::scope(|scope| {
        for _ in 0..HOSTS {
            scope.spawn(|| {
                let request = from(&[&origin.url], true);
                let received = small_file(request, client.clone(), 64 << 20).unwrap();
                assert!(received == file, "the file is not the origin's");
            });
        }
    });
    let asked = origin.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(
        asked[0].header("via").is_some(),
        "not through squid: {asked:?}"
    );
}
