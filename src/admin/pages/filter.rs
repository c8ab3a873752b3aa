//! The filter of a list, as the query of its URL and as a field of a form.
//!
//! A form has the filter as the text of a query too, because browsers change the line ends in the fields of forms, and keys and errors
//! may have some.

use std::time::{SystemTime, UNIX_EPOCH};

use lease_broker_proto::column_value::Kind;
use lease_broker_proto::{ColumnValue, ItemFilter, ItemState};
use maud::{Markup, html};
use prost_types::Timestamp;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tonic::Status;

use super::format;
use crate::grpc::Words as _;

/// The field of a form that has a filter, as a query.
const FIELD: &str = "filter";

/// The fields of a form or of a query, in their order. A name can come several times.
pub(super) type Fields = Vec<(String, String)>;

/// The filter of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) state: String,
    pub(super) owner: String,
    pub(super) error: String,
    pub(super) since: String,
    pub(super) before: String,
    pub(super) attempts: String,
    pub(super) column: String,
    pub(super) value: String,
    /// The keys of single items. If there are some, nothing else but the state counts.
    pub(super) keys: Vec<String>,
    /// The token of the page.
    pub(super) page: String,
}

impl Filter {
    /// Reads a filter from fields, also from those of queries that are fields. Others are ignored.
    pub(super) fn of(fields: &Fields) -> Self {
        let mut filter = Self::default();
        for (name, value) in fields {
            if name == FIELD {
                for (name, value) in form_urlencoded::parse(value.as_bytes()) {
                    filter.set(&name, &value);
                }
            } else {
                filter.set(name, value);
            }
        }
        filter
    }

    /// Returns the filter with a moment in place of each age. As an age it would be another moment at each request: the token of a page
    /// would not belong to it, and a change would concern other items than its question has counted.
    pub(super) fn with_moments(self) -> Self {
        let now = SystemTime::now();
        Self {
            since: without_age(&self.since, now),
            before: without_age(&self.before, now),
            ..self
        }
    }

    /// Returns the filter with this value of a field.
    pub(super) fn with(&self, name: &str, value: &str) -> Self {
        let mut filter = self.clone();
        filter.set(name, value);
        filter
    }

    fn set(&mut self, name: &str, value: &str) {
        let field = match name {
            "state" => &mut self.state,
            "owner" => &mut self.owner,
            "error" => &mut self.error,
            "since" => &mut self.since,
            "before" => &mut self.before,
            "attempts" => &mut self.attempts,
            "column" => &mut self.column,
            "value" => &mut self.value,
            "page" => &mut self.page,
            "key" => return self.keys.push(value.to_owned()),
            _ => return,
        };
        value.clone_into(field);
    }

    /// Returns whether the filter selects some items of a state only.
    pub(super) fn selects(&self) -> bool {
        self.fields().any(|(name, _)| name != "state")
    }

    /// Returns the state. The default is dead, also for the name of no state, which [`Self::to_proto`] refuses.
    pub(super) fn state(&self) -> ItemState {
        ItemState::of_word(&self.state).unwrap_or(ItemState::Dead)
    }

    /// Returns the filter of the API. It must have no ages: see [`Self::with_moments`].
    ///
    /// # Errors
    /// A status that names the field.
    pub(super) fn to_proto(&self) -> Result<ItemFilter, Status> {
        if !self.state.is_empty() && ItemState::of_word(&self.state).is_none() {
            let problem = format!("state: {:?} is not a state of an item", self.state);
            return Err(Status::invalid_argument(problem));
        }
        if !self.keys.is_empty() {
            return Ok(ItemFilter {
                keys: self.keys.clone(),
                ..ItemFilter::default()
            });
        }
        let mut filter = ItemFilter {
            owner: self.owner.clone(),
            error_contains: self.error.clone(),
            state_since: moment("since", &self.since)?,
            state_before: moment("until", &self.before)?,
            ..ItemFilter::default()
        };
        if !self.attempts.is_empty() {
            let invalid = |_| Status::invalid_argument("attempts: must be a number");
            filter.min_attempt = self.attempts.parse().map_err(invalid)?;
        }
        if self.column.is_empty() && !self.value.is_empty() {
            let problem = "column: choose the column that has the value";
            return Err(Status::invalid_argument(problem));
        }
        if !self.column.is_empty() {
            // The store converts the text to the type of the column. As a number, 0042 would fit the text 42.
            let text = Kind::StringValue(self.value.clone());
            let value = ColumnValue { kind: Some(text) };
            filter.columns.insert(self.column.clone(), value);
        }
        Ok(filter)
    }

    fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let fields = [
            ("state", &*self.state),
            ("owner", &self.owner),
            ("error", &self.error),
            ("since", &self.since),
            ("before", &self.before),
            ("attempts", &self.attempts),
            ("column", &self.column),
            ("value", &self.value),
        ];
        let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
        // An empty text can be a key.
        fields.chain(self.keys.iter().map(|key| ("key", &**key)))
    }

    /// Returns the query of the page with this token.
    pub(super) fn query(&self, page: &str) -> String {
        let page = (!page.is_empty()).then_some(("page", page));
        let parts = self.fields().chain(page);
        let parts: Vec<String> = parts
            .map(|(name, value)| format!("{name}={}", format::url(value)))
            .collect();
        parts.join("&")
    }

    /// Returns the field of a form that has this filter.
    pub(super) fn hidden_field(&self) -> Markup {
        html! { input type="hidden" name=(FIELD) value=(self.query("")); }
    }

    /// Returns the box that adds a key to the filter of a form.
    pub(super) fn key_box(key: &str, form: &str) -> Markup {
        let filter = Self {
            keys: vec![key.to_owned()],
            ..Self::default()
        };
        html! { input type="checkbox" name=(FIELD) value=(filter.query("")) form=(form) aria-label={ "Mark " (format::name(key)) }; }
    }

    /// Returns the filter as a sentence.
    pub(super) fn sentence(&self) -> String {
        const MOST: usize = 10;

        let mut parts = vec![format!("state {}", self.state().word())];
        if self.keys.len() > MOST {
            parts.push(format!("{} marked items", self.keys.len()));
            return parts.join(", ");
        }
        let fields = self.fields().filter(|(name, _)| *name != "state");
        parts.extend(fields.map(|(name, value)| format!("{name} {value}")));
        parts.join(", ")
    }
}

