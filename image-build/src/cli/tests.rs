use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;

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

/// README.md and all pages of docs.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let directories = ["docs", "docs/platforms"].map(|directory| root.join(directory));
    let entries = directories
        .iter()
        .flat_map(|directory| fs::read_dir(directory).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|name| name == "md"))
        .chain([root.join("README.md")])
        .collect()
}

/// The commands in the code blocks of a page. A part of a pipe and a comment are no
/// arguments; `...` stands for some.
fn commands(page: &str) -> Vec<String> {
    let blocks = page.split("```").skip(1).step_by(2);
    let blocks = blocks.map(|block| block.replace("\\\n", " "));
    let lines: Vec<String> = blocks
        .flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let commands = lines.iter().filter_map(|line| {
        let line = line.trim_start_matches(['$', '#', ' ']);
        let command = line.split([';', '|', '>']).next()?;
        let command = command.split("  #").next()?;
        let is_whole = command.starts_with("landfall-image ") && !command.contains("...");
        is_whole.then(|| command.to_owned())
    });
    commands.collect()
}

#[test]
fn the_commands_of_the_docs_have_no_unknown_options() {
    let mut count = 0;
    for page in pages() {
        for command in commands(&fs::read_to_string(&page).unwrap()) {
            if cfg!(not(feature = "controller")) && command.contains(" controller ") {
                continue;
            }
            if let Err(error) = parse(&command) {
                panic!("{}: {command}\n{error}", page.display());
            }
            count += 1;
        }
    }
    assert!(count >= 12, "found {count} commands");
}
