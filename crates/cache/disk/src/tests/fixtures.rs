//! A store on a disk in memory, and resources for it.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cache_core::fields::dates::UnixSeconds;
use cache_core::key::CacheKey;
use cache_core::rules::control::ResponseControl;
use cache_core::rules::freshness::ExchangeTimes;
use cache_core::store::purges::{Purge, PurgeEffect, PurgeNumber, PurgeScope, Purges};
use cache_core::store::response::{
    LifetimeRules, ReceivedResponse, Resource, StoredBody, StoredResponse,
};
use faults::FaultDisk;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::runtime::{Builder, Runtime};

use crate::admission::DiskAdmission;
use crate::tier::{DiskLimits, DiskTier};

pub(super) const LIMITS: DiskLimits = DiskLimits {
    bytes_max: 1 << 20,
    waiting_max: 1 << 22,
    read_timeout: Duration::from_secs(30),
    readers: 2,
    admission: DiskAdmission::Repeated,
};

/// A resource with a body and surrogate keys, which has been through the purges up to a number.
pub(super) fn resource_through(body: &str, names: &str, purged_through: PurgeNumber) -> Resource {
    let mut headers = HeaderMap::new();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=600"));
    let surrogate_key = HeaderName::from_static("surrogate-key");
    headers.insert(surrogate_key, HeaderValue::from_str(names).unwrap());
    let received = ReceivedResponse {
        status: StatusCode::OK,
        headers: &headers,
        control: &ResponseControl::of(&headers, &[]),
        times: ExchangeTimes { requested: UnixSeconds(1_000), received: UnixSeconds(1_000) },
        purged_through,
    };
    let body = StoredBody::new(vec![Bytes::copy_from_slice(body.as_bytes())]);
    let request = HeaderMap::new();
    let response = StoredResponse::new(&received, &request, body, LifetimeRules::default());
    let mut resource = Resource::default();
    resource.put(response.unwrap(), &request, 1);
    resource
}

pub(super) fn resource(body: &str, names: &str) -> Resource {
    resource_through(body, names, PurgeNumber(0))
}

pub(super) struct Fixture {
    pub tier: DiskTier,
    runtime: Runtime,
    next_purge: std::cell::Cell<u64>,
}

impl Fixture {
    pub(super) fn open(disk: &FaultDisk) -> Self {
        Self::try_open(disk).unwrap()
    }

    pub(super) fn try_open(disk: &FaultDisk) -> io::Result<Self> {
        Self::opened(disk, LIMITS)
    }

    pub(super) fn open_with(disk: &FaultDisk, change: impl FnOnce(&mut DiskLimits)) -> Self {
        let mut limits = LIMITS;
        change(&mut limits);
        Self::opened(disk, limits).unwrap()
    }

    fn opened(disk: &FaultDisk, limits: DiskLimits) -> io::Result<Self> {
        let tier = DiskTier::open(disk.clone(), limits, &[])?;
        let next_purge = std::cell::Cell::new(tier.newest_purge().0 + 1);
        let runtime = Builder::new_current_thread().enable_time().build()?;
        Ok(Self { tier, runtime, next_purge })
    }

    /// The process is killed, and begins anew.
    pub(super) fn kill(self, disk: &FaultDisk) -> Self {
        disk.restart_process();
        self.reopen(disk)
    }

    /// After the machine has stopped what this process did.
    pub(super) fn reopen(self, disk: &FaultDisk) -> Self {
        self.tier.close();
        Self::open(disk)
    }

    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(super) fn write(&self, key: &str, body: &str, names: &str) {
        let newest = PurgeNumber(self.next_purge.get() - 1);
        self.tier.write(key, resource_through(body, names, newest));
    }

    /// The body that a hit would have.
    pub(super) fn load(&self, key: &str) -> Option<String> {
        let loaded = self.block_on(self.tier.load(key))?;
        let resource = self.tier.current(key, loaded)?;
        let [response] = resource.responses() else { panic!("it has one response") };
        let StoredBody::Copied(body) = &response.body else { panic!("it is short") };
        Some(String::from_utf8(body.to_vec()).unwrap())
    }

    /// In seconds.
    pub(super) fn lifetime(&self, key: &str) -> Option<u64> {
        let loaded = self.block_on(self.tier.load(key))?;
        let resource = self.tier.current(key, loaded)?;
        let purges = Purges::after(self.tier.newest_purge());
        Some(resource.responses()[0].freshness(purges.of(key))?.lifetime.0)
    }

    /// Purges, and waits for what the disk says.
    pub(super) fn try_purge(&self, purge: Purge) -> Result<(), String> {
        let number = PurgeNumber(self.next_purge.replace(self.next_purge.get() + 1));
        if let (PurgeScope::Key(key), PurgeEffect::Gone) = (&purge.scope, purge.effect) {
            self.tier.forget(key.as_str());
        }
        let receipt = self.tier.purge(number, Arc::new(purge));
        receipt.wait().map_err(|error| error.to_string())
    }

    /// Purges, and waits until it is durable.
    pub(super) fn purge(&self, purge: Purge) {
        self.try_purge(purge).unwrap();
    }

    /// The disk does not take it.
    pub(super) fn purge_unrecorded(&self, purge: Purge) -> String {
        self.try_purge(purge).unwrap_err()
    }

    /// Waits until what was asked for is done, well or not.
    pub(super) fn settle(&self) {
        let scope = PurgeScope::Key(CacheKey::written("none"));
        let _recorded = self.try_purge(Purge { scope, effect: PurgeEffect::Gone });
    }

    pub(super) fn wait_until_well(&self) {
        let begun = Instant::now();
        while self.tier.figures().failure.is_some() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it is not well again");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
