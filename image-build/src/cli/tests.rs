use super::*;
use clap::CommandFactory as _;

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
