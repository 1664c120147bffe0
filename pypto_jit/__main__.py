"""Command line: ``python -m pypto_jit doctor`` and ``python -m pypto_jit cache``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pypto_jit import cache_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m pypto_jit", description="Tools around pypto_jit.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("doctor", help="report versions, processor, vendor tools, threads and cache location")
    cache_command.add_parser(commands)
    chosen = parser.parse_args(arguments)
    if chosen.command == "cache":
        return cache_command.run(chosen)

    from pypto_jit.doctor import examine, print_report

    return print_report(examine())


if __name__ == "__main__":
    sys.exit(main())
