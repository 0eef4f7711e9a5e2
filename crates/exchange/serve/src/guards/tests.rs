//! Governors on a simulated clock, with changing generations.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::sync::mpsc;
use std::time::Duration;

use exchange_core::guard::{BreakerState, CallHealth, GuardRefusal};
use runtime::admin::{Admin, AdminOptions, Api, Method, Operation, Pages, Readiness, Reply, Route};
use runtime::listen::listen;
use runtime::metrics::Exposition;

use super::*;
use crate::budgets::campaigns::Campaigns;
use crate::config::ExchangeConfig;
use crate::generation::dns::Resolver;
use crate::generation::{DspRegistry, FirstGeneration, GenerationBuilder};

/// Test timeout, a hundred times what a step takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn config(dsps: &[(&str, &str)]) -> ExchangeConfig {
    let mut text = "[exchange]\nlisten = \"127.0.0.1:0\"\n".to_owned();
    for (id, keys) in dsps {
        let url = "http://127.0.0.1:1/bid";
        text.push_str(&format!("[[dsp]]\nid = \"{id}\"\nurl = \"{url}\"\n{keys}\n"));
    }
    let config = runtime::config::parse("test.toml", &text, ExchangeConfig::read);
    let config = config.unwrap_or_else(|problems| panic!("{problems}"));
    let mut config = config.expect("the service is on");
    for breaker in config.guards.iter_mut().filter_map(|guard| guard.breaker.as_mut()) {
        breaker.window = Duration::from_secs(60);
        breaker.calls_min = 5;
        breaker.probe_qps = NonZeroU32::new(20).expect("20 is not 0");
    }
    config
}

struct Bench {
    guards: Guards,
    all: GenerationBuilder,
    line: GuardPort,
    /// By DSP id.
    shard: HashMap<String, (GuardId, SharedGuard)>,
    now: Tick,
}

impl Bench {
    fn new(dsps: &[(&str, &str)]) -> Self {
        let (guards, mut lines) = Guards::new(1);
        let resolver = Resolver::start(&Control::start().expect("a thread"));
        let registry = DspRegistry::new(1, guards.clone(), resolver);
        let first = FirstGeneration {
            config: config(dsps),
            enrichments: Vec::new(),
            campaigns: Campaigns::default(),
        };
        let all = GenerationBuilder::new(first, registry, None, None).expect("nothing is recorded");
        // Limits change by the real clock, which lies before this one.
        let now = Tick::ZERO.after(Duration::from_secs(3600));
        let line = lines.pop().expect("one for each shard");
        let mut bench = Self { guards, all, line, shard: HashMap::new(), now };
        bench.adopt();
        bench
    }

    fn reload(&mut self, dsps: &[(&str, &str)]) {
        self.all.reload(config(dsps), Vec::new()).expect("nothing is recorded");
        self.adopt();
    }

    /// As a shard does: keeps the guards of DSPs that stay.
    fn adopt(&mut self) {
        let generation = self.all.current();
        let ids = generation.config.market.dsps.iter().map(|dsp| dsp.id.to_string());
        let mut before = std::mem::take(&mut self.shard);
        for (id, dsp) in ids.zip(&generation.dsps) {
            let known = before.remove(&id).filter(|(guard, _)| *guard == dsp.guard);
            let new = || Rc::new(RefCell::new(ShardGuard::new(&dsp.first_grants[0])));
            let guard = known.map_or_else(new, |(_, guard)| guard);
            self.shard.insert(id, (dsp.guard, guard));
        }
    }

    /// A turn of the shard and a step of the governors.
    fn step(&mut self) {
        self.line.turn(self.shard.values().map(|(id, guard)| (*id, guard)));
        self.now = self.now.after(STEP);
        self.guards.lock().step(self.now);
    }

    fn call(&self, dsp: &str, end: CallHealth) -> Result<(), GuardRefusal> {
        let mut guard = self.shard[dsp].1.borrow_mut();
        let (permit, trial) = guard.acquire()?;
        guard.report_outcome(trial, end);
        guard.release(permit);
        Ok(())
    }

    fn status(&self, dsp: &str) -> GuardStatus {
        self.guards.status(self.shard[dsp].0).expect("it is governed")
    }
}

