"""A level-2 runner of the contract check's tiny model in plain Python that can break the contract in named ways.

``fake_runner.py FAULT,FAULT MODEL_BYTES run --request request.json --out DIR``
"""

import json
import os
import sys
import time
from array import array
from pathlib import Path

import xxhash

FAULTS, MODEL_BYTES = set(sys.argv[1].split(",")), int(sys.argv[2])
CONV, RELU, FLAT, OUTPUT = "/block.0/Conv_output_0", "relu:0", "flat", "scores"
SHAPES = {CONV: [1, 3, 6, 5], RELU: [1, 3, 6, 5], FLAT: [1, 90], OUTPUT: [1, 4]}
LEVEL = 0 if "level 0" in FAULTS else 2


def wave(count):
    return array("f", [((index * 7919 + 13) % 201 - 100) / 100.0 for index in range(count)])


def conv(x):
    w, b, y = wave(54), wave(3), array("f")
    for o in range(3):
        for i in range(6):
            for j in range(5):
                total = b[o]
                for c in range(2):
                    for u in range(3):
                        for v in range(3):
                            row, column = i + u - 1, j + v - 1
                            if 0 <= row < 6 and 0 <= column < 5:
                                total += x[(c * 6 + row) * 5 + column] * w[((o * 2 + c) * 3 + u) * 3 + v]
                y.append(total)
    return y


def relu(x):
    return array("f", [max(value, 0.0) for value in x])


def layers_of(x):
    y = conv(x)
    r = relu(y)
    m = wave(360)
    out = array("f", [sum(r[k] * m[k * 4 + j] for k in range(90)) for j in range(4)])
    return {CONV: y, RELU: r, FLAT: r, OUTPUT: out}


def leave(code, words):
    if "silent" not in FAULTS:
        print(words, file=sys.stderr)
    sys.exit(code)


def digest(values):
    return xxhash.xxh3_128_hexdigest(values.tobytes())


def stats(got, path, bound):
    ref = array("f")
    ref.frombytes(Path(path).read_bytes())
    differences = [a - b for a, b in zip(got, ref, strict=True)]
    worst = max(range(len(got)), key=lambda index: abs(differences[index]))
    factor = 2 if "wrong statistics" in FAULTS else 1
    return {
        "count": len(got),
        "differing": sum(a != b for a, b in zip(got, ref, strict=True)),
        "over_bound": sum(abs(d) > bound for d in differences),
        "max_abs": factor * abs(differences[worst]),
        "worst_index": worst,
        "worst_got": got[worst],
        "worst_ref": ref[worst],
        "sum_diff": sum(differences),
        "sum_sq_diff": sum(d * d for d in differences),
        "sum_sq_ref": sum(b * b for b in ref),
        "sum_sq_got": sum(a * a for a in got),
        "dot": sum(a * b for a, b in zip(got, ref, strict=True)),
        "nonfinite_mismatch": 0,
    }


def record(name, values, request, out):
    entry = {"id": name, "op": "", "dtype": "float32", "shape": SHAPES[name], "digest": digest(values)}
    if name in request["keep"] and "forgets keep" not in FAULTS:
        path = f"layer-{list(SHAPES).index(name)}.bin"
        kept = values if "wrong kept bytes" not in FAULTS else array("f", [0.0] * len(values))
        (out / path).write_bytes(kept.tobytes())
        entry["tensor"] = path
    if name in request["golden"] and "no statistics" not in FAULTS:
        entry["stats"] = stats(values, request["golden"][name]["path"], request["golden"][name]["bound"])
    return entry


