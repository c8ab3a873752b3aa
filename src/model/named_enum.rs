//! Enums whose values have names in metrics, in the log or in the configuration.

/// Declares an enum whose variants have names: writes the type, the list of its variants and the function of their names from one
/// list.
///
/// ```
/// lease_broker_model::named_enum! {
///     /// The state of a door.
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Door {
///         /// A person can pass.
///         Open = "open",
///         /// It does not open without the key.
///         Locked = "locked",
///     }
/// }
/// assert_eq!(Door::ALL, [Door::Open, Door::Locked]);
/// assert_eq!(Door::Locked.name(), "locked");
/// ```
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $type:ident {
            $($(#[$variant_attribute:meta])* $variant:ident = $name:literal,)*
        }
    ) => {
        $(#[$attribute])*
        $visibility enum $type {
            $($(#[$variant_attribute])* $variant,)*
        }

        impl $type {
            /// Every variant, in the order of declaration.
            $visibility const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Returns the name of the variant.
            $visibility const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}
