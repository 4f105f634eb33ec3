//! Runs the state machine of the client with a socket and a clock.

use std::io;
use std::time::Duration;

use landfall_sys::backoff::between;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::machine::{Input, Machine, Output};
use super::socket::Socket;
use super::{Event, Identity, Settings};
use crate::dhcp::Reporter;

/// Pause after a socket error. The pause can be long: the link is down or going away, and
/// a new client starts when the link returns.
const TROUBLE_PAUSE: Duration = Duration::from_secs(64);

/// Commands to a running client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Another machine on the link has the leased address.
    Decline,
}

/// Gets a lease and keeps it, until the receiver of the events or the sender of the
/// commands is gone.
pub async fn run<T: Clone>(
    settings: Settings,
    reporter: Reporter<T, Event>,
    mut commands: mpsc::Receiver<Command>,
) {
    let start = Instant::now();
    let mut machine = Machine::new(
        Identity::of(settings.mac),
        settings.host_name.clone(),
        settings.want.clone(),
        settings.series,
        Duration::ZERO,
        || between(0.0, 1.0),
    );
    loop {
        let ended = match Socket::open(&settings) {
            Ok(socket) => {
                let client = Client {
                    settings: &settings,
                    socket,
                    start,
                    reporter: &reporter,
                };
                client.follow(&mut machine, &mut commands).await
            }
            Err(error) => Err(error),
        };
        // If the work ended without an error, the other end of a channel is gone.
        let Err(error) = ended else {
            return;
        };
        if reporter
            .report(Event::Trouble(error.to_string()))
            .await
            .is_none()
        {
            return;
        }
        sleep(TROUBLE_PAUSE).await;
    }
}

struct Client<'a, T> {
    settings: &'a Settings,
    socket: Socket,
    start: Instant,
    reporter: &'a Reporter<T, Event>,
}

impl<T: Clone> Client<'_, T> {
    /// Handles input until the receiver of the events or the sender of the commands is
    /// gone.
    async fn follow(
        &self,
        machine: &mut Machine,
        commands: &mut mpsc::Receiver<Command>,
    ) -> io::Result<()> {
        let mut buffer = Vec::new();
        loop {
            let timer = async {
                match machine.wakes() {
                    Some(at) => sleep_until(self.start + at).await,
                    None => std::future::pending().await,
                }
            };
            let input = tokio::select! {
                from = self.socket.receive(&mut buffer) => {
                    let from = from?;
                    Input::Payload(&buffer, from)
                }
                command = commands.recv() => match command {
                    Some(Command::Decline) => Input::Duplicate,
                    None => return Ok(()),
                },
                () = timer => Input::Time,
            };
            for output in machine.on(self.start.elapsed(), input) {
                match output {
                    Output::Send(message) => self.send(&message).await,
                    Output::Report(event) => {
                        if self.reporter.report(event).await.is_none() {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    /// A message that cannot be sent now counts as lost.
    async fn send(&self, message: &[u8]) {
        if let Err(error) = self.socket.send(message).await {
            tracing::debug!(
                "{} DHCPv6: cannot send the message: {error}",
                self.settings.name
            );
        }
    }
}