def read_request():
    try:
        request = json.loads(Path("request.json").read_text())
    except ValueError:
        leave(1 if "crashes on bad JSON" in FAULTS else 2, "request.json is no JSON")
    if request["contract"] != 1 and "any contract" not in FAULTS:
        leave(2, "unknown contract")
    if request["backend"] != "cpu" and "any backend" not in FAULTS:
        leave(3, "unknown backend" if "backend unnamed" in FAULTS else f"unknown backend {request['backend']}")
    if not Path(request["model"]["path"]).exists() and "no model needed" not in FAULTS:
        leave(2, "no model")
    if not FAULTS & {"any model", "no model needed"} and Path(request["model"]["path"]).stat().st_size != MODEL_BYTES:
        if "dies on a cut model" in FAULTS:
            os.abort()
        leave(3, "the model is cut")
    return request


def isolated(request, out):
    for name, inputs in request["isolated"].items():
        given = array("f")
        given.frombytes(Path(inputs[CONV]["path"]).read_bytes())
        values = relu(given) if "isolated differs" not in FAULTS else given
        yield {**record(name, values, request, out), "isolated": "isolated unmarked" not in FAULTS}


def write(out, result):
    text = json.dumps(result)
    if "not JSON" in FAULTS:
        text = "{" + text
    if "torn" in FAULTS:
        with (out / "result.json").open("w") as file:
            for part in (text[:100], text[100:]):
                file.write(part)
                file.flush()
                time.sleep(0.3)
        return
    part = out / "result.part"
    part.write_text(text)
    if "left half" in FAULTS:
        (out / "rest.tmp").write_text("")
    if "no result" not in FAULTS:
        part.rename(out / "result.json")


def main():
    request = read_request()
    out = Path("out")
    out.mkdir(exist_ok=True)
    x = array("f")
    x.frombytes(Path("x.bin").read_bytes())
    if len(x) != 60:
        leave(0 if "any input" in FAULTS else 2, "input of a wrong size")
    if "stray" in FAULTS:
        Path("stray.log").write_text("")
    if "changes its input" in FAULTS:
        Path("x.bin").write_bytes(bytes(240))
    print("starting" if "chatter" in FAULTS else '{"event":"start"}', flush=True)
    layers = layers_of(x)
    output = array("f", [value * (1.5 if "wrong answer" in FAULTS else 1) for value in layers[OUTPUT]])
    kinds = [kind for kind in request["passes"] if kind == "plain" or LEVEL]
    count = 1 if "one iteration" in FAULTS else request["iterations"]
    passes = [
        {"kind": kind, "iteration": index, "outputs": {OUTPUT: digest(output)}, "latency_ns": 1}
        for kind in kinds
        for index in range(count)
    ]
    names = list(SHAPES) if "instrumented" in kinds else []
    if "disorder" in FAULTS:
        names.reverse()
    if "foreign layer" in FAULTS:
        names = names[:-1]
    records = [record(name, layers[name], request, out) for name in names]
    if "foreign layer" in FAULTS and records:
        records.append({**records[0], "id": "conv1_fused"})
    if "no layers" in FAULTS:
        records = []
    if "wrong shape" in FAULTS and records:
        records[0]["shape"] = [3, 6, 5]
    records += isolated(request, out)
    path = "../scores.bin" if "outside" in FAULTS else "scores.bin"
    (out / path).write_bytes(output.tobytes()[: 8 if "cut output" in FAULTS else None])
    output_digest = digest(output) if "wrong digest" not in FAULTS else "0" * 32
    stated = {"name": OUTPUT, "dtype": "float32", "shape": [1, 4], "digest": output_digest, "path": path}
    if "unknown type" in FAULTS:
        stated["dtype"] = "float31"
    result = {
        "contract": 1,
        "job": "another" if "wrong job" in FAULTS else request["job"],
        "attempt": request["attempt"],
        "runner": {"name": "fake", "version": "1", "build": "plain", "level": LEVEL},
        "effective": {"backend": "cpu", "precision": "fp32", "threads": 1, "affinity": None, "dispatch": "python"},
        "passes": passes,
        "outputs": [stated] if "output unnamed" not in FAULTS else [],
        "layers": records,
    }
    write(out, result)


main()
