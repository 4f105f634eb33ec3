//! Leader election by a Lease of coordination.k8s.io, as controller-runtime does it.
//!
//! This program trusts no clock of another machine: it treats a lease as expired if it
//! has not seen the lease change for the lease's duration. Every change of the lease is a
//! PUT with the version that was read, so only one of two candidates can succeed. If
//! there is no lease, a POST creates it, which also succeeds for only one of them. A
//! holder stops writing after `renew_deadline`, counted from the start of its last
//! successful renewal: if the program is stopped for a minute, it does not write when it
//! continues.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// How long the release of the lease may take when the program ends. Kubernetes kills a
/// pod that does not end in time.
const GIVE_BACK: Duration = Duration::from_secs(2);

/// The name of the lease, the identity of this copy, and the times, by default those of
/// controller-runtime.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    pub namespace: String,
    pub name: String,
    /// Identifies this copy. No two copies may have the same identity.
    pub identity: String,
    /// How long other copies wait after the last renewal before they take the lease. At
    /// least one second.
    pub duration: Duration,
    /// A holder that cannot renew the lease stops writing after this time. It must be
    /// shorter than `duration`.
    pub renew_deadline: Duration,
    /// The pause between two attempts.
    pub retry: Duration,
}

impl LeaseSettings {
    /// Settings with the usual times.
    #[must_use]
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// A time during which this copy holds the lease without a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Term {
    /// Counts the terms of this copy, from 1. 0: it has never held the lease.
    number: u64,
    /// `None` if this copy does not hold the lease.
    until: Option<Instant>,
}

impl Term {
    fn is_current(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }
}

/// Whether this copy may write.
#[derive(Clone, Debug)]
pub(crate) struct Leadership {
    term: watch::Receiver<Term>,
    /// The number of the last term that `begins` has reported.
    reported: u64,
}

impl Leadership {
    fn new(term: watch::Receiver<Term>) -> Self {
        Self { term, reported: 0 }
    }

    /// The leadership of the only copy, which needs no lease. It ends when the sender
    /// is dropped.
    pub(crate) fn without_lease() -> (watch::Sender<Term>, Self) {
        let year = Duration::from_secs(365 * 24 * 3600);
        let (sender, term) = watch::channel(Term {
            number: 1,
            until: Some(Instant::now() + 100 * year),
        });
        (sender, Self::new(term))
    }

    pub(crate) fn is_held(&self) -> bool {
        self.term.borrow().is_current()
    }

    /// Waits until a term of this copy begins. Returns false when this copy no longer
    /// competes for the lease.
    pub(crate) async fn begins(&mut self) -> bool {
        let reported = self.reported;
        match self.term.wait_for(|term| term.number != reported).await {
            Ok(term) => {
                self.reported = term.number;
                true
            }
            Err(_) => false,
        }
    }
}

/// A candidate for the lease.
pub(crate) struct Candidate {
    leases: Api<Lease>,
    settings: LeaseSettings,
    term: watch::Sender<Term>,
    /// The lease after its last change, and the time when this candidate noticed the
    /// change.
    seen: Option<(LeaseSpec, Instant)>,
}

/// What a candidate does after it has read the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    Renew,
    TakeOver,
    /// Another copy holds the lease.
    Wait,
}

impl Candidate {
    pub(crate) fn new(client: Client, settings: LeaseSettings) -> (Self, Leadership) {
        let (sender, term) = watch::channel(Term::default());
        let candidate = Self {
            leases: Api::namespaced(client, &settings.namespace),
            settings,
            term: sender,
            seen: None,
        };
        (candidate, Leadership::new(term))
    }

