//! The computed files beside an artifact.
