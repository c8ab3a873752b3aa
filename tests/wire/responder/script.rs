//! The script of the server: rules that choose the reply to a statement. The newest rule that matches applies.

use std::collections::VecDeque;

use tokio::sync::watch;

use super::request::Request;
use super::tokens::{SilentFailure, Tokens};

/// The reply to one statement.
#[derive(Clone)]
pub(crate) enum Reply {
    /// The whole answer.
    Answer(Tokens),
    /// The whole answer, and then the connection is closed.
    AnswerAndClose(Tokens),
    /// The answer to a call whose last statement fails with this flag and without an error. Then the connection is closed.
    Silent(SilentFailure, Tokens),
    /// This part of the answer, and then the connection is closed.
    Cut(Tokens),
    /// This part of the answer. The connection stays open without more bytes.
    Stall(Tokens),
    /// The whole answer, once the gate is open.
    After(Gate, Tokens),
    /// These packets again and again, without an end.
    Forever(Tokens),
}

/// Holds answers back until it is opened.
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

/// The replies to statements that contain all fragments.
struct Rule {
    fragments: Vec<String>,
    replies: VecDeque<Reply>,
    /// The reply to each further statement. `None`: older rules apply.
    then: Option<Reply>,
}

/// The rules, and the answer to statements that no rule matches.
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
