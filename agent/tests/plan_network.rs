//! Runs the `plan-network` sub-command. Checks its exit code, and that every output
//! format shows the plan that a boot would use.

use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Output};

fn plan_network(arguments: &[&str]) -> io::Result<Output> {
    Command::new(env!("CARGO_BIN_EXE_landfall-agent"))
        .arg("plan-network")
        .args(arguments)
        .output()
}

fn stdout(arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = plan_network(arguments)?;
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The interface names in the plan; `any` stands for the entry that matches
/// every NIC.
fn names_in_json(arguments: &[&str]) -> Result<Vec<String>, Box<dyn Error>> {
    let text = stdout(&[arguments, &["--json"]].concat())?;
    let plan: serde_json::Value = serde_json::from_str(&text)?;
    let interfaces = plan["interfaces"].as_array().into_iter().flatten();
    let names = interfaces.map(|i| i["match"]["name"].as_str().unwrap_or("any").to_owned());
    Ok(names.collect())
}

fn write(folder: &Path, name: &str, text: &str) -> io::Result<String> {
    let path = folder.join(name);
    fs::write(&path, text)?;
    Ok(path.display().to_string())
}

#[test]
fn json_and_text_show_the_plan_of_the_boot() {
    assert_eq!(names_in_json(&["--cmdline", ""]).unwrap(), ["any"]);
    assert!(
        stdout(&["--cmdline", ""])
            .unwrap()
            .starts_with("every NIC: IPv4 by DHCP\n")
    );

    let routes = "rd.route=10.1.0.0/16:10.0.0.1:ens3 rd.route=10.2.0.0/16:10.0.0.1";
    assert_eq!(
        names_in_json(&["--cmdline", routes]).unwrap(),
        ["any", "ens3"]
    );
    let text = stdout(&["--cmdline", routes]).unwrap();
    assert!(text.contains("every other NIC: IPv4 by DHCP\n"), "{text}");
    let both = "ens3: IPv4 by DHCP, 10.1.0.0/16 via 10.0.0.1, 10.2.0.0/16 via 10.0.0.1\n";
    assert!(text.contains(both), "{text}");

    let folder = tempfile::tempdir().unwrap();
    let keyfiles = folder.path().join("keyfiles");
    stdout(&[
        "--cmdline",
        routes,
        "--keyfiles",
        keyfiles.to_str().unwrap(),
    ])
    .unwrap();
    let file = fs::read_to_string(keyfiles.join("ens3.nmconnection")).unwrap();
    assert!(file.contains("route1=10.2.0.0/16,10.0.0.1\n"), "{file}");
    // A boot skips hidden files, so this one does not matter.
    fs::write(keyfiles.join(".hidden.nmconnection"), "broken").unwrap();
    // `--network-keyfile` accepts these files: one file, or a directory of them.
    for path in [keyfiles.clone(), keyfiles.join("ens3.nmconnection")] {
        let given = ["--network-keyfile", path.to_str().unwrap()];
        assert_eq!(names_in_json(&given).unwrap(), ["ens3"]);
    }
}

#[test]
fn a_document_that_cannot_be_used_fails() {
    let folder = tempfile::tempdir().unwrap();
    let state = write(
        folder.path(),
        "state.yml",
        "interfaces: [{name: eth0, mtuu: 9000}]",
    )
    .unwrap();
    let data = write(folder.path(), "data.json", "{").unwrap();
    let keyfile = write(folder.path(), "a.nmconnection", "[connection]\nid=a\n").unwrap();
    for document in [
        ["--nmstate", &state],
        ["--network-data", &data],
        ["--network-keyfile", &keyfile],
    ] {
        for form in ["--json", "--arguments", ""] {
            let form: &[&str] = if form.is_empty() { &[] } else { &[form] };
            let output = plan_network(&[&document[..], form].concat()).unwrap();
            assert_eq!(output.status.code(), Some(1), "{document:?} {form:?}");
            assert_eq!(output.stdout, b"", "{document:?} {form:?}");
            let errors = String::from_utf8(output.stderr).unwrap();
            assert!(errors.contains(": 1 fault -- "), "{errors}");
            // With `--lenient` the program does what a boot does: it falls back to the next
            // source.
            let lenient = [&document[..], form, &["--lenient"]].concat();
            assert_ne!(stdout(&lenient).unwrap(), "");
        }
        assert_eq!(
            names_in_json(&[&document[..], &["--lenient"]].concat()).unwrap(),
            ["any"]
        );
    }
    let output = plan_network(&["--nmstate", &state]).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("interfaces[0].mtuu: no such key"),
        "{errors}"
    );
}

#[test]
fn warnings_fail_only_where_they_are_asked_to() {
    let line = ["--cmdline", "ip=eth0:dhcp nameserver=dns.lab"];
    assert_eq!(names_in_json(&line).unwrap(), ["eth0"]);
    let strict = plan_network(&[&line[..], &["--strict"]].concat()).unwrap();
    assert_eq!(strict.status.code(), Some(1));
    assert!(!strict.stdout.is_empty());
    assert!(
        plan_network(&["--cmdline", "ip=eth0:dhcp", "--strict"])
            .unwrap()
            .status
            .success()
    );
}
