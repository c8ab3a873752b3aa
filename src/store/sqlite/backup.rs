//! Backups of the file, and restores.
//!
//! Both copy all pages of one committed state with SQLite's backup API, into a new file that gets its name at the end. So the name
//! never belongs to half a copy, and programs that use the source go on meanwhile.

use std::cell::RefCell;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lease_broker_model::queue::QueueSpec;
use lease_broker_sql::sqlite::EPOCH;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::companion::companion;
use super::connection::{in_file, open_copy};
use super::lock_holder::LockHolder;
use super::read_connection::ReadConnection;
use super::{epoch, migrations};
use crate::epoch::NewEpoch;
use crate::template::plain;
use crate::{OutageCause, StoreError};

/// The pause before another try if another program has locked the source.
const PAUSE: Duration = Duration::from_millis(5);
const MAX_TRIES: u32 = 2_000;

/// Copies the committed state of a database file into a new file, which no broker serves until it is restored.
///
/// # Errors
/// [`StoreError::Io`] if the target exists, a file cannot be read or written, or the source is damaged.
/// [`StoreError::Misconfigured`] if the source is not the database of a broker.
pub fn back_up(database: &Path, target: &Path) -> Result<(), StoreError> {
    refuse_existing(target)?;
    let write = |connection: &mut Connection| {
        copy(database, connection)?;
        if epoch::mark_backup(connection)? {
            return Ok(());
        }
        let database = database.display();
        Err(StoreError::Misconfigured(format!(
            "{database} has no table lease_broker_epoch, so no broker of this version has used it; there is nothing to back up"
        )))
    };
    let rights = Rights::of(database, false)?;
    write_file(target, write, rights.as_ref(), |copy| {
        name_new(copy, target)
    })
}

/// The report of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// When the backup was made, in milliseconds since 1970. `None`: another program made it.
    pub backup_time: Option<i64>,
    /// The epoch that the restored database begins.
    pub epoch: NewEpoch,
}

/// Replaces a database file by a copy of a backup, in which a new epoch begins. If it fails, the database has all
/// its data as before.
///
/// # Errors
/// [`StoreError::Io`] if a process has the database open, a file cannot be read or written, or the backup is damaged.
/// [`StoreError::Misconfigured`] if the backup is not the database of a broker.
/// [`StoreError::Misconfigured`] if the backup does not fit this version or the queues.
pub fn restore(
    database: &Path,
    backup: &Path,
    queues: &[QueueSpec],
) -> Result<Restored, StoreError> {
    // A link keeps its target.
    let target = fs::canonicalize(database).unwrap_or_else(|_| database.to_owned());
    refuse_open_file(&target)?;
    let mut restored = None;
    let write = |connection: &mut Connection| {
        copy(backup, connection)?;
        check_is_backup(backup, connection)?;
        migrations::migrate(connection)?;
        let backup_time = epoch::backup_time(connection)?;
        let transaction = connection.transaction()?;
        let epoch = epoch::begin(&transaction, queues, fence_of_replaced(&target))?;
        transaction.commit()?;
        restored = Some(Restored { backup_time, epoch });
        Ok(())
    };
    let rights = Rights::of(&target, true)?;
    write_file(&target, write, rights.as_ref(), |copy| {
        remove_log(&target)?;
        rename(copy, &target).map_err(|error| io_error(&target, &error))
    })?;
    restored.ok_or_else(|| StoreError::Bug("the backup was not restored".to_owned()))
}

/// Checks that a copy is the database of a broker. An empty file, as a failed copy leaves it, is a valid database without tables.
fn check_is_backup(backup: &Path, copy: &Connection) -> Result<(), StoreError> {
    let tables =
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name GLOB 'lease_broker_*'";
    let tables: i64 = copy.query_row(tables, [], |row| row.get(0))?;
    if tables > 0 {
        return Ok(());
    }
    Err(StoreError::Misconfigured(format!(
        "{}: not a backup: it has no table lease_broker_*, so no broker has used it; nothing was changed",
        backup.display()
    )))
}

/// Checks that no other process has the database open.
///
/// # Errors
/// [`StoreError::Io`] if one has.
pub fn refuse_open_file(database: &Path) -> Result<(), StoreError> {
    match LockHolder::of_open_file(database) {
        None => Ok(()),
        Some(holder) => {
            let stopped = if holder.is_stopped() {
                " and is stopped"
            } else {
                ""
            };
            Err(StoreError::Io(format!(
                "{}: {} has the file open{stopped}; end all brokers and other programs on it first",
                database.display(),
                holder.name()
            )))
        }
    }
}

fn refuse_existing(target: &Path) -> Result<(), StoreError> {
    // SQLite would apply the log or the journal of an earlier file to the backup.
    for suffix in ["", "-wal", "-journal"] {
        let path = PathBuf::from(companion(target, suffix));
        match path.try_exists() {
            Ok(false) => {}
            Ok(true) => {
                return Err(StoreError::Io(format!(
                    "{} exists already; name a new file",
                    path.display()
                )));
            }
            Err(error) => return Err(io_error(&path, &error)),
        }
    }
    Ok(())
}

