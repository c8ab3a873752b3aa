//! Answers of a server as TDS tokens (MS-TDS 2.2.7).

use uuid::Uuid;

const COLUMNS: u8 = 0x81;
const RETURN_STATUS: u8 = 0x79;
const ERROR: u8 = 0xAA;
const INFO: u8 = 0xAB;
const LOGIN_ACK: u8 = 0xAD;
const ROW: u8 = 0xD1;
const ENVIRONMENT: u8 = 0xE3;
const DONE: u8 = 0xFD;
const DONE_PROCEDURE: u8 = 0xFE;
const DONE_STATEMENT: u8 = 0xFF;

const MORE: u16 = 1;
const FAILED: u16 = 2;
const COUNTED: u16 = 0x10;
const ATTENTION: u16 = 0x20;
const SERVER_ERROR: u16 = 0x100;

/// The flag of the last token of a statement that failed, whose error the server does not tell.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SilentFailure {
    /// `DONE_ERROR`
    Statement,
    /// `DONE_SRVERROR`
    Server,
}

/// A value with the type of its column. `None` is NULL.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    TinyInt(Option<u8>),
    SmallInt(Option<i16>),
    Int(Option<i32>),
    BigInt(Option<i64>),
    Bit(Option<bool>),
    Text(Option<String>),
    /// A text as UTF-16 units, which need not be valid UTF-16.
    Units(Vec<u16>),
    Bytes(Option<Vec<u8>>),
    Guid(Option<Uuid>),
    /// A `datetime2(3)`, in milliseconds since 1970.
    Time(Option<i64>),
}

impl Cell {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }

    /// Returns NULL of the same type.
    pub(crate) fn null(&self) -> Self {
        match self {
            Self::TinyInt(_) => Self::TinyInt(None),
            Self::SmallInt(_) => Self::SmallInt(None),
            Self::Int(_) => Self::Int(None),
            Self::BigInt(_) => Self::BigInt(None),
            Self::Bit(_) => Self::Bit(None),
            Self::Text(_) | Self::Units(_) => Self::Text(None),
            Self::Bytes(_) => Self::Bytes(None),
            Self::Guid(_) => Self::Guid(None),
            Self::Time(_) => Self::Time(None),
        }
    }

    fn put_type(&self, out: &mut Vec<u8>) {
        match self {
            Self::TinyInt(_) => out.extend([0x26, 1]),
            Self::SmallInt(_) => out.extend([0x26, 2]),
            Self::Int(_) => out.extend([0x26, 4]),
            Self::BigInt(_) => out.extend([0x26, 8]),
            Self::Bit(_) => out.extend([0x68, 1]),
            // Up to 8,000 bytes, collation Latin1_General.
            Self::Text(_) | Self::Units(_) => {
                out.extend([0xE7, 0x40, 0x1F, 0x09, 0x04, 0xD0, 0x00, 0x34]);
            }
            Self::Bytes(_) => out.extend([0xA5, 0x40, 0x1F]),
            Self::Guid(_) => out.extend([0x24, 16]),
            Self::Time(_) => out.extend([0x2A, 3]),
        }
    }

    fn put_value(&self, out: &mut Vec<u8>) {
        let mut short = |bytes: Option<&[u8]>| {
            let bytes = bytes.unwrap_or_default();
            out.push(u8::try_from(bytes.len()).expect("a short value"));
            out.extend_from_slice(bytes);
        };
        match self {
            Self::TinyInt(int) => short(int.map(u8::to_le_bytes).as_ref().map(|int| &int[..])),
            Self::SmallInt(int) => short(int.map(i16::to_le_bytes).as_ref().map(|int| &int[..])),
            Self::Int(int) => short(int.map(i32::to_le_bytes).as_ref().map(|int| &int[..])),
            Self::BigInt(int) => short(int.map(i64::to_le_bytes).as_ref().map(|int| &int[..])),
            Self::Bit(bit) => short(bit.map(|bit| [u8::from(bit)]).as_ref().map(|bit| &bit[..])),
            Self::Guid(guid) => short(guid.map(|guid| guid.to_bytes_le()).as_ref().map(|g| &g[..])),
            Self::Time(time) => short(time.map(encode_time).as_ref().map(|time| &time[..])),
            Self::Text(text) => long(out, text.as_ref().map(|text| utf16(text)).as_deref()),
            Self::Units(units) => {
                let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
                long(out, Some(&bytes));
            }
            Self::Bytes(bytes) => long(out, bytes.as_deref()),
        }
    }
}

