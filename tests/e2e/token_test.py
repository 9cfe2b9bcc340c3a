# SPDX-License-Identifier: Apache-2.0
"""Tokens end to end: made over the socket, used over a port, revoked and expired
under an open stream; mpsd killed in between."""

import concurrent.futures
import contextlib
import json
import re
import sqlite3
import time

import harness

SECRET = re.compile(r"mpsd_[0-9A-Za-z]{49}")
EXIT_REFUSED = 8  # client/console.h


class TokenTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.state = self.folder / "state"
        self.state.mkdir(mode=0o700)
        self.port = harness.free_port()

    def daemon(self, *options):
        return super().daemon("--listen", f"127.0.0.1:{self.port}",
                              "--model-root", str(self.folder), *options,
                              worker="fake_worker")

    def token(self, *args):
        """`mpsctl admin token …` over the socket."""
        return harness.run("mpsctl", "--state-dir", self.state, "admin", "token", *args)

    def create(self, user="ann", role="user", *more):
        """The output of `mpsctl admin token create`, as $(…) has it."""
        result = self.token("create", "--user", user, "--role", role, *more)
        self.assertEqual(0, result.returncode, result.stderr)
        secret = result.stdout.removesuffix("\n")
        self.assertTrue(SECRET.fullmatch(secret), result.stdout)
        self.assertNotIn(secret, result.stderr)
        return secret

    def listed(self):
        result = self.token("list", "--json")
        self.assertEqual(0, result.returncode, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def ask(self, secret, *args):
        """mpsctl over the port, with a token."""
        return harness.run("mpsctl", "--server", f"127.0.0.1:{self.port}",
                           *args, env=harness.environment(MPSD_TOKEN=secret))

    def assert_knows(self, secret):
        result = self.ask(secret, "list")
        self.assertEqual(0, result.returncode, result.stderr)

    def assert_refuses(self, secret):
        result = self.ask(secret, "list")
        self.assertEqual(EXIT_REFUSED, result.returncode, result.stderr)
        self.assertNotIn(secret, result.stderr)
        self.assertIn("login", result.stderr)

    def watch(self, secret, job):
        """A stream that lasts until it is ended; its process."""
        process = harness.begin(
            "mpsctl", "--server", f"127.0.0.1:{self.port}", "watch", job,
            env=harness.environment(MPSD_TOKEN=secret))
        self.addCleanup(process.kill)
        self.assertTrue(process.stdout.readline())
        return process

    def running_job(self, daemon):
        return daemon.submit(harness.write_job(
            self.folder, called="fake:ok-slow",
            training={"max_steps": 100_000}))["id"]

    def sql(self, statement, *rows):
        """Once for each row of values."""
        with contextlib.closing(sqlite3.connect(self.state / "mpsd.db")) as db:
            db.executemany(statement, rows)
            db.commit()

    def test_a_revoked_token_ends_at_once_with_its_streams(self):
        daemon = self.daemon()
        secret = self.create()
        watch = self.watch(secret, self.running_job(daemon))
        token, = self.listed()
        other = self.create("bob")
        result = self.token("revoke", token["id"])
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("1 open stream of it ended", result.stdout)
        _, err = watch.communicate(timeout=harness.TIMEOUT)
        self.assertEqual(EXIT_REFUSED, watch.returncode, err)
        self.assertIn("login", err)
        self.assert_refuses(secret)
        self.assert_knows(other)
        daemon.restart()
        self.assert_refuses(secret)

    def test_a_stream_ends_when_its_token_expires(self):
        daemon = self.daemon()
        secret = self.create()
        daemon.kill()
        # A busy machine has to start mpsd and the stream before it.
        end = time.time() + 20
        self.sql("UPDATE tokens SET expire_time_us = ?", (int(end * 1e6),))
        daemon.start()
        job = self.running_job(daemon)
        watch = self.watch(secret, job)
        _, err = watch.communicate(timeout=harness.TIMEOUT)
        self.assertEqual(EXIT_REFUSED, watch.returncode, err)
        self.assertGreaterEqual(time.time(), end - 0.1)
        self.assert_refuses(secret)
        self.assertIn("EXPIRED", self.token("list").stdout)

    def test_an_account_of_the_machine_is_never_locked_out(self):
        daemon = self.daemon()
        for _ in range(2):
            secret = self.create("root", "admin")
            token, = self.listed()
            self.assertEqual(
                0, self.ask(secret, "admin", "token", "revoke", token["id"]).returncode)
            self.assert_refuses(secret)
        daemon.says("info")

    def test_a_printed_token_outlives_a_kill(self):
        daemon = self.daemon()
        printed = []
        for _ in range(3):
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                makers = [pool.submit(self.token, "create", "--user", "ann",
                                      "--role", "user") for _ in range(6)]
                concurrent.futures.wait(
                    makers, return_when=concurrent.futures.FIRST_COMPLETED)
                daemon.kill()
                results = [maker.result() for maker in makers]
            daemon.start()
            printed += [result.stdout.strip() for result in results
                        if result.returncode == 0]
        self.assertTrue(printed)
        for secret in printed:
            self.assert_knows(secret)
