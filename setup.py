"""What `make setup` builds beside its sources, for `pip install .`; all else is declared in pyproject.toml.

Flags depend on the system, so they come from where `make setup` has them. Without a compiler the package is built
without these modules.
"""

from pathlib import Path
from runpy import run_path

from setuptools import Extension, setup

# By its path: what builds packages has the project's own ones on no path.
BUILD = run_path(str(Path.cwd() / "include/source/native/build.py"))
FILES = [file.relative_to(Path.cwd()) for file in BUILD["SOURCES"]]
# Parts that sources include, and flags: a second build in the same tree sees a change of these, too.
PARTS = [str(each) for file in FILES for each in sorted(file.parent.glob("*.px[id]"))]

setup(
    ext_modules=[
        Extension(
            ".".join(file.with_suffix("").parts),
            [str(file)],
            depends=["setup.py", "include/source/native/build.py", *PARTS],
            extra_compile_args=[*BUILD["COMPILE"]],
            extra_link_args=[*BUILD["LINK"]],
            optional=True,
        )
        for file in FILES
    ]
)
