//! Setters that return their receiver, for values that are optional.

/// From anything that becomes the type.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident: $kind:ty,)*) => { $(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, value: impl Into<$kind>) -> Self {
            self.$name = Some(value.into());
            self
        }
    )* };
}

/// From exactly the type: numbers, so that a literal needs no suffix.
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident: $kind:ty,)*) => { $(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, value: $kind) -> Self {
            self.$name = Some(value);
            self
        }
    )* };
}

pub(crate) use {plain, texts};
