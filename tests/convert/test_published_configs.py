#!/usr/bin/env python3
"""Configs as they are published, with all their keys: they have the published number of parameters
 (tests/data/published_configs.json). The program: $TBLOCK."""
import json
import os
import subprocess
import sys

import harness
from harness import ROOT, Skip, temp

TBLOCK = os.environ.get("TBLOCK") or os.path.join(ROOT, "build", "release", "tblock")


def test_published_configs_are_read():
    if not os.path.exists(TBLOCK):
        raise Skip("no program (%s)" % TBLOCK)
    for name, case in json.load(open(os.path.join(ROOT, "tests", "data", "published_configs.json"))).items():
        path = temp("config.json")
        with open(path, "w") as f:
            json.dump(case["config"], f)
        done = subprocess.run([TBLOCK, "info", path, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        assert done.returncode == 0, (name, done.stderr)
        report = json.loads(done.stdout)
        assert report["parameters"]["total"] == case["parameters"], (name, report["parameters"]["total"])


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
