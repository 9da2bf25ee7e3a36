//! Language models behind HTTP endpoints.
