"""How the tests in Python tell tests/run.sh what became of a claim: one line `ok NAME`,
`FAIL NAME: why` or `skip NAME: why`."""
import argparse
import traceback


class Failure(Exception):
    """The claim is wrong."""


class Skip(Exception):
    """The claim cannot be tried here."""


def need(truth, why):
    if not truth:
        raise Failure(why)


def attempt(name, claim, *arguments):
    """Call claim and print what became of it. Whatever it raises has made it fail, but for Skip; a
    fault of the test itself leaves its traceback on stderr. Returns whether it failed."""
    try:
        claim(*arguments)
    except Skip as why:
        print(f"skip {name}: {why}", flush=True)
    except Exception as why:  # noqa: BLE001: a claim that breaks has failed
        if not isinstance(why, Failure):
            traceback.print_exc()
        reason = " ".join(str(why).split()) or type(why).__name__
        print(f"FAIL {name}: {reason[:600]}", flush=True)
        return True
    else:
        print(f"ok {name}", flush=True)
    return False


def attempt_all(*claims, only=""):
    """Each by its own name; only: those whose name contains it. Returns whether one failed, for sys.exit."""
    return any([attempt(claim.__name__, claim) for claim in claims if only in claim.__name__])


def option_only(description):
    """A parser with --only, which chooses claims by a part of their names."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="claims whose name contains this")
    return parser
