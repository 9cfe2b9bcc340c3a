# SPDX-License-Identifier: Apache-2.0
"""What users may have: refused at the figure, for everybody who asks at once,
with what to do, and changed while mpsd runs."""

import os
import stat

import harness
import team_test

OTHERS = """limit-queued-jobs = 3
limit-upload-bytes = "64KiB"
limit-priority = "-10:0"
"""


class LimitsTest(team_test.Team):
    def team(self, text=OTHERS):
        self.config = self.folder / "mpsd.toml"
        self.config.write_text(text)
        return self.make_team("--config", str(self.config), "--model-root",
                              str(self.folder))

    def refused(self, person, code, *words, options=()):
        said = person.says("submit", self.job(), "--detach", *options,
                           code=code)
        for word in words:
            self.assertIn(word, said)

    def restart(self, text):
        self.config.write_text(text)
        self.assertEqual(0, self.admin.terminate())
        self.admin.start()

    def large_blobs(self):
        large = []
        for path in (self.admin.state_dir / "blobs").rglob("*"):
            try:
                info = path.lstat()
            except FileNotFoundError:  # removed meanwhile
                continue
            if stat.S_ISREG(info.st_mode) and info.st_size > 1 << 16:
                large.append(path)
        return large

    def test_of_fifty_at_once_no_more_pass_than_may(self):
        team = self.team()
        path = self.job()
        # It holds the device, so that the others wait.
        self.submit(team["bob"])
        self.eventually(self.admin.workers)
        results = harness.at_once(
            lambda path: team["ada"].ctl("submit", path, "--detach"),
            [path] * 50)
        passed = [r for r in results if r.returncode == 0]
        self.assertEqual(3, len(passed), results)
        for result in results:
            if result.returncode != 0:
                self.assertEqual(6, result.returncode, result.stderr)
                self.assertIn("3 are allowed", result.stderr)
                self.assertIn("[user.ada] queued-jobs", result.stderr)
        self.assertEqual(3, len(team["ada"].ctl_json("list", "--state",
                                                     "QUEUED")))
        # The limit is each user's, and no admin's.
        self.submit(team["bob"])
        for _ in range(4):
            self.submit(team["grace"])

    def test_a_sweep_beyond_the_limit_and_its_rest(self):
        team = self.team()
        other = self.submit(team["bob"], "--hold", "--label", "sweep=ranks")
        sweep = ("sweep", self.job(), "--name", "ranks", "--hold", "--grid",
                 "lora.r=1,2,3,4,5")
        said = team["ada"].says(*sweep, code=6)
        self.assertIn("3 of the 5 jobs of sweep ranks are queued: the same "
                      "command queues the rest", said)
        # Of one's own jobs alone.
        ended = team["ada"].says("cancel", "--label", "sweep=ranks")
        self.assertEqual(3, ended.count("CANCELLED"), ended)
        self.assertEqual("QUEUED", team["bob"].state(other["id"]))
        self.assertIn("5 jobs, 3 of them from before", team["ada"].says(*sweep))
        states = [job["state"] for job in team["ada"].ctl_json(
            "list", "--label", "sweep=ranks", "--owner", "ada")]
        self.assertEqual(["CANCELLED"] * 3 + ["QUEUED"] * 2, sorted(states))

    def test_a_limit_is_raised_by_a_restart(self):
        team = self.team("limit-queued-jobs = 0\n")
        self.refused(team["ada"], 6, "0 are allowed")
        self.restart("limit-queued-jobs = 0\n[user.ada]\nqueued-jobs = 9\n")
        self.submit(team["ada"])
        self.refused(team["bob"], 6, "[user.bob] queued-jobs")

    def test_uploads_and_priorities(self):
        team = self.team()
        rows = [harness.row("x" * 100, "y" * 100)] * 1000
        big = harness.write_job(self.folder, rows=rows)
        said = team["ada"].says("submit", big, "--detach", code=6)
        self.assertIn("[user.ada] upload-bytes", said)
        self.assertIn("64.00 KiB", said)
        # mpsd answers before it removes what the stream had begun.
        self.eventually(lambda: self.large_blobs() == [])
        self.assertEqual("grace", team["grace"].submit(big)["owner"])
        # The blobs are there now; whoever's job uses them has them, too.
        team["ada"].says("submit", big, "--detach", code=6)
        self.refused(team["ada"], 2, "-10 to 0", "[user.ada] priority",
                     options=("--priority", "1"))
        self.submit(team["ada"], "--priority", "-10")
        usage = next(line for line in team["ada"].says("info").splitlines()
                     if line.startswith("usage"))
        self.assertIn("of 3", usage)
        self.assertIn("priority -10 to 0", usage)

    def test_results(self):
        team = self.team("")
        job = self.submit(team["ada"], name="tiny")
        self.admin.finish(job["id"])
        # A start measures at once.
        self.restart("limit-result-bytes = 100\n")
        self.eventually(lambda: team["ada"].ctl(
            "submit", self.job(), "--detach").returncode == 6)
        self.refused(team["ada"], 6, "[user.ada] result-bytes")
        self.submit(team["bob"])
        team["ada"].says("delete", job["id"])
        for queued in team["ada"].ctl_json("list"):
            team["ada"].ctl("cancel", queued["id"], "--now")
        self.assertTrue(os.path.isdir(self.admin.state_dir))
