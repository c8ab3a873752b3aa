//! Panics of calls. A panic is a bug of the broker. It ends the call that has met it, and no other call of the connection.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt as _;

/// Runs a step of a call. Returns `None`, and logs the bug, if it panics. What it has used must be dropped then.
pub(super) fn catch<T>(step: impl FnOnce() -> T) -> Option<T> {
    or_report(catch_unwind(AssertUnwindSafe(step)))
}

/// Does the same with a whole call.
pub(super) fn catch_call<F: Future>(call: F) -> impl Future<Output = Option<F::Output>> {
    AssertUnwindSafe(call).catch_unwind().map(or_report)
}

fn or_report<T>(result: std::thread::Result<T>) -> Option<T> {
    let report = |panicked: &Box<dyn Any + Send>| {
        let text = text_of(&**panicked);
        tracing::error!(text, "bug found: a call panicked; only this call has ended");
    };
    result.inspect_err(report).ok()
}

fn text_of(panicked: &(dyn Any + Send)) -> &str {
    let text = panicked.downcast_ref::<&str>().copied();
    let owned = || panicked.downcast_ref::<String>().map(String::as_str);
    text.or_else(owned).unwrap_or("no text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_is_caught_with_its_text() {
        assert_eq!(catch(|| 7), Some(7));
        assert_eq!(catch::<()>(|| panic!("a bug")), None);
        let formatted: Box<dyn Any + Send> = Box::new("a bug".to_owned());
        assert_eq!(text_of(&*formatted), "a bug");
    }
}
