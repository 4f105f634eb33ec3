//! The clients that have not read their whole page yet. Decides which of them loses its
//! connection when there are too many.
//!
//! A client that does not read can hold its page forever. So a new client always gets
//! its page, and the address that has the most pages loses the connection with its
//! oldest page. Neither slow clients nor a client that asks again and again can keep
//! others from the page.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::connections::{Connection, site};
use crate::metrics::Metrics;

/// How many clients may hold a page at the same time. A page has at most half a
/// megabyte.
const MOST: usize = 32;

/// Cheap to clone; all clones are the same table.
#[derive(Debug, Clone)]
pub(crate) struct PageReaders {
    table: Arc<Mutex<Table>>,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct Table {
    /// In the order in which they got their pages.
    readers: BTreeMap<u64, Arc<Connection>>,
    next: u64,
}

/// One client with its page. Its place is free when this is dropped.
#[derive(Debug)]
pub(crate) struct PageReader {
    number: u64,
    readers: PageReaders,
}

impl PageReaders {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self {
            table: Arc::default(),
            metrics,
        }
    }

    /// Adds a client. If there are too many, closes the connection of another one.
    pub(crate) fn enter(&self, connection: &Arc<Connection>) -> PageReader {
        let mut table = self.lock();
        if table.readers.len() >= MOST
            && let Some(other) = table.remove_one()
        {
            other.give_way();
            self.metrics.closed("gave way");
        }
        let number = table.next;
        table.next += 1;
        table.readers.insert(number, Arc::clone(connection));
        PageReader {
            number,
            readers: self.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Removes the oldest page of the address that has the most pages. Returns its
    /// connection.
    fn remove_one(&mut self) -> Option<Arc<Connection>> {
        let mut sites: HashMap<IpAddr, (usize, u64)> = HashMap::new();
        for (number, connection) in &self.readers {
            let (count, _) = sites.entry(site(connection.client)).or_insert((0, *number));
            *count += 1;
        }
        // If two addresses have the same number of pages, take that with the older page.
        let greediest = sites
            .into_values()
            .max_by_key(|(count, oldest)| (*count, std::cmp::Reverse(*oldest)));
        self.readers.remove(&greediest?.1)
    }
}

impl Drop for PageReader {
    fn drop(&mut self) {
        self.readers.lock().readers.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::{Connections, Place};

    /// A client that gives way is one of the address that has the most pages.
    #[test]
    fn the_oldest_of_the_greediest_address_gives_way() {
        let connections = Arc::new(Connections::new(1000, Metrics::default()));
        let enter = |client: &str| connections.enter(client.parse().unwrap()).unwrap();
        let readers = PageReaders::new(Metrics::default());
        let modest: Vec<Place> = (1..=3).map(|at| enter(&format!("192.0.2.{at}"))).collect();
        let greedy: Vec<Place> = (0..100)
            .map(|at| enter(&format!("2001:db8::{at}")))
            .collect();
        let all: Vec<PageReader> = modest
            .iter()
            .chain(&greedy)
            .map(|place| readers.enter(&place.connection))
            .collect();
        let has_page = |place: &&Place| {
            let table = readers.lock();
            let mut readers = table.readers.values();
            readers.any(|reader| Arc::ptr_eq(reader, &place.connection))
        };
        assert_eq!(modest.iter().filter(has_page).count(), 3);
        assert_eq!(greedy.iter().filter(has_page).count(), MOST - 3);
        assert!(
            greedy[100 - (MOST - 3)..]
                .iter()
                .all(|place| has_page(&place))
        );
        drop(all);
        assert!(readers.lock().readers.is_empty());
    }
}
