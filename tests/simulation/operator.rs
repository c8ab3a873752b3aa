//! The faults of a run, producers, and operators.

use std::sync::Arc;
use std::time::Duration;

use lease_broker::broker::{CallContext, CancelRequest};
use lease_broker_store::{LeaseRow, NewItem};
use lease_broker_value::Value;
use tokio::time::Instant;

use super::plan::Fault;
use super::run::{QUEUE, Site};
use super::store::REFUSED;

pub(super) async fn run(site: Arc<Site>, at: Duration, fault: Fault) {
    tokio::time::sleep(at).await;
    site.database.note(format!("{fault:?}"));
    match fault {
        Fault::Outage(duration) => {
            site.database.lock().out_until = Instant::now() + duration;
        }
        Fault::StepClock(millis) => site.database.lock().step_clock(millis),
        Fault::Insert(count) => {
            for _ in 0..count {
                site.database.lock().insert(LeaseRow::new());
            }
        }
        Fault::Enqueue(broker, count, is_refused) => {
            enqueue(&site, broker, count, is_refused).await;
        }
        Fault::Cancel(item) => cancel(&site, item).await,
        Fault::Stop(broker) => site.stop(broker).await,
        Fault::Kill(broker) => site.kill(broker),
    }
}

async fn enqueue(site: &Site, broker: usize, count: usize, is_refused: bool) {
    let broker = site.broker(broker);
    let mut items = vec![NewItem::default(); count];
    if let (true, Some(last)) = (is_refused, items.last_mut()) {
        last.columns = vec![(REFUSED.to_owned(), Value::Null)];
    }
    let context = CallContext::default();
    let call = broker.broker.enqueue(&context, QUEUE, items, None);
    match site.in_time("an enqueue", broker.answer(call)).await {
        Some(Ok(enqueued)) => {
            let mut database = site.database.lock();
            let is_right = !is_refused && enqueued.keys.len() == count;
            if !is_right {
                database.breaks(format!(
                    "{} items of {count} were added",
                    enqueued.keys.len()
                ));
            }
        }
        Some(Err(error)) => site.database.note(format!("enqueue: {error}")),
        None => {}
    }
}

async fn cancel(site: &Site, item: i64) {
    let broker = site.broker(0);
    let request = CancelRequest {
        queue: QUEUE.to_owned(),
        leases: vec![(item.to_string(), None)],
        delay: None,
        dead_letter: false,
        reason: String::new(),
    };
    let call = broker.broker.operator().cancel_leases(request, None);
    let _ = site.in_time("a cancellation", broker.answer(call)).await;
}
