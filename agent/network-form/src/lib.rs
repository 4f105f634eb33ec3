//! The form on the consoles in which an operator corrects the network.
//!
//! The form opens with the values of the plan in force ([`Prefill`]), and names the parts
//! of the plan that it cannot show. It turns the values into kernel arguments, and checks
//! these with the parsers that read the kernel command line. It also shows the arguments,
//! so that the operator can add them to the boot configuration and keep the network after
//! a reset.

mod chain;
mod facts;
mod hidden_password;
mod prefill;
mod values;

use hidden_password::hide_password;
use landfall_boot_params::MacAddr;
use landfall_report::form::{Form, Key};
use landfall_report::wrap::wrapped;
use landfall_report::{ScreenLine, Tone};

pub use facts::Fact;
pub use prefill::Prefill;
pub use values::Values;
use values::{Fault, Field};

/// The maximum number of characters of a value.
const LONGEST_VALUE: usize = 200;
/// The number of columns before a value.
const LABEL: usize = 21;

/// A NIC that the form offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedNic {
    pub name: String,
    /// Other names by which a plan may refer to this NIC.
    pub other_names: Vec<String>,
    /// The hardware addresses by which a plan may refer to this NIC.
    pub macs: Vec<MacAddr>,
    pub carrier: bool,
    /// Address, driver and link.
    pub description: String,
}

impl OfferedNic {
    fn names(&self) -> impl Iterator<Item = &str> {
        let others = self.other_names.iter().map(String::as_str);
        std::iter::once(self.name.as_str()).chain(others)
    }
}

/// Why the operator cannot change the network now. The console shows the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NetworkStays(pub &'static str);

/// Tries kernel arguments, or returns why this is impossible now.
pub type Try = Box<dyn Fn(&str) -> Result<(), NetworkStays> + Send>;

pub struct NetworkForm {
    nics: Vec<OfferedNic>,
    values: Values,
    focus: Field,
    /// The NICs and settings of the replaced plan that the values do not express.
    notice: Option<String>,
    /// Why the values were not tried.
    refusal: Option<String>,
    try_arguments: Try,
}

impl NetworkForm {
    pub fn new(nics: Vec<OfferedNic>, prefill: Prefill, try_arguments: Try) -> Self {
        let notice = prefill.notice();
        let mut values = prefill.values;
        let is_there = |name: &String| nics.iter().any(|nic| nic.name == *name);
        if !is_there(&values.nic) {
            values.nic = nics.first().map(|nic| nic.name.clone()).unwrap_or_default();
        }
        values.second = values.second.filter(is_there);
        Self {
            nics,
            values,
            focus: Field::Nic,
            notice,
            refusal: None,
            try_arguments,
        }
    }

    fn enter(&mut self) -> bool {
        if self.focus != Field::Try {
            self.focus = self.focus.next();
            return true;
        }
        let tried = match self.values.arguments() {
            Ok(arguments) => (self.try_arguments)(&arguments).map_err(|stays| stays.to_string()),
            Err(Fault { field, text }) => {
                self.focus = field;
                Err(text)
            }
        };
        self.refusal = tried.err();
        self.refusal.is_some()
    }

    fn choose(&mut self, forward: bool) {
        let names: Vec<String> = self.nics.iter().map(|nic| nic.name.clone()).collect();
        match self.focus {
            Field::Nic => {
                if let Some(name) = after(&names, &self.values.nic, forward) {
                    self.values.nic.clone_from(name);
                }
            }
            Field::Second => {
                let others = { names.iter() }.filter(|name| **name != self.values.nic);
                let mut choices = vec![None];
                choices.extend(others.map(|name| Some(name.clone())));
                let chosen = after(&choices, &self.values.second, forward);
                self.values.second = chosen.cloned().flatten();
            }
            Field::BondMode => self.values.lacp = !self.values.lacp,
            _ => {}
        }
    }