fn long(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    const NULL: u16 = 0xFFFF;

    let length = bytes.map(|bytes| u16::try_from(bytes.len()).expect("a value of a row"));
    out.extend(length.unwrap_or(NULL).to_le_bytes());
    out.extend_from_slice(bytes.unwrap_or_default());
}

/// Encodes a `datetime2(3)`: milliseconds of the day, and days since the year 1.
fn encode_time(millis: i64) -> [u8; 7] {
    const DAY: i64 = 86_400_000;
    const DAYS_TO_1970: i64 = 719_162;

    let of_day = millis.rem_euclid(DAY).to_le_bytes();
    let days = (millis.div_euclid(DAY) + DAYS_TO_1970).to_le_bytes();
    [
        of_day[0], of_day[1], of_day[2], of_day[3], days[0], days[1], days[2],
    ]
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn put_short_text(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.encode_utf16().count()).expect("a short text"));
    out.extend(utf16(text));
}

/// An answer without its last token, which [`Tokens::finished`] appends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens {
    bytes: Vec<u8>,
    failed: bool,
}

impl Tokens {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Appends a complete result set with these rows. There must be at least one row.
    pub(crate) fn rows(self, rows: &[Vec<Cell>]) -> Self {
        rows.iter()
            .fold(self.columns(&rows[0]), |tokens, row| tokens.row(row))
            .end_of_statement()
    }

    /// Appends the handle of a batch that was just prepared.
    pub(crate) fn handle(self, handle: i32) -> Self {
        let row = [Cell::Int(Some(handle))];
        let columns = self.columns_named(&row, "lb_h");
        columns.row(&row).end_of_statement()
    }

    /// Appends the tokens of another answer.
    pub(crate) fn then(mut self, next: &Self) -> Self {
        self.bytes.extend_from_slice(&next.bytes);
        self.failed |= next.failed;
        self
    }

    /// Appends the column descriptions of rows like this one.
    pub(crate) fn columns(self, like: &[Cell]) -> Self {
        // Column names start with `lb_`, as in the statements of the broker.
        self.columns_named(like, "lb_")
    }

    /// Appends the column descriptions of rows like this one. All columns have the same name.
    pub(crate) fn columns_named(mut self, like: &[Cell], name: &str) -> Self {
        self.bytes.push(COLUMNS);
        let count = u16::try_from(like.len()).expect("few columns");
        self.bytes.extend(count.to_le_bytes());
        for cell in like {
            // No user type, nullable.
            self.bytes.extend([0, 0, 0, 0, 1, 0]);
            cell.put_type(&mut self.bytes);
            put_short_text(&mut self.bytes, name);
        }
        self
    }

    pub(crate) fn row(mut self, row: &[Cell]) -> Self {
        self.bytes.push(ROW);
        for cell in row {
            cell.put_value(&mut self.bytes);
        }
        self
    }

    pub(crate) fn end_of_statement(self) -> Self {
        self.done(DONE_STATEMENT, MORE | COUNTED)
    }

    /// Appends an error of a class that ends the batch but not the connection.
    pub(crate) fn error(self, number: u32, message: &str) -> Self {
        self.error_of_class(14, number, message)
    }