#[test]
fn a_reload_leaves_alone_how_things_stand_with_those_that_stay() {
    let limited = "qps = 20\nqps_burst = 50";
    let before = [("limited", limited), ("failing", ""), ("paused", ""), ("goes", "")];
    let mut bench = Bench::new(&before);
    assert!(bench.all.pause("paused", true));
    (0..30).for_each(|_| bench.step());
    for _ in 0..7 {
        assert_eq!(bench.call("limited", CallHealth::Good), Ok(()));
        assert_eq!(bench.call("failing", CallHealth::Bad), Ok(()));
    }
    (0..3).for_each(|_| bench.step());
    let of = |bench: &Bench| ["limited", "failing", "paused"].map(|dsp| bench.status(dsp));
    let stood = of(&bench);
    let [at_limit, failing, paused] = stood;
    assert!(at_limit.level.is_some_and(|level| 0 < level && level < 50), "{at_limit:?}");
    assert!(0 < at_limit.outstanding && at_limit.good == 7, "{at_limit:?}");
    assert!(matches!(failing.state, BreakerState::Throttled { .. }), "{failing:?}");
    assert_eq!(paused.state, BreakerState::Paused);
    // They move in the file, among others, one with an old id.
    let after =
        [("new", limited), ("paused", ""), ("limited", limited), ("failing", ""), ("goes", "")];
    bench.reload(&after[..4]);
    assert_eq!(of(&bench), stood);
    bench.reload(&after);
    assert_eq!(of(&bench), stood);
    // Changing one limit keeps the rest.
    let other = "in_flight_max = 3";
    bench.reload(&[("limited", limited), ("failing", other), ("paused", other)]);
    assert_eq!(of(&bench), stood);
    // Shards' reports still count.
    bench.step();
    assert_eq!(bench.call("paused", CallHealth::Good), Err(GuardRefusal::Paused));
    assert_eq!(bench.call("limited", CallHealth::Good), Ok(()));
    while bench.call("failing", CallHealth::Good) != Err(GuardRefusal::Breaker) {}
    (0..2).for_each(|_| bench.step());
    assert_eq!(bench.status("limited").good, 8);
}

/// Building many governors must not delay grants.
#[test]
fn governors_are_built_while_others_step() {
    let (guards, _lines) = Guards::new(2);
    let stepping = guards.lock();
    let (added, hears) = mpsc::channel();
    let builder = guards.clone();
    let adding = std::thread::spawn(move || {
        let (id, first) = builder.add(GuardLimits::NONE, false);
        added.send((id, first.len())).expect("the test waits for it");
    });
    let began = Instant::now();
    while guards.0.built.load(Ordering::Relaxed) == 0 {
        assert!(began.elapsed() < PATIENCE, "waited in vain until it is built");
        std::thread::yield_now();
    }
    assert!(hears.try_recv().is_err(), "it is put in when the step is over");
    drop(stepping);
    let (id, grants) = hears.recv_timeout(PATIENCE).expect("it is put in");
    assert_eq!(
        (grants, guards.status(id).map(|status| status.state)),
        (2, Some(BreakerState::Closed))
    );
    adding.join().expect("it does not panic");
    guards.remove(id);
    assert_eq!(guards.status(id), None);
}

/// Blocks answers of an admin listener until the test opens it.
#[derive(Clone, Debug, Default)]
struct Gate(Arc<(Mutex<(usize, bool)>, std::sync::Condvar)>);

impl Gate {
    fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut held = state.lock().unwrap();
        held.0 += 1;
        drop(changed.wait_timeout_while(held, PATIENCE, |(_, open)| !*open).unwrap());
    }

    fn held(&self) -> usize {
        self.0.0.lock().unwrap().0
    }

    fn open(&self) {
        self.0.0.lock().unwrap().1 = true;
        self.0.1.notify_all();
    }
}

/// Sends a request without waiting for the answer.
fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    stream
}

/// The thread that renews grants also answers operators, whose requests must not delay it.
#[test]
fn rights_are_renewed_while_answers_to_operators_block() {
    let (control, shutdown) = (Control::start().unwrap(), Shutdown::new(PATIENCE));
    let gate = Gate::default();
    let routes = vec![Route {
        method: Method::Get,
        path: "/v1/slow",
        answer: |gate: &Gate, _| {
            gate.pass();
            Ok(Reply::nothing())
        },
        operation: Operation::new("slow", "slow", "Takes its time.").nothing("Done."),
    }];
    let mut exposition = Exposition::default();
    let page_gate = gate.clone();
    exposition.add(move |_| {
        page_gate.pass();
        Ok(())
    });
    let options = "listen = '127.0.0.1:0'";
    let options = runtime::config::parse("admin.toml", options, AdminOptions::read).unwrap();
    let listener = listen(options.listen).unwrap();
    let address = listener.local_addr().unwrap();
    let pages = Pages {
        exposition,
        readiness: Readiness::default(),
        shutdown: shutdown.clone(),
        apis: vec![Api::new(gate.clone(), routes)],
    };
    let admin = Admin::start(&options, listener, pages, &control).unwrap();
    let (guards, mut lines) = Guards::new(1);
    let (id, _) = guards.add(GuardLimits::NONE, false);
    let renewal = guards.start(&control, &shutdown);
    // More than are answered at once, and a page of metrics.
    let mut asked: Vec<_> = (0..8).map(|_| ask(address, "/v1/slow")).collect();
    asked.push(ask(address, "/metrics"));
    let began = Instant::now();
    let wait_until = |what: &str, holds: &mut dyn FnMut() -> bool| {
        while !holds() {
            assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait_until("four answers and the page block", &mut || gate.held() == 5);
    while lines[0].grants.pop().is_ok() {}
    let mut renewed = 0;
    wait_until("rights are renewed again and again", &mut || {
        let granted = lines[0].grants.pop();
        renewed += usize::from(granted.is_ok_and(|grants| grants.iter().any(|it| it.0 == id)));
        renewed == 3
    });
    let mut live = String::new();
    ask(address, "/health/live").read_to_string(&mut live).unwrap();
    assert!(live.ends_with("live\n"), "{live}");
    assert_eq!(gate.held(), 5, "none of them has gone on");
    gate.open();
    for mut stream in asked {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    }
    renewal.stop();
    admin.stop();
}
