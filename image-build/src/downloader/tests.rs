use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::*;

/// A shared volume and an image with a kernel and a ramdisk.
struct Site {
    directory: TempDir,
    request: Request,
}

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let request = Request {
            shared: directory.path().join("shared"),
            suffix: String::new(),
            ignored: Vec::new(),
        };
        let site = Self { directory, request };
        site.image("one");
        site
    }

    /// Another version of the image.
    fn image(&self, content: &str) {
        let image = self.directory.path().join("image");
        fs::create_dir_all(&image).unwrap();
        fs::write(image.join(KERNEL), format!("kernel {content}")).unwrap();
        fs::write(image.join(RAMDISK), format!("ramdisk {content}")).unwrap();
    }

    fn publish(&self) -> Result<Vec<String>, PublishError> {
        let lines = RefCell::new(Vec::new());
        let ramdisk = Ramdisk::read(&self.directory.path().join("image"))?;
        publish::publish(&ramdisk, &self.request, &|line| {
            lines.borrow_mut().push(line.to_owned());
        })?;
        Ok(lines.into_inner())
    }

    fn images(&self) -> PathBuf {
        self.request.shared.join("html/images")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.images()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.images().join(name)).unwrap()
    }

    /// Makes a file or folder two hours old.
    fn age(&self, name: &str) {
        let file = File::open(self.images().join(name)).unwrap();
        let time = SystemTime::now() - Duration::from_secs(7200);
        file.set_modified(time).unwrap();
    }

    fn folder(&self) -> String {
        let target = fs::read_link(self.images().join(KERNEL)).unwrap();
        target.iter().next().unwrap().to_str().unwrap().to_owned()
    }
}

#[test]
fn files_and_links_are_those_of_metal3s_downloader() {
    let site = Site::new();
    let lines = site.publish().unwrap();
    let folder = site.folder();
    assert_eq!(
        site.names(),
        [
            "ironic-python-agent.headers",
            "ironic-python-agent.initramfs",
            "ironic-python-agent.kernel",
            &folder,
        ]
    );
    assert_eq!(site.read("ironic-python-agent.kernel"), "kernel one");
    assert_eq!(site.read("ironic-python-agent.initramfs"), "ramdisk one");
    let headers = site.read("ironic-python-agent.headers");
    assert!(
        headers
            .lines()
            .any(|line| line.starts_with("ETag: \"sha256-")),
        "{headers}"
    );
    assert!(folder.starts_with("landfall-0.1.0-"), "{folder}");
    let expected = format!(
        "{}: ironic-python-agent.kernel and .initramfs are now those of {folder}",
        site.images().display()
    );
    assert_eq!(lines, [expected]);
    let now = SystemTime::now();
    for name in [KERNEL, RAMDISK] {
        let link = fs::read_link(site.images().join(name)).unwrap();
        assert!(link.is_relative(), "another container has another root");
        let data = fs::metadata(site.images().join(name)).unwrap();
        assert_eq!(data.permissions().mode() & 0o777, 0o644);
        let age = now.duration_since(data.modified().unwrap());
        assert!(age.is_ok_and(|age| age < Duration::from_secs(60)), "{name}");
    }
    let data = fs::metadata(site.images().join(&folder)).unwrap();
    assert_eq!(data.permissions().mode() & 0o777, 0o755);
}

#[test]
fn links_with_an_architecture_are_made_only_on_request() {
    let mut site = Site::new();
    site.request.suffix = "_x86_64".to_owned();
    site.publish().unwrap();
    let links = |site: &Site| {
        let names = site.names().into_iter();
        names
            .filter(|name| name.starts_with("ironic"))
            .collect::<Vec<_>>()
    };
    let with = [
        "ironic-python-agent_x86_64.headers",
        "ironic-python-agent_x86_64.initramfs",
        "ironic-python-agent_x86_64.kernel",
    ];
    assert_eq!(links(&site), with);
    // A second init container without IPA_ARCH.
    site.request.suffix = String::new();
    site.publish().unwrap();
    assert_eq!(links(&site).len(), 6);
    assert_eq!(site.read("ironic-python-agent_x86_64.kernel"), "kernel one");
}

#[test]
fn the_second_start_writes_nothing() {
    let site = Site::new();
    site.publish().unwrap();
    let inode = |name: &str| {
        fs::symlink_metadata(site.images().join(name))
            .unwrap()
            .ino()
    };
    let names = [KERNEL, RAMDISK, &site.folder()].map(str::to_owned);
    let before = names.each_ref().map(|name| inode(name));
    let time = fs::metadata(site.images()).unwrap().modified().unwrap();
    let lines = site.publish().unwrap();
    assert!(lines[0].contains(" are still those of "), "{lines:?}");
    assert_eq!(names.each_ref().map(|name| inode(name)), before);
    let after = fs::metadata(site.images()).unwrap().modified().unwrap();
    assert_eq!(after, time);
}

#[test]
fn the_previous_folder_stays_and_older_ones_go() {
    let site = Site::new();
    let mut folders: Vec<String> = Vec::new();
    for content in ["one", "two", "three"] {
        site.image(content);
        for folder in &folders {
            site.age(folder);
        }
        site.publish().unwrap();
        folders.push(site.folder());
    }
    fs::create_dir(site.images().join("foreign-folder")).unwrap();
    let names = site.names();
    assert!(!names.contains(&folders[0]), "{names:?}");
    assert!(names.contains(&folders[1]) && names.contains(&folders[2]));
    assert_eq!(site.read(KERNEL), "kernel three");
    // Publish the previous version again: its files must be newer than those in Ironic's
    // cache.
    let hour = SystemTime::now() - Duration::from_secs(3600);
    let kernel = File::open(site.images().join(&folders[1]).join(KERNEL)).unwrap();
    kernel.set_modified(hour).unwrap();
    site.image("two");
    site.publish().unwrap();
    let modified = kernel.metadata().unwrap().modified().unwrap();
    assert!(modified > hour + Duration::from_secs(3000));
    assert_eq!(site.read(RAMDISK), "ramdisk two");
    assert!(site.names().contains(&"foreign-folder".to_owned()));
}

