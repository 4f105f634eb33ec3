use std::fs;
use std::path::PathBuf;

use super::*;
use crate::options::FetchRetries;

fn test_data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("test_data/config")
        .join(name)
}

fn of_arguments(arguments: &[&str]) -> InstallOptions {
    Layer::try_parse_from(arguments).unwrap().options
}

#[test]
fn a_file_says_what_the_command_line_does() {
    let text = fs::read_to_string(test_data("every_option.yaml")).unwrap();
    let zeros = format!("sha256:{}", "0".repeat(64));
    let ones = format!("sha256-{}", "1".repeat(64));
    let expected = of_arguments(&[
        "-u",
        "https://a.example/coreos.raw.xz",
        "--image-url=https://b.example/coreos.raw.xz",
        "--image-digest",
        &zeros,
        "--stream-base-url=https://streams.example/",
        "-a",
        "aarch64",
        "--insecure",
        "--fetch-retries",
        "5",
        "-I",
        "http://a.example/host.ign",
        "--ignition-hash",
        &ones,
        "--insecure-ignition",
        "-p",
        "qemu",
        "--console",
        "tty0",
        "--console=ttyS0,115200n8",
        "--append-karg",
        "nosmt",
        "--append-karg=foo=bar",
        "--delete-karg",
        "quiet",
        "-n",
        "--network-dir",
        "/etc/keyfiles",
        "--save-partlabel",
        "data*,log",
        "--save-partlabel",
        "var",
        "--save-partindex",
        "5",
        "--save-partindex",
        "7-",
        "--preserve-on-error",
        "--verify",
        "--secure-ipl",
        "/dev/sda",
    ]);
    assert_eq!(InstallOptions::from_config(&text), Ok(expected));
}

/// Checks that `every_option.yaml` has every option, except the options that exclude an
/// option of that file, and `firstboot-args`, which no file may have.
#[test]
fn that_file_has_every_option() {
    let text = fs::read_to_string(test_data("every_option.yaml")).unwrap();
    let elsewhere = ["stream", "image-file", "ignition-file", "firstboot-args"];
    for known in Layer::command().get_arguments() {
        let name = known.get_long().unwrap_or("dest-device");
        let is_there = text
            .lines()
            .any(|line| line.starts_with(&format!("{name}:")));
        assert!(is_there != elsewhere.contains(&name), "{name}");
    }
}

#[test]
fn other_spellings() {
    for (text, arguments) in [
        ("", &[][..]),
        ("# nothing\n", &[]),
        ("insecure: false\nplatform: ~\nconsole: []\n", &[]),
        ("ignition: a.ign\n", &["-i", "a.ign"]),
        ("ignition-file: a.ign\n", &["--ignition", "a.ign"]),
        ("stream: next\n", &["-s", "next"]),
        ("image-file: i.raw\n", &["-f", "i.raw"]),
        ("offline: true\n", &["--offline"]),
        ("append-karg: one\n", &["--append-karg", "one"]),
        ("append-karg: '-x'\n", &["--append-karg=-x"]),
        ("append-karg: 'a,b c'\n", &["--append-karg", "a,b c"]),
        ("save-partindex: -3\n", &["--save-partindex", "-3"]),
        ("save-partindex: '-3'\n", &["--save-partindex", "-3"]),
        (
            "fetch-retries: infinite\n",
            &["--fetch-retries", "infinite"],
        ),
    ] {
        let expected = of_arguments(arguments);
        assert_eq!(InstallOptions::from_config(text), Ok(expected), "{text}");
    }
    let infinite = of_arguments(&["--fetch-retries=infinite"]);
    assert_eq!(infinite.fetch_retries, Some(FetchRetries::Infinite));
}

#[test]
fn an_invalid_key_or_value_is_rejected_with_its_key() {
    for (file, reason) in [
        (
            "unknown_key",
            "expected a long option of install, found \"image-ulr\"; is \"image-url\" meant?",
        ),
        ("config_file", "config-file: not allowed in a config file"),
        (
            "firstboot_args",
            "firstboot-args: not allowed in a config file",
        ),
        ("option_of_the_command_line", "found \"allow-this-machine\""),
        (
            "flag_with_text",
            "insecure: expected true or false, found \"yes\"",
        ),
        (
            "list_for_one",
            "platform: expected text, found [\"a\",\"b\"]",
        ),
        ("flag_in_a_list", "append-karg: expected text, found true"),
        ("fraction", "append-karg: expected text, found 1.5"),
        ("mapping", "platform: expected text, found {\"a\":\"b\"}"),
        (
            "short_digest",
            "'--image-digest <ALGORITHM:HEX>': sha256 checksum: expected 64",
        ),
        ("unknown_console", "'--console <SPEC>': console \"ttyUSB0\""),
        (
            "two_sources",
            "'--image-url <URL>' cannot be used with '--stream <NAME>'",
        ),
        ("key_twice", "platform"),
        (
            "option_as_device",
            "dest-device: expected a device, found \"--help\"",
        ),
        ("list", "expected a mapping of options, found [\"stream\"]"),
        ("no_yaml", "expected YAML: "),
        ("missing", "No such file"),
    ] {
        let path = test_data(&format!("refused/{file}.yaml"));
        let failure = InstallOptions::from_config_files(std::slice::from_ref(&path)).unwrap_err();
        let begin = format!("config file {}: ", path.display());
        assert!(failure.details.starts_with(&begin), "{failure}");
        assert!(failure.details.contains(reason), "{file}: {failure}");
        assert!(!failure.details.contains('\n'), "{file}: {failure}");
    }
    let count = fs::read_dir(test_data("refused")).unwrap().count();
    assert_eq!(count, 16, "a file that is not tried");
}