    fn shown(&self, field: Field) -> String {
        let with_description = |name: &str| {
            let nic = self.nics.iter().find(|nic| nic.name == name);
            let description = nic.map_or("", |nic| nic.description.as_str());
            format!("< {name}  {description} >")
        };
        match field {
            Field::Nic if self.nics.is_empty() => "this machine has no NIC".to_owned(),
            Field::Nic => with_description(&self.values.nic),
            Field::Second => match &self.values.second {
                Some(name) => with_description(name),
                None => "< none >".to_owned(),
            },
            Field::BondMode => match (self.values.second.is_some(), self.values.lacp) {
                (false, _) => "(with a second NIC)".to_owned(),
                (true, false) => "< active-backup >".to_owned(),
                (true, true) => "< 802.3ad (LACP) >".to_owned(),
            },
            Field::Vlan => format!("[{}]  empty: untagged", self.values.vlan),
            Field::Address => format!(
                "[{}]  ADDRESS/LENGTH; empty: automatic",
                self.values.address
            ),
            Field::Gateway => format!("[{}]", self.values.gateway),
            Field::Dns => format!("[{}]", self.values.dns),
            Field::Url => {
                let url = hide_password(&self.values.url);
                format!("[{url}]  empty: as given at boot")
            }
            Field::Try => "[ Try these values ]".to_owned(),
        }
    }
}

/// The item after or before `now` in the list. The list is a ring: the first item follows
/// the last. If `now` is not in the list, the first item.
fn after<'a, T: PartialEq>(list: &'a [T], now: &T, forward: bool) -> Option<&'a T> {
    let at = list.iter().position(|item| item == now);
    let step = if forward { 1 } else { list.len().max(1) - 1 };
    list.get(at.map_or(0, |at| (at + step) % list.len().max(1)))
}

impl Form for NetworkForm {
    fn press(&mut self, key: Key) -> bool {
        if key != Key::Enter {
            self.refusal = None;
        }
        match key {
            Key::Escape => return false,
            Key::Enter => return self.enter(),
            Key::Up => self.focus = self.focus.previous(),
            Key::Down => self.focus = self.focus.next(),
            Key::Left => self.choose(false),
            Key::Right | Key::Char(' ') => self.choose(true),
            Key::Char(character) => {
                if let Some(text) = self.values.text_mut(self.focus)
                    && text.len() < LONGEST_VALUE
                {
                    text.push(character);
                }
            }
            Key::Backspace => {
                if let Some(text) = self.values.text_mut(self.focus) {
                    text.pop();
                }
            }
            Key::Clear => {
                if let Some(text) = self.values.text_mut(self.focus) {
                    text.clear();
                }
            }
        }
        true
    }

    fn lines(&self, width: usize) -> Vec<ScreenLine> {
        let mut lines = Vec::new();
        let mut put = |tone, text: String| lines.push(ScreenLine { text, tone });
        let title = format!("{:<width$}", " Landfall: change the network of this host");
        put(Tone::Title, title.chars().take(width).collect());
        let help = "Up and Down: another field. Left and Right: another choice. Ctrl-U: empty the \
                    field. Enter: next field. Esc: close without a change.";
        for line in wrapped("", help, 0, width) {
            put(Tone::Plain, line);
        }
        put(Tone::Plain, String::new());
        for field in Field::ALL {
            let mark = if *field == self.focus { '>' } else { ' ' };
            let label = format!("{mark} {:<rest$}", field.label(), rest = LABEL - 2);
            for line in wrapped(&label, &self.shown(*field), LABEL, width) {
                put(Tone::Plain, line);
            }
        }
        // Show both texts above the arguments, which may be longer than the screen.
        if let Some(notice) = &self.notice {
            for line in wrapped("", notice, 2, width) {
                put(Tone::Waiting, line);
            }
        }
        if let Some(refusal) = &self.refusal {
            for line in wrapped("", &format!("not tried: {refusal}"), 2, width) {
                put(Tone::Failed, line);
            }
        }
        put(Tone::Plain, String::new());
        match self.values.with_hidden_password().arguments() {
            Ok(arguments) => {
                for line in wrapped("", "Kernel arguments that do the same:", 2, width) {
                    put(Tone::Plain, line);
                }
                for line in wrapped("  ", &arguments, 2, width) {
                    put(Tone::Plain, line);
                }
            }
            Err(fault) => {
                let text = format!("{}: {}", fault.field.label(), fault.text);
                for line in wrapped("", &text, 2, width) {
                    put(Tone::Waiting, line);
                }
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests;
