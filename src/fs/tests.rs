//! The filesystem without a kernel.
