# SPDX-License-Identifier: Apache-2.0
"""What make_mps_ops.py takes from native_functions.yaml."""

import unittest

import make_mps_ops

YAML = """\
- func: add.Tensor(Tensor self, Tensor other) -> Tensor
  structured_delegate: add.out
  dispatch:
    SparseCPU: add_sparse
- func: add.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  dispatch:
    CPU, CUDA, MPS: add_out  # for all
- func: linalg_eig(Tensor self) -> (Tensor, Tensor)
  dispatch:
    CPU, CUDA: linalg_eig
- func: sparse_only(Tensor self) -> Tensor
  dispatch:
    SparseMPS: sparse_only
- func: sgn(Tensor self) -> Tensor
  structured_delegate: sgn.out
- func: sgn.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  dispatch:
    CPU: sgn_out
- func: linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor
  dispatch:
    CompositeImplicitAutograd: linear
    MPS: _mps_linear
  tags: core
- func: last(Tensor self) -> Tensor
  # MPS: not a kernel
  autogen: last.out
"""


class MakeMpsOpsTest(unittest.TestCase):
    def test_own_and_delegated_kernels_count(self):
        self.assertEqual(
            make_mps_ops.operators(YAML.splitlines()),
            ["add.Tensor", "add.out", "copy_", "linear"])


if __name__ == "__main__":
    unittest.main()