/// Returns the moment that was this age ago. Any other text stays as it is.
fn without_age(text: &str, now: SystemTime) -> String {
    let Ok(age) = humantime::parse_duration(text.trim()) else {
        return text.to_owned();
    };
    // No item is older than this.
    let moment = now.checked_sub(age).unwrap_or(UNIX_EPOCH).max(UNIX_EPOCH);
    humantime::format_rfc3339_millis(moment).to_string()
}

/// Reads a moment.
fn moment(field: &str, text: &str) -> Result<Option<Timestamp>, Status> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let problem = |_| {
        Status::invalid_argument(format!(
            "{field}: {text:?} is neither a time such as 2027-01-31T02:00:00Z nor an age such as 1h"
        ))
    };
    let moment = OffsetDateTime::parse(text, &Rfc3339).map_err(problem)?;
    Ok(Some(SystemTime::from(moment).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_comes_back_from_its_query() {
        let filter = Filter {
            state: "leased".to_owned(),
            error: "50 % & more".to_owned(),
            keys: vec!["1".to_owned(), "2".to_owned()],
            ..Filter::default()
        };
        assert_eq!(
            filter.query("t"),
            "state=leased&error=50%20%25%20%26%20more&key=1&key=2&page=t"
        );
        let fields = filter.fields();
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(Filter::of(&fields.collect()), filter);
        assert_eq!(filter.to_proto().expect("a filter").keys, ["1", "2"]);
    }

    #[test]
    fn filter_comes_back_from_the_fields_of_a_form() {
        let filter = Filter {
            state: "dead".to_owned(),
            error: "one\ntwo".to_owned(),
            keys: vec![String::new(), "a\nb&c".to_owned()],
            ..Filter::default()
        };
        let fields = vec![(FIELD.to_owned(), filter.query(""))];
        assert!(!fields[0].1.contains('\n'), "{fields:?}");
        assert_eq!(Filter::of(&fields), filter);
        // An empty key is one item, and not all items.
        assert_eq!(filter.to_proto().expect("a filter").keys, filter.keys);
    }

    /// Expects that a filter is refused with a message that begins like this.
    fn expect_refused(filter: &Filter, message: &str) {
        let refused = filter.to_proto().expect_err("refused");
        assert!(refused.message().starts_with(message), "{refused:?}");
    }

    #[test]
    fn unknown_state_is_refused() {
        let filter = Filter {
            state: "bogus".to_owned(),
            ..Filter::default()
        };
        expect_refused(&filter, "state: \"bogus\"");
    }

    #[test]
    fn value_without_its_column_is_refused() {
        let filter = Filter {
            value: "2".to_owned(),
            ..Filter::default()
        };
        expect_refused(&filter, "column: ");
    }

    #[test]
    fn value_like_a_number_is_sent_as_the_text() {
        let filter = Filter {
            column: "article".to_owned(),
            value: "0042".to_owned(),
            ..Filter::default()
        };
        let sent = filter.to_proto().expect("a filter").columns;
        let text = Some(Kind::StringValue("0042".to_owned()));
        assert_eq!(sent["article"].kind, text);
    }

    #[test]
    fn malformed_time_names_its_field() {
        let filter = Filter {
            since: "yesterday".to_owned(),
            ..Filter::default()
        };
        expect_refused(&filter, "since: ");
    }

    #[test]
    fn ages_become_moments() {
        let now = UNIX_EPOCH + std::time::Duration::from_millis(1_800_000_000_007);
        assert_eq!(without_age(" 1h ", now), "2027-01-15T07:00:00.007Z");
        assert_eq!(without_age("100y", now), "1970-01-01T00:00:00.000Z");
        for other in ["", "2027-01-31T02:00:00Z", "yesterday"] {
            assert_eq!(without_age(other, now), other);
        }
    }

    #[test]
    fn moment_can_have_an_offset() {
        let moment = |text| moment("since", text).expect("a moment");
        let offset = moment("2027-01-31T03:00:00+01:00");
        assert_eq!(offset, moment("2027-01-31T02:00:00Z"));
    }

    #[test]
    fn age_that_is_no_moment_yet_is_refused() {
        let filter = Filter {
            before: "1h".to_owned(),
            ..Filter::default()
        };
        expect_refused(&filter, "until: ");
        let query = filter.with_moments().query("");
        let fields = [(FIELD.to_owned(), query.clone())];
        let read = Filter::of(&fields.to_vec());
        assert_eq!(read.clone().with_moments().query(""), query);
        let proto = read.to_proto().expect("a filter");
        assert!(proto.state_before.is_some(), "{query}");
    }
}
