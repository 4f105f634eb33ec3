//! Runs the boot as a process: its messages, its runtime, and its end.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use landfall_boot_params::argument_value::ConsoleMode;
use landfall_devices::permission::{HOST_ROOT, Home};
use landfall_disk::critical_section;
use landfall_init::Ending;
use landfall_live_system::{LiveSystem, keep_watchdog, report_ready};
use landfall_report::failure::{Failure, Result};
use landfall_report::{Output, status};
use landfall_settings::{ContainerParts, Settings};
use landfall_sys::state_file::STATE_DIRECTORY;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::{boot, form};

/// How long the last lines may take to reach a slow console, and how long to reach the
/// syslog server.
const LAST_LINES: Duration = Duration::from_secs(2);

/// `run`
#[derive(Debug, Args)]
pub struct RunArguments {
    /// Declare that this live system runs from memory: disks may be written
    ///
    /// For systemd units of live systems other than CoreOS. (The agent
    /// recognises CoreOS by /run/ostree-live.) The agent still refuses to
    /// run if a disk is mounted, or in a container. One container is
    /// permitted without this option: the one that OpenShift's
    /// ironic-agent.service starts.
    #[arg(long, verbatim_doc_comment)]
    pub live_system: bool,
}

/// Runs the agent until the boot ends. In the ramdisk the exit code requests an
/// [`Ending`] from init; any other code means a failure. A live system has no Landfall
/// init that reads the code, so the agent ends the boot through logind.
pub fn run(arguments: &RunArguments, debug: bool) -> ExitCode {
    let (home, container) = match enter(arguments) {
        Ok(entered) => entered,
        Err(failure) => {
            // Stop here: if the agent continued, it would also take over the network of
            // this machine.
            landfall_report::start(Output::Stderr, debug);
            tracing::error!("{failure}");
            return ExitCode::FAILURE;
        }
    };
    let output = |mode, form| match home {
        Home::Ramdisk => Output::Consoles { mode, form },
        Home::LiveSystem | Home::AgentContainer => Output::Journal,
    };
    let settings = match Settings::of_this_boot_with(container) {
        Ok(settings) => settings,
        Err(error) => {
            landfall_report::start(output(ConsoleMode::Lines, false), debug);
            tracing::error!("cannot read /proc/cmdline: {error}");
            return ExitCode::FAILURE;
        }
    };
    let flush = landfall_report::start(
        output(*settings.params.console, *settings.params.console_form),
        debug || settings.params.wants_debug(),
    );
    landfall_report::log_panics(&flush);
    let serves_pages = *settings.params.status;
    // One thread runs all network tasks. Disks are written on other threads.
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("cannot start the agent: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(async {
        match home {
            Home::Ramdisk => in_ramdisk(settings).await,
            Home::LiveSystem | Home::AgentContainer => in_live_system(settings).await,
        }
    });
    match &outcome {
        Ok(Some(ending)) => {
            let done = ending.in_words().to_owned();
            status::update(|status| status.done = Some(done));
        }
        Ok(None) => {}
        Err(failure) => {
            tracing::error!("{failure}");
            // Keep the logs: init starts the agent again, and the new agent serves them.
            if serves_pages {
                landfall_logs::keep_for_anyone(Path::new(STATE_DIRECTORY));
            }
        }
    }
    runtime.block_on(landfall_syslog::wait_until_sent(LAST_LINES));
    // A thread that waits for a disk or a server must not keep the process alive.
    runtime.shutdown_background();
    flush.wait(LAST_LINES);
    exit_code(outcome, home)
}

/// Turns the outcome of the boot into the exit code. If the outcome is `None` in the
/// ramdisk, starts the agent again. In a live system, the agent ends the boot here if
/// logind has not ended it. In a container it cannot do that, and reports an error.
fn exit_code(outcome: Result<Option<Ending>>, home: Home) -> ExitCode {
    match (outcome, home) {
        (Ok(Some(ending)), Home::Ramdisk) => ExitCode::from(ending.exit_code()),
        // logind has not ended the boot, so the agent ends it.
        (Ok(Some(ending)), Home::LiveSystem) => landfall_init::carry_out(ending, || ()),
        // In a container the system call would end only the container.
        (Ok(Some(_)), Home::AgentContainer) => {
            tracing::error!("cannot end the boot: logind has not done so, and a container cannot");
            ExitCode::FAILURE
        }
        (Ok(None), Home::Ramdisk) => {
            tracing::error!("cannot start the agent again: {}", form::start_again());
            ExitCode::FAILURE
        }
        (Ok(None), _) => ExitCode::SUCCESS,
        (Err(_), _) => ExitCode::FAILURE,
    }
}

/// Determines where the agent runs. In the agent container, enters the host's root; the
/// files and variables of the container are read before that.
fn enter(arguments: &RunArguments) -> Result<(Home, Option<ContainerParts>)> {
    let home = Home::check(arguments.live_system)?;
    let parts = || ContainerParts::of_this_process(Path::new(HOST_ROOT));
    let container = (home == Home::AgentContainer).then(parts);
    home.enter()?;
    Ok((home, container))
}

/// Runs the boot. Init can end it early. Returns `None` if an operator has changed the
/// network in the form: the agent then starts again.
async fn in_ramdisk(settings: Settings) -> Result<Option<Ending>> {
    tokio::spawn(async { landfall_init::give_signs_of_life().await });
    let (try_them, mut tried) = mpsc::unbounded_channel();
    // The boot continues meanwhile, because a commit may need it.
    let changed = async {
        form::stored(&mut tried).await?;
        close_critical_section().await
    };
    tokio::select! {
        outcome = boot(settings, None, Some(try_them.clone())) => {
            // Log the ending for the syslog server, because init's line about it comes
            // too late.
            outcome.inspect(|ending| tracing::info!("{}", ending.in_words())).map(Some)
        }
        // Init knows which ending was ordered, and overrides the one here.
        asked = asked_to_end() => asked.map(|()| Some(Ending::PowerOff)),
        changed = changed => changed.map(|()| None),
    }
}

/// Returns when init (see `landfall_init::supervise`) or systemd has requested the end,
/// and no commit is in progress. Meanwhile the boot continues, because a commit may need
/// it.
async fn asked_to_end() -> Result<()> {
    let fault = |error: std::io::Error| {
        let details = format!("cannot listen for the request to end: {error}");
        Failure::other(details)
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(fault)?;
    terminate.recv().await;
    close_critical_section().await
}

/// Waits for a commit in progress, and lets none begin.
async fn close_critical_section() -> Result<()> {
    let closing = tokio::task::spawn_blocking(|| {
        critical_section::close(|| tracing::info!("ending after the commit"));
    });
    closing
        .await
        .map_err(|error| Failure::other(format!("cannot wait for the commit: {error}")))
}

/// Runs the boot under systemd. Sends systemd signs of life, and ends the boot through
/// logind. `None` if systemd requested the end of the agent or of the machine.
async fn in_live_system(settings: Settings) -> Result<Option<Ending>> {
    tracing::info!("landfall {} in a live system", env!("CARGO_PKG_VERSION"));
    keep_watchdog();
    let services = LiveSystem::connect().await?;
    report_ready();
    let boot = async {
        let ending = boot(settings, Some(services.clone()), None).await?;
        services.end(ending).await;
        Ok(Some(ending))
    };
    tokio::select! {
        outcome = boot => outcome,
        asked = asked_to_end() => {
            asked?;
            Ok(None)
        }
    }
}
