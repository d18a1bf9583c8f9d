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
    r"|Network is unreachable|HTTP error 5\d\d|50[234] Server Error")


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


def _install(folder, requirements):
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = subprocess.run(
        [os.path.join(folder, "bin", "python"), "-m", "pip", "install",
         "--disable-pip-version-check", "--no-cache-dir", *requirements],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if pip.returncode == 0:
        return
    shutil.rmtree(folder, ignore_errors=True)
    if _UNREACHABLE.search(pip.stdout):
        raise unittest.SkipTest("PyPI cannot be reached: " + pip.stdout.strip()[-300:])
    raise AssertionError("pip install failed:\n" + pip.stdout)


def python_with(*requirements):
    """The python of an environment with exactly these `name==version`.

    Raises SkipTest if they must be installed and PyPI cannot be reached."""
    key = "\n".join([sys.version, *sorted(requirements)])
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    cache = _cache_folder()
    folder = os.path.join(cache, name)
    complete = os.path.join(folder, "complete")
    with open(os.path.join(cache, name + ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(complete):
            _install(folder, requirements)
            with open(complete, "w", encoding="utf-8"):
                pass
    return os.path.join(folder, "bin", "python")
