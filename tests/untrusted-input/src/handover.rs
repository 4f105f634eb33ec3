//! Fuzz functions for files on the boot partition of the installed system, and
//! for firmware variables.

use landfall_handover::console::Console;
use landfall_handover::grub_choice::ChoiceError;
use landfall_handover::grub_environment::Environment;
use landfall_handover::kernel_args::Step;
use landfall_handover::platform_table::PlatformTable;
use landfall_handover::{
    boot_loader_entry, efi_device_path, efi_load_option, efi_loader, grub_choice, grub_console,
    grub_words, kernel_args,
};

/// Edits a boot loader entry. The first two lines hold the arguments to append and to
/// delete. If GRUB can read the entry before the edit, GRUB must also be able to read
/// it afterwards.
pub fn bls_entry(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(3, '\n');
    let mut arguments = || -> Vec<String> {
        let words = lines.next().unwrap_or_default().split(' ');
        words.map(str::to_owned).collect()
    };
    let (append, delete) = (arguments(), arguments());
    let refused = kernel_args::check_appended(&append).is_err();
    if refused || kernel_args::check_deleted(&delete).is_err() {
        return;
    }
    let entry = lines.next().unwrap_or_default();
    let appended = append.clone();
    let steps = [
        Step::Platform("qemu".to_owned()),
        Step::Change { delete, append },
    ];
    for steps in [&steps[..], &steps[1..]] {
        let Ok(edited) = boot_loader_entry::edit_text(entry, steps) else {
            continue;
        };
        let rest = |text: &str| -> Vec<String> {
            let lines = text
                .split('\n')
                .filter(|line| !line.starts_with("options "));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(rest(&edited), rest(entry), "the other lines stay");
        let options = |text: &str| -> Vec<String> {
            let lines = text
                .lines()
                .filter_map(|line| line.strip_prefix("options "));
            lines.map(str::to_owned).collect()
        };
        let (old, new) = (options(entry), options(&edited));
        assert_eq!(new.len(), 1, "{edited:?}");
        let last = appended.last().map_or("", |last| last.trim());
        assert!(new[0].ends_with(last), "{edited:?}");
        if grub_words::check(old[0].trim()).is_ok() {
            assert_eq!(grub_words::check(&new[0]), Ok(()), "{edited:?}");
        }
    }
}

/// Reads GRUB's environment block. A block that parses can be written, and
/// reads back as the same.
pub fn grub_environment(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(mut environment) = Environment::parse(text) else {
        return;
    };
    if let Some(value) = environment.get("kernelopts").map(str::to_owned) {
        let delete = Step::Change {
            delete: vec!["console=tty0".to_owned()],
            append: Vec::new(),
        };
        environment.set("kernelopts", &delete.edit(&value));
    }
    // Writing may fail for lack of space: if the block has a needless escape in a
    // value, the written value is longer.
    if let Ok(block) = environment.to_bytes() {
        assert_eq!(block.len(), data.len());
        let again = std::str::from_utf8(&block).map(Environment::parse);
        assert_eq!(again, Ok(Ok(environment)));
    }
}

/// Reads the entry that GRUB would boot, and the script of the first boot, which
/// follows a NUL. GRUB expands variables and quotes, so neither may reach the kernel.
pub fn grub_choice(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (entry, script) = text.split_once('\0').unwrap_or((&*text, ""));
    if let Ok(arguments) = arguments(entry, script) {
        assert!(!arguments.contains(['$', '"', '\'', '\\']), "{arguments}");
    }
}

fn arguments(entry: &str, script: &str) -> Result<String, ChoiceError> {
    let network = match grub_choice::of_marker(script)? {
        Some(network) => network,
        None => grub_choice::default_of(script)?,
    };
    grub_choice::expand(&grub_choice::Entry::parse(entry)?.options, |name| {
        (name == "ignition_firstboot").then_some(network.as_str())
    })
}

/// Reads GRUB's configuration and replaces its console block.
pub fn grub_console(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let commands = ["serial --unit=0".to_owned(), "terminal_input".to_owned()];
    if let Ok(edited) = grub_console::with_commands(&text, &commands) {
        let again = grub_console::with_commands(&edited, &commands);
        assert_eq!(again.as_ref(), Ok(&edited), "the same edit again");
    }
}

/// Reads the table of platforms. The same text is also read as a value of
/// `--console`.
pub fn platform_table(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(table) = PlatformTable::parse(&text) {
        let _ = table.platform("metal");
    }
    if let Ok(console) = text.parse::<Console>() {
        assert_eq!(console.to_string().parse(), Ok(console));
    }
}

/// Reads a boot entry of the firmware, and the CSV file of a distribution's
/// boot loader.
pub fn efi(data: &[u8]) {
    let _ = efi_load_option::label(data);
    let path = efi_load_option::device_path_of(data).unwrap_or(data);
    let _ = efi_device_path::to_text(path);
    if let Some((file, label)) = efi_loader::parse_csv(data) {
        assert!(!file.contains(['/', '\\']) && !label.is_empty());
    }
}
