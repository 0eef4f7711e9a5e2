//! Values that services offer each other at startup: each port is offered once, and taken once or
//! cloned by several services.

use std::any::Any;
use std::collections::HashMap;
use std::marker::PhantomData;

/// A port's name and the type offered there.
pub struct Port<T> {
    name: &'static str,
    offered: PhantomData<fn() -> T>,
}

impl<T> Port<T> {
    /// A port of this name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, offered: PhantomData }
    }

    /// The name that services list.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// Offers not taken yet.
#[derive(Default)]
pub struct Ports(HashMap<&'static str, Box<dyn Any + Send>>);

impl Ports {
    /// Offers a value.
    ///
    /// # Panics
    /// If the port already has one: a binary has one service per port.
    pub fn offer<T: Send + 'static>(&mut self, port: &Port<T>, offered: T) {
        let former = self.0.insert(port.name, Box::new(offered));
        assert!(former.is_none(), "port {} is offered once", port.name);
    }

    /// Takes the value. None if no service of the file offers it.
    ///
    /// # Panics
    /// If the value has another type.
    pub fn take<T: Send + 'static>(&mut self, port: &Port<T>) -> Option<T> {
        let offered = self.0.remove(port.name)?;
        Some(*offered.downcast().expect("a port has one type"))
    }

    /// A clone of the value, which stays for other services. None if no service of the file offers
    /// it.
    ///
    /// # Panics
    /// If the value has another type.
    pub fn get<T: Clone + 'static>(&self, port: &Port<T>) -> Option<T> {
        let offered = self.0.get(port.name)?;
        Some(offered.downcast_ref::<T>().expect("a port has one type").clone())
    }
}
