# SPDX-License-Identifier: Apache-2.0
"""A team on one daemon, as deploy/README.md sets it up: two users, a viewer and an
admin over TLS with tokens, the real programs. What users may have: refused at the
figure, for all who ask at once, with what to do."""

import json
import os
import pathlib

import harness

TEAM = {"ada": "user", "bob": "user", "vera": "viewer", "grace": "admin"}


class Person(harness.Client):
    """A user's laptop: a home of its own, and a token."""

    def __init__(self, test, name, server, fingerprint, token):
        home = test.folder / "homes" / name
        home.mkdir(parents=True)
        super().__init__(env=harness.environment(HOME=str(home)))
        self.token = token
        secret = home / "token"
        secret.write_text(token + "\n")
        secret.chmod(0o600)
        done = self.ctl("login", server, "--fingerprint", fingerprint,
                        "--token-file", secret)
        test.assertEqual(0, done.returncode, done.stderr)
        test.assertIn(name, done.stdout + done.stderr)
        secret.unlink()


class Team(harness.EndToEndTest):
    """What tests of teams share."""

    def make_team(self, *options, people=TEAM):
        self.make_certificates()
        fingerprint = json.loads(harness.run(
            "mpsd", "tls", "show", "--json", "--state-dir",
            self.folder / "state").stdout)["fingerprint"]
        server = f"localhost:{harness.free_port()}"
        self.admin = self.daemon("--listen", server, "--stop-grace-seconds",
                                 "1", "--model-root",
                                 str(self.folder), *options,
                                 worker="fake_worker")
        team = {}
        for name, role in people.items():
            token = self.admin.says("admin", "token", "create", "--user", name,
                                    "--role", role).strip()
            self.assertTrue(token.startswith("mpsd_"), token)
            team[name] = Person(self, name, server, fingerprint, token)
        return team

    def job(self, name="fake:hang"):
        return harness.write_job(self.folder, called=name)

    def submit(self, person, *options, name="fake:hang"):
        return person.submit(self.job(name), *options)

    def refused(self, result, *words):
        self.assertEqual(8, result.returncode, result.stdout + result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)


class TeamTest(Team):
    def test_each_does_what_the_role_allows_and_the_audit_has_it(self):
        team = self.make_team()
        job = self.submit(team["ada"])
        self.assertEqual("ada", job["owner"])
        for person in team.values():
            listed, = person.ctl_json("list")
            self.assertEqual(("ada", job["id"]),
                             (listed["owner"], listed["id"]))
        for verb in ("cancel", "retry", "delete"):
            self.refused(team["bob"].ctl(verb, job["id"]), "ada")
            self.refused(team["vera"].ctl(verb, job["id"]), "role")
        self.refused(team["vera"].ctl("submit", self.job(), "--detach"),
                     "role", "user")
        self.refused(team["bob"].ctl("admin", "token", "create", "--user", "eve",
                                     "--role", "admin"), "admin")
        # An admin may, and so may the account that mpsd runs as.
        team["grace"].says("cancel", job["id"])
        self.eventually(lambda: team["ada"].state(job["id"]) == "CANCELLED")
        again = self.submit(team["ada"])
        self.admin.says("cancel", again["id"])
        # Who did what, and who was refused.
        job = self.submit(team["ada"])
        self.refused(team["bob"].ctl("cancel", job["id"]))
        team["ada"].says("cancel", job["id"])
        self.eventually(lambda: len(self.admin.ctl_json(
            "admin", "audit", "--job", job["id"])) >= 3)
        seen = [(e["user"], e["method"].partition(".")[2], e["result"])
                for e in self.admin.ctl_json("admin", "audit", "--job", job["id"])]
        self.assertCountEqual([("ada", "Submit", "OK"),
                               ("bob", "Cancel", "PERMISSION_DENIED"),
                               ("ada", "Cancel", "OK")], seen)
        cancel = next(e for e in self.admin.ctl_json("admin", "audit", "--user", "ada")
                      if e["method"] == "JobService.Cancel")
        self.assertEqual("TOKEN", cancel["way"])
        self.assertIn("127.0.0.1", cancel["origin"].replace("::1",
                                                            "127.0.0.1"))
        self.assertTrue(cancel["credential"].startswith("token "))
        # Only an admin sees what others did.
        mine = team["bob"].ctl_json("admin", "audit")
        self.assertEqual({"bob"}, {e["user"] for e in mine})
        self.refused(team["bob"].ctl("admin", "audit", "--user", "ada"), "admin")

    def test_private_jobs_are_hidden_from_others(self):
        team = self.make_team("--private-jobs")
        job = self.submit(team["ada"], name="fake:train steps=3")
        self.admin.finish(job["id"])
        for verb in (["logs"], ["watch"], ["download", "--checkpoints"], ["plot"],
                     ["generate", "--prompt", "2+2?"],
                     ["download", "--output", str(self.folder / "stolen")]):
            for person in (team["bob"], team["vera"]):
                self.refused(person.ctl(verb[0], job["id"], *verb[1:]))
        for person in (team["bob"], team["vera"]):
            shown = person.show(job["id"])
            self.assertEqual("ada", shown["owner"])
            self.assertFalse(shown["spec"])
            self.assertEqual("", shown["message"])
            self.assertFalse(shown["metrics"])
        for person in (team["ada"], team["grace"]):
            self.assertTrue(person.show(job["id"])["spec"])
            person.says("logs", job["id"])

    def test_no_secret_is_anywhere_but_where_it_belongs(self):
        team = self.make_team("--log-level", "debug")
        job = self.submit(team["ada"])
        self.eventually(lambda: self.admin.state(job["id"]) == "RUNNING")
        self.eventually(self.admin.workers)  # a moment after its row
        secrets = {person.token.encode() for person in team.values()}
        worker, = self.admin.workers()
        for pid in (self.admin.process.pid, worker, os.getpid()):
            for name in ("cmdline", "environ"):
                text = pathlib.Path(f"/proc/{pid}/{name}")
                if text.exists():
                    for secret in secrets:
                        self.assertNotIn(secret, text.read_bytes())
        # A wrong token is refused without being repeated.
        wrong = team["ada"].token[:-1] + (
            "a" if team["ada"].token[-1] != "a" else "b")
        secrets.add(wrong.encode())
        stranger = harness.run("mpsctl", "list", env={
            **team["ada"].environment, "MPSD_TOKEN": wrong})
        self.assertNotIn(wrong, stranger.stdout + stranger.stderr)
        said = self.admin.ctl("admin", "audit", "--limit", "1000", "--json").stdout
        self.admin.terminate()
        files = [file for file in self.admin.state_dir.rglob("*")
                 if file.is_file()] + [self.admin.output]
        self.assertGreater(len(files), 5)
        for secret in secrets:
            self.assertNotIn(secret.decode(), said)
            for file in files:
                self.assertNotIn(secret, file.read_bytes(), file)


class LimitsTest(Team):
    def team(self):
        config = self.folder / "mpsd.toml"
        config.write_text("limit-queued-jobs = 3\n")
        return self.make_team("--config", str(config), "--model-root",
                              str(self.folder))

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
