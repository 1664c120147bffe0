"""Command line: ``python -m pypto_jit doctor``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m pypto_jit", description="Tools around pypto_jit.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("doctor", help="report versions, processor, vendor tools, threads and cache location")
    parser.parse_args(arguments)

    from pypto_jit.doctor import examine, print_report

    return print_report(examine())


if __name__ == "__main__":
    sys.exit(main())
