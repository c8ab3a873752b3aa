//! Calls of `AdminService` in this process.

use tokio_util::task::AbortOnDropHandle;
use tonic::Status;

use crate::admin::state::AdminState;
use crate::grpc::{AdminApi, Caller};

/// Makes a call. It runs on the runtime of the broker, to which connections of the database belong. If the future is dropped, a call
/// that waits is withdrawn. Otherwise a change could be made long after its viewer has been told that it failed. One that has begun to
/// end leases goes on, because their ends are recorded.
///
/// # Errors
/// Those of the call. `UNAVAILABLE` while the broker starts.
pub(super) async fn make<T: Send + 'static, F>(
    state: &AdminState,
    caller: Caller,
    call: impl FnOnce(AdminApi, Caller) -> F + Send + 'static,
) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>> + Send + 'static,
{
    let broker = state.broker.get();
    let broker = broker.ok_or_else(|| Status::unavailable("the broker is starting"))?;
    let api = AdminApi::of_pages(broker.operator().clone());
    let running = AbortOnDropHandle::new(state.runtime.spawn(call(api, caller)));
    let answer = running.await;
    answer.unwrap_or_else(|_| Err(Status::internal("the call was ended")))
}
