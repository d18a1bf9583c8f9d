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


def _python(folder):
    return os.path.join(folder, "bin", "python")


def _install(python, *arguments, environment=None):
    """Installs with that python's pip."""
    pip = subprocess.run(
        [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-cache-dir",
         *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if pip.returncode == 0:
        return
    if _UNREACHABLE.search(pip.stdout):
        raise unittest.SkipTest("PyPI cannot be reached: " + pip.stdout.strip()[-300:])
    raise AssertionError("pip install failed:\n" + pip.stdout)


# Both raise SkipTest if something must be installed and PyPI cannot be reached.


def python_with(*requirements):
    """The python of an environment with these `name==version`."""
    return _python(
        _kept(*requirements, fill=lambda folder: _install(_python(folder), *requirements)))


def folder_of(requirement, built_with=None):
    """A folder to import one package from, without what it depends on.

    `built_with`: the python whose packages it needs to be built from source; its build sees no
    CUDA compiler.
    """

    def fill(folder):
        alone = ["--no-deps", "--target", os.path.join(folder, "alone"), requirement]
        if built_with is None:
            _install(_python(folder), *alone)
        else:
            _install(built_with, "--no-build-isolation", *alone,
                     environment={**os.environ, "PATH": "/usr/bin:/bin"})

    key = ["alone", requirement] + ([built_with] if built_with else [])
    return os.path.join(_kept(*key, fill=fill), "alone")
