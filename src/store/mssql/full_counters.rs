//! Ready items whose fencing token or number of attempts has the largest number of its type. Only other programs write such
//! rows. A claim cannot lease them, and fails. They become dead, and the claim runs again.

use super::decode;
use super::operations::MssqlOperations;
use super::queue_statements::QueueStatements;
use crate::{ClaimCall, MAX_PASSED_OVER, StoreError};

impl MssqlOperations {
    /// Makes those items dead that the claims could have picked. Returns their number.
    pub(super) async fn set_full_aside(
        &self,
        queue: &QueueStatements,
        calls: &[ClaimCall],
    ) -> Result<usize, StoreError> {
        let wanted: usize = calls.iter().map(|call| call.max_items).sum();
        let count = i32::try_from(wanted + MAX_PASSED_OVER).unwrap_or(i32::MAX);
        let sql = &queue.sql.set_full_aside;
        let results = self.query_idempotent(sql, &[&count]).await?;
        let items = decode::integer(decode::single_row(&results, 0)?, 0)?;
        Ok(usize::try_from(items).unwrap_or_default())
    }
}
