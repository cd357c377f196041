"""Check what a user would install: build it, install it in a fresh environment and use it (``make release-check``).

The wheel and the sdist are built and held against the rules of the index. The wheel must be small, and
``import counterpoint`` must take little more than ``import numpy``.
"""

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "out" / "dist"
MOST_BYTES = 1_500_000  # of the wheel, with its data
MOST_SECONDS = 0.3  # of the import, beyond numpy
TIMED = (
    "import time, numpy; start = time.perf_counter(); import counterpoint; print(time.perf_counter() - start)"
)


def main() -> None:
    """Run every check; the first that fails ends the program."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir()))
    (wheel,) = DIST.glob("*.whl")
    require(wheel.stat().st_size < MOST_BYTES, f"the wheel has {wheel.stat().st_size:,} bytes")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        run(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", f"{wheel}[train]")
        use(python, Path(folder))


def use(python: Path, folder: Path) -> None:
    """Use the installed package from a folder that holds no source."""
    where = run(python, "-c", "import counterpoint; print(counterpoint.__file__)", cwd=folder).strip()
    require(Path(where).resolve().is_relative_to(folder.resolve()), f"counterpoint is imported from {where}")
    run(python, "-m", "counterpoint", "demo", "--data", "iris", "--out", folder / "demo", cwd=folder)
    require((folder / "demo" / "report.html").is_file(), "the demo writes its report")
    seconds = min(float(run(python, "-c", TIMED, cwd=folder)) for _ in range(5))
    require(seconds < MOST_SECONDS, f"import counterpoint takes {seconds:.3f} s beyond numpy")


def run(*command: object, cwd: Path = ROOT) -> str:
    """Return what a command prints; show it and stop if the command fails."""
    print("$", *command, flush=True)
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}")
    return done.stdout


def require(holds: bool, what: str) -> None:
    """Print what was found, and stop if it breaks the rule."""
    print(f"{'ok' if holds else 'FAILED'}: {what}", flush=True)
    if not holds:
        sys.exit(1)


if __name__ == "__main__":
    main()
