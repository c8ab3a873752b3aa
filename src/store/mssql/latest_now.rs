//! The latest time that the server's clock can show, as a parameter of a batch.

use tiberius::{ColumnData, ToSql};

use crate::LatestTime;

/// The last millisecond of the year 9999, which is the last time of the server.
const MAX_TIME: i64 = 253_402_300_799_999;

/// A parameter with the latest time of the clock at the moment when the batch is sent. The wait for a connection is no step.
pub(super) struct LatestNow(pub(super) Option<LatestTime>);

/// The reaper's form of the parameter: [`LatestNow`], or the answer that the clock was stepped forward.
pub(super) enum ReaperClock {
    Latest(Option<LatestTime>),
    Stepped,
}

impl ToSql for ReaperClock {
    fn to_sql(&self) -> ColumnData<'_> {
        match self {
            Self::Latest(latest) => latest_now(*latest),
            Self::Stepped => ColumnData::I64(Some(-1)),
        }
    }
}

impl ToSql for LatestNow {
    fn to_sql(&self) -> ColumnData<'_> {
        latest_now(self.0)
    }
}

fn latest_now<'a>(latest: Option<LatestTime>) -> ColumnData<'a> {
    let latest = latest.map(LatestTime::now);
    ColumnData::I64(latest.filter(|latest| (0..=MAX_TIME).contains(latest)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    #[test]
    fn latest_time_grows_until_it_is_sent() {
        let start = Instant::now();
        let parameter = LatestNow(Some(LatestTime::new(7, start)));
        while start.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        assert!(matches!(parameter.to_sql(), ColumnData::I64(Some(9..))));
        let unknown = LatestNow(Some(LatestTime::new(i64::MAX, start)));
        assert_eq!(unknown.to_sql(), ColumnData::I64(None));
    }
}
