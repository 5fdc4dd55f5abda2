//! Flags about what is given to whom: when a destination counts as failing, what it may be given, what a
//! namespace may submit.

use crate::{flag, flow_flag};
use executor::breaker::Settings;
use executor::shares::{Limit, Shares, Tenants};
use http_api::quota::{EVERYBODY, Quota, Quotas};
use model::Span;
use std::collections::BTreeMap;

#[derive(Debug, clap::Args)]
pub struct Flow {
    /// Keep back the runs of a destination that fails until it works again
    #[arg(long, value_name = "BOOL", env = "DULY_BREAKER_ENABLED", default_value = "true", action = clap::ArgAction::Set)]
    breaker_enabled: bool,
    /// So many attempts within the window say whether a destination fails
    #[arg(long, value_name = "N", env = "DULY_BREAKER_ATTEMPTS", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    breaker_attempts: u32,
    /// It fails if so many of a hundred of them got no answer, 429 or 5xx
    #[arg(long, value_name = "PERCENT", env = "DULY_BREAKER_FAILURES", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=100))]
    breaker_failures: u32,
    /// It fails, too, after so many timeouts in a row
    #[arg(long, value_name = "N", env = "DULY_BREAKER_TIMEOUTS", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    breaker_timeouts: u32,
    /// How far back attempts count
    #[arg(long, value_name = "DURATION", env = "DULY_BREAKER_WINDOW", default_value = "30s", value_parser = flag::breaker)]
    breaker_window: Span,
    /// How long its runs wait before one of them is sent to see how it goes; twice as long each time
    /// that one fails
    #[arg(long, value_name = "DURATION", env = "DULY_BREAKER_OPEN", default_value = "10s", value_parser = flag::breaker)]
    breaker_open: Span,
    /// How long at most
    #[arg(long, value_name = "DURATION", env = "DULY_BREAKER_OPEN_MAX", default_value = "5m", value_parser = flag::breaker)]
    breaker_open_max: Span,
    /// A run that is kept back spends a retry, as if it had been sent and failed
    #[arg(long, value_name = "BOOL", env = "DULY_BREAKER_SPEND_RETRIES", default_value = "false", action = clap::ArgAction::Set)]
    breaker_spend_retries: bool,
    /// What a namespace (* for all that have none of their own) may submit, in the whole cluster, as
    /// NAMESPACE,submissions=100/s,burst=200,bytes=10MB/s,waiting=10000,jobs=500,fires=600/m,in_flight=50; may be given several times, in the environment
    /// with semicolons
    #[arg(long, value_name = "QUOTA", env = "DULY_QUOTA", value_delimiter = ';', value_parser = flow_flag::quota)]
    quota: Vec<(String, Quota)>,
    /// What a host may be given by all nodes together, as HOST,in_flight=8,rate=50/s,burst=10; may be given
    /// several times, in the environment with semicolons
    #[arg(long, value_name = "LIMIT", env = "DULY_DESTINATION", value_delimiter = ';', value_parser = flow_flag::destination)]
    destination: Vec<(String, Limit)>,
}

impl Flow {
    /// `exclusive`: no other node shares the store.
    pub fn shares(&self, exclusive: bool) -> Shares {
        let each = self.quota.iter().map(|(name, quota)| (name.clone(), quota.in_flight));
        let mut named: BTreeMap<String, Option<u32>> = each.collect();
        let others = named.remove(EVERYBODY).flatten();
        Shares::new(self.destination.iter().cloned().collect(), exclusive)
            .of_tenants(Tenants { named, others })
    }

    pub fn quotas(&self) -> Quotas {
        Quotas::new(self.quota.iter().cloned().collect())
    }

    pub fn breaker(&self) -> Settings {
        Settings {
            enabled: self.breaker_enabled,
            attempts: self.breaker_attempts,
            failures_percent: self.breaker_failures,
            timeouts: self.breaker_timeouts,
            window: self.breaker_window,
            open: self.breaker_open,
            open_max: self.breaker_open_max.max(self.breaker_open),
            spend_retries: self.breaker_spend_retries,
        }
    }
}
