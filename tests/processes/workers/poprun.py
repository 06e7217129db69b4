"""Stands in for poprun: writes down what it was given, and runs the command once for each instance.

An instance gets what it would get on another host: the variables that -x names, and no others.
"""

import json
import os
import shlex
import subprocess
import sys
from itertools import takewhile

words = sys.argv[1:]
flags = list(takewhile(lambda word: word.startswith("--"), words))
command = words[len(flags) :]
for_all, for_one, count = "", {}, 0
for flag in flags:
    name, _, value = flag.partition("=")
    if name == "--num-instances":
        count = int(value)
    elif name == "--mpi-local-args":
        for_all = value
    elif name == "--instance-mpi-local-args":
        number, _, own = value.partition(":")
        for_one[int(number)] = own


def exported(text):
    words = shlex.split(text)
    assert words[::2] == ["-x"] * (len(words) // 2), text
    pairs = [word.partition("=") for word in words[1::2]]
    return {name: value if equals else os.environ[name] for name, equals, value in pairs}


with open("poprun.json", "w") as file:
    json.dump({"argv": sys.argv, "env": dict(os.environ)}, file)
instances = [
    subprocess.Popen(command, env=exported(for_all) | exported(for_one[number]), start_new_session=True)
    for number in range(count)
]
codes = [instance.wait() for instance in instances]
sys.exit(next((code for code in codes if code), 0))
