"""Fuzz targets that are regression tests in the ordinary build.

    fuzz_test(
        name = "safetensors_fuzz",
        srcs = ["safetensors_fuzz.cc"],   # defines LLVMFuzzerTestOneInput
        corpus = glob(["corpus/safetensors/*"]),
        deps = ["//engine/model:safetensors"],
    )

`bazel test` replays the corpus, each file once. To look for new inputs:

    bazel build --config=fuzz //tests/fuzz:safetensors_fuzz
    bazel-bin/tests/fuzz/safetensors_fuzz -max_total_time=60 DIR
"""

def fuzz_test(name, srcs, corpus, deps = [], **kwargs):
    native.cc_test(
        name = name,
        srcs = srcs,
        args = ["$(location %s)" % file for file in corpus],
        data = corpus,
        linkopts = select({
            "//third_party:libfuzzer": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        deps = deps + select({
            "//third_party:libfuzzer": [],
            "//conditions:default": ["//third_party:replay_main"],
        }),
        **kwargs
    )
