//! The grammar of a number, byte by byte.

use crate::materialize::json::events::Scalar;

/// The last thing read of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberState {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

impl NumberState {
    /// Returns the state after `byte`, or none if the byte does not belong to the number.
    #[inline]
    pub(super) fn next(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Integer, b'0'..=b'9') | (Self::Minus, b'1'..=b'9') => Self::Integer,
            (Self::Minus, b'0') => Self::Zero,
            (Self::Zero | Self::Integer, b'.') => Self::Point,
            (Self::Point | Self::Fraction, b'0'..=b'9') => Self::Fraction,
            (Self::Zero | Self::Integer | Self::Fraction, b'e' | b'E') => Self::Exponent,
            (Self::Exponent, b'+' | b'-') => Self::ExponentSign,
            (Self::Exponent | Self::ExponentSign | Self::ExponentDigits, b'0'..=b'9') => {
                Self::ExponentDigits
            }
            _ => return None,
        })
    }

    /// Returns true if any digits may follow, which change nothing.
    #[inline]
    pub(super) fn takes_digits(self) -> bool {
        matches!(self, Self::Integer | Self::Fraction | Self::ExponentDigits)
    }

    /// Returns the kind of number, if it may end here.
    pub(super) fn ended(self) -> Option<Scalar> {
        match self {
            Self::Zero | Self::Integer => Some(Scalar::Int),
            Self::Fraction | Self::ExponentDigits => Some(Scalar::Float),
            Self::Minus | Self::Point | Self::Exponent | Self::ExponentSign => None,
        }
    }
}
