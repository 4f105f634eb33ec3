//! Starts the service on a base ISO that xorriso made, and sends requests to it over
//! sockets.

#![allow(clippy::unwrap_used, reason = "a test that unwraps nothing has failed")]

mod client;
mod clients;
mod conditions;
mod fixture;
mod hosts;
mod page;
mod ranges;
mod requests;
mod tls;
