# SPDX-License-Identifier: Apache-2.0
"""A team on one daemon, as deploy/README.md sets it up: two users, a viewer
and an admin over TLS with tokens, the real programs."""

import json
import os
import pathlib
import subprocess
import time

import harness

TEAM = {"ada": "user", "bob": "user", "vera": "viewer", "grace": "admin"}


class Person:
    """Somebody's laptop: a home of their own, and a token."""

    def __init__(self, test, name, server, fingerprint, token):
        self.name = name
        self.token = token
        self.home = test.folder / "homes" / name
        self.home.mkdir(parents=True)
        self.environment = harness.environment(HOME=str(self.home))
        secret = self.home / "token"
        secret.write_text(token + "\n")
        secret.chmod(0o600)
        result = self.ctl("login", server, "--fingerprint", fingerprint,
                          "--token-file", str(secret))
        test.assertEqual(0, result.returncode, result.stderr)
        test.assertIn(name, result.stdout + result.stderr)
        secret.unlink()

    def ctl(self, *args):
        return subprocess.run(
            [str(harness.BIN / "mpsctl"), *args], capture_output=True,
            text=True, env=self.environment, timeout=harness.TIMEOUT,
            check=False, stdin=subprocess.DEVNULL)

    def ctl_json(self, *args):
        result = self.ctl("--json", *args)
        if result.returncode != 0:
            raise AssertionError(f"{self.name}: mpsctl {args}: {result.stderr}")
        return [json.loads(line) for line in result.stdout.splitlines()]

    def start(self, *args):
        return subprocess.Popen(
            [str(harness.BIN / "mpsctl"), *args], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=self.environment,
            stdin=subprocess.DEVNULL)


