//! Writes an index as text.

use std::fmt::Write as _;

use super::{FORMAT_VERSION, MAGIC, MAX_MODULES, WriteError, WrittenFile, is_alias, is_word};
use crate::content::IndexContent;

impl IndexContent {
    /// Writes a text that [`IndexContent::parse`] reads as the same content. The function
    /// parses the text before it returns it, so init accepts every text of the builder.
    /// Fails if the format cannot represent the content.
    pub fn to_text(&self) -> Result<String, WriteError> {
        if self.modules.len() > MAX_MODULES {
            return Err(WriteError::OverLimit {
                what: "number of modules",
                limit: MAX_MODULES,
            });
        }
        let mut out = format!(
            "{MAGIC} {FORMAT_VERSION}\nkernel {}\n",
            word("kernel release", &self.kernel_release)?
        );
        for built_in in &self.built_in {
            let _ = writeln!(out, "builtin {}", word("built-in module", &built_in.name)?);
            write_aliases(&mut out, &built_in.aliases)?;
        }
        for module in &self.modules {
            let (name, path) = (
                word("module name", &module.name)?,
                word("module path", &module.path)?,
            );
            let _ = writeln!(out, "module {name} {path}");
            for (key, names) in [
                ("needs", &module.needs),
                ("before", &module.softdeps_before),
                ("after", &module.softdeps_after),
            ] {
                if names.is_empty() {
                    continue;
                }
                out.push_str(key);
                for name in names {
                    let _ = write!(out, " {}", word("module name", name)?);
                }
                out.push('\n');
            }
            write_aliases(&mut out, &module.aliases)?;
        }
        out.push_str("end\n");
        Self::parse(&out)?;
        Ok(out)
    }
}

fn write_aliases(out: &mut String, aliases: &[String]) -> Result<(), WriteError> {
    for alias in aliases {
        if !is_alias(alias) {
            return Err(WriteError::BadWord {
                file: WrittenFile::Index,
                what: "alias",
                text: alias.clone(),
            });
        }
        let _ = writeln!(out, "alias {alias}");
    }
    Ok(())
}

fn word<'a>(what: &'static str, text: &'a str) -> Result<&'a str, WriteError> {
    if is_word(text) {
        Ok(text)
    } else {
        Err(WriteError::BadWord {
            file: WrittenFile::Index,
            what,
            text: text.to_owned(),
        })
    }
}
