//! One pass over the bytes of an output.
