// SPDX-License-Identifier: Apache-2.0
/// Bytes of a text, from `begin` to before `end`; crosses the C ABI as it is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub begin: usize,
    pub end: usize,
}
