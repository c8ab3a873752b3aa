//! The sessions of viewers. They are in the memory of the process only.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// The name of the cookie that has the id of a session.
pub(super) const COOKIE: &str = "lease_broker_session";
/// The longest session.
const SESSION: Duration = Duration::from_secs(12 * 3_600);
/// The maximum number of sessions. A further login ends the oldest one.
const MAX_SESSIONS: usize = 1_000;

/// The sessions of all viewers.
pub struct Sessions {
    sessions: Mutex<HashMap<String, Session>>,
    /// The token of forms where nobody logs in.
    pub(super) open_form: String,
}

/// A session. It keeps the token of its login, so that it ends when the identity goes.
struct Session {
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
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session with a token that was verified. Returns its id.
    pub(super) fn begin(&self, token: &[u8]) -> String {
        let mut sessions = self.lock();
        let now = Instant::now();
        sessions.retain(|_, session| session.end > now);
        if sessions.len() >= MAX_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.end);
            if let Some(id) = oldest.map(|(id, _)| id.clone()) {
                sessions.remove(&id);
            }
        }
        let id = random();
        let session = Session {
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
        self.lock().remove(id);
    }

    /// Returns the token and the form token of a session.
    pub(super) fn find(&self, id: &str) -> Option<(Vec<u8>, String)> {
        let sessions = self.lock();
        let session = sessions
            .get(id)
            .filter(|session| session.end > Instant::now())?;
        Some((session.token.clone(), session.form.clone()))
    }
}
