// SPDX-License-Identifier: Apache-2.0
/// Bytes `begin..end` of a text; crosses the C ABI unchanged.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub begin: usize,
    pub end: usize,
}
