# SPDX-License-Identifier: Apache-2.0
"""Negative controls of proto.py."""

import unittest

import proto
import source_tree

GOOD = """
package mpsd.v1;
// The queue.
service Jobs {
  // Makes one.
  rpc Make(MakeRequest) returns (Job);
}
enum JobState {
  JOB_STATE_UNSPECIFIED = 0;
  JOB_STATE_QUEUED = 1;
}
message Job {
  message Part { string id = 1; }
  string id = 1;  // = 2;
  oneof what {
    string a = 2;
    string b = 3;
  }
}
"""


class ProtoTest(source_tree.TreeTest):
    check = staticmethod(proto.check)

    def changed(self, old, new):
        self.assertIn(old, GOOD)
        return {"proto/mpsd/v1/jobs.proto": GOOD.replace(old, new)}

    def test_clean(self):
        self.assert_clean({"proto/mpsd/v1/jobs.proto": GOOD})

    def test_zero(self):
        self.assert_finds(
            "enum JobState must start at JOB_STATE_UNSPECIFIED = 0",
            self.changed("  JOB_STATE_UNSPECIFIED = 0;\n", ""))

    def test_prefix(self):
        self.assert_finds("QUEUED must begin with JOB_STATE_",
                          self.changed("JOB_STATE_QUEUED", "QUEUED"))

    def test_rpc_comment(self):
        self.assert_finds("rpc Make has no comment",
                          self.changed("  // Makes one.\n", ""))

    def test_service_comment(self):
        self.assert_finds("service Jobs has no comment",
                          self.changed("// The queue.\n", ""))

    def test_package(self):
        self.assert_finds("expected package mpsd.v1",
                          self.changed("mpsd.v1", "mpsd"))

    def test_number_twice(self):
        self.assert_finds("message Job has 2 twice",
                          self.changed("b = 3", "b = 2"))

    def test_number_of_oneof_and_message(self):
        self.assert_finds("message Job has 1 twice",
                          self.changed("b = 3", "b = 1"))


if __name__ == "__main__":
    unittest.main()
