// SPDX-License-Identifier: Apache-2.0
// Keeps a program from choosing how its heap works, by LD_PRELOAD: what
// MALLOC_MMAP_THRESHOLD_ and its like say is then what counts. With a small
// threshold each tensor has pages of its own, which go back when it is freed,
// so that the process' footprint is that of its live tensors.
extern "C" int mallopt(int, int) { return 1; }
