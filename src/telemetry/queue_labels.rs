//! The label of each queue, and which instruments have it.

use std::ops::Range;
use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry_sdk::metrics::{Instrument as SdkInstrument, Stream};

use super::instruments::{ALL, Instrument, Series};
use crate::config::PerQueue;
use crate::span::attribute;

/// The number of queues up to which `telemetry.per_queue = "auto"` means `"full"`. A queue has about 250 series then, so that
/// a scrape has at most about 50,000.
const MAX_FULL_QUEUES: usize = 200;

/// The labels of all queues, in the order of the configuration.
#[derive(Clone, Debug)]
pub(super) struct QueueLabels {
    labels: Arc<[KeyValue]>,
    is_full: bool,
}

/// The queues whose values an instrument adds up, and the labels of its series for them.
pub(super) struct Group {
    pub(super) queues: Range<usize>,
    pub(super) series: Vec<Vec<KeyValue>>,
}

impl QueueLabels {
    /// Creates the labels, and logs what is left out.
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>, per_queue: PerQueue) -> Self {
        let labels: Arc<[KeyValue]> = names
            // Shared text, because the SDK copies each label at each collection.
            .map(|name| KeyValue::new(attribute::QUEUE_NAME, Arc::<str>::from(name)))
            .collect();
        let is_full = match per_queue {
            PerQueue::Auto => labels.len() <= MAX_FULL_QUEUES,
            PerQueue::Full => true,
            PerQueue::Essential => false,
        };
        let this = Self { labels, is_full };
        if !is_full && per_queue == PerQueue::Auto {
            this.warn();
        }
        this
    }

    fn warn(&self) {
        let without_queue: Vec<&str> = ALL
            .iter()
            .filter(|instrument| matches!(instrument.series, Series::QueueIfFull(_)))
            .map(|instrument| instrument.name)
            .collect();
        tracing::warn!(
            queues = self.labels.len(),
            most = MAX_FULL_QUEUES,
            metrics = without_queue.join(" "),
            "these metrics do not tell queues apart, because there are many: set telemetry.per_queue to \"full\" or \"essential\""
        );
    }

    /// Returns the number of queues.
    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns the label of each queue.
    pub(super) fn iter(&self) -> impl Iterator<Item = &KeyValue> {
        self.labels.iter()
    }

    /// Returns true if the series of an instrument have the label of the queue.
    pub(super) fn are_on(&self, instrument: Instrument) -> bool {
        match instrument.series {
            Series::Process => false,
            Series::Queue(_) => true,
            Series::QueueIfFull(_) => self.is_full,
        }
    }

    /// Returns the groups of queues that an instrument tells apart. `series`: its labels besides the queue.
    pub(super) fn groups(&self, instrument: Instrument, series: &[Vec<KeyValue>]) -> Vec<Group> {
        if !self.are_on(instrument) {
            return vec![Group {
                queues: 0..self.len(),
                series: series.to_vec(),
            }];
        }
        let group = |(index, queue): (usize, &KeyValue)| Group {
            queues: index..index + 1,
            series: series.iter().map(|labels| sorted(labels, queue)).collect(),
        };
        self.labels.iter().enumerate().map(group).collect()
    }

    /// Returns the view of an instrument about queues: the SDK keeps all its series, and one for what nobody expects. Without
    /// it, the SDK keeps 2,000 and adds up the others.
    pub(super) fn view(&self) -> impl Fn(&SdkInstrument) -> Option<Stream> + Send + Sync + 'static {
        let this = self.clone();
        move |declared| {
            let instrument = ALL.iter().find(|known| known.name == declared.name())?;
            let (Series::Queue(series) | Series::QueueIfFull(series)) = instrument.series else {
                return None;
            };
            let groups = if this.are_on(*instrument) {
                this.len()
            } else {
                1
            };
            let limit = groups.saturating_mul(series).saturating_add(1);
            Stream::builder().with_cardinality_limit(limit).build().ok()
        }
    }
}

