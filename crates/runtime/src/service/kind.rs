//! Services of any type behind one type: the only place where their types are erased.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;

use super::descriptors::DescriptorNeeds;
use super::{BoxError, RunningService, Service, ServiceError, ServiceReload, Startup};
use crate::admin::Api;
use crate::config::{Effective, Section};

/// A service's section, parsed; only its kind knows the type.
pub(super) type AnyConfig = Box<dyn Any + Send>;

/// A [`Service`] without its type.
#[derive(Clone, Copy)]
pub(super) struct ServiceKind {
    pub(super) name: &'static str,
    pub(super) offers: &'static [&'static str],
    pub(super) uses: &'static [&'static str],
    pub(super) needs: &'static [&'static str],
    pub(super) runs_alone: bool,
    pub(super) fixed_tables: &'static [&'static str],
    pub(super) read: fn(&mut Section<'_>) -> Option<AnyConfig>,
    pub(super) addresses: fn(&AnyConfig) -> Vec<SocketAddr>,
    pub(super) descriptors: fn(&AnyConfig, usize) -> DescriptorNeeds,
    pub(super) absent: fn() -> Vec<Api>,
    pub(super) start: fn(AnyConfig, &mut Startup<'_>) -> Result<ServiceInstance, ServiceError>,
    reload: ReloadFn,
}

type ReloadFn =
    fn(&dyn RunningService, Option<AnyConfig>, &Effective) -> Result<ServiceReload, BoxError>;

/// A service that runs.
#[derive(Clone)]
pub(super) struct ServiceInstance {
    pub(super) kind: ServiceKind,
    pub(super) service: Arc<dyn RunningService>,
}

impl ServiceKind {
    pub(super) fn of<S: Service>() -> Self {
        Self {
            name: S::NAME,
            offers: S::OFFERS,
            uses: S::USES,
            needs: S::NEEDS,
            runs_alone: S::RUNS_ALONE,
            fixed_tables: S::FIXED_TABLES,
            read: |s| Some(Box::new(S::read(s)?)),
            addresses: |config| S::addresses(borrowed::<S>(config)),
            descriptors: |config, shards| S::descriptors(borrowed::<S>(config), shards),
            absent: S::absent,
            start: |config, startup| {
                Ok(ServiceInstance::of(S::start(owned::<S>(config), startup)?))
            },
            reload: |service, config, effective| {
                let service = (service as &dyn Any).downcast_ref::<S>();
                let service = service.expect("the instance is of its kind");
                service.reload(config.map(owned::<S>), effective)
            },
        }
    }
}

impl ServiceInstance {
    pub(super) fn of<S: Service>(service: Arc<S>) -> Self {
        Self { kind: ServiceKind::of::<S>(), service }
    }

    /// See [`Service::reload`].
    pub(super) fn reload(
        &self,
        config: Option<AnyConfig>,
        effective: &Effective,
    ) -> Result<ServiceReload, BoxError> {
        (self.kind.reload)(&*self.service, config, effective)
    }
}

fn borrowed<S: Service>(config: &AnyConfig) -> &S::Config {
    config.downcast_ref().expect("the section was read by this kind")
}

fn owned<S: Service>(config: AnyConfig) -> S::Config {
    *config.downcast().expect("the section was read by this kind")
}
