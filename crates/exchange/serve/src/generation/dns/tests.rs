//! Names whose addresses change, and look-ups that fail.

use super::*;

/// Answers in turn, and repeats the last one.
struct Answers(Vec<Result<(Vec<IpAddr>, Duration), &'static str>>, mpsc::UnboundedSender<()>);

impl HostLookup for Answers {
    type Error = &'static str;

    async fn lookup(&mut self, host: &str) -> Result<(Vec<IpAddr>, Instant), &'static str> {
        assert_eq!(host, "dsp.example");
        let answer = if self.0.len() > 1 { self.0.remove(0) } else { self.0[0].clone() };
        self.1.send(()).expect("the test listens");
        answer.map(|(addresses, ttl)| (addresses, Instant::now() + ttl))
    }
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

#[test]
fn addresses_follow_the_name_and_outlive_failures() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::pause();
        let addresses = Addresses::default();
        let name = ResolvedName {
            host: "dsp.example".to_owned(),
            port: 443,
            addresses: addresses.clone(),
        };
        let (asked, mut questions) = mpsc::unbounded_channel();
        let hour = Duration::from_secs(3600);
        let answers = Answers(
            vec![
                Ok((vec![ip(1)], Duration::ZERO)),
                Err("SERVFAIL"),
                Ok((vec![ip(2), ip(3)], hour)),
            ],
            asked,
        );
        tokio::spawn(keep(answers, name.host.clone(), vec![name]));
        let mut after = Vec::new();
        for _ in 0..4 {
            let before = tokio::time::Instant::now();
            questions.recv().await.unwrap();
            let waited = before.elapsed().as_secs();
            tokio::task::yield_now().await;
            after
                .push((waited, addresses.current().iter().map(SocketAddr::ip).collect::<Vec<_>>()));
        }
        let want = [
            (0, vec![ip(1)]),
            (5, vec![ip(1)]), // A TTL of 0 counts as the least; the failure keeps the address.
            (5, vec![ip(2), ip(3)]),
            (300, vec![ip(2), ip(3)]), // An hour counts as the most.
        ];
        assert_eq!(after, want);
        assert_eq!(addresses.current()[0].port(), 443);
    });
}

#[test]
fn one_look_up_serves_all_ports_of_a_host() {
    let name = |host: &str, port| ResolvedName {
        host: host.to_owned(),
        port,
        addresses: Addresses::default(),
    };
    let hosts = by_host(vec![name("a", 1), name("b", 1), name("a", 2)]);
    assert_eq!((hosts["a"].len(), hosts["b"].len()), (2, 1));
}
