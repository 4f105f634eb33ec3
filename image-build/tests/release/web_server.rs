//! Apache, configured as the web server of ironic-image.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::run;

/// Longest wait for the start or the end of a server, on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The address of a free TCP port of this machine: `127.0.0.1:PORT`.
pub fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

pub fn wait_until_ready(address: &str) {
    let end = Instant::now() + TIMEOUT;
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < end, "{address} does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A directory for files that `Apache` serves. It is not below TMPDIR, which may be in a
/// home that other users cannot enter.
pub fn public_directory() -> TempDir {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    run(Command::new("chmod").arg("755").arg(directory.path()));
    directory
}

/// Copies a directory so that `Apache` can read it: the release itself may be in a home
/// directory with mode 0700, or made with umask 077.
pub fn public_copy(original: &Path) -> TempDir {
    let directory = public_directory();
    // The copies keep the modification times: during the first second after a file
    // changed, its ETag is weak and has another form (`ap_make_etag_ex` in Apache's
    // server/util_etag.c).
    run(Command::new("cp")
        .arg("-a")
        .arg(original)
        .arg(directory.path()));
    run(Command::new("chmod")
        .args(["-R", "a+rX"])
        .arg(directory.path()));
    directory
}

/// Apache with the files of a directory, configured as in the container `httpd` of
/// ironic-image (its ironic-config/httpd.conf.j2): Apache follows links, and no proxy is
/// in front of it.
pub struct Apache {
    process: Child,
    pub address: String,
    access_log: PathBuf,
}

impl Apache {
    /// Starts Apache from Debian's package apache2-bin, which does not start a service
    /// when it is installed. Apache runs as a user who owns none of the files: without
    /// `User` its processes stay root (AH02155) and can read everything.
    pub fn serve(files: &Path, work: &Path) -> Self {
        Self::with_rules(files, work, "")
    }

    /// Like `serve`, but serves only those of the files in `images` whose names match
    /// `names`, in the notation of `FilesMatch`.
    pub fn serve_images_named(names: &str, files: &Path, work: &Path) -> Self {
        let files_of = files.display();
        let rules = format!(
            "<Directory \"{files_of}/images\">\nRequire all denied\n\
             <FilesMatch \"{names}\">\nRequire all granted\n</FilesMatch>\n</Directory>\n"
        );
        Self::with_rules(files, work, &rules)
    }

    /// A proxy before the registry at the address `behind`. It answers 401 to requests
    /// without a token, and gives a token to a client that sends no credentials.
    /// `files` is an empty directory.
    pub fn before_registry(behind: &str, files: &Path, work: &Path) -> Self {
        let token = files.join("token");
        fs::write(&token, r#"{"token":"anonymous"}"#).unwrap();
        run(Command::new("chmod").arg("644").arg(token));
        let modules = ["rewrite", "headers", "proxy", "proxy_http"].map(|name| {
            format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")
        });
        let rules = format!(
            "{}RewriteEngine On\n\
             RewriteCond %{{HTTP:Authorization}} \"!=Bearer anonymous\"\n\
             RewriteRule ^/v2/ - [R=401,L]\n\
             RewriteRule ^/v2/(.*)$ http://{behind}/v2/$1 [P]\n\
             RewriteCond %{{HTTP:Authorization}} .\n\
             RewriteRule ^/token$ - [R=401,L]\n\
             Header always set WWW-Authenticate \
             'Bearer realm=\"http://ADDRESS/token\",service=\"registry\"'\n",
            modules.concat()
        );
        Self::with_rules(files, work, &rules)
    }

    /// `ADDRESS` in the rules stands for the address of the server.
    fn with_rules(files: &Path, work: &Path, rules: &str) -> Self {
        let address = free_address();
        let rules = rules.replace("ADDRESS", &address);
        let modules = "/usr/lib/apache2/modules";
        let (files, at) = (files.display(), work.display());
        let configuration = format!(
            "ServerRoot \"{at}\"\nServerName localhost\nListen {address}\nPidFile \"{at}/httpd.pid\"\n\
             User nobody\nGroup nogroup\n\
             ErrorLog \"{at}/error.log\"\nCustomLog \"{at}/access.log\" \"%>s\"\n\
             LoadModule mpm_event_module {modules}/mod_mpm_event.so\n\
             LoadModule authz_core_module {modules}/mod_authz_core.so\n\
             DocumentRoot \"{files}\"\n\
             <Directory \"{files}\">\nOptions Indexes FollowSymLinks\nRequire all granted\n</Directory>\n\
             {rules}"
        );
        let file = work.join("httpd.conf");
        fs::write(&file, configuration).unwrap();
        let process = Command::new("/usr/sbin/apache2")
            .args(["-D", "FOREGROUND", "-f"])
            .arg(file)
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("apache2 (Debian's package apache2-bin): {error}"));
        let server = Self {
            process,
            address,
            access_log: work.join("access.log"),
        };
        wait_until_ready(&server.address);
        server
    }

    /// Waits until the log has at least `count` responses, because Apache logs a response
    /// after the client has received it. Returns the status codes of all responses.
    pub fn statuses(&self, count: usize) -> Vec<u16> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let log = fs::read_to_string(&self.access_log).unwrap();
            if log.lines().count() >= count {
                return log.lines().map(|line| line.parse().unwrap()).collect();
            }
            assert!(Instant::now() < end, "expected {count} answers: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        // Apache ends its child processes only if it can handle the signal, so send
        // SIGTERM, not SIGKILL.
        let pid = self.process.id().to_string();
        let _ = Command::new("kill").arg(pid).output();
        let _ = self.process.wait();
    }
}
