"""Virtual environments with packages from PyPI, kept from run to run."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import unittest

# How pip says that it could not reach the index, or that the index is not well.
_UNREACHABLE = re.compile(
    r"Retrying \(Retry|NewConnectionError|ConnectTimeout|ReadTimeout|NameResolution"
    r"|Temporary failure in name resolution|Connection (refused|reset|broken)"
    r"|Network is unreachable|from versions: none|HTTP error 5\d\d|50[234] Server Error")


def _cache_folder():
    """A folder of this user's that outlives the test, else the test's own."""
    for parent in ("/var/tmp", "/tmp"):
        folder = os.path.join(parent, "recurve-test-environments-%d" % os.getuid())
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            if os.stat(folder).st_uid == os.getuid() and os.access(folder, os.W_OK):
                return folder
        except OSError:
            continue
    return os.environ["TEST_TMPDIR"]


def _kept(*key, fill):
    """A folder that `fill(folder)` filled, now or in an earlier run."""
    digest = hashlib.sha256("\n".join([sys.version, *key]).encode())
    cache = _cache_folder()
    folder = os.path.join(cache, digest.hexdigest()[:16])
    complete = os.path.join(folder, "complete")
    with open(folder + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(complete):
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            fill(folder)
            with open(complete, "w", encoding="utf-8"):
                pass
    return folder


def _install(folder, *arguments):
    """Installs with the pip of the environment in a folder."""
    pip = subprocess.run(
        [os.path.join(folder, "bin", "python"), "-m", "pip", "install",
         "--disable-pip-version-check", "--no-cache-dir", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if pip.returncode == 0:
        return
    if _UNREACHABLE.search(pip.stdout):
        raise unittest.SkipTest("PyPI cannot be reached: " + pip.stdout.strip()[-300:])
    raise AssertionError("pip install failed:\n" + pip.stdout)


# Both raise SkipTest if something must be installed and PyPI cannot be reached.


def python_with(*requirements):
    """The python of an environment with these `name==version`."""
    folder = _kept(*requirements, fill=lambda folder: _install(folder, *requirements))
    return os.path.join(folder, "bin", "python")


def folder_of(requirement):
    """A folder to import one package from, without what it depends on."""

    def fill(folder):
        _install(folder, "--no-deps", "--target", os.path.join(folder, "alone"), requirement)

    return os.path.join(_kept("alone", requirement, fill=fill), "alone")
