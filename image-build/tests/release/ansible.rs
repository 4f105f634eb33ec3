//! OpenStack-Ansible and Kayobe fetch the files of upstream's layout with Ansible's
//! module `get_url`, which reads the expected digest from the URL of a checksum file.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::web_server::{Apache, public_copy};
use crate::{output, release, upstream};

fn get_url(url: &str, to: &Path, home: &Path) -> Output {
    let arguments = format!(
        "url={url} dest={} checksum=sha256:{url}.sha256",
        to.display()
    );
    output(
        Command::new("ansible")
            .args(["localhost", "--connection=local", "--inventory=localhost,"])
            .args(["--module-name=ansible.builtin.get_url", "--args"])
            .arg(arguments)
            // Ansible requires a UTF-8 locale, and writes into the home directory.
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", home)
            .env("no_proxy", "127.0.0.1"),
    )
}

#[test]
fn get_url_of_ansible_compares_the_checksums() {
    let work = tempfile::tempdir().unwrap();
    let files = public_copy(&release().join("dib/files"));
    let server = Apache::serve(files.path(), work.path());
    for ending in ["kernel", "initramfs"] {
        let name = format!("ipa-centos9-master.{ending}");
        let url = format!("http://{}/files/{name}", server.address);
        let fetched = work.path().join(&name);
        let result = get_url(&url, &fetched, work.path());
        let text = String::from_utf8_lossy(&result.stdout).into_owned();
        assert!(result.status.success(), "{name}: {text}");
        assert!(fs::read(&fetched).unwrap() == upstream(ending), "{name}");

        fs::write(files.path().join("files").join(&name), b"another file").unwrap();
        let refused = get_url(&url, &work.path().join("refused"), work.path());
        let text = String::from_utf8_lossy(&refused.stdout).into_owned();
        assert!(!refused.status.success(), "{name}: {text}");
        assert!(text.contains("did not match"), "{name}: {text}");
        assert!(!work.path().join("refused").exists(), "{name}");
    }
}
