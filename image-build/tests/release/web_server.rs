//! The web server of ironic-image, and a client.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for the start of a server, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A free port of this machine.
pub fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

pub fn wait_until_ready(address: &str) {
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < end, "{address} does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Status and body.
pub fn get(address: &str, path: &str) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n");
    let body = answer.split_off(end.unwrap() + 4);
    let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
    (status, body)
}

/// Apache with the files of a directory, as the container `httpd` of ironic-image has it
/// (ironic-config/httpd.conf.j2 there): links count, and there is no other server before it.
pub struct Apache {
    process: Child,
    pub address: String,
}

impl Apache {
    /// Debian's program, from the package apache2-bin, which starts no service.
    pub fn serve(files: &Path, work: &Path) -> Self {
        let address = free_address();
        let modules = "/usr/lib/apache2/modules";
        let (files, at) = (files.display(), work.display());
        let configuration = format!(
            "ServerRoot \"{at}\"\nServerName localhost\nListen {address}\nPidFile \"{at}/httpd.pid\"\n\
             ErrorLog \"{at}/error.log\"\n\
             LoadModule mpm_event_module {modules}/mod_mpm_event.so\n\
             LoadModule authz_core_module {modules}/mod_authz_core.so\n\
             DocumentRoot \"{files}\"\n\
             <Directory \"{files}\">\nOptions Indexes FollowSymLinks\nRequire all granted\n</Directory>\n"
        );
        let file = work.join("httpd.conf");
        fs::write(&file, configuration).unwrap();
        let process = Command::new("/usr/sbin/apache2")
            .args(["-D", "FOREGROUND", "-f"])
            .arg(file)
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("apache2 (Debian's package apache2-bin): {error}"));
        let server = Self { process, address };
        wait_until_ready(&server.address);
        server
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        // Its children end with it only if it can tell them.
        let pid = self.process.id().to_string();
        let _ = Command::new("kill").arg(pid).output();
        let _ = self.process.wait();
    }
}
