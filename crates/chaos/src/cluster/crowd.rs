//! Who asks and who works: clients, workers, and those of the load in bulk and of limited queues.

use super::Run;
use crate::book::Book;
use crate::bulk::{BulkClient, BulkWorker};
use crate::client::{Client, Load};
use crate::limited::{Limited, LimitedClient, LimitedWorker};
use crate::limits::{
    BULK_CLIENTS, BULK_QUEUES, BULK_WORKERS, CLUSTER_CLIENTS, CLUSTER_PACE, CLUSTER_QUEUES,
    CLUSTER_RECURRING, CLUSTER_WORKERS, LIMITED_CLIENTS, LIMITED_LEASES, LIMITED_WORKERS,
};
use crate::worker::Worker;
use sim::rng::Rng;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

impl Run<'_> {
    pub(super) fn load(&self) -> Load {
        Load { queues: CLUSTER_QUEUES, recurring_max: CLUSTER_RECURRING, pace: CLUSTER_PACE }
    }

    pub(super) fn crowd(
        &self,
        book: &Arc<Book>,
        hooks: SocketAddr,
        rng: &mut Rng,
    ) -> Vec<JoinHandle<()>> {
        let mut threads = Vec::new();
        for _ in 0..if self.people { CLUSTER_CLIENTS } else { 0 } {
            let client = Client { book: book.clone(), hooks, rng: rng.fork(2), load: self.load() };
            threads.push(std::thread::spawn(move || client.run()));
        }
        for name in 0..if self.people { CLUSTER_WORKERS } else { 0 } {
            let queues = (0..CLUSTER_QUEUES).map(|queue| format!("w{queue}")).collect();
            let worker = Worker {
                book: book.clone(),
                name: format!("worker-{name}").into(),
                rng: rng.fork(3),
                zombies: Vec::new(),
                queues,
            };
            threads.push(std::thread::spawn(move || worker.run()));
        }
        let apart = self.bulk.ahead.is_some();
        let clients = if apart { BULK_QUEUES } else { BULK_CLIENTS };
        for number in 0..if self.bulk.rate > 0 { clients } else { 0 } {
            let (book, rng, rate) = (book.clone(), rng.fork(5), self.bulk.rate / clients);
            // Where every fire is planned, a queue has one who submits to it and to no other.
            let only = apart.then_some(number);
            let client = BulkClient { book, hooks, rng, bulk: self.bulk, rate, only };
            threads.push(std::thread::spawn(move || client.run()));
        }
        let calm = self.bulk.calm;
        for name in 0..if self.bulk.rate > 0 { BULK_WORKERS } else { 0 } {
            let (book, name) = (book.clone(), format!("bulk-{name}").into());
            let worker = BulkWorker { book, name, rng: rng.fork(6), calm };
            threads.push(std::thread::spawn(move || worker.run()));
        }
        if let Some(queues) = &self.limited {
            threads.extend(self.limited(book, hooks, rng, queues));
        }
        threads
    }

    fn limited(
        &self,
        book: &Arc<Book>,
        hooks: SocketAddr,
        rng: &mut Rng,
        queues: &Arc<Vec<Limited>>,
    ) -> Vec<JoinHandle<()>> {
        let mut threads = Vec::new();
        for _ in 0..LIMITED_CLIENTS {
            let (book, queues) = (book.clone(), queues.clone());
            let client = LimitedClient { book, hooks, rng: rng.fork(7), queues };
            threads.push(std::thread::spawn(move || client.run()));
        }
        for (lease, name) in LIMITED_LEASES.iter().flat_map(|lease| {
            (0..LIMITED_WORKERS).map(move |number| (*lease, format!("limited-{lease}-{number}")))
        }) {
            let worker = LimitedWorker {
                book: book.clone(),
                name: name.into(),
                rng: rng.fork(8),
                lease_seconds: lease,
                queues: queues.clone(),
            };
            threads.push(std::thread::spawn(move || worker.run()));
        }
        threads
    }
}