/// Returns the labels and the label of a queue in the order of their names, in which the SDK finds them at once.
fn sorted(labels: &[KeyValue], queue: &KeyValue) -> Vec<KeyValue> {
    let mut labels = labels.to_vec();
    labels.push(queue.clone());
    labels.sort_by(|left, right| left.key.cmp(&right.key));
    labels
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use lease_broker_store::{QueueIndex, StoreError};
    use opentelemetry::metrics::MeterProvider as _;
    use opentelemetry_sdk::metrics::SdkMeterProvider;
    use prometheus::{Registry, TextEncoder};

    use super::*;
    use crate::broker::{LeaseEnd, Operation};
    use crate::config::StoreKind;
    use crate::telemetry::{lease_durations, operation_durations};

    const QUEUES: usize = 2_000;
    /// The others have neither groups nor limits.
    const QUEUES_WITH_TURNS: usize = 1_000;

    /// Returns the text of the histograms of 2,000 queues.
    fn scrape(per_queue: PerQueue) -> String {
        let names: Vec<String> = (0..QUEUES).map(|index| format!("q{index}")).collect();
        let labels = QueueLabels::new(names.iter().map(String::as_str), per_queue);
        let registry = Registry::new();
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .build()
            .expect("an exporter");
        let provider = SdkMeterProvider::builder()
            .with_reader(exporter)
            .with_view(labels.view())
            .build();
        let meter = provider.meter("test");
        let leases = lease_durations::observer(&meter, &labels);
        let operations = operation_durations::observer(&meter, StoreKind::Sqlite, &labels);
        for index in 0..QUEUES {
            let (queue, second) = (QueueIndex(index), Duration::from_secs(1));
            leases.held(queue, LeaseEnd::Completed, second);
            if index < QUEUES_WITH_TURNS {
                leases.waited_for_turn(queue, second);
            }
            for error in [None, Some(&StoreError::Bug(String::new()))] {
                operations(queue, Operation::Claim, second, error);
            }
        }
        let families = registry.gather();
        TextEncoder::new()
            .encode_to_string(&families)
            .expect("text")
    }

    #[test]
    fn histograms_of_all_queues_are_shown() {
        let text = scrape(PerQueue::Full);
        assert!(!text.contains("otel_metric_overflow"));
        for name in [
            "lease_broker_lease_held_duration_seconds_count{",
            "db_client_operation_duration_seconds_count{",
        ] {
            let lines = text.lines().filter(|line| line.starts_with(name));
            let queues = lines.filter_map(|line| {
                line.split_once("lease_broker_queue_name=\"")?
                    .1
                    .split('"')
                    .next()
            });
            let queues: HashSet<&str> = queues.collect();
            assert_eq!(queues.len(), QUEUES, "{name}");
        }
    }

    #[test]
    fn essential_histograms_add_up_the_queues() {
        for per_queue in [PerQueue::Essential, PerQueue::Auto] {
            let text = scrape(per_queue);
            let held = "lease_broker_lease_held_duration_seconds_count{lease_broker_lease_outcome=\"completed\"";
            let mut lines = text.lines().filter(|line| line.starts_with(held));
            assert!(lines.any(|line| line.ends_with(" 2000")), "{text}");
            // The alert about turns needs the queue.
            let mut others = text
                .lines()
                .filter(|line| !line.contains("claim_turn_wait"));
            assert!(!others.any(|line| line.contains("queue_name=\"")), "{text}");
            let turns = "lease_broker_claim_turn_wait_duration_seconds_count{";
            let turns = text.lines().filter(|line| line.starts_with(turns));
            assert_eq!(turns.count(), QUEUES_WITH_TURNS);
        }
    }

    #[test]
    fn every_queue_has_the_label_in_a_small_installation() {
        let labels = QueueLabels::new(["a", "b"].into_iter(), PerQueue::Auto);
        for instrument in ALL {
            let is_about_queues = instrument.series != Series::Process;
            assert_eq!(
                labels.are_on(*instrument),
                is_about_queues,
                "{instrument:?}"
            );
        }
    }
}
