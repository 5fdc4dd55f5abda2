//! Fields as bytes: a tag, a length, the value. Whoever reads takes the fields it knows and passes
//! over the others, so that nodes of two versions understand each other.

/// Writes fields. Numbers are LEB128, signed ones zigzagged.
#[derive(Debug, Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub fn signed(&mut self, value: i64) {
        self.number(((value << 1) ^ (value >> 63)) as u64);
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The length is written before what it measures, so the value is made first.
    pub fn field<E>(
        &mut self,
        tag: u8,
        write: impl FnOnce(&mut Writer) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut inner = Writer::default();
        write(&mut inner)?;
        self.bytes(tag, &inner.0);
        Ok(())
    }

    pub fn bytes(&mut self, tag: u8, bytes: &[u8]) {
        self.0.push(tag);
        self.number(bytes.len() as u64);
        self.raw(bytes);
    }

    pub fn number_field(&mut self, tag: u8, value: u64) {
        let mut inner = Writer::default();
        inner.number(value);
        self.bytes(tag, &inner.0);
    }

    pub fn signed_field(&mut self, tag: u8, value: i64) {
        let mut inner = Writer::default();
        inner.signed(value);
        self.bytes(tag, &inner.0);
    }

    pub fn text(&mut self, tag: u8, text: &str) {
        self.bytes(tag, text.as_bytes());
    }
}

/// What is left to read.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// The next field; none at the end and where the bytes are no field.
    pub fn field(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let mut after = Reader(rest);
        let length = usize::try_from(after.number()?).ok()?;
        let (value, rest) = after.0.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, value))
    }
}

/// The fields of one thing.
#[derive(Clone, Debug)]
pub struct Fields<'a>(Vec<(u8, &'a [u8])>);

impl<'a> Fields<'a> {
    /// None where the bytes are not fields to their end.
    pub fn read(bytes: &'a [u8]) -> Option<Fields<'a>> {
        let mut reader = Reader(bytes);
        let mut fields = Vec::new();
        while !reader.0.is_empty() {
            fields.push(reader.field()?);
        }
        Some(Fields(fields))
    }

    pub fn one(&self, tag: u8) -> Option<&'a [u8]> {
        self.0.iter().find(|(one, _)| *one == tag).map(|(_, value)| *value)
    }

    pub fn all(&self, tag: u8) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |(one, _)| *one == tag).map(|(_, value)| *value)
    }

    pub fn number(&self, tag: u8) -> Option<u64> {
        Reader(self.one(tag)?).number()
    }

    pub fn narrow<T: TryFrom<u64>>(&self, tag: u8) -> Option<T> {
        T::try_from(self.number(tag)?).ok()
    }

    pub fn signed(&self, tag: u8) -> Option<i64> {
        Reader(self.one(tag)?).signed()
    }

    pub fn is_set(&self, tag: u8) -> bool {
        self.number(tag).is_some_and(|value| value != 0)
    }

    /// A field that may be absent; none where it is there and cannot be read.
    pub fn maybe<T>(&self, tag: u8, read: impl FnOnce(&'a [u8]) -> Option<T>) -> Option<Option<T>> {
        match self.one(tag) {
            None => Some(None),
            Some(value) => read(value).map(Some),
        }
    }
}
