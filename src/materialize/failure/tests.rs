use super::*;

#[test]
fn every_line_that_a_rule_takes_passes_the_prefilter() {}
