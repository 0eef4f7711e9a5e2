//! The acceptor when the process has no file descriptors left. In a process of its own, for
//! the limit holds for all of it.

use std::fs::File;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use faults::process::isolated;
use runtime::listen::listen;
use runtime::shards::{Shards, ShardsOptions};
use runtime::shutdown::Shutdown;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn accepting_survives_the_want_of_descriptors() {
    isolated(|| {
        let shutdown = Shutdown::new(Duration::from_secs(30));
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let options = ShardsOptions { connections_max: 100, ..ShardsOptions::default() };
        let shards = Shards::start(&options, vec![listener], &shutdown, |mut shard| async move {
            while let Some(accepted) = shard.accept().await {
                drop(accepted);
            }
        })
        .unwrap();
        let metrics = shards.metrics();

        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum }).unwrap();
        let mut hoard: Vec<_> = (0..64).map_while(|_| File::open("/dev/null").ok()).collect();
        assert!(hoard.len() < 64);
        // One descriptor for the client leaves none for the server's side of the connection.
        hoard.pop();
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let start = Instant::now();
        while metrics.accept_failures() == 0 {
            assert!(start.elapsed() < Duration::from_secs(30), "accepting never failed");
            std::thread::yield_now();
        }
        assert_eq!(metrics.accepted(), 0);

        // The connection was not lost: it waited in the kernel.
        drop(hoard);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        assert_eq!(metrics.accepted(), 1);
        shutdown.begin();
        shards.join().unwrap();
    });
}
