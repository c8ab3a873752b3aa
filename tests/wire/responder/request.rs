//! Requests of a broker: the text of a statement and its parameters (MS-TDS 2.2.6.6 and 2.2.6.7).

/// A statement and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) text: String,
    /// The values of @P1, @P2 and so on.
    pub(crate) parameters: Vec<String>,
    /// True: the statement is run by `sp_executesql`. The server restores the SET options of the session at its end.
    pub(crate) is_call: bool,
}

impl Request {
    /// Reads a batch.
    pub(super) fn batch(payload: &[u8]) -> Self {
        let mut bytes = Bytes(payload);
        bytes.skip_headers();
        Self {
            text: text(bytes.0),
            parameters: Vec::new(),
            is_call: false,
        }
    }

    /// Reads a call of `sp_executesql`.
    pub(super) fn call(payload: &[u8]) -> Self {
        const BY_NUMBER: u16 = 0xFFFF;

        let mut bytes = Bytes(payload);
        bytes.skip_headers();
        match bytes.short() {
            BY_NUMBER => bytes.take(2),
            length => bytes.take(2 * usize::from(length)),
        };
        bytes.take(2);
        let mut values = Vec::new();
        while !bytes.0.is_empty() {
            let name = usize::from(bytes.byte());
            bytes.take(2 * name + 1);
            values.push(bytes.value());
        }
        let mut values = values.into_iter();
        Self {
            text: values.next().unwrap_or_default(),
            // The value after the text declares the parameters, so it is skipped.
            parameters: values.skip(1).collect(),
            is_call: true,
        }
    }

    /// Returns whether the text or a parameter contains each fragment. Case is ignored.
    pub(crate) fn has(&self, fragments: &[&str]) -> bool {
        let lower = |text: &String| text.to_ascii_lowercase();
        let all: Vec<String> = [&self.text]
            .into_iter()
            .chain(&self.parameters)
            .map(lower)
            .collect();
        fragments.iter().all(|fragment| {
            let fragment = fragment.to_ascii_lowercase();
            all.iter().any(|text| text.contains(&fragment))
        })
    }
}

/// The unread bytes of a message. Reading panics if the message is malformed, which ends the test.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn short(&mut self) -> u16 {
        let bytes = self.take(2);
        u16::from_le_bytes([bytes[0], bytes[1]])
    }

    fn long(&mut self) -> usize {
        let bytes = self.take(4);
        let long = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        usize::try_from(long).expect("a length")
    }

    fn skip_headers(&mut self) {
        let length = self.long();
        self.take(length - 4);
    }

    /// Reads a value of a type with this maximum length. A value of an unlimited type comes in chunks.
    fn bytes(&mut self, max_length: u16) -> Vec<u8> {
        const UNLIMITED: u16 = 0xFFFF;

        if max_length != UNLIMITED {
            let length = usize::from(self.short());
            return self.take(length).to_vec();
        }
        self.take(8);
        let mut all = Vec::new();
        loop {
            match self.long() {
                0 => return all,
                length => all.extend_from_slice(self.take(length)),
            }
        }
    }

    /// Reads a type and a value of this type.
    fn value(&mut self) -> String {
        const INTEGER: u8 = 0x26;
        const NVARCHAR: u8 = 0xE7;
        const VARBINARY: u8 = 0xA5;

        match self.byte() {
            INTEGER => {
                self.byte();
                let length = usize::from(self.byte());
                let mut wide = [0; 8];
                wide[..length].copy_from_slice(self.take(length));
                i64::from_le_bytes(wide).to_string()
            }
            NVARCHAR => {
                let max_length = self.short();
                self.take(5);
                text(&self.bytes(max_length))
            }
            VARBINARY => {
                let max_length = self.short();
                let bytes = self.bytes(max_length);
                format!("{bytes:?}")
            }
            other => panic!("the scripted server cannot read a parameter of type {other:#x}"),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2);
    let units: Vec<u16> = units
        .map(|unit| u16::from_le_bytes([unit[0], unit[1]]))
        .collect();
    String::from_utf16(&units).expect("UTF-16")
}