#[test]
fn a_file_without_an_end_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "#".repeat(LIMIT as usize + 1)).unwrap();
    let failure = InstallOptions::from_config_files(&[file.path()]).unwrap_err();
    assert!(failure.details.contains("found more"), "{failure}");
}

#[test]
fn the_stronger_layer_wins() {
    let layers =
        |weaker: &[&str], stronger: &[&str]| of_arguments(stronger).over(of_arguments(weaker));
    let digest = format!("--image-digest=sha256:{}", "0".repeat(64));
    let other_digest = format!("--image-digest=sha256:{}", "1".repeat(64));
    let hash = format!("--ignition-hash=sha256-{}", "0".repeat(64));
    for (weaker, stronger, expected) in [
        (
            &["-p", "a", "/dev/a"][..],
            &["-p", "b"][..],
            &["-p", "b", "/dev/a"][..],
        ),
        (&["/dev/a"], &["/dev/b"], &["/dev/b"]),
        (
            &["--fetch-retries=1"],
            &["--fetch-retries=0"],
            &["--fetch-retries=0"],
        ),
        // The lists of both layers are joined.
        (
            &["--append-karg=a", "--console=tty0", "--save-partindex=1"],
            &["--append-karg=b", "--console=hvc0", "--save-partindex=2"],
            &[
                "--append-karg=a",
                "--append-karg=b",
                "--console=tty0",
                "--console=hvc0",
                "--save-partindex=1",
                "--save-partindex=2",
            ],
        ),
        // A flag stays set if either layer sets it.
        (&["--insecure"], &["-n"], &["--insecure", "-n"]),
        // The stronger layer replaces the weaker layer's source and its digest.
        (&["-s", "next"], &["-u", "http://b/"], &["-u", "http://b/"]),
        (
            &["-u", "http://a/", &digest],
            &["-u", "http://b/"],
            &["-u", "http://b/"],
        ),
        (&["--offline"], &["-f", "b"], &["-f", "b"]),
        (
            &["-u", "http://a/", &digest],
            &[&other_digest],
            &["-u", "http://a/", &other_digest],
        ),
        // A digest without a source applies to whatever image is installed.
        (&[&digest], &["-f", "b"], &["-f", "b", &digest]),
        (
            &["-i", "a", &hash],
            &["-I", "https://b/"],
            &["-I", "https://b/"],
        ),
        (&["-i", "a"], &[&hash], &["-i", "a", &hash]),
    ] {
        let merged = layers(weaker, stronger);
        assert_eq!(merged, of_arguments(expected), "{weaker:?} {stronger:?}");
    }
}

#[test]
fn a_later_file_wins() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let first = write("1", "stream: next\nappend-karg: [a]\nplatform: x\n");
    let second = write("2", "image-file: i\nappend-karg: [b]\n");
    let merged = InstallOptions::from_config_files(&[first, second]).unwrap();
    let expected = ["-f", "i", "--append-karg=a", "--append-karg=b", "-p", "x"];
    assert_eq!(merged, of_arguments(&expected));
}

#[test]
fn options_that_exclude_each_other() {
    for arguments in [
        &["-s", "a", "-u", "http://b/"][..],
        &["-s", "a", "-f", "b"],
        &["-u", "http://b/", "-f", "b"],
        &["-s", "a", "--offline"],
        &["-u", "http://b/", "--offline"],
        &["-f", "a", "--offline"],
        &["-i", "a", "-I", "http://b/"],
        &["--fetch-retries", "-1"],
        &["--fetch-retries", "ever"],
        &["--console", "tty1"],
        &["--ignition-hash", "md5-00"],
        &["a", "b"],
        &["--image"],
    ] {
        assert!(Layer::try_parse_from(arguments).is_err(), "{arguments:?}");
    }
}
