use super::facts::Process;
use super::*;

/// The facts of a container that was started with the unit's command line. They were
/// recorded with podman 4.3.1, except for the mounts of the live system.
fn container() -> Facts {
    let namespaces = |pid: &str| {
        ["net:[4026531840]", "ipc:[4026531839]", "uts:[4026531838]"]
            .iter()
            .fold(
                vec![pid.to_owned(), FIRST_USER_NAMESPACE.to_owned()],
                |mut all, one| {
                    all.push((*one).to_owned());
                    all
                },
            )
    };
    let same = |path| facts::Shared {
        path,
        container: Some((5, 1)),
        host: Some((5, 1)),
    };
    Facts {
        pid: 1,
        status: "Name:\tlandfall-agent\nNSpid:\t1\nCapEff:\t000001ffffffffff\nNoNewPrivs:\t0\nSeccomp:\t0\n".to_owned(),
        status_on_host: "NSpid:\t2143\t1\n".to_owned(),
        status_of_init: "CapBnd:\t000001ffffffffff\n".to_owned(),
        mounts: "90 80 0:44 / / rw - overlay overlay rw\n91 90 0:31 / /mnt/coreos rw - overlay overlay rw\n".to_owned(),
        mounts_of_init: "1 1 0:2 / / rw - rootfs rootfs rw\n26 1 0:31 / / rw - overlay overlay rw\n".to_owned(),
        host_has_procfs: true,
        namespaces: namespaces("pid:[4026532310]"),
        namespaces_of_init: namespaces(FIRST_PID_NAMESPACE),
        shared: vec![same("dev"), same("sys")],
        container_file: "engine=\"podman-4.3.1\"\nname=\"ironic-agent\"\nid=\"5e1f\"\nimage=\"landfall\"\nimageid=\"77\"\nrootless=0\ngraphRootMounted=1\n".to_owned(),
        container_variable: "podman".to_owned(),
        parent: Process {
            name: "conmon\n".to_owned(),
            command_line: "/usr/bin/conmon\0--api-version\x001\0-c\x005e1f\0-n\0ironic-agent\0".to_owned(),
            cgroup: "0::/system.slice/ironic-agent.service\n".to_owned(),
        },
    }
}

#[test]
fn openshifts_container() {
    assert_eq!(container().check_container(), Ok(()));
    let mut private_cgroups = container();
    private_cgroups.parent.cgroup = "0::/../../system.slice/ironic-agent.service\n".to_owned();
    assert_eq!(private_cgroups.check_container(), Ok(()));
}

/// Each row changes one fact of the container.
#[test]
fn every_condition_counts() {
    type Change = fn(&mut Facts);
    let rows: [(&str, Change, &str); 21] = [
        (
            "--pid=host",
            |f| f.namespaces[0] = FIRST_PID_NAMESPACE.to_owned(),
            "PID namespace",
        ),
        ("no procfs", |f| f.namespaces[0].clear(), "PID namespace"),
        ("podman exec", |f| f.pid = 7, "PID 1"),
        (
            "a container in the container",
            |f| f.status_on_host = "NSpid:\t9\t4\t1\n".to_owned(),
            "two PID namespaces",
        ),
        (
            "a folder as the host's proc",
            |f| f.host_has_procfs = false,
            "the host's procfs",
        ),
        (
            "an outer container's proc",
            |f| f.namespaces_of_init[0] = "pid:[4026532001]".to_owned(),
            "the host's procfs",
        ),
        (
            "a folder at /mnt/coreos",
            |f| f.mounts = "90 80 0:44 / / rw - overlay overlay rw\n".to_owned(),
            "the root of the host's PID 1",
        ),
        (
            "another root at /mnt/coreos",
            |f| f.mounts = f.mounts.replace("0:31 /", "0:31 /other"),
            "the root of the host's PID 1",
        ),
        (
            "--userns",
            |f| f.namespaces[1] = "user:[4026532009]".to_owned(),
            "user namespace",
        ),
        (
            "rootless",
            |f| {
                f.namespaces[1] = "user:[4026532009]".to_owned();
                f.namespaces_of_init[1] = "user:[4026532009]".to_owned();
            },
            "user namespace",
        ),
        (
            "no --network host",
            |f| f.namespaces[2] = "net:[4026532100]".to_owned(),
            "net namespace",
        ),
        (
            "no --ipc=host",
            |f| f.namespaces[3] = "ipc:[4026532100]".to_owned(),
            "ipc namespace",
        ),
        (
            "no --uts=host",
            |f| f.namespaces[4] = "uts:[4026532100]".to_owned(),
            "uts namespace",
        ),
        (
            "no --privileged",
            |f| f.status = f.status.replace("000001ffffffffff", "00000000800405fb"),
            "capabilities",
        ),
        (
            "a system call filter",
            |f| f.status = f.status.replace("Seccomp:\t0", "Seccomp:\t2"),
            "Seccomp 0",
        ),
        (
            "another /dev",
            |f| f.shared[0].container = Some((9, 1)),
            "/dev",
        ),
        (
            "docker",
            |f| f.container_variable = "docker".to_owned(),
            "container=podman",
        ),
        (
            "another name",
            |f| f.container_file = f.container_file.replace("ironic-agent", "toolbox"),
            "expected name",
        ),
        (
            "rootless podman",
            |f| f.container_file = f.container_file.replace("rootless=0", "rootless=1"),
            "expected rootless",
        ),
        (
            "another parent",
            |f| f.parent.name = "bash\n".to_owned(),
            "conmon",
        ),
        (
            "from a shell",
            |f| f.parent.cgroup = "0::/user.slice/session-1.scope\n".to_owned(),
            "ironic-agent.service",
        ),
    ];
    for (what, change, expected) in rows {
        let mut facts = container();
        change(&mut facts);
        let error = facts.check_container().unwrap_err();
        assert!(error.contains(expected), "{what}: {error}");
    }
    assert!(Facts::default().check_container().is_err());
}

/// The error must not suggest `--live-system`, which has no effect in the container.
#[test]
fn the_host_is_a_coreos_live_system() {
    let mut facts = container();
    facts.mounts =
        include_str!("../../../test_data/live_system/coreos-live-iso.mountinfo").to_owned();
    facts.mounts_of_init.clone_from(&facts.mounts);
    let host = tempfile::tempdir().unwrap();
    let checked = |facts: &Facts, marked| {
        let checked = facts.check_host(host.path(), marked);
        checked.map_err(|missing| missing.to_string())
    };
    let create = |path: &str| std::fs::create_dir_all(host.path().join(path)).unwrap();
    let error = checked(&facts, true).unwrap_err();
    assert!(error.contains("systemd"), "{error}");
    create("run/systemd/system");
    let error = checked(&facts, true).unwrap_err();
    assert!(error.contains("/run/ostree-live"), "{error}");
    assert!(!error.contains("--live-system"), "{error}");
    create("run/ostree-live");
    assert_eq!(checked(&facts, true), Ok(()));
    // A disk is in use, but only the first start of the agent checks that.
    facts.mounts_of_init =
        include_str!("../../../test_data/live_system/coreos-installed.mountinfo").to_owned();
    assert_eq!(checked(&facts, true), Ok(()));
    let error = checked(&facts, false).unwrap_err();
    assert!(error.contains("found xfs on /dev/sda4"), "{error}");
}
