//! A running service with a few hosts.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use landfall_host_media::fixtures::{self, Layout};
use landfall_host_media::{BaseIso, HostVersion, KargsEdit};
use landfall_image_service::{
    Base, BaseFiles, Endpoints, HostStore, Limits, Listening, Metrics, ServerTls, Service, listen,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::client::{Answer, Client};

pub struct Fixture {
    // The order matters: the listener ends before its runtime.
    listening: Option<Listening>,
    pub service: Service,
    pub tls: Option<ServerTls>,
    pub iso: Vec<u8>,
    pub directory: TempDir,
    pub runtime: Runtime,
}

pub fn host(number: u32) -> HostVersion {
    HostVersion::default()
        .with_kargs(KargsEdit {
            append: vec![format!("node={number}")],
            ..KargsEdit::default()
        })
        .with_file(
            format!("etc/landfall/hosts/node{number}.json"),
            format!("{{\"number\":{number}}}").into_bytes(),
        )
}

impl Fixture {
    pub fn new() -> Self {
        Self::with(Layout::default(), Limits::default(), None)
    }

    pub fn with(layout: Layout, limits: Limits, tls: Option<fn(&TempDir) -> ServerTls>) -> Self {
        Self::of(fixtures::base_iso(layout), limits, tls)
    }

    /// A service with this base.
    pub fn of(iso: Vec<u8>, limits: Limits, tls: Option<fn(&TempDir) -> ServerTls>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("base.iso");
        std::fs::write(&path, &iso).unwrap();
        let files = BaseFiles {
            iso: path,
            ramdisk: None,
            kernel: None,
        };
        let store = HostStore::new(Base::load(&files).unwrap());
        for number in 1..=3 {
            store.put(&format!("node{number}"), host(number)).unwrap();
        }
        store.set_ready(true);
        let service = Service::new(store, Metrics::default(), limits);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let tls = tls.map(|make| make(&directory));
        let listening = runtime.block_on(async {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            listen(address, tls.clone(), &service, Endpoints::Everything).unwrap()
        });
        Self {
            listening: Some(listening),
            service,
            tls,
            iso,
            directory,
            runtime,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.listening.as_ref().unwrap().address()
    }

    pub fn client(&self) -> Client<TcpStream> {
        Client::connect(self.address())
    }

    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.client().get(path, headers)
    }

    /// The bytes that `/nodeN.iso` must have.
    pub fn expected_iso(&self, number: u32) -> Vec<u8> {
        let base = BaseIso::open(std::io::Cursor::new(&self.iso)).unwrap();
        let image = base.of_host(&host(number), 0).unwrap();
        image.to_vec(&self.iso).unwrap()
    }

    /// Stops the service as SIGTERM does.
    pub fn stop(&mut self) {
        self.service.announce_stop();
        let listening = self.listening.take().unwrap();
        self.runtime.block_on(listening.stop());
    }
}
