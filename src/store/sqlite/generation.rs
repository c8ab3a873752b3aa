//! The generation of the file: a number that each announcement of a broker raises. If it falls, the file went back in time.
//!
//! The number is compared in two places. SQLite shows the restored number if a program restores an older state through SQLite. It
//! does not if a program copies an older file over the open one, because it then goes on with the pages in its log and its cache, and
//! mixes both states. So the store also reads the number in the bytes of the file. They change only when the log is copied into the
//! file, and then never to an older state.

use std::cell::Cell;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lease_broker_sql::sqlite::EPOCH;
use rusqlite::{Connection, OptionalExtension as _};

use super::held_file::HeldFile;
use crate::StoreError;
use crate::epoch::went_back;
use crate::template::plain;

/// The number of times that bytes are read before they count. SQLite can be about to write them.
const READS: usize = 3;
const PAUSE: Duration = Duration::from_millis(2);

/// Raises the generation, in the present transaction, and returns it. `known`: the highest that was committed, as this process
/// knows.
///
/// # Errors
/// [`StoreError::Io`] if the file has a smaller number than `known`.
pub(super) fn raise(connection: &Connection, known: &AtomicU64) -> Result<u64, StoreError> {
    let read = plain(EPOCH, "read_generation");
    let stored: [u8; 8] = connection
        .prepare_cached(&read)?
        .query_row([], |row| row.get(1))?;
    let (stored, known) = (u64::from_be_bytes(stored), known.load(Ordering::Relaxed));
    if stored < known {
        return Err(went_back("the database file", known, stored));
    }
    let next = stored.saturating_add(1);
    connection
        .prepare_cached(&plain(EPOCH, "write_generation"))?
        .execute([next.to_be_bytes()])?;
    Ok(next)
}

/// The generation in the bytes of an open file.
pub(super) struct FileGeneration {
    /// `None`: the database is in memory.
    file: Option<HeldFile>,
    place: Cell<Option<Place>>,
    /// The highest generation that was read. `None`: the bytes have not contained one since the place is known.
    highest: Cell<Option<u64>>,
}

/// The page that has the number, and the bytes before the number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    page: u64,
    page_size: u64,
    mark: [u8; 16],
}

impl FileGeneration {
    pub(super) fn new(connection: &Connection) -> Self {
        let path = connection.path().filter(|path| !path.is_empty());
        Self {
            file: path.and_then(|path| HeldFile::open(Path::new(path)).ok()),
            place: Cell::new(None),
            highest: Cell::new(None),
        }
    }

    /// Checks that the bytes of the file have not gone back in time.
    ///
    /// # Errors
    /// [`StoreError::Io`] if they have.
    pub(super) fn check(&self, connection: &Connection) -> Result<(), StoreError> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let Some(mut place) = self
            .place
            .get()
            .map_or_else(|| Place::find(connection), |place| Ok(Some(place)))?
        else {
            return Ok(());
        };
        self.place.set(Some(place));
        let mut found = place.read(file);
        for _ in 0..READS {
            if found >= self.highest.get() {
                self.highest.set(found);
                return Ok(());
            }
            std::thread::sleep(PAUSE);
            let present = Place::find(connection)?;
            if let Some(moved) = present.filter(|present| present.is_moved(&place)) {
                place = moved;
                self.place.set(present);
                self.highest.set(None);
            }
            found = place.read(file);
        }
        let known = self.highest.get().unwrap_or_default();
        Err(went_back(
            "the database file",
            known,
            found.unwrap_or_default(),
        ))
    }
}

impl Place {
    fn find(connection: &Connection) -> Result<Option<Self>, StoreError> {
        let page: Option<i64> = connection
            .query_row(&plain(EPOCH, "find_generation"), [], |row| row.get(0))
            .optional()?;
        let Some(page) = page.and_then(|page| u64::try_from(page - 1).ok()) else {
            return Ok(None);
        };
        let page_size: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let mark = connection.query_row(&plain(EPOCH, "read_generation"), [], |row| row.get(0))?;
        Ok(Some(Self {
            page,
            page_size: page_size.unsigned_abs(),
            mark,
        }))
    }

    /// Returns whether the page is another one than before, as VACUUM can make it.
    fn is_moved(&self, before: &Self) -> bool {
        self.mark == before.mark && self.page != before.page
    }

    /// Returns the highest generation in the page. The page can also have an older one, in bytes that are not used any more. `None`:
    /// the page has none, or the file is shorter.
    fn read(&self, file: &HeldFile) -> Option<u64> {
        let mut page = vec![0; usize::try_from(self.page_size).ok()?];
        file.read_exact_at(&mut page, self.page * self.page_size)
            .ok()?;
        let numbers = page.windows(24).filter_map(|bytes| {
            let number = bytes.strip_prefix(&self.mark)?;
            number.try_into().ok().map(u64::from_be_bytes)
        });
        numbers.max()
    }
}
