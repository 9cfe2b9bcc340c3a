# SPDX-License-Identifier: Apache-2.0
"""The account that the machine's service runs as: made by deploy/install.sh on
a pretended machine, kept by an upgrade, taken back by uninstall.sh."""

import pathlib
import plistlib
import stat
import sys
import unittest

import service_test
from service_test import Checkout, program


class AccountTest(Checkout):
    def root_finds(self, *cases):
        """What `id` reports to root of the account: cases of sh."""
        program(self.folder / "tools/id", "\n".join([
            'case "$*" in', "  -u) echo 0 ;;", *cases,
            '  *) exec /usr/bin/id "$@" ;;', "esac", ""]))


class LinuxAccountTest(AccountTest):
    def test_an_account_of_its_own(self):
        stage = self.folder / "stage"
        self.install("--system", DESTDIR=str(stage), SUDO_USER="ann")
        unit = (stage / "etc/systemd/system/mpsd.service").read_text()
        self.assertIn("\nUser=mpsd\n", unit)
        self.assertIn("\nReadWritePaths=/var/lib/mpsd\n", unit)
        self.assertIn("\nReadWritePaths=-/var/lib/mpsd/.cache/huggingface\n",
                      unit)
        self.assertIn("\nEnvironment=HF_HOME=/var/lib/mpsd/.cache/huggingface\n",
                      unit)
        # Its group comes through to the socket, and no further.
        mode = (stage / "var/lib/mpsd").stat().st_mode
        self.assertEqual(stat.S_IMODE(mode), 0o710)
        toml = stage / "var/lib/mpsd/mpsd.toml"
        self.assertEqual(stat.S_IMODE(toml.stat().st_mode), 0o600)
        # A table may be the file's end, so these come first.
        keys = [line for line in toml.read_text().splitlines()
                if line and not line.startswith("#")]
        self.assertEqual(keys, ['socket-group = "mpsd"', 'admin = ["ann"]'])
        self.uninstall("--system", "--purge", DESTDIR=str(stage))
        self.assertEqual(self.files(stage), set())

    def test_an_upgrade_keeps_whose_jobs_they_are(self):
        stage = self.folder / "stage"
        self.install("--system", "--service-user", "nobody", "--state-dir",
                     "/srv/mpsd", DESTDIR=str(stage))
        self.install("--system", "--state-dir", "/srv/mpsd",
                     DESTDIR=str(stage))
        unit = (stage / "etc/systemd/system/mpsd.service").read_text()
        self.assertIn("\nUser=nobody\n", unit)
        self.assertEqual(stat.S_IMODE((stage / "srv/mpsd").stat().st_mode),
                         0o700)

    @unittest.skipIf(pathlib.Path("/etc/systemd/system/mpsd.service").exists(),
                     "mpsd is installed here")
    def test_the_account_is_made_and_taken_back(self):
        self.root_finds('"-gn mpsd" | mpsd) exit 1 ;;')
        said = self.install("--system", "--dry-run", SUDO_USER="ann")
        self.assertIn("+ useradd --system --user-group --home-dir /var/lib/mpsd "
                      "--no-create-home --shell /usr/sbin/nologin mpsd\n"
                      "+ usermod -aG mpsd ann\n", said)
        # A second time there is nothing to make.
        self.root_finds('"-gn mpsd") echo mpsd ;;', "mpsd) exit 0 ;;")
        options = ("--system", "--dry-run", "--state-dir",
                   str(self.folder / "none"))
        self.assertNotIn("useradd", self.install(*options))
        self.assertIn("+ userdel mpsd\n", self.uninstall(*options, "--purge"))


class MacAccountTest(AccountTest):
    system = "Darwin"

    def test_an_account_of_its_own(self):
        stage = self.folder / "stage"
        self.install("--system", DESTDIR=str(stage))
        path = stage / "Library/LaunchDaemons/org.mpsd.daemon.plist"
        plist = plistlib.loads(path.read_bytes())
        self.assertEqual(plist["UserName"], "_mpsd")
        self.assertEqual(plist["WorkingDirectory"], "/usr/local/var/mpsd")
        self.assertEqual(plist["EnvironmentVariables"]["HOME"],
                         "/usr/local/var/mpsd")
        toml = (stage / "usr/local/var/mpsd/mpsd.toml").read_text()
        self.assertIn('\nsocket-group = "_mpsd"\n', toml)
        # An upgrade that names no user keeps the user that it finds.
        self.install("--system", "--service-user", "nobody",
                     DESTDIR=str(stage))
        self.install("--system", DESTDIR=str(stage))
        self.assertEqual(plistlib.loads(path.read_bytes())["UserName"],
                         "nobody")

    @unittest.skipIf(
        pathlib.Path("/Library/LaunchDaemons/org.mpsd.daemon.plist").exists(),
        "mpsd is installed here")
    def test_the_account_has_a_number_that_is_free(self):
        self.root_finds('"-gn _mpsd" | _mpsd) exit 1 ;;')
        program(self.folder / "tools/dscl", """
case "$*" in
  ". -list /Users UniqueID") echo "_a 300"; echo "ann  501" ;;
  ". -list /Groups PrimaryGroupID") echo "_g   301" ;;
esac
""")
        said = self.install("--system", "--dry-run", SUDO_USER="ann")
        for words in ("/Users/_mpsd UniqueID 302", "/Users/_mpsd IsHidden 1",
                      "/Groups/_mpsd PrimaryGroupID 302",
                      "/Users/_mpsd UserShell /usr/bin/false"):
            self.assertIn(f"+ dscl . -create {words}\n", said)
        self.assertIn("+ dseditgroup -o edit -a ann -t user _mpsd\n", said)


if __name__ == "__main__":
    service_test.ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
