//! The states of items: a badge, and the links between the lists of each state.

use lease_broker_proto::ItemState;
use maud::{Markup, html};

use crate::grpc::Words as _;

/// Returns the name of a state with its colour.
pub(super) fn state_badge(state: ItemState) -> Markup {
    let name = state.word();
    html! { strong class={ "badge dot " (name) } { (name) } }
}

/// Returns links to the lists of items in each state. `link`: the path of the queue.
pub(super) fn state_links(link: &str, shown: ItemState) -> Markup {
    html! {
        nav.tabs aria-label="States" {
            @for (state, name) in ItemState::WORDS {
                a class={ "dot " (name) } href={ (link) "/items?state=" (name) } aria-current=[(*state == shown).then_some("true")] { (name) }
            }
        }
    }
}
