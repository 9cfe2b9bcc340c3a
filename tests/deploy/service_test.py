# SPDX-License-Identifier: Apache-2.0
"""The service files, and install.sh and uninstall.sh with programs that replace
the built ones, on this system and on a pretended Mac.

    service_test.py ROOT
"""

import os
import pathlib
import plistlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ["mpsd", "mpsctl", "mpsd-worker"]
DYLIBS = ["libtorch_cpu.dylib", "libc10.dylib", "libomp.dylib"]

# Of launchd.plist(5), what a template may say and of which type.
LIMITS = {"NumberOfFiles": int}
SCHEMA = {
    "Label": str, "UserName": str, "ProgramArguments": [str],
    "EnvironmentVariables": {str: str}, "WorkingDirectory": str, "Umask": int,
    "RunAtLoad": bool, "KeepAlive": {"SuccessfulExit": bool},
    "ThrottleInterval": int, "ProcessType": str, "ExitTimeOut": int,
    "SoftResourceLimits": LIMITS, "HardResourceLimits": LIMITS,
    "StandardOutPath": str, "StandardErrorPath": str,
}


def faults(value, schema, where="plist"):
    if isinstance(schema, dict):
        if type(value) is not dict:
            yield f"{where} is no dict"
            return
        for key, inner in value.items():
            rule = schema.get(str) or schema.get(key)
            if rule is None:
                yield f"{where}.{key} is not allowed"
            else:
                yield from faults(inner, rule, f"{where}.{key}")
    elif isinstance(schema, list):
        if type(value) is not list or not value:
            yield f"{where} is no array"
            return
        for inner in value:
            yield from faults(inner, schema[0], where)
    elif type(value) is not schema:
        yield f"{where} is no {schema.__name__}"


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


