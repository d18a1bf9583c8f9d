"""Counts the test cases of runs of `bazel test`:

    count_results.py [--skipped=TEXT] EVENTS STATUS [EVENTS STATUS ...]

EVENTS is a run's --build_event_json_file, STATUS its exit status, TEXT a run
that there was not and why. Names what failed or was skipped, and ends with
`N passed, N failed[, N skipped]`. A target that does not build is one failure;
so is a test program that fails without a failed case, as when it crashes. What
a run leaves out as incompatible is another run's. Exits 0 if some case passed
and none failed.
"""

import argparse
import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


def read_events(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def case_outcome(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("status") == "notrun":
        return "skipped"
    return "passed"


def case_outcomes(xml_path):
    """Yields (case name, outcome) from a test.xml; nothing if it is unreadable."""
    try:
        root = ElementTree.parse(xml_path).getroot()
    except (OSError, ElementTree.ParseError):
        return
    for case in root.iter("testcase"):
        suite, name = case.get("classname", ""), case.get("name", "")
        yield (suite + "." + name if suite else name), case_outcome(case)


def program_outcomes(label, result):
    """(name, outcome) of every case of one test program that ran."""
    outputs = {o["name"]: o.get("uri", "") for o in result.get("testActionOutput", [])}
    xml_path = urllib.parse.unquote(urllib.parse.urlparse(outputs.get("test.xml", "")).path)
    cases = [(label + " " + name, outcome) for name, outcome in case_outcomes(xml_path)]
    good = result["status"] in ("PASSED", "FLAKY")
    if not good and all(outcome != "failed" for _, outcome in cases):
        cases.append((label + " " + result["status"], "failed"))
    return cases or [(label, "passed")]


def does_not_build(event):
    incompatible = event.get("aborted", {}).get("reason") == "SKIPPED"
    return not incompatible and not event.get("completed", {}).get("success")


def outcomes_of_run(events, status):
    programs, outcomes = {}, []
    for event in events:
        event_id = event["id"]
        if "testResult" in event_id:
            key = event_id["testResult"]
            # A later attempt replaces an earlier one.
            programs[key["label"], key.get("run"), key.get("shard")] = event["testResult"]
        elif "targetCompleted" in event_id and does_not_build(event):
            outcomes.append((event_id["targetCompleted"]["label"] + " does not build", "failed"))
    for (label, _, _), result in sorted(programs.items(), key=lambda item: item[0][0]):
        outcomes += program_outcomes(label, result)
    if status != 0 and all(outcome != "failed" for _, outcome in outcomes):
        outcomes.append(("bazel: exit status %d" % status, "failed"))
    return outcomes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--skipped", action="append", default=[])
    parser.add_argument("runs", nargs="+")
    arguments = parser.parse_args()
    outcomes = [(text, "skipped") for text in arguments.skipped]
    for events, status in zip(arguments.runs[::2], arguments.runs[1::2]):
        outcomes += outcomes_of_run(read_events(events), int(status))
    count = {kind: 0 for kind in ("passed", "failed", "skipped")}
    for name, outcome in outcomes:
        count[outcome] += 1
    print()
    for kind in ("skipped", "failed"):
        for name, outcome in outcomes:
            if outcome == kind:
                print("%s: %s" % (kind.upper(), name))
    line = "%(passed)d passed, %(failed)d failed" % count
    print(line + (", %(skipped)d skipped" % count if count["skipped"] else ""))
    sys.exit(0 if count["passed"] and not count["failed"] else 1)


if __name__ == "__main__":
    main()
