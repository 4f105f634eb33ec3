//! Parses configuration files in oslo.config's format into assignments.
//!
//! The grammar is that of `oslo_config/iniparser.py`: no white space before a name,
//! `=` or `:` after it, an indented line continues the value before it, and
//! comments are whole lines. Where oslo.config rejects the whole file, this parser
//! skips the bad line and reports it.

/// Longest text that is read, in bytes.
pub const MAX_LENGTH: usize = 256 << 10;

/// The maximum number of faults that are reported for one file. The file may be an
/// image that an operator has passed by mistake.
const MAX_FAULTS: usize = 10;

/// One `option = value` of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The name of the group: `DEFAULT`, or a name in lower case.
    pub group: String,
    /// The name as written in the file.
    pub option: String,
    /// The value without the quotes around it; several lines are joined by `\n`.
    pub value: String,
    /// The first line of the assignment, from 1.
    pub line: usize,
}

/// The content of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IniFile {
    /// In file order. If an option is given twice, the later one takes effect.
    pub assignments: Vec<Assignment>,
    /// The skipped lines: the line number, from 1, and the reason.
    pub faults: Vec<(usize, &'static str)>,
}

impl IniFile {
    /// Reads a text. Invalid lines become faults, not errors.
    pub fn parse(text: &str) -> IniFile {
        let mut file = IniFile::default();
        let text = match text.get(..MAX_LENGTH) {
            // Do not keep a line that the limit has cut.
            Some(start) if text.len() > MAX_LENGTH => {
                let end = start.rfind('\n').unwrap_or(0);
                file.fault(1, "the file is larger than 256 KiB; its end is ignored");
                &start[..end]
            }
            Some(_) => text,
            None if text.len() > MAX_LENGTH => {
                file.fault(1, "the file is larger than 256 KiB; ignored");
                return file;
            }
            None => text,
        };
        let mut group = None;
        let mut goes_on = false;
        // Windows editors put a byte order mark in front.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (at, line) in (1..).zip(text.lines()) {
            let line = line.trim_end();
            if line.starts_with([' ', '\t']) && !line.is_empty() {
                match file.assignments.last_mut() {
                    Some(last) if goes_on => {
                        last.value.push('\n');
                        last.value.push_str(line.trim_start());
                    }
                    _ => file.fault(
                        at,
                        "indented line without a value before it to continue; ignored",
                    ),
                }
                continue;
            }
            goes_on = false;
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if line.starts_with('[') {
                group = group_name(line);
                if group.is_none() {
                    file.fault(at, "expected [GROUP]; ignored up to the next group");
                }
                continue;
            }
            let Some((option, value)) = line.split_once(['=', ':']) else {
                file.fault(at, "expected NAME = VALUE; ignored");
                continue;
            };
            let option = option.trim();
            match &group {
                _ if option.is_empty() => file.fault(at, "no name before the value; ignored"),
                None => file.fault(at, "expected a group such as [DEFAULT] before it; ignored"),
                Some(group) => {
                    goes_on = true;
                    file.assignments.push(Assignment {
                        group: group.clone(),
                        option: option.to_owned(),
                        value: unquoted(value.trim()).to_owned(),
                        line: at,
                    });
                }
            }
        }
        file
    }

    fn fault(&mut self, line: usize, text: &'static str) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push((line, text));
        }
    }
}

fn group_name(line: &str) -> Option<String> {
    let name = line.strip_prefix('[')?.strip_suffix(']')?;
    match name {
        "" => None,
        "DEFAULT" => Some(name.to_owned()),
        // oslo.config treats other spellings of `DEFAULT` as a separate group, which
        // nothing reads.
        _ if name.eq_ignore_ascii_case("default") => Some("[default]".to_owned()),
        _ => Some(name.to_lowercase()),
    }
}

/// Removes single or double quotes if the same quote is at both ends. A value that
/// consists of one quote character becomes empty, as in oslo.config.
fn unquoted(value: &str) -> &str {
    let quote = value.starts_with(['"', '\'']) && value.chars().last() == value.chars().next();
    match quote {
        true if value.len() == 1 => "",
        true => &value[1..value.len() - 1],
        false => value,
    }
}

/// Replaces `$$` and `\$` by `$`. `None` if the value refers to another option (`$name`,
/// `${name}`), whose value oslo.config would insert.
pub(crate) fn without_escapes(value: &str) -> Option<String> {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find('$') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        if let Some(before) = before.strip_suffix('\\') {
            out.push_str(before);
            out.push('$');
            rest = after;
            continue;
        }
        out.push_str(before);
        out.push('$');
        rest = match after.strip_prefix('$') {
            Some(rest) => rest,
            None => after,
        };
        let refers = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '{';
        if rest.len() == after.len() && after.starts_with(refers) {
            return None;
        }
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests;