/// Another container has renamed its folder, and is about to make its links.
#[test]
fn a_new_folder_of_another_container_stays() {
    let site = Site::new();
    site.publish().unwrap();
    let one = site.folder();
    site.image("two");
    site.publish().unwrap();
    let others = site.images().join("landfall-9-0123456789abcdef");
    fs::create_dir(&others).unwrap();
    site.image("three");
    site.publish().unwrap();
    assert!(others.exists());
    // The next start uses a folder again that is old.
    site.age(&one);
    site.image("one");
    site.publish().unwrap();
    assert!(others.exists());
    assert_eq!(site.folder(), one);
    let modified = fs::metadata(site.images().join(one)).unwrap().modified();
    let age = SystemTime::now().duration_since(modified.unwrap()).unwrap();
    assert!(age < Duration::from_secs(3600));
}

#[test]
fn a_volume_of_metal3s_downloader_is_taken_over() {
    let site = Site::new();
    let theirs = "ipa-centos9-master.tar.gz-5f2a";
    fs::create_dir_all(site.images().join(theirs)).unwrap();
    for ending in ["headers", "initramfs", "kernel"] {
        let file = format!("{theirs}/ipa-centos9-master.{ending}");
        fs::write(site.images().join(&file), "upstream").unwrap();
        let link = format!("ironic-python-agent.{ending}");
        symlink(&file, site.images().join(link)).unwrap();
    }
    let file = File::open(site.images().join(KERNEL)).unwrap();
    site.publish().unwrap();
    assert_eq!(site.read(KERNEL), "kernel one");
    assert!(site.read("ironic-python-agent.headers").contains("sha256-"));
    // A download that has begun continues, and going back needs no download.
    assert_eq!(std::io::read_to_string(file).unwrap(), "upstream");
    assert_eq!(
        site.read(&format!("{theirs}/ipa-centos9-master.kernel")),
        "upstream"
    );
}

#[test]
fn files_in_the_way() {
    let site = Site::new();
    fs::create_dir_all(site.images()).unwrap();
    fs::write(site.images().join(KERNEL), "a file").unwrap();
    site.publish().unwrap();
    assert_eq!(site.read(KERNEL), "kernel one");

    // A damaged file in our folder is not trusted because of the folder's name.
    let folder = site.folder();
    let damaged = site.images().join(&folder).join(RAMDISK);
    fs::remove_file(&damaged).unwrap();
    fs::write(&damaged, "ramdisk on").unwrap();
    site.publish().unwrap();
    assert_eq!(site.read(RAMDISK), "ramdisk one");
    assert!(site.names().iter().all(|name| !name.starts_with('.')));

    fs::remove_file(site.images().join(RAMDISK)).unwrap();
    fs::create_dir(site.images().join(RAMDISK)).unwrap();
    let error = site.publish().unwrap_err().to_string();
    assert!(
        error.ends_with(
            "ironic-python-agent.initramfs: expected a link or a file, found a directory -- remove it"
        ),
        "{error}"
    );
}

#[test]
fn a_source_that_cannot_be_read_is_named() {
    let site = Site::new();
    let image = site.directory.path().join("image");
    let ramdisk = Ramdisk::read(&image).unwrap();
    // A directory can be opened, but not read.
    let kernel = image.join(KERNEL);
    fs::remove_file(&kernel).unwrap();
    fs::create_dir(&kernel).unwrap();
    let error = publish::publish(&ramdisk, &site.request, &|_| {}).unwrap_err();
    let expected = format!("cannot read {}", kernel.display());
    assert_eq!(error.to_string(), expected);
}

#[test]
fn leftovers_go_when_they_are_old() {
    let site = Site::new();
    fs::create_dir_all(site.images()).unwrap();
    let hours = |hours: u64| SystemTime::now() - Duration::from_secs(hours * 3600);
    for (name, age) in [(".landfall-old", 2), (".landfall-new", 0), (".other", 2)] {
        let path = site.images().join(name);
        fs::create_dir(&path).unwrap();
        File::open(&path).unwrap().set_modified(hours(age)).unwrap();
    }
    site.publish().unwrap();
    let names = site.names();
    assert!(!names.contains(&".landfall-old".to_owned()), "{names:?}");
    assert!(names.contains(&".landfall-new".to_owned()), "{names:?}");
    assert!(names.contains(&".other".to_owned()), "{names:?}");
}

#[test]
fn a_full_volume_and_a_protected_one_have_advice() {
    let site = Site::new();
    fs::create_dir_all(&site.request.shared).unwrap();
    let failed = |number: Errno| {
        let error = std::io::Error::from_raw_os_error(number as i32);
        let path = landfall_initramfs::path_error::PathError::new("cannot write", "/x")(error);
        advice(&path.into(), &site.request.shared, 27_000_000)
    };
    let full = failed(Errno::ENOSPC).unwrap();
    assert!(
        full.contains(" is full: expected 27.0 MB free, found "),
        "{full}"
    );
    assert!(failed(Errno::EDQUOT).is_some());
    let protected = failed(Errno::EACCES).unwrap();
    let start = format!("uid {} cannot write to ", nix::unistd::getuid());
    assert!(protected.starts_with(&start), "{protected}");
    assert!(failed(Errno::EIO).is_none());
}