    /// Competes for the lease until `stopped` completes, and then releases the lease.
    pub(crate) async fn run(mut self, stopped: impl Future<Output = ()>) {
        tokio::pin!(stopped);
        loop {
            let begin = Instant::now();
            let limit = self.settings.renew_deadline / 2;
            let held = match timeout(limit, self.attempt()).await {
                Ok(Ok(held)) => Some(held),
                Ok(Err(error)) => {
                    tracing::warn!("lease {}: {error}", self.settings.name);
                    None
                }
                Err(_) => {
                    tracing::warn!("lease {}: no answer", self.settings.name);
                    None
                }
            };
            self.record(held, begin);
            tokio::select! {
                () = sleep(self.settings.retry) => {}
                () = &mut stopped => break,
            }
        }
        let last = *self.term.borrow();
        if last.until.is_some() {
            self.term.send_replace(Term {
                until: None,
                ..last
            });
            match timeout(GIVE_BACK, self.give_back()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!("cannot give the lease back: {error}; it will expire");
                }
                Err(_) => tracing::warn!("cannot give the lease back: no answer; it will expire"),
            }
        }
    }

    /// Records whether the attempt that began at `begin` succeeded. `held` is `None` if
    /// that is unknown, because the request failed.
    fn record(&self, held: Option<bool>, begin: Instant) {
        let old = *self.term.borrow();
        let new = match held {
            Some(true) => Term {
                number: old.number + u64::from(!old.is_current()),
                until: Some(begin + self.settings.renew_deadline),
            },
            None if old.is_current() => old,
            _ => Term { until: None, ..old },
        };
        if new.number != old.number {
            tracing::info!("holding the lease: this copy writes");
        } else if old.until.is_some() && new.until.is_none() {
            tracing::warn!("lost the lease: this copy only serves images");
        }
        if old != new {
            self.term.send_replace(new);
        }
    }

    /// Reads the lease and tries to take or renew it. Returns whether this candidate
    /// holds it.
    async fn attempt(&mut self) -> Result<bool, kube::Error> {
        let name = self.settings.name.clone();
        let parameters = PostParams::default();
        let Some(mut lease) = self.leases.get_opt(&name).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(name),
                    ..ObjectMeta::default()
                },
                spec: Some(taken(None, &self.settings)),
            };
            return won(self.leases.create(&parameters, &lease).await);
        };
        let old = lease.spec.take().unwrap_or_default();
        let judgement = judge(&old, &mut self.seen, &self.settings, Instant::now());
        lease.spec = Some(match judgement {
            Judgement::Wait => return Ok(false),
            Judgement::Renew => LeaseSpec {
                renew_time: Some(MicroTime(Timestamp::now())),
                lease_duration_seconds: Some(seconds(self.settings.duration)),
                ..old
            },
            Judgement::TakeOver => taken(Some(&old), &self.settings),
        });
        won(self.leases.replace(&name, &parameters, &lease).await)
    }

    /// Releases the lease, so that another copy need not wait until it expires.
    async fn give_back(&self) -> Result<(), kube::Error> {
        let Some(mut lease) = self.leases.get_opt(&self.settings.name).await? else {
            return Ok(());
        };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() == Some(&self.settings.identity) {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(MicroTime(Timestamp::now()));
            let (name, parameters) = (&self.settings.name, PostParams::default());
            won(self.leases.replace(name, &parameters, &lease).await)?;
        }
        Ok(())
    }
}

/// Whether the write of this candidate succeeded. If two candidates write at once, the
/// second one gets a conflict.
fn won(answer: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The lease with this candidate as its holder.
fn taken(old: Option<&LeaseSpec>, settings: &LeaseSettings) -> LeaseSpec {
    let now = MicroTime(Timestamp::now());
    let before = old.and_then(|old| old.lease_transitions);
    LeaseSpec {
        holder_identity: Some(settings.identity.clone()),
        lease_duration_seconds: Some(seconds(settings.duration)),
        acquire_time: Some(now.clone()),
        renew_time: Some(now),
        lease_transitions: Some(before.map_or(0, |count| count.saturating_add(1))),
        ..LeaseSpec::default()
    }
}

fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX).max(1)
}

fn judge(
    lease: &LeaseSpec,
    seen: &mut Option<(LeaseSpec, Instant)>,
    settings: &LeaseSettings,
    now: Instant,
) -> Judgement {
    let holder = lease.holder_identity.as_deref().unwrap_or_default();
    if holder == settings.identity {
        return Judgement::Renew;
    }
    if holder.is_empty() {
        return Judgement::TakeOver;
    }
    let unchanged_since = match seen {
        Some((old, since)) if old == lease => *since,
        _ => {
            *seen = Some((lease.clone(), now));
            now
        }
    };
    let duration = lease.lease_duration_seconds.unwrap_or_default();
    // A lease of another program may lack the duration.
    let duration = match u64::try_from(duration) {
        Ok(seconds) if seconds > 0 => Duration::from_secs(seconds),
        _ => settings.duration,
    };
    if now.saturating_duration_since(unchanged_since) >= duration {
        Judgement::TakeOver
    } else {
        Judgement::Wait
    }
}

#[cfg(test)]
mod tests;