/// Copies the committed state of a file.
fn copy(from: &Path, to: &mut Connection) -> Result<(), StoreError> {
    let target = RefCell::new(&mut *to);
    // If another program begins to use the file, all pages are copied again.
    let mut source = ReadConnection::open(from)?;
    let copied = source.read(|source| copy_pages(source, &mut target.borrow_mut()));
    copied.map_err(|error| {
        // Only the copy is written.
        let is_full = matches!(&error, StoreError::Unavailable(outage) if outage.cause == OutageCause::NoSpace);
        let written = to.path().filter(|_| is_full).map(Path::new);
        in_file(written.unwrap_or(from), error)
    })?;
    let problem: String = to.pragma_query_value(None, "integrity_check", |row| row.get(0))?;
    if problem == "ok" {
        return Ok(());
    }
    let from = from.display();
    Err(StoreError::Io(format!(
        "{from} is damaged ({problem}); use another backup, or save what is readable with `sqlite3 {from} .recover`"
    )))
}

fn copy_pages(from: &Connection, to: &mut Connection) -> Result<(), StoreError> {
    let backup = Backup::new(from, to)?;
    for _ in 0..MAX_TRIES {
        match backup.step(-1)? {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            _ => std::thread::sleep(PAUSE),
        }
    }
    Err(StoreError::outage(
        OutageCause::Busy,
        "another program has locked the file",
    ))
}

/// Writes a database file under a temporary name. Once it is complete, `give_name` gives it the name of the target. `rights`: those of
/// the file; `None`: only this user can read it.
///
/// The temporary name is random, because another process can write to the same target at the same time.
fn write_file(
    target: &Path,
    write: impl FnOnce(&mut Connection) -> Result<(), StoreError>,
    rights: Option<&Rights>,
    give_name: impl FnOnce(&Path) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let suffix = format!("-unfinished-{:08x}", rand::random::<u32>());
    let unfinished = PathBuf::from(companion(target, &suffix));
    let give = || rights.map_or(Ok(()), |rights| rights.give_to(&unfinished));
    let result = write_unfinished(&unfinished, write)
        .and_then(|()| give().map_err(|error| io_error(&unfinished, &error)))
        .and_then(|()| give_name(&unfinished));
    remove(&unfinished);
    result
}

/// Gives a copy the name of a file that does not exist. A rename would replace one that another process has made meanwhile.
fn name_new(copy: &Path, target: &Path) -> Result<(), StoreError> {
    let named = match fs::hard_link(copy, target) {
        Ok(()) => sync_folder(target),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return refuse_existing(target),
        // The file system has no links.
        Err(_) => {
            refuse_existing(target)?;
            rename(copy, target)
        }
    };
    named.map_err(|error| io_error(target, &error))
}

/// Removes the log and the journal of a database file that no program has open. SQLite would apply them to another file of the
/// same name.
fn remove_log(database: &Path) -> Result<(), StoreError> {
    refuse_open_file(database)?;
    fold_log(database);
    for suffix in ["-shm", "-wal", "-journal"] {
        let path = PathBuf::from(companion(database, suffix));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(io_error(&path, &error));
            }
            _ => {}
        }
    }
    sync_folder(database).map_err(|error| io_error(database, &error))
}

/// Writes the commits in the log of a database file into the file, so that it is complete without its log if it stays. A file that is
/// damaged or that does not exist is left as it is.
fn fold_log(database: &Path) {
    if database.exists()
        && let Ok(connection) = open_copy(database)
    {
        let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }
}

/// Returns the fence of the epoch in a database that is about to be replaced. 0: it cannot be read.
fn fence_of_replaced(database: &Path) -> i64 {
    let read = |connection: &Connection| epoch::read_fence(connection, &plain(EPOCH, "read_fence"));
    let fence = ReadConnection::open(database).and_then(|mut database| database.read(read));
    fence.unwrap_or_default()
}

fn write_unfinished(
    path: &Path,
    write: impl FnOnce(&mut Connection) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    remove(path);
    // The database has the secret that signs lease ids, so nobody else may read it meanwhile.
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600);
    options.open(path).map_err(|error| io_error(path, &error))?;
    let mut connection = open_copy(path)?;
    write(&mut connection)?;
    // Without a log, the file is complete. The first broker puts it into WAL mode again.
    connection.pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(()))?;
    connection.close().map_err(|(_, error)| error)?;
    let file = File::open(path).and_then(|file| file.sync_all());
    file.map_err(|error| io_error(path, &error))
}

/// Who may read and write a file.
struct Rights {
    permissions: Permissions,
    /// User and group. `None`: those of this process.
    owner: Option<(u32, u32)>,
}

impl Rights {
    /// Reads the rights of a file. `None`: it does not exist.
    fn of(path: &Path, with_owner: bool) -> Result<Option<Self>, StoreError> {
        match fs::metadata(path) {
            Ok(file) => Ok(Some(Self {
                permissions: file.permissions(),
                owner: with_owner.then(|| (file.uid(), file.gid())),
            })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error(path, &error)),
        }
    }

    fn give_to(&self, path: &Path) -> io::Result<()> {
        if let Some((user, group)) = self.owner {
            let present = fs::metadata(path)?;
            if (present.uid(), present.gid()) != (user, group) {
                chown(path, Some(user), Some(group))?;
            }
        }
        fs::set_permissions(path, self.permissions.clone())
    }
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync_folder(to)
}

/// Makes the names in the folder of a file durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Removes an unfinished file and its companions, if they exist.
fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let _ = fs::remove_file(companion(path, suffix));
    }
}

fn io_error(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io(format!("{}: {error}", path.display()))
}
