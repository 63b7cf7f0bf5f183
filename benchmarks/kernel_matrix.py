"""Runs the tests of the panel and its Cancel button on several versions of ipykernel.

    python -m benchmarks.kernel_matrix            # 7.4, 7.3 and 6.31
    python -m benchmarks.kernel_matrix 7.2.0      # others

Each version gets an environment of its own on top of the current one. The tests of the panel, of
calls and of jobs run against its kernel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path
from typing import Final

VERSIONS: Final = ("7.4.0", "7.3.0", "6.31.0")
CHECKOUT: Final = Path(__file__).resolve().parent.parent
TESTS: Final = ("tests/notebooks/test_kernel.py", "tests/notebooks/test_job_panel.py")


def environment(version: str, folder: Path) -> str:
    """Create an environment with one version of ipykernel; return its interpreter."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"ipykernel=={version}"], check=True)
    where = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site_packages = subprocess.run(where, check=True, capture_output=True, text=True).stdout.strip()
    # The current libraries come last on the path, so that only ipykernel and its needs differ.
    (Path(site_packages) / "behind.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def run_tests(version: str) -> bool:
    """Run the tests against one version; return whether they passed."""
    with tempfile.TemporaryDirectory() as folder:
        python = environment(version, Path(folder))
        command = [python, "-c", "import ipykernel; print(ipykernel.__version__)"]
        installed_version = subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout.strip()
        print(f"ipykernel {installed_version}", flush=True)
        process = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS],
            cwd=CHECKOUT,
            env=os.environ | {"TESTED_KERNEL_PYTHON": python},
            check=False,
        )
    return process.returncode == 0 and installed_version == version


def main() -> None:
    """Run the matrix; return 1 if a version failed."""
    versions = sys.argv[1:] or list(VERSIONS)
    results = {version: run_tests(version) for version in versions}
    for version, is_success in results.items():
        print(f"{version}: {'run_tests' if is_success else 'FAILED'}")
    sys.exit(not all(results.values()))


if __name__ == "__main__":
    main()
