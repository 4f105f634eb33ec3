use clap::CommandFactory as _;
use landfall_documentation::blocks;
use landfall_documentation::commands::commands_of;
use landfall_documentation::page::pages;

use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn help_fits_a_serial_console() {
    let mut command = Cli::command();
    command.build();
    let names: Vec<String> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect();
    let mut texts = vec![command.render_long_help().to_string()];
    for name in names {
        let sub = command.find_subcommand_mut(&name).unwrap();
        texts.extend([
            sub.render_long_help().to_string(),
            sub.render_help().to_string(),
        ]);
    }
    for line in texts.iter().flat_map(|text| text.lines()) {
        assert!(line.len() <= 80, "{} columns: {line}", line.len());
    }
}

#[test]
fn one_kernel_and_no_more() {
    let line = "landfall-image iso --agent a -o out";
    for (kernel, good) in [
        ("", false),
        ("--kernel-deb k.deb", true),
        ("--kernel-dir d --kernel-release 6.1", true),
        ("--kernel-deb k.deb --kernel-release 6.1", false),
        ("--kernel-deb k.deb --kernel-dir d", false),
        ("--kernel-deb binary.deb modules.deb", true),
        ("--kernel-rpm core.rpm modules.rpm", true),
        ("--kernel-rpm core.rpm --kernel-rpm modules.rpm", true),
        ("--kernel-rpm core.rpm --kernel-release 6.1", true),
        ("--kernel-rpm core.rpm --kernel-deb k.deb", false),
        ("--kernel-running", true),
        ("--kernel-running --kernel-release 6.1", false),
        ("--kernel-running --kernel-dir d", false),
    ] {
        assert_eq!(parse(&format!("{line} {kernel}")).is_ok(), good, "{kernel}");
    }
}

#[test]
fn the_last_word_on_secure_boot_counts() {
    for (flags, expected) in [
        ("", false),
        ("--no-secure-boot", true),
        ("--no-secure-boot --secure-boot", false),
        ("--secure-boot --no-secure-boot", true),
    ] {
        let cli = parse(&format!(
            "landfall-image iso --agent a -o out --kernel-dir d {flags}"
        ))
        .unwrap();
        let Command::Iso(arguments) = cli.command else {
            panic!("not iso")
        };
        assert_eq!(arguments.no_secure_boot, expected, "{flags}");
    }
}

/// A user who knows one of the commands, or coreos-installer, knows the options of all.
#[test]
fn all_commands_have_the_same_names_for_kernel_arguments() {
    let texts = |texts: &[String]| texts.join(",");
    let changes = |line: &str| match parse(line).unwrap().command {
        Command::Customize(CustomizeArguments { site, .. }) => {
            (texts(&site.karg), texts(&site.karg_delete))
        }
        Command::Serve(ServeArguments { service, .. }) => {
            (texts(&service.site.karg), texts(&service.site.karg_delete))
        }
        Command::Kargs(kargs) => (texts(&kargs.append), texts(&kargs.delete)),
        other => panic!("{other:?}"),
    };
    for command in [
        "customize base -o out",
        "customize base --in-place",
        "serve --iso base",
        "kargs image -o out",
    ] {
        for (add, delete) in [("karg", "karg-delete"), ("append-karg", "delete-karg")] {
            let line = format!("landfall-image {command} --{add} a --{delete} b --{add} c");
            assert_eq!(changes(&line), ("a,c".to_owned(), "b".to_owned()), "{line}");
        }
    }
    let line = "landfall-image kargs image --append a --delete b --append c";
    assert_eq!(changes(line), ("a,c".to_owned(), "b".to_owned()));
}

#[test]
fn a_customized_file_has_one_place() {
    for (place, good) in [
        ("", false),
        ("-o out", true),
        ("--in-place", true),
        ("-o out --in-place", false),
    ] {
        let line = format!("landfall-image customize base --reset {place}");
        assert_eq!(parse(&line).is_ok(), good, "{place}");
    }
}

#[test]
fn the_commands_of_the_docs_have_no_unknown_options() {
    let mut count = 0;
    for page in pages().unwrap() {
        for block in blocks(&page) {
            for command in commands_of(&block, "landfall-image") {
                if cfg!(not(feature = "controller")) && command.contains(" controller ") {
                    continue;
                }
                if let Err(error) = parse(&command) {
                    panic!("{}: {command}\n{error}", block.place());
                }
                count += 1;
            }
        }
    }
    assert!(count >= 20, "found {count} commands");
}
