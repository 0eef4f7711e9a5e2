//! Tests of the order of closes and begins.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{advance, sleep_until};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_due_close_goes_before_auctions_that_begin() {
    let closes = Rc::new(PendingCloses::default());
    let order = Rc::new(RefCell::new(Vec::new()));
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let close_at = Instant::now() + Duration::from_millis(10);
            let (own, said) = (Rc::clone(&closes), Rc::clone(&order));
            let closing = tokio::task::spawn_local(async move {
                let close = own.add(close_at);
                sleep_until(close_at).await;
                drop(close);
                said.borrow_mut().push("closed");
            });
            yield_now().await;
            // Not due: nobody waits for it.
            closes.give_way().await;
            order.borrow_mut().push("begun");
            advance(Duration::from_millis(10)).await;
            closes.give_way().await;
            order.borrow_mut().push("begun");
            closing.await.unwrap();
        })
        .await;
    assert_eq!(*order.borrow(), ["begun", "closed", "begun"]);
    assert!(closes.closes.borrow().is_empty());
}
