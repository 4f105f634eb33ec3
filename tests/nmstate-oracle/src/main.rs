//! For each directory on the command line: reads its `input.yml` with the `nmstate`
//! crate, and writes the keyfiles from gen_conf next to it. If nmstate rejects the
//! input, writes the error message to `refusal`.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use nmstate::NetworkState;

fn main() -> Result<(), Box<dyn Error>> {
    for case in env::args_os().skip(1) {
        renew(Path::new(&case)).map_err(|error| format!("{}: {error}", case.display()))?;
    }
    Ok(())
}

fn renew(case: &Path) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(case.join("input.yml"))?;
    for entry in fs::read_dir(case)? {
        let path = entry?.path();
        let is_keyfile = path.extension().is_some_and(|e| e == "nmconnection");
        if is_keyfile || path.ends_with("refusal") {
            fs::remove_file(path)?;
        }
    }
    let generated = NetworkState::new_from_yaml(&text).and_then(|state| state.gen_conf());
    match generated {
        Ok(mut files) => {
            for (name, text) in files.remove("NetworkManager").unwrap_or_default() {
                fs::write(case.join(name), text)?;
            }
        }
        Err(error) => fs::write(case.join("refusal"), format!("{error}\n"))?,
    }
    Ok(())
}