class TeamTest(harness.EndToEndTest):
    def mpsd(self, *args):
        """A verb of mpsd on the daemon's machine."""
        result = subprocess.run(
            [str(harness.BIN / "mpsd"), *args], capture_output=True, text=True,
            env=harness.environment(), timeout=harness.TIMEOUT, check=False)
        self.assertEqual(0, result.returncode, result.stderr)
        return result.stdout

    def make_team(self, *options, people=TEAM):
        state = self.folder / "state"
        self.mpsd("tls", "init", "--state-dir", str(state))
        fingerprint = json.loads(self.mpsd(
            "tls", "show", "--json", "--state-dir", str(state)))["fingerprint"]
        server = f"localhost:{harness.free_port()}"
        self.admin = self.daemon("--listen", server, "--stop-grace-seconds",
                                 "1", "--model-root",
                                 str(self.folder), *options,
                                 worker="fake_worker")
        team = {}
        for name, role in people.items():
            token = self.admin.ctl("token", "create", "--user", name,
                                   "--role", role).stdout.strip()
            self.assertTrue(token.startswith("mpsd_"), token)
            team[name] = Person(self, name, server, fingerprint, token)
        return team

    def job(self, name="fake:hang"):
        path = harness.write_job(self.folder)
        path.write_text(path.read_text().replace('"tiny"', f'"{name}"'))
        return str(path)

    def submit(self, person, *options, name="fake:hang"):
        job, = person.ctl_json("submit", self.job(name), "--detach", *options)
        return job

    def eventually(self, holds):
        deadline = time.monotonic() + harness.TIMEOUT
        while not holds():
            self.assertLess(time.monotonic(), deadline, "it does not come")
            time.sleep(0.02)

    def refused(self, result, *words):
        self.assertEqual(8, result.returncode, result.stdout + result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_each_does_what_the_role_allows_and_no_more(self):
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
        self.refused(team["bob"].ctl("token", "create", "--user", "eve",
                                     "--role", "admin"), "admin")
        # An admin may, and so may the account that mpsd runs as.
        self.assertEqual(0, team["grace"].ctl("cancel", job["id"]).returncode)
        self.eventually(lambda: team["ada"].ctl_json(
            "show", job["id"])[0]["state"] == "CANCELLED")
        again = self.submit(team["ada"])
        self.assertEqual(0, self.admin.ctl("cancel", again["id"]).returncode)

    def test_a_token_that_is_revoked_ends_what_it_opened(self):
        team = self.make_team()
        job = self.submit(team["ada"])
        watch = team["bob"].start("watch", job["id"])
        self.addCleanup(watch.kill)
        self.assertNotEqual("", watch.stdout.readline())
        tokens = [token for token in self.admin.ctl_json("token", "list")
                  if token["user"] == "bob"]
        self.assertEqual(1, len(tokens))
        result = self.admin.ctl("token", "revoke", tokens[0]["id"])
        self.assertEqual(0, result.returncode, result.stderr)
        _, said = watch.communicate(timeout=harness.TIMEOUT)
        self.assertEqual(8, watch.returncode, said)
        self.assertIn("login", said)
        self.refused(team["bob"].ctl("list"), "login")
        self.assertEqual(1, len(team["ada"].ctl_json("list")))

    def test_the_audit_has_who_did_what_and_who_was_refused(self):
        team = self.make_team()
        job = self.submit(team["ada"])
        self.refused(team["bob"].ctl("cancel", job["id"]))
        self.assertEqual(0, team["ada"].ctl("cancel", job["id"]).returncode)
        self.eventually(lambda: len(self.admin.ctl_json(
            "audit", "--job", job["id"])) >= 3)
        seen = [(e["user"], e["method"].partition(".")[2], e["result"])
                for e in self.admin.ctl_json("audit", "--job", job["id"])]
        self.assertCountEqual([("ada", "Submit", "OK"),
                               ("bob", "Cancel", "PERMISSION_DENIED"),
                               ("ada", "Cancel", "OK")], seen)
        cancel = next(e for e in self.admin.ctl_json("audit", "--user", "ada")
                      if e["method"] == "JobService.Cancel")
        self.assertEqual("TOKEN", cancel["way"])
        self.assertIn("127.0.0.1", cancel["origin"].replace("::1",
                                                            "127.0.0.1"))
        self.assertTrue(cancel["credential"].startswith("token "))
        # Nobody but an admin sees what others did.
        mine = team["bob"].ctl_json("audit")
        self.assertEqual({"bob"}, {e["user"] for e in mine})
        self.refused(team["bob"].ctl("audit", "--user", "ada"), "admin")

    def test_private_jobs_are_hidden_from_others(self):
        team = self.make_team("--private-jobs")
        job = self.submit(team["ada"], name="fake:train steps=3")
        self.admin.finish(job["id"])
        for verb in (["logs"], ["watch"], ["checkpoints"], ["plot"],
                     ["download", "--output", str(self.folder / "stolen")]):
            for person in (team["bob"], team["vera"]):
                self.refused(person.ctl(verb[0], job["id"], *verb[1:]))
        for person in (team["bob"], team["vera"]):
            shown, = person.ctl_json("show", job["id"])
            self.assertEqual("ada", shown["owner"])
            self.assertFalse(shown["spec"])
            self.assertEqual("", shown["message"])
            self.assertFalse(shown["metrics"])
        for person in (team["ada"], team["grace"]):
            shown, = person.ctl_json("show", job["id"])
            self.assertTrue(shown["spec"])
            self.assertEqual(0, person.ctl("logs", job["id"]).returncode)

    def test_no_secret_is_anywhere_but_where_it_belongs(self):
        team = self.make_team("--log-level", "debug")
        job = self.submit(team["ada"])
        self.eventually(lambda: self.admin.show(job["id"])["state"]
                        == "RUNNING")
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
        stranger = subprocess.run(
            [str(harness.BIN / "mpsctl"), "list"], capture_output=True,
            text=True, env={**team["ada"].environment, "MPSD_TOKEN": wrong},
            timeout=harness.TIMEOUT, check=False)
        self.assertNotIn(wrong, stranger.stdout + stranger.stderr)
        said = self.admin.ctl("audit", "--limit", "1000", "--json").stdout
        self.admin.terminate()
        files = [file for file in self.admin.state_dir.rglob("*")
                 if file.is_file()] + [self.admin.output]
        self.assertGreater(len(files), 5)
        for secret in secrets:
            self.assertNotIn(secret.decode(), said)
            for file in files:
                self.assertNotIn(secret, file.read_bytes(), file)


if __name__ == "__main__":
    harness.unittest.main()
