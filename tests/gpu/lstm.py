#!/usr/bin/python3
"""Times of cuDNN's LSTM through PyTorch, one JSON object a line, for report.py.

By CUDA events around the turns of a sample, median over samples, as in
measure.h. float32 storage; `products` says how PyTorch multiplies.
"""
import argparse
import json
import statistics

import torch

SAMPLES = 9
SAMPLE_MS = 2.0
MAX_TURNS = 200


def milliseconds(work, turns):
    begin = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(turns):
        work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def measure(work):
    milliseconds(work, 3)
    turns = int(min(MAX_TURNS, max(1, SAMPLE_MS / milliseconds(work, 1))))
    samples = [1e3 * milliseconds(work, turns) / turns for _ in range(SAMPLES)]
    return {"us": statistics.median(samples), "us_min": min(samples),
            "us_max": max(samples)}


def run_case(hidden, batch, length, passes, products):
    lstm = torch.nn.LSTM(hidden, hidden).cuda()
    x = torch.randn(length, batch, hidden, device="cuda", requires_grad=True)
    dy = torch.randn(length, batch, hidden, device="cuda")

    # In train mode cuDNN keeps what a backward pass needs, asked for or not.
    def forward():
        lstm.eval()
        with torch.no_grad():
            lstm(x)

    def step():
        lstm.train()
        for p in lstm.parameters():
            p.grad = None
        x.grad = None
        lstm(x)[0].backward(dy)

    for name in passes:
        work = {"forward": forward, "step": step}[name]
        print(json.dumps({"what": "lstm", "hidden_size": hidden, "batch": batch,
                          "length": length, "pass": name, "products": products,
                          **measure(work)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    print(json.dumps({"what": "torch", "version": torch.__version__,
                      "cudnn": torch.backends.cudnn.version(),
                      "gpu": torch.cuda.get_device_name()}), flush=True)
    for products in ["fp32", "tf32"]:
        torch.backends.cudnn.allow_tf32 = products == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = products == "tf32"
        for hidden in [512, 1024, 2048]:
            run_case(hidden, 32, 128, ["forward", "step"], products)
        if quick:
            continue
        for batch in [8, 16, 32, 64, 128, 256]:
            for length in [32, 64, 128, 256, 512]:
                run_case(320, batch, length, ["forward"], products)


if __name__ == "__main__":
    main()
