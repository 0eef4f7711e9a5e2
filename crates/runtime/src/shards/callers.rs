//! How many connections each caller has open: one that opens them without end must not take the
//! place of all others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Counts open connections by caller; clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct Callers(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One connection of a caller, counted until dropped.
#[derive(Debug)]
pub(super) struct Caller {
    address: IpAddr,
    callers: Callers,
}

impl Callers {
    /// Counts one more connection of the caller at `address`, unless it has `max`.
    pub(super) fn enter(&self, address: IpAddr, max: usize) -> Option<Caller> {
        let address = caller_of(address);
        let mut open = self.0.lock().expect("nothing panics while it holds the counts");
        let count = open.entry(address).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        drop(open);
        Some(Caller { address, callers: self.clone() })
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let mut open = self.callers.0.lock().expect("nothing panics while it holds the counts");
        let count = open.get_mut(&self.address).expect("it was counted when it came");
        *count -= 1;
        if *count == 0 {
            open.remove(&self.address);
        }
    }
}

/// Whoever has an IPv6 address has the 2^64 of its network.
fn caller_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_its_own_share() {
        let callers = Callers::default();
        let enter = |address: &str| callers.enter(address.parse().unwrap(), 2);
        let first = enter("192.0.2.1").unwrap();
        let _second = enter("::ffff:192.0.2.1").unwrap();
        assert!(enter("192.0.2.1").is_none());
        let _other = enter("192.0.2.2").unwrap();
        drop(first);
        let _again = enter("192.0.2.1").unwrap();
        assert!(enter("192.0.2.1").is_none());

        let six = [enter("2001:db8::1").unwrap(), enter("2001:db8::2:1").unwrap()];
        assert!(enter("2001:db8::3").is_none(), "the same network");
        assert!(enter("2001:db8:0:1::1").is_some());
        drop(six);
        assert_eq!(callers.0.lock().unwrap().len(), 2, "who has nothing open is forgotten");
    }
}
