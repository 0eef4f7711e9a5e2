//! The obvious implementation: budgets and open reservations in maps behind one lock.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::Keeper;

/// Budgets by campaign, and reservations by number.
pub struct Map(Mutex<Books>);

struct Books {
    budgets: HashMap<u32, Budget>,
    /// Campaign, amount, and expiry.
    reservations: HashMap<u64, (u32, u64, Duration)>,
    next: u64,
    now: Duration,
}

#[derive(Clone, Copy)]
struct Budget {
    free: u64,
    reserved: u64,
    spent: u64,
    multiplier: f64,
}

impl Map {
    pub fn new(campaigns: u32) -> Self {
        let budget = Budget { free: 1 << 50, reserved: 0, spent: 0, multiplier: 0.1 };
        let budgets = (0..campaigns).map(|campaign| (campaign, budget)).collect();
        let (reservations, now) = (HashMap::new(), Duration::ZERO);
        Self(Mutex::new(Books { budgets, reservations, next: 0, now }))
    }

    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        self.0.lock().expect("nothing panics with it")
    }
}

impl Keeper for Map {
    type Reservation = u64;

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a price")]
    fn decide(&mut self, campaign: u32, request: u64) -> u64 {
        let multiplier = self.books().budgets[&campaign].multiplier;
        ((1_000_000 + request % 4_000_000) as f64 * multiplier) as u64
    }

    fn reserve(&mut self, campaign: u32, amount: u64) -> u64 {
        let mut books = self.books();
        let budget = books.budgets.get_mut(&campaign).expect("there is such a campaign");
        budget.free -= amount;
        budget.reserved += amount;
        books.next += 1;
        let (number, until) = (books.next, books.now + Duration::from_secs(60));
        books.reservations.insert(number, (campaign, amount, until));
        number
    }

    fn settle(&mut self, settlements: &[(u64, u64)]) {
        for (reservation, price) in settlements {
            let mut books = self.books();
            let known = books.reservations.remove(reservation);
            let (campaign, amount, _) = known.expect("it is open");
            let budget = books.budgets.get_mut(&campaign).expect("there is such a campaign");
            budget.reserved -= amount;
            budget.free += amount - price;
            budget.spent += price;
        }
    }

    fn pass(&mut self, time: Duration) {
        self.books().now += time;
    }

    fn spent(&self) -> u64 {
        self.books().budgets.values().map(|budget| budget.spent).sum()
    }
}
