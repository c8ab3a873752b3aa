//! What the responder answers: rules, of which the latest that fits a statement holds.

use std::collections::VecDeque;

use tokio::sync::watch;

use super::request::Request;
use super::tokens::Tokens;

/// What becomes of one statement.
#[derive(Clone)]
pub(crate) enum Reply {
    /// The whole answer.
    Answer(Tokens),
    /// The whole answer, and then the connection is closed.
    AnswerAndClose(Tokens),
    /// So much of the answer, and then the connection is closed.
    Cut(Tokens),
    /// So much of the answer, and then nothing.
    Stall(Tokens),
    /// The whole answer, once the gate is open.
    After(Gate, Tokens),
    /// These packets for ever, without an end.
    Forever(Tokens),
}

/// Keeps answers back until it is opened.
#[derive(Clone)]
pub(crate) struct Gate(watch::Sender<bool>);

impl Gate {
    pub(crate) fn closed() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    pub(super) async fn pass(&self) {
        let mut open = self.0.subscribe();
        open.wait_for(|open| *open).await.expect("the gate is held");
    }
}

/// How the statements that contain all the fragments are answered.
struct Rule {
    fragments: Vec<String>,
    replies: VecDeque<Reply>,
    /// After those.
    then: Option<Reply>,
}

/// The rules, over what answers all the rest.
pub(super) struct Script {
    rules: Vec<Rule>,
    otherwise: fn(&Request) -> Tokens,
}

impl Script {
    pub(super) fn new(otherwise: fn(&Request) -> Tokens) -> Self {
        Self {
            rules: Vec::new(),
            otherwise,
        }
    }

    pub(super) fn add(&mut self, fragments: &[&str], replies: Vec<Reply>, then: Option<Reply>) {
        self.rules.push(Rule {
            fragments: fragments.iter().map(|text| (*text).to_owned()).collect(),
            replies: replies.into(),
            then,
        });
    }

    pub(super) fn reply(&mut self, request: &Request) -> Reply {
        for rule in self.rules.iter_mut().rev() {
            let fragments: Vec<&str> = rule.fragments.iter().map(String::as_str).collect();
            if !request.has(&fragments) {
                continue;
            }
            if let Some(reply) = rule.replies.pop_front().or_else(|| rule.then.clone()) {
                return reply;
            }
        }
        Reply::Answer((self.otherwise)(request))
    }
}
