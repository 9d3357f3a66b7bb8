"""`python -m tblock` is the program: the same as the command `tblock`."""
import os
import sys


def main() -> None:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tblock-program")
    if not os.path.exists(program):
        program = "/usr/bin/tblock"  # a distribution's package of its own
    os.execv(program, ["tblock", *sys.argv[1:]])


if __name__ == "__main__":
    main()