class Checkout(unittest.TestCase):
    """A checkout with deploy/ and something in build/, and a home."""

    system = "Linux"

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mpsd-service."))
        self.addCleanup(shutil.rmtree, self.folder)
        self.root = self.folder / "checkout"
        shutil.copytree(ROOT / "deploy", self.root / "deploy")
        for name in PROGRAMS:
            program(self.root / "build/release/bin" / name, f"echo {name}\n")
        lib = self.root / "build/venv/lib/python3.12/site-packages/torch/lib"
        lib.mkdir(parents=True)
        for name in DYLIBS + ["libtorch_cpu.so"]:
            (lib / name).write_text(name)
        self.home = self.folder / "home"
        self.home.mkdir()
        self.calls = self.folder / "calls"
        tools = self.folder / "tools"
        program(tools / "uname", f"echo {self.system}\n")
        program(tools / "ldd", f"echo 'libtorch_cpu.so => {lib}/libtorch_cpu.so"
                               " (0x0001)'\n")
        program(tools / "systemctl", f'echo "systemctl $*" >>{self.calls}\n')
        # As launchd: what was bootstrapped can be printed until it is let go.
        mark = self.folder / "loaded"
        program(tools / "launchctl", f"""
case "$1" in
  print) case "$2" in */*/*|system/*) test -e {mark} ;; esac; exit ;;
  bootstrap) touch {mark} ;;
  bootout) rm -f {mark} ;;
esac
echo "launchctl $*" >>{self.calls}
""")
        self.environment = dict(
            os.environ, HOME=str(self.home),
            PATH=f"{tools}:{os.environ['PATH']}", SYSTEMD_RUN=str(self.folder))
        self.environment["XDG_RUNTIME_DIR"] = str(self.folder)
        for name in ("DESTDIR", "XDG_CONFIG_HOME", "SUDO_USER"):
            self.environment.pop(name, None)

    def script(self, name, *options, expected=0, **variables):
        run = subprocess.run(
            [self.root / "deploy" / name, *options], text=True,
            env={**self.environment, **variables}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(run.returncode, expected, run.stdout)
        return run.stdout

    def install(self, *options, **variables):
        return self.script("install.sh", *options, **variables)

    def uninstall(self, *options, **variables):
        return self.script("uninstall.sh", *options, **variables)

    def called(self):
        """The calls of the service manager since the last question."""
        text = self.calls.read_text() if self.calls.exists() else ""
        self.calls.unlink(missing_ok=True)
        return text.splitlines()

    def files(self, folder):
        return {str(p.relative_to(folder)) for p in folder.rglob("*")
                if not p.is_dir()}


class LinuxTest(Checkout):
    SERVICE = ".config/systemd/user/mpsd.service"
    INSTALLED = {".local/bin/mpsd", ".local/bin/mpsctl",
                 ".local/bin/mpsd-worker", ".local/lib/mpsd/libtorch_cpu.so",
                 SERVICE}
    STATE = {".local/state/mpsd/mpsd.toml"}

    def test_installs_starts_and_leaves_nothing_but_the_state(self):
        self.install("--user")
        self.assertEqual(self.files(self.home), self.INSTALLED | self.STATE)
        self.assertEqual(self.called(), [
            "systemctl --user daemon-reload",
            "systemctl --user enable --quiet mpsd.service",
            "systemctl --user restart mpsd.service"])
        unit = (self.home / self.SERVICE).read_text()
        self.assertNotIn("@", unit)
        self.assertIn(f"\nExecStart={self.home}/.local/bin/mpsd --config "
                      f"{self.home}/.local/state/mpsd/mpsd.toml", unit)
        self.uninstall("--user")
        self.assertEqual(self.files(self.home), self.STATE)
        self.assertFalse((self.home / ".local/lib/mpsd").exists())
        self.assertIn("systemctl --user disable --quiet --now mpsd.service",
                      self.called())
        self.uninstall("--user", "--purge")
        self.assertEqual(self.files(self.home), set())

    def test_a_second_run_changes_nothing(self):
        self.install("--user")
        before = {p: p.stat().st_mtime_ns for p in self.home.rglob("*")}
        self.called()
        (self.home / ".local/state/mpsd/mpsd.toml").write_text("mine")
        self.assertIn("everything was up to date", self.install("--user"))
        after = {p: p.stat().st_mtime_ns for p in self.home.rglob("*")}
        toml = self.home / ".local/state/mpsd/mpsd.toml"
        del before[toml], after[toml]
        self.assertEqual(before, after)
        self.assertEqual(toml.read_text(), "mine")
        self.assertIn("systemctl --user start mpsd.service", self.called())

    def test_a_new_build_replaces_the_file_and_restarts(self):
        self.install("--user")
        installed = self.home / ".local/bin/mpsd"
        before = installed.stat().st_ino
        self.called()
        program(self.root / "build/release/bin/mpsd", "echo newer\n")
        self.install("--user")
        self.assertNotEqual(installed.stat().st_ino, before)
        self.assertIn("systemctl --user restart mpsd.service", self.called())

    def test_a_dry_run_does_nothing(self):
        said = self.install("--user", "--dry-run")
        self.assertIn(f"{self.home}/.local/bin/mpsd", said)
        self.assertEqual(self.files(self.home), set())
        self.assertEqual(list(self.home.iterdir()), [])
        self.install("--user")
        there = self.files(self.home)
        self.called()
        self.uninstall("--user", "--purge", "--dry-run")
        self.assertEqual(self.files(self.home), there)
        self.assertEqual(self.called(), [])

    def test_for_the_machine_under_destdir(self):
        stage = self.folder / "stage"
        options = ("--system", "--service-user", "nobody", "--state-dir",
                   "/var/lib/mpsd")
        self.install(*options, DESTDIR=str(stage))
        self.assertEqual(self.files(stage), {
            "usr/local/bin/mpsd", "usr/local/bin/mpsctl",
            "usr/local/bin/mpsd-worker", "usr/local/lib/mpsd/libtorch_cpu.so",
            "etc/systemd/system/mpsd.service", "var/lib/mpsd/mpsd.toml"})
        self.assertEqual(self.called(), [])
        unit = (stage / "etc/systemd/system/mpsd.service").read_text()
        self.assertIn("\nUser=nobody\n", unit)
        self.assertIn("\nReadWritePaths=/var/lib/mpsd\n", unit)
        # Homes are read-only: caches that are written lie in the state folder,
        # models where they were fetched to.
        home = pathlib.Path("~nobody").expanduser()
        self.assertIn("\nEnvironment=XDG_CACHE_HOME=/var/lib/mpsd/cache\n", unit)
        self.assertIn(f"\nEnvironment=HF_HOME={home}/.cache/huggingface\n", unit)
        self.assertIn("\nExecReload=/bin/kill -HUP $MAINPID\n", unit)
        mode = (stage / "var/lib/mpsd").stat().st_mode
        self.assertEqual(stat.S_IMODE(mode), 0o700)
        if os.getuid() == 0:
            self.assertEqual((stage / "var/lib/mpsd").owner(), "nobody")
        self.uninstall(*options, "--purge", DESTDIR=str(stage))
        self.assertEqual(self.files(stage), set())

    def listening_mpsd(self):
        """An mpsd that notes how it is called, and makes what it is asked."""
        program(self.root / "build/release/bin/mpsd", f"""
echo "mpsd $*" >>{self.calls}
case "$2" in
  init) mkdir -p "$4/tls" && touch "$4/tls/server.crt" ;;
  show) echo "  fingerprint  SHA256:AB" ;;
esac
""")

    def test_listens_where_it_is_set_with_certificates(self):
        self.listening_mpsd()
        state = self.home / ".local/state/mpsd"
        said = self.install("--user", "--listen", "0.0.0.0:7433")
        toml = (state / "mpsd.toml").read_text()
        self.assertTrue(toml.startswith('listen = ["0.0.0.0:7433"]\n# The'))
        self.assertEqual(
            stat.S_IMODE((state / "mpsd.toml").stat().st_mode), 0o600)
        self.assertIn("SHA256:AB", said)
        self.assertIn("mpsctl admin token create --user NAME", said)
        self.assertIn(":7433 --fingerprint SHA256:AB\n", said)
        calls = self.called()
        # The certificates are there before mpsd starts.
        self.assertEqual(calls[0], f"mpsd tls init --state-dir {state}")
        self.assertIn("systemctl --user restart mpsd.service", calls)
        # Run again it leaves both alone, and restarts nothing.
        said = self.install("--user", "--listen", "0.0.0.0:7433")
        self.assertIn("everything was up to date", said)
        calls = self.called()
        self.assertNotIn(f"mpsd tls init --state-dir {state}", calls)
        self.assertNotIn("systemctl --user restart mpsd.service", calls)
        self.assertEqual((state / "mpsd.toml").read_text(), toml)

    def test_listens_though_mpsd_toml_is_there(self):
        self.listening_mpsd()
        self.install("--user")
        toml = self.home / ".local/state/mpsd/mpsd.toml"
        toml.write_text("[environment]\nHF_HOME = '/x'\n")
        self.called()
        self.install("--user", "--listen", "[::]:7433")
        self.assertEqual(
            toml.read_text(),
            'listen = ["[::]:7433"]\n[environment]\nHF_HOME = \'/x\'\n')
        self.assertIn("systemctl --user restart mpsd.service", self.called())

    def test_makes_no_certificates_that_are_not_needed(self):
        self.listening_mpsd()
        state = self.home / ".local/state/mpsd"
        self.install("--user", "--listen", "127.0.0.1:7433")
        self.assertFalse((state / "tls").exists())
        (state / "mpsd.toml").write_text('tls-cert = "/etc/mine.crt"\n')
        self.install("--user", "--listen", "studio.example.com:7433")
        self.assertFalse((state / "tls").exists())
        stage = self.folder / "stage"
        said = self.install("--system", "--service-user", "nobody",
                            "--state-dir", "/var/lib/mpsd", "--listen",
                            "0.0.0.0:7433", DESTDIR=str(stage))
        self.assertIn("on the machine run mpsd tls init", said)
        self.assertFalse((stage / "var/lib/mpsd/tls").exists())
        self.assertIn('listen = ["0.0.0.0:7433"]',
                      (stage / "var/lib/mpsd/mpsd.toml").read_text())
        self.called()

    def test_a_dry_run_does_not_listen(self):
        self.listening_mpsd()
        said = self.install("--user", "--dry-run", "--listen", "0.0.0.0:7433")
        self.assertIn("tls init --state-dir", said)
        self.assertEqual(self.files(self.home), set())
        self.assertEqual(self.called(), [])

    def test_a_listen_that_mpsd_toml_has_stays(self):
        self.install("--user")
        toml = self.home / ".local/state/mpsd/mpsd.toml"
        toml.write_text('listen = ["10.0.0.1:7433"]\n')
        said = self.script("install.sh", "--user", "--listen", "0.0.0.0:7433",
                           expected=1)
        self.assertIn("change it there", said)
        self.assertEqual(toml.read_text(), 'listen = ["10.0.0.1:7433"]\n')

    def test_uninstall_removes_no_folder_that_is_not_mpsds(self):
        self.install("--user")
        other = self.home / "thesis"
        other.mkdir()
        (other / "text").write_text("years of work")
        said = self.uninstall("--user", "--purge", "--state-dir", str(other))
        self.assertIn("not a state folder of mpsd", said)
        self.assertEqual((other / "text").read_text(), "years of work")

    def test_says_what_is_wrong(self):
        for options, words in [
            (["--system", "--service-user", "no-such-user"], "no user"),
            (["--user", "--prefix", "here"], "is not absolute"),
            (["--user", "--prefix", "/a b"], "choose a path"),
            (["--user", "--state-dir", "/a%b"], "choose a path"),
            (["--user", "--build", str(self.folder)], "deploy/build.sh"),
            (["--nonsense"], "unknown argument '--nonsense'"),
            (["--prefix"], "--prefix needs a value"),
            (["--user", "--listen", "7433"], "expected HOST:PORT"),
            (["--user", "--listen", "host:"], "expected HOST:PORT"),
            (["--user", "--listen", ":7433"], "expected HOST:PORT"),
            (["--user", "--listen", 'a"]\nb = ["c:1'], "expected HOST:PORT"),
            (["--user", "--listen", "host:74x"], "expected HOST:PORT"),
            (["--listen"], "--listen needs a value"),
        ]:
            with self.subTest(options=options):
                said = self.script("install.sh", *options, expected=1)
                self.assertIn(words, said)
        self.assertEqual(self.files(self.home), set())

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd here")
    def test_systemd_accepts_the_units(self):
        user = subprocess.run(["id", "-un"], text=True, capture_output=True,
                              check=True).stdout.strip()
        self.install("--user")
        self.install("--system", "--service-user", user,
                     DESTDIR=str(self.folder / "stage"))
        system = self.folder / "stage/etc/systemd/system/mpsd.service"
        # The programs lie under DESTDIR; systemd looks for them.
        text = system.read_text().replace(
            "=/usr/local/bin", f"={self.folder}/stage/usr/local/bin")
        system.write_text(text)
        for unit, options in [(system, []),
                              (self.home / self.SERVICE, ["--user"])]:
            verify = ["systemd-analyze", "verify", "--man=no", *options]
            run = subprocess.run([*verify, unit], text=True, check=False,
                                 capture_output=True, env=self.environment)
            own = [line for line in run.stderr.splitlines() if "mpsd" in line]
            self.assertEqual(own, [], run.stderr)
            self.assertEqual(run.returncode, 0, run.stderr)
            # The control: a word that systemd does not know.
            unit.write_text(unit.read_text().replace("Restart=", "Restrat="))
            run = subprocess.run([*verify, unit], text=True, check=False,
                                 capture_output=True, env=self.environment)
            self.assertIn("Restrat", run.stderr)


class MacTest(Checkout):
    system = "Darwin"
    AGENT = "Library/LaunchAgents/org.mpsd.agent.plist"

    def check_plist(self, path):
        plist = plistlib.loads(path.read_bytes())
        self.assertEqual(list(faults(plist, SCHEMA)), [])
        self.assertNotIn("@", str(plist))
        self.assertEqual(plist["ProcessType"], "Interactive")
        self.assertEqual(plist["KeepAlive"], {"SuccessfulExit": False})
        # Above mpsd's own grace for a checkpoint.
        self.assertGreater(plist["ExitTimeOut"], 120)
        self.assertEqual(plist["Umask"], 0o077)
        self.assertGreaterEqual(plist["SoftResourceLimits"]["NumberOfFiles"],
                                4096)
        return plist

    def test_an_agent(self):
        self.install("--user")
        state = f"{self.home}/Library/Application Support/mpsd"
        self.assertEqual(self.files(self.home), {
            ".local/bin/mpsd", ".local/bin/mpsctl", ".local/bin/mpsd-worker",
            *(f".local/lib/mpsd/{name}" for name in DYLIBS), self.AGENT,
            "Library/Application Support/mpsd/mpsd.toml"})
        plist = self.check_plist(self.home / self.AGENT)
        self.assertEqual(plist["Label"], "org.mpsd.agent")
        self.assertNotIn("UserName", plist)
        self.assertEqual(plist["ProgramArguments"], [
            f"{self.home}/.local/bin/mpsd", "--config", f"{state}/mpsd.toml",
            "--state-dir", state, "--log-stderr", "off"])
        self.assertEqual(plist["StandardErrorPath"],
                         f"{self.home}/Library/Logs/mpsd/mpsd.err")
        domain = f"gui/{os.getuid()}"
        self.assertEqual(self.called(), [
            f"launchctl enable {domain}/org.mpsd.agent",
            f"launchctl bootstrap {domain} {self.home}/{self.AGENT}"])

    def test_a_certificate_has_the_name_of_the_local_network(self):
        program(self.folder / "tools/scutil", "echo Anns-Studio\n")
        program(self.root / "build/release/bin/mpsd",
                f'echo "mpsd $*" >>{self.calls}\n')
        self.install("--user", "--listen", "0.0.0.0:7433")
        state = f"{self.home}/Library/Application Support/mpsd"
        self.assertEqual(self.called()[0], f"mpsd tls init --state-dir {state} "
                                         "--name Anns-Studio.local")

    def test_a_changed_agent_is_let_go_first_and_an_equal_one_stays(self):
        self.install("--user")
        self.called()
        self.install("--user")
        self.assertEqual(self.called(), [])
        program(self.root / "build/release/bin/mpsd", "echo newer\n")
        self.install("--user")
        domain = f"gui/{os.getuid()}"
        self.assertEqual(self.called(), [
            f"launchctl bootout {domain}/org.mpsd.agent",
            f"launchctl enable {domain}/org.mpsd.agent",
            f"launchctl bootstrap {domain} {self.home}/{self.AGENT}"])
        self.uninstall("--user", "--purge")
        self.assertEqual(self.called(),
                         [f"launchctl bootout {domain}/org.mpsd.agent"])
        self.assertEqual(self.files(self.home), set())

    def test_a_daemon_under_destdir(self):
        stage = self.folder / "stage"
        options = ("--system", "--service-user", "nobody", "--state-dir",
                   "/var/mpsd")
        self.install(*options, DESTDIR=str(stage))
        self.assertEqual(self.called(), [])
        path = stage / "Library/LaunchDaemons/org.mpsd.daemon.plist"
        plist = self.check_plist(path)
        self.assertEqual(plist["UserName"], "nobody")
        self.assertEqual(plist["WorkingDirectory"], "/var/mpsd")
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o644)
        rules = [line.split() for line in
                 (stage / "etc/newsyslog.d/mpsd.conf").read_text().splitlines()
                 if line and not line.startswith("#")]
        for rule, key in zip(rules, ["StandardErrorPath", "StandardOutPath"]):
            # file owner:group mode count KB when flags
            self.assertEqual(len(rule), 7)
            self.assertEqual(rule[0], plist[key])
            self.assertTrue(rule[1].startswith("nobody:"))
            self.assertTrue(rule[3].isdigit() and rule[4].isdigit())
            self.assertIn("N", rule[6])
        self.uninstall(*options, "--purge", DESTDIR=str(stage))
        self.assertEqual(self.files(stage), set())

    def test_the_schema_refuses(self):
        good = plistlib.loads(
            (ROOT / "deploy/launchd/org.mpsd.daemon.plist").read_bytes())
        self.assertEqual(list(faults(good, SCHEMA)), [])
        for change in [{"KeepAlive": {"SuccesfulExit": False}},
                       {"ExitTimeout": 150}, {"ExitTimeOut": "150"},
                       {"RunAtLoad": 1}, {"ProgramArguments": [1]},
                       {"ProgramArguments": []}, {"SoftResourceLimits": 4}]:
            with self.subTest(change=change):
                self.assertTrue(list(faults({**good, **change}, SCHEMA)))


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
