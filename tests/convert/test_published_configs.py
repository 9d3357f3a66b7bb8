#!/usr/bin/env python3
"""Configs as they are published, with all their keys: read by both programs to the same config, with the published number of
parameters (tests/data/published_configs.json; null: refused, as longrope is not supported). The program: $TBLOCK."""
import json
import os
import subprocess
import sys

import harness
from harness import ROOT, Skip, temp
from tblock_convert import hf_config
from tblock_convert.errors import ConvertError

TBLOCK = os.environ.get("TBLOCK") or os.path.join(ROOT, "build", "release", "tblock")


def python_config(path):
    """The config of convert.py, or None where it is refused."""
    try:
        return hf_config.ConfigReader(path, json.load(open(path))).config()
    except ConvertError:
        return None


def test_published_configs_are_read_by_both():
    if not os.path.exists(TBLOCK):
        raise Skip("no program (%s)" % TBLOCK)
    for name, case in json.load(open(os.path.join(ROOT, "tests", "data", "published_configs.json"))).items():
        path = temp("config.json")
        with open(path, "w") as f:
            json.dump(case["config"], f)
        done = subprocess.run([TBLOCK, "info", path, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        python = python_config(path)
        if case["parameters"] is None:
            assert done.returncode == 3 and "longrope" in done.stderr and python is None, (name, done)
            continue
        assert done.returncode == 0, (name, done.stderr)
        report = json.loads(done.stdout)
        assert report["parameters"]["total"] == case["parameters"], (name, report["parameters"]["total"])
        assert python is not None, name
        for key, value in python.items():
            ours = report["config"].get(key, value)
            if key == "rope":   # the report has what is absent too
                ours = {k: v for k, v in ours.items() if k in value}
            assert ours == value, (name, key, ours, value)


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
