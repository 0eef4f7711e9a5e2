//! Calls that wait, in a fair order: by class, then by user in turn, then as they came.

use std::collections::{HashMap, VecDeque};

use units::Tick;

/// The number of a call, unique among those of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallNumber(pub u64);

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LookupUser(pub u64);

/// How urgent a call is. The order is precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallClass {
    /// An auction will want it.
    Bid,
    /// Somebody waits for the answer.
    Operator,
    /// Nobody waits.
    Background,
}

impl CallClass {
    /// All, in their order.
    pub const ALL: [Self; 3] = [Self::Bid, Self::Operator, Self::Background];
}

/// After being passed over so many times, a class has its turn.
const PASSED_MAX: [u32; 3] = [u32::MAX, 8, 32];

/// A call that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedCall {
    /// Its number.
    pub number: CallNumber,
    /// How urgent it is.
    pub class: CallClass,
    /// Who asks.
    pub user: LookupUser,
    /// When the answer is too late.
    pub deadline: Tick,
    /// Whether it may be made twice.
    pub is_idempotent: bool,
}

/// Calls that wait. Each class has room for the same number.
#[derive(Clone, Debug, Default)]
pub(super) struct FairQueue {
    classes: [ClassQueue; 3],
    /// Where calls are.
    places: HashMap<CallNumber, (CallClass, LookupUser)>,
}

#[derive(Clone, Debug, Default)]
struct ClassQueue {
    /// Users with calls, in the order of their turns.
    turns: VecDeque<LookupUser>,
    calls: HashMap<LookupUser, VecDeque<QueuedCall>>,
    count: usize,
    /// How often another class went first while calls waited here.
    passed: u32,
}

impl FairQueue {
    /// Calls of a class that wait.
    pub const fn len_of(&self, class: CallClass) -> usize {
        self.classes[class as usize].count
    }

    /// All calls that wait.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether a call waits.
    pub fn contains(&self, number: CallNumber) -> bool {
        self.places.contains_key(&number)
    }

    /// Adds a call behind those of its user.
    pub fn push(&mut self, call: QueuedCall) {
        self.places.insert(call.number, (call.class, call.user));
        let class = &mut self.classes[call.class as usize];
        let of_user = class.calls.entry(call.user).or_default();
        if of_user.is_empty() {
            class.turns.push_back(call.user);
        }
        of_user.push_back(call);
        class.count += 1;
    }

    /// Takes the next call.
    pub fn pop(&mut self) -> Option<QueuedCall> {
        let waits = |class: &CallClass| self.classes[*class as usize].count > 0;
        let is_due =
            |class: &CallClass| PASSED_MAX[*class as usize] <= self.classes[*class as usize].passed;
        let waiting = || CallClass::ALL.into_iter().filter(waits);
        let class = waiting().find(is_due).or_else(|| waiting().next())?;
        for other in CallClass::ALL {
            let of_other = &mut self.classes[other as usize];
            match other == class {
                true => of_other.passed = 0,
                false if of_other.count > 0 => of_other.passed = of_other.passed.saturating_add(1),
                false => of_other.passed = 0,
            }
        }
        let call = self.classes[class as usize].pop()?;
        self.places.remove(&call.number);
        Some(call)
    }

    /// Removes a call. Returns whether it waited.
    pub fn remove(&mut self, number: CallNumber) -> bool {
        let Some((class, user)) = self.places.remove(&number) else { return false };
        self.classes[class as usize].remove(number, user);
        true
    }
}

impl ClassQueue {
    fn pop(&mut self) -> Option<QueuedCall> {
        let user = self.turns.pop_front()?;
        let calls = self.calls.get_mut(&user).expect("who has a turn has calls");
        let call = calls.pop_front().expect("who has a turn has calls");
        self.count -= 1;
        if calls.is_empty() {
            self.calls.remove(&user);
        } else {
            self.turns.push_back(user);
        }
        Some(call)
    }

    fn remove(&mut self, number: CallNumber, user: LookupUser) {
        let calls = self.calls.get_mut(&user).expect("a call that waits has its place");
        calls.retain(|call| call.number != number);
        self.count -= 1;
        if calls.is_empty() {
            self.calls.remove(&user);
            self.turns.retain(|other| *other != user);
        }
    }
}
