//! Reports to the operator, once, that the parsers are not fully confined.

use std::sync::{Mutex, PoisonError};

use landfall_sys::confinement::SYSTEM_CALLS;

/// A limitation of the confinement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Remark {
    /// The privileges that could not be removed from the child.
    Missing(Vec<String>),
    /// The agent parses in its own process, for this reason.
    Here(String),
}

/// One remark of each kind. The first parser reads config.ign before logging is set up,
/// so its remark must be kept until then.
static KEPT: Mutex<Kept> = Mutex::new(Kept {
    missing: State::None,
    here: State::None,
});

struct Kept {
    missing: State,
    here: State,
}

enum State {
    None,
    Waits(Remark),
    Reported,
}

/// Reports this remark, unless a remark of the same kind was made before. Until logging
/// is set up, the remark is stored for [`report_kept`].
pub(crate) fn make(remark: Remark) {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let state = match remark {
        Remark::Missing(_) => &mut kept.missing,
        Remark::Here(_) => &mut kept.here,
    };
    if matches!(state, State::None) {
        *state = State::Waits(remark);
    }
    drop(kept);
    if tracing::dispatcher::has_been_set() {
        report_kept();
    }
}

/// Reports the remarks from before logging was set up.
pub fn report_kept() {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let Kept { missing, here } = &mut *kept;
    for state in [missing, here] {
        if matches!(state, State::Waits(_))
            && let State::Waits(remark) = std::mem::replace(state, State::Reported)
        {
            report(&remark);
        }
    }
}

fn report(remark: &Remark) {
    match remark {
        Remark::Here(reason) => tracing::warn!(
            "{}; the agent parses it with its own privileges",
            crate::plain_text(reason)
        ),
        Remark::Missing(missing) => {
            let list = crate::plain_text(&missing.join(", "));
            if missing.iter().any(|line| line.starts_with(SYSTEM_CALLS)) {
                tracing::warn!(
                    "parsers of media, config.ign and LLDP may make any system call ({list}); their other limits hold"
                );
            } else {
                // Kernels before 5.13 have no Landlock.
                tracing::info!(
                    "parsers of media, config.ign and LLDP lack a part of their confinement ({list}); the rest holds"
                );
            }
        }
    }
}
