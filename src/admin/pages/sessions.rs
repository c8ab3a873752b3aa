//! The sessions of viewers. They are in the memory of the process only.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// The longest session.
const SESSION: Duration = Duration::from_secs(12 * 3_600);
/// The maximum number of sessions. A further login ends the oldest one of the identity that has the most.
const MAX_SESSIONS: usize = 1_000;

/// The sessions of all viewers.
pub struct Sessions {
    sessions: Mutex<HashMap<String, Session>>,
    /// The token of forms where nobody logs in.
    pub(super) open_form: String,
}

/// A session. It keeps the token of its login, so that it ends when the identity goes.
struct Session {
    identity: String,
    token: Vec<u8>,
    form: String,
    end: Instant,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            sessions: Mutex::default(),
            open_form: random(),
        }
    }
}

/// Returns 244 random bits as text.
fn random() -> String {
    [Uuid::new_v4(), Uuid::new_v4()]
        .map(|id| HEXLOWER.encode(id.as_bytes()))
        .concat()
}

impl Sessions {
    /// Begins a session of an identity with a token that was verified. Returns its id.
    pub(super) fn begin(&self, identity: &str, token: &[u8]) -> String {
        let mut sessions = self.sessions.lock();
        let now = Instant::now();
        sessions.retain(|_, session| session.end > now);
        if sessions.len() >= MAX_SESSIONS {
            end_one(&mut sessions);
        }
        let id = random();
        let session = Session {
            identity: identity.to_owned(),
            token: token.to_vec(),
            form: random(),
            end: now + SESSION,
        };
        sessions.insert(id.clone(), session);
        id
    }

    /// Returns the token of the forms of an identity that has no session, because each of its requests has its credentials.
    /// Another identity does not get it.
    pub(super) fn form_of(&self, identity: &str) -> String {
        let mut hash = Sha256::new_with_prefix(&self.open_form);
        hash.update(identity);
        HEXLOWER.encode(&hash.finalize())
    }

    /// Ends a session.
    pub(super) fn end(&self, id: &str) {
        self.sessions.lock().remove(id);
    }

    /// Returns the token and the form token of a session.
    pub(super) fn find(&self, id: &str) -> Option<(Vec<u8>, String)> {
        let sessions = self.sessions.lock();
        let session = sessions
            .get(id)
            .filter(|session| session.end > Instant::now())?;
        Some((session.token.clone(), session.form.clone()))
    }
}

/// Ends the oldest session of the identity with the most sessions. An identity that logs in often ends only its own.
fn end_one(sessions: &mut HashMap<String, Session>) {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for session in sessions.values() {
        *numbers.entry(&session.identity).or_default() += 1;
    }
    let oldest = sessions
        .iter()
        .max_by_key(|(_, session)| (numbers[&*session.identity], Reverse(session.end)));
    if let Some(id) = oldest.map(|(id, _)| id.clone()) {
        sessions.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_with_many_sessions_ends_none_of_others() {
        let sessions = Sessions::default();
        let admin = sessions.begin("admin", b"a");
        let first = sessions.begin("observer", b"o");
        for _ in 0..2 * MAX_SESSIONS {
            sessions.begin("observer", b"o");
        }
        assert!(sessions.find(&admin).is_some());
        assert!(sessions.find(&first).is_none());
        assert_eq!(sessions.sessions.lock().len(), MAX_SESSIONS);
    }
}
