//! Lists of groups.

use lease_broker_store::{FoundGroups, GroupSearch, GroupState};

use super::definition::StoredKey;
use super::items::page_size;
use super::{Operator, page_token};
use crate::broker::error::Error;

/// The maximum number of groups that a page looks at.
const MAX_EXAMINED: usize = 1_000;

/// A page of groups.
#[derive(Clone, Debug)]
pub struct GroupPage {
    /// The groups.
    pub found: FoundGroups,
    /// The token of the next page. Empty: there is none.
    pub next_page_token: String,
    /// True: the page ended because of the groups that it may look at.
    pub is_partial: bool,
}

impl Operator {
    /// Lists a page of groups. `page_size`: the number of groups on it. 0: the default. `token`: empty for the first page.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`], [`Error::InvalidField`] (`queue` if it has no groups, `page_size`, `page_token`),
    /// [`Error::LimitExceeded`] (`page_size`), and those of the store.
    pub async fn list_groups(
        &self,
        queue: &str,
        state: Option<GroupState>,
        size: i32,
        token: &str,
    ) -> Result<GroupPage, Error> {
        let (index, spec) = self.queue(queue)?;
        if spec.groups.is_none() {
            return Err(Error::invalid("queue", "has no groups"));
        }
        let limit = page_size(size)?;
        let identity = format!("{:?}", ("groups", queue, state));
        let after = page_token::read(&identity, token, |group: StoredKey| {
            let parse = |text: &str| self.inspect.parse_group(index, text);
            group.read(parse).ok()
        })?;
        let search = GroupSearch {
            after,
            state,
            limit,
            max_examined: MAX_EXAMINED,
        };
        let found = self.inspect.find_groups(index, search).await?;
        let end = found.end.as_ref();
        let next = end.map(|end| page_token::write(&identity, &StoredKey::new(end)));
        Ok(GroupPage {
            next_page_token: next.unwrap_or_default(),
            is_partial: end.is_some() && found.groups.len() < limit,
            found,
        })
    }
}
