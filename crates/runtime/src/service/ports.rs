//! What services offer each other at a start: each port is offered once and taken once.

use std::any::Any;
use std::collections::HashMap;
use std::marker::PhantomData;

/// The name of a port, and what is offered there.
pub struct Port<T> {
    name: &'static str,
    offered: PhantomData<fn() -> T>,
}

impl<T> Port<T> {
    /// A port of this name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, offered: PhantomData }
    }

    /// As services list it.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// What is offered and not taken yet.
#[derive(Default)]
pub struct Ports(HashMap<&'static str, Box<dyn Any + Send>>);

impl Ports {
    /// Offers `offered`.
    ///
    /// # Panics
    /// If the port is offered already: a binary has one service for each.
    pub fn offer<T: Send + 'static>(&mut self, port: &Port<T>, offered: T) {
        let former = self.0.insert(port.name, Box::new(offered));
        assert!(former.is_none(), "port {} is offered once", port.name);
    }

    /// Takes what is offered. None if no service of the file offers it.
    ///
    /// # Panics
    /// If what is offered there is of another type.
    pub fn take<T: Send + 'static>(&mut self, port: &Port<T>) -> Option<T> {
        let offered = self.0.remove(port.name)?;
        Some(*offered.downcast().expect("a port has one type"))
    }
}
