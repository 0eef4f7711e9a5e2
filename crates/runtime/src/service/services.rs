//! The services that a binary has, and the order in which they start.

use std::collections::BTreeMap;

use super::kind::{AnyConfig, ServiceInstance, ServiceKind};
use super::ports::Ports;
use super::{Service, ServiceError};
use crate::admin::Api;
use crate::config::Section;

/// The sections of a file, by service.
pub(super) type ServiceConfigs = BTreeMap<&'static str, AnyConfig>;

/// The services of a binary. A service starts if the file has its section.
#[derive(Default)]
pub struct Services {
    kinds: Vec<ServiceKind>,
    links: Vec<(&'static str, Link)>,
}

/// Adapts a port that one service offers to the type that another uses.
pub type Link = fn(&mut Ports) -> Result<(), ServiceError>;

impl Services {
    /// Adds a service. Sections are read and documented in this order.
    #[must_use]
    pub fn with<S: Service>(mut self) -> Self {
        self.kinds.push(ServiceKind::of::<S>());
        self
    }

    /// Runs `link` right before `S` starts.
    #[must_use]
    pub fn link<S: Service>(mut self, link: Link) -> Self {
        self.links.push((S::NAME, link));
        self
    }

    pub(super) fn read(&self, s: &mut Section<'_>) -> ServiceConfigs {
        self.kinds.iter().filter_map(|kind| Some((kind.name, (kind.read)(s)?))).collect()
    }

    /// The configured services, each after the services whose ports it uses. Fails if no configured
    /// service offers a port that another needs.
    pub(super) fn in_start_order(
        &self,
        configs: &ServiceConfigs,
    ) -> Result<Vec<ServiceKind>, ServiceError> {
        let kinds = self.kinds.iter().copied();
        let mut waiting: Vec<_> = kinds.filter(|kind| configs.contains_key(kind.name)).collect();
        let offers = |kinds: &[ServiceKind], port: &str| {
            kinds.iter().any(|kind| kind.offers.contains(&port))
        };
        for kind in &waiting {
            if let Some(port) = kind.needs.iter().find(|port| !offers(&waiting, port)) {
                let (name, by) = (kind.name, self.offering(port));
                let message = format!("[{name}] needs {port}: add {by}");
                return Err(ServiceError::configuration(message));
            }
        }
        let mut ordered = Vec::with_capacity(waiting.len());
        while !waiting.is_empty() {
            let is_free = |kind: &ServiceKind| {
                let used = kind.needs.iter().chain(kind.uses);
                let mut others = waiting.iter().filter(|other| other.name != kind.name);
                !others.any(|other| used.clone().any(|port| other.offers.contains(port)))
            };
            let free = waiting.iter().position(is_free);
            let free = free.expect("services of a binary do not use each other in a circle");
            ordered.push(waiting.remove(free));
        }
        Ok(ordered)
    }

    /// Sections of the services that may run alone.
    pub(super) fn sections(&self) -> String {
        let kinds = self.kinds.iter().filter(|kind| kind.runs_alone);
        let sections = kinds.map(|kind| format!("[{}]", kind.name));
        sections.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn fixed_tables(&self) -> Vec<&'static str> {
        self.kinds.iter().flat_map(|kind| kind.fixed_tables).copied().collect()
    }

    pub(super) fn absent(&self, running: &[ServiceInstance]) -> Vec<Api> {
        let is_running = |name| running.iter().any(|instance| instance.kind.name == name);
        let absent = self.kinds.iter().filter(|kind| !is_running(kind.name));
        absent.flat_map(|kind| (kind.absent)()).collect()
    }

    pub(super) fn run_links(&self, service: &str, ports: &mut Ports) -> Result<(), ServiceError> {
        let mut links = self.links.iter().filter(|(name, _)| *name == service);
        links.try_for_each(|(_, link)| link(ports))
    }

    fn offering(&self, port: &str) -> String {
        let offering = self.kinds.iter().find(|kind| kind.offers.contains(&port));
        offering.map_or_else(
            || "a service that offers it".to_owned(),
            |kind| format!("[{}]", kind.name),
        )
    }
}