    /// Appends an error of the given class (severity).
    pub(crate) fn error_of_class(self, class: u8, number: u32, message: &str) -> Self {
        Self {
            failed: true,
            ..self.message(ERROR, number, class, message)
        }
    }

    /// Appends an information message.
    pub(crate) fn info(self, number: u32, message: &str) -> Self {
        self.message(INFO, number, 0, message)
    }

    fn message(mut self, token: u8, number: u32, class: u8, message: &str) -> Self {
        let mut body = Vec::new();
        body.extend(number.to_le_bytes());
        body.extend([1, class]);
        let length = u16::try_from(message.encode_utf16().count()).expect("a message");
        body.extend(length.to_le_bytes());
        body.extend(utf16(message));
        put_short_text(&mut body, "responder");
        put_short_text(&mut body, "");
        body.extend(1_u32.to_le_bytes());
        self.put(token, &body);
        self
    }

    /// Appends the acknowledgement of a login.
    pub(super) fn login_ack(mut self) -> Self {
        // T-SQL, TDS 7.4.
        let mut body = vec![1, 0x74, 0, 0, 4];
        put_short_text(&mut body, "Microsoft SQL Server");
        body.extend([16, 0, 0, 0]);
        self.put(LOGIN_ACK, &body);
        self
    }

    /// Appends a redirect of the login to another server.
    pub(super) fn route(mut self, host: &str, port: u16) -> Self {
        let name = utf16(host);
        let mut target = vec![0];
        target.extend(port.to_le_bytes());
        let length = u16::try_from(name.len() / 2).expect("a host's name");
        target.extend(length.to_le_bytes());
        target.extend(name);
        let mut body = vec![20];
        let length = u16::try_from(target.len()).expect("a host's name");
        body.extend(length.to_le_bytes());
        body.extend(target);
        body.extend([0, 0]);
        self.put(ENVIRONMENT, &body);
        self
    }

    fn put(&mut self, token: u8, body: &[u8]) {
        self.bytes.push(token);
        let length = u16::try_from(body.len()).expect("a token");
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend_from_slice(body);
    }

    fn done(mut self, token: u8, status: u16) -> Self {
        self.bytes.push(token);
        self.bytes.extend(status.to_le_bytes());
        self.bytes.extend([0; 10]);
        self
    }

    /// Returns the bytes without the last token.
    pub(super) fn unfinished(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the answer to a batch, with its last token.
    pub(super) fn finished(self) -> Vec<u8> {
        let status = if self.failed { FAILED } else { 0 };
        self.done(DONE, status).bytes
    }

    /// Appends the row that says that no transaction is open.
    pub(crate) fn committed(self) -> Self {
        let row = [Cell::Int(Some(0))];
        let columns = self.columns_named(&row, "lb_committed");
        columns.row(&row).end_of_statement()
    }

    /// Appends the row with which a batch of an operation ends, if it asks for it and has not failed.
    pub(super) fn marked(self, wants_mark: bool) -> Self {
        if wants_mark && !self.failed {
            self.committed()
        } else {
            self
        }
    }

    /// Returns the answer to a procedure call, with its last tokens.
    pub(super) fn finished_call(self) -> Vec<u8> {
        let status = if self.failed { FAILED } else { 0 };
        self.finished_with(status)
    }

    /// Returns the answer to a procedure call that fails without an error.
    pub(super) fn finished_silently(self, failure: SilentFailure) -> Vec<u8> {
        self.finished_with(match failure {
            SilentFailure::Statement => FAILED,
            SilentFailure::Server => SERVER_ERROR,
        })
    }

    fn finished_with(mut self, status: u16) -> Vec<u8> {
        self.bytes.push(RETURN_STATUS);
        self.bytes.extend([0; 4]);
        self.done(DONE_PROCEDURE, status).bytes
    }

    /// Returns the answer to an attention.
    pub(super) fn attention_done() -> Vec<u8> {
        Self::new().done(DONE, ATTENTION).bytes
    }
}
